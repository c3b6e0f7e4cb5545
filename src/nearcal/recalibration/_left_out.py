"""Calibration points as if they were new: each recalibrated by the others, in a space that was learnt without it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions import Distribution, Normal
from nearcal.neighbors import NeighborIndex, NeighborLists
from nearcal.neighbors._protocol import equal_rows
from nearcal.recalibration._adjustment import Adjustment, LinearAdjustment, learn_adjustment
from nearcal.recalibration._chunks import Workers
from nearcal.recalibration._local_sample import Calibration, LocalSample
from nearcal.recalibration._neighborhoods import NO_NEIGHBORHOOD, Neighborhoods, most_within, weigh
from nearcal.recalibration._shrinkage import Shrinkage, learn_shrinkage
from nearcal.scaling import learn_scaling

_FOLDS = 5
_MOST_SHRUNK = 2000  # points whose neighbourhoods tell how much true ones vary


@dataclass(frozen=True)
class View:
    """All calibration points in a scaled space, and those of them that are looked up there."""

    points: FloatArray
    index: NeighborIndex
    rows: IntArray


@dataclass(frozen=True)
class Neighborhood:
    """What a neighbourhood is: the options of :class:`LocalRecalibrator` that say so."""

    k: int | None
    radius: float | None
    smoothing: str
    eps: float
    min_neighbors: int
    adjustment: Adjustment

    @property
    def least(self) -> int:
        """The number of neighbours that every row has, or should have."""
        return self.k if self.k is not None else self.min_neighbors


def cross_fitted_views(
    scaling: str,
    space: FloatArray,
    components: int | None,
    z: FloatArray,
    build: Callable[[FloatArray], NeighborIndex],
) -> list[View]:
    """Return views of a space in which no point was learnt from; one, where scaling does not look at scores.

    A space stretched by relevance suits the scores that it was learnt from better than any others. So there are five
    of them, each learnt without a fifth of the points, which is looked up in that one.
    """
    n = len(z)
    if scaling != "relevance" or n < 2 * _FOLDS:
        points = learn_scaling(scaling, space, components, z)(space)
        return [View(points, build(points), np.arange(n))]
    fold = np.random.default_rng(0).permutation(n) % _FOLDS
    views = []
    for number in range(_FOLDS):
        others = fold != number
        points = learn_scaling(scaling, space[others], components, z[others])(space)
        views.append(View(points, build(points), np.flatnonzero(~others)))
    return views


class LeftOut:
    """Neighbourhoods of calibration points among the others, and what is made of their scores.

    Parameters
    ----------
    calibration : Calibration
        The scores of all n points.
    views : sequence of View
        Spaces to look up points in; each point in one.
    neighborhood : Neighborhood
        What to look for.
    workers : Workers
        Threads, memory and progress.
    """

    def __init__(
        self, calibration: Calibration, views: Sequence[View], neighborhood: Neighborhood, workers: Workers
    ) -> None:
        self.calibration, self.workers, self.neighborhood = calibration, workers, neighborhood
        self.shrinkage: Shrinkage | None = None
        self._views = [
            (view, learn_adjustment(neighborhood.adjustment, view.points, neighborhood.least)) for view in views
        ]

    def shrunk(self) -> "LeftOut":
        """Return the same with shrinkage, learnt from these neighbourhoods."""
        n = len(self.calibration.z)
        moments = np.full((n, 3), np.nan)
        if n > 1:
            some = np.sort(np.random.default_rng(0).permutation(n)[:_MOST_SHRUNK])
            self.of(some).gather(None, lambda sample, rows: sample.score_moments(), moments)
        result = object.__new__(LeftOut)
        vars(result).update(vars(self), shrinkage=learn_shrinkage(self.calibration.z, moments))
        return result

    def of(self, rows: IntArray) -> "LeftOut":
        """Return the same for some of the points alone."""
        result = object.__new__(LeftOut)
        views = [
            (replace(view, rows=np.intersect1d(view.rows, rows, assume_unique=True)), adjustment)
            for view, adjustment in self._views
        ]
        vars(result).update(vars(self), _views=[view for view in views if len(view[0].rows)])
        return result

    def gather(
        self,
        dist: Distribution | None,
        statistic: Callable[[LocalSample, IntArray], FloatArray],
        values: FloatArray,
    ) -> FloatArray:
        """Fill ``values``, one entry a point, with a statistic of its neighbourhood among the others.

        ``dist`` are the base distributions of all points, or None where scores stand for responses. Within a radius,
        points with fewer than ``min_neighbors`` others get NaN: what a thin neighbourhood gets instead says nothing
        of the others.
        """
        for view, adjustment in self._views:
            self._fill(view, adjustment, dist, statistic, values)
        return values

    def _fill(
        self,
        view: View,
        adjustment: LinearAdjustment | None,
        dist: Distribution | None,
        statistic: Callable[[LocalSample, IntArray], FloatArray],
        values: FloatArray,
    ) -> None:
        own_points = view.points[view.rows]
        order = view.index.order(own_points)
        order = view.rows if order is None else view.rows[order]
        n, radius = len(view.points), self.neighborhood.radius
        pairs = self._others(n) + 1 if radius is None else min(most_within(view.index, view.points, radius), n)

        def task(chunk: slice) -> None:
            rows = order[chunk]
            found = self._find(view, rows)
            if adjustment is not None:
                found = adjustment.move(found, adjustment.place(view.points[rows]), self.calibration.z)
            if self.shrinkage is not None:
                found = self.shrinkage.move(found, self.calibration.z)
            for part in found.split(self.workers.pairs_per_chunk()):
                own = rows[part]
                base = _standard_normal(len(own)) if dist is None else dist[own]
                sample = LocalSample(base, found.part(part), self.calibration)
                result = statistic(sample, own)
                result[sample.left_alone] = np.nan
                values[own] = result

        self.workers.run(task, self.workers.chunks(len(order), pairs))

    def _others(self, n: int) -> int:
        assert self.neighborhood.k is not None
        return min(self.neighborhood.k, n - 1)

    def _find(self, view: View, rows: IntArray) -> Neighborhoods:
        asked, n = self.neighborhood, len(view.points)
        if asked.radius is None:
            nearest = view.index.nearest(view.points[rows], self._others(n) + 1, asked.eps)
            lists, least = _drop_own_of_nearest(nearest, rows), 1
        else:
            lists = _drop_own_within(view.index.within(view.points[rows], asked.radius), rows)
            least = max(min(asked.min_neighbors, n - 1), 1)
        found = weigh(lists, asked.smoothing)
        enough = np.diff(lists.indptr) >= least
        return replace(found, which=np.where(enough, found.which, NO_NEIGHBORHOOD))


def _standard_normal(rows: int) -> Distribution:
    return Normal(np.zeros(rows), 1.0)


def _drop_own_of_nearest(lists: NeighborLists, own: IntArray) -> NeighborLists:
    """Drop each query itself from its nearest points; where equals crowded it out, the last of them."""
    rows = len(own)
    indices, distances = lists.indices.reshape(rows, -1), lists.distances.reshape(rows, -1)
    dropped = indices == own[:, np.newaxis]
    crowded = np.flatnonzero(~dropped.any(axis=1))
    if len(crowded):
        farthest = distances[crowded] == distances[crowded].max(axis=1, keepdims=True)
        dropped[crowded, np.where(farthest, indices[crowded], -1).argmax(axis=1)] = True
    k = indices.shape[1] - 1
    kept = distances[~dropped].reshape(rows, k)
    return NeighborLists(equal_rows(rows, k), indices[~dropped], kept.ravel(), kept.max(axis=1))


def _drop_own_within(lists: NeighborLists, own: IntArray) -> NeighborLists:
    """Drop each query itself from the points within its radius."""
    row = np.repeat(np.arange(len(own)), np.diff(lists.indptr))
    kept = lists.indices != own[row]
    counts = np.bincount(row[kept], minlength=len(own))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return NeighborLists(indptr, lists.indices[kept], lists.distances[kept], lists.reach)
