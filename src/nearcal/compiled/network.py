"""A small network from what is known of a row to a table of score quantiles, and its training, in numpy alone."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.special import ndtr

from nearcal._arrays import FloatArray
from nearcal._saved import array, check_fields, savable, saved_array
from nearcal.compiled.features import Singles, by_blocks

LEVEL_SCORES = np.linspace(-3.0, 3.0, 31)  # where tables are read, on the scale of normal scores
DESCRIBED = 2  # further outputs: logarithms of isolation and of effective size
LARGEST_LOG = 6.0  # of an increment relative to the usual one
_NODES, _MIDDLE = len(LEVEL_SCORES), len(LEVEL_SCORES) // 2
_LEVELS = ndtr(LEVEL_SCORES).astype(np.float32)
_SHARES = np.maximum(np.exp(-(LEVEL_SCORES**2) / 2), 0.05)  # of nodes in the loss: the density, and something of tails
_SHARES = (_SHARES / _SHARES.sum()).astype(np.float32)
_OWN_SHARE = 0.85  # of the response of a point in its loss; the rest is what the others say of it
_DESCRIBED_SHARE = 0.05
_DECAY = 0.03
_MEMORY = 0.99  # of squares of slopes, from a step to the next: lessons are short


def outwards() -> FloatArray:
    """Return the matrix (q - 1, q) that adds up increments between nodes, from the middle one to either side."""
    step, node = np.arange(_NODES - 1)[:, np.newaxis], np.arange(_NODES)
    above, below = (step >= _MIDDLE) & (step < node), (step < _MIDDLE) & (step >= node)
    return above.astype(np.float64) - below.astype(np.float64)


_OUTWARDS = outwards().astype(np.float32)


@savable
class Network(NamedTuple):
    """Weights of two hidden layers with a way around them; arrays of float32.

    Outputs are a location, logarithms of the increments between nodes relative to the usual ones, and two numbers that
    describe the row. With f inputs, h hidden units and o outputs:
    """

    first: Any  # (f, h)
    first_bias: Any
    second: Any  # (h, h)
    second_bias: Any
    third: Any  # (h, o)
    around: Any  # (f, o)
    bias: Any

    @classmethod
    def shapes(cls, f: int, h: int) -> "Network":
        """Return the shapes of all weights."""
        o = _NODES + DESCRIBED
        return cls((f, h), (h,), (h, h), (h,), (h, o), (f, o), (o,))

    @classmethod
    def draw(cls, f: int, h: int, rng: np.random.Generator) -> "Network":
        """Draw weights by He's rule; outputs begin at zero, which is what all rows have in common."""
        shapes = cls.shapes(f, h)
        drawn = [np.zeros(shape, np.float32) for shape in shapes]
        for place in (0, 2):
            drawn[place] = (rng.standard_normal(shapes[place]) * np.sqrt(2 / shapes[place][0])).astype(np.float32)
        return cls(*drawn)

    @classmethod
    def averaged(cls, networks: "list[Network]") -> "Network":
        """Return one network whose outputs are the mean of several: their units side by side, in blocks."""
        if len(networks) == 1:
            return networks[0]
        first, first_bias, second, second_bias, third, around, bias = zip(*networks, strict=True)
        share = np.float32(1 / len(networks))
        return cls(
            np.concatenate(first, axis=1), np.concatenate(first_bias), block_diag(*second), np.concatenate(second_bias),
            share * np.concatenate(third), share * sum(around), share * sum(bias),
        )  # fmt: skip

    def in_units(self, ratio: float) -> "Network":
        """Return the same with its first output, the location, so many times as large."""
        scale = np.ones(len(self.bias), np.float32)
        scale[0] = ratio
        return self._replace(third=self.third * scale, around=self.around * scale, bias=self.bias * scale)

    def with_blind_input(self) -> "Network":
        """Return the same with one more input, to which it pays no attention."""
        nothing = np.zeros((1, self.first.shape[1]), np.float32), np.zeros((1, self.around.shape[1]), np.float32)
        first, around = (np.concatenate(parts) for parts in zip((self.first, self.around), nothing, strict=True))
        return self._replace(first=first, around=around)

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> "Network":
        f, h = saved_array(saved, "first", np.float32, (None, None)).shape
        checks = {name: array(np.float32, shape) for name, shape in cls.shapes(f, h)._asdict().items()}
        return cls(**check_fields(saved, checks))

    def __call__(self, inputs: Singles) -> Singles:
        """Return the outputs of n rows, (n, o)."""
        return by_blocks(lambda blocks: self._layers(blocks)[-1], inputs)

    def _layers(self, x: Any) -> tuple[Any, Any, Any]:
        first = x @ self.first + self.first_bias
        np.maximum(first, 0, out=first)
        second = first @ self.second + self.second_bias
        np.maximum(second, 0, out=second)
        return first, second, second @ self.third + x @ self.around + self.bias


class Targets(NamedTuple):
    """What outputs should become, one line a row: tables and descriptions, the response's score where there is one."""

    tables: Singles  # (n, q), less the trend where there is one
    described: Singles  # (n, 2), standardised
    z: Singles  # (n,), NaN where there is none
    weights: Singles  # (n,), of mean 1


class Units(NamedTuple):
    """What outputs of zero and one mean: a location and its unit, and the usual increments."""

    location: float
    unit: float
    increments: FloatArray

    @classmethod
    def of(cls, tables: FloatArray, weights: FloatArray) -> "Units":
        """Return the mean location and increments of some tables, and the spread of locations."""
        location, increments = tables[:, _MIDDLE], np.diff(tables, axis=1)
        usual = np.average(increments, axis=0, weights=weights)
        mean = float(np.average(location, weights=weights))
        spread = float(np.sqrt(np.average((location - mean) ** 2, weights=weights)))
        return cls(mean, max(spread, 0.05 * float(usual.sum())), np.maximum(usual, 1e-3 * usual.mean()))

    @classmethod
    def mean_of(cls, units: "Sequence[Units]") -> "Units":
        """Return those of the mean of several students, whose increments are averaged as logarithms."""
        location, unit, increments = zip(*units, strict=True)
        return cls(float(np.mean(location)), float(np.mean(unit)), np.exp(np.mean(np.log(increments), axis=0)))


class Effort(NamedTuple):
    """How many networks are averaged, how large each is, and how long it learns."""

    hidden: int
    steps: int
    members: int = 1
    batch: int = 128
    rate: float = 3e-3


def train(inputs: Singles, targets: Targets, units: Units, effort: Effort, rng: np.random.Generator) -> Network:
    """Fit networks, each from a start and in an order of its own, and average them."""
    return Network.averaged([_train(inputs, targets, units, effort, rng) for _ in range(effort.members)])


def _train(inputs: Singles, targets: Targets, units: Units, effort: Effort, rng: np.random.Generator) -> Network:
    """Fit a network by Adam: L1 to tables, and of points with a response mostly their CRPS, node by node.

    Both are sums over nodes of distances on the scale of scores. The second lets the student see what neighbourhoods
    have smoothed away or, being few, have made up.
    """
    adam = Adam(Network.draw(inputs.shape[1], effort.hidden, rng))
    order, start, batch = rng.permutation(len(inputs)), 0, min(effort.batch, len(inputs))
    for step in range(1, effort.steps + 1):
        if start + batch > len(order):
            order, start = rng.permutation(len(inputs)), 0
        rows = order[start : start + batch]
        start += batch
        own = Targets(*(part[rows] for part in targets))
        _slopes(adam.network, inputs[rows], own, units, adam.slopes)
        adam.move(effort.rate * (1 - step / effort.steps) * min(1.0, step / 100))
    return adam.network


class Adam:
    """Adam with decay of matrices; in place, all weights in one array, since what it does to each is little.

    Attributes
    ----------
    network, slopes : Network
        The weights, and where derivatives by them are to be put.
    """

    def __init__(self, start: Network) -> None:
        sizes = [weights.size for weights in start]
        self._all, self._slopes, self._mean, self._square, self._work = np.zeros((5, sum(sizes)), np.float32)
        self._step, self._ends = 0, np.cumsum([0, *sizes])
        self.network, self.slopes = self._shaped(self._all, start), self._shaped(self._slopes, start)
        for weights, drawn in zip(self.network, start, strict=True):
            weights[...] = drawn

    def _shaped(self, flat: Singles, like: Network) -> Network:
        parts = (flat[first:end] for first, end in pairwise(self._ends))
        return Network(*(part.reshape(one.shape) for part, one in zip(parts, like, strict=True)))

    def move(self, rate: float) -> None:
        """Move all weights against the slopes."""
        self._step += 1
        work, slopes = self._work, self._slopes
        np.subtract(slopes, self._mean, out=work)
        work *= np.float32(0.1)
        self._mean += work
        np.multiply(slopes, slopes, out=work)
        work -= self._square
        work *= np.float32(1 - _MEMORY)
        self._square += work
        np.sqrt(self._square, out=work)
        work += np.float32(1e-8)
        np.divide(self._mean, work, out=work)
        work *= np.float32(rate * np.sqrt(1 - _MEMORY**self._step) / (1 - 0.9**self._step))
        for weights in self.network:
            if weights.ndim == 2:
                weights *= np.float32(1 - rate * _DECAY)
        self._all -= work


def _slopes(network: Network, x: Singles, targets: Targets, units: Units, slopes: Network) -> None:
    """Put the derivatives of the mean loss of a batch by every weight where they are wanted."""
    first, second, outputs = network._layers(x)
    increments = units.increments.astype(np.float32)
    logs = outputs[:, 1:_NODES]
    grown = increments * np.exp(np.clip(logs, -LARGEST_LOG, LARGEST_LOG))
    nodes = np.float32(units.location) + np.float32(units.unit) * outputs[:, :1] + grown @ _OUTWARDS
    by_table, z = np.sign(nodes - targets.tables), targets.z[:, np.newaxis]
    by_response = 2 * ((z < nodes) - _LEVELS)
    by_node = np.where(np.isnan(z), by_table, (1 - _OWN_SHARE) * by_table + _OWN_SHARE * by_response)
    weights = targets.weights[:, np.newaxis] / np.float32(len(x))
    by_node = (by_node * _SHARES * weights).astype(np.float32)
    by_output = np.empty_like(outputs)
    by_output[:, 0] = np.float32(units.unit) * by_node.sum(axis=1)
    by_output[:, 1:_NODES] = (by_node @ _OUTWARDS.T) * grown * (np.abs(logs) < LARGEST_LOG)
    by_output[:, _NODES:] = _DESCRIBED_SHARE * np.sign(outputs[:, _NODES:] - targets.described) * weights
    by_second = by_output @ network.third.T
    by_second *= second > 0
    by_first = by_second @ network.second.T
    by_first *= first > 0
    for into, left, right in (
        (slopes.first, x, by_first), (slopes.second, first, by_second), (slopes.third, second, by_output),
        (slopes.around, x, by_output),
    ):  # fmt: skip
        np.matmul(left.T, right, out=into)
    for into, right in ((slopes.first_bias, by_first), (slopes.second_bias, by_second), (slopes.bias, by_output)):
        np.sum(right, axis=0, out=into)
