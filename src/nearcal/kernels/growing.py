"""Neighbours in the order of their index, and the k nearest of several sets of points from those of each.

Sums over neighbours are added up in their order. In the order of the index, it is the same for every structure that
finds the same neighbours: whether all points are in one, or some of them were added later.
"""

import numpy as np

from nearcal.kernels.boxes import LEAF, list_leaves, measure_leaf
from nearcal.kernels.compile import inner, kernel
from nearcal.kernels.select import append_below, keep_lowest_ids, keep_smallest, write_nowhere

_FEW = 24  # an insertion sort is cheaper


@inner
def _sort_few(indices, distances, start, stop):
    for i in range(start + 1, stop):
        label, distance = indices[i], distances[i]
        j = i
        while j > start and indices[j - 1] > label:
            indices[j], distances[j] = indices[j - 1], distances[j - 1]
            j -= 1
        indices[j], distances[j] = label, distance


@inner
def _spread(indices, distances, start, size, other_indices, other_distances, other_start, shift, ends):
    """Move pairs elsewhere in the order of some bits of the index; pairs that share them stay in order."""
    mask = len(ends) - 1
    ends[:] = 0
    for i in range(start, start + size):
        ends[(indices[i] >> shift) & mask] += 1
    for b in range(1, len(ends)):
        ends[b] += ends[b - 1]
    for i in range(start + size - 1, start - 1, -1):
        b = (indices[i] >> shift) & mask
        ends[b] -= 1
        other_indices[other_start + ends[b]] = indices[i]
        other_distances[other_start + ends[b]] = distances[i]


@kernel
def put_in_order(indptr, indices, distances, n):
    """Put the neighbours of each query, of n points, in the order of their index: a radix sort, in place."""
    n_rows, longest = len(indptr) - 1, np.int64(0)
    for r in range(n_rows):
        longest = max(longest, indptr[r + 1] - indptr[r])
    width = 6 if longest < 256 else 9  # bits a pass: few bins for few neighbours
    other_indices, other_distances = np.empty(longest, np.int32), np.empty(longest)
    ends = np.empty(1 << width, np.int32)
    for r in range(n_rows):
        start, size = indptr[r], indptr[r + 1] - indptr[r]
        if size <= _FEW:
            _sort_few(indices, distances, start, start + size)
            continue
        shift, is_elsewhere = 0, False
        while (n - 1) >> shift > 0:
            if is_elsewhere:
                _spread(other_indices, other_distances, np.int64(0), size, indices, distances, start, shift, ends)
            else:
                _spread(indices, distances, start, size, other_indices, other_distances, np.int64(0), shift, ends)
            is_elsewhere = not is_elsewhere
            shift += width
        if is_elsewhere:
            for i in range(size):
                indices[start + i], distances[start + i] = other_indices[i], other_distances[i]


@kernel
def within_bounds(tree, queries, bounds, near):
    """Row pointers, indices and distances of the points within a distance of each query that is its own."""
    dist2 = near.points
    indptr, count = np.zeros(len(queries) + 1, np.int64), np.int64(0)
    indices, distances = np.empty(16 * LEAF, np.int32), np.empty(16 * LEAF)
    for r in range(len(queries)):
        # a filter, as within one radius for all: the verdict is on the root, the distance reported
        cap = bounds[r] * bounds[r] * (1.0 + 2.0**-50) + 1e-300
        n_near = list_leaves(tree, queries, r, cap, near)
        for i in range(n_near):
            leaf = near.leaves[i]
            measure_leaf(tree.leaves, leaf, queries, r, dist2)
            for p in range(LEAF):
                dist2[p] = np.sqrt(dist2[p])
            if count + LEAF > len(indices):
                indices, distances = _grow(indices), _grow(distances)
            count = append_below(dist2, bounds[r], tree.ids, leaf * LEAF, distances, indices, count)
        indptr[r + 1] = count
    return indptr, indices[:count].copy(), distances[:count].copy()


@inner
def _grow(array):
    """Copy an array into twice the room."""
    larger = np.empty(2 * len(array), array.dtype)
    for i in range(len(array)):
        larger[i] = array[i]
    return larger


@inner
def _square(points, i, queries, r):
    """Squared distance, summed in the order of the columns as everywhere."""
    total = 0.0
    for j in range(queries.shape[1]):
        diff = points[i, j] - queries[r, j]
        total += diff * diff
    return total


@inner
def _settle(values, ids, count, k, points, queries, r, by_square, work, work_ids, scratch):
    """Return the distance, square and index up to which, in this order, candidates are among the k nearest."""
    for i in range(count):
        work[i], work_ids[i] = values[i], ids[i]
    kth = keep_smallest(work, work_ids, count, k, scratch)
    nearer, ties = np.int64(0), np.int64(0)
    for i in range(count):
        nearer += values[i] < kth
        if values[i] == kth:  # different squares may have the same root
            work[ties] = _square(points, ids[i], queries, r) if by_square else 0.0
            work_ids[ties] = ids[i]
            ties += 1
    need = k - nearer
    if ties == need:
        return kth, np.inf, np.int64(2**31)
    square = keep_smallest(work, work_ids, ties, need, scratch)
    same, less = np.int64(0), np.int64(0)
    for i in range(count):
        if values[i] == kth:
            own = _square(points, ids[i], queries, r) if by_square else 0.0
            less += own < square
            if own == square:
                work_ids[same] = ids[i]
                same += 1
    keep_lowest_ids(work_ids, np.int64(0), same, need - less)
    last = np.int64(0)
    for i in range(need - less):
        last = max(last, np.int64(work_ids[i]))
    return kth, square, last


@kernel
def merge_nearest(first, others, numbers, points, queries, k, need, by_square, work, order, out):
    """K nearest points of query i among a first set and others into row order[i], in the order of their index.

    Parameters
    ----------
    first : Nearest
        At least the nearest of the first set that matter, in the order of their index.
    others : tuple
        Row pointers, indices and distances of those of the others that may matter, likewise; their indices are larger.
    numbers
        The number of each point among those that count, -1 for others; empty, if all count and have their own.
    points, queries
        Where they are: distances are roots, and of equal ones squares decide if ``by_square``, then the index.
    need
        How many points of the first set, or all that it has, make sure of the result; fewer give a radius of -1.
    work : tuple
        Room for as many candidates as a query may have (values, ids, and both again), and scratch to select.
    """
    (indptr, indices, distances), (room, scratch) = others, work
    values, ids = room[0], room[1]
    for q in range(len(queries)):
        r = order[q]
        if first.distances.shape[1] > 0 and np.isnan(first.distances[q, 0]):
            write_nowhere(k, out, r)
            continue
        count = np.int64(0)
        for i in range(first.indices.shape[1]):
            if len(numbers) == 0 or numbers[first.indices[q, i]] >= 0:
                values[count], ids[count] = first.distances[q, i], first.indices[q, i]
                count += 1
        if count < need:
            out.radius[r] = -1.0
            continue
        for i in range(indptr[q], indptr[q + 1]):
            if len(numbers) == 0 or numbers[indices[i]] >= 0:
                values[count], ids[count] = distances[i], indices[i]
                count += 1
        kth, square, last = np.inf, np.inf, np.int64(2**31)
        if count > k:
            kth, square, last = _settle(values, ids, count, k, points, queries, q, by_square, room[2], room[3], scratch)
        kept, radius = 0, 0.0
        for i in range(count):
            if values[i] > kth or kept == k:
                continue
            if values[i] == kth and square < np.inf:
                own = _square(points, ids[i], queries, q) if by_square else 0.0
                if own > square or (own == square and ids[i] > last):
                    continue
            out.indices[r, kept] = numbers[ids[i]] if len(numbers) > 0 else ids[i]
            out.distances[r, kept] = values[i]
            radius = max(radius, values[i])
            kept += 1
        out.radius[r] = radius
        if kept < k:  # where squares are no numbers
            write_nowhere(k, out, r)
