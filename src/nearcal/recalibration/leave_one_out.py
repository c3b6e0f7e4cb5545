"""Leave-one-out: calibration points as if they were new, each among the others.

Tuning, shrinkage, polish and reliability all ask what the others say of a point. This is the one place where a point
is taken out of its own neighbourhood.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from nearcal._arrays import FloatArray, IntArray
from nearcal._sample_weights import ENOUGH
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.corrections import LearntCorrection, bend, correct, moves_scores
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.neighborhoods import NO_NEIGHBORHOOD, KNearest, Neighborhood, Neighborhoods, weigh
from nearcal.recalibration.score_laws import CONTINUOUS_RULES, QuantileRule
from nearcal.recalibration.steps import Steps
from nearcal.recalibration.workers import Workers
from nearcal.space import MOST_PAIRS, NeighborIndex, Neighbors, SpeakersIndex, View
from nearcal.space.search import equal_rows

if TYPE_CHECKING:
    from nearcal.distributions import Distribution


@dataclass(frozen=True)
class LeaveOneOut:
    """Neighbourhoods of calibration points among the others.

    Parameters
    ----------
    calibration : CalibrationScores
        The scores of all n points.
    views : callable
        Returns the spaces to look up points in, each point in one at most; called when first needed.
    neighborhood : Neighborhood
        What to look for.
    quantile_rule : str
        How weighted scores are read.
    workers : Workers
    corrections : tuple of LearntCorrection
        What is made of neighbours' scores.
    rows_by_time : ndarray of shape (n,), optional
        The points from the oldest to the latest; None if they are in that order.
    asked : ndarray, optional
        The points that are looked at where nothing else is said; None for all.
    """

    calibration: CalibrationScores
    views: Callable[[], Sequence[View]]
    neighborhood: Neighborhood
    quantile_rule: QuantileRule
    workers: Workers
    corrections: tuple[LearntCorrection, ...] = ()
    asked: IntArray | None = None
    rows_by_time: IntArray | None = None

    @property
    def order(self) -> IntArray:
        """The points from the oldest to the latest, as far as it is known."""
        return np.arange(len(self.calibration)) if self.rows_by_time is None else self.rows_by_time

    @property
    def widest(self) -> View:
        """The view that most is to be learnt in: from most points, and in most columns."""
        return max(self.views(), key=lambda view: (view.index.shape[0], view.points.shape[1]))

    def corrected(self, correction: LearntCorrection) -> "LeaveOneOut":
        """Return the same with one more correction."""
        return replace(self, corrections=(*self.corrections, correction))

    def corrections_in(self, view: View) -> tuple[LearntCorrection, ...]:
        """Return the corrections as they are learnt in one of the views."""
        neighbors = self._neighbors(view.index)
        return tuple(correction.seen_in(view, neighbors, self.calibration) for correction in self.corrections)

    def law(self, steps: Steps) -> Curve:
        """Return the scores of some points as a curve, bent by what was learnt so far."""
        return bend(steps.curve(predictive=self.quantile_rule == "predictive"), self.corrections)

    def gather(
        self, statistic: Callable[[Steps, IntArray], FloatArray], values: FloatArray, rows: IntArray | None = None
    ) -> FloatArray:
        """Fill ``values``, one entry a point, with a statistic of its neighbourhood; of some points, if given.

        Within a radius, points with fewer than ``min_neighbors`` others get NaN: what a thin neighbourhood gets instead
        says nothing of the others. Points that are looked up in no view keep the value that they have.
        """
        rows = self.asked if rows is None else rows
        for view in self.views():
            places = np.arange(len(view.rows)) if rows is None else np.flatnonzero(np.isin(view.rows, rows))
            if len(places):
                self._gather_view(view, places, statistic, values)
        return values

    def values(self, dist_cal: "Distribution", scores: FloatArray, rows: IntArray | None = None) -> FloatArray:
        """Return the quantiles of points at levels Φ(scores), each recalibrated by the others, (n, s); of some rows."""

        def read(steps: Steps, rows: IntArray) -> FloatArray:
            at, base = np.broadcast_to(scores, (len(rows), len(scores))), dist_cal[rows]
            if self.quantile_rule in CONTINUOUS_RULES:
                return self.law(steps).values(base, at)
            return steps.quantiles(base, ndtr(at))

        return self.gather(read, np.full((len(self.calibration), len(scores)), np.nan), rows)

    def _gather_view(
        self, view: View, places: IntArray, statistic: Callable[[Steps, IntArray], FloatArray], values: FloatArray
    ) -> None:
        order = view.index.order(view.queries[places])
        order = places if order is None else places[order]
        corrections = self.corrections_in(view)
        is_ordered = self.quantile_rule in CONTINUOUS_RULES or moves_scores(corrections)
        most = self.workers.pairs_per_chunk()

        def task(chunk: slice) -> None:
            start = chunk.start
            while start < chunk.stop:
                places = order[start : chunk.stop]
                near = self._find(view.index, view.queries[places], view.rows[places], most)
                places = places[: len(near.which)]
                rows = view.rows[places]
                if is_ordered:
                    near = near.by_score(self.calibration.ranks)
                near = correct(near, view.queries[places], self.calibration.z, corrections, rows)
                for part in near.split(most):
                    steps = Steps(near.part(part), self.calibration)
                    result = statistic(steps, rows[part])
                    result[steps.neighborhoods.which < 0] = np.nan
                    values[rows[part]] = result
                start += len(places)

        pairs = self.neighborhood.pairs_per_row(view.index, view.queries[places])
        self.workers.run(task, self.workers.chunks(len(order), pairs + 1))

    def _neighbors(self, index: NeighborIndex) -> int:
        """Return the number of neighbours that every row has, or should have."""
        if isinstance(index, SpeakersIndex) and isinstance(self.neighborhood, KNearest):
            return index.share_of(self.neighborhood.k)
        return self.neighborhood.least

    def _find(self, index: NeighborIndex, points: FloatArray, own: IntArray, most: int) -> Neighborhoods:
        """Return the neighbourhoods of the first of the points, as many as have at most ``most`` neighbours."""
        others = find_others(self.neighborhood, index, points, own, most)
        near = weigh(others, self.neighborhood.smoothing)
        enough = np.diff(others.indptr) >= 1
        if not isinstance(self.neighborhood, KNearest):
            weights = self.neighborhood.weights
            others_at_most = index.shape[0] - (1 if weights is None else weights.relative[own[: len(enough)]])
            enough &= others.amounts >= ENOUGH * np.minimum(self.neighborhood.least, others_at_most)
        return replace(near, which=np.where(enough, near.which, NO_NEIGHBORHOOD))


def find_others(
    neighborhood: Neighborhood, index: NeighborIndex, points: FloatArray, own: IntArray, most: int = MOST_PAIRS
) -> Neighbors:
    """Return the neighbours of calibration points ``own``, at ``points``, without the points themselves.

    Of the k + 1 nearest k remain; where equals crowded the point out, the last of them goes instead. Within a radius,
    where nobody knows how many there will be, and where points have weights, they are those of the first points with at
    most ``most`` together. An index of speakers alone holds none of the points; there they have the nearest, as large a
    share of the speakers as k is of all points.
    """
    if isinstance(neighborhood, KNearest) and neighborhood.weights is not None:
        return neighborhood.search_others(index, points, own, most)
    if isinstance(index, SpeakersIndex) and isinstance(neighborhood, KNearest):
        return index.nearest(points, index.share_of(neighborhood.k), neighborhood.eps)
    all_near = neighborhood.search(index, points, most)
    counts = np.diff(all_near.indptr)
    rows = len(counts)
    if isinstance(neighborhood, KNearest):
        from nearcal.kernels import leave_one_out

        k = int(counts[0]) - 1
        indices, distances = np.empty((rows, k), np.int32), np.empty((rows, k))
        leave_one_out.drop_own(
            all_near.indices.reshape(rows, -1), all_near.distances.reshape(rows, -1), own, indices, distances
        )
        return Neighbors(equal_rows(rows, k), indices.ravel(), distances.ravel(), distances.max(axis=1, initial=0.0))
    row = np.repeat(np.arange(rows), counts)
    is_other = all_near.indices != own[row]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row[is_other], minlength=rows))]).astype(np.int64)
    shares = None if all_near.shares is None else all_near.shares[is_other]
    return Neighbors(indptr, all_near.indices[is_other], all_near.distances[is_other], all_near.radius, shares)
