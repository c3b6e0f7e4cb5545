"""Weighted summaries of neighbourhoods in CSR form, without sorting them.

Calibration scores are ranked once, when a recalibrator is fitted. A neighbourhood is then put in rough order by a
histogram of its ranks, and only the bins that hold an asked-for quantile are sorted.

``which[row]`` is the neighbourhood of a row: several rows may share one, and rows that follow each other and share one
cost no more than one row.
"""

import numba
import numpy as np

from nearcal._normal_scores import LEVEL_TOLERANCE

_BINS = 512
_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def weighted_moments(indptr, indices, weights, scores):
    """Return Σ w s and Σ w (s - mean)² of each neighbourhood."""
    groups = len(indptr) - 1
    mean = np.zeros(groups)
    variance = np.zeros(groups)
    for group in range(groups):
        start, stop = indptr[group], indptr[group + 1]
        total = 0.0
        for i in range(start, stop):
            total += weights[i] * scores[indices[i]]
        mean[group] = total
        spread = 0.0
        for i in range(start, stop):
            deviation = scores[indices[i]] - total
            spread += weights[i] * deviation * deviation
        variance[group] = spread
    return mean, variance


@numba.njit(nogil=True, cache=True, error_model="numpy")
def row_moments(values, weights):
    """Return Σ w v and Σ w (v - mean)² along each row; entries of weight zero change nothing, to the last bit."""
    rows, width = values.shape
    mean = np.zeros(rows)
    variance = np.zeros(rows)
    for row in range(rows):
        total = 0.0
        for i in range(width):
            if weights[row, i] > 0.0:
                total += weights[row, i] * values[row, i]
        spread = 0.0
        for i in range(width):
            if weights[row, i] > 0.0:
                deviation = values[row, i] - total
                spread += weights[row, i] * deviation * deviation
        mean[row] = total
        variance[row] = spread
    return mean, variance


@numba.njit(nogil=True, cache=True, error_model="numpy")
def log_density(indptr, indices, weights, scores, which, at, bandwidth):
    """Return the log of the Gaussian kernel density of each row's neighbourhood at ``at``, a (rows, q) array."""
    rows, q = at.shape
    result = np.zeros((rows, q))
    for row in range(rows):
        group = which[row]
        if group < 0:
            continue
        h = bandwidth[row]
        for j in range(q):
            closest = np.inf  # the largest term of the sum, factored out: far from all scores the rest underflows
            for i in range(indptr[group], indptr[group + 1]):
                if weights[i] > 0.0:
                    closest = min(closest, abs(at[row, j] - scores[indices[i]]) / h)
            total = 0.0
            for i in range(indptr[group], indptr[group + 1]):
                if weights[i] > 0.0:
                    t = abs(at[row, j] - scores[indices[i]]) / h
                    total += weights[i] * np.exp(-0.5 * (t - closest) * (t + closest))
            result[row, j] = np.log(total / h) - 0.5 * closest * closest - _LOG_SQRT_2PI
    return result


@numba.njit(nogil=True, cache=True, error_model="numpy")
def weight_below(indptr, indices, weights, ranks, which, thresholds):
    """Return the weight of neighbours of rank below, and of rank at or above, each threshold; two (rows, q) arrays."""
    rows, q = thresholds.shape
    below = np.zeros((rows, q))
    above = np.zeros((rows, q))
    for row in range(rows):
        group = which[row]
        if group < 0:
            continue
        for i in range(indptr[group], indptr[group + 1]):
            rank = ranks[indices[i]]
            weight = weights[i]
            for j in range(q):
                if rank < thresholds[row, j]:
                    below[row, j] += weight
                else:
                    above[row, j] += weight
    return below, above


@numba.njit(nogil=True, cache=True, error_model="numpy")
def quantile_ranks(indptr, indices, weights, ranks, which, levels, greatest):
    """Return the rank at each level of each row's neighbourhood, a (rows, q) array; -1 for rows without one.

    Without ``greatest[row, j]``: the least rank whose cumulated weight reaches the level. With it: the greatest rank
    below which the weight does not exceed the level. Neighbours of weight zero are never chosen.
    """
    rows, q = levels.shape
    result = np.full((rows, q), -1, dtype=np.int64)
    longest = 0
    for group in range(len(indptr) - 1):
        longest = max(longest, indptr[group + 1] - indptr[group])
    slot_rank = np.empty(longest, dtype=np.int64)
    slot_weight = np.empty(longest)
    bin_start = np.empty(_BINS + 1, dtype=np.int64)
    bin_weight = np.empty(_BINS + 1)
    is_sorted = np.empty(_BINS, dtype=np.bool_)
    prepared = -1
    for row in range(rows):
        group = which[row]
        if group < 0:
            continue
        if group != prepared:
            start, stop = indptr[group], indptr[group + 1]
            _fill_bins(indices[start:stop], weights[start:stop], ranks, slot_rank, slot_weight, bin_start, bin_weight)
            is_sorted[:] = False
            prepared = group
        for j in range(q):
            level = levels[row, j]
            from_above = greatest[row, j] or level >= 1.0  # level 1 is the maximum, however light its last neighbours
            chosen = _last_bin(bin_weight, level) if from_above else _first_bin(bin_weight, level)
            first, last = bin_start[chosen], bin_start[chosen + 1]
            if not is_sorted[chosen]:
                _sort_slots(slot_rank[first:last], slot_weight[first:last])
                is_sorted[chosen] = True
            below = bin_weight[chosen]
            result[row, j] = _pick(slot_rank[first:last], slot_weight[first:last], below, level, from_above)
    return result


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _fill_bins(indices, weights, ranks, slot_rank, slot_weight, bin_start, bin_weight):
    """Distribute neighbours of positive weight over bins of consecutive ranks.

    ``bin_start[b]`` is the first slot of bin b, ``bin_weight[b]`` the weight below it; both have one entry more than
    there are bins.
    """
    lowest, highest = ranks[indices[0]], ranks[indices[0]]
    for i in range(len(indices)):
        rank = ranks[indices[i]]
        lowest = min(lowest, rank)
        highest = max(highest, rank)
    shift = 0
    while (highest - lowest) >> shift >= _BINS:
        shift += 1
    bin_start[:] = 0
    bin_weight[:] = 0.0
    for i in range(len(indices)):
        if weights[i] > 0.0:
            b = (ranks[indices[i]] - lowest) >> shift
            bin_start[b + 1] += 1
            bin_weight[b + 1] += weights[i]
    for b in range(_BINS):
        bin_start[b + 1] += bin_start[b]
        bin_weight[b + 1] += bin_weight[b]
    for i in range(len(indices)):
        if weights[i] > 0.0:
            rank = ranks[indices[i]]
            b = (rank - lowest) >> shift
            slot = bin_start[b]  # runs to the start of the next bin, put back below
            slot_rank[slot] = rank
            slot_weight[slot] = weights[i]
            bin_start[b] = slot + 1
    for b in range(_BINS, 0, -1):
        bin_start[b] = bin_start[b - 1]
    bin_start[0] = 0


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _first_bin(bin_weight, level):
    """Return the first occupied bin at whose end the cumulated weight reaches the level."""
    target = min(level, bin_weight[-1]) - LEVEL_TOLERANCE
    chosen = np.searchsorted(bin_weight[1:], target)
    while bin_weight[chosen + 1] <= bin_weight[chosen]:
        chosen += 1
    return chosen


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _last_bin(bin_weight, level):
    """Return the last occupied bin below which the cumulated weight does not exceed the level."""
    chosen = np.searchsorted(bin_weight[:-1], max(level, 0.0) + LEVEL_TOLERANCE, side="right") - 1
    while bin_weight[chosen + 1] <= bin_weight[chosen]:
        chosen -= 1
    return chosen


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _pick(ranks, weights, below, level, greatest):
    """Return the rank at the level inside a sorted bin, given the weight below the bin."""
    cumulated = below
    for i in range(len(ranks) - 1):
        cumulated += weights[i]
        if greatest:
            if cumulated > level + LEVEL_TOLERANCE:
                return ranks[i]
        elif cumulated >= level - LEVEL_TOLERANCE:
            return ranks[i]
    return ranks[-1]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _sort_slots(ranks, weights):
    """Sort a bin by rank: insertion for the usual handful, a library sort for a crowd."""
    if len(ranks) > 40:
        order = np.argsort(ranks)
        ranks[:] = ranks[order]
        weights[:] = weights[order]
        return
    for i in range(1, len(ranks)):
        rank, weight = ranks[i], weights[i]
        j = i
        while j > 0 and ranks[j - 1] > rank:
            ranks[j] = ranks[j - 1]
            weights[j] = weights[j - 1]
            j -= 1
        ranks[j] = rank
        weights[j] = weight
