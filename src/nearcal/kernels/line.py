"""Nearest neighbours on a line: a window of the sorted points, found by bisection."""

import numpy as np

from nearcal.kernels.compile import inner, kernel, once
from nearcal.kernels.select import keep_lowest_ids


@inner
def _square(x, i, q):
    diff = x[i] - q
    return diff * diff


@once
def _find(x, q):
    """First position whose value is not below q."""
    low, high = 0, len(x)
    while low < high:
        middle = (low + high) // 2
        if x[middle] < q:
            low = middle + 1
        else:
            high = middle
    return low


@once
def _find_window(x, q, k):
    """Start of a window of the k nearest. As it moves right its left end comes nearer and its right end leaves."""
    position = _find(x, q)
    low, high = max(0, position - k), min(position, len(x) - k)
    while low < high:
        middle = (low + high) // 2
        if _square(x, middle, q) > _square(x, middle + k, q):
            low = middle + 1
        else:
            high = middle
    return low


@once
def _settle_ties(x, ids, q, k, start, square, tied, indices, distances, r):
    """Fill row r when points at exactly the k-th distance are left outside: the smallest ids come in."""
    first, last = start, start + k
    while first > 0 and _square(x, first - 1, q) == square:
        first -= 1
    while last < len(x) and _square(x, last, q) == square:
        last += 1
    n_tied, inside = np.int64(0), np.int64(0)
    for i in range(first, last):
        if _square(x, i, q) < square:
            indices[r, inside], distances[r, inside] = ids[i], np.sqrt(_square(x, i, q))
            inside += 1
        else:
            tied[n_tied] = ids[i]
            n_tied += 1
    keep_lowest_ids(tied, np.int64(0), n_tied, k - inside)
    for i in range(k - inside):
        indices[r, inside + i], distances[r, inside + i] = tied[i], np.sqrt(square)


@kernel
def query_line(x, ids, queries, k, tied, out):
    """K nearest points of each query, unsorted, given the sorted points, their indices, and scratch for as many."""
    for r in range(len(queries)):
        q = queries[r, 0]
        start = _find_window(x, q, k)
        stop = start + k
        square = max(_square(x, start, q), _square(x, stop - 1, q))
        out.radius[r] = np.sqrt(square)
        tied_before = start > 0 and _square(x, start - 1, q) == square
        if tied_before or (stop < len(x) and _square(x, stop, q) == square):
            _settle_ties(x, ids, q, k, start, square, tied, out.indices, out.distances, r)
            continue
        for i in range(k):
            out.indices[r, i] = ids[start + i]
            out.distances[r, i] = np.sqrt(_square(x, start + i, q))


@inner
def _find_reach(x, q, radius):
    """First position within the radius, and first position past it."""
    position = _find(x, q)
    low, high = 0, position
    while low < high:
        middle = (low + high) // 2
        if np.sqrt(_square(x, middle, q)) <= radius:
            high = middle
        else:
            low = middle + 1
    first = low
    low, high = position, len(x)
    while low < high:
        middle = (low + high) // 2
        if np.sqrt(_square(x, middle, q)) <= radius:
            low = middle + 1
        else:
            high = middle
    return first, low


@kernel
def reach_line(x, queries, radius, starts, indptr):
    """Count the points within the radius of each query: where they start, and the row pointers of the result."""
    indptr[0] = 0
    for r in range(len(queries)):
        first, last = _find_reach(x, queries[r, 0], radius)
        starts[r] = first
        indptr[r + 1] = indptr[r] + last - first


@kernel
def fill_line(x, ids, queries, starts, indptr, indices, distances):
    """Points within the radius, counted by ``reach_line``."""
    for r in range(len(queries)):
        for i in range(indptr[r + 1] - indptr[r]):
            indices[indptr[r] + i] = ids[starts[r] + i]
            distances[indptr[r] + i] = np.sqrt(_square(x, starts[r] + i, queries[r, 0]))
