"""A student: a small function of the position that says what the exact recalibrator would."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple, Self

import numpy as np

from nearcal._arrays import FloatArray
from nearcal._saved import array, float_array, instance, number, one_of, optional, require, savable, tuple_of
from nearcal.compiled.anchors import NEAREST, Anchors
from nearcal.compiled.features import Box, Features, Singles, by_blocks
from nearcal.compiled.lessons import Lesson, Part
from nearcal.compiled.network import (
    DESCRIBED,
    LARGEST_LOG,
    LEVEL_SCORES,
    Effort,
    Network,
    Targets,
    Units,
    outwards,
    train,
)
from nearcal.recalibration.polish import LearntPolish
from nearcal.recalibration.smooth import SHAPES, Shape, evenly_spaced

NODES = len(LEVEL_SCORES)
_MIDDLE = NODES // 2
_MOST_ANCHORS = 4096


@savable(
    box=instance(Box), shape=one_of(*SHAPES), origin=float_array(1), width=number(5e-324), centers=float_array(2),
    heights=float_array(1), mean=number(), low=number(), high=number(),
)  # fmt: skip
@dataclass(frozen=True)
class Bumps:
    """A smooth function of position: mean + Σ_l c_l exp(-|x - u_l|² / 2), in units of a width, the sum kept in bounds.

    Pointed bumps are exp(-Σ_j |x_j - u_lj|).

    Its centres lie between calibration points, at none of them. Heights are large and cancel: it is computed in double
    precision. Beyond the box of the calibration points it is what it is at the edge.
    """

    box: Box
    shape: Shape
    origin: FloatArray
    width: float
    centers: FloatArray
    heights: FloatArray
    mean: float
    low: float
    high: float

    def __post_init__(self) -> None:
        fits = self.centers.shape == (len(self.heights), len(self.origin))
        require(fits, f"centers must be {len(self.heights)} in {len(self.origin)} columns, got {self.centers.shape}")
        width = len(self.box.low)
        require(len(self.origin) == width, f"bumps must be in {width} columns, got {len(self.origin)}")

    @classmethod
    def of(cls, part: Part) -> Self:
        """Return the function of a trend, times its share, without its values at calibration points."""
        trend, share = part.function, part.ground.share
        shape, width = trend.settings.shape, trend.settings.width
        ends = share * trend.mean, share * trend.low, share * trend.high
        return cls(part.box, shape, trend.origin, width, trend.centers, share * trend.heights, *ends)

    def __call__(self, positions: FloatArray) -> FloatArray:
        """Return the function at positions as they are given."""
        placed = (self.box(positions) - self.origin) / self.width
        total = by_blocks(lambda blocks: self._bumps(blocks) @ self.heights[:, np.newaxis], placed)[:, 0]
        return self.mean + np.clip(total, self.low, self.high)

    def _bumps(self, blocks: Any) -> Any:
        if self.shape == "laplace":
            return np.exp(-sum(np.abs(blocks[..., [j]] - center) for j, center in enumerate(self.centers.T)))
        own = 0.5 * (blocks * blocks).sum(axis=-1, keepdims=True)
        return np.exp(np.minimum(blocks @ self.centers.T - 0.5 * (self.centers**2).sum(axis=1) - own, 0.0))


class Reading(NamedTuple):
    """What a student says of n rows: tables (n, q), and logarithms of isolation and effective size, (n,)."""

    tables: FloatArray
    log_isolation: FloatArray
    log_size: FloatArray


class Kind(NamedTuple):
    """A kind of network, beside a trend or alone, and how it learns."""

    has_trend: bool
    effort: Effort

    def __str__(self) -> str:
        hidden, steps, members = self.effort[:3]
        networks = "network" if members == 1 else f"mean of {members} networks"
        return f"{'trend and ' * self.has_trend}{networks} of {hidden} units, {steps} steps"


class Form(NamedTuple):
    """What a student is made of: networks of one kind, or the mean of several kinds, which err differently; anchors."""

    kinds: tuple[Kind, ...]
    has_anchors: bool = False

    def with_anchors_too(self) -> "tuple[Form, Form]":
        """Return the form without anchors and with them."""
        return self._replace(has_anchors=False), self._replace(has_anchors=True)

    def __str__(self) -> str:
        return " with ".join(map(str, self.kinds)) + " and anchors" * self.has_anchors


@savable(
    features=instance(Features), bumps=tuple_of(instance(Bumps)), share=number(), network=instance(Network),
    location=number(), unit=number(0.0), increments=float_array(1), to_nodes=array(np.float64, (NODES - 1, NODES)),
    center=float_array(1), scale=float_array(1), anchors=optional(instance(Anchors)),
)  # fmt: skip
@dataclass(frozen=True)
class Student:
    """Features and, if it has one, a trend, the sum of one function or more; a network; and what its outputs mean.

    Anchors, if there are any, add to the outputs o what they lack nearby. The table of a row is location + share ·
    trend + unit · o₀ + Σ increments · exp(o), added up by ``to_nodes`` from the middle outwards: increments are
    positive, so quantiles never cross. A polish is part of ``to_nodes``, since scores between nodes lie on straight
    lines.
    """

    features: Features
    bumps: tuple[Bumps, ...]
    share: float
    network: Network
    location: float
    unit: float
    increments: FloatArray
    to_nodes: FloatArray
    center: FloatArray
    scale: FloatArray
    anchors: Anchors | None = None

    def __post_init__(self) -> None:
        known = self.features.width + bool(self.bumps)
        require(len(self.network.first) == known, f"network must take {known} inputs, got {len(self.network.first)}")
        require(len(self.increments) == NODES - 1 and (self.increments > 0).all(), "increments must be positive")
        require(len(self.center) == len(self.scale) == DESCRIBED, f"descriptions must be {DESCRIBED}")
        d = len(self.features.space_map.center)
        fits = all(len(one.box.space_map.center) == d for one in self.bumps)
        require(fits, f"bumps must be functions of {d} columns")
        width = len(self.features.low)
        fits = self.anchors is None or self.anchors.centers.shape[1] == width
        require(fits, f"anchors must lie in {width} columns")

    @classmethod
    def learn(cls, lesson: Lesson, features: Features, form: Form, rng: np.random.Generator) -> Self:
        """Learn a lesson."""
        student = cls.mean_of([cls._learn(lesson, features, kind, rng) for kind in form.kinds])
        return student.anchored(lesson) if form.has_anchors else student

    @classmethod
    def _learn(cls, lesson: Lesson, features: Features, kind: Kind, rng: np.random.Generator) -> Self:
        points = features.points(lesson.positions)
        inputs, share, less = features(features.inside(points)), 0.0, np.zeros(len(points))
        bumps: tuple[Bumps, ...] = ()
        if kind.has_trend and lesson.trend is not None:
            bumps, trend = tuple(Bumps.of(part) for part in lesson.parts), lesson.trend
            share = _slope(trend, lesson.tables[:, _MIDDLE])
            less = share * trend
            inputs = np.concatenate([inputs, bumps_input(bumps, trend)], axis=1)
        weights = np.ones(len(points))
        weights[: lesson.points] = lesson.weights
        weights /= weights.mean()
        center, scale = lesson.described.mean(axis=0), np.maximum(lesson.described.std(axis=0), 1e-3)
        z = np.full(len(points), np.nan)
        z[: lesson.points] = lesson.z - less[: lesson.points]
        tables = lesson.tables - less[:, np.newaxis]
        units = Units.of(tables, weights)
        parts = tables, (lesson.described - center) / scale, z, weights
        targets = Targets(*(part.astype(np.float32) for part in parts))
        network = train(inputs.astype(np.float32), targets, units, kind.effort, rng)
        return cls(features, bumps, share, network, *units, outwards(), center, scale)

    @classmethod
    def mean_of(cls, students: Sequence[Self]) -> Self:
        """Return one student that says what several say on average, of the same lesson; neither polished nor anchored.

        Locations are averaged, and logarithms of increments, as of networks of one kind.
        """
        if len(students) == 1:
            return students[0]
        units = Units.mean_of([Units(one.location, one.unit, one.increments) for one in students])
        bumps = next((one.bumps for one in students if one.bumps), ())
        networks = [one.network.in_units(one.unit / units.unit) for one in students]
        networks = [
            network.with_blind_input() if bumps and not one.bumps else network
            for network, one in zip(networks, students, strict=True)
        ]
        share = float(np.mean([one.share for one in students]))
        return replace(students[0], bumps=bumps, share=share, network=Network.averaged(networks), **units._asdict())

    def anchored(self, lesson: Lesson) -> Self:
        """Return the same with anchors at blends of a lesson, where what it gets wrong is added; not yet polished."""
        points = {point.tobytes() for point in lesson.positions[: lesson.points]}  # some may share a place
        is_new = [lesson.positions[row].tobytes() not in points for row in lesson.blends]
        rows = evenly_spaced(lesson.blends[is_new], _MOST_ANCHORS)
        if len(rows) <= NEAREST:
            return self
        trend = None if lesson.trend is None else lesson.trend[rows]
        inside, outputs, location = self._outputs(lesson.positions[rows], trend)
        tables, described = lesson.tables[rows], lesson.described[rows]
        increments = np.maximum(np.diff(tables, axis=1) / self.increments, np.exp(-LARGEST_LOG))
        wanted = [
            (tables[:, [_MIDDLE]] - location[:, np.newaxis]) / self.unit,
            np.log(np.minimum(increments, np.exp(LARGEST_LOG))),
            (described - self.center) / self.scale,
        ]
        return replace(self, anchors=Anchors.of(inside, np.concatenate(wanted, axis=1) - outputs))

    def read(self, positions: FloatArray, trend: FloatArray | None = None) -> Reading:
        """Return what it says of new rows, at positions as they are given; (n, d).

        Rows that its trend was learnt from have it as it would be ``trend`` without each of them.
        """
        inside, outputs, location = self._outputs(positions, trend)
        if self.anchors is not None:
            outputs = outputs + self.anchors(inside)
        logs = np.clip(outputs[:, 1:NODES], np.float32(-LARGEST_LOG), np.float32(LARGEST_LOG))
        increments = self.increments.astype(np.float32) * np.exp(logs)
        to_nodes = self.to_nodes.astype(np.float32)
        nodes = by_blocks(lambda blocks: blocks @ to_nodes, increments)
        nodes = nodes + (location + np.float32(self.unit) * outputs[:, 0])[:, np.newaxis]
        described = self.center + self.scale * np.clip(outputs[:, NODES:].astype(np.float64), -20.0, 20.0)
        tables = np.maximum.accumulate(nodes.astype(np.float64), axis=1)  # what rounding has crossed
        return Reading(tables, described[:, 0], described[:, 1])

    def _outputs(self, positions: FloatArray, trend: FloatArray | None) -> tuple[Singles, Singles, Any]:
        """Return points in the box, the outputs of the network there, and the location that the first is added to."""
        inside = self.features.inside(self.features.points(positions))
        inputs = self.features(inside)
        location: Any = np.full(len(inside), self.location, np.float32)
        if self.bumps:
            trend = reduce(np.add, (one(positions) for one in self.bumps)) if trend is None else trend
            inputs = np.concatenate([inputs, bumps_input(self.bumps, trend)], axis=1)
            location = location + np.float32(self.share) * trend
        return inside, self.network(inputs), location

    def polished(self, polish: LearntPolish) -> Self:
        """Return the same with what scores turned out to be worth: tables are read at other scores."""
        wanted = polish.map.before(LEVEL_SCORES[np.newaxis])[0]
        return replace(self, to_nodes=self.to_nodes @ _reading_at(wanted, LEVEL_SCORES))


def bumps_input(bumps: Sequence[Bumps], trend: Any) -> Singles:
    """Return the trend as one more input, brought to about the range of ranks, (n, 1)."""
    middle, half = middle_and_reach(bumps)
    return ((np.asarray(trend, np.float32) - np.float32(middle)) / np.float32(half))[:, np.newaxis]


def middle_and_reach(bumps: Sequence[Bumps]) -> tuple[float, float]:
    """Return the middle of the range of a trend, and how far it reaches from there."""
    reach = sum((one.high - one.low) / 2 for one in bumps)
    return sum(one.mean + (one.high + one.low) / 2 for one in bumps), max(reach, 1e-12)


def _slope(trend: FloatArray, values: FloatArray) -> float:
    """Return how much of a trend tables have, by least squares."""
    moved = trend - trend.mean()
    square = float(moved @ moved)
    return float(np.clip(moved @ values / square, 0.0, 1.5)) if square > 0 else 0.0


def _reading_at(wanted: FloatArray, scores: FloatArray) -> FloatArray:
    """Return the matrix (q, w) that reads tables with nodes at some scores at others, tails included."""
    last, middle = len(scores) - 1, len(scores) // 2
    matrix = np.zeros((len(scores), len(wanted)))
    for column, score in enumerate(wanted):
        if score < scores[0] or score > scores[-1]:
            near, other = (0, middle) if score < scores[0] else (last, middle)
        else:
            near = min(int(np.searchsorted(scores, score, side="right")) - 1, last - 1)
            other = near + 1
        share = (score - scores[near]) / (scores[other] - scores[near])
        matrix[near, column] += 1 - share
        matrix[other, column] += share
    return matrix
