"""A calibration space made ready: scaled, searchable, and seen as if each point were new."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal._sample_weights import PointWeights
from nearcal.space._relevance import learn_relevance_without
from nearcal.space.folds import Folds, share_of
from nearcal.space.scaling import Scaling, SpaceMap, is_constant, principal_axes
from nearcal.space.search import (
    MOST_PAIRS,
    Metric,
    NeighborIndex,
    Neighbors,
    Search,
    build_index,
    check_points,
    choose_search,
)

_FOLDS = 5
MOST_AXES = 20  # that anything is regressed on


@dataclass(frozen=True)
class View:
    """All calibration points in a scaled space, and those of them that are looked up there: which, and where.

    They are looked up among all, or among ``speakers`` alone, which are others; the space was learnt from these. What
    corrections learn from all points, whatever the number of neighbours, is ``kept``.
    """

    points: FloatArray
    index: NeighborIndex
    rows: IntArray
    queries: FloatArray
    speakers: IntArray | None = None
    kept: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def learnt_from(self) -> FloatArray:
        """The points that may be learnt from."""
        return self.points if self.speakers is None else self.points[self.speakers]

    @cached_property
    def leading_axes(self) -> FloatArray:
        """The twenty widest axes of the points as columns; in a whitened space, where none is wider, even mixtures.

        Wide spaces make this costly, and every number of neighbours asks for it: it is computed once.
        """
        moved = self.learnt_from - self.learnt_from.mean(axis=0)
        axes, deviation = principal_axes(moved, components=MOST_AXES)
        # as wide as the widest on average: all are
        is_white = np.square(moved).mean() > (1 - 1e-6) ** 2 * deviation.max() ** 2
        return dct(np.eye(moved.shape[1], axes.shape[1]), axis=0, norm="ortho") if is_white else axes


class SpeakersIndex:
    """Some of n calibration points, to be searched for others than themselves: found under their numbers among all."""

    def __init__(self, index: NeighborIndex, speakers: IntArray, n: int) -> None:
        self.metric, self.shape = index.metric, index.shape
        self._index, self._speakers, self._n = index, speakers.astype(np.int32), n

    def share_of(self, k: int) -> int:
        """Return how many of these points are as large a share of them as k is of all."""
        return share_of(k, self.shape[0], self._n)

    def share_of_weight(self, k: float, weights: FloatArray) -> float:
        """Return the same as a weight, given those of all points, of mean 1."""
        return k * float(weights[self._speakers].sum()) / self._n

    @property
    def points(self) -> FloatArray:
        """Where these points are."""
        return self._index.points

    def order(self, points: FloatArray) -> IntArray | None:
        """As in the index of these points alone."""
        return self._index.order(points)

    def nearest(self, points: FloatArray, k: int, eps: float) -> Neighbors:
        """Return the k nearest, under their numbers among all."""
        return self._renumbered(self._index.nearest(points, k, eps))

    def within(self, points: FloatArray, radius: float, most: int = MOST_PAIRS) -> Neighbors:
        """Return all within a radius, of the first queries."""
        return self._renumbered(self._index.within(points, radius, most))

    def _renumbered(self, found: Neighbors) -> Neighbors:
        return replace(found, indices=self._speakers[found.indices])


class CalibrationSpace:
    """Calibration points in one scaled space; everything is built when it is first asked for, and once.

    Parameters
    ----------
    space : ndarray of shape (n, d)
        Positions as they were given.
    z : ndarray of shape (n,)
        Normal scores, which scaling by relevance looks at.
    scaling : Scaling
    metric, search : str
    k : int
        The number of neighbours that will be asked for, and ``eps``: the structure for the search is chosen for them.
    folds : Folds, optional
        Which points may speak for which; None lets all others speak for each.
    weights : PointWeights, optional
        Of the points, by which a scaling counts them.
    """

    def __init__(
        self,
        space: FloatArray,
        z: FloatArray,
        scaling: Scaling,
        k: int,
        *,
        metric: Metric = "euclidean",
        search: Search = "auto",
        eps: float = 0.0,
        folds: Folds | None = None,
        weights: PointWeights | None = None,
    ) -> None:
        self.space, self.z, self.scaling, self.folds, self.weights = space, z, scaling, folds, weights
        self.k, self.metric, self.search, self.eps = k, metric, search, eps

    @cached_property
    def map(self) -> SpaceMap:
        """The scaling, learnt from all points."""
        return self._learn_from(slice(None))

    @cached_property
    def whole(self) -> View:
        """All points in the space that was learnt from all of them."""
        points = self.map(self.space)
        return View(points, self._build(points), np.arange(len(points)), points)

    @cached_property
    def views(self) -> list[View]:
        """Views of the space in which no point was learnt from; one, where scaling does not look at scores.

        A space stretched by relevance suits the scores that it was learnt from better than any others. So there are
        five of them, each learnt without a fifth of the points, which is looked up in that one. Where folds say who may
        speak, there is a view for each, learnt from those who may.
        """
        if self.folds is not None:
            return [self._view_among(fold.speakers, fold.rows) for fold in self.folds.folds]
        n = len(self.z)
        if self.scaling.name != "relevance" or n < 2 * _FOLDS:
            return [self.whole]
        fold = np.random.default_rng(0).permutation(n) % _FOLDS
        weights = None if self.weights is None else self.weights.relative
        relevance = learn_relevance_without(self.space, self.z, fold, _FOLDS, weights)
        return [self._view_without(fold == number, own) for number, own in enumerate(relevance)]

    def _view_without(self, left_out: NDArray[np.bool_], relevance: FloatArray) -> View:
        points = self._learn_from(~left_out, relevance=relevance)(self.space)
        # columns that tell nothing are zero: a search that nobody will save need not go through them
        points = np.ascontiguousarray(points[:, points.any(axis=0)]) if points.any() else points
        rows = np.flatnonzero(left_out)
        return View(points, self._build(points), rows, points[rows])

    def _view_among(self, speakers: IntArray, rows: IntArray) -> View:
        # early on, columns that vary later may not have varied yet
        scaling = Scaling("none") if is_constant(self.space[speakers]).all() else self.scaling
        points = self._learn_from(speakers, scaling)(self.space)
        return View(points, self._build(points, speakers), rows, points[rows], speakers)

    def _learn_from(
        self, rows: slice | NDArray[Any], scaling: Scaling | None = None, relevance: FloatArray | None = None
    ) -> SpaceMap:
        weights = None if self.weights is None else self.weights.relative[rows]
        return (scaling or self.scaling).learn(
            self.space[rows], self.z[rows], None if weights is None else weights / weights.mean(), relevance
        )

    def _build(self, points: FloatArray, speakers: IntArray | None = None) -> NeighborIndex:
        check_points(points, self.metric, "space_cal")
        if speakers is not None:
            own = build_index(points[speakers], self.metric, self.search, self.k, self.eps)
            return SpeakersIndex(own, speakers, len(points))
        return build_index(points, self.metric, self.search, self.k, self.eps)

    def for_neighbors(self, k: int) -> "CalibrationSpace":
        """Return the same space for another number of neighbours; what is built stays, if it suits them as well."""
        n, d = len(self.space), self.map.width
        is_chosen = self.search == "auto" and self.metric == "euclidean"
        if not is_chosen or choose_search(n, d, self.k, self.eps) == choose_search(n, d, k, self.eps):
            return self
        other = CalibrationSpace(
            self.space, self.z, self.scaling, k, metric=self.metric, search=self.search, eps=self.eps,
            folds=self.folds, weights=self.weights,
        )  # fmt: skip
        built = vars(self)
        vars(other)["map"] = self.map
        if "whole" in built:
            vars(other)["whole"] = other._again(self.whole)
        if "views" in built and (len(self.views) > 1 or self.folds is not None):
            vars(other)["views"] = [other._again(view) for view in self.views]
        return other

    def _again(self, view: View) -> View:
        """Return a view with the structure that suits this number of neighbours."""
        return replace(view, index=self._build(view.points, view.speakers))
