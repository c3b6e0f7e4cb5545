"""Local-linear correction: neighbours answer for where the row is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal._growing import GrowingRows
from nearcal._saved import savable, saved_array
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.corrections import Correction, LearntCorrection
from nearcal.recalibration.neighborhoods import Neighborhoods
from nearcal.space import MOST_AXES, View

if TYPE_CHECKING:
    from nearcal.recalibration.leave_one_out import LeaveOneOut

_RIDGE = 1e-3  # of the mean variance of positions in a neighbourhood
_NEIGHBORS_PER_SLOPE = 5
LEAST_NEIGHBORS = 2 * _NEIGHBORS_PER_SLOPE  # for a mean and one slope
_MOST_DIMENSIONS = MOST_AXES  # a query costs k d² for d dimensions


@savable
@dataclass(frozen=True)
class LocalLinear(Correction):
    """Let neighbours answer for where the row is, not for where they are.

    In the neighbourhood of a row at x, the scores z_i are regressed on positions x_i by least squares with weights w_i
    and a ridge of a thousandth of the mean variance of positions. With z̄ and x̄ the weighted means and b the slope,
    neighbours then have the scores

        z̄ + s b·(x - x̄) + c_i (z_i - z̄ - s b·(x_i - x̄)).

    - s = max(0, 1 - σ² Σ w_i l_i / explained) is James and Stein's factor: the sum of squares that position explains,
      against what it would explain by chance. l_i = w_i (x_i - x̄)ᵀ(G + λI)⁻¹(x_i - x̄) is the leverage that a point has
      beyond its weight, G the weighted covariance of positions, σ² the residual sum of squares over
      1 - Σ w_i² - Σ w_i l_i. Where s is 0 the row is left as it is.
    - s fades with the leverage of the row, h = (x - x̄)ᵀ(G + λI)⁻¹(x - x̄), to which the noise of its move is in
      proportion. Neighbours have d on average, the number of slopes: where it is more, s becomes
      s / (s + (1 - s) h / d), as James and Stein would have it for rows as far out; and where it is more than twice the
      largest such number H of the neighbours that count, 2H / h of that.
    - b·(x - x̄) is kept between the least and the greatest of b·(x_i - x̄): the regression is not extrapolated.
    - c_i = (1 - w_i) / (1 - w_i - s l_i), at most 3, turns residuals into what they would be without point i in the
      regression, so that intervals do not shrink.

    A neighbourhood of k points affords k / 5 - 1 slopes. A space of more dimensions, or of more than 20, is reduced to
    its widest principal components for the regression, or to mixtures of all directions where it is whitened and none
    is wider; with fewer than 10 neighbours nothing is adjusted. Use it where the model is misspecified and its errors
    drift across neighbourhoods; a good network leaves little to adjust.

    References
    ----------
    M. A. Beaumont, W. Zhang and D. J. Balding, *Approximate Bayesian Computation in Population Genetics*, Genetics
    162:2025-2035, 2002, doi:10.1093/genetics/162.4.2025.
    """

    def learn(self, left_out: "LeaveOneOut", view: View) -> "LearntLinear | None":
        """Prepare calibration positions; None if neighbourhoods are too small for a slope."""
        affordable = left_out.neighborhood.least // _NEIGHBORS_PER_SLOPE - 1
        dimensions = min(affordable, _MOST_DIMENSIONS, view.points.shape[1])
        return _seen_in(view, dimensions) if dimensions >= 1 else None


@savable
class LearntLinear(LearntCorrection):
    """Calibration positions to regress scores on.

    Parameters
    ----------
    center : ndarray of shape (d,)
    axes : ndarray of shape (d, m)
        Turn and scale a position, less the center, into what it is regressed on.
    places : ndarray of shape (n, m)
        The calibration points there.
    """

    moves_scores = True

    def __init__(self, center: FloatArray, axes: FloatArray, places: FloatArray) -> None:
        self.center, self.axes = center, axes
        self._hold(GrowingRows(np.ascontiguousarray(places)))

    def _hold(self, rows: GrowingRows) -> None:
        self._rows, self.places = rows, rows.array.view()
        self.places.flags.writeable = False  # as if loaded: kernels are compiled for one kind of array

    @classmethod
    def of(cls, view: View, dimensions: int) -> Self:
        """Learn the positions of points for so many slopes."""
        center = view.learnt_from.mean(axis=0)
        moved = view.points - center
        width = view.points.shape[1]
        axes = view.leading_axes[:, :dimensions] if dimensions < width else np.eye(width)
        # squares must neither overflow nor vanish; what is smaller is the rounding of the mean
        axes = axes / max(np.abs(moved).max(), 1e-300)
        return cls(center, axes, _place(view.points, center, axes))

    def seen_in(self, view: View, neighbors: int, calibration: CalibrationScores) -> LearntCorrection:
        """Return as many slopes for other positions of the calibration points, or as many as the neighbours afford."""
        dimensions = min(self.axes.shape[1], neighbors // _NEIGHBORS_PER_SLOPE - 1)
        return _seen_in(view, dimensions) if dimensions >= 1 else LearntCorrection()

    def move(
        self, near: Neighborhoods, scores: FloatArray, points: FloatArray, own: IntArray | None = None
    ) -> FloatArray:
        """Regress and move, neighbourhood by neighbourhood."""
        from nearcal.kernels import adjust

        queries = np.ascontiguousarray(_place(points, self.center, self.axes))
        least = _NEIGHBORS_PER_SLOPE * (self.axes.shape[1] + 1)
        return adjust.adjust_linear(
            near.indptr, near.indices, near.weights, self.places, queries, near.owners(), scores, least, _RIDGE,
            adjust.make_workroom(near.indptr, self.places.shape[1]),
        )  # fmt: skip

    def extended(self, points: FloatArray) -> Self:
        """Return the same center and axes, with calibration points more."""
        return self._with(self._rows.extended(_place(points, self.center, self.axes)))

    def restricted(self, rows: IntArray) -> Self:
        """Return the same center and axes for some of the calibration points."""
        return self._with(self._rows.kept(rows))

    def _with(self, rows: GrowingRows) -> Self:
        other = type(self)(self.center, self.axes, rows.array)
        other._hold(rows)
        return other

    def _to_saved(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("center", "axes", "places")}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        center = saved_array(saved, "center", np.float64, (None,))
        axes = saved_array(saved, "axes", np.float64, (len(center), None))
        return cls(center, axes, saved_array(saved, "places", np.float64, (None, axes.shape[1])))


def _seen_in(view: View, dimensions: int) -> LearntLinear:
    """Return the positions of points for so many slopes, which neighbourhoods of many sizes ask for."""
    key = "linear", dimensions
    if key not in view.kept:
        view.kept[key] = LearntLinear.of(view, dimensions)
    learnt: LearntLinear = view.kept[key]
    return learnt


def _place(points: FloatArray, center: FloatArray, axes: FloatArray) -> FloatArray:
    """Return what points are regressed on."""
    # einsum, not BLAS: a row's result must not depend on the rows beside it
    return np.einsum("nd,dm->nm", points - center, axes)
