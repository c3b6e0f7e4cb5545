"""The network behind ``QuantileNetRecalibrator`` and its training.

Forward pass and check loss are written with operators that numpy and torch share: torch trains them, numpy runs them.
All random numbers come from one numpy generator, so that torch's global random state is neither used nor changed.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import ndtr, ndtri

from nearcal._arrays import FloatArray
from nearcal._saved import array, check_fields, declared_checks, float_array, require, savable, saved_array

_VALIDATION_LEVELS = np.linspace(0.05, 0.95, 19)
_VALIDATION_SHARE = 0.2


@savable
class QuantileNetwork(NamedTuple):
    """Weights of q(score, features): two hidden layers, each fed with the inputs and all earlier layers.

    Inputs x are the f features and the normal score of τ, so d = f + 1; h is the number of hidden units. The fields
    are numpy arrays, or torch tensors while training.
    """

    input_to_first: Any
    first_bias: Any
    first_slope: Any  # of PReLU below zero
    input_to_second: Any
    first_to_second: Any
    second_bias: Any
    second_slope: Any
    input_to_output: Any
    first_to_output: Any
    second_to_output: Any
    output_bias: Any

    @classmethod
    def shapes(cls, d: int, h: int) -> "QuantileNetwork":
        """Return the shapes of all weights."""
        return cls((d, h), (h,), (h,), (d, h), (h, h), (h,), (h,), (d, 1), (h, 1), (h, 1), (1,))

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> "QuantileNetwork":
        d, h = saved_array(saved, "input_to_first", np.float64, (None, None)).shape
        checks = {name: array(np.float64, shape) for name, shape in cls.shapes(d, h)._asdict().items()}
        return cls(**check_fields(saved, checks))

    @property
    def n_features(self) -> int:
        """The number of features f."""
        return len(self.input_to_first) - 1

    def __call__(self, features: Any, score: Any) -> Any:
        """Return quantiles (…, n, 1) of features (n, f) at normal scores (…, n, 1), or (…, 1, 1) alike for all rows."""
        first = _prelu(self._enter(self.input_to_first, features, score) + self.first_bias, self.first_slope)
        second = self._enter(self.input_to_second, features, score) + first @ self.first_to_second
        second = _prelu(second + self.second_bias, self.second_slope)
        direct = self._enter(self.input_to_output, features, score)
        return direct + first @ self.first_to_output + second @ self.second_to_output + self.output_bias

    @staticmethod
    def _enter(weights: Any, features: Any, score: Any) -> Any:
        """Return [features, score] @ weights without building the joint array."""
        return features @ weights[:-1] + score * weights[-1:]


_FARTHEST = 1e9  # standard deviations


class Schedule(NamedTuple):
    """How long and in which steps to train."""

    epochs: int
    patience: int
    batch_size: int
    learning_rate: float


@savable(center=float_array(1), scale=float_array(1))
@dataclass(frozen=True)
class Standardiser:
    """Columns to mean zero and standard deviation one; a constant column becomes zero."""

    center: FloatArray
    scale: FloatArray

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        one = cls(**check_fields(saved, declared_checks(cls)))
        require(
            one.center.shape == one.scale.shape,
            f"scale must have {len(one.center)} values, as many as center, got {len(one.scale)}",
        )
        require((one.scale > 0).all(), f"scale must be positive, got {one.scale.min():g}")
        return one

    @classmethod
    def learn(cls, columns: FloatArray) -> Self:
        """Learn from an (n, f) array."""
        largest = np.abs(columns).max(axis=0)
        unit = np.where(largest > 0, largest, 1.0)
        scale = unit * (columns / unit).std(axis=0)  # squares must neither overflow nor vanish
        # the rounding of the mean gives a constant column a tiny deviation
        constant = scale <= 1e-12 * largest
        return cls(columns.mean(axis=0), np.where(constant, 1.0, scale))

    def __call__(self, columns: FloatArray) -> FloatArray:
        """Standardise; what is farther out than a billion deviations, where a network knows nothing, stays there."""
        with np.errstate(over="ignore"):
            return np.clip((columns - self.center) / self.scale, -_FARTHEST, _FARTHEST)

    def invert(self, standard: FloatArray) -> FloatArray:
        """Undo."""
        return self.center + self.scale * standard


def check_loss(error: Any, level: Any) -> Any:
    """Return ρ_τ(e) = τ max(e, 0) + (1 - τ) max(-e, 0), for error e = y - q and level τ."""
    return level * error.clip(min=0) - (1 - level) * error.clip(max=0)


def train(
    torch: Any,
    features: FloatArray,
    target: FloatArray,
    hidden: int,
    schedule: Schedule,
    rng: np.random.Generator,
    weights: FloatArray | None = None,
) -> tuple[QuantileNetwork, FloatArray]:
    """Fit the network to standardised features (n, f) and responses (n, 1); return it with its validation losses.

    Losses count by ``weights``, (n, 1) of mean 1, if there are any.
    """
    order = rng.permutation(len(target))
    held_out = max(1, round(_VALIDATION_SHARE * len(order)))
    x, y = torch.from_numpy(features), torch.from_numpy(target)
    w = torch.from_numpy(np.ones_like(target) if weights is None else weights)
    training, validation = order[held_out:], order[:held_out]
    start = _initialise(features.shape[1], hidden, rng)
    network = QuantileNetwork(*(torch.tensor(weights, requires_grad=True) for weights in start))
    optimiser = torch.optim.Adam(network, lr=schedule.learning_rate)
    best, best_loss, since_best = start, np.inf, 0
    losses: list[float] = []
    with single_thread(torch):
        while len(losses) < schedule.epochs and since_best < schedule.patience:
            _pass_over(torch, network, optimiser, x[training], y[training], w[training], schedule.batch_size, rng)
            losses.append(validation_loss(torch, network, x[validation], y[validation], w[validation]))
            since_best += 1
            if losses[-1] < best_loss:
                best, best_loss, since_best = _weights(network), losses[-1], 0
    return best, np.array(losses)


@contextmanager
def single_thread(torch: Any) -> Iterator[None]:
    """Keep torch to one thread: on matrices as small as these, more threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _pass_over(
    torch: Any,
    network: QuantileNetwork,
    optimiser: Any,
    x: Any,
    y: Any,
    w: Any,
    batch_size: int,
    rng: np.random.Generator,
) -> None:
    """Take one Adam step on every batch, with a fresh level for every point."""
    order = rng.permutation(len(y))
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        score = rng.standard_normal((len(batch), 1))  # the normal score of a uniform level
        s, level = torch.from_numpy(score), torch.from_numpy(ndtr(score))
        optimiser.zero_grad()
        (w[batch] * check_loss(y[batch] - network(x[batch], s), level)).mean().backward()
        optimiser.step()


def validation_loss(torch: Any, network: QuantileNetwork, x: Any, y: Any, w: Any) -> float:
    """Return the mean check loss over the levels 5%, 10%, …, 95%, weighted by w."""
    level = torch.from_numpy(_VALIDATION_LEVELS[:, np.newaxis, np.newaxis])
    score = torch.from_numpy(ndtri(_VALIDATION_LEVELS)[:, np.newaxis, np.newaxis])
    with torch.no_grad():
        return float((w * check_loss(y - network(x, score), level)).mean())


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
