"""The network behind ``QuantileNetRecalibrator`` and its training.

Forward pass and check loss are written with operators that numpy and torch share: torch trains them, numpy runs them.
All random numbers come from one numpy generator, so that torch's global random state is neither used nor changed.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import ndtr, ndtri

from nearcal._arrays import FloatArray

_VALIDATION_LEVELS = np.linspace(0.05, 0.95, 19)
_VALIDATION_SHARE = 0.2


class QuantileNetwork(NamedTuple):
    """Weights of q(score, features): two hidden layers, each fed with the inputs and all earlier layers.

    Inputs x are the f features and the normal score of τ, so d = f + 1; h is the number of hidden units. The fields
    are numpy arrays, or torch tensors while training.
    """

    input_to_first: Any  # (d, h)
    first_bias: Any  # (h,)
    first_slope: Any  # (h,), of PReLU below zero
    input_to_second: Any  # (d, h)
    first_to_second: Any  # (h, h)
    second_bias: Any  # (h,)
    second_slope: Any  # (h,)
    input_to_output: Any  # (d, 1)
    first_to_output: Any  # (h, 1)
    second_to_output: Any  # (h, 1)
    output_bias: Any  # (1,)

    def __call__(self, features: Any, score: Any) -> Any:
        """Return the quantiles, (n, 1), of features (n, f) at normal scores (n, 1)."""
        first = _prelu(self._enter(self.input_to_first, features, score) + self.first_bias, self.first_slope)
        second = self._enter(self.input_to_second, features, score) + first @ self.first_to_second
        second = _prelu(second + self.second_bias, self.second_slope)
        direct = self._enter(self.input_to_output, features, score)
        return direct + first @ self.first_to_output + second @ self.second_to_output + self.output_bias

    @staticmethod
    def _enter(weights: Any, features: Any, score: Any) -> Any:
        """Return [features, score] @ weights without building the joint array."""
        return features @ weights[:-1] + score * weights[-1:]


class Schedule(NamedTuple):
    """How long and in which steps to train."""

    epochs: int
    patience: int
    batch_size: int
    learning_rate: float


@dataclass(frozen=True)
class Standardiser:
    """Columns to mean zero and standard deviation one; a constant column becomes zero."""

    center: FloatArray
    scale: FloatArray

    @classmethod
    def learn(cls, columns: FloatArray) -> Self:
        """Learn from an (n, f) array."""
        scale = columns.std(axis=0)
        # the rounding of the mean gives a constant column a tiny deviation
        constant = scale <= 1e-12 * np.abs(columns).max(axis=0)
        return cls(columns.mean(axis=0), np.where(constant, 1.0, scale))

    def __call__(self, columns: FloatArray) -> FloatArray:
        """Standardise."""
        return (columns - self.center) / self.scale

    def invert(self, standard: FloatArray) -> FloatArray:
        """Undo."""
        return self.center + self.scale * standard


def check_loss(error: Any, level: Any) -> Any:
    """Return ρ_τ(e) = τ max(e, 0) + (1 - τ) max(-e, 0), for error e = y - q and level τ."""
    return level * error.clip(min=0) - (1 - level) * error.clip(max=0)


def train(
    torch: Any, features: FloatArray, target: FloatArray, hidden: int, schedule: Schedule, rng: np.random.Generator
) -> tuple[QuantileNetwork, FloatArray]:
    """Fit the network to standardised features (n, f) and responses (n, 1); return it with its validation losses."""
    order = rng.permutation(len(target))
    held_out = max(1, round(_VALIDATION_SHARE * len(order)))
    training, validation = order[held_out:], order[:held_out]
    network = QuantileNetwork(
        *(torch.tensor(w, requires_grad=True) for w in _initialise(features.shape[1], hidden, rng))
    )
    optimiser = torch.optim.Adam(network, lr=schedule.learning_rate)
    best, losses = _weights(network), [validation_loss(_weights(network), features[validation], target[validation])]
    since_best = 0
    for _ in range(schedule.epochs):
        _pass_over(torch, network, optimiser, features[training], target[training], schedule.batch_size, rng)
        weights = _weights(network)
        losses.append(validation_loss(weights, features[validation], target[validation]))
        improved = losses[-1] < min(losses[:-1])
        best, since_best = (weights, 0) if improved else (best, since_best + 1)
        if since_best >= schedule.patience:
            break
    return best, np.array(losses[1:])


def _pass_over(
    torch: Any,
    network: QuantileNetwork,
    optimiser: Any,
    features: FloatArray,
    target: FloatArray,
    batch_size: int,
    rng: np.random.Generator,
) -> None:
    """Take one Adam step on every batch, with a fresh level for every point."""
    order = rng.permutation(len(target))
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        # a uniform level is zero once in 2⁵³, where its score would be infinite
        score = np.clip(rng.standard_normal((len(batch), 1)), -8.0, 8.0)
        x, y, s, level = (torch.from_numpy(array) for array in (features[batch], target[batch], score, ndtr(score)))
        optimiser.zero_grad()
        check_loss(y - network(x, s), level).mean().backward()
        optimiser.step()


def validation_loss(network: QuantileNetwork, features: FloatArray, target: FloatArray) -> float:
    """Return the mean check loss over the levels 5%, 10%, …, 95%."""
    scores = ndtri(_VALIDATION_LEVELS)
    losses = [
        check_loss(target - network(features, np.full((len(target), 1), score)), level).mean()
        for score, level in zip(scores, _VALIDATION_LEVELS, strict=True)
    ]
    return float(np.mean(losses))


def _initialise(f: int, h: int, rng: np.random.Generator) -> QuantileNetwork:
    """Draw weights uniformly from ±1/√(units that feed a unit), torch's rule for linear layers; biases are zero."""

    def uniform(rows: int, columns: int, fan_in: int) -> FloatArray:
        return rng.uniform(-1, 1, size=(rows, columns)) / np.sqrt(fan_in)

    d = f + 1
    return QuantileNetwork(
        uniform(d, h, d),
        np.zeros(h),
        np.full(h, 0.25),
        uniform(d, h, d + h),
        uniform(h, h, d + h),
        np.zeros(h),
        np.full(h, 0.25),
        uniform(d, 1, d + 2 * h),
        uniform(h, 1, d + 2 * h),
        uniform(h, 1, d + 2 * h),
        np.zeros(1),
    )


def _prelu(x: Any, slope: Any) -> Any:
    return x.clip(min=0) + slope * x.clip(max=0)


def _weights(network: QuantileNetwork) -> QuantileNetwork:
    """Return a copy of the weights as numpy arrays."""
    return QuantileNetwork(*(tensor.detach().numpy().copy() for tensor in network))
