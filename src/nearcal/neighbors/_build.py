"""Choose and build the search structure for a calibration space."""

import math
from typing import Literal, get_args

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal.neighbors._protocol import Metric, NeighborIndex

Search = Literal["auto", "line", "boxes", "brute", "kdtree", "faiss"]
SEARCHES: tuple[Search, ...] = get_args(Search)

_FEW_POINTS = 2048  # too few for the brute force's sample
_MOST_POINTS = 2**31 - 1  # indices are 32-bit


def choose_search(n: int, d: int, k: int, eps: float) -> Search:
    """Return the fastest exact search of the k nearest of n points in d dimensions, as measured."""
    if d == 1:
        return "line"
    # boxes prune less with each dimension and each neighbour, more with eps
    most = 9 - 2 * math.log10(k) + 3 * eps
    return "boxes" if n < _FEW_POINTS or d <= most else "brute"


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
    return _build(points, metric, search, k)


def import_searches() -> None:
    """Import every structure: saved files name their classes, and some load slowly."""
    from nearcal.neighbors import _exact, _faiss, _kdtree  # noqa: F401


def _build(points: FloatArray, metric: Metric, search: Search, k: int) -> NeighborIndex:
    if search == "kdtree":
        from nearcal.neighbors._kdtree import KDTreeIndex

        return KDTreeIndex(points, metric)
    if search == "faiss":
        from nearcal.neighbors._faiss import FaissIndex

        return FaissIndex(points, k)
    from nearcal.neighbors import _exact

    if search == "line":
        return _exact.SortedLine(points)
    return _exact.LeafBoxes(points) if search == "boxes" else _exact.BlockedBrute(points)
