"""What a student is taught: what the exact recalibrator says at calibration points, each left out, and between them."""

from dataclasses import dataclass, replace

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import InvalidInputError
from nearcal.compiled.network import LEVEL_SCORES
from nearcal.compiled.teachers import Teacher
from nearcal.distributions import Normal
from nearcal.recalibration.smooth import Choice, SmoothFunction
from nearcal.recalibration.trend import learn_location
from nearcal.space import View

MOST_POINTS = 8000  # calibration points in a lesson
_MOST_BLENDS = 16_000
_BLENDS = 4  # of every point with near ones
_NEAR = 9  # among so many, the point itself included
_BUMPS = 400  # of a trend
_MOST_SCORE = 1e12  # whose squares and sums single precision holds
_WORTH_ITS_TIME = 0.98  # of the error of round bumps, for pointed ones to be taken


@dataclass(frozen=True)
class Lesson:
    """Positions and what the exact recalibrator says there; points of the calibration set first, then blends of them.

    Attributes
    ----------
    positions : ndarray of shape (m, d)
        As they were given.
    tables : ndarray of shape (m, q)
        Quantiles of the scores of each row at the levels of students.
    described : ndarray of shape (m, 2)
        Logarithms of the isolation and of the effective size.
    trend : ndarray of shape (m,) or None
        A smooth function of position learnt from all scores, at each point as it would be without it.
    rows, z, weights : ndarray of shape (c,)
        Numbers of the c calibration points, their scores, and how much each counts.
    function : SmoothFunction or None
    """

    positions: FloatArray
    tables: FloatArray
    described: FloatArray
    trend: FloatArray | None
    rows: IntArray
    z: FloatArray
    weights: FloatArray
    function: SmoothFunction | None

    @property
    def points(self) -> int:
        """The number of calibration points; what follows are blends."""
        return len(self.z)


def teach(teacher: Teacher, rng: np.random.Generator) -> Lesson:
    """Ask a teacher what it says of calibration points, each among the others, and between them."""
    calibration, positions = teacher.calibration, teacher.positions
    points = np.sort(rng.permutation(len(calibration))[:MOST_POINTS])
    blends = blend(teacher, points, rng)
    new = teacher.recalibrate(Normal(np.zeros(len(blends)), 1.0), blends)
    tables = np.concatenate([teacher.left_out_tables(points), new.from_z(LEVEL_SCORES[np.newaxis])])
    described = np.concatenate([teacher.left_out_description(points), teacher.describe(blends)])
    function, trend = _trend_of(teacher, blends), None
    if function is not None:
        trend = np.concatenate([function.values[points], function(teacher.scaled(blends))])
    weights = np.ones(len(calibration)) if calibration.weights is None else calibration.weights.relative
    lesson = Lesson(
        np.concatenate([positions[points], blends]), tables, described, trend, points, calibration.z[points],
        weights[points], function,
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
    """Return positions between calibration points and others near them, at random."""
    positions = teacher.positions
    near = min(_NEAR, len(positions))
    asked = np.tile(points, _BLENDS)[:_MOST_BLENDS]
    others = np.tile(teacher.nearest(points, near), (_BLENDS, 1))[:_MOST_BLENDS]
    other = others[np.arange(len(asked)), rng.integers(0, near, len(asked))]
    share = rng.uniform(0.1, 0.9, size=(len(asked), 1))
    return positions[asked] + share * (positions[other] - positions[asked])


def _trend_of(teacher: Teacher, blends: FloatArray) -> SmoothFunction | None:
    """Return a trend of all scores for the student, as :class:`nearcal.Trend` has it, with bumps between points.

    Round bumps are a product of matrices, pointed ones a sum over columns, and slower: these must gain something.
    """
    points, calibration = teacher.scaled(teacher.positions), teacher.calibration
    some = ((np.arange(min(_BUMPS, len(blends))) + 0.5) * len(blends) / min(_BUMPS, len(blends))).astype(np.intp)
    centers, rows = teacher.scaled(blends[some]), np.arange(len(points))
    view = View(points, teacher.index, rows, points)
    round_, pointed = (
        learn_location(view, calibration, choice=Choice((shape,)), centers=centers) for shape in ("gaussian", "laplace")
    )
    if round_ is None or pointed is None:
        return pointed if round_ is None else round_
    errors = [float(np.abs(one.values - calibration.z).mean()) for one in (round_, pointed)]
    return pointed if errors[1] < _WORTH_ITS_TIME * errors[0] else round_


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
    )
