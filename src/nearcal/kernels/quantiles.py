"""Weighted quantiles of neighbourhoods in CSR form, exact and without sorting them.

A neighbourhood is put in rough order by a histogram of its keys, and only the bins that hold an asked-for quantile are
collected and sorted. Keys are ranks among all calibration scores, which fill the bins evenly, or scores of the
neighbours' own.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcal._normal_scores import LEVEL_TOLERANCE
from nearcal.kernels.compile import inner, kernel, once
from nearcal.kernels.summary import find_longest

_BINS = 256


class Room(NamedTuple):
    """Arrays for one neighbourhood at a time, made in Python: each kind that a kernel makes takes compiling."""

    keys: Any
    bins: Any  # of each neighbour
    below: Any  # weight below each bin
    counts: Any
    slots: Any  # of each bin, where its neighbours are collected
    slot_key: Any
    slot_weight: Any
    chosen: Any  # bin of each level


def weighted_quantiles(
    indptr: NDArray[np.int64], indices: Any, weights: Any, keys: Any, which: Any, levels: Any
) -> NDArray[Any]:
    """Return the key at each level of each row's neighbourhood, a (rows, q) array; 0 for rows without one.

    That is the least key whose cumulated weight reaches the level; at level 1 the greatest, however light. Neighbours
    of weight zero are never chosen. ``which[row]`` is the neighbourhood of a row; rows that follow each other and share
    one share its histogram.
    """
    longest = find_longest(indptr)
    room = Room(
        keys=np.empty(longest, keys.dtype),
        bins=np.empty(longest, np.uint8),
        below=np.empty(_BINS + 1),
        counts=np.empty(_BINS, np.int32),
        slots=np.empty((_BINS, 2), np.int32),
        slot_key=np.empty(longest, keys.dtype),
        slot_weight=np.empty(longest),
        chosen=np.empty(levels.shape[1], np.int64),
    )
    result = np.zeros(levels.shape, keys.dtype)
    write_quantiles(indptr, indices, weights, keys, which, levels, room, result)
    return result


@kernel
def write_quantiles(indptr, indices, weights, keys, which, levels, room, result):
    """Write the keys of :func:`weighted_quantiles`."""
    own_keys, bins, below, counts = room.keys, room.bins, room.below, room.counts
    slots, slot_key, slot_weight, chosen = room.slots, room.slot_key, room.slot_weight, room.chosen
    prepared = -1
    for row in range(len(levels)):
        group = which[row]
        if group < 0 or indptr[group] == indptr[group + 1]:
            continue
        start, stop = indptr[group], indptr[group + 1]
        if group != prepared:
            near = indices[start:stop]
            for i in range(len(near)):
                own_keys[i] = keys[np.uint32(near[i])]  # an index with a sign would be looked at for being negative
            _fill_histogram(own_keys[: stop - start], weights[start:stop], bins, below, counts)
            prepared = group
        for j in range(len(chosen)):
            chosen[j] = _find_bin(below, counts, levels[row, j])
        _assign_slots(chosen, counts, slots)
        _collect(own_keys[: stop - start], weights[start:stop], bins, slots, slot_key, slot_weight)
        for j in range(len(chosen)):
            first, last = slots[chosen[j], 0], slots[chosen[j], 1]
            if first == last:  # no neighbour has a weight
                continue
            _sort(slot_key[first:last], slot_weight[first:last])
            result[row, j] = _pick(slot_key[first:last], slot_weight[first:last], below[chosen[j]], levels[row, j])


@once
def _fill_histogram(keys, weights, bins, below, counts):
    """Put keys into bins of equal width; count those with a weight in each, and cumulate the weight of the bins before.

    The count tells which bins hold something: a weight far below the sum before it adds nothing to that.
    """
    lowest, highest = keys[0], keys[0]
    for i in range(len(keys)):
        lowest, highest = min(lowest, keys[i]), max(highest, keys[i])
    scale = min(_BINS / (highest - lowest), 1e300) if highest > lowest else 0.0
    below[:] = 0.0
    counts[:] = 0
    for i in range(len(keys)):
        place = (keys[i] - lowest) * scale
        # what is no number goes to bin 0: nothing unchecked becomes an index
        bins[i] = np.int32(min(place, _BINS - 1.0)) if place >= 1.0 else np.int32(0)
    for i in range(len(keys)):
        b = bins[i]
        below[b + 1] += weights[i]
        counts[b] += weights[i] > 0.0
    for b in range(_BINS):
        below[b + 1] += below[b]


@once
def _find_bin(below, counts, level):
    """Return the bin that holds a level: one of positive weight."""
    if level >= 1.0:
        chosen = _BINS - 1
        while chosen > 0 and counts[chosen] == 0:
            chosen -= 1
    else:
        target = min(level, below[_BINS]) - LEVEL_TOLERANCE
        chosen = _last_not_above(below, target)
        while chosen < _BINS - 1 and (below[chosen + 1] < target or counts[chosen] == 0):
            chosen += 1
    return chosen


@once
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
def _collect(keys, weights, bins, slots, slot_key, slot_weight):
    """Copy the neighbours of the chosen bins into their slots, leaving out those of weight zero."""
    for i in range(len(keys)):
        b = bins[i]
        if slots[b, 0] >= 0 and weights[i] > 0.0:
            slot = slots[b, 1]
            slot_key[slot] = keys[i]
            slot_weight[slot] = weights[i]
            slots[b, 1] = slot + 1


@inner
def _sort(keys, weights):
    """Sort a bin by key (Shell's method: insertion for the usual handful, quick enough for a crowd)."""
    gap = 1
    while 3 * gap < len(keys):
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, len(keys)):
            key, weight = keys[i], weights[i]
            j = i
            while j >= gap and keys[j - gap] > key:
                keys[j], weights[j] = keys[j - gap], weights[j - gap]
                j -= gap
            keys[j], weights[j] = key, weight
        gap //= 3


@once
def _pick(keys, weights, below, level):
    """Return the key at the level inside a sorted bin, given the weight below the bin."""
    cumulated = below
    for i in range(len(keys) - 1):
        cumulated += weights[i]
        if level < 1.0 and cumulated >= level - LEVEL_TOLERANCE:
            return keys[i]
    return keys[-1]
