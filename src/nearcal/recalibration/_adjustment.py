"""Regression adjustment: neighbours answer for where the row is, not for where they are."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self, get_args

import numpy as np
from scipy.fft import dct

from nearcal._arrays import FloatArray
from nearcal._saved import savable, saved_array
from nearcal.recalibration._neighborhoods import Neighborhoods
from nearcal.scaling import principal_axes

Adjustment = Literal["none", "linear"]
ADJUSTMENTS: tuple[Adjustment, ...] = get_args(Adjustment)

RIDGE = 1e-3  # of the mean variance of positions in a neighbourhood
NEIGHBORS_PER_SLOPE = 5
LEAST_NEIGHBORS = 2 * NEIGHBORS_PER_SLOPE  # for a mean and one slope
MOST_DIMENSIONS = 20  # a query costs k d² for d dimensions


@savable
class LinearAdjustment:
    """Calibration scores with positions to regress them on.

    Positions are those of the scaled space, or its widest principal components where it has more dimensions than
    neighbourhoods can afford: one for every five neighbours, less one for the mean, and twenty at most. In a whitened
    space all directions are equally wide; there it is as many mixtures, in which all take part.

    Parameters
    ----------
    center : ndarray of shape (d,)
    axes : ndarray of shape (d, m)
        Turn and scale a position, less the center, into what it is regressed on.
    points : ndarray of shape (n, m)
        The calibration points there.
    """

    def __init__(self, center: FloatArray, axes: FloatArray, points: FloatArray) -> None:
        self.center, self.axes = center, axes
        self.points = np.ascontiguousarray(points)
        self.points.flags.writeable = False  # as if loaded: kernels are compiled for one kind of array

    def _to_saved(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("center", "axes", "points")}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        center = saved_array(saved, "center", np.float64, (None,))
        axes = saved_array(saved, "axes", np.float64, (len(center), None))
        points = saved_array(saved, "points", np.float64, (None, axes.shape[1]))
        return cls(center, axes, points)

    @property
    def least(self) -> int:
        """The number of neighbours below which a neighbourhood is left as it is."""
        return NEIGHBORS_PER_SLOPE * (self.axes.shape[1] + 1)

    def place(self, points: FloatArray) -> FloatArray:
        """Return what positions of the scaled space are regressed on."""
        # einsum, not BLAS: a row's result must not depend on the rows beside it
        return np.ascontiguousarray(np.einsum("nd,dm->nm", points - self.center, self.axes))

    def move(self, found: Neighborhoods, queries: FloatArray, z: FloatArray) -> Neighborhoods:
        """Return the neighbourhoods of rows at ``queries``, with the scores of neighbours moved there."""
        from nearcal._jit import _adjust

        room = _adjust.make_workroom(found.indptr, self.points.shape[1])
        scores = _adjust.adjust_linear(
            found.indptr, found.indices, found.weights, self.points, queries, found.owners(), z,
            self.least, RIDGE, room,
        )  # fmt: skip
        return replace(found, scores=scores)


def learn_adjustment(adjustment: Adjustment, points: FloatArray, neighbors: int) -> LinearAdjustment | None:
    """Prepare calibration positions for neighbourhoods of at least so many neighbours; None if they are too few."""
    dimensions = min(neighbors // NEIGHBORS_PER_SLOPE - 1, MOST_DIMENSIONS, points.shape[1])
    if adjustment == "none" or dimensions < 1:
        return None
    center = points.mean(axis=0)
    moved = points - center
    axes = np.eye(points.shape[1])
    if dimensions < points.shape[1]:
        axes = _leading_axes(moved)[:, :dimensions]
    size = np.abs(moved).max()  # squares must neither overflow nor vanish
    axes = axes / (size if size > 0 else 1.0)
    return LinearAdjustment(center, axes, np.einsum("nd,dm->nm", moved, axes))


def _leading_axes(moved: FloatArray) -> FloatArray:
    """Return axes as columns, the widest first; in a whitened space, where none is wider, even mixtures of all."""
    axes, deviation = principal_axes(moved)
    is_white = deviation.min() > (1 - 1e-6) * deviation.max()
    return dct(np.eye(len(axes)), axis=0, norm="ortho") if is_white else axes
