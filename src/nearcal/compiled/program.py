"""Compiled recalibration as a program: written once, traced to ONNX or run by torch.

It is made of operators that a tensor of torch has and a traced value of :mod:`nearcal.compiled.tracing` has as well,
and of the few functions of :class:`Operations`. Positions and parameters are in double precision, the student is in
single; every other number is a constant of the program.
"""

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray
from nearcal.compiled.anchors import LEAST_WEIGHT, NEAREST, Anchors
from nearcal.compiled.bases import BaseFamily
from nearcal.compiled.features import FARTHEST, Box, Features
from nearcal.compiled.network import LARGEST_LOG, LEVEL_SCORES
from nearcal.compiled.recalibrator import CompiledRecalibrator
from nearcal.compiled.student import NODES, Bumps, Student, middle_and_reach
from nearcal.compiled.surroundings import Surroundings
from nearcal.guarantees.bent_scores import PromisedReading
from nearcal.recalibration.curve import Curve
from nearcal.space import Ranges

_MIDDLE = NODES // 2
_SPAN, _FASTER = 0.5, 50.0  # of Ranges and Fade
_FEW_COLUMNS = 32


class Operations(Protocol):
    """What the program asks of a framework beyond operators."""

    def constant(self, values: Any, single: bool = False) -> Any:
        """Return numbers as a tensor, in double precision unless said otherwise."""

    def single(self, x: Any) -> Any:
        """Return a tensor in single precision."""

    def double(self, x: Any) -> Any:
        """Return a tensor in double precision."""

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        """Return x kept between two tensors."""

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """Return x where a condition holds, else y."""

    def exp(self, x: Any) -> Any:
        """Return the exponential."""

    def log(self, x: Any) -> Any:
        """Return the natural logarithm."""

    def sqrt(self, x: Any) -> Any:
        """Return the square root."""

    def sign(self, x: Any) -> Any:
        """Return -1, 0 or 1."""

    def concat(self, parts: Sequence[Any]) -> Any:
        """Return tables side by side."""

    def expand(self, x: Any) -> Any:
        """Return x with one more axis, of length 1, at the end."""

    def squeeze(self, x: Any) -> Any:
        """Return x without its last axis, of length 1."""

    def total(self, x: Any) -> Any:
        """Return sums over the last axis, which stays with length 1."""

    def largest(self, x: Any) -> Any:
        """Return the greatest over the last axis, which stays with length 1."""

    def columns(self, x: Any, start: int, stop: int) -> Any:
        """Return some columns of a table."""

    def sort(self, x: Any, width: int) -> Any:
        """Return rows of a table in increasing order; it has so many columns."""

    def smallest(self, x: Any, count: int) -> tuple[Any, Any]:
        """Return the smallest numbers of every row of a table, so many, and their columns."""

    def weighed(self, weights: Any, table: Any, places: Any) -> Any:
        """Return for every row the sum of some lines of a table, by weights, (n, k) as are the places of the lines."""


class Wanted(NamedTuple):
    """What is asked of rows: quantile levels, the coverage of an interval, the rate of false alarms, a promise."""

    levels: tuple[float, ...]
    coverage: float
    false_alarm: float
    promised: PromisedReading | None = None


def recalibration(
    ops: Operations, compiled: CompiledRecalibrator, family: BaseFamily, inputs: Mapping[str, Any], wanted: Wanted,
    look: Ranges | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return mean, std, lower, upper, quantiles, trust and out_of_distribution of rows, by name.

    ``inputs`` are the parameters of the family, and ``position`` where rows differ, ``look`` where the
    ranges of another layer are looked at; all in double precision.
    """
    surroundings, isolation = compiled.surroundings_, None
    if isinstance(compiled.student_, Curve):
        nothing = ops.columns(next(iter(inputs.values())), 0, 1) * ops.constant(0.0)
        trust = nothing + ops.constant(1.0)
    else:
        assert surroundings is not None
        table, isolation = _read(ops, compiled.student_, surroundings, inputs["position"])
        nothing, trust = isolation * ops.constant(0.0), _trust(ops, surroundings, inputs["position"], isolation)
    if look is not None:
        trust = _lesser(ops, trust, _ranges(ops, look, inputs["look"]))
    fades = look is not None or (surroundings is not None and surroundings.fade is not None)
    law: Law
    if isinstance(compiled.student_, Curve):
        law = SharedLaw(ops, compiled.student_, nothing, trust if fades else None)
    else:
        assert surroundings is not None
        law = TableLaw(ops, _fade(ops, table, trust, surroundings.everyone) if fades else table)
    levels, ends = ndtri(wanted.levels), ndtri([(1 - wanted.coverage) / 2, (1 + wanted.coverage) / 2])
    read = law
    if wanted.promised is not None:  # ends are scores of the recalibrated prediction before it is bent
        law, ends = BentLaw(law, wanted.promised.law), np.array(wanted.promised.ends)
    z = ops.concat([law.at(levels), read.at(ends)])
    values = family.quantiles(ops, inputs, z)
    mean, std = family.moments(ops, inputs, law)
    count = len(wanted.levels)
    flag = nothing > ops.constant(0.0)
    if isolation is not None and surroundings is not None:
        flag = isolation > ops.constant(surroundings.limit(wanted.false_alarm))
    return {
        "mean": mean,
        "std": std,
        "quantiles": ops.columns(values, 0, count),
        "lower": ops.columns(values, count, count + 1),
        "upper": ops.columns(values, count + 1, count + 2),
        "trust": trust,
        "out_of_distribution": flag,
    }


# ---- the student ----------------------------------------------------------------------------------------------------


def _read(ops: Operations, student: Student, surroundings: Surroundings, position: Any) -> tuple[Any, Any]:
    """Return tables with tails (n, q + 2) and the logarithm of isolation (n, 1), in double precision."""
    f = student.features
    points, inside = _points(ops, f, position)
    standard = (inside - _one(ops, f.center)) * _one(ops, f.scale)
    parts = [standard, _ranks(ops, f, standard)]
    location = ops.constant(student.location, single=True)
    if student.bumps:
        trend = ops.single(_trend(ops, student, position, inside))
        middle, reach = middle_and_reach(student.bumps)
        parts.append((trend - ops.constant(middle, single=True)) / ops.constant(reach, single=True))
        location = location + trend * ops.constant(student.share, single=True)
    x, net = ops.concat(parts), student.network
    zero, huge = ops.constant(0.0, single=True), ops.constant(3e38, single=True)
    first = ops.clip(x @ ops.constant(net.first, single=True) + _one(ops, net.first_bias), zero, huge)
    second = ops.clip(first @ ops.constant(net.second, single=True) + _one(ops, net.second_bias), zero, huge)
    outputs = second @ ops.constant(net.third, single=True) + x @ ops.constant(net.around, single=True)
    outputs = outputs + _one(ops, net.bias)
    if student.anchors is not None:
        outputs = outputs + _added(ops, student.anchors, inside)
    bounds = (ops.constant(bound, single=True) for bound in (-LARGEST_LOG, LARGEST_LOG))
    logs = ops.clip(ops.columns(outputs, 1, NODES), *bounds)
    increments = _one(ops, student.increments) * ops.exp(logs)
    location = location + ops.columns(outputs, 0, 1) * ops.constant(student.unit, single=True)
    table = increments @ ops.constant(student.to_nodes @ _tails(), single=True)
    table = table + location * ops.constant(np.repeat([1.0, 0.0], [NODES, 2])[np.newaxis], single=True)
    described = ops.double(ops.columns(outputs, NODES, NODES + 1))
    described = ops.clip(described, ops.constant(-20.0), ops.constant(20.0))
    known = described * ops.constant(student.scale[0]) + ops.constant(student.center[0])
    return ops.double(table), _isolation(ops, surroundings, known, ops.double(points - inside))


def _points(ops: Operations, box: Box | Features, position: Any) -> tuple[Any, Any]:
    """Return positions in a scaled space, in single precision, and brought into the box of the calibration points."""
    moved, space_map = position, box.space_map
    if space_map.matrix is not None:
        moved = moved - ops.constant(space_map.center[np.newaxis])
        matrix = space_map.matrix
        moved = moved * ops.constant(matrix[np.newaxis]) if matrix.ndim == 1 else moved @ ops.constant(matrix)
    if box.on_sphere:
        moved = moved / ops.sqrt(ops.total(moved * moved))
    points = ops.single(ops.clip(moved, ops.constant(-FARTHEST), ops.constant(FARTHEST)))
    return points, ops.clip(points, _one(ops, box.low), _one(ops, box.high))


def _ranks(ops: Operations, features: Features, standard: Any) -> Any:
    """Return the ranks of standardised columns; of few columns all at once, by products with what is mostly zeros."""
    zero, one = ops.constant(0.0, single=True), ops.constant(1.0, single=True)
    d, q = features.offset.shape
    if d > _FEW_COLUMNS:
        way = ops.expand(standard) * _one(ops, features.steepness) + _one(ops, features.offset)
        return ops.squeeze(ops.total(ops.clip(way, zero, one))) * _one(ops, features.rise) - one
    spread, gather = np.zeros((d, d, q)), np.zeros((d, q, d))
    spread[np.arange(d), np.arange(d)] = features.steepness
    gather[np.arange(d), :, np.arange(d)] = features.rise[:, np.newaxis]
    way = standard @ ops.constant(spread.reshape(d, d * q), single=True) + _one(ops, features.offset.ravel())
    return ops.clip(way, zero, one) @ ops.constant(gather.reshape(d * q, d), single=True) - one


def _added(ops: Operations, anchors: Anchors, inside: Any) -> Any:
    """Return what anchors add to the outputs of a network, as :meth:`Anchors.__call__` does."""
    origin, zero, one = anchors.origin, ops.constant(0.0), ops.constant(1.0)
    placed, centers = ops.double(inside) - ops.constant(origin[np.newaxis]), anchors.centers - origin
    lengths = ops.constant((centers * centers).sum(axis=1)[np.newaxis])
    squares = ops.total(placed * placed) + lengths - placed @ ops.constant(2 * centers.T)
    distances, places = ops.smallest(squares, NEAREST + 1)
    reach = ops.clip(ops.largest(distances), ops.constant(anchors.least), ops.constant(1e300))
    weights = ops.clip(one - ops.clip(distances, zero, ops.constant(1e300)) / reach, zero, one)
    weights = weights + ops.constant(LEAST_WEIGHT)
    return ops.weighed(ops.single(weights / ops.total(weights)), ops.constant(anchors.outputs, single=True), places)


def _trend(ops: Operations, student: Student, position: Any, inside: Any) -> Any:
    """Return the sum of functions; what features look at need not be found twice."""
    parts = (
        _bumps(ops, one, inside if one.box.is_of(student.features) else _points(ops, one.box, position)[1])
        for one in student.bumps
    )
    return reduce(operator.add, parts)


def _bumps(ops: Operations, bumps: Bumps, inside: Any) -> Any:
    placed = (ops.double(inside) - ops.constant(bumps.origin[np.newaxis])) / ops.constant(bumps.width)
    exponent = _pointed(ops, bumps, placed) if bumps.shape == "laplace" else _round(ops, bumps, placed)
    total = ops.exp(ops.clip(exponent, ops.constant(-700.0), ops.constant(0.0)))
    total = total @ ops.constant(bumps.heights[:, np.newaxis])
    return ops.clip(total, ops.constant(bumps.low), ops.constant(bumps.high)) + ops.constant(bumps.mean)


def _round(ops: Operations, bumps: Bumps, placed: Any) -> Any:
    own = ops.total(placed * placed) * ops.constant(0.5)
    lengths = 0.5 * (bumps.centers**2).sum(axis=1)
    return placed @ ops.constant(bumps.centers.T) - ops.constant(lengths[np.newaxis]) - own


def _pointed(ops: Operations, bumps: Bumps, placed: Any) -> Any:
    exponent = ops.constant(np.zeros((1, len(bumps.heights))))
    for j, centers in enumerate(bumps.centers.T):
        apart = ops.columns(placed, j, j + 1) - ops.constant(centers[np.newaxis])
        exponent = exponent - apart * ops.sign(apart)
    return exponent


def _one(ops: Operations, values: Any) -> Any:
    """Return constants in single precision for every row."""
    return ops.constant(np.asarray(values)[np.newaxis], single=True)


# ---- rows unlike the calibration set --------------------------------------------------------------------------------


def _isolation(ops: Operations, surroundings: Surroundings, known: Any, beyond: Any) -> Any:
    """Return the logarithm of isolation, as :meth:`Surroundings.log_isolation` does."""
    one = ops.constant(1.0)
    far = beyond * beyond
    if surroundings.metric == "cosine" and surroundings.distance is None:
        return known
    if surroundings.metric == "manhattan":
        length = ops.total(ops.sqrt(far))
    else:
        length = ops.sqrt(ops.largest(far)) if surroundings.metric == "chebyshev" else ops.sqrt(ops.total(far))
    if surroundings.distance is not None:
        share = length / ops.constant(surroundings.distance)
        return known - ops.log(ops.clip(one - share * share, ops.constant(1e-300), one))
    own = ops.exp(known)
    if surroundings.metric == "manhattan":
        return ops.log(own + length)
    if surroundings.metric == "chebyshev":
        return ops.log(ops.where(own > length, own, length))
    return ops.log(ops.sqrt(own * own + length * length))


def _trust(ops: Operations, surroundings: Surroundings, position: Any, isolation: Any) -> Any:
    fade = surroundings.fade
    if fade is None:
        return isolation * ops.constant(0.0) + ops.constant(1.0)
    trust = isolation * ops.constant(0.0) + ops.constant(1.0)
    if np.isfinite(fade.start):
        trust = _falling(ops, (isolation - ops.constant(fade.start)) / ops.constant(fade.gap))
    if fade.ranges is not None:
        trust = _lesser(ops, trust, _ranges(ops, fade.ranges, position))
    return trust


def _ranges(ops: Operations, ranges: Ranges, space: Any) -> Any:
    """Return the trust in rows by the ranges of columns, (n, 1)."""
    zero, large = ops.constant(0.0), 1e300
    parts = []
    for tail, beyond in (
        (ranges.tail_above, space - ops.constant(ranges.high[np.newaxis])),
        (ranges.tail_below, ops.constant(ranges.low[np.newaxis]) - space),
    ):
        unit = np.minimum(1 / np.maximum(tail, 1 / large), large)[np.newaxis]
        parts.append(ops.clip(beyond, zero, ops.constant(FARTHEST)) * ops.constant(unit))
    excess = ops.largest(ops.concat(parts))
    if np.isinf(ranges.limit):
        return excess * zero + ops.constant(1.0)
    return _falling(ops, (excess - ops.constant(ranges.limit)) / ops.constant(_SPAN))


def _falling(ops: Operations, way: Any) -> Any:
    share = ops.clip(way, ops.constant(0.0), ops.constant(1.0))
    return ops.constant(1.0) - share * share


def _lesser(ops: Operations, x: Any, y: Any) -> Any:
    return ops.where(x > y, y, x)


def _fade(ops: Operations, table: Any, trust: Any, everyone: Curve | None) -> Any:
    """Return tables with tails drawn to those of the base, as :func:`nearcal.recalibration.fade.fade_curve` does."""
    ends = np.concatenate([LEVEL_SCORES, [1.0, 1.0]])
    scores = ends
    if everyone is not None:
        line = everyone.line
        ends = np.concatenate([everyone.before(LEVEL_SCORES[np.newaxis])[0], line.slope_below[0], line.slope_above[0]])
    return _draw(ops, table, ends, trust, scores)


def _draw(ops: Operations, values: Any, ends: FloatArray, trust: Any, scores: FloatArray) -> Any:
    """Return what lies between ends and values by the trust in rows, far less of it where a change leads inwards."""
    one, zero = ops.constant(1.0), ops.constant(0.0)
    towards = ops.constant(ends[np.newaxis])
    narrowing = ops.clip(one - ops.sqrt(ops.clip(one - trust, zero, one)) * ops.constant(_FASTER), zero, one)
    way = ops.constant(scores[np.newaxis]) * ops.sign(values - towards)
    outwards = ops.clip((one + way) * ops.constant(0.5), zero, one)
    share = narrowing + (trust - narrowing) * outwards
    return share * values + (one - share) * towards


# ---- laws of rows ---------------------------------------------------------------------------------------------------


class Law(Protocol):
    """The scores of rows, to be read at any level."""

    def at(self, scores: FloatArray) -> Any:
        """Return the quantiles of scores at levels Φ(scores), (n, w)."""


class TableLaw:
    """Of every row its table with tails."""

    def __init__(self, ops: Operations, table: Any) -> None:
        self.ops, self.table = ops, table

    def at(self, scores: FloatArray) -> Any:
        """Read the tables."""
        return self.table @ self.ops.constant(reading(scores))


class SharedLaw:
    """One law of all rows, faded row by row where it is so wanted; ``nothing`` is zero for every row."""

    def __init__(self, ops: Operations, law: Curve, nothing: Any, trust: Any) -> None:
        self.ops, self.law, self.nothing, self.trust = ops, law, nothing, trust

    def at(self, scores: FloatArray) -> Any:
        """Return constants, drawn to the scores themselves."""
        values = self.nothing + self.ops.constant(self.law.before(scores[np.newaxis]))
        return values if self.trust is None else _draw(self.ops, values, scores, self.trust, scores)


class BentLaw:
    """Another law, behind one increasing map of all scores."""

    def __init__(self, law: Law, bent: Curve) -> None:
        self.law, self.bent = law, bent

    def at(self, scores: FloatArray) -> Any:
        """Read the other where the map says."""
        return self.law.at(self.bent.before(scores[np.newaxis])[0])


# ---- tables with tails: nodes and the slopes beyond them, (n, q + 2) ------------------------------------------------


def _tails() -> FloatArray:
    """Return the matrix (q, q + 2) that adds to nodes the slopes beyond them."""
    reach = LEVEL_SCORES[-1]
    slopes = np.zeros((NODES, 2))
    slopes[[0, _MIDDLE], 0] = -1 / reach, 1 / reach
    slopes[[_MIDDLE, -1], 1] = -1 / reach, 1 / reach
    return np.concatenate([np.eye(NODES), slopes], axis=1)


def reading(scores: FloatArray) -> FloatArray:
    """Return the matrix (q + 2, w) that reads tables with tails at some scores."""
    matrix = np.zeros((NODES + 2, len(scores)))
    for column, score in enumerate(scores):
        if score < LEVEL_SCORES[0]:
            matrix[0, column], matrix[NODES, column] = 1.0, score - LEVEL_SCORES[0]
        elif score > LEVEL_SCORES[-1]:
            matrix[NODES - 1, column], matrix[NODES + 1, column] = 1.0, score - LEVEL_SCORES[-1]
        else:
            left = min(int(np.searchsorted(LEVEL_SCORES, score, side="right")) - 1, NODES - 2)
            share = (score - LEVEL_SCORES[left]) / (LEVEL_SCORES[left + 1] - LEVEL_SCORES[left])
            matrix[left, column], matrix[left + 1, column] = 1 - share, share
    return matrix
