"""Balanced k-d tree order: points grouped in full leaves, each leaf a small box in space.

Leaves are numbered from left to right and the tree is implicit: the node that spans the leaves start..stop is cut in
front of leaf (start + stop + 1) // 2. A cut is found by that leaf's number, so two flat arrays hold the whole tree.
"""

from typing import NamedTuple

import numpy as np

from nearcal.kernels.compile import inner, kernel, once


@once
def _partition(keys, ids, start, stop, nth):
    """Reorder keys[start:stop], and ids along, so that keys[nth] is in its sorted place (Hoare's quickselect)."""
    low, high = start, stop - 1
    while low < high:
        pivot = _median_of_three(keys[low], keys[(low + high) // 2], keys[high])
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                ids[i], ids[j] = ids[j], ids[i]
                i += 1
                j -= 1
        if nth <= j:
            high = j
        elif nth >= i:
            low = i
        else:
            return


@once
def _median_of_three(a, b, c):
    return max(min(a, b), min(max(a, b), c))


@once
def _widest(points, order, start, stop):
    """Dimension in which the points order[start:stop] spread the most, by about a thousand of them."""
    best, widest = 0, -1.0
    step = max((stop - start) // 1000, 1)
    for j in range(points.shape[1]):
        low = high = points[order[start], j]
        for i in range(start, stop, step):
            low = min(low, points[order[i], j])
            high = max(high, points[order[i], j])
        if high - low > widest:
            best, widest = j, high - low
    return best


class Cuts(NamedTuple):
    """A tree over points: their order by leaf, and the cut in front of each leaf but the first."""

    order: np.ndarray  # (n,) int32
    cut_dim: np.ndarray  # (n_leaves,) int32
    cut_value: np.ndarray  # (n_leaves,)


def order_points(points: np.ndarray, leaf_size: int) -> Cuts:
    """Order points by leaf, ``leaf_size`` in each but the last."""
    n = len(points)
    n_leaves = -(-n // leaf_size)
    cuts = Cuts(np.arange(n, dtype=np.int32), np.zeros(n_leaves, np.int32), np.zeros(n_leaves))
    pending = np.empty((64, 2), np.int64)  # a stack; the tree is far less deep than that
    _cut(points, leaf_size, *cuts, np.empty(n), pending)
    return cuts


@kernel
def _cut(points, leaf_size, order, cut_dim, cut_value, keys, pending):
    """Cut again and again in the middle, along the dimension in which the points spread the most."""
    n = len(points)
    pending[0, 0], pending[0, 1] = 0, len(cut_dim)
    size = 1
    while size > 0:
        size -= 1
        first, last = pending[size, 0], pending[size, 1]
        if last - first < 2:
            continue
        middle = (first + last + 1) // 2
        start, stop, nth = first * leaf_size, min(last * leaf_size, n), middle * leaf_size
        j = _widest(points, order, start, stop)
        for i in range(start, stop):
            keys[i] = points[order[i], j]
        _partition(keys, order, start, stop, nth)
        cut_dim[middle], cut_value[middle] = j, keys[nth]
        pending[size, 0], pending[size, 1] = first, middle
        pending[size + 1, 0], pending[size + 1, 1] = middle, last
        size += 2


@inner
def find_home(cut_dim, cut_value, queries, r, n_wanted):
    """Smallest range of at least ``n_wanted`` full leaves, or of all, whose cell of the tree contains the query."""
    first, last = 0, len(cut_dim)
    while last - first >= 2 * n_wanted:
        middle = (first + last + 1) // 2
        if queries[r, cut_dim[middle]] < cut_value[middle]:
            last = middle
        else:
            first = middle
    if last == len(cut_dim):  # the last leaf may be short of points
        first -= first > 0
    return first, last


def find_leaves(cut_dim: np.ndarray, cut_value: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Find the leaf whose cell contains each query."""
    numbers = np.empty(len(queries), np.int32)
    write_leaves(cut_dim, cut_value, queries, numbers)
    return numbers


@kernel
def write_leaves(cut_dim, cut_value, queries, numbers):
    """Write the numbers of :func:`find_leaves`."""
    for r in range(len(queries)):
        numbers[r] = find_home(cut_dim, cut_value, queries, r, np.int64(1))[1] - 1
