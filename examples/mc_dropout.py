"""Monte-Carlo dropout, whose draws say too little about the noise, before and after recalibration."""

import torch
from diamonds import compare, split
from torch import nn
from torch_network import train

import nearcal as nc


def make_network():
    """Return a network with a dropout layer."""
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(9), nn.Linear(9, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))


def main():
    """Train, draw, recalibrate, print."""
    training, calibration, new = split(__doc__)
    network = train(make_network(), *training)
    compare("weight scaling", nc.adapt(network), "2", calibration, new)
    compare("50 draws", nc.adapt(network, mc_dropout=50), "2", calibration, new)


if __name__ == "__main__":
    main()
