"""Exact Euclidean search: three structures over the same points, with the same answers.

Squared distances are sums of squared float64 differences in the order of the columns. The k nearest are all points
strictly nearer than the k-th distance, then those at exactly that distance with the smallest index.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import ArtefactError
from nearcal._saved import count, number, require, savable, saved_array, saved_numbers, saved_value
from nearcal.kernels.boxes import GROUP, LEAF, Tree, count_home, make_candidates, make_near, query_boxes
from nearcal.kernels.brute import MOST_ROWS, make_batch, query_blocks
from nearcal.kernels.filter import BLOCK, Blocks, round_off, shrink_rows
from nearcal.kernels.line import fill_line, query_line, reach_line
from nearcal.kernels.radius import within_blocks, within_boxes
from nearcal.kernels.select import Nearest
from nearcal.kernels.tree import find_leaves, order_points
from nearcal.kernels.vector import STRIP
from nearcal.space.search import MOST_PAIRS, Metric, Neighbors, equal_rows

_MOST_SAMPLED = 4096  # points on which the filter guesses how far the k nearest reach
_MANY_POINTS = 2**18  # for which these tell too little: a search among one point in 32 does better
_THINNING, _MOST_SAMPLED_OF_THINNED = 32, 1024
_CORNERS: tuple[tuple[Any, str], ...] = ((np.nanmin, "low"), (np.nanmax, "high"))
_FEW_QUERIES = 16  # whose order is not worth finding, nor the kernel that finds it worth compiling
_LOOSEST = 1e100  # an eps whose square is a number: a larger one makes infinite what divides an infinite bound


@savable
class SortedLine:
    """Sorted points on a line, for d = 1: a query costs O(log n + k)."""

    metric: Metric = "euclidean"

    def __init__(self, points: FloatArray) -> None:
        order = np.argsort(points[:, 0], kind="stable")
        self._hold(points[order, 0], order.astype(np.int32))

    def _hold(self, x: FloatArray, ids: NDArray[np.int32]) -> None:
        self.x, self.ids, self.shape = _freeze(x), _freeze(ids), (len(x), 1)

    def _to_saved(self) -> dict[str, Any]:
        return {"x": self.x, "ids": self.ids}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        x = saved_array(saved, "x", np.float64, (None,))
        require((np.diff(x) >= 0).all(), "x must increase")
        index = cls.__new__(cls)
        index._hold(x, saved_numbers(saved, "ids", len(x), len(x)))
        return index

    def extended(self, points: FloatArray) -> "SortedLine":
        """Return an index of these points followed by more, which are put where they belong."""
        order = np.argsort(points[:, 0], kind="stable")
        x = points[order, 0]
        places = np.searchsorted(self.x, x, side="right")
        line = SortedLine.__new__(SortedLine)
        line._hold(np.insert(self.x, places, x), np.insert(self.ids, places, (len(self.x) + order).astype(np.int32)))
        return line

    def restricted(self, rows: IntArray) -> "SortedLine":
        """Return an index of some of the points, given their numbers in increasing order."""
        numbers = np.full(len(self.x), -1, np.int32)
        numbers[rows] = np.arange(len(rows), dtype=np.int32)
        ids = numbers[self.ids]
        line = SortedLine.__new__(SortedLine)
        line._hold(self.x[ids >= 0], ids[ids >= 0])
        return line

    @property
    def points(self) -> FloatArray:
        """Where the points are, (n, 1)."""
        points = np.zeros(self.shape)
        points[self.ids, 0] = self.x
        return points

    def order(self, points: FloatArray) -> IntArray:
        """Return the order along the line."""
        return np.argsort(points[:, 0], kind="stable")

    def nearest(self, points: FloatArray, k: int, eps: float) -> Neighbors:
        """Return the k nearest points of each query; ``eps`` saves nothing here and is ignored."""
        out = _empty_nearest(len(points), k)
        query_line(self.x, self.ids, _freeze(points), k, np.empty(len(self.ids), np.int32), out)
        return _as_lists(out)

    def within(self, points: FloatArray, radius: float, most: int = MOST_PAIRS) -> Neighbors:
        """Return all points at distance <= radius of each of the first queries, with at most ``most`` together."""
        queries = _freeze(points)
        starts, indptr = np.empty(len(queries), np.int64), np.empty(len(queries) + 1, np.int64)
        reach_line(self.x, queries, radius, starts, indptr)
        rows = min(max(1, int(np.searchsorted(indptr[1:], most, side="right"))), len(queries))
        indptr = indptr[: rows + 1].copy()
        indices, distances = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
        fill_line(self.x, self.ids, queries[:rows], starts[:rows], indptr, indices, distances)
        return Neighbors(indptr, indices, distances, np.full(rows, radius))


@savable
class LeafBoxes:
    """Leaves of a k-d tree with bounding boxes, for low dimension."""

    metric: Metric = "euclidean"

    def __init__(self, points: FloatArray) -> None:
        n, d = points.shape
        order, cut_dim, cut_value = order_points(_freeze(points), LEAF)
        n_leaves = len(cut_dim)
        ids, padded = np.resize(order, n_leaves * LEAF), np.full((n_leaves * LEAF, d), np.nan)
        padded[:n] = points[order]
        self._hold(n, padded.reshape(n_leaves, LEAF, d).transpose(0, 2, 1), ids, cut_dim, cut_value)

    def _hold(
        self, n: int, leaves: FloatArray, ids: NDArray[np.int32], cut_dim: NDArray[np.int32], cut_value: FloatArray
    ) -> None:
        leaves = _freeze(leaves)
        self.shape = n, leaves.shape[1]
        boxes = _group_boxes(np.nanmin(leaves, axis=2), np.nanmax(leaves, axis=2))
        self.tree = Tree(
            leaves=leaves, ids=_freeze(ids), **boxes, cut_dim=_freeze(cut_dim), cut_value=_freeze(cut_value)
        )

    @classmethod
    def of_arrays(cls, n: int, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return an index of n points whose arrays but the boxes of groups lie ready: nothing of the leaves is read."""
        index = cls.__new__(cls)
        index.shape = n, arrays["leaves"].shape[1]
        group_low, group_high = (reduce(arrays[name], axis=2).T[None] for reduce, name in _CORNERS)
        held = {name: _freeze(array) for name, array in arrays.items()}
        index.tree = Tree(**held, group_low=_freeze(group_low), group_high=_freeze(group_high))
        return index

    def _to_saved(self) -> dict[str, Any]:
        """Return all but the boxes, which follow from the leaves in no time."""
        names = ("leaves", "ids", "cut_dim", "cut_value")
        return {"n": self.shape[0], **{name: getattr(self.tree, name) for name in names}}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        n = count()("n", saved_value(saved, "n"))
        n_leaves = -(-n // LEAF)
        leaves = saved_array(saved, "leaves", np.float64, (n_leaves, None, LEAF), finite=False)
        full, last = leaves[:-1], leaves[-1]
        n_last = n - len(full) * LEAF
        require(
            np.isfinite(full).all() and np.isfinite(last[:, :n_last]).all() and np.isnan(last[:, n_last:]).all(),
            "leaves must hold n finite points, then NaN",
        )
        ids = saved_numbers(saved, "ids", n_leaves * LEAF, n)
        cut_dim = saved_numbers(saved, "cut_dim", n_leaves, leaves.shape[1])
        index = cls.__new__(cls)
        index._hold(n, leaves, ids, cut_dim, saved_array(saved, "cut_value", np.float64, (n_leaves,)))
        return index

    @property
    def points(self) -> FloatArray:
        """Where the points are, (n, d)."""
        n, d = self.shape
        points = np.zeros((n, d))
        points[self.tree.ids[:n]] = self.tree.leaves.transpose(0, 2, 1).reshape(-1, d)[:n]
        return points

    def order(self, points: FloatArray) -> IntArray:
        """Return the order of the leaves the queries fall in."""
        return _leaf_order(_freeze(points), self.tree)

    def nearest(self, points: FloatArray, k: int, eps: float) -> Neighbors:
        """Return the k nearest points of each query, each within a factor 1 + eps of the true one of its rank."""
        out = _empty_nearest(len(points), k)
        queries, order = _sort_queries(points, self.tree)
        candidates, near = make_candidates(self.tree, k), make_near(len(self.tree.leaves))
        query_boxes(self.tree, queries, k, eps, count_home(self.tree, k), candidates, near, order, out)
        return _as_lists(out)

    def within(self, points: FloatArray, radius: float, most: int = MOST_PAIRS) -> Neighbors:
        """Return all points at distance <= radius of each of the first queries, with at most ``most`` together."""
        return self.within_each(points, np.full(len(points), radius), most)

    def within_each(self, points: FloatArray, radii: FloatArray, most: int = MOST_PAIRS) -> Neighbors:
        """Return all points within a distance of each query that is its own."""
        near = make_near(len(self.tree.leaves))
        indptr, indices, distances = within_boxes(self.tree, _freeze(points), radii, most, near)
        return Neighbors(indptr, indices, distances, radii[: len(indptr) - 1])


@savable
class BlockedBrute:
    """All points against all queries through a filter in 16-bit integers, for high dimension."""

    metric: Metric = "euclidean"

    def __init__(self, points: FloatArray, most_sampled: int = _MOST_SAMPLED) -> None:
        order, cut_dim, cut_value = order_points(_freeze(points), BLOCK)
        points = points[order]
        centre = points.mean(axis=0)
        # A power of two scales without rounding and keeps the filter's float32 from overflow and underflow.
        spread = max(np.abs(points - centre).max(), 2.0**-500)
        scale = float(2.0 ** -np.ceil(np.log2(spread)))
        n, n_sample = len(points), _count_sample(len(points), most_sampled)
        sample = points[np.arange(n_sample) * n // max(n_sample, 1)]
        strips, steps, half_norms = _make_strips(points, centre, scale)
        sample_strips, sample_steps, sample_half_norms = _make_strips(sample, centre, scale)
        starts = np.arange(0, n, BLOCK)
        self.blocks = Blocks(
            points=_freeze(points),
            ids=_freeze(order),
            strips=strips,
            steps=steps,
            half_norms=half_norms,
            sample_strips=sample_strips,
            sample_steps=sample_steps,
            sample_half_norms=sample_half_norms,
            **_group_boxes(np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)),
            cut_dim=_freeze(cut_dim),
            cut_value=_freeze(cut_value),
            centre=_freeze(centre),
            scale=scale,
        )
        self.shape = points.shape[0], points.shape[1]
        self.thinned: BlockedBrute | None = None
        if n >= _MANY_POINTS:
            self.thinned = BlockedBrute(points[::_THINNING], _MOST_SAMPLED_OF_THINNED)

    def _to_saved(self) -> dict[str, Any]:
        return {**self.blocks._asdict(), "thinned": self.thinned}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        points = saved_array(saved, "points", np.float64, (None, None))
        n, d = points.shape
        n_blocks, n_sample = -(-n // BLOCK), len(saved_value(saved, "sample_steps"))
        n_groups = -(-n_blocks // GROUP)
        arrays = {
            "points": points,
            "ids": saved_numbers(saved, "ids", n, n),
            **_saved_strips(saved, "", n_blocks * BLOCK, d),
            **_saved_strips(saved, "sample_", n_sample // BLOCK * BLOCK, d),
            "low": saved_array(saved, "low", np.float64, (n_groups, d, GROUP), finite=False),
            "high": saved_array(saved, "high", np.float64, (n_groups, d, GROUP), finite=False),
            "group_low": saved_array(saved, "group_low", np.float64, (1, d, n_groups)),
            "group_high": saved_array(saved, "group_high", np.float64, (1, d, n_groups)),
            "cut_dim": saved_numbers(saved, "cut_dim", n_blocks, d),
            "cut_value": saved_array(saved, "cut_value", np.float64, (n_blocks,)),
            "centre": saved_array(saved, "centre", np.float64, (d,)),
        }
        for name in ("low", "high"):
            boxes = arrays[name].transpose(0, 2, 1).reshape(-1, d)
            require(np.isfinite(boxes[:n_blocks]).all(), f"{name} must be finite where there is a block")
            require(np.isnan(boxes[n_blocks:]).all(), f"{name} must be NaN where there is no block")
        require(np.isfinite(arrays["half_norms"][:n]).all(), "half_norms must be finite where there is a point")
        require(np.isneginf(arrays["half_norms"][n:]).all(), "half_norms must be -inf where there is no point")
        require(np.isfinite(arrays["sample_half_norms"]).all(), "sample_half_norms must be finite")
        scale, thinned = number(0.0)("scale", saved_value(saved, "scale")), saved_value(saved, "thinned")
        require(thinned is None or (isinstance(thinned, cls) and thinned.shape[1] == d), "thinned must have d columns")
        index = cls.__new__(cls)
        index.blocks = Blocks(**{name: _freeze(array) for name, array in arrays.items()}, scale=scale)
        index.shape, index.thinned = (n, d), thinned
        return index

    @property
    def points(self) -> FloatArray:
        """Where the points are, (n, d)."""
        points = np.zeros(self.shape)
        points[self.blocks.ids] = self.blocks.points
        return points

    def order(self, points: FloatArray) -> IntArray:
        """Return the order of the blocks the queries fall in."""
        return _leaf_order(_freeze(points), self.blocks)

    def nearest(self, points: FloatArray, k: int, eps: float) -> Neighbors:
        """Return the k nearest points of each query, each within a factor 1 + eps of the true one of its rank."""
        n = self.shape[0]
        n_sample = self.blocks.sample_steps.size if self.thinned is None else self.thinned.shape[0]
        queries, rows = _sort_queries(points, self.blocks)
        out = _empty_nearest(len(points), k)
        # Three standard deviations above the share of the sample in the k nearest: one guess in a thousand is too low.
        # With eps some of the k nearest are skipped, and farther ones must make up for them.
        share, eps = k * n_sample / n, min(eps, _LOOSEST)
        rank = int(min((share + 3 * share**0.5 + 2) * (1 + eps / 4), n_sample))
        while len(rows) > 0:  # ends at the latest with a rank beyond the sample, which is no guess at all
            guesses = np.full(len(rows), np.inf)
            if self.thinned is not None and rank < n_sample:
                guesses = self.thinned.nearest(queries, rank, 0.0).radius ** 2 * (1 + 2.0**-50)  # of a rounded root
            n_expected = rank * n // n_sample if rank < n_sample else 0
            room = min(n, max(2 * k, 3 * n_expected // 2)) + BLOCK
            batch = make_batch(len(queries), room, self.blocks)
            query_blocks(self.blocks, queries, k, eps, guesses, rank, batch, rows, out)
            missed = out.radius[rows] < 0
            if rank >= max(n_sample, self.blocks.sample_steps.size) and missed.any():  # all points were looked at
                raise ArtefactError(
                    f"the search index must find k={k} of its {n} points for every row, got none for "
                    f"{int(missed.sum())} rows: the file that it was loaded from is damaged; save it again"
                )
            queries, rows, rank = _freeze(queries[missed]), rows[missed], 4 * rank
        return _as_lists(out)

    def within(self, points: FloatArray, radius: float, most: int = MOST_PAIRS) -> Neighbors:
        """Return all points at distance <= radius of each of the first queries, with at most ``most`` together."""
        queries = _freeze(points)
        batch = make_batch(min(len(queries), MOST_ROWS), 0, self.blocks)
        indptrs, indices, distances = [np.zeros(1, np.int64)], [np.empty(0, np.int32)], [np.empty(0)]
        start, rows, found = 0, MOST_ROWS, 0
        while start < len(queries):
            # a batch is searched block by block, so that all of its rows are found, or none
            some = queries[start : start + rows]
            fits, *part = within_blocks(self.blocks, some, radius, most - found, batch)
            if fits or len(some) == 1 > start:
                start += len(some)
                indptrs.append(found + part[0][1:])
                indices.append(part[1])
                distances.append(part[2])
                found += len(part[1])
            elif start:
                break
            else:
                rows = len(some) // 2
        indptr = np.concatenate(indptrs)
        radii = np.full(len(indptr) - 1, radius)
        return Neighbors(indptr, np.concatenate(indices), np.concatenate(distances), radii)


def _sort_queries(points: FloatArray, tree: Any) -> tuple[FloatArray, IntArray]:
    """Sort queries by the leaf they fall in; return them and the row each came from."""
    queries = _freeze(points)
    order = _leaf_order(queries, tree)
    return _freeze(queries[order]), order


def _leaf_order(queries: FloatArray, tree: Any) -> IntArray:
    if len(queries) <= _FEW_QUERIES:
        return np.arange(len(queries))
    return np.argsort(find_leaves(tree.cut_dim, tree.cut_value, queries), kind="stable")


def _group_boxes(low: FloatArray, high: FloatArray) -> dict[str, FloatArray]:
    """Boxes with the corners ``low`` and ``high``, of shape (n, d), by groups, and the boxes of groups."""
    n_groups, d = -(-len(low) // GROUP), low.shape[1]
    grouped = np.full((2, n_groups * GROUP, d), np.nan)
    grouped[:, : len(low)] = low, high
    low, high = grouped.reshape(2, n_groups, GROUP, d)
    return {
        "low": _freeze(low.transpose(0, 2, 1)),
        "high": _freeze(high.transpose(0, 2, 1)),
        "group_low": _freeze(np.nanmin(low, axis=1).T[None]),
        "group_high": _freeze(np.nanmax(high, axis=1).T[None]),
    }


def _freeze(array: NDArray[Any]) -> NDArray[Any]:
    """Contiguous and read-only, so that kernels have one signature, memory maps included."""
    view = np.ascontiguousarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view


def _empty_nearest(n_rows: int, k: int) -> Nearest:
    return Nearest(np.empty((n_rows, k), np.int32), np.empty((n_rows, k)), np.empty(n_rows))


def _as_lists(found: Nearest) -> Neighbors:
    return Neighbors(equal_rows(*found.indices.shape), found.indices.ravel(), found.distances.ravel(), found.radius)


def _count_sample(n: int, most: int) -> int:
    """Return how many of n points, in whole blocks, the filter guesses its bound on."""
    return min(n // 8, most) // BLOCK * BLOCK if n < _MANY_POINTS else 0


def _saved_strips(saved: Mapping[str, Any], prefix: str, size: int, d: int) -> dict[str, NDArray[Any]]:
    """Return strips, steps and half_norms of a saved ``Blocks``."""
    shapes: dict[str, tuple[Any, tuple[int, ...]]] = {
        "strips": (np.int16, (size // STRIP, -(-d // 2), STRIP, 2)),
        "steps": (np.float32, (size,)),
        "half_norms": (np.float32, (size,)),
    }
    # half_norms are infinite where there is no point
    return {
        prefix + name: saved_array(saved, prefix + name, *kind, finite=name != "half_norms")
        for name, kind in shapes.items()
    }


def _make_strips(points: FloatArray, centre: FloatArray, scale: float) -> tuple[NDArray[Any], ...]:
    """Points as the filter sees them: strips, steps and half_norms of ``Blocks``."""
    n, d = points.shape
    size, n_pairs = -(-n // BLOCK) * BLOCK, -(-d // 2)
    rounded = np.zeros((size, 2 * n_pairs), np.int16)
    steps, norms = np.zeros(size, np.float32), np.full(size, np.inf)
    shrink_rows(_freeze(points), 0, n, _freeze(centre), scale, rounded, steps, norms)
    half_norms = (-0.5 * (1 - round_off(d)) * norms).astype(np.float32)
    strips = _empty_aligned((size // STRIP, n_pairs, STRIP, 2))
    strips[:] = rounded.reshape(size // STRIP, STRIP, n_pairs, 2).transpose(0, 2, 1, 3)
    return _freeze(strips), _freeze(steps), _freeze(half_norms)


def _empty_aligned(shape: tuple[int, ...]) -> NDArray[np.int16]:
    """Array of int16 that starts on a cache line: vectors that straddle two cost the filter a fifth of its speed."""
    size = 2 * int(np.prod(shape))
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(np.int16).reshape(shape)
