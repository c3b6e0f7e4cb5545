"""Nearest neighbours among leaves of points with bounding boxes, for low dimension.

A query first measures the points of its own cell of the tree, which bounds the k-th distance. Then it lists the leaves
whose box comes within the bound, groups of leaves first, and visits them from near to far, lowering the bound on the
way.

Every squared distance is summed over the columns in their order, boxes included. Rounding is monotone, so that in
floating point too a box is never farther than a point inside it: pruning needs no safety margin.
"""

from typing import NamedTuple

import numpy as np

from nearcal.kernels.compile import inner, kernel, once
from nearcal.kernels.select import (
    Scratch,
    append_below,
    bound_smallest,
    keep_below,
    keep_smallest,
    make_scratch,
    write_nowhere,
    write_row,
)
from nearcal.kernels.tree import find_home

LEAF = 64
GROUP = 16
SHELLS = 64


class Tree(NamedTuple):
    """Points by leaf, boxes of leaves and of groups of leaves, and cuts: see ``_tree.order_points``."""

    leaves: np.ndarray  # (n_leaves, d, LEAF); NaN, at no distance, beyond n
    ids: np.ndarray  # (n_leaves * LEAF,) original index
    low: np.ndarray  # (n_groups, d, GROUP), corners of the boxes of leaves; NaN beyond n_leaves
    high: np.ndarray
    group_low: np.ndarray  # (1, d, n_groups)
    group_high: np.ndarray
    cut_dim: np.ndarray  # (n_leaves,)
    cut_value: np.ndarray


class Near(NamedTuple):
    """Leaves to visit and scratch to list them, made in Python: see ``_brute.Batch``."""

    leaves: np.ndarray  # (n_leaves + GROUP,)
    squares: np.ndarray  # squared distances of their boxes
    order: np.ndarray
    ends: np.ndarray  # (SHELLS,)
    groups: np.ndarray  # (n_groups,) squared distances of the boxes of groups
    group: np.ndarray  # (GROUP,) and of the boxes of one group
    points: np.ndarray  # (LEAF,) and of the points of one leaf


class Candidates(NamedTuple):
    """Candidates for the k nearest, and scratch to select among them."""

    values: np.ndarray  # squared distances
    ids: np.ndarray
    scratch: Scratch


def make_near(n_leaves: int) -> Near:
    """Scratch to list so many leaves."""
    n_groups = -(-n_leaves // GROUP)
    return Near(
        np.empty(n_leaves + GROUP, np.int64),
        np.empty(n_leaves + GROUP),
        np.empty(n_leaves, np.int64),
        np.empty(SHELLS, np.int32),
        np.empty(n_groups),
        np.empty(GROUP),
        np.empty(LEAF),
    )


def count_home(tree: Tree, k: int) -> int:
    """Return how many leaves a query measures first."""
    return min((k + k // 4 + LEAF - 1) // LEAF, len(tree.leaves))


def make_candidates(tree: Tree, k: int) -> Candidates:
    """Room for the candidates of a query."""
    room = (2 * count_home(tree, k) + 3) * LEAF
    return Candidates(np.empty(room), np.empty(room, np.int32), make_scratch(room))


@inner
def measure_leaf(leaves, leaf, queries, r, out):
    """Squared distances of the points of a leaf, summed in the order of the columns."""
    d = queries.shape[1]
    for p in range(LEAF):
        diff = leaves[leaf, 0, p] - queries[r, 0]
        out[p] = diff * diff
    j = 1
    while j + 4 <= d:  # four columns a pass, to spare loads and stores of the sums
        q0, q1, q2, q3 = queries[r, j], queries[r, j + 1], queries[r, j + 2], queries[r, j + 3]
        for p in range(LEAF):
            a, b = leaves[leaf, j, p] - q0, leaves[leaf, j + 1, p] - q1
            c, e = leaves[leaf, j + 2, p] - q2, leaves[leaf, j + 3, p] - q3
            out[p] = (((out[p] + a * a) + b * b) + c * c) + e * e
        j += 4
    while j < d:
        for p in range(LEAF):
            diff = leaves[leaf, j, p] - queries[r, j]
            out[p] += diff * diff
        j += 1


@inner
def measure_boxes(low, high, g, queries, r, out):
    """Squared distances to the boxes of group g, given by dimension-major corners."""
    out[:] = 0.0
    for j in range(low.shape[1]):
        q = queries[r, j]
        for i in range(low.shape[2]):
            below, above = low[g, j, i] - q, q - high[g, j, i]
            gap = below if below > above else above
            gap = 0.0 if gap < 0.0 else gap  # NaN stays
            out[i] += gap * gap


@once
def list_leaves(tree, queries, r, bound, near):
    """Leaves of a tree, or blocks, whose box is within the bound; return how many."""
    measure_boxes(tree.group_low, tree.group_high, np.int64(0), queries, r, near.groups)
    size = 0
    for g in range(len(near.groups)):
        if near.groups[g] <= bound:
            measure_boxes(tree.low, tree.high, g, queries, r, near.group)
            for i in range(GROUP):
                near.leaves[size] = g * GROUP + i
                near.squares[size] = near.group[i]
                size += near.group[i] <= bound
    return size


@once
def _find_shell(square, scale):
    """Return the shell of a squared distance, which is not negative; the last for what is beyond, or no number."""
    place = square * scale
    return np.int64(place if place < SHELLS - 1.0 else SHELLS - 1.0)  # clamped before it is an index: NaN too


@once
def _sort_by_shell(near, size, bound):
    """Order the listed leaves by shells of equal width in squared distance (a counting sort)."""
    scale = SHELLS / bound if 1e-290 < bound < np.inf else 0.0
    near.ends[:] = 0
    for i in range(size):
        near.ends[_find_shell(near.squares[i], scale)] += 1
    for s in range(1, SHELLS):
        near.ends[s] += near.ends[s - 1]
    for i in range(size):
        s = _find_shell(near.squares[i], scale)
        near.ends[s] -= 1
        near.order[near.ends[s]] = i


@kernel
def query_boxes(tree, queries, k, eps, n_home, candidates, near, order, out):
    """K nearest points of query i into row order[i]; within a factor 1 + eps (Arya et al. 1998).

    Best with queries that lie near one another in turn: they find their leaves still in cache.
    """
    limit = (n_home + 1) * LEAF
    values, ids, scratch, dist2 = candidates.values, candidates.ids, candidates.scratch, near.points
    shrink = 1.0 / (1.0 + eps) ** 2
    for r in range(len(queries)):
        first, last = find_home(tree.cut_dim, tree.cut_value, queries, r, n_home)
        count = np.int64(0)
        for leaf in range(first, last):
            measure_leaf(tree.leaves, leaf, queries, r, dist2)
            count = append_below(dist2, np.inf, tree.ids, leaf * LEAF, values, ids, count)
        if count < k:  # there are k points at home, and none is a number away from a query that is none
            write_nowhere(k, out, order[r])
            continue
        bound = bound_smallest(values, count, k, scratch)
        count = keep_below(values, ids, count, bound)
        size = list_leaves(tree, queries, r, bound * shrink, near)
        _sort_by_shell(near, size, bound * shrink)
        for i in range(size):
            leaf = near.leaves[near.order[i]]
            if first <= leaf < last or near.squares[near.order[i]] > bound * shrink:
                continue
            measure_leaf(tree.leaves, leaf, queries, r, dist2)
            count = append_below(dist2, bound, tree.ids, leaf * LEAF, values, ids, count)
            if count > limit:
                bound = bound_smallest(values, count, k, scratch)
                count = keep_below(values, ids, count, bound)
                if count > limit:  # ties
                    bound = keep_smallest(values, ids, count, k, scratch)
                    count = k
        square = keep_smallest(values, ids, count, k, scratch)
        write_row(values, ids, k, square, out, order[r])
