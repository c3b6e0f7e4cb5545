"""Weighted quantiles of neighbourhoods whose scores are their own: by a histogram of values, sorting few of them."""

import numpy as np

from nearcal._jit._compile import inner, kernel
from nearcal._jit._quantiles import _BINS, _assign_slots, _find_bin, _pick, _sort
from nearcal._jit._summary import find_longest


@kernel
def quantile_values(indptr, scores, weights, which, levels, greatest):
    """Return the score at each level of each row's neighbourhood, a (rows, q) array; 0 for rows without one.

    As ``quantile_ranks``, with one score a pair of neighbourhood and neighbour instead of ranks among all.
    """
    rows, q = levels.shape
    result = np.zeros((rows, q))
    chosen = np.empty(q, dtype=np.int64)
    longest = find_longest(indptr)
    bins, slot_score, slot_weight = np.empty(longest, dtype=np.int32), np.empty(longest), np.empty(longest)
    below, counts = np.empty(_BINS + 1), np.empty(_BINS, dtype=np.int64)
    slots = np.empty((_BINS, 2), dtype=np.int64)
    prepared = -1
    for row in range(rows):
        group = which[row]
        if group < 0:
            continue
        own, heavy = scores[indptr[group] : indptr[group + 1]], weights[indptr[group] : indptr[group + 1]]
        if group != prepared:
            _fill_histogram(own, heavy, bins, below, counts)
            prepared = group
        for j in range(q):
            chosen[j] = _find_bin(below, levels[row, j], greatest[row, j])
        _assign_slots(chosen, counts, slots)
        _collect(own, heavy, bins, slots, slot_score, slot_weight)
        for j in range(q):
            first, last = slots[chosen[j], 0], slots[chosen[j], 1]
            _sort(slot_score[first:last], slot_weight[first:last])
            result[row, j] = _pick(
                slot_score[first:last], slot_weight[first:last], below[chosen[j]], levels[row, j], greatest[row, j]
            )
    return result


@inner
def _fill_histogram(scores, weights, bins, below, counts):
    """Put the scores that count into bins of equal width, and cumulate the weights of bins."""
    lowest, highest = np.inf, -np.inf
    for i in range(len(scores)):
        if weights[i] > 0.0:
            lowest, highest = min(lowest, scores[i]), max(highest, scores[i])
    scale = min(_BINS / (highest - lowest), 1e300) if highest > lowest else 0.0
    below[:] = 0.0
    counts[:] = 0
    for i in range(len(scores)):
        place = min(max((scores[i] - lowest) * scale, 0.0), _BINS - 1.0)
        bins[i] = np.int32(place)
        below[bins[i] + 1] += weights[i]
        counts[bins[i]] += 1
    for b in range(_BINS):
        below[b + 1] += below[b]


@inner
def _collect(scores, weights, bins, slots, slot_score, slot_weight):
    """Copy the neighbours of the chosen bins into their slots, leaving out those of weight zero."""
    for i in range(len(scores)):
        b = bins[i]
        if slots[b, 0] >= 0 and weights[i] > 0.0:
            slot = slots[b, 1]
            slot_score[slot] = scores[i]
            slot_weight[slot] = weights[i]
            slots[b, 1] = slot + 1
