"""Kernel weights of neighbourhoods: w ∝ K(d / u), normalised to sum 1."""

import numba
import numpy as np

EPANECHNIKOV, UNIFORM, TRIANGULAR, BIWEIGHT, GAUSSIAN = range(5)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def smooth(kind, t):
    """Return K(t) for t = d / u; zero beyond t = 1."""
    if t > 1.0:
        return 0.0
    if kind == EPANECHNIKOV:
        return 1.0 - t * t
    if kind == UNIFORM:
        return 1.0
    if kind == TRIANGULAR:
        return 1.0 - t
    if kind == BIWEIGHT:
        return (1.0 - t * t) ** 2
    return np.exp(-0.5 * t * t)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def weigh(indptr, distances, bandwidth, kind):
    """Weigh neighbourhoods in CSR form.

    Returns the weights, the effective size 1 / Σ w², and the weight K(0) / Σ K that a point at the query itself would
    have beside its neighbours.
    """
    rows = len(indptr) - 1
    weights = np.empty(len(distances))
    effective_size = np.zeros(rows)
    self_weight = np.zeros(rows)
    for row in range(rows):
        start, stop = indptr[row], indptr[row + 1]
        if start == stop:
            continue
        u = bandwidth[row]
        if not u > 0.0:
            u = np.inf  # all neighbours at the query itself: t = 0
        total = 0.0
        for i in range(start, stop):
            weights[i] = smooth(kind, distances[i] / u)
            total += weights[i]
        if not total > 0.0:  # k = 1, or every neighbour at the edge: nothing tells them apart
            weights[start:stop] = 1.0
            total = float(stop - start)
        squares = 0.0
        for i in range(start, stop):
            weights[i] /= total
            squares += weights[i] * weights[i]
        effective_size[row] = 1.0 / squares
        self_weight[row] = 1.0 / total
    return weights, effective_size, self_weight


@numba.njit(nogil=True, cache=True, error_model="numpy")
def farthest(indptr, distances):
    """Return the largest distance of each neighbourhood, 0 for an empty one."""
    rows = len(indptr) - 1
    result = np.zeros(rows)
    for row in range(rows):
        for i in range(indptr[row], indptr[row + 1]):
            result[row] = max(result[row], distances[i])
    return result
