"""Leave-one-out CRPS of every candidate at every calibration row."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions import Distribution, Normal
from nearcal.recalibration._chunks import Workers
from nearcal.recalibration._left_out import LeftOut, Neighborhood, View
from nearcal.recalibration._local_sample import Calibration, LocalSample
from nearcal.scores.arrays import sorted_sample_crps
from nearcal.smoothing import Smoothing, smoothing_code
from nearcal.tuning._candidates import Candidate
from nearcal.tuning._row_values import RowValues, row_values

_MOST_COSTLY = 50  # quantiles that stand for a moved sample, where each takes a search
_MOST_GLOBAL = 2000  # scores that stand for all others, where quantiles differ in shape from row to row


class LeaveOneOut:
    """A calibration set whose rows are recalibrated by one another.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n calibration rows.
    y, z : ndarray of shape (n,)
        Responses and their normal scores.
    workers : Workers
        Threads, memory and progress.
    """

    def __init__(self, dist: Distribution, y: FloatArray, z: FloatArray, workers: Workers) -> None:
        self.dist, self.y, self.workers = dist, y, workers
        self.calibration = Calibration(z)
        self.order = np.argsort(self.calibration.ranks).astype(np.int32)
        self.values_of = row_values(dist, y, z)

    def crps(
        self, searches: Sequence[Sequence[View]], k: Sequence[int], smoothings: Sequence[Smoothing]
    ) -> tuple[FloatArray, FloatArray]:
        """Return the scores of global recalibration, (n,), and of local, (spaces, len(k), len(smoothings), n).

        ``k`` must decrease. Global scores are exact for location-scale families, and for all where n is at most 2,001;
        beyond, 2,000 scores at evenly spaced ranks stand for all.
        """
        n = len(self.y)
        sizes = np.array(k, dtype=np.int64)
        kinds = np.array([smoothing_code(smoothing) for smoothing in smoothings], dtype=np.int64)
        local = np.empty((len(searches), len(k), len(smoothings), n))
        is_standardised = self.dist._location_scale() is not None
        everyone = self._standardised_global() if is_standardised else np.empty(n)

        def task(rows: slice) -> None:
            values = self.values_of(rows)
            if not is_standardised:
                everyone[rows] = self._global(values, rows)
            for place, views in enumerate(searches):
                found = self._others(views, rows, k[0])
                local[place, :, :, rows] = np.moveaxis(_score(values, *found, sizes, kinds), 0, -1)

        pairs = 1 if is_standardised else min(n, _MOST_GLOBAL)
        self.workers.run(task, self.workers.chunks(n, max(pairs, *k, self.dist._values_per_row)))
        return everyone, local

    def moved_crps(self, views: Sequence[View], candidate: Candidate, rows: IntArray) -> FloatArray:
        """Return the scores of a local candidate that moves scores, at some rows; the others get NaN."""
        assert candidate.k is not None
        assert candidate.smoothing is not None
        asked = Neighborhood(candidate.k, None, candidate.smoothing, 0.0, 1, candidate.adjustment or "none")
        left_out = LeftOut(self.calibration, views, asked, replace(self.workers, progress=False))
        if candidate.shrinkage:
            left_out = left_out.shrunk()
        chosen = left_out.of(rows)

        def score(sample: LocalSample, own: IntArray) -> FloatArray:
            return sorted_sample_crps(*self._moved_sample(sample), self.y[own])

        return chosen.gather(self.dist, score, np.full(len(self.y), np.nan))

    def _moved_sample(self, sample: LocalSample) -> tuple[FloatArray, FloatArray]:
        """Return the weighted sample of every row, in increasing order.

        Where quantiles take a search, quantiles at evenly spaced levels stand for a sample of more neighbours.
        """
        standardised = sample.base._location_scale()
        if standardised is not None and isinstance(standardised[2], Normal):
            loc, scale, _ = standardised
            return sample.sorted_sample((loc, scale, sample.calibration.z))
        if not sample.base._quantiles_are_costly or int(sample._lengths().max()) <= _MOST_COSTLY:
            return sample.sorted_sample(None)
        levels = (np.arange(_MOST_COSTLY) + 0.5) / _MOST_COSTLY
        scores = sample.quantile_scores(np.tile(levels, (len(sample.base), 1)), "step")
        return sample.base._from_z(scores), np.full((1, _MOST_COSTLY), 1 / _MOST_COSTLY)

    def _others(self, views: Sequence[View], rows: slice, k: int) -> tuple[NDArray[np.int32], FloatArray]:
        """Return the k nearest other points of some rows, ordered by score, and their distances."""
        from nearcal._jit import _leave_one_out

        count = rows.stop - rows.start
        indices, distances = np.empty((count, k), np.int32), np.empty((count, k))
        for view in views:
            first, last = np.searchsorted(view.rows, [rows.start, rows.stop])
            own = view.rows[first:last]
            if len(own) == 0:
                continue
            found = view.index.nearest(view.points[own], k + 1, 0.0)
            near, far = np.empty((len(own), k), np.int32), np.empty((len(own), k))
            _leave_one_out.order_others(
                found.indices.reshape(len(own), -1),
                found.distances.reshape(len(own), -1),
                own,
                self.calibration.ranks,
                near,
                far,
            )
            indices[own - rows.start], distances[own - rows.start] = near, far
        return indices, distances

    def _standardised_global(self) -> FloatArray:
        values = self.values_of(slice(0, len(self.y)))
        return values.unit * _equal_weights_crps(values.at(self.order), values.y, self.calibration.ranks)

    def _global(self, values: RowValues, rows: slice) -> FloatArray:
        n = len(self.y)
        indices = self._everyone_else(rows)
        sizes, uniform = np.array([indices.shape[1]]), np.array([smoothing_code("uniform")])
        crps = _score(values, indices, np.zeros(indices.shape), sizes, uniform)[:, 0, 0]
        # without row i, F - 1{x >= y_i} is n / (n - 1) times what it is with it, since F_i⁻¹(Φ(z_i)) is y_i
        return crps if n <= _MOST_GLOBAL + 1 else crps * (n / (n - 1)) ** 2

    def _everyone_else(self, rows: slice) -> NDArray[np.int32]:
        """Return all other points by increasing score, or points at evenly spaced ranks that stand for all."""
        n = len(self.y)
        if n <= _MOST_GLOBAL + 1:
            others: IntArray = np.arange(n - 1)
            return self.order[others + (others >= self.calibration.ranks[rows, np.newaxis])]
        ranks = ((np.arange(_MOST_GLOBAL) + 0.5) * n / _MOST_GLOBAL).astype(np.intp)
        return np.tile(self.order[ranks], (rows.stop - rows.start, 1))


def _score(values: RowValues, indices: NDArray[np.int32], distances: FloatArray, sizes: Any, kinds: Any) -> FloatArray:
    """Return the CRPS of neighbourhoods ordered by score, of shape (rows, sizes, kinds)."""
    from nearcal._jit import _leave_one_out, _select

    crps = np.empty((len(indices), len(sizes), len(kinds)))
    scratch = _select.make_scratch(indices.shape[1])
    _leave_one_out.prefix_crps(indices, distances, values.at(indices), values.y, sizes, kinds, scratch, crps)
    return crps * values.unit[:, np.newaxis, np.newaxis]


def _equal_weights_crps(ordered: FloatArray, y: FloatArray, ranks: NDArray[np.int32]) -> FloatArray:
    """Return the CRPS at y_i of all values but the i-th, equally weighted: E|X - y| - ½ E|X - X'|, by rank."""
    n = len(ordered)
    center = ordered[n // 2]
    x, y = ordered - center, y - center
    sums = np.concatenate([[0.0], np.cumsum(x)])

    def total_distance(at: FloatArray) -> FloatArray:
        below = np.searchsorted(x, at)
        return at * (2 * below - n) + sums[n] - 2 * sums[below]

    own = x[ranks]
    pairs = 2 * np.sum(x * (2 * np.arange(n) - n + 1)) - 2 * total_distance(own)
    return (total_distance(y) - np.abs(own - y)) / (n - 1) - pairs / (2 * (n - 1) ** 2)
