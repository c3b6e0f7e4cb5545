"""An index that takes in points and lets go of others without being built again every time.

Points lie in segments, one structure each: a large first one, and later ones for what was added since. Those later ones
are joined as they pile up, and all are built into one again when more than a tenth of the points were added since, or
forgotten. The k nearest of all are picked from those of each segment by the rules of one structure: nearer ones, then
those of the smallest index. So answers are, to the last bit, those of an index built anew.

Searches whose answers depend on how points lie in the structure (with eps > 0, and faiss) are built anew when they are
asked for the first time after a change; a sorted line takes new points in where they belong.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal._growing import GrowingRows
from nearcal.space.search import MOST_PAIRS, Metric, NeighborIndex, Neighbors, Search, build_index, equal_rows

if TYPE_CHECKING:
    from nearcal.kernels.select import Nearest

_MOST_CHANGED = (
    10  # all points are built into one structure when more than one in so many was added since, or forgotten
)
_FEW = 1024  # points added that share one structure
_JOINED = 4  # structures of added points are joined unless the earlier one is so many times larger


class Growing(NeighborIndex, Protocol):
    """An index that larger and smaller ones can be made from."""

    def extended(self, points: FloatArray) -> Self:
        """Return an index of these points followed by more."""
        ...

    def restricted(self, rows: IntArray) -> Self:
        """Return an index of some of the points, given their numbers in increasing order."""
        ...


class IndexPlan(NamedTuple):
    """What an index is built for: see ``build_index``."""

    metric: Metric
    search: Search
    k: int
    eps: float

    def build(self, points: FloatArray) -> NeighborIndex:
        """Build one structure over points."""
        return build_index(points, self.metric, self.search, self.k, self.eps)


class _Segment(NamedTuple):
    """The rows from start to stop, in a structure of their own."""

    start: int
    stop: int
    structure: NeighborIndex


class _Parts(NamedTuple):
    """Rows, of which some may be forgotten, and structures over the first of them."""

    rows: GrowingRows
    kept: IntArray | None  # numbers of the rows that count, increasing; None for all
    segments: tuple[_Segment, ...]

    def points(self) -> FloatArray:
        """Return where the points that count are."""
        return self.rows.array if self.kept is None else self.rows.array[self.kept]


class GrowingIndex:
    """A searchable set of points that larger and smaller sets can be made from; it never changes itself.

    Parameters
    ----------
    plan : IndexPlan
        For what structures are built.
    parts : _Parts
        Points and the structures that are there already; the missing ones are built when first asked for.
    """

    def __init__(self, plan: IndexPlan, parts: _Parts) -> None:
        self.plan, self._parts = plan, parts
        self.metric: Metric = plan.metric
        kept, points = parts.kept, parts.rows.array
        self.shape = len(points) if kept is None else len(kept), points.shape[1]

    def extended(self, points: FloatArray) -> "GrowingIndex":
        """Return an index of these points followed by more."""
        rows, kept, segments = self._latest
        first, rows = len(rows), rows.extended(points)
        if kept is not None:
            kept = np.concatenate([kept, np.arange(first, len(rows))])
        return GrowingIndex(self.plan, _Parts(rows, kept, segments))

    def restricted(self, rows: IntArray) -> "GrowingIndex":
        """Return an index of some of the points, given their numbers in increasing order."""
        parts = self._latest
        kept = rows if parts.kept is None else parts.kept[rows]
        return GrowingIndex(self.plan, parts._replace(kept=kept))

    @property
    def points(self) -> FloatArray:
        """Where the points are, (n, d)."""
        return self._latest.points()

    @cached_property
    def settled(self) -> NeighborIndex:
        """All points in one structure, built anew unless it is there already."""
        rows, kept, segments = self._latest
        if kept is None and len(segments) == 1 and segments[0].stop == len(rows):
            return segments[0].structure
        return self.plan.build(self.points)

    @property
    def _latest(self) -> _Parts:
        """The parts, with all structures if these are built."""
        return vars(self).get("_built", self._parts)

    @cached_property
    def _built(self) -> _Parts:
        """The parts, with structures over all rows."""
        rows, kept, segments = self._parts
        in_first = segments[0].stop if segments else 0
        forgotten = 0 if kept is None else len(rows) - len(kept)
        if _MOST_CHANGED * (len(rows) - in_first + forgotten) > len(rows):
            points = np.ascontiguousarray(self._parts.points())
            return _Parts(GrowingRows(points), None, (_Segment(0, len(points), self.plan.build(points)),))
        stop = segments[-1].stop
        if stop == len(rows):
            return self._parts
        first, added = segments[0], list(segments[1:])
        while added and (len(rows) - added[-1].start <= _FEW or _is_joined(added[-1], len(rows))):
            stop = added.pop().start
        last = _Segment(stop, len(rows), self._build_added(rows.array[stop:]))
        return _Parts(rows, kept, (first, *added, last))

    def _build_added(self, points: FloatArray) -> NeighborIndex:
        """Build a structure over points that were added: one that is built soon, and finds what is near enough soon."""
        return self.plan._replace(search="kdtree" if self._is_scipys else "boxes").build(points)

    @property
    def _is_scipys(self) -> bool:
        return self.plan.search == "kdtree" or self.metric != "euclidean"

    @cached_property
    def _numbers(self) -> NDArray[np.int32]:
        """The number of each row among those that count, -1 for others; empty if all count."""
        rows, kept, _ = self._built
        if kept is None:
            return np.empty(0, np.int32)
        numbers = np.full(len(rows), -1, np.int32)
        numbers[kept] = np.arange(len(kept), dtype=np.int32)
        return numbers

    # ---- search -----------------------------------------------------------------------------------------------------

    def order(self, points: FloatArray) -> IntArray | None:
        """Return an order of queries in which those near each other follow each other; None if it would not help."""
        is_anew = self.plan.search == "faiss" or self.plan.eps > 0
        return (self.settled if is_anew else self._built.segments[0].structure).order(points)

    def nearest(self, points: FloatArray, k: int, eps: float) -> Neighbors:
        """Return the k nearest points of each query, or with eps > 0 what an index built anew returns."""
        if self.plan.search == "faiss" or eps > 0:
            return self.settled.nearest(points, k, eps)
        _, kept, segments = self._built
        if len(segments) == 1 and kept is None:
            return segments[0].structure.nearest(points, k, eps)
        return self._merge(np.ascontiguousarray(points), k)

    def _merge(self, points: FloatArray, k: int) -> Neighbors:
        from nearcal.kernels.select import Nearest

        first, *added = self._built.segments
        n_first = first.stop
        counting = n_first if len(self._numbers) == 0 else int((self._numbers[:n_first] >= 0).sum())
        need = min(k, counting)
        out = Nearest(np.empty((len(points), k), np.int32), np.empty((len(points), k)), np.empty(len(points)))
        rows = np.arange(len(points))
        # Three standard deviations more than the forgotten among the k nearest if they were spread evenly.
        forgotten = need * (n_first - counting) / max(counting, 1)
        wide = min(n_first, need + int(np.ceil(forgotten + 3 * np.sqrt(forgotten))))
        while len(rows):  # ends at the latest with all points of the first segment
            queries = points if len(rows) == len(points) else points[rows]
            found = first.structure.nearest(queries, wide, 0.0)
            bounds = found.radius if need == k else np.full(len(queries), np.inf)
            self._pick(found, self._search_added(added, queries, bounds, k), queries, k, need, rows, out)
            rows, wide = rows[out.radius[rows] < 0], min(2 * wide, n_first)
        return Neighbors(equal_rows(len(points), k), out.indices.ravel(), out.distances.ravel(), out.radius)

    def _search_added(self, added: "list[_Segment]", queries: FloatArray, bounds: FloatArray, k: int) -> Neighbors:
        """Return the points of later segments that may be among the k nearest: those within each query's bound."""
        parts = []
        for start, stop, index in added:
            if self._is_scipys:
                forgotten = int((self._numbers[start:stop] < 0).sum())
                found = index.nearest(queries, min(k + forgotten, stop - start), 0.0)
            else:
                found = index.within_each(queries, bounds)  # type: ignore[attr-defined]
            parts.append(replace(found, indices=found.indices + np.int32(start)))
        return side_by_side(parts, len(queries))

    def _pick(
        self, found: Neighbors, added: Neighbors, queries: FloatArray, k: int, need: int, rows: IntArray, out: "Nearest"
    ) -> None:
        """Write the k nearest of what was found in the first segment and in later ones into rows of ``out``."""
        from nearcal.kernels.growing import merge_nearest
        from nearcal.kernels.select import Nearest, make_scratch

        shape = len(queries), -1
        first = Nearest(found.indices.reshape(shape), found.distances.reshape(shape), found.radius)
        longest = first.indices.shape[1] + int(np.diff(added.indptr).max(initial=0))
        room = np.empty(longest), np.empty(longest, np.int32), np.empty(longest), np.empty(longest, np.int32)
        merge_nearest(
            first, (added.indptr, added.indices, added.distances), self._numbers, _frozen(self._built.rows.array),
            _frozen(queries), k, need, not self._is_scipys, (room, make_scratch(longest)), rows, out,
        )  # fmt: skip

    def within(self, points: FloatArray, radius: float, most: int = MOST_PAIRS) -> Neighbors:
        """Return all points at distance <= radius of each of the first queries, with at most ``most`` together."""
        _, kept, segments = self._built
        if len(segments) == 1 and kept is None:
            return segments[0].structure.within(points, radius, most)
        parts, rows = [], len(points)
        for start, _, index in segments:
            found = index.within(points[:rows], radius, most)
            rows = len(found.radius)
            parts.append(replace(found, indices=found.indices + np.int32(start)))
        near = side_by_side([first_rows(part, rows) for part in parts], rows)
        if kept is not None:
            near = _renumbered(near, self._numbers)
        rows = min(max(1, int(np.searchsorted(near.indptr[1:], most, side="right"))), rows)
        return replace(first_rows(near, rows), radius=np.full(rows, radius))


def grow(index: NeighborIndex, points: Callable[[], FloatArray], plan: IndexPlan) -> Growing:
    """Return an index that larger and smaller ones can be made from; ``points`` returns where its points are."""
    if hasattr(index, "extended"):
        return cast("Growing", index)
    search = {"KDTreeIndex": "kdtree", "FaissIndex": "faiss"}.get(type(index).__name__)
    if search is None and plan.search not in ("auto", "boxes", "brute"):  # an option was changed since the fit
        search = "auto"
    plan = plan if search is None else plan._replace(search=cast("Search", search))
    rows = GrowingRows(points())
    return GrowingIndex(plan, _Parts(rows, None, (_Segment(0, len(rows), index),)))


def settle(index: NeighborIndex) -> NeighborIndex:
    """Return an index that gives the same answers and is one structure."""
    return index.settled if isinstance(index, GrowingIndex) else index


def _is_joined(earlier: _Segment, stop: int) -> bool:
    """Tell whether a structure of added points is built again together with those that came after it."""
    return earlier.stop - earlier.start < _JOINED * (stop - earlier.stop)


def side_by_side(parts: Sequence[Neighbors], rows: int) -> Neighbors:
    """Return the neighbours of each query in several sets of points, those of earlier sets first."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Neighbors(np.zeros(rows + 1, np.int64), np.empty(0, np.int32), np.empty(0), np.zeros(rows))
    counts = [np.diff(part.indptr) for part in parts]
    # stable: the order of the sets, and within them, stays
    order = np.argsort(np.concatenate([np.repeat(np.arange(rows), count) for count in counts]), kind="stable")
    indptr = np.concatenate([[0], np.cumsum(sum(counts))]).astype(np.int64)
    indices, distances = (np.concatenate([getattr(p, name) for p in parts]) for name in ("indices", "distances"))
    return Neighbors(indptr, indices[order], distances[order], parts[0].radius)


def first_rows(near: Neighbors, rows: int) -> Neighbors:
    """Return the neighbours of the first queries."""
    if rows == len(near.radius):
        return near
    end = near.indptr[rows]
    return Neighbors(near.indptr[: rows + 1].copy(), near.indices[:end], near.distances[:end], near.radius[:rows])


def _renumbered(near: Neighbors, numbers: NDArray[np.int32]) -> Neighbors:
    """Return the neighbours that count, by their numbers."""
    indices = numbers[near.indices]
    counts = indices >= 0
    passed = np.concatenate([[0], np.cumsum(counts)])
    return Neighbors(passed[near.indptr], indices[counts], near.distances[counts], near.radius)


def _frozen(array: FloatArray) -> FloatArray:
    """Read-only, so that kernels have one signature, memory maps included."""
    view = array.view()
    view.flags.writeable = False
    return view
