"""Moments and tail weights of neighbourhoods in CSR form; ``which[row]`` is the neighbourhood of a row."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal.kernels.compile import kernel
from nearcal.kernels.sums import largest_magnitude, sum_in_any_order


def weighted_moments(
    indptr: Any, indices: Any, weights: Any, scores: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Σ w s and Σ w (s - mean)² of each neighbourhood; what has weight zero does not count, infinite or not."""
    groups, longest = len(indptr) - 1, find_longest(indptr)
    mean, variance = np.empty(groups), np.empty(groups)
    write_weighted_moments(indptr, indices, weights, scores, np.empty(longest), np.empty(longest), mean, variance)
    return mean, variance


def find_longest(indptr: NDArray[np.int64]) -> int:
    """Return the size of the largest neighbourhood."""
    return int(np.diff(indptr).max(initial=0))


@kernel
def write_weighted_moments(indptr, indices, weights, scores, values, terms, mean, variance):
    """Write the moments of :func:`weighted_moments`, with scratch for one neighbourhood."""
    for group in range(len(indptr) - 1):
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


def row_moments(values: Any, weights: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Σ w v and Σ w (v - mean)² along each row; entries of weight zero change nothing, to the last bit.

    Weights of a quadrature may be negative.
    """
    rows, width = values.shape
    mean, variance = np.empty(rows), np.empty(rows)
    write_row_moments(values, weights, np.empty(width), mean, variance)
    return mean, variance


@kernel
def write_row_moments(values, weights, terms, mean, variance):
    """Write the moments of :func:`row_moments`, with scratch for one row."""
    rows, width = values.shape
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


def weight_below(
    indptr: Any, indices: Any, weights: Any, keys: Any, which: Any, thresholds: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weight of neighbours of key below, and of key at or above, each threshold; two (rows, q) arrays."""
    below, above = np.zeros(thresholds.shape), np.zeros(thresholds.shape)
    write_weight_below(indptr, indices, weights, keys, which, thresholds, below, above)
    return below, above


@kernel
def write_weight_below(indptr, indices, weights, keys, which, thresholds, below, above):
    """Add the weights of :func:`weight_below` to zeros."""
    rows, q = thresholds.shape
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
