"""Smooth functions of position, learnt from what is known at all calibration points: kernel ridge regression.

What a function says at a calibration point it says as if it had not seen that point.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from nearcal._arrays import FloatArray, IntArray
from nearcal._growing import GrowingRows
from nearcal._saved import instance, number, one_of, savable, saved_array, saved_value
from nearcal.space import View

Item = TypeVar("Item", bound=np.generic)
Shape: TypeAlias = Literal["gaussian", "laplace"]

SHAPES: tuple[Shape, ...] = ("gaussian", "laplace")
_LEAST_POINTS = 20
_MOST_POINTS = 5000  # that a function is learnt from
_POINTS_TO_CHOOSE, _CENTERS_TO_CHOOSE = 1000, 150  # enough to tell shapes and widths apart
_RIDGES = 10.0 ** np.arange(-3, 3.25, 0.5)
_PROBE = 200  # points whose distances tell the median
_NOISE = 1e-9  # relative size of what is rounding


@savable(shape=one_of(*SHAPES), width=number(5e-324), ridge=number(5e-324))
@dataclass(frozen=True)
class BumpSettings:
    """The shape of bumps, their width, and the ridge that keeps their heights low."""

    shape: Shape
    width: float
    ridge: float


@savable
class SmoothFunction:
    """A sum of bumps, and its values at calibration points, to each of whom it owes nothing.

    Parameters
    ----------
    settings : BumpSettings
        Positions are x - origin in units of the width.
    origin : ndarray of shape (d,)
    centers : ndarray of shape (m, d)
        Of bumps, in these units.
    heights : ndarray of shape (m,)
    mean, low, high : float
        The function is the mean plus what bumps add up to, but that between low and high.
    values : ndarray of shape (n,)
        At calibration points: the function without them.
    """

    def __init__(
        self,
        settings: BumpSettings,
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
        settings = instance(BumpSettings)("settings", saved_value(saved, "settings"))
        origin = saved_array(saved, "origin", np.float64, (None,))
        centers = saved_array(saved, "centers", np.float64, (None, len(origin)))
        heights = saved_array(saved, "heights", np.float64, (len(centers),))
        values = saved_array(saved, "values", np.float64, (None,))
        return cls(settings=settings, origin=origin, centers=centers, heights=heights, values=values, **numbers)


class Choice(NamedTuple):
    """What is to be chosen from: shapes of bumps, widths in median distances between points, and so many centres."""

    shapes: Sequence[Shape] = SHAPES
    widths: Sequence[float] = (0.35, 0.7, 1.4, 2.8, 5.6)
    most_centers: int = 700


CHOICE = Choice()


class _Fit(NamedTuple):
    """A fit with some settings: its mean squared error at points left out, heights of bumps, and residuals."""

    error: float
    settings: BumpSettings
    heights: FloatArray
    residuals: FloatArray


def learn_smooth(
    view: View,
    targets: FloatArray,
    weights: FloatArray | None = None,
    settings: BumpSettings | None = None,
    choice: Choice = CHOICE,
    centers: FloatArray | None = None,
) -> SmoothFunction | None:
    """Return the function that is nearest to targets at the points that may be learnt from, with the settings given.

    Without any they are those of the least leave-one-out error of a choice, and there is no function if the mean of
    targets has less. Bumps stand at some of the points, or where ``centers`` of the space say.
    """
    speakers = np.arange(len(targets)) if view.speakers is None else view.speakers
    # in the order of positions, so that which of them stand for all does not depend on the order of rows
    speakers = speakers[np.lexsort(view.points[speakers].T[::-1])]
    rows = evenly_spaced(speakers, _MOST_POINTS)
    data = _Data.of(view.points[rows], targets[rows], np.ones(len(rows)) if weights is None else weights[rows])
    if len(rows) < _LEAST_POINTS or np.ptp(data.targets) == 0:
        return None
    at = evenly_spaced(data.points, choice.most_centers) if centers is None else centers
    with threadpool_limits(1, user_api="blas"):  # more gain little here, and lose much beside anything else
        fit = _chosen_fit(data, at, choice) if settings is None else data.fit(at, settings)
    if fit is None or (settings is None and not fit.error < data.error_of_the_mean()):
        return None
    without = data.targets - fit.residuals
    placed = _place(at, data.origin, fit.settings.width)
    bounds = float(without.min()), float(without.max())
    learnt = SmoothFunction(fit.settings, data.origin, placed, fit.heights, data.mean, *bounds, np.empty(0))
    values = learnt(view.points)
    values[rows] = data.mean + without
    return learnt._with(GrowingRows(values))


def _chosen_fit(data: "_Data", centers: FloatArray, choice: Choice) -> _Fit | None:
    """Choose shape and width with some of the points and centres, and the ridge with all; None in a single place."""
    some, few = data.some(_POINTS_TO_CHOOSE), evenly_spaced(centers, _CENTERS_TO_CHOOSE)
    best = min(_tries(some, few, choice), key=lambda one: one.error, default=None)
    if best is None or (some is data and few is centers):
        return best
    return data.best_fit(centers, best.settings.shape, best.settings.width)


def _tries(data: "_Data", centers: FloatArray, choice: Choice) -> Iterator[_Fit]:
    """Yield the best fit of every shape and width of bumps."""
    for shape in choice.shapes:
        unit = _typical_distance(evenly_spaced(data.points, _PROBE), shape)
        if unit > 0:
            yield from (data.best_fit(centers, shape, factor * unit) for factor in choice.widths)


class _Data(NamedTuple):
    """What a function is learnt from: positions, how far targets are from their mean, and the share of each point."""

    points: FloatArray
    origin: FloatArray
    targets: FloatArray
    mean: float
    share: FloatArray

    @classmethod
    def of(cls, points: FloatArray, targets: FloatArray, weights: FloatArray) -> Self:
        """Take the means out."""
        share = weights / weights.sum()
        mean = float(share @ targets)
        return cls(points, points.mean(axis=0), targets - mean, mean, share)

    def some(self, most: int) -> Self:
        """Return so many points at most, to stand for all."""
        if len(self.points) <= most:
            return self
        rows = evenly_spaced(np.arange(len(self.points)), most)
        share = self.share[rows] / self.share[rows].sum()
        return self._replace(points=self.points[rows], targets=self.targets[rows], share=share)

    def error_of_the_mean(self) -> float:
        """Return the mean square of what targets are off by."""
        return float(self.share @ self.targets**2)

    def best_fit(self, centers: FloatArray, shape: Shape, width: float) -> _Fit:
        """Return the ridge regression of targets on bumps around centres with the best ridge; all share an eigenbasis.

        A residual over 1 less the weight of its point in its own fit is what it would be without the point.
        """
        root, features, gram, weights = self._features(centers, shape, width)
        sizes, axes = np.linalg.eigh(gram)
        turned = features @ axes
        moments, squares = turned.T @ (weights * self.targets), turned * turned
        inverses = 1 / (np.maximum(sizes, 0.0)[:, np.newaxis] + _RIDGES)  # one column a ridge
        heights = inverses * moments[:, np.newaxis]
        residuals = self._left_out(turned @ heights, weights[:, np.newaxis] * (squares @ inverses))
        errors = self.share @ residuals**2
        best = int(np.argmin(errors))
        settings = BumpSettings(shape, width, float(_RIDGES[best]))
        found = _solve(root, axes @ heights[:, best], transposed=True)
        return _Fit(float(errors[best]), settings, found, residuals[:, best].copy())

    def fit(self, centers: FloatArray, settings: BumpSettings) -> _Fit:
        """Return the ridge regression with these settings: a quarter of the work of finding the best ridge."""
        root, features, gram, weights = self._features(centers, settings.shape, settings.width)
        triangle = _root(gram + settings.ridge * np.eye(len(gram)))
        turned = _solve(triangle, features.T).T
        heights = turned.T @ (weights * self.targets)
        residuals = self._left_out(turned @ heights, weights * np.einsum("im,im->i", turned, turned))
        heights = _solve(root, _solve(triangle, heights, transposed=True), transposed=True)
        return _Fit(float(self.share @ residuals**2), settings, heights, residuals)

    def _features(self, centers: FloatArray, shape: Shape, width: float) -> tuple[FloatArray, ...]:
        """Return R with RRᵀ the kernel of centres, bumps at points times R⁻ᵀ, their moments, and weights of mean 1."""
        at = _place(centers, self.origin, width)
        root = _root(_bumps(at, at, shape) + _NOISE * len(at) * np.eye(len(at)))  # bumps may be equal, up to rounding
        features = _solve(root, _bumps(_place(self.points, self.origin, width), at, shape).T).T
        weights = self.share * len(self.share)
        weighed = features * np.sqrt(weights)[:, np.newaxis]
        return root, features, weighed.T @ weighed, weights

    def _left_out(self, fitted: FloatArray, leverage: FloatArray) -> FloatArray:
        """Return residuals of points as if each had not been seen, of one fit or of several side by side."""
        return ((self.targets - fitted.T) / np.maximum(1 - leverage.T, _NOISE)).T


def _root(matrix: FloatArray) -> FloatArray:
    """Return L, lower triangular, with LLᵀ the matrix."""
    return np.linalg.cholesky(matrix).astype(np.float64, copy=False)


def _solve(triangle: FloatArray, right: FloatArray, transposed: bool = False) -> FloatArray:
    """Return L⁻¹ times what is right of it, or L⁻ᵀ."""
    from scipy.linalg import solve_triangular  # slow to import, and only learning needs it

    solution: FloatArray = solve_triangular(
        triangle, right, lower=True, trans="T" if transposed else "N", check_finite=False
    )
    return solution


def evenly_spaced(items: NDArray[Item], most: int) -> NDArray[Item]:
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
