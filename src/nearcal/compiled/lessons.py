"""What a student is taught: what the exact recalibrator says at calibration points, each left out, and between them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import InvalidInputError
from nearcal.compiled.features import Box
from nearcal.compiled.network import LEVEL_SCORES
from nearcal.compiled.teachers import Ground, Teacher
from nearcal.distributions import Normal
from nearcal.recalibration.smooth import SHAPES, Choice, Shape, SmoothFunction, evenly_spaced
from nearcal.recalibration.trend import learn_location
from nearcal.space import View

MOST_POINTS = 8000  # calibration points in a lesson
_MOST_BLENDS = 16_000
_BLENDS = 4  # of every point with near ones
_NEAR = 9  # among so many, the point itself included
_FEWEST_ROWS = 6000  # of a lesson: where blends are fewer, points and near ones are crossed
_LIKE_POINTS = 0.95  # of calibration points are as near to others as a crossed row may be
_BUMPS, _OWN_BUMPS = 700, 400  # of a trend that the teacher follows, and of one that it does not
_MOST_SCORE = 1e12  # whose squares and sums single precision holds
_WORTH_ITS_TIME = 0.98  # of the error of round bumps, for pointed ones to be taken


class Part(NamedTuple):
    """A trend: where it is, the function, and the box of the calibration points there."""

    ground: Ground
    function: SmoothFunction
    box: Box


@dataclass(frozen=True)
class Lesson:
    """Positions and what the exact recalibrator says there: calibration points, blends of them, and crossed ones.

    Attributes
    ----------
    positions : ndarray of shape (m, d)
        As they were given.
    tables : ndarray of shape (m, q)
        Quantiles of the scores of each row at the levels of students.
    described : ndarray of shape (m, 2)
        Logarithms of the isolation and of the effective size.
    trend : ndarray of shape (m,) or None
        The sum of smooth functions of position learnt from all scores, at each point as it would be without it.
    rows, z, weights : ndarray of shape (c,)
        Numbers of the c calibration points, their scores, and how much each counts.
    parts : tuple of Part
        These functions: those that the teacher follows, or one.
    blended : int
        How many blends there are.
    """

    positions: FloatArray
    tables: FloatArray
    described: FloatArray
    trend: FloatArray | None
    rows: IntArray
    z: FloatArray
    weights: FloatArray
    parts: tuple[Part, ...]
    blended: int

    @property
    def points(self) -> int:
        """The number of calibration points; what follows are others."""
        return len(self.z)

    @property
    def blends(self) -> IntArray:
        """The numbers of the rows that are blends: places that may be kept."""
        return self.points + np.arange(self.blended)


def teach(teacher: Teacher, rng: np.random.Generator) -> Lesson:
    """Ask a teacher what it says of calibration points, each among the others, and between them."""
    calibration, positions = teacher.calibration, teacher.positions
    points = np.sort(rng.permutation(len(calibration))[:MOST_POINTS])
    blends = blend(teacher, points, rng)
    of_points = teacher.left_out_description(points)
    crossed, missing = positions[:0], _FEWEST_ROWS - len(points) - len(blends)
    if missing > 0:
        crossed = _near_ones(teacher, cross(teacher, points, missing, rng), of_points[:, 0])
    others = np.concatenate([blends, crossed])
    new = teacher.recalibrate(Normal(np.zeros(len(others)), 1.0), others)
    tables = np.concatenate([teacher.left_out_tables(points), new.from_z(LEVEL_SCORES[np.newaxis])])
    described = np.concatenate([of_points, teacher.describe(others)])
    parts, trend = parts_of(teacher, blends), None
    for ground, function, _ in parts:
        values = ground.share * np.concatenate([function.values[points], function(ground.points(others))])
        trend = values if trend is None else trend + values
    weights = np.ones(len(calibration)) if calibration.weights is None else calibration.weights.relative
    lesson = Lesson(
        np.concatenate([positions[points], others]), tables, described, trend, points, calibration.z[points],
        weights[points], parts, len(blends),
    )  # fmt: skip
    known = _known(lesson)
    if not known.points:
        raise InvalidInputError(
            f"a recalibrator to be compiled must say something at calibration points, each among the others, got "
            f"{len(points)} points without neighbours; take k, or a larger radius"
        )
    _refuse_scores_beyond(known)
    return known


def _refuse_scores_beyond(lesson: Lesson) -> None:
    """Refuse tables and trends that students, in single precision, cannot hold."""
    most = max(float(np.abs(scores).max()) for scores in (lesson.tables, lesson.trend) if scores is not None)
    if not most <= _MOST_SCORE:
        raise InvalidInputError(
            f"scores must be within {_MOST_SCORE:.0e} to be compiled, in single precision, got some of {most:.1e}: "
            "responses lie that many standard deviations from their predictions; leave such rows out"
        )


def blend(teacher: Teacher, points: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return positions between calibration points and others near them, at random.

    A point is none of the others: where it lies the exact recalibrator would repeat what it knows of its own response.
    """
    positions = teacher.positions
    near = min(_NEAR, len(positions))
    asked = np.tile(points, _BLENDS)[:_MOST_BLENDS]
    others = np.tile(teacher.nearest(points, near), (_BLENDS, 1))[:_MOST_BLENDS]
    other = others[np.arange(len(asked)), rng.integers(1, near, len(asked))]
    other = np.where(other == asked, others[:, 0], other)  # of points in one place the nearest may be another
    share = rng.uniform(0.1, 0.9, size=(len(asked), 1))
    return positions[asked] + share * (positions[other] - positions[asked])


def cross(teacher: Teacher, points: IntArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Return positions that have every column of a calibration point or of another near it, at random.

    Of few points with columns of few values, as of a designed experiment, rows to come are such, and no blends. They
    are taught, and not kept: each of their columns is one of a calibration row.
    """
    positions = teacher.positions
    asked = points[rng.integers(len(points), size=count)]
    near = teacher.nearest(asked, min(_NEAR, len(positions)))
    other = near[np.arange(count), rng.integers(near.shape[1], size=count)]
    is_other = rng.uniform(size=(count, positions.shape[1])) < rng.uniform(0.1, 0.9, size=(count, 1))
    crossed = np.where(is_other, positions[other], positions[asked])
    rows = {row.tobytes() for row in positions}
    return crossed[[row.tobytes() not in rows for row in crossed]]


def _near_ones(teacher: Teacher, positions: FloatArray, log_isolation: FloatArray) -> FloatArray:
    """Return those positions that are no farther from calibration points than most of these, whose isolation is given.

    Where columns depend on each other, crossed rows are unlike any that will come.
    """
    known = log_isolation[np.isfinite(log_isolation)]
    if not (len(known) and len(positions)):
        return positions[:0]
    near: FloatArray = positions[teacher.describe(positions)[:, 0] <= np.quantile(known, _LIKE_POINTS)]
    return near


def parts_of(teacher: Teacher, blends: FloatArray) -> tuple[Part, ...]:
    """Return the trends that the teacher follows, with bumps between points, or else one of all scores."""
    grounds = teacher.grounds()
    found = [(ground, _learn_trend(teacher, ground, blends, _BUMPS)) for ground in grounds]
    if not grounds:
        found = [(teacher.ground, _choose_trend(teacher, blends))]
    return tuple(
        Part(ground, function, Box.learn(ground.space_map, teacher.positions, ground.on_sphere))
        for ground, function in found
        if function is not None
    )


def _choose_trend(teacher: Teacher, blends: FloatArray) -> SmoothFunction | None:
    """Return a trend of all scores, as :class:`nearcal.Trend` has it.

    Round bumps are a product of matrices, pointed ones a sum over columns, and slower: these must gain something.
    """
    round_, pointed = (
        _learn_trend(teacher, teacher.ground, blends, _OWN_BUMPS, (shape,)) for shape in ("gaussian", "laplace")
    )
    if round_ is None or pointed is None:
        return pointed if round_ is None else round_
    errors = [float(np.abs(one.values - teacher.calibration.z).mean()) for one in (round_, pointed)]
    return pointed if errors[1] < _WORTH_ITS_TIME * errors[0] else round_


def _learn_trend(
    teacher: Teacher, ground: Ground, blends: FloatArray, most: int, shapes: Sequence[Shape] = SHAPES
) -> SmoothFunction | None:
    """Return a trend of all scores on a ground, with so many bumps at most."""
    points, centers = ground.points(teacher.positions), ground.points(blends)
    rows = {point.tobytes() for point in points}
    centers = centers[[center.tobytes() not in rows for center in centers]]  # points may share a place with others
    if not len(centers):
        return None
    view = View(points, teacher.index, np.arange(len(points)), points)
    return learn_location(view, teacher.calibration, ground.settings, Choice(shapes), evenly_spaced(centers, most))


def _known(lesson: Lesson) -> Lesson:
    """Leave out rows that nobody speaks for, and what is not finite of a description."""
    known = np.asarray(np.isfinite(np.concatenate([lesson.tables, lesson.described], axis=1)).all(axis=1))
    of_points = known[: lesson.points]
    return replace(
        lesson,
        positions=lesson.positions[known],
        tables=lesson.tables[known],
        described=lesson.described[known],
        trend=None if lesson.trend is None else lesson.trend[known],
        rows=lesson.rows[of_points],
        z=lesson.z[of_points],
        weights=lesson.weights[of_points],
        blended=int(known[lesson.blends].sum()),
    )
