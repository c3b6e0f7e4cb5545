"""Leave-one-out scores of neighbourhoods of many sizes, from one search at the largest.

A point's neighbours are brought into the order of their scores once. Since quantile functions increase, that is the
order of the sample for every row, and a smaller neighbourhood is a part of the list in the same order: no sort for each
size.
"""

from typing import Any

import numpy as np

from nearcal.kernels.compile import inner, kernel, once
from nearcal.kernels.quantiles import _sort as sort_pairs
from nearcal.kernels.select import keep_smallest
from nearcal.kernels.weights import add_up, smooth_all

_LARGEST = np.finfo(np.float64).max / 4  # values between whose negative and which all differences are numbers

_BINS = 256


@kernel
def drop_own(indices, distances, own, kept_indices, kept_distances):
    """Write the neighbours of calibration points without the points themselves.

    Row r is point ``own[r]``, with one neighbour too many. Where equals crowded the point out of its own neighbourhood,
    the neighbour to spare is the farthest of the largest index, as a search without the point would have it.
    """
    rows, width = indices.shape
    for row in range(rows):
        spare = 0
        for i in range(width):
            if indices[row, i] == own[row]:
                spare = i
                break
            farther = distances[row, i] > distances[row, spare]
            if farther or (distances[row, i] == distances[row, spare] and indices[row, i] > indices[row, spare]):
                spare = i
        for i in range(width - 1):  # an assignment of slices would compile the message of their mismatch: a second
            j = i + (i >= spare)
            kept_indices[row, i], kept_distances[row, i] = indices[row, j], distances[row, j]


def prefix_crps(
    indices: Any, distances: Any, values: Any, y: Any, sizes: Any, kinds: Any, scratch: Any, crps: Any
) -> None:
    """Write the CRPS at y of the sample of each row's nearest neighbours: crps[row, size, kind of smoothing].

    ``values`` increase along a row; ``sizes`` decrease.
    """
    doubles, integers = np.empty((4, indices.shape[1])), np.empty((2, indices.shape[1]), np.int32)
    write_prefix_crps(indices, distances, values, y, sizes, kinds, doubles, integers, scratch, crps)


@kernel
def write_prefix_crps(indices, distances, values, y, sizes, kinds, doubles, integers, scratch, crps):
    """Write the scores of :func:`prefix_crps`, with scratch for one row."""
    rows, width = indices.shape
    near, sample, keys, weights = doubles[0], doubles[1], doubles[2], doubles[3]
    ids, labels = integers[0], integers[1]
    for row in range(rows):
        for i in range(width):
            near[i], ids[i], sample[i] = distances[row, i], indices[row, i], values[row, i]
        count = width
        for size in range(len(sizes)):
            if sizes[size] < count:
                for i in range(count):
                    keys[i], labels[i] = near[i], ids[i]
                bound = keep_smallest(keys, labels, count, sizes[size], scratch)
                count = _narrow(near, ids, sample, count, bound, _last_label(keys, labels, sizes[size], bound))
            if count == 0:  # distances that are no numbers: nobody is nearest
                crps[row, size:] = np.nan
                break
            radius = 0.0
            for i in range(count):
                radius = max(radius, near[i])
            for kind in range(len(kinds)):
                own = weights[:count]
                smooth_all(kinds[kind], near[:count], radius, own)
                total = add_up(own)
                if not total > 0.0:  # every neighbour at the edge: nothing tells them apart
                    own[:] = 1.0
                    total = float(count)
                crps[row, size, kind] = weighted_crps(sample, own, total, y[row])


def sample_crps(values: Any, weights: Any, y: Any, crps: Any) -> None:
    """Write the CRPS at y of the weighted sample of each row, (rows, width) tables in any order, of positive weight."""
    width = values.shape[1]
    write_sample_crps(values, weights, y, np.empty(width), np.empty(width), np.empty(_BINS + 1, np.int64), crps)


@kernel
def write_sample_crps(values, weights, y, sample, own, counts, crps):
    """Write the scores of :func:`sample_crps`, with scratch for one row."""
    for row in range(len(values)):
        _order(values[row], weights[row], counts, sample, own)
        crps[row] = weighted_crps(sample, own, add_up(own), y[row])


@once
def _order(values, weights, counts, ordered, own):
    """Write values in increasing order, and their weights: into bins of equal width, then by Shell's method."""
    low, high = np.inf, -np.inf
    for value in values:
        low, high = min(low, value), max(high, value)
    scale = min(_BINS / (high - low), 1e300) if high > low and high - low < np.inf else 0.0
    counts[:] = 0
    for value in values:
        counts[_bin(value, low, scale) + 1] += 1
    for b in range(_BINS):
        counts[b + 1] += counts[b]
    for i in range(len(values)):
        b = _bin(values[i], low, scale)
        ordered[counts[b]], own[counts[b]] = values[i], weights[i]
        counts[b] += 1
    sort_pairs(ordered, own)


@inner
def _bin(value, low, scale):
    place = (value - low) * scale
    # what is no number goes to bin 0: nothing unchecked becomes an index
    return np.int64(min(place, _BINS - 1.0)) if place >= 1.0 else np.int64(0)


@once
def _last_label(keys, labels, count, bound):
    """Return the largest index among the nearest that lie at exactly the bound."""
    last = np.int32(-1)
    for i in range(count):
        if keys[i] == bound:
            last = max(last, labels[i])
    return last


@once
def _narrow(near, ids, sample, count, bound, last):
    """Keep what is nearer than the bound, and what is at it up to the last index, in the same order."""
    kept = 0
    for i in range(count):
        distance, label = near[i], ids[i]
        near[kept], ids[kept], sample[kept] = distance, label, sample[i]
        kept += (distance < bound) | ((distance == bound) & (label <= last))
    return kept


@inner
def weighted_crps(values, weights, total, y):
    """Return the CRPS of increasing values: ∫ F² up to y plus ∫ (1 - F)² beyond it, step by step.

    It is infinite where a value that has a weight is.
    """
    i = 0
    while i < len(weights) - 1 and not weights[i] > 0.0:  # one has a weight: their sum is positive
        i += 1
    last = first = values[i]
    below = weights[i]
    outside = max(last - y, 0.0)
    inside = 0.0
    for j in range(i + 1, len(weights)):
        if weights[j] > 0.0:
            value = values[j]
            above = total - below
            inside += below * below * (min(value, y) - min(last, y)) + above * above * (max(value, y) - max(last, y))
            below += weights[j]
            last = value
    if not (abs(first) <= _LARGEST and abs(last) <= _LARGEST):
        return np.inf
    return inside / (total * total) + outside + max(y - last, 0.0)
