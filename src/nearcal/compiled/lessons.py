"""What a student is taught: what the exact recalibrator says at calibration points, each left out, and between them."""

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import InvalidInputError
from nearcal.compiled.network import LEVEL_SCORES
from nearcal.distributions import Normal
from nearcal.recalibration import LocalRecalibrator, Radius
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.fade import LearntFade, log_isolation
from nearcal.recalibration.neighborhoods import KNearest, WithinRadius
from nearcal.recalibration.smooth import Choice, SmoothFunction
from nearcal.recalibration.steps import Steps
from nearcal.recalibration.trend import learn_location
from nearcal.space import CalibrationSpace, Scaling, View

MOST_POINTS = 8000  # calibration points in a lesson
_MOST_BLENDS = 16_000
_BLENDS = 4  # of every point with near ones
_NEAR = 9  # among so many, the point itself included
_BUMPS = 400  # of a trend
_WORTH_ITS_TIME = 0.98  # of the error of round bumps, for pointed ones to be taken
LEAST_SIZE = 0.5  # of a neighbourhood, whose logarithm is taken


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


def teach(exact: LocalRecalibrator, rng: np.random.Generator) -> Lesson:
    """Ask a fitted recalibrator, without its fading, what it says of calibration points and between them."""
    exact = without_fading(exact)
    calibration, positions = exact.calibration_, np.asarray(exact.positions(), dtype=np.float64)
    points = _points_asked(exact, rng)
    blends = blend(exact, positions, points, rng)
    new = exact.recalibrate(Normal(np.zeros(len(blends)), 1.0), blends)
    tables = np.concatenate([_left_out_tables(exact, points), new.from_z(LEVEL_SCORES[np.newaxis])])
    described = np.concatenate([_left_out_description(exact, points), describe(exact, blends)])
    function, trend = _trend_of(exact, positions, blends), None
    if function is not None:
        trend = np.concatenate([function.values[points], function(scaled(exact, blends))])
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
    return known


def without_fading(exact: LocalRecalibrator) -> LocalRecalibrator:
    """Return the same recalibrator without fading; rows that it would refuse for few neighbours have the nearest."""
    plain = copy.copy(exact)
    plain.corrections_ = tuple(one for one in exact.corrections_ if not isinstance(one, LearntFade))
    near = exact.neighborhood_
    if isinstance(near, WithinRadius) and near.radius.thin == "raise":
        radius = Radius(near.radius.distance, near.radius.min_neighbors, "nearest")
        plain.neighborhood_ = replace(near, radius=radius)
    return plain


def refit(exact: LocalRecalibrator, rows: IntArray) -> LocalRecalibrator:
    """Return the same settings learnt from some of the calibration points, with as large a share of them for k."""
    n = len(exact.calibration_)
    options = exact.get_params()
    if exact.k is not None:
        options["k"] = min(max(round(exact.k * len(rows) / n), 1), len(rows))
    calibration = exact.calibration_.restricted(rows)
    positions = np.asarray(exact.positions(), dtype=np.float64)[rows]
    return type(exact)(**options).fit_space(calibration, _space(exact, positions, calibration, options["k"]))


def describe(exact: LocalRecalibrator, positions: FloatArray) -> FloatArray:
    """Return the logarithms of isolation and effective size of new rows, (n, 2)."""
    near = exact.neighborhood_
    out = exact.recalibrate(Normal(np.zeros(len(positions)), 1.0), positions)
    isolation = out.radius if isinstance(near, KNearest) else -(index_counts(exact, positions) + LEAST_SIZE)
    return np.stack([log_isolation(near, isolation), np.log(np.maximum(out.effective_size, LEAST_SIZE))], axis=1)


def index_counts(exact: LocalRecalibrator, positions: FloatArray) -> FloatArray:
    """Return the numbers of calibration points within the radius of new rows."""
    points = exact.space_map_(positions)
    near: Any = None
    return -exact.neighborhood_.isolation(near, exact.index_, points)


def blend(exact: LocalRecalibrator, positions: FloatArray, points: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return positions between calibration points and others near them, at random."""
    n = len(positions)
    near = min(_NEAR, n)
    asked = np.tile(points, _BLENDS)[:_MOST_BLENDS]
    found = exact.index_.nearest(exact.space_map_(positions[points]), near, 0.0).indices.reshape(len(points), near)
    others = np.tile(found, (_BLENDS, 1))[:_MOST_BLENDS]
    other = others[np.arange(len(asked)), rng.integers(0, near, len(asked))]
    share = rng.uniform(0.1, 0.9, size=(len(asked), 1))
    return positions[asked] + share * (positions[other] - positions[asked])


def _points_asked(exact: LocalRecalibrator, rng: np.random.Generator) -> IntArray:
    return np.sort(rng.permutation(len(exact.calibration_))[:MOST_POINTS])


def _left_out_tables(exact: LocalRecalibrator, points: IntArray) -> FloatArray:
    n = len(exact.calibration_)
    return exact.left_out_values(Normal(np.zeros(n), 1.0), LEVEL_SCORES, rows=points)[points]


def _left_out_description(exact: LocalRecalibrator, points: IntArray) -> FloatArray:
    """Return the logarithms of isolation and effective size of calibration points among the others."""

    def ask(steps: Steps, rows: IntArray) -> FloatArray:
        return np.stack([steps.radius(), np.maximum(steps.effective_size(), LEAST_SIZE)], axis=1)

    known = exact.left_out().gather(ask, np.full((len(exact.calibration_), 2), np.nan), points)[points]
    isolation = known[:, 0]
    if not isinstance(exact.neighborhood_, KNearest):
        others = index_counts(exact, np.asarray(exact.positions())[points]) - 1
        isolation = -np.maximum(others + LEAST_SIZE, LEAST_SIZE)
    return np.stack([log_isolation(exact.neighborhood_, isolation), np.log(known[:, 1])], axis=1)


def _trend_of(exact: LocalRecalibrator, positions: FloatArray, blends: FloatArray) -> SmoothFunction | None:
    """Return a trend of all scores for the student, as :class:`nearcal.Trend` has it, with bumps between points.

    Round bumps are a product of matrices, pointed ones a sum over columns, and slower: these must gain something.
    """
    points = scaled(exact, positions)
    some = ((np.arange(min(_BUMPS, len(blends))) + 0.5) * len(blends) / min(_BUMPS, len(blends))).astype(np.intp)
    view = View(points, exact.index_, np.arange(len(points)), points)
    centers, calibration = scaled(exact, blends[some]), exact.calibration_
    round_, pointed = (
        learn_location(view, calibration, choice=Choice((shape,)), centers=centers) for shape in ("gaussian", "laplace")
    )
    if round_ is None or pointed is None:
        return pointed if round_ is None else round_
    errors = [float(np.abs(one.values - calibration.z).mean()) for one in (round_, pointed)]
    return pointed if errors[1] < _WORTH_ITS_TIME * errors[0] else round_


def scaled(exact: LocalRecalibrator, positions: FloatArray) -> FloatArray:
    """Return positions where distances are taken: on a sphere, if directions are compared."""
    points = exact.space_map_(positions)
    return points / np.linalg.norm(points, axis=1, keepdims=True) if exact.metric == "cosine" else points


def _space(
    exact: LocalRecalibrator, positions: FloatArray, calibration: CalibrationScores, k: int | None
) -> CalibrationSpace:
    return CalibrationSpace(
        positions, calibration.z, Scaling.of(exact.scaling), exact.neighborhood_.least if k is None else k,
        metric=exact.metric, search=exact.search, eps=exact.eps, weights=calibration.weights,
    )  # fmt: skip


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
