"""Moments and tail weights of neighbourhoods in CSR form; ``which[row]`` is the neighbourhood of a row."""

import numpy as np

from nearcal.kernels.compile import inner, kernel
from nearcal.kernels.sums import largest_magnitude, sum_in_any_order


@kernel
def weighted_moments(indptr, indices, weights, scores):
    """Return Σ w s and Σ w (s - mean)² of each neighbourhood; what has weight zero does not count, infinite or not."""
    groups = len(indptr) - 1
    mean, variance = np.empty(groups), np.empty(groups)
    longest = find_longest(indptr)
    values, terms = np.empty(longest), np.empty(longest)
    for group in range(groups):
        start, stop = indptr[group], indptr[group + 1]
        size, near, own = stop - start, indices[start:stop], weights[start:stop]
        for i in range(size):
            score = scores[np.uint32(near[i])]  # an index with a sign would be looked at for being negative
            values[i] = score if own[i] > 0.0 else 0.0
            terms[i] = own[i] * values[i]
        mean[group] = sum_in_any_order(terms[:size], size, largest_magnitude(terms[:size]))
        for i in range(size):
            terms[i] = own[i] * (values[i] - mean[group]) * (values[i] - mean[group])
        variance[group] = sum_in_any_order(terms[:size], size, largest_magnitude(terms[:size]))
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
    terms = np.empty(width)
    for row in range(rows):
        count = 0
        for i in range(width):
            terms[i] = weights[row, i] * values[row, i] if weights[row, i] != 0.0 else 0.0
            count += weights[row, i] != 0.0
        mean[row] = sum_in_any_order(terms, count, largest_magnitude(terms))
        for i in range(width):
            deviation = values[row, i] - mean[row] if weights[row, i] != 0.0 else 0.0
            terms[i] = weights[row, i] * deviation * deviation
        variance[row] = sum_in_any_order(terms, count, largest_magnitude(terms))
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
