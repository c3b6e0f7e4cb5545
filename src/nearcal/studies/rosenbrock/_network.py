"""The network: four hidden layers, each with ReLU, batch normalisation and dropout, trained on log y."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray
from nearcal.studies._study import Outcome
from nearcal.studies._training import Schedule, import_torch, seeded, train, weights_of, with_weights
from nearcal.studies.rosenbrock._data import generate

DROPOUT = 0.5
_MOMENTUM = 0.01  # as in Keras; of the last ten batches alone, PyTorch's default, statistics are noisy


def make_network(widths: Sequence[int]) -> Any:
    """Return an untrained network of two inputs and one output."""
    nn = import_torch().nn
    layers, inputs = [], 2
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.ReLU(), nn.BatchNorm1d(width, momentum=_MOMENTUM), nn.Dropout(DROPOUT)]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, 1))


def train_network(settings: Mapping[str, Any], seed: int) -> Outcome:
    """Train on the data of one seed; the outcome holds the weights."""
    data, _, _ = generate(settings["n"], seed)
    names = ("epochs", "batch_size", "learning_rate", "decay")
    schedule = Schedule(**{name: settings[name] for name in names}, fused=True)
    with seeded(seed) as torch:
        network = make_network(settings["widths"])

        def loss(output: Any, target: Any) -> Any:
            return torch.nn.functional.mse_loss(output[:, 0], target)

        train(network, loss, data.X, np.log(data.y), schedule)
    return Outcome({}, weights_of(network))


def trained_network(settings: Mapping[str, Any], trained: Outcome) -> Any:
    """Return the network of an outcome."""
    return with_weights(make_network(settings["widths"]), trained.arrays)


def settled(network: Any, X: FloatArray) -> Any:
    """Return a copy for prediction without dropout, with batch statistics of inputs that pass without it.

    Those of training are of thinned layers, which vary more (X. Li et al., *Understanding the disharmony between
    dropout and batch normalization by variance shift*, 2019), and the more so the narrower they are.
    """
    torch = import_torch()
    copied = copy.deepcopy(network).eval()
    with torch.no_grad():
        values = torch.tensor(X, dtype=torch.float32)
        for layer in copied:
            if isinstance(layer, torch.nn.BatchNorm1d):
                layer.running_mean.copy_(values.mean(dim=0))
                layer.running_var.copy_(values.var(dim=0))
            values = layer(values)
    return copied
