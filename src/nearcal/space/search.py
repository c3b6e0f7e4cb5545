"""Neighbour search: what it takes and returns, and which structure suits a space."""

import math
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import InvalidInputError, InvalidParameterError

Metric = Literal["euclidean", "manhattan", "chebyshev", "cosine"]
METRICS: tuple[Metric, ...] = get_args(Metric)
Search = Literal["auto", "line", "boxes", "brute", "kdtree", "faiss"]
SEARCHES: tuple[Search, ...] = get_args(Search)

_SHORTEST = 1e-150  # squares of shorter vectors underflow
_COUNTED_TOGETHER = 2**19  # neighbours held while counting
_FEW_POINTS = 2048  # too few for the brute force's sample
_MOST_POINTS = 2**31 - 1  # indices are 32-bit
MOST_PAIRS = 2**62  # no bound on the neighbours of a search


@dataclass(frozen=True)
class Neighbors:
    """Neighbours of a chunk of queries in CSR form: those of query j are entries indptr[j] to indptr[j + 1].

    They come in the order in which a structure came upon them. ``radius`` is the distance to the farthest of the k
    nearest, or the radius asked for. Where points have weights, ``shares`` are those of the neighbours, as far as they
    count.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    distances: FloatArray
    radius: FloatArray
    shares: FloatArray | None = None

    @property
    def amounts(self) -> NDArray[np.int64] | FloatArray:
        """The number of neighbours of each query or, where points have weights, their weight."""
        counts = np.diff(self.indptr)
        if self.shares is None:
            return counts
        # one by one, for a sum that depends on the query alone
        return np.bincount(np.repeat(np.arange(len(counts)), counts), self.shares, len(counts))


class NeighborIndex(Protocol):
    """A searchable set of calibration points. Searches are safe to run on several threads at once."""

    metric: Metric
    shape: tuple[int, int]  # number of points, dimension

    @property
    def points(self) -> FloatArray:
        """Where the points are, (n, d), as the search sees them: for the cosine distance on the unit sphere."""
        ...

    def order(self, points: FloatArray) -> IntArray | None:
        """Return an order of queries in which those near each other follow each other; None if it would not help."""
        ...

    def nearest(self, points: FloatArray, k: int, eps: float) -> Neighbors:
        """Return the k nearest points of each query; with eps > 0 each at most 1 + eps times as far as the true one."""
        ...

    def within(self, points: FloatArray, radius: float, most: int = MOST_PAIRS) -> Neighbors:
        """Return all points at distance <= radius of each of the first queries.

        So many queries are answered that their neighbours together are at most ``most``, but one at least: nobody
        knows before the search how many there will be, and all of them may be more than memory holds.
        """
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


def count_within(index: NeighborIndex, points: FloatArray, radius: float) -> NDArray[np.int64]:
    """Count the points at distance <= radius of each query, holding a bounded number of them at a time."""
    counts = [np.zeros(0, np.int64)]
    start = 0
    while start < len(points):
        counts.append(np.diff(index.within(points[start:], radius, _COUNTED_TOGETHER).indptr))
        start += len(counts[-1])
    return np.concatenate(counts)


def build_index(points: FloatArray, metric: Metric, search: Search, k: int, eps: float = 0.0) -> NeighborIndex:
    """Build the structure asked for over points of shape (n, d); k and eps are what will be asked for."""
    n, d = points.shape
    if n > _MOST_POINTS:
        raise InvalidInputError(f"space_cal must have at most {_MOST_POINTS} rows, got {n}; calibrate on a sample")
    if search == "auto":
        search = choose_search(n, d, k, eps) if metric == "euclidean" else "kdtree"
    if metric != "euclidean" and search != "kdtree":
        raise InvalidParameterError(f'search={search!r} needs metric="euclidean", got {metric!r}; use search="auto"')
    if search == "line" and d != 1:
        raise InvalidParameterError(f'search="line" needs a space of one dimension, got {d}; use search="auto"')
    if search == "kdtree":
        from nearcal.space._kdtree import KDTreeIndex

        return KDTreeIndex(points, metric)
    if search == "faiss":
        from nearcal.space._faiss import FaissIndex

        return FaissIndex(points, k)
    from nearcal.space import _exact

    if search == "line":
        return _exact.SortedLine(points)
    return _exact.LeafBoxes(points) if search == "boxes" else _exact.BlockedBrute(points)


def choose_search(n: int, d: int, k: int, eps: float) -> Search:
    """Return the fastest exact search of the k nearest of n points in d dimensions.

    The bound on d is read off the sweeps of ``benchmarks/engine.py``: boxes prune less with each dimension and each
    neighbour, more with eps.
    """
    if d == 1:
        return "line"
    return "boxes" if n < _FEW_POINTS or d <= 9 - 2 * math.log10(k) + 3 * eps else "brute"


def import_searches() -> None:
    """Import all structures, which are otherwise imported when one is built: a file may hold any."""
    from nearcal.space import _exact, _faiss, _kdtree  # noqa: F401
