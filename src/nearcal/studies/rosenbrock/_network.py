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
    """Train on standardised inputs of one seed; the outcome holds weights that take inputs as they are."""
    data, _, _ = generate(settings["n"], seed)
    names = ("epochs", "batch_size", "learning_rate", "decay")
    schedule = Schedule(**{name: settings[name] for name in names}, fused=True)
    with seeded(seed) as torch:
        network = make_network(settings["widths"])

        def loss(output: Any, target: Any) -> Any:
            return torch.nn.functional.mse_loss(output[:, 0], target)

        centre, spread = data.X.mean(axis=0), data.X.std(axis=0)
        train(network, loss, (data.X - centre) / spread, np.log(data.y), schedule)
    absorb_scaling(network, centre, spread)
    return Outcome({}, weights_of(network))


def absorb_scaling(network: Any, centre: FloatArray, spread: FloatArray) -> None:
    """Change the first layer of a network for inputs (x - centre) / spread to do the same with x."""
    torch = import_torch()
    first = network[0]
    with torch.no_grad():
        first.weight.div_(torch.tensor(spread, dtype=torch.float32))
        first.bias.sub_(first.weight @ torch.tensor(centre, dtype=torch.float32))


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
