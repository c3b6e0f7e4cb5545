"""Moments and tail weights of neighbourhoods in CSR form; ``which[row]`` is the neighbourhood of a row."""

import numpy as np

from nearcal.kernels.compile import inner, kernel, reduction


@kernel
def weighted_moments(indptr, indices, weights, scores):
    """Return Σ w s and Σ w (s - mean)² of each neighbourhood; what has weight zero does not count, infinite or not."""
    groups = len(indptr) - 1
    mean = np.zeros(groups)
    variance = np.zeros(groups)
    values = np.empty(find_longest(indptr))
    for group in range(groups):
        start, stop = indptr[group], indptr[group + 1]
        for i in range(start, stop):
            values[i - start] = scores[indices[i]]
        mean[group], variance[group] = _moments(values[: stop - start], weights[start:stop])
    return mean, variance


@reduction
def _moments(values, weights):
    mean = 0.0
    for i in range(len(values)):
        mean += weights[i] * (values[i] if weights[i] > 0.0 else 0.0)
    variance = 0.0
    for i in range(len(values)):
        deviation = values[i] - mean if weights[i] > 0.0 else 0.0
        variance += weights[i] * deviation * deviation
    return mean, variance


@inner
def find_longest(indptr):
    """Return the size of the largest neighbourhood."""
    longest = 0
    for group in range(len(indptr) - 1):
        longest = max(longest, indptr[group + 1] - indptr[group])
    return longest


@kernel
def row_moments(values, weights):
    """Return Σ w v and Σ w (v - mean)² along each row; entries of weight zero change nothing, to the last bit.

    Weights of a quadrature may be negative.
    """
    rows, width = values.shape
    mean = np.zeros(rows)
    variance = np.zeros(rows)
    for row in range(rows):
        total = 0.0
        for i in range(width):
            if weights[row, i] != 0.0:
                total += weights[row, i] * values[row, i]
        spread = 0.0
        for i in range(width):
            if weights[row, i] != 0.0:
                deviation = values[row, i] - total
                spread += weights[row, i] * deviation * deviation
        mean[row] = total
        variance[row] = spread
    return mean, variance


@kernel
def weight_below(indptr, indices, weights, keys, which, thresholds):
    """Return the weight of neighbours of key below, and of key at or above, each threshold; two (rows, q) arrays."""
    rows, q = thresholds.shape
    below = np.zeros((rows, q))
    above = np.zeros((rows, q))
    for row in range(rows):
        group = which[row]
        if group < 0:
            continue
        for i in range(indptr[group], indptr[group + 1]):
            key = keys[indices[i]]
            weight = weights[i]
            for j in range(q):
                if key < thresholds[row, j]:
                    below[row, j] += weight
                else:
                    above[row, j] += weight
    return below, above
