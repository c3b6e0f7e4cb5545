"""Who teaches a student: a fitted recalibrator without its fading, and all that is asked of it."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import InvalidParameterError
from nearcal.compiled.network import LEVEL_SCORES
from nearcal.distributions import Distribution, Normal
from nearcal.recalibration import AveragedRecalibrator, LocalRecalibrator, Radius, Recalibrated, Workers
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.fade import LearntFade, log_isolation
from nearcal.recalibration.leave_one_out import LeaveOneOut
from nearcal.recalibration.neighborhoods import KNearest, Neighborhood, WithinRadius
from nearcal.recalibration.smooth import BumpSettings
from nearcal.recalibration.steps import Steps
from nearcal.recalibration.trend import LearntTrend
from nearcal.recalibration.weighted_steps import steps_of
from nearcal.space import CalibrationSpace, NeighborIndex, Scaling, SpaceMap

LEAST_SIZE = 0.5  # of a neighbourhood, whose logarithm is taken
_ASIDE = 1e-3  # standard deviation of columns that are seen but have no say in distances


class Ground(NamedTuple):
    """Where a recalibrator follows a trend: a map of positions, the settings of bumps there, and how much it counts.

    Without settings they are yet to be chosen.
    """

    space_map: SpaceMap
    on_sphere: bool
    settings: BumpSettings | None
    share: float

    def points(self, positions: FloatArray) -> FloatArray:
        """Return positions where distances are taken: on a sphere, if directions are compared."""
        points = self.space_map(positions)
        return points / np.linalg.norm(points, axis=1, keepdims=True) if self.on_sphere else points

    def is_as(self, other: "Ground") -> bool:
        """Tell whether a trend there would be the same."""
        return self[1:3] == other[1:3] and all(
            np.array_equal(one, two) for one, two in zip(_affine(self.space_map), _affine(other.space_map), strict=True)
        )


class Teacher:
    """A local recalibrator.

    Attributes
    ----------
    calibration : CalibrationScores
    positions : ndarray of shape (n, d)
        Of the calibration points, as they were given.
    space_map : SpaceMap
        To where distances are taken, by ``metric``.
    neighborhood : Neighborhood
    fade : LearntFade or None
        How rows fade.
    left_out : LeaveOneOut
        Calibration points each among the others; ``space``, if it is given, is that in which it was fitted.
    """

    left_out: LeaveOneOut
    calibration: CalibrationScores
    positions: FloatArray
    space_map: SpaceMap
    metric: str
    neighborhood: Neighborhood
    fade: LearntFade | None

    def __init__(self, exact: LocalRecalibrator, space: CalibrationSpace | None = None) -> None:
        self.exact: Any = without_fading(exact)
        self.left_out = self.exact.left_out(space=space)
        self.calibration, self.positions = exact.calibration_, np.asarray(exact.positions(), dtype=np.float64)
        self.space_map, self.metric, self.neighborhood = exact.space_map_, exact.metric, self.exact.neighborhood_
        self.fade = next((one for one in exact.corrections_ if isinstance(one, LearntFade)), None)

    @property
    def workers(self) -> Workers:
        """Who does the work."""
        return Workers.of(self.exact.workers).silent()

    def recalibrate(self, dist: Distribution, positions: FloatArray) -> Recalibrated:
        """Return what becomes of new rows."""
        return self.exact.recalibrate(dist, positions)

    def left_out_tables(self, points: IntArray) -> FloatArray:
        """Return quantiles of the scores of calibration points among the others, at the levels of students."""
        everywhere = Normal(np.zeros(len(self.calibration)), 1.0)
        return self.left_out.values(everywhere, LEVEL_SCORES, points)[points]

    def left_out_description(self, points: IntArray) -> FloatArray:
        """Return the logarithms of isolation and effective size of calibration points among the others, (n, 2)."""

        def ask(steps: Steps, rows: IntArray) -> FloatArray:
            return np.stack([steps.radius(), np.maximum(steps.effective_size(), LEAST_SIZE)], axis=1)

        left_out = replace(self.left_out, corrections=(), quantile_rule="step")  # which nearness depends not on
        known = left_out.gather(ask, np.full((len(self.calibration), 2), np.nan), points)[points]
        isolation = known[:, 0]
        if not isinstance(self.neighborhood, KNearest):
            others = self._counts(self.positions[points]) - 1
            isolation = -np.maximum(others + LEAST_SIZE, LEAST_SIZE)
        return np.stack([log_isolation(self.neighborhood, isolation), np.log(known[:, 1])], axis=1)

    def describe(self, positions: FloatArray) -> FloatArray:
        """Return the logarithms of isolation and effective size of new rows, (n, 2)."""
        near = self.neighborhood
        bare = copy.copy(self.exact)
        bare.corrections_, bare.quantile_rule_ = (), "step"  # which nearness does not depend on
        out = bare.recalibrate(Normal(np.zeros(len(positions)), 1.0), positions)
        isolation = out.radius if isinstance(near, KNearest) else -(self._counts(positions) + LEAST_SIZE)
        return np.stack([log_isolation(near, isolation), np.log(np.maximum(out.effective_size, LEAST_SIZE))], axis=1)

    def _counts(self, positions: FloatArray) -> FloatArray:
        """Return the numbers of calibration points within the radius of new rows."""
        near: Any = None
        return -self.neighborhood.isolation(near, self.exact.index_, self.exact.space_map_(positions))

    @property
    def index(self) -> NeighborIndex:
        """Where calibration points are looked up."""
        return self.exact.index_

    def nearest(self, points: IntArray, k: int) -> IntArray:
        """Return the calibration points nearest to some of them, themselves included, (p, k)."""
        placed = self.exact.space_map_(self.positions[points])
        return self.index.nearest(placed, k, 0.0).indices.reshape(len(points), k).astype(np.intp)

    @property
    def ground(self) -> Ground:
        """Where distances are taken, for a trend of the student's own."""
        return Ground(self.space_map, self.metric == "cosine", None, 1.0)

    def grounds(self) -> list[Ground]:
        """Return where it follows trends, none of them if it follows none."""
        trend = next((one for one in self.exact.corrections_ if isinstance(one, LearntTrend)), None)
        return [] if trend is None else [self.ground._replace(settings=trend.location.settings)]

    def own_isolation(self) -> FloatArray:
        """Return the isolation of calibration points among the others, increasing."""
        return self.exact.own_isolation_.sorted(self.neighborhood, self.workers)

    def everyone(self) -> Curve | None:
        """Return the law of all scores, where rows fade to it."""
        if self.fade is None or self.fade.to != "global":
            return None
        return steps_of(self.calibration).curve(predictive=self.exact.quantile_rule_ == "predictive")

    def restricted(self, rows: IntArray) -> "Teacher":
        """Return the same settings learnt from some of the calibration points."""
        return Teacher(*refit(self.exact, rows))


class AverageTeacher(Teacher):
    """An average of local recalibrators; how near rows are to calibration points, the heaviest tells.

    Students see all columns that members look at; distances are those of the heaviest.
    """

    def __init__(self, exact: AveragedRecalibrator, spaces: Sequence[CalibrationSpace] | None = None) -> None:
        for member in exact.members_:
            if not isinstance(member.neighborhood_, KNearest):
                raise InvalidParameterError(
                    f"members of an average to be compiled must take the k nearest points, got {member!r}; give them k"
                )
        heaviest = int(np.argmax(exact.weights_))
        self._members = list(map(Teacher, exact.members_, [None] * len(exact.members_) if spaces is None else spaces))
        self._guide = guide = self._members[heaviest]
        self._columns = list(exact.columns_[heaviest])
        self.exact = copy.copy(exact)
        self.exact.members_ = tuple(member.exact for member in self._members)
        self.calibration, self.metric, self.neighborhood = guide.calibration, guide.metric, guide.neighborhood
        self.positions = _side_by_side(exact)
        self.space_map = _joint_map(guide.space_map, self._columns, self.positions)
        self.fade = None if guide.fade is None else guide.fade.looking_at(self.positions)

    def left_out_tables(self, points: IntArray) -> FloatArray:
        """Return quantiles of the average's scores of calibration points among the others."""
        left_out = [member.left_out for member in self._members]
        everywhere = Normal(np.zeros(len(self.calibration)), 1.0)
        values: FloatArray = self.exact.values_by(left_out, everywhere, LEVEL_SCORES, points)
        return values[points]

    def left_out_description(self, points: IntArray) -> FloatArray:
        """Return the isolation that the heaviest tells, and the mean of effective sizes."""
        return self._averaged([member.left_out_description(points) for member in self._members])

    def describe(self, positions: FloatArray) -> FloatArray:
        """Return the same of new rows."""
        parts = zip(self._members, self.exact.columns_, strict=True)
        return self._averaged([member.describe(positions[:, list(columns)]) for member, columns in parts])

    def _averaged(self, known: Sequence[FloatArray]) -> FloatArray:
        size = sum(weight * np.exp(one[:, 1]) for weight, one in zip(self.exact.weights_, known, strict=True))
        return np.stack([known[int(np.argmax(self.exact.weights_))][:, 0], np.log(size)], axis=1)

    @property
    def workers(self) -> Workers:
        """Those of the heaviest."""
        return self._guide.workers

    @property
    def index(self) -> NeighborIndex:
        """That of the heaviest."""
        return self._guide.index

    def nearest(self, points: IntArray, k: int) -> IntArray:
        """Ask the heaviest."""
        return self._guide.nearest(points, k)

    def grounds(self) -> list[Ground]:
        """Return where members follow trends; those that follow the same one count together."""
        found: list[Ground] = []
        for member, columns, weight in zip(self._members, self.exact.columns_, self.exact.weights_, strict=True):
            for own in member.grounds():
                space_map = _looking_at(list(columns), own.space_map, self.positions.shape[1])
                ground = own._replace(space_map=space_map, share=float(weight))
                same = next((place for place, one in enumerate(found) if one.is_as(ground)), None)
                if same is None:
                    found.append(ground)
                else:
                    found[same] = ground._replace(share=found[same].share + ground.share)
        return found

    def own_isolation(self) -> FloatArray:
        """Ask the heaviest."""
        return self._guide.own_isolation()

    def restricted(self, rows: IntArray) -> "AverageTeacher":
        """Return the same settings and weights learnt from some of the calibration points."""
        members, spaces = zip(*(refit(member, rows) for member in self.exact.members_), strict=True)
        options = {"weights": tuple(self.exact.weights_), "corrections": self.exact.corrections}
        left_out = [member.left_out(space=space) for member, space in zip(members, spaces, strict=True)]
        averaged = AveragedRecalibrator(members, **options).fit_members(members, self.exact.columns_, left_out)
        return AverageTeacher(averaged, spaces)


def teacher_of(exact: LocalRecalibrator | AveragedRecalibrator) -> Teacher:
    """Return the teacher that a fitted recalibrator is."""
    return AverageTeacher(exact) if isinstance(exact, AveragedRecalibrator) else Teacher(exact)


def without_fading(exact: LocalRecalibrator) -> LocalRecalibrator:
    """Return the same recalibrator without fading; rows that it would refuse for few neighbours have the nearest."""
    plain = copy.copy(exact)
    plain.corrections_ = tuple(one for one in exact.corrections_ if not isinstance(one, LearntFade))
    near = exact.neighborhood_
    if isinstance(near, WithinRadius) and near.radius.thin == "raise":
        radius = Radius(near.radius.distance, near.radius.min_neighbors, "nearest")
        plain.neighborhood_ = replace(near, radius=radius)
    return plain


def refit(exact: LocalRecalibrator, rows: IntArray) -> tuple[LocalRecalibrator, CalibrationSpace]:
    """Return the same settings learnt from some of the calibration points, with as large a share of them for k.

    What is built in the space of these points need not be built again.
    """
    n = len(exact.calibration_)
    options = exact.get_params()
    if exact.k is not None:
        options["k"] = min(max(round(exact.k * len(rows) / n), 1), len(rows))
    calibration = exact.calibration_.restricted(rows)
    positions = np.asarray(exact.positions(), dtype=np.float64)[rows]
    space = CalibrationSpace(
        positions, calibration.z, Scaling.of(exact.scaling), options["k"] or exact.neighborhood_.least,
        metric=exact.metric, search=exact.search, eps=exact.eps, weights=calibration.weights,
    )  # fmt: skip
    return type(exact)(**options).fit_space(calibration, space), space


def _side_by_side(exact: AveragedRecalibrator) -> FloatArray:
    """Return the positions of calibration points in all columns that members look at; others are zero."""
    positions = np.zeros((exact.n_cal_, exact.n_features_in_))
    for member, columns in zip(exact.members_, exact.columns_, strict=True):
        positions[:, list(columns)] = member.positions()
    return positions


def _joint_map(space_map: SpaceMap, columns: list[int], positions: FloatArray) -> SpaceMap:
    """Return a map of all columns: some by their own map, the others by a thousandth of what would standardise them.

    Students standardise all that they see. But distances are those of the one map: a trend over the columns of all
    members, as if they told alike, was worth little where each member looks at few.
    """
    width = positions.shape[1]
    if columns == list(range(width)):
        return space_map
    others = [column for column in range(width) if column not in columns]
    own_center, matrix = _affine(space_map)
    deviation = positions[:, others].std(axis=0)
    joint = np.zeros((width, matrix.shape[1] + len(others)))
    joint[columns, : matrix.shape[1]] = matrix
    joint[others, matrix.shape[1] + np.arange(len(others))] = _ASIDE / np.where(deviation > 0, deviation, 1.0)
    center = np.zeros(width)
    center[columns] = own_center
    center[others] = positions[:, others].mean(axis=0)
    return SpaceMap(center, joint, space_map.name)


def _looking_at(columns: list[int], space_map: SpaceMap, width: int) -> SpaceMap:
    """Return a map of all columns that looks at some of them."""
    if columns == list(range(width)):
        return space_map
    own_center, own = _affine(space_map)
    center, matrix = np.zeros(width), np.zeros((width, own.shape[1]))
    center[columns], matrix[columns] = own_center, own
    return SpaceMap(center, matrix, space_map.name)


def _affine(space_map: SpaceMap) -> tuple[FloatArray, FloatArray]:
    """Return the center and the matrix of a map, whatever it is made of."""
    if space_map.matrix is None:
        return np.zeros(len(space_map.center)), np.eye(len(space_map.center))
    return space_map.center, np.diag(space_map.matrix) if space_map.matrix.ndim == 1 else space_map.matrix
