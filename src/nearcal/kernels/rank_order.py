"""Neighbours in the order of their scores: of the ranks of these among all, which are sorted by counting."""

import numpy as np
from numpy.typing import NDArray

from nearcal.kernels.compile import inner, kernel, once
from nearcal.kernels.summary import find_longest

_FEW = 24  # an insertion sort is cheaper
_BITS = 9  # of a rank that one pass looks at; six where neighbours are few, and bins would outnumber them
_FEW_BITS, _FEW_FOR_BITS = 6, 256


def places_by_rank(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], ranks: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return the places of all neighbours, in CSR form, each neighbourhood in the order of its ranks.

    A radix sort of pairs (rank, place), both in one word; the ranks of different points differ.
    """
    longest = find_longest(indptr)
    width = _FEW_BITS if longest < _FEW_FOR_BITS else _BITS
    pairs, places = np.empty((2, longest), np.uint64), np.empty(len(indices), np.int64)
    write_places(indptr, indices, ranks, pairs[0], pairs[1], np.empty(1 << width, np.int32), width, places)
    return places


@kernel
def write_places(indptr, indices, ranks, pairs, other, ends, width, places):
    """Write the places of :func:`places_by_rank`."""
    for group in range(len(indptr) - 1):
        start, size = indptr[group], indptr[group + 1] - indptr[group]
        near = indices[start : start + size]
        for i in range(size):
            pairs[i] = np.uint64(ranks[np.uint32(near[i])]) << np.uint64(32) | np.uint64(i)
        if size <= _FEW:
            _sort_few(pairs, size)
        else:
            shift, is_elsewhere = np.int64(0), False
            while (len(ranks) - 1) >> shift > 0:
                if is_elsewhere:
                    _spread(other, pairs, size, shift, ends)
                else:
                    _spread(pairs, other, size, shift, ends)
                is_elsewhere = not is_elsewhere
                shift += width
            if is_elsewhere:
                pairs, other = other, pairs
        for i in range(size):
            places[start + i] = start + np.int64(pairs[i] & np.uint64(2**32 - 1))


@once
def _sort_few(pairs, size):
    for i in range(1, size):
        pair, j = pairs[i], i
        while j > 0 and pairs[j - 1] > pair:
            pairs[j] = pairs[j - 1]
            j -= 1
        pairs[j] = pair


@inner
def _spread(pairs, other, size, shift, ends):
    """Move pairs elsewhere in the order of some bits of the rank; those that share them stay in order."""
    place, mask = np.uint64(32 + shift), np.uint64(len(ends) - 1)
    ends[:] = 0
    for i in range(size):
        ends[(pairs[i] >> place) & mask] += 1
    start = np.int32(0)
    for b in range(len(ends)):
        count = ends[b]
        ends[b] = start
        start += count
    for i in range(size):
        b = (pairs[i] >> place) & mask
        other[ends[b]] = pairs[i]
        ends[b] += 1
