"""The data and the network: four hidden layers, each with ReLU, batch normalisation and dropout, trained on log y."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import nearcal as nc
from nearcal_studies.study import Outcome
from nearcal_studies.training import Schedule, seeded, train, weights_of, with_weights

SHAPE = 100.0
DROPOUT = 0.5
_MOMENTUM = 0.01  # as in Keras; of the last ten batches alone, PyTorch's default, statistics are noisy
_ROWS_AT_ONCE = 2500  # whose activations fit in the caches


class Data(NamedTuple):
    """Inputs of shape (n, 2) and responses of one part of the data."""

    X: NDArray[Any]
    y: NDArray[Any]


def rosenbrock(x1: NDArray[Any], x2: NDArray[Any]) -> NDArray[Any]:
    """Return the Rosenbrock function with a = 1 and b = 10."""
    return (1 - x1) ** 2 + 10 * (x2 - x1**2) ** 2


def true_mean(X: NDArray[Any]) -> NDArray[Any]:
    """Return E(Y | x)."""
    return rosenbrock(X[:, 0], X[:, 1])


def true_distribution(X: NDArray[Any]) -> nc.Gamma:
    """Return the distribution of Y given x: Gamma with shape 100."""
    return nc.Gamma(SHAPE, true_mean(X) / SHAPE)


def generate(n: int, seed: int) -> tuple[Data, Data, Data]:
    """Return training, calibration and test data: 80%, 10% and 10% of n observations."""
    rng = np.random.default_rng(seed)
    X = rng.uniform([-2.0, -1.0], [2.0, 5.0], size=(n, 2))
    y = rng.gamma(SHAPE, true_mean(X) / SHAPE)
    ends = [8 * n // 10, 9 * n // 10]
    train, cal, new = (Data(*part) for part in zip(np.split(X, ends), np.split(y, ends), strict=True))
    return train, cal, new


def make_network(widths: Sequence[int]) -> nn.Sequential:
    """Return an untrained network of two inputs and one output."""
    layers, inputs = [], 2
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.ReLU(), nn.BatchNorm1d(width, momentum=_MOMENTUM), nn.Dropout(DROPOUT)]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, 1))


def train_network(settings: Mapping[str, Any]) -> Outcome:
    """Train on standardised inputs of one seed; the outcome holds weights that take inputs as they are."""
    data, _, _ = generate(settings["n"], settings["seed"])
    names = ("epochs", "batch_size", "learning_rate", "decay")
    schedule = Schedule(**{name: settings[name] for name in names}, fused=True)

    def loss(output: Any, target: Any) -> Any:
        return nn.functional.mse_loss(output[:, 0], target)

    with seeded(settings["seed"]):
        network = make_network(settings["widths"])
        centre, spread = data.X.mean(axis=0), data.X.std(axis=0)
        train(network, loss, (data.X - centre) / spread, np.log(data.y), schedule)
    absorb_scaling(network, centre, spread)
    return Outcome({}, weights_of(network))


def absorb_scaling(network: Any, centre: NDArray[Any], spread: NDArray[Any]) -> None:
    """Change the first layer of a network for inputs (x - centre) / spread to do the same with x."""
    first = network[0]
    with torch.no_grad():
        first.weight.div_(torch.tensor(spread, dtype=torch.float32))
        first.bias.sub_(first.weight @ torch.tensor(centre, dtype=torch.float32))


def trained_network(settings: Mapping[str, Any], trained: Outcome) -> Any:
    """Return the network of an outcome."""
    return with_weights(make_network(settings["widths"]), trained.arrays)


def settled(network: Any, X: NDArray[Any]) -> Any:
    """Return a copy for prediction without dropout, with batch statistics of inputs that pass without it.

    Those of training are of thinned layers, which vary more (X. Li et al., *Understanding the disharmony between
    dropout and batch normalization by variance shift*, 2019), and the more so the narrower they are.
    """
    copied = copy.deepcopy(network).eval()
    with torch.no_grad():
        values = torch.tensor(X, dtype=torch.float32)
        for layer in copied:
            if isinstance(layer, nn.BatchNorm1d):
                layer.running_mean.copy_(values.mean(dim=0))
                layer.running_var.copy_(values.var(dim=0))
            values = layer(values)
    return copied


def dropout_draws(network: Any, X: NDArray[Any], draws: int, seed: int) -> NDArray[Any]:
    """Return the outputs of every draw of Monte-Carlo dropout, shape (n, draws), at a fraction of the usual cost.

    They are those of ``TorchModel(network, mc_dropout=draws, seed=seed)``. What a draw drops is left out of its
    matrices: with half of the units dropped in every layer, those between have a quarter of their size. The network is
    one of ``make_network``: batch normalisation, in evaluation mode a map of each unit, is put into the next layer.
    """
    layers = list(_layers(network))
    X32 = X.astype(np.float32)
    out = np.empty((len(X), draws))
    for draw in range(draws):
        thinned = _thin(layers, np.random.default_rng([seed, 0, draw]))
        for start in range(0, len(X), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            out[rows, draw] = _forward(thinned, X32[rows])
    return out


class _Layer(NamedTuple):
    """A linear layer, and what happens to each of its units before the next: scale, shift and dropout rate."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    scale: NDArray[np.float32]
    shift: NDArray[np.float32]
    rate: float


def _layers(network: Any) -> Iterator[_Layer]:
    *blocks, last = [list(network[start : start + 4]) for start in range(0, len(network), 4)]
    for linear, _, norm, dropout in blocks:
        scale = norm.weight.detach().numpy() / np.sqrt(norm.running_var.numpy() + norm.eps)
        shift = norm.bias.detach().numpy() - norm.running_mean.numpy() * scale
        yield _Layer(linear.weight.detach().numpy(), linear.bias.detach().numpy(), scale, shift, dropout.p)
    weight, bias = (parameter.detach().numpy() for parameter in last[0].parameters())
    yield _Layer(weight, bias, np.ones_like(bias), np.zeros_like(bias), 0.0)


def _thin(layers: Sequence[_Layer], rng: np.random.Generator) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return transposed weights and biases of the network that one draw leaves."""
    thinned = []
    kept_before: Any = slice(None)
    scale: Any = np.float32(1.0)  # of the units of the layer before
    shift: Any = np.float32(0.0)
    for layer in layers:
        kept: Any = np.flatnonzero(rng.random(len(layer.bias)) >= layer.rate) if layer.rate else slice(None)
        factor = np.float32(1 / (1 - layer.rate))
        weight = layer.weight[kept][:, kept_before]
        thinned.append((np.ascontiguousarray((weight * scale).T), layer.bias[kept] + (weight * shift).sum(axis=1)))
        kept_before, scale, shift = kept, layer.scale[kept] * factor, layer.shift[kept] * factor
    return thinned


def _forward(thinned: Sequence[tuple[NDArray[Any], NDArray[Any]]], X: NDArray[Any]) -> NDArray[Any]:
    for weight, bias in thinned[:-1]:
        X = X @ weight
        X += bias
        np.maximum(X, 0, out=X)
    weight, bias = thinned[-1]
    return (X @ weight + bias)[:, 0]
