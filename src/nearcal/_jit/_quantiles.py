"""Weighted quantiles of neighbourhoods in CSR form, exact and without sorting them.

Calibration scores are ranked once, when a recalibrator is fitted. A neighbourhood is put in rough order by a histogram
of its ranks, and only the bins that hold an asked-for quantile are collected and sorted.
"""

import numpy as np

from nearcal._jit._compile import inner, kernel, once
from nearcal._jit._summary import find_longest
from nearcal._normal_scores import LEVEL_TOLERANCE

_BINS = 256


@kernel
def quantile_ranks(indptr, indices, weights, ranks, which, levels, greatest):
    """Return the rank at each level of each row's neighbourhood, a (rows, q) array; -1 for rows without one.

    Without ``greatest[row, j]``: the least rank whose cumulated weight reaches the level. With it: the greatest rank
    below which the weight does not exceed the level. Neighbours of weight zero are never chosen. ``which[row]`` is the
    neighbourhood of a row; rows that follow each other and share one share its histogram.
    """
    rows, q = levels.shape
    result = np.full((rows, q), -1, dtype=np.int64)
    chosen = np.empty(q, dtype=np.int64)
    longest = find_longest(indptr)
    own_ranks = np.empty(longest, dtype=ranks.dtype)
    slot_rank = np.empty(longest, dtype=ranks.dtype)
    slot_weight = np.empty(longest)
    below = np.empty(_BINS + 1)
    counts = np.empty(_BINS, dtype=np.int64)
    slots = np.empty((_BINS, 2), dtype=np.int64)
    prepared = -1
    lowest, shift = ranks[0], 0
    for row in range(rows):
        group = which[row]
        if group < 0:
            continue
        start, stop = indptr[group], indptr[group + 1]
        if group != prepared:
            lowest, shift = _gather_ranks(indices[start:stop], ranks, own_ranks)
            _fill_histogram(own_ranks[: stop - start], weights[start:stop], lowest, shift, below, counts)
            prepared = group
        for j in range(q):
            chosen[j] = _find_bin(below, levels[row, j], greatest[row, j])
        _assign_slots(chosen, counts, slots)
        _collect(own_ranks[: stop - start], weights[start:stop], lowest, shift, slots, slot_rank, slot_weight)
        for j in range(q):
            first, last = slots[chosen[j], 0], slots[chosen[j], 1]
            _sort(slot_rank[first:last], slot_weight[first:last])
            result[row, j] = _pick(
                slot_rank[first:last], slot_weight[first:last], below[chosen[j]], levels[row, j], greatest[row, j]
            )
    return result


@once
def _gather_ranks(indices, ranks, own_ranks):
    """Copy the ranks of a neighbourhood; return the lowest, and the shift that maps rank - lowest to a bin."""
    lowest = highest = ranks[indices[0]]
    for i in range(len(indices)):
        rank = ranks[indices[i]]
        own_ranks[i] = rank
        lowest = min(lowest, rank)
        highest = max(highest, rank)
    shift = 0
    while (highest - lowest) >> shift >= _BINS:
        shift += 1
    return lowest, shift


@once
def _fill_histogram(own_ranks, weights, lowest, shift, below, counts):
    """Count each bin, and cumulate its weight: ``below[b]`` is the weight of the bins before b."""
    below[:] = 0.0
    counts[:] = 0
    for i in range(len(own_ranks)):
        b = (own_ranks[i] - lowest) >> shift
        below[b + 1] += weights[i]
        counts[b] += 1
    for b in range(_BINS):
        below[b + 1] += below[b]


@inner
def _find_bin(below, level, greatest):
    """Return the bin that holds a level: one of positive weight."""
    if greatest or level >= 1.0:  # level 1 is the maximum, however light the last neighbours
        chosen = _last_not_above(below, max(level, 0.0) + LEVEL_TOLERANCE)
        while below[chosen + 1] <= below[chosen]:
            chosen -= 1
    else:
        target = min(level, below[_BINS]) - LEVEL_TOLERANCE
        chosen = _last_not_above(below, target)
        while below[chosen + 1] < target or below[chosen + 1] <= below[chosen]:
            chosen += 1
    return chosen


@inner
def _last_not_above(below, target):
    """Return the last bin with at most the target weight below it; 0 if there is none."""
    low, high = 0, _BINS
    while high - low > 1:
        middle = (low + high) // 2
        if below[middle] <= target:
            low = middle
        else:
            high = middle
    return low


@once
def _assign_slots(chosen, counts, slots):
    """Give each chosen bin a range of slots to collect its neighbours in: [first, next free); others have none."""
    slots[:, 0] = -1
    free = 0
    for j in range(len(chosen)):
        b = chosen[j]
        if slots[b, 0] < 0:
            slots[b, 0] = free
            slots[b, 1] = free
            free += counts[b]


@once
def _collect(own_ranks, weights, lowest, shift, slots, slot_rank, slot_weight):
    """Copy the neighbours of the chosen bins into their slots, leaving out those of weight zero."""
    for i in range(len(own_ranks)):
        b = (own_ranks[i] - lowest) >> shift
        if slots[b, 0] >= 0 and weights[i] > 0.0:
            slot = slots[b, 1]
            slot_rank[slot] = own_ranks[i]
            slot_weight[slot] = weights[i]
            slots[b, 1] = slot + 1


@inner
def _sort(ranks, weights):
    """Sort a bin by rank (Shell's method: insertion for the usual handful, quick enough for a crowd)."""
    gap = 1
    while 3 * gap < len(ranks):
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, len(ranks)):
            rank, weight = ranks[i], weights[i]
            j = i
            while j >= gap and ranks[j - gap] > rank:
                ranks[j], weights[j] = ranks[j - gap], weights[j - gap]
                j -= gap
            ranks[j], weights[j] = rank, weight
        gap //= 3


@inner
def _pick(ranks, weights, below, level, greatest):
    """Return the rank at the level inside a sorted bin, given the weight below the bin."""
    cumulated = below
    for i in range(len(ranks) - 1):
        cumulated += weights[i]
        if greatest or level >= 1.0:
            if cumulated > level + LEVEL_TOLERANCE:
                return ranks[i]
        elif cumulated >= level - LEVEL_TOLERANCE:
            return ranks[i]
    return ranks[-1]
