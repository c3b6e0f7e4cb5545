"""Monte-Carlo dropout at a fraction of its cost: what a draw drops is left out of its matrices."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray
from nearcal.models.adapters.batches import Thinning
from nearcal.studies._training import import_torch

_ROWS_AT_ONCE = 2500  # whose activations fit in the caches


def dropout_draws(network: Any, X: FloatArray, draws: int, seed: int) -> FloatArray:
    """Return the outputs of every draw, shape (n, draws).

    They are those of ``TorchModel(network, mc_dropout=draws, seed=seed)``. With half of the units dropped in every
    layer, the matrices between them have a quarter of their size. The network is one of ``make_network``: batch
    normalisation, in evaluation mode a map of each unit, is put into the next layer.
    """
    layers = _layers(network)
    X32 = X.astype(np.float32)
    out = np.empty((len(X), draws))
    for draw in range(draws):
        thinned = _thin(layers, Thinning(seed, 0, draw))
        for start in range(0, len(X), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            out[rows, draw] = _forward(thinned, X32[rows])
    return out


class _Layer:
    """A linear layer, and what happens to each of its units before the next: scale, shift and dropout rate."""

    def __init__(self, linear: Any) -> None:
        self.weight: NDArray[np.float32] = linear.weight.detach().numpy()
        self.bias: NDArray[np.float32] = linear.bias.detach().numpy()
        self.scale, self.shift, self.rate = np.ones_like(self.bias), np.zeros_like(self.bias), 0.0

    def normalise(self, norm: Any) -> None:
        """Take a batch normalisation of the units, with the statistics of training."""
        spread = np.sqrt(norm.running_var.numpy() + norm.eps)
        self.scale = norm.weight.detach().numpy() / spread
        self.shift = norm.bias.detach().numpy() - norm.running_mean.numpy() * self.scale


def _layers(network: Any) -> list[_Layer]:
    nn = import_torch().nn
    layers: list[_Layer] = []
    for module in network:
        if isinstance(module, nn.Linear):
            layers.append(_Layer(module))
        elif isinstance(module, nn.BatchNorm1d):
            layers[-1].normalise(module)
        elif isinstance(module, nn.Dropout):
            layers[-1].rate = module.p
    return layers


def _thin(layers: list[_Layer], thinning: Thinning) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Return transposed weights and biases of the network that one draw leaves."""
    thinned = []
    kept_before: Any = slice(None)
    scale, shift = np.float32(1.0), np.float32(0.0)  # of the units of the layer before
    for layer in layers:
        kept: Any = slice(None)
        factor = np.float32(1.0)
        if layer.rate:
            mask, _ = thinning.factors((1, len(layer.bias)), layer.rate, 1, keeps_moments=False)
            kept = np.flatnonzero(mask[0])
            factor = np.float32(1 / (1 - layer.rate))
        weight = layer.weight[kept][:, kept_before]
        thinned.append((np.ascontiguousarray((weight * scale).T), layer.bias[kept] + (weight * shift).sum(axis=1)))
        kept_before, scale, shift = kept, layer.scale[kept] * factor, layer.shift[kept] * factor
    return thinned


def _forward(thinned: list[tuple[NDArray[np.float32], NDArray[np.float32]]], X: NDArray[np.float32]) -> Any:
    for weight, bias in thinned[:-1]:
        X = X @ weight
        X += bias
        np.maximum(X, 0, out=X)
    weight, bias = thinned[-1]
    return (X @ weight + bias)[:, 0]
