"""scipy's k-d tree: any Minkowski metric, and the cosine distance."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal._saved import one_of, require, savable, saved_array, saved_value
from nearcal.space.search import MOST_PAIRS, Metric, Neighbors, equal_rows

_LARGEST = 1e150  # as of spaces that are fitted: squared distances must not overflow
_MINKOWSKI_POWER = {"euclidean": 2.0, "manhattan": 1.0, "chebyshev": np.inf, "cosine": 2.0}


@savable
class KDTreeIndex:
    """scipy's ``cKDTree``; the cosine distance 1 - cos is searched as Euclidean distance on the unit sphere."""

    def __init__(self, points: FloatArray, metric: Metric = "euclidean") -> None:
        self.metric = metric
        self._plant(self._place(points))

    def _plant(self, placed: FloatArray) -> None:
        from scipy.spatial import cKDTree

        self.shape = placed.shape[0], placed.shape[1]
        self._power = _MINKOWSKI_POWER[self.metric]
        self._tree = cKDTree(placed)

    def _to_saved(self) -> dict[str, Any]:
        return {"metric": self.metric, "placed": np.asarray(self._tree.data)}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        """Build the tree again: scipy has no other way, and it is the same tree."""
        index = cls.__new__(cls)
        index.metric = one_of(*_MINKOWSKI_POWER)("metric", saved_value(saved, "metric"))
        placed = saved_array(saved, "placed", np.float64, (None, None))
        # where distances overflow, scipy answers with row numbers that do not exist
        farthest = max(-placed.min(), placed.max())
        require(farthest <= _LARGEST, f"placed must not exceed {_LARGEST:g} in magnitude, got {farthest:g}")
        index._plant(placed)
        return index

    @property
    def points(self) -> FloatArray:
        """Where the points are, (n, d); on the unit sphere, where the metric compares directions."""
        return np.asarray(self._tree.data)

    def order(self, points: FloatArray) -> None:
        """Return None: this search gains nothing from an order of its queries."""

    def nearest(self, points: FloatArray, k: int, eps: float) -> Neighbors:
        """Return the k nearest points of each query; exact ones are, among equals, those of the smallest index."""
        distances, indices = self._query(self._place(points), k, k if eps > 0 else k + 1, eps)
        distances = self._from_tree(distances)
        indptr = equal_rows(len(points), k)
        return Neighbors(indptr, indices.ravel().astype(np.int32), distances.ravel(), distances.max(axis=1))

    def _query(self, queries: FloatArray, k: int, wide: int, eps: float) -> tuple[FloatArray, IntArray]:
        """Return the k nearest of the ``wide`` nearest, of more where the last of these are as far as the k-th."""
        wide = min(wide, self.shape[0])
        # a list of ranks keeps the neighbour axis for k = 1
        found = self._tree.query(queries, k=range(1, wide + 1), eps=eps, p=self._power)
        distances, indices = (np.reshape(table, (len(queries), wide)) for table in found)
        if wide == k:
            return distances, indices
        near, nearest = distances[:, :k], indices[:, :k]
        tied = np.flatnonzero(distances[:, k - 1] == distances[:, k])
        if len(tied):
            order = np.lexsort((indices[tied], distances[tied]))[:, :k]
            near[tied], nearest[tied] = (np.take_along_axis(t[tied], order, axis=1) for t in (distances, indices))
        undecided = np.flatnonzero(distances[:, k - 1] == distances[:, -1])
        if len(undecided) and wide < self.shape[0]:
            near[undecided], nearest[undecided] = self._query(queries[undecided], k, 2 * wide, eps)
        return near, nearest

    def within(self, points: FloatArray, radius: float, most: int = MOST_PAIRS) -> Neighbors:
        """Return all points at distance <= radius of each of the first queries, with at most ``most`` together."""
        from scipy.spatial import cKDTree

        reach = np.sqrt(2 * radius) if self.metric == "cosine" else radius
        placed = self._place(points)
        found = np.cumsum(self._tree.query_ball_point(placed, reach, p=self._power, return_length=True))
        rows = min(max(1, int(np.searchsorted(found, most, side="right"))), len(points))
        queries = cKDTree(placed[:rows])
        pairs = queries.sparse_distance_matrix(self._tree, reach, p=self._power, output_type="ndarray")
        order = np.argsort(pairs["i"], kind="stable")
        counts = np.bincount(pairs["i"], minlength=rows)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        indices, distances = pairs["j"][order].astype(np.int32), self._from_tree(pairs["v"][order])
        return Neighbors(indptr, indices, distances, np.full(rows, radius))

    def _place(self, points: FloatArray) -> FloatArray:
        if self.metric != "cosine":
            return points
        return points / np.linalg.norm(points, axis=1, keepdims=True)

    def _from_tree(self, distances: FloatArray) -> FloatArray:
        return distances**2 / 2 if self.metric == "cosine" else distances
