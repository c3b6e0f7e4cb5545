"""Recalibrate a PyTorch network trained on squared error, in the layer that leave-one-out CRPS chooses."""

import torch
from diamonds import show, split
from torch import nn

import nearcal as nc


def make_network():
    """Return a network of two hidden layers."""
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(9), nn.Linear(9, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


def train(network, X, y, epochs=5):
    """Return the network, trained on squared error."""
    X, y = torch.tensor(X), torch.tensor(y)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
    for _ in range(epochs):
        for batch in torch.randperm(len(y)).split(128):
            loss = nn.functional.mse_loss(network(X[batch])[:, 0], y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network


def main():
    """Train, recalibrate, print."""
    training, calibration, new = split(__doc__)
    network = train(make_network(), *training)
    show("PyTorch network", nc.calibrate(network, *calibration, workers=nc.Workers(progress=True)), new)


if __name__ == "__main__":
    main()
