"""Calibration points in shards: each answers for its own, and together they answer as one index, to the last bit.

The k nearest of all points are among the k nearest of the shards. So whoever gathers these, in the order of their
numbers, and searches among them finds what one index over all points finds, ties included: any shards will do, also
such that points which are equal lie in different ones.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal.space.calibration_space import SpeakersIndex
from nearcal.space.growing import first_rows, side_by_side
from nearcal.space.search import MOST_PAIRS, Metric, NeighborIndex, Neighbors, build_index

_MANY = 4  # times k: a bound that holds more is loose, as of a query far from the shard that set it
_MOST_GATHERED = 2**21  # neighbours that are gathered from shards at a time


class Found(NamedTuple):
    """Calibration points that were found: their numbers in increasing order, where they are, and their scores."""

    rows: NDArray[np.int32]
    points: FloatArray
    z: FloatArray

    @classmethod
    def joined(cls, parts: Sequence["Found"], d: int) -> "Found":
        """Return the points of several, each once."""
        if len(parts) == 1:
            return parts[0]
        rows = np.concatenate([np.empty(0, np.int32), *(part.rows for part in parts)])
        rows, first = np.unique(rows, return_index=True)
        points = np.concatenate([np.empty((0, d)), *(part.points for part in parts)])
        return cls(rows, points[first], np.concatenate([np.empty(0), *(part.z for part in parts)])[first])

    def build_index(self, k: int) -> NeighborIndex:
        """Build an index over these points alone."""
        return build_index(self.points, "euclidean", "auto", k)


class Shard:
    """Some of the calibration points: a search among them, and where to find what belongs to each.

    Parameters
    ----------
    index : LeafBoxes
    rows : ndarray of int32
        The numbers of the points among all, by their place in the leaves.
    z : ndarray
        Their scores, likewise.
    places : ndarray of int32, shape (n,)
        The place in the leaves of each point, by its number in the index; these are in the order of the numbers among
        all, so that of points at one distance the same ones win.
    """

    def __init__(self, index: Any, rows: NDArray[np.int32], z: FloatArray, places: NDArray[np.int32]) -> None:
        self.index, self.rows, self.z, self.places = index, rows, z, places

    @classmethod
    def of(cls, points: FloatArray, z: FloatArray, rows: IntArray) -> Self:
        """Build a shard in memory; ``rows`` increase."""
        from nearcal.space._exact import LeafBoxes

        index = LeafBoxes(np.ascontiguousarray(points))
        order = index.tree.ids[: len(points)]
        places = np.empty(len(points), np.int32)
        places[order] = np.arange(len(points), dtype=np.int32)
        return cls(index, rows[order].astype(np.int32), z[order], places)

    @property
    def corners(self) -> FloatArray:
        """The box around all points, (2, d)."""
        tree = self.index.tree
        return np.stack([tree.group_low[0].min(axis=1), tree.group_high[0].max(axis=1)])

    def nearest(self, queries: FloatArray, k: int) -> tuple[FloatArray, Found]:
        """Return how far the k-th nearest of these points is, infinity if there are fewer, and all that are nearest."""
        own = min(k, self.index.shape[0])
        near = self.index.nearest(queries, own, 0.0)
        return near.radius if own == k else np.full(len(queries), np.inf), self.gather(near.indices)

    def nearer(self, queries: FloatArray, k: int, bounds: FloatArray) -> Found:
        """Return these points within a bound of each query or, once they are many, the k nearest."""
        near = self.index.within_each(queries, bounds, _MANY * k * len(queries))
        rest = queries[len(near.radius) :]
        found = self.gather(near.indices)
        return Found.joined([found, self.nearest(rest, k)[1]], queries.shape[1]) if len(rest) else found

    def within(self, queries: FloatArray, radius: float, most: int) -> Neighbors:
        """Return these points within a radius of the first queries, under their numbers among all."""
        near = self.index.within(queries, radius, most)
        return replace(near, indices=self.rows[self.places[near.indices]])

    def within_found(self, queries: FloatArray, radius: float) -> tuple[NDArray[np.int64], Found]:
        """Return how many of these points are within a radius of each query, and all of them."""
        near = self.index.within(queries, radius)
        return np.diff(near.indptr), self.gather(near.indices)

    def gather(self, numbers: NDArray[np.int32]) -> Found:
        """Return points by their numbers in the index, each once."""
        from nearcal.kernels.boxes import LEAF

        places = self.places[np.unique(numbers)]
        return Found(self.rows[places], self.index.tree.leaves[places // LEAF, :, places % LEAF], self.z[places])


class ShardedIndex:
    """A searchable set of calibration points that lie in shards, with the neighbours of one index over all of them.

    Parameters
    ----------
    n : int
        The number of all points.
    corners : ndarray of shape (s, 2, d)
        The box around the points of each shard.
    """

    metric: Metric = "euclidean"

    def __init__(self, n: int, corners: FloatArray) -> None:
        self.shape, self.corners = (n, corners.shape[2]), corners

    # ---- what shards are asked, wherever they are -------------------------------------------------------------------

    def ask(self, question: str, asked: Sequence[tuple[int, tuple[Any, ...]]]) -> list[Any]:
        """Return what some shards answer, each given its number and arguments: the methods of :class:`Shard`."""
        raise AssertionError("a kind of ShardedIndex says where shards are")

    def found_nearest(self, queries: FloatArray, k: int) -> Found:
        """Return points among which are the k nearest of every query.

        A query asks the shard it lies in, or nearest to, which bounds how far its neighbours are; then those whose box
        comes within the bound. Rounding is monotone: no point is nearer than its box.
        """
        gaps = self._gaps(queries)
        at_home = np.arange(len(self.corners)) == gaps.argmin(axis=1)[:, np.newaxis]
        homes = _rows_by_shard(at_home)
        answers = self.ask("nearest", [(shard, (queries[rows], k)) for shard, rows in homes])
        bounds = np.empty(len(queries))
        for (_, rows), (radius, _) in zip(homes, answers, strict=True):
            bounds[rows] = radius
        others = _rows_by_shard(~at_home & (gaps <= bounds[:, np.newaxis]))
        more = self.ask("nearer", [(shard, (queries[rows], k, bounds[rows])) for shard, rows in others])
        return Found.joined([*(found for _, found in answers), *more], self.shape[1])

    def found_within(self, queries: FloatArray, radius: float) -> tuple[NDArray[np.int64], Found]:
        """Return how many points are within a radius of each query, and all of them."""
        shards = np.flatnonzero((self._gaps(queries) <= radius).any(axis=0)).tolist()
        answers = self.ask("within_found", [(shard, (queries, radius)) for shard in shards])
        counts = sum((count for count, _ in answers), np.zeros(len(queries), np.int64))
        return counts, Found.joined([found for _, found in answers], self.shape[1])

    def _gaps(self, queries: FloatArray) -> FloatArray:
        """Return the distance of each query from the box of each shard, (m, s), squares added in order of columns."""
        total = np.zeros((len(queries), len(self.corners)))
        for j in range(self.shape[1]):
            below, above = self.corners[:, 0, j] - queries[:, j, None], queries[:, j, None] - self.corners[:, 1, j]
            gap = np.maximum(np.maximum(below, above), 0.0)
            total += gap * gap
        return np.sqrt(total)

    # ---- the search, as of any index --------------------------------------------------------------------------------

    def order(self, points: FloatArray) -> IntArray:
        """Return an order of queries by the shard that is nearest."""
        return np.argsort(self._gaps(points).argmin(axis=1), kind="stable")

    def nearest(self, points: FloatArray, k: int, eps: float) -> Neighbors:
        """Return the k nearest points of each query; ``eps`` saves nothing here and is ignored."""
        size = max(_MOST_GATHERED // k, 1)
        parts = [self._nearest(points[start : start + size], k) for start in range(0, len(points), size)]
        return parts[0] if len(parts) == 1 else _one_after_the_other(parts)

    def _nearest(self, points: FloatArray, k: int) -> Neighbors:
        found = self.found_nearest(points, k)
        return SpeakersIndex(found.build_index(k), found.rows.astype(np.intp), self.shape[0]).nearest(points, k, 0.0)

    def within(self, points: FloatArray, radius: float, most: int = MOST_PAIRS) -> Neighbors:
        """Return all points at distance <= radius of each of the first queries, with at most ``most`` together."""
        shards = np.flatnonzero((self._gaps(points) <= radius).any(axis=0)).tolist()
        parts = self.ask("within", [(shard, (points, radius, most)) for shard in shards])
        rows = min((len(part.radius) for part in parts), default=len(points))
        near = side_by_side([first_rows(part, rows) for part in parts], rows)
        rows = min(max(1, int(np.searchsorted(near.indptr[1:], most, side="right"))), rows)
        return replace(first_rows(near, rows), radius=np.full(rows, radius))

    @cached_property
    def points(self) -> FloatArray:
        """Where the points are: too many to be in one place."""
        raise AssertionError("the points of a sharded index are in its shards")


class ShardsHere(ShardedIndex):
    """Shards in the memory of this process, or mapped into it."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        super().__init__(sum(shard.index.shape[0] for shard in shards), np.stack([shard.corners for shard in shards]))
        self.shards = shards

    def ask(self, question: str, asked: Sequence[tuple[int, tuple[Any, ...]]]) -> list[Any]:
        """Ask them one after the other."""
        return [getattr(self.shards[number], question)(*arguments) for number, arguments in asked]


def _rows_by_shard(needed: NDArray[np.bool_]) -> list[tuple[int, IntArray]]:
    """Return the shards that any query needs, each with the queries that do, given a table of both."""
    return [(shard, np.flatnonzero(needed[:, shard])) for shard in np.flatnonzero(needed.any(axis=0)).tolist()]


def _one_after_the_other(parts: Sequence[Neighbors]) -> Neighbors:
    """Return the neighbours of the queries of all parts."""
    starts = np.cumsum([0, *(part.indptr[-1] for part in parts)])
    pointers = [part.indptr[1:] + start for part, start in zip(parts, starts, strict=False)]
    arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "distances", "radius"))
    return Neighbors(np.concatenate([[0], *pointers]).astype(np.int64), *arrays)
