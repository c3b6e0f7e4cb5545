"""The k nearest of several sets of points, from those of each."""

import numpy as np

from nearcal.kernels.compile import inner, kernel
from nearcal.kernels.select import keep_lowest_ids, keep_smallest, write_nowhere


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
    """K nearest points of query i among a first set and others into row order[i].

    Parameters
    ----------
    first : Nearest
        At least the nearest of the first set that matter.
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
