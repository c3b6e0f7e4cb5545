"""Leave-one-out CRPS where calibration points have weights: of neighbourhoods of a weight, and of all others.

A row is left out with all of its weight, and what k means stays in units of an average point of the whole set.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._sample_weights import PointWeights
from nearcal.recalibration.leave_one_out import find_others
from nearcal.recalibration.neighborhoods import KNearest, smoothing_code
from nearcal.space import CalibrationSpace, Neighbors
from nearcal.space.search import equal_rows
from nearcal.tuning.scoring import MOST_GLOBAL, RowValues, Scorer, score_prefixes


class WeightedScorer(Scorer):
    """A calibration set whose points have weights."""

    @property
    def weights(self) -> PointWeights:
        """The weights of calibration points."""
        assert self.calibration.weights is not None
        return self.calibration.weights

    def _score_space(
        self,
        space: CalibrationSpace,
        rows: IntArray,
        values: RowValues,
        k: Sequence[int],
        kinds: Any,
        speakers: IntArray | None,
    ) -> FloatArray:
        """Return the scores of some rows that have the same speakers, (rows, sizes, kinds of smoothing)."""
        weight = 1.0 if speakers is None else self.weights.relative[speakers].sum() / len(self.y)
        sizes = weight * np.array(k, dtype=np.float64)
        crps = np.empty((len(rows), len(sizes), len(kinds)))
        for part, near in self._parts(space, rows, k[0]):
            own = values if len(part) == len(rows) else self.values_of(rows[part])
            crps[part] = self._score(own, near, sizes, kinds)
        return crps

    def _parts(self, space: CalibrationSpace, rows: IntArray, k: int) -> Iterator[tuple[IntArray, Neighbors]]:
        """Yield places of some rows, and their nearest others of weight k."""
        most = self.workers.pairs_per_chunk()
        for view in space.views:
            places = np.flatnonzero(np.isin(rows, view.rows))
            while len(places):
                own = rows[places]
                near = find_others(KNearest(k, 0.0, "uniform", self.weights), view.index, view.points[own], own, most)
                found = len(near.radius)
                yield places[:found], near
                places = places[found:]

    def _score(self, values: RowValues, near: Neighbors, sizes: FloatArray, kinds: Any) -> FloatArray:
        """Return the scores of rows, given their neighbours by increasing distance."""
        from nearcal.kernels import weighted_leave_one_out

        assert near.shares is not None
        lengths = np.diff(near.indptr)
        row = np.repeat(np.arange(len(lengths)), lengths)
        by_value = np.lexsort((self.calibration.ranks[near.indices], row))
        table = np.zeros((len(lengths), max(int(lengths.max(initial=0)), 1)), dtype=np.int32)
        table[np.arange(table.shape[1]) < lengths[:, np.newaxis]] = near.indices[by_value]
        places = by_value - near.indptr[row]
        crps = np.empty((len(lengths), len(sizes), len(kinds)))
        weighted_leave_one_out.weighted_prefix_crps(
            near.indptr, near.distances, near.shares, places, values.at(table), values.y, sizes, kinds, crps
        )
        return crps * values.unit[:, np.newaxis, np.newaxis]

    # ---- everyone ---------------------------------------------------------------------------------------------------

    def _standard_global(self) -> FloatArray:
        crps = np.full(len(self.y), np.nan)
        everyone = [(np.arange(len(self.y)), self.by_score, self.calibration.ranks)]
        among = (
            everyone
            if self.folds is None
            else [(fold.rows, self._in_order(fold.speakers), None) for fold in self.folds.folds]
        )
        for rows, speakers, own in among:
            values = self.values_of(rows)
            score = _sample_crps(values.at(speakers), self.weights.relative[speakers], values.y, own)
            crps[rows] = values.unit * score
        return crps

    def _global(self, values: RowValues, rows: IntArray, speakers: IntArray | None) -> FloatArray:
        n, weights, uniform = len(self.y), self.weights.relative, np.array([smoothing_code("uniform")])
        among = self.by_score if speakers is None else self._in_order(speakers)
        if len(among) <= MOST_GLOBAL + 1:
            others = self._everyone_else(rows) if speakers is None else np.tile(among, (len(rows), 1))
            indptr, indices = equal_rows(len(rows), others.shape[1]), others.ravel()
            near = Neighbors(indptr, indices, np.zeros(len(indices)), np.zeros(len(rows)), weights[indices])
            return self._score(values, near, np.array([np.inf]), uniform)[:, 0, 0]
        chosen = np.tile(self._evenly_spaced(among), (len(rows), 1))
        crps = score_prefixes(values, chosen, np.zeros(chosen.shape), np.array([MOST_GLOBAL]), uniform)[:, 0, 0]
        # without row i, F - 1{x >= y_i} is Σa / (Σa - a_i) times what it is with it, since F_i⁻¹(Φ(z_i)) is y_i
        return crps if speakers is not None else crps * (n / (n - weights[rows])) ** 2

    def _evenly_spaced(self, ordered: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return points, of some by increasing score, at evenly spaced shares of their weight, which stand for all."""
        below = np.cumsum(self.weights.relative[ordered])
        wanted = (np.arange(MOST_GLOBAL) + 0.5) / MOST_GLOBAL * below[-1]
        return ordered[np.minimum(np.searchsorted(below, wanted), len(below) - 1)]


def _sample_crps(ordered: FloatArray, weights: FloatArray, y: FloatArray, own: NDArray[np.int32] | None) -> FloatArray:
    """Return the CRPS at each y of weighted values in increasing order: E|X - y| - ½ E|X - X'|.

    Given a place ``own`` for each y, that value is left out.
    """
    x, y = ordered - ordered[len(ordered) // 2], y - ordered[len(ordered) // 2]
    masses, sums = (np.concatenate([[0.0], np.cumsum(terms)]) for terms in (weights, weights * x))
    total = masses[-1]

    def total_distance(at: FloatArray) -> FloatArray:
        below = np.searchsorted(x, at)
        return at * (2 * masses[below] - total) + sums[-1] - 2 * sums[below]

    distance, pairs = total_distance(y), 2 * np.sum(weights * x * (masses[:-1] + masses[1:] - total))
    if own is None:
        return distance / total - pairs / (2 * total**2)
    share = weights[own]
    distance, pairs = distance - share * np.abs(x[own] - y), pairs - 2 * share * total_distance(x[own])
    return distance / (total - share) - pairs / (2 * (total - share) ** 2)
