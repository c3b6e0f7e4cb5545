"""What a neighbour search takes and returns."""

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import InvalidInputError

Metric = Literal["euclidean", "manhattan", "chebyshev", "cosine"]
METRICS: tuple[Metric, ...] = get_args(Metric)

_SHORTEST = 1e-150  # squares of shorter vectors underflow


@dataclass(frozen=True)
class NeighborLists:
    """Neighbours of a chunk of queries in CSR form: those of query j are entries indptr[j] to indptr[j + 1].

    The order of neighbours within a query is unspecified, but depends on the query alone. ``reach`` is the distance to
    the farthest of the k nearest, or the radius.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    distances: FloatArray
    reach: FloatArray


class NeighborIndex(Protocol):
    """A searchable set of calibration points. Searches are safe to run on several threads at once."""

    metric: Metric
    shape: tuple[int, int]  # number of points, dimension

    def order(self, points: FloatArray) -> IntArray | None:
        """Return an order of queries in which those near each other follow each other; None if it would not help."""
        ...

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


def equal_rows(rows: int, k: int) -> NDArray[np.int64]:
    """Return the row pointers of ``rows`` queries with k neighbours each."""
    return np.arange(rows + 1, dtype=np.int64) * k
