"""Monte-Carlo dropout, whose draws say too little about the noise, before and after recalibration."""

import torch
from diamonds import show, split
from torch import nn
from torch_network import train

import nearcal as nc


def make_network():
    """Return a network with a dropout layer."""
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(9), nn.Linear(9, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))


def main():
    """Train, draw, recalibrate, print."""
    training, calibration, new = split(__doc__, rows=20_000)
    network = train(make_network(), *training)
    show("weight scaling", nc.calibrate(network, *calibration), new)
    show("50 draws", nc.calibrate(network, *calibration, mc_dropout=50), new)


if __name__ == "__main__":
    main()
