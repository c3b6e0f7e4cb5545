"""The trend of scores: a smooth function of position, learnt from all of them, that neighbours are moved along.

The local-linear correction sees a neighbourhood alone; where that is small its slopes are noise, and where it is wide
it is not straight. A function learnt from all scores has neither limit, and what it leaves is left to neighbours.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._growing import GrowingRows
from nearcal._saved import instance, number, one_of, savable, saved_array, saved_value
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.corrections import Correction, LearntCorrection
from nearcal.recalibration.neighborhoods import Neighborhoods
from nearcal.space import View

if TYPE_CHECKING:
    from nearcal.recalibration.leave_one_out import LeaveOneOut

Item = TypeVar("Item", bound=np.generic)
Shape: TypeAlias = Literal["gaussian", "laplace"]

SHAPES: tuple[Shape, ...] = ("gaussian", "laplace")

_LEAST_POINTS = 20
_MOST_POINTS = 5000  # that a trend is learnt from
_CENTERS = 700
_POINTS_TO_CHOOSE, _CENTERS_TO_CHOOSE = 2000, 400  # enough to tell shapes and widths apart
_WIDTHS = (0.35, 0.7, 1.4, 2.8, 5.6)  # of bumps, in median distances between points
_RIDGES = tuple((10.0 ** np.arange(-3, 3.25, 0.5)).tolist())
_PROBE = 200  # points whose distances tell the median
_OUTLYING = 6.0  # standard deviations, told by quartiles, beyond which scores are drawn in before they are learnt from
_NOISE = 1e-9  # relative size of what is rounding


@savable
@dataclass(frozen=True)
class Trend(Correction):
    """Move the scores of neighbours along a smooth function of position that all scores have shaped.

    With f the function, f_i(x_i) its value at calibration point i as it would be without that point, and x the position
    of a row, neighbours have the scores

        z_i - f_i(x_i) + f(x).

    f(x) = z̄ + Σ_l c_l b((x - u_l) / h) is a sum of bumps b, round ones, exp(-|v|²/2), or pointed ones, exp(-Σ_a |v_a|),
    which follow steps and kinks along single columns. Their centres u_l are 700 calibration points, evenly spaced in
    the order of their positions, or all. It is the least-squares fit with the penalty λ |f|², the norm being that of
    the kernel (kernel ridge regression, in Nyström's approximation). The shape of bumps, h, of five multiples of the
    median distance between points, and λ are those of the least leave-one-out error, which least squares know in closed
    form. f is not extrapolated: it stays between its least and greatest values at calibration points. Of more than
    5,000 points 5,000 stand for all, and scores more than six standard deviations from the median, as quartiles tell
    it, are drawn in while f is learnt.

    It comes before all other corrections. Use it where the model is misspecified, so that its errors follow from
    position: what neighbours then differ by is what position does not tell.

    References
    ----------
    C. Saunders, A. Gammerman and V. Vovk, *Ridge Regression Learning Algorithm in Dual Variables*, ICML 1998.
    C. K. I. Williams and M. Seeger, *Using the Nyström Method to Speed Up Kernel Machines*, NeurIPS 2000.

    Examples
    --------
    A model that knows nothing, of responses that are a function of position and a little noise:

    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(-2, 2, size=500)
    >>> y, model = rng.normal(np.sin(3 * x), 0.1), nc.Normal(np.zeros(500), 1.0)
    >>> plain, moved = nc.LocalRecalibrator(k=200), nc.LocalRecalibrator(k=200, corrections=(nc.Trend(),))
    >>> [rc.fit(model, y, x).recalibrate(model[:1], [0.5]).std().round(1).item() for rc in (plain, moved)]
    [0.5, 0.1]
    """

    comes_first = True

    def learn(self, left_out: "LeaveOneOut", view: View) -> "LearntTrend | None":
        """Learn from all scores, once a view; None if the mean of all scores tells as much."""
        if "trend" not in view.kept:
            view.kept["trend"] = learn_trend(view, left_out.calibration)
        return view.kept["trend"]


@savable(shape=one_of(*SHAPES), width=number(5e-324), ridge=number(5e-324))
@dataclass(frozen=True)
class TrendSettings:
    """The shape of bumps, their width, and the ridge that keeps their heights low."""

    shape: Shape
    width: float
    ridge: float


@savable
class LearntTrend(LearntCorrection):
    """A function of position and its values at calibration points, to each of whom it owes nothing.

    Parameters
    ----------
    settings : TrendSettings
        Of bumps; positions are x - origin in units of their width.
    origin : ndarray of shape (d,)
    centers : ndarray of shape (m, d)
        Of bumps, in these units.
    heights : ndarray of shape (m,)
    mean, low, high : float
        f is the mean plus what bumps add up to, but that between low and high.
    values : ndarray of shape (n,)
        At calibration points: f without them.
    """

    moves_scores = True

    def __init__(
        self,
        settings: TrendSettings,
        origin: FloatArray,
        centers: FloatArray,
        heights: FloatArray,
        mean: float,
        low: float,
        high: float,
        values: FloatArray,
    ) -> None:
        self.settings, self.origin, self.mean, self.low, self.high = settings, origin, mean, low, high
        self.centers, self.heights = np.ascontiguousarray(centers), np.ascontiguousarray(heights)
        for array in (self.centers, self.heights):
            array.flags.writeable = False  # as if loaded: kernels are compiled for one kind of array
        self._rows = GrowingRows(values)

    @property
    def values(self) -> FloatArray:
        """The function at calibration points, as it would be without each."""
        return self._rows.array

    def __call__(self, points: FloatArray) -> FloatArray:
        """Return the function at some points."""
        from nearcal.kernels import trend

        total = np.empty(len(points))
        placed = _place(points, self.origin, self.settings.width)
        trend.add_bumps(placed, self.centers, self.heights, self.settings.shape == "gaussian", total)
        return self.mean + np.clip(total, self.low, self.high)

    def seen_in(self, view: View, neighbors: int, calibration: CalibrationScores) -> LearntCorrection:
        """Return the function learnt with the same settings from the points that may be learnt from there."""
        key = "trend", self.settings
        if key not in view.kept:
            view.kept[key] = learn_trend(view, calibration, self.settings) or LearntCorrection()
        return view.kept[key]

    def move(
        self, near: Neighborhoods, scores: FloatArray, points: FloatArray, own: IntArray | None = None
    ) -> FloatArray:
        """Take from scores the function where they come from, and add it where the row is."""
        owners = near.owners()
        here = (self(points) if own is None else self.values[own])[owners]
        pair = np.repeat(np.arange(len(owners)), np.diff(near.indptr))
        return np.where(owners[pair] < 0, scores, scores - self.values[near.indices] + here[pair])

    def extended(self, points: FloatArray) -> Self:
        """Return the same function, with calibration points more."""
        return self._with(self._rows.extended(self(points)))

    def restricted(self, rows: IntArray) -> Self:
        """Return the same function for some of the calibration points."""
        return self._with(self._rows.kept(rows))

    def _with(self, rows: GrowingRows) -> Self:
        other = type(self)(**self._to_saved() | {"values": rows.array})
        other._rows = rows
        return other

    def _to_saved(self) -> dict[str, Any]:
        names = "settings", "origin", "centers", "heights", "mean", "low", "high", "values"
        return {name: getattr(self, name) for name in names}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        numbers = {name: number()(name, saved_value(saved, name)) for name in ("mean", "low", "high")}
        settings = instance(TrendSettings)("settings", saved_value(saved, "settings"))
        origin = saved_array(saved, "origin", np.float64, (None,))
        centers = saved_array(saved, "centers", np.float64, (None, len(origin)))
        heights = saved_array(saved, "heights", np.float64, (len(centers),))
        values = saved_array(saved, "values", np.float64, (None,))
        return cls(settings=settings, origin=origin, centers=centers, heights=heights, values=values, **numbers)


class _Fit(NamedTuple):
    """A fit with some settings: its mean squared error at points left out, heights of bumps, and residuals."""

    error: float
    settings: TrendSettings
    heights: FloatArray
    residuals: FloatArray


def learn_trend(
    view: View,
    calibration: CalibrationScores,
    settings: TrendSettings | None = None,
    *,
    centers: FloatArray | None = None,
    shapes: Sequence[Shape] = SHAPES,
) -> LearntTrend | None:
    """Return the trend of the scores that may be learnt from, with the settings given or the best.

    Bumps stand at some of the points, or where ``centers`` of the space say.
    """
    speakers = np.arange(len(calibration)) if view.speakers is None else view.speakers
    # in the order of positions, so that which of them stand for all does not depend on the order of rows
    speakers = speakers[np.lexsort(view.points[speakers].T[::-1])]
    rows = _evenly_spaced(speakers, _MOST_POINTS)
    weights = np.ones(len(rows)) if calibration.weights is None else calibration.weights.relative[rows]
    data = _Data.of(view.points[rows], _drawn_in(calibration.z[rows]), weights)
    if len(rows) < _LEAST_POINTS or np.ptp(data.scores) == 0:
        return None
    at = _evenly_spaced(data.points, _CENTERS) if centers is None else centers
    if settings is None:
        fit = _best_fit(data, at, shapes)
        if fit is None or not fit.error < data.error_of_the_mean():
            return None
    else:
        fit = data.fit(at, settings.shape, settings.width, [settings.ridge])
    without = data.scores - fit.residuals
    placed = _place(at, data.origin, fit.settings.width)
    bounds = float(without.min()), float(without.max())
    learnt = LearntTrend(fit.settings, data.origin, placed, fit.heights, data.mean, *bounds, np.empty(0))
    values = learnt(view.points)
    values[rows] = data.mean + without
    return learnt._with(GrowingRows(values))


def _best_fit(data: "_Data", centers: FloatArray, shapes: Sequence[Shape]) -> _Fit | None:
    """Choose shape and width with some of the points and centres, and the ridge with all; None in a single place."""
    some, few = data.some(_POINTS_TO_CHOOSE), _evenly_spaced(centers, _CENTERS_TO_CHOOSE)
    best = min(_tries(some, few, shapes), key=lambda one: one.error, default=None)
    if best is None or (some is data and few is centers):
        return best
    return data.fit(centers, best.settings.shape, best.settings.width, _RIDGES)


def _tries(data: "_Data", centers: FloatArray, shapes: Sequence[Shape]) -> Iterator[_Fit]:
    """Yield the best fit of every shape and width of bumps."""
    for shape in shapes:
        unit = _typical_distance(_evenly_spaced(data.points, _PROBE), shape)
        if unit > 0:
            yield from (data.fit(centers, shape, factor * unit, _RIDGES) for factor in _WIDTHS)


class _Data(NamedTuple):
    """What a trend is learnt from: positions, how far scores are from their mean, and the share of each point."""

    points: FloatArray
    origin: FloatArray
    scores: FloatArray
    mean: float
    share: FloatArray

    @classmethod
    def of(cls, points: FloatArray, scores: FloatArray, weights: FloatArray) -> Self:
        """Take the means out."""
        share = weights / weights.sum()
        mean = float(share @ scores)
        return cls(points, points.mean(axis=0), scores - mean, mean, share)

    def some(self, most: int) -> Self:
        """Return so many points at most, to stand for all."""
        if len(self.points) <= most:
            return self
        rows = _evenly_spaced(np.arange(len(self.points)), most)
        share = self.share[rows] / self.share[rows].sum()
        return self._replace(points=self.points[rows], scores=self.scores[rows], share=share)

    def error_of_the_mean(self) -> float:
        """Return the mean square of what scores are off by."""
        return float(self.share @ self.scores**2)

    def fit(self, centers: FloatArray, shape: Shape, width: float, ridges: Sequence[float]) -> _Fit:
        """Return the best ridge regression of scores on bumps around centres; all ridges share two decompositions.

        A residual over 1 less the weight of its point in its own fit is what it would be without the point.
        """
        from scipy.linalg import solve_triangular  # slow to import, and only learning needs it

        at = _place(centers, self.origin, width)
        gram = _bumps(at, at, shape)
        root = np.linalg.cholesky(gram + _NOISE * len(at) * np.eye(len(at)))  # bumps may be equal, up to rounding
        bumps = _bumps(_place(self.points, self.origin, width), at, shape)
        features = solve_triangular(root, bumps.T, lower=True, check_finite=False).T
        weights = self.share * len(self.share)
        sizes, axes = np.linalg.eigh((features * weights[:, np.newaxis]).T @ features)
        turned = features @ axes
        moments, squares = turned.T @ (weights * self.scores), turned * turned
        best = None
        for ridge in ridges:
            inverse = 1 / (np.maximum(sizes, 0.0) + ridge)
            leverage = weights * (squares @ inverse)
            residuals = (self.scores - turned @ (inverse * moments)) / np.maximum(1 - leverage, _NOISE)
            error = float(self.share @ residuals**2)
            if best is None or error < best.error:
                best = _Fit(error, TrendSettings(shape, width, float(ridge)), axes @ (inverse * moments), residuals)
        assert best is not None
        heights = solve_triangular(root, best.heights, lower=True, trans="T", check_finite=False)
        return best._replace(heights=heights)


def _evenly_spaced(items: NDArray[Item], most: int) -> NDArray[Item]:
    """Return all items, or so many at evenly spaced places."""
    if len(items) <= most:
        return items
    return items[((np.arange(most) + 0.5) * len(items) / most).astype(np.intp)]


def _bumps(points: FloatArray, centers: FloatArray, shape: Shape) -> FloatArray:
    from scipy.spatial.distance import cdist  # slow to import, and only learning needs it

    if shape == "gaussian":
        return np.exp(-0.5 * cdist(points, centers, "sqeuclidean"))
    return np.exp(-cdist(points, centers, "cityblock"))


def _place(points: FloatArray, origin: FloatArray, width: float) -> FloatArray:
    return np.ascontiguousarray((points - origin) / width)


def _typical_distance(points: FloatArray, shape: Shape) -> float:
    """Return the median distance of points that are not in one place, 0 if all are."""
    from scipy.spatial.distance import pdist

    largest = np.abs(points - points[0]).max()
    if not largest > 0:
        return 0.0
    placed = (points - points[0]) / largest
    distances = pdist(placed) if shape == "gaussian" else pdist(placed, "cityblock")
    return float(largest * np.median(distances[distances > 0]))


def _drawn_in(scores: FloatArray) -> FloatArray:
    low, middle, high = np.quantile(scores, [0.25, 0.5, 0.75])
    reach = _OUTLYING * (high - low) / 1.349  # quartiles of N(0, 1) are that far apart
    return np.clip(scores, middle - reach, middle + reach) if reach > 0 else scores
