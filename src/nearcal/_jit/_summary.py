"""Moments, tail weights and densities of neighbourhoods in CSR form; ``which[row]`` is the neighbourhood of a row."""

import numpy as np

from nearcal._jit._compile import inner, kernel, reduction

_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


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


@kernel
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


@kernel
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
