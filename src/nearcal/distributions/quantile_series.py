"""Quantiles at many scores: F⁻¹(Φ(z)) by Chebyshev series, where each quantile would take a search.

The scale of scores is cut into fixed panels, the same for every row and every question, so that a row's values depend
on that row alone. A row whose series has not come down to rounding in some panel gets finer panels, and where these do
not suffice either, every quantile by itself.
"""

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions.base import Distribution

_NODES = 20
_ANGLES = np.pi * (np.arange(_NODES) + 0.5) / _NODES
_TRANSFORM = (
    np.cos(np.arange(_NODES)[:, np.newaxis] * _ANGLES) * np.where(np.arange(_NODES) > 0, 2, 1)[:, np.newaxis] / _NODES
)
_COARSE = np.array([0.0, 1.5, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0])  # wider towards the tails; beyond, one by one
_PIECES = 4  # fine panels in a coarse one
_FEW = 100  # scores of a row for which a series does not pay
_NEGLIGIBLE = 1e-11  # of the slope of a row in a panel: a series that has come down to this is off by less


def quantile_values(dist: Distribution, z: FloatArray, counts: IntArray | None = None) -> FloatArray:
    """Return F⁻¹(Φ(z)) for z of shape (n, s), of which the first ``counts`` of a row matter (all, if None).

    Families whose quantiles have a formula are asked directly, and so are rows with few scores.
    """
    if not dist._quantiles_are_costly:
        return dist._from_z(z)
    many = np.full(len(dist), z.shape[1]) if counts is None else counts
    rows = np.flatnonzero(many >= _FEW)
    if len(rows) == 0:
        return dist._from_z(z)
    values = np.empty(z.shape)
    values[rows] = QuantileSeries(dist[rows], z[rows]).at(z[rows])
    rest = np.flatnonzero(many < _FEW)
    if len(rest):
        values[rest] = dist[rest]._from_z(z[rest])
    return values


class QuantileSeries:
    """The quantile functions of a batch as series on the panels that hold some scores.

    Parameters
    ----------
    dist : Distribution
        A batch of n rows.
    scores : ndarray
        Of any shape: the series cover the range of these.
    """

    def __init__(self, dist: Distribution, scores: FloatArray) -> None:
        self.dist = dist
        self.loc, self.scale, shapes = dist._standard_shapes()
        different, which = shapes._unique_rows()
        self.coarse = _Panels(_outwards(_COARSE), scores)
        series, converged = self.coarse.series(different)
        self.series, self.converged = series[which], converged[which]
        self.rest = np.flatnonzero(~self.converged.all(axis=1))
        if len(self.rest):
            places = np.arange(_PIECES * (len(_COARSE) - 1) + 1) / _PIECES
            self.fine = _Panels(_outwards(np.interp(places, np.arange(len(_COARSE)), _COARSE)), scores)
            needed, place = np.unique(which[self.rest], return_inverse=True)
            fine_series, fine_converged = self.fine.series(different[needed])
            self.fine_series, self.fine_converged = fine_series[place], fine_converged[place]

    def at(self, z: FloatArray) -> FloatArray:
        """Return the values at scores of shape (n, s)."""
        values, settled = self.coarse.evaluate(self.series, self.converged, z)
        if len(self.rest):  # score by score: panels that only other rows need must not decide for a row
            finer, settled_finer = self.fine.evaluate(self.fine_series, self.fine_converged, z[self.rest])
            values[self.rest] = np.where(settled[self.rest], values[self.rest], finer)
            settled[self.rest] |= settled_finer
        with np.errstate(over="ignore"):  # what is too large is infinite
            values = self.loc[:, np.newaxis] + self.scale[:, np.newaxis] * values
        rows, columns = np.nonzero(~settled)
        if len(rows):
            values[rows, columns] = self.dist[rows]._from_z(z[rows, columns, np.newaxis])[:, 0]
        return values


class _Panels:
    """Some of the fixed panels: those that hold scores."""

    def __init__(self, edges: FloatArray, scores: FloatArray) -> None:
        low, high = np.clip([scores.min(), scores.max()], edges[0], edges[-1])
        # the last panel, if all scores lie beyond it: some panel there must be
        first = min(max(int(np.searchsorted(edges, low, side="right")) - 1, 0), len(edges) - 2)
        # a score on an edge belongs to the panel above it, whether or not other rows have scores there
        last = max(int(np.searchsorted(edges, high, side="right")), first + 1)
        self.edges = edges[first : min(last, len(edges) - 1) + 1]
        self.middle, self.half = (self.edges[1:] + self.edges[:-1]) / 2, np.diff(self.edges) / 2

    def series(self, dist: Distribution) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the coefficients of every row and panel, (n, panels, nodes), and which series have converged."""
        nodes = self.middle[:, np.newaxis] + self.half[:, np.newaxis] * np.cos(_ANGLES)
        at_nodes = dist._from_z(np.tile(nodes.ravel(), (len(dist), 1))).reshape(len(dist), *nodes.shape)
        with np.errstate(invalid="ignore", over="ignore"):  # quantiles that overflow have no series
            # einsum, not BLAS: a row's result must not depend on the rows beside it
            series = np.einsum("rpj,cj->rpc", at_nodes, _TRANSFORM)
            # several coefficients: those of an even function vanish by turns
            return series, np.abs(series[:, :, -3:]).max(axis=2) <= _NEGLIGIBLE * np.abs(series[:, :, 1])

    def evaluate(
        self, series: FloatArray, converged: NDArray[np.bool_], z: FloatArray
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the series at scores of shape (n, s), and which of the values are settled."""
        from nearcal.kernels.series import evaluate_series

        panel = np.clip(np.searchsorted(self.edges, z, side="right") - 1, 0, len(self.half) - 1)
        x = (z - self.middle[panel]) / self.half[panel]
        values = np.empty(z.shape)
        evaluate_series(series, panel, np.clip(x, -1.0, 1.0), values)
        return values, (np.abs(x) <= 1 + 1e-9) & np.take_along_axis(converged, panel, axis=1)


def _outwards(edges: FloatArray) -> FloatArray:
    return np.concatenate([-edges[:0:-1], edges])
