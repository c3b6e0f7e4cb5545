"""Values F_i⁻¹(Φ(z_j)) of calibration rows i at calibration scores z_j: the samples that candidates weigh."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray
from nearcal.distributions import Distribution

_NODES = 20
_ANGLES = np.pi * (np.arange(_NODES) + 0.5) / _NODES
_TRANSFORM = (
    np.cos(np.arange(_NODES)[:, np.newaxis] * _ANGLES) * np.where(np.arange(_NODES) > 0, 2, 1)[:, np.newaxis] / _NODES
)
_EDGES = np.array([0.0, 1.5, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0])
_PIECES = 4  # fine panels in a coarse one
_NEGLIGIBLE = 1e-10  # of a row's spread: a series that has come down to this is off by a tenth of it at most

Indices: TypeAlias = NDArray[np.int32]


class RowValues(NamedTuple):
    """A chunk of rows: values at the scores of calibration points, responses, and the unit of both, each row's own."""

    at: Callable[[Indices], FloatArray]
    y: FloatArray
    unit: FloatArray


def row_values(dist: Distribution, y: FloatArray, z: FloatArray) -> Callable[[slice], RowValues]:
    """Return a function that prepares a chunk of rows, by the cheapest way to their quantiles.

    In a location-scale family the values are those of the standard distribution, the same for all rows. Quantiles that
    take a search are interpolated, to about 1e-10 of a row's spread. All others are computed one by one.
    """
    standardised = dist._location_scale()
    if standardised is not None:
        loc, scale, standard = standardised
        values = standard._from_z(z[np.newaxis])[0]
        return lambda rows: RowValues(values.__getitem__, (y[rows] - loc[rows]) / scale[rows], scale[rows])
    if dist._quantiles_are_costly:
        interpolation = _Interpolation(z)
        return lambda rows: RowValues(interpolation.of(dist[rows]), y[rows], np.ones(len(y[rows])))
    return lambda rows: RowValues(_one_by_one(dist[rows], z), y[rows], np.ones(len(y[rows])))


def _one_by_one(dist: Distribution, z: FloatArray) -> Callable[[Indices], FloatArray]:
    return lambda indices: dist._from_z(z[indices])


class _Interpolation:
    """Chebyshev series of quantile functions on panels of scores: coarse panels, then fine ones, then no series."""

    def __init__(self, z: FloatArray) -> None:
        self.coarse, self.fine = _Panels(z, 1), _Panels(z, _PIECES)

    def of(self, dist: Distribution) -> Callable[[Indices], FloatArray]:
        """Return the values of every row at the scores of calibration points."""
        from nearcal._jit import _panels

        series, converged = self.coarse.series(dist)
        rest = np.flatnonzero(~converged.all(axis=1))
        refined = self._refined(dist[rest]) if len(rest) else None

        def at(indices: Indices) -> FloatArray:
            values = np.empty(indices.shape)
            _panels.evaluate_panels(series, self.coarse.panel, self.coarse.polynomials, indices, values)
            if refined is not None:
                values[rest] = refined(indices[rest])
            return values

        return at

    def _refined(self, dist: Distribution) -> Callable[[Indices], FloatArray]:
        """Return the values of rows that need fine panels; in panels too coarse even so, scores are inverted singly."""
        from nearcal._jit import _panels

        series, converged = self.fine.series(dist)

        def at(indices: Indices) -> FloatArray:
            values = np.empty(indices.shape)
            _panels.evaluate_panels(series, self.fine.panel, self.fine.polynomials, indices, values)
            rows, columns = np.nonzero(~np.take_along_axis(converged, self.fine.panel[indices], axis=1))
            if len(rows):
                scores = self.fine.z[indices[rows, columns]]
                values[rows, columns] = dist[rows]._from_z(scores[:, np.newaxis])[:, 0]
            return values

        return at


class _Panels:
    """Panels of scores, wider towards the tails, with the Chebyshev polynomials of every score in its panel."""

    def __init__(self, z: FloatArray, pieces: int) -> None:
        self.z = z
        low, high = z.min(), z.max()
        places = np.arange(len(_EDGES), step=1 / pieces)[: (len(_EDGES) - 1) * pieces + 1]
        outwards = np.interp(places, np.arange(len(_EDGES)), _EDGES)
        inner = np.unique(np.concatenate([-outwards, outwards]))
        edges = np.concatenate([[low], inner[(inner > low) & (inner < high)], [max(high, np.nextafter(low, np.inf))]])
        self.middle, self.half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        self.panel = np.clip(np.searchsorted(edges, z, side="right") - 1, 0, len(self.half) - 1)
        self.fullest = int(np.bincount(self.panel).argmax())
        x = np.clip((z - self.middle[self.panel]) / self.half[self.panel], -1, 1)
        self.polynomials = np.cos(np.arange(_NODES) * np.arccos(x)[:, np.newaxis])

    def series(self, dist: Distribution) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the coefficients of every row and panel, and which of them have come down to nothing.

        They are measured by the spread of the row's values in the panel, or in the panel that most scores lie in.
        """
        nodes = self.middle[:, np.newaxis] + self.half[:, np.newaxis] * np.cos(_ANGLES)
        at_nodes = dist._from_z(np.tile(nodes.ravel(), (len(dist), 1))).reshape(len(dist), *nodes.shape)
        # einsum, not BLAS: a row's result must not depend on the rows beside it
        series = np.einsum("rpj,cj->rpc", at_nodes, _TRANSFORM)
        slope = np.abs(series[:, :, 1])
        spread = np.maximum(slope, slope[:, [self.fullest]])
        # several coefficients: those of an even function vanish by turns
        return series, np.abs(series[:, :, -3:]).max(axis=2) <= _NEGLIGIBLE * spread
