"""Recalibrate a Keras network trained on squared error, in the space of a hidden layer."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from diamonds import show, split
from keras import layers

import nearcal as nc


def train_network(X, y, epochs=3):
    """Return a network of two hidden layers that predicts the price."""
    keras.utils.set_random_seed(0)
    scaling = layers.Normalization(name="scaling")
    scaling.adapt(X)
    network = keras.Sequential(
        [
            keras.Input((X.shape[1],)),
            scaling,
            layers.Dense(64, "relu", name="first"),
            layers.Dense(64, "relu", name="second"),
            layers.Dense(1, name="price"),
        ]
    )
    network.compile(keras.optimizers.Adam(0.003), "mse")
    network.fit(X, y, batch_size=256, epochs=epochs, verbose=0)
    return network


def main():
    """Train, recalibrate, print."""
    training, calibration, new = split(__doc__)
    network = train_network(*training)
    show("Keras network", nc.calibrate(network, *calibration), new)


if __name__ == "__main__":
    main()
