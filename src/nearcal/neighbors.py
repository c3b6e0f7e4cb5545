"""Neighbour search behind one small protocol; the first backend is scipy's k-d tree."""

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, check_choice
from nearcal._errors import InvalidInputError

Metric = Literal["euclidean", "manhattan", "chebyshev", "cosine"]
METRICS: tuple[Metric, ...] = get_args(Metric)

_MINKOWSKI_POWER = {"euclidean": 2.0, "manhattan": 1.0, "chebyshev": np.inf, "cosine": 2.0}
_SHORTEST = 1e-150  # squares of shorter vectors underflow


@dataclass(frozen=True)
class NeighborLists:
    """Neighbours of a chunk of queries in CSR form: those of query j are entries indptr[j] to indptr[j + 1].

    The order of neighbours within a query is unspecified, but depends on the query alone.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    distances: FloatArray


class NeighborIndex(Protocol):
    """A searchable set of calibration points. Searches are safe to run on several threads at once."""

    metric: Metric

    def nearest(self, points: FloatArray, k: int, eps: float) -> NeighborLists:
        """Return the k nearest points of each query; with eps > 0 each at most 1 + eps times as far as the true one."""
        ...

    def within(self, points: FloatArray, radius: float) -> NeighborLists:
        """Return all points at distance <= radius of each query."""
        ...


def check_points(points: FloatArray, metric: str, name: str) -> None:
    """Refuse points without a direction where the metric compares directions."""
    if metric != "cosine":
        return
    short = np.linalg.norm(points, axis=1) < _SHORTEST
    if short.any():
        raise InvalidInputError(
            f'{name} must have no zero row for metric="cosine", after scaling, got zeros in row {int(np.argmax(short))}'
        )


class KDTreeIndex:
    """scipy's ``cKDTree``; the cosine distance 1 - cos is searched as Euclidean distance on the unit sphere."""

    def __init__(self, points: FloatArray, metric: Metric = "euclidean") -> None:
        from scipy.spatial import cKDTree

        check_choice(metric, METRICS, "metric")
        self.metric = metric
        self._power = _MINKOWSKI_POWER[metric]
        self._tree = cKDTree(self._place(points))

    def nearest(self, points: FloatArray, k: int, eps: float) -> NeighborLists:
        """Return the k nearest points of each query."""
        # a list of ranks keeps the neighbour axis for k = 1
        queries = self._place(points)
        found = self._tree.query(queries, k=range(1, k + 1), eps=eps, p=self._power)
        distances, indices = (np.ravel(table) for table in found)
        indptr = np.arange(len(points) + 1, dtype=np.int64) * k
        return NeighborLists(indptr, indices.astype(np.int32), self._from_tree(distances))

    def within(self, points: FloatArray, radius: float) -> NeighborLists:
        """Return all points at distance <= radius of each query."""
        from scipy.spatial import cKDTree

        reach = np.sqrt(2 * radius) if self.metric == "cosine" else radius
        queries = cKDTree(self._place(points))
        pairs = queries.sparse_distance_matrix(self._tree, reach, p=self._power, output_type="ndarray")
        order = np.lexsort((pairs["j"], pairs["i"]))
        counts = np.bincount(pairs["i"], minlength=len(points))
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return NeighborLists(indptr, pairs["j"][order].astype(np.int32), self._from_tree(pairs["v"][order]))

    def _place(self, points: FloatArray) -> FloatArray:
        if self.metric != "cosine":
            return points
        return points / np.linalg.norm(points, axis=1, keepdims=True)

    def _from_tree(self, distances: FloatArray) -> FloatArray:
        return distances**2 / 2 if self.metric == "cosine" else distances
