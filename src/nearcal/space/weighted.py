"""The nearest points of a weight: neighbours among points that do not count alike.

Where points have weights, k neighbours are the nearest points whose weights add up to k, in units of an average point.
The last of them counts with the part that is needed to reach k, so that whole weights are repeated points.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._sample_weights import ENOUGH
from nearcal.space.search import MOST_PAIRS, NeighborIndex, Neighbors

LeftOut = Callable[[IntArray, NDArray[np.int32]], NDArray[np.bool_]]

_MARGIN = 1.25  # of k: that many points are asked for first, since a few of them may be light


class _Found(NamedTuple):
    """Neighbours of some queries, by increasing distance, one query after the other."""

    rows: IntArray
    counts: IntArray
    indices: NDArray[np.int32]
    distances: FloatArray
    shares: FloatArray


def nearest_of_weight(
    index: NeighborIndex,
    points: FloatArray,
    k: float,
    eps: float,
    weights: FloatArray,
    left_out: LeftOut | None = None,
    most: int = MOST_PAIRS,
) -> Neighbors:
    """Return the nearest points of weight k of each of the first queries; all points where they weigh less.

    The order is that of distance, the smallest index first among equals, and the search asks for more points, twice as
    many each time, for the queries alone that lack weight: what a query gets depends on no other.

    Parameters
    ----------
    index : NeighborIndex
    points : ndarray of shape (m, d)
        Queries.
    k : float
    eps : float
        As in ``index.nearest``.
    weights : ndarray of shape (n,)
        Positive weights of the points of the index.
    left_out : callable, optional
        Takes numbers of queries (r,) and indices of neighbours (r, w), and tells which of these do not count.
    most : int
        So many queries are answered that tables of the search have at most ``most`` entries, but one at least.
    """
    n = index.shape[0]
    rows, width, stop = np.arange(len(points)), min(int(np.ceil(_MARGIN * k)) + 1, n), len(points)
    found = []
    while len(rows):
        affordable = max(1, most // width)
        if len(rows) > affordable:
            rows, stop = rows[:affordable], int(rows[affordable])
        near = index.nearest(points[rows], width, eps)
        shape = len(rows), width
        part, lacks = _cut(rows, near.indices.reshape(shape), near.distances.reshape(shape), k, weights, left_out)
        if width == n:
            found.append(part)
            break
        found.append(_choose(part, ~lacks))
        rows, width = rows[lacks], min(2 * width, n)
    return _join(found, stop)


def _cut(
    rows: IntArray,
    indices: NDArray[np.int32],
    distances: FloatArray,
    k: float,
    weights: FloatArray,
    left_out: LeftOut | None,
) -> tuple[_Found, NDArray[np.bool_]]:
    """Return the first neighbours of weight k among those found, and which rows have too few."""
    order = _by_distance(indices, distances)
    indices, distances = np.take_along_axis(indices, order, axis=1), np.take_along_axis(distances, order, axis=1)
    shares = weights[indices]
    if left_out is not None:
        shares[left_out(rows, indices)] = 0.0
    reached = np.cumsum(shares, axis=1)
    before = reached - shares
    # none but the last is cut: what is before it lacks something of k
    counts = (before < ENOUGH * k) & (shares > 0)
    shares = np.minimum(shares, k - before)
    part = _Found(rows, counts.sum(axis=1), indices[counts], distances[counts], shares[counts])
    return part, reached[:, -1] < ENOUGH * k


def _by_distance(indices: NDArray[np.int32], distances: FloatArray) -> IntArray:
    """Return the order of each row by distance, the smallest index first among equals, which are looked for after."""
    order = np.argsort(distances, axis=1)
    ordered = np.take_along_axis(distances, order, axis=1)
    tied = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    order[tied] = np.lexsort((indices[tied], distances[tied]), axis=-1)
    return order


def _choose(part: _Found, chosen: NDArray[np.bool_]) -> _Found:
    if chosen.all():
        return part
    pairs = np.repeat(chosen, part.counts)
    return _Found(
        part.rows[chosen], part.counts[chosen], part.indices[pairs], part.distances[pairs], part.shares[pairs]
    )


def _join(found: list[_Found], stop: int) -> Neighbors:
    """Return the neighbours of the first ``stop`` queries, in their order."""
    parts = [_choose(part, part.rows < stop) for part in found]
    rows = np.concatenate([part.rows for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    indices, distances, shares = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "distances", "shares")
    )
    if len(parts) > 1:
        order = np.argsort(rows, kind="stable")
        starts = (np.cumsum(counts) - counts)[order]
        counts = counts[order]
        within = np.arange(len(indices)) - np.repeat(np.cumsum(counts) - counts, counts)
        pairs = np.repeat(starts, counts) + within
        indices, distances, shares = indices[pairs], distances[pairs], shares[pairs]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    radius = np.zeros(len(counts))
    radius[counts > 0] = distances[indptr[1:][counts > 0] - 1]  # the last is the farthest
    return Neighbors(indptr, indices, distances, radius, shares)
