"""Selection of the k smallest without sorting: histograms over the bits of the keys.

Squared distances are non-negative doubles, whose bits, read as integers, are in the same order. Integer bins have no
rounding: each pass either separates two different keys or proves that all are equal, so selection always ends.
"""

from typing import NamedTuple

import numpy as np

from nearcal.kernels.compile import inner, once
from nearcal.kernels.vector import bits, from_bits, lowest_bit

BINS = 1024
FEW = 24  # below this an insertion sort is cheaper than another pass
# Eight factors of two below the largest key share one bin: 128 bins for each factor of two that matters.
SPAN = np.int64(8) << np.int64(52)


class Nearest(NamedTuple):
    """The k nearest points of each row, in any order."""

    indices: np.ndarray  # (r, k) int32
    distances: np.ndarray  # (r, k)
    radius: np.ndarray  # (r,) distance to the k-th, the largest of each row


class Scratch(NamedTuple):
    """Working space of a selection."""

    values: np.ndarray  # (capacity,)
    ids: np.ndarray  # (capacity,) int32
    bins: np.ndarray  # (BINS,) int32


def make_scratch(capacity: int) -> Scratch:
    """Working space to select among up to ``capacity`` candidates."""
    return Scratch(np.empty(capacity), np.empty(capacity, np.int32), np.empty(BINS, np.int32))


@inner
def _scale_bins(values, start, stop):
    """Offset and shift that map values[start:stop] onto 0..BINS-1, keeping their order; shift -1 when all are equal."""
    low = high = bits(values[start])
    for i in range(start, stop):
        low = min(low, bits(values[i]))
        high = max(high, bits(values[i]))
    if low == high:
        return low, np.int64(-1)
    low = max(low, high - SPAN)
    shift = np.int64(0)
    while (high - low) >> shift >= BINS:
        shift += 1
    return low, shift


@inner
def _find_bin(values, start, stop, rank, low, shift, bins):
    """Bin that holds the value of this rank (from 0) among values[start:stop]."""
    bins[:] = 0
    for i in range(start, stop):  # keys end at high, and (high - low) >> shift < BINS: see ``_scale_bins``
        bins[max(bits(values[i]) - low, 0) >> shift] += 1
    b = 0
    below = bins[0]
    rank = min(rank, stop - start - 1)  # so many keys are in the bins: the loop ends among them, without a look at b
    while below <= rank:
        b += 1
        below += bins[b]
    return b


@once
def _edges(b, low, shift):
    """First and last key of bin b; the lowest bin also takes everything below it."""
    first = low + (np.int64(b) << shift)
    return (first if b > 0 else np.int64(0)), first + (np.int64(1) << shift) - 1


@inner
def bound_smallest(values, size, k, scratch):
    """Cheap upper bound of the k-th smallest of values[:size]: within 1/128 of it, or 1/256 of the largest."""
    low, shift = _scale_bins(values, np.int64(0), size)
    if shift < 0:
        return values[0]
    b = _find_bin(values, np.int64(0), size, k - 1, low, shift, scratch.bins)
    edge = from_bits(_edges(b, low, shift)[1])
    return edge if edge < np.inf else np.inf  # past infinity the bits read NaN


@once
def _mask_below(values, bound):
    """Bit i is set where values[i] <= bound, for at most 64 values; never for NaN.

    The comparison vectorises, and only what passes is then touched: far cheaper than a branch for each value.
    """
    mask = np.uint64(0)
    for i in range(len(values)):  # a length the compiler knows would be unrolled instead of vectorised
        mask |= np.uint64(1) << np.uint64(i) if values[i] <= bound else np.uint64(0)
    return mask


@inner
def append_below(squares, bound, labels, start, values, ids, count):
    """Append the squares within the bound and their ids, the labels from ``start`` on; return the new count."""
    mask = _mask_below(squares, bound)
    while mask:
        p = np.int64(lowest_bit(mask))
        values[count] = squares[p]
        ids[count] = labels[start + p]
        count += 1
        mask &= mask - np.uint64(1)
    return count


@inner
def keep_below(values, ids, count, bound):
    """Move the candidates within the bound to the front; return how many."""
    kept = 0
    for i in range(count):
        value = values[i]
        values[kept] = value
        ids[kept] = ids[i]
        kept += value <= bound
    return kept


@once
def _split_at(values, ids, start, stop, first, last, scratch):
    """Keep, of values[start:stop], those below ``first``, then those in first..last. Return where each part ends."""
    width = np.uint64(last - first)
    kept = start
    spared = 0
    for i in range(start, stop):
        value, label = values[i], ids[i]
        key = bits(value)
        values[kept], ids[kept] = value, label
        kept += key < first
        # One unsigned comparison: spelled `first <= key <= last`, the line above would become a branch too, and one
        # that is mispredicted every other time.
        if np.uint64(key - first) <= width:
            scratch.values[spared], scratch.ids[spared] = value, label
            spared += 1
    for i in range(spared):
        values[kept + i], ids[kept + i] = scratch.values[i], scratch.ids[i]
    return kept, kept + spared


@once
def _sort_few(values, ids, start, stop):
    """Sort values[start:stop] by (key, id), by insertion."""
    for i in range(start + 1, stop):
        value, label = values[i], ids[i]
        key, j = bits(value), i
        while j > start:
            before = bits(values[j - 1])
            if before < key or (before == key and ids[j - 1] < label):
                break
            values[j], ids[j] = values[j - 1], ids[j - 1]
            j -= 1
        values[j], ids[j] = value, label


@inner
def keep_lowest_ids(ids, start, stop, need):
    """Move the ``need`` smallest of the distinct ids[start:stop] to the front of it, by bisection on the id."""
    low, high = np.int64(-1), np.int64(2**31 - 1)
    while high - low > 1:
        middle = (low + high) // 2
        below = 0
        for i in range(start, stop):
            below += ids[i] <= middle
        if below < need:
            low = middle
        else:
            high = middle
    kept = start
    for i in range(start, stop):
        label = ids[i]
        ids[kept] = label
        kept += label <= high


@inner
def keep_smallest(values, ids, count, k, scratch):
    """Move the k nearest of ``count`` candidates to the front, in no order; return the k-th squared distance.

    Among candidates at exactly the k-th distance the smallest ids win.
    """
    start, stop = np.int64(0), count
    while stop > k and stop - start > FEW:
        low, shift = _scale_bins(values, start, stop)
        if shift < 0:
            keep_lowest_ids(ids, start, stop, k - start)
            return values[start]
        b = _find_bin(values, start, stop, k - 1 - start, low, shift, scratch.bins)
        first, last = _edges(b, low, shift)
        start, stop = _split_at(values, ids, start, stop, first, last, scratch)
    if stop > k:
        _sort_few(values, ids, start, stop)
    kth = values[start]
    for i in range(start, k):
        kth = max(kth, values[i])
    return kth


@once
def write_nowhere(k, out, r):
    """Write row r of a query that is no number, and so at no distance from anything: k points, at distances NaN."""
    for i in range(k):
        out.indices[r, i] = i
        out.distances[r, i] = np.nan
    out.radius[r] = np.nan


@once
def write_row(values, ids, k, square, out, r):
    """Write the first k candidates and the squared k-th distance as row r of the output."""
    for i in range(k):
        out.indices[r, i] = ids[i]
        out.distances[r, i] = np.sqrt(values[i])
    out.radius[r] = np.sqrt(square)
