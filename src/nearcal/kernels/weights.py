"""Kernel weights of neighbourhoods: w ∝ K(d / u), normalised to sum 1.

They are whole multiples of 2⁻⁵², so that no sum of them rounds: whatever weights are added up, and in whatever order,
cumulated weights are the same to the last bit. A neighbour that counts has one such unit at least.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal.kernels.compile import inner, kernel, once, reduction
from nearcal.kernels.summary import find_longest
from nearcal.kernels.sums import largest_magnitude, sum_in_any_order, sum_squares_in_any_order

EPANECHNIKOV, UNIFORM, TRIANGULAR, BIWEIGHT, GAUSSIAN = range(5)
_UNIT = 2.0**-52


def weigh(
    indptr: Any, distances: Any, radius: Any, kind: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Weigh neighbourhoods in CSR form.

    Returns the weights, the effective size 1 / Σ w², and the weight K(0) / Σ K that a point at the query itself would
    have beside its neighbours.
    """
    rows = len(indptr) - 1
    weights, effective_size, self_weight = np.empty(len(distances)), np.empty(rows), np.empty(rows)
    write_weights(indptr, distances, radius, kind, weights, effective_size, self_weight)
    return weights, effective_size, self_weight


@kernel
def write_weights(indptr, distances, radius, kind, weights, effective_size, self_weight):
    """Write the results of :func:`weigh`."""
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        if start == stop:
            effective_size[row] = self_weight[row] = 0.0
            continue
        own = weights[start:stop]
        smooth_all(kind, distances[start:stop], radius[row], own)
        largest = largest_magnitude(own)
        total = sum_in_any_order(own, len(own), largest)
        if not total > 0.0:  # k = 1, or every neighbour at the edge: nothing tells them apart
            own[:] = 1.0
            largest, total = 1.0, float(stop - start)
        effective_size[row] = total * total / sum_squares_in_any_order(own, largest)
        self_weight[row] = 1.0 / total
        _normalise(own, total)


def weigh_points(
    indptr: Any, distances: Any, shares: Any, radius: Any, kind: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Weigh neighbourhoods in CSR form whose points have weights themselves: w ∝ share · K(d / u).

    Returns the same as :func:`weigh`; the point at the query has the weight that points there have on average.
    """
    rows = len(indptr) - 1
    weights, effective_size, self_weight = np.empty(len(distances)), np.zeros(rows), np.zeros(rows)
    terms = np.empty(find_longest(indptr))
    write_weights_of_points(indptr, distances, shares, radius, kind, terms, weights, effective_size, self_weight)
    return weights, effective_size, self_weight


@kernel
def write_weights_of_points(indptr, distances, shares, radius, kind, terms, weights, effective_size, self_weight):
    """Write the results of :func:`weigh_points` where neighbourhoods are not empty, with scratch for one."""
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        if start == stop:
            continue
        own, share = weights[start:stop], shares[start:stop]
        smooth_all(kind, distances[start:stop], radius[row], own)
        for i in range(len(own)):
            own[i] *= share[i]
        largest = largest_magnitude(own)
        total = sum_in_any_order(own, len(own), largest)
        if not total > 0.0:
            for i in range(len(own)):
                own[i] = share[i]
            largest = largest_magnitude(own)
            total = sum_in_any_order(own, len(own), largest)
        effective_size[row] = total * total / sum_squares_in_any_order(own, largest)
        typical = _sum_products(own, share, largest * largest_magnitude(share), terms)
        self_weight[row] = typical / (total * total)
        _normalise(own, total)


@inner
def _sum_products(x, y, largest, terms):
    for i in range(len(x)):
        terms[i] = x[i] * y[i]
    return sum_in_any_order(terms[: len(x)], len(x), largest)


@once
def _normalise(weights, total):
    """Divide weights by their sum, and round them to whole units."""
    scale = 1.0 / total
    for i in range(len(weights)):
        share = (weights[i] * scale + 1.0) - 1.0
        weights[i] = max(share, _UNIT) if weights[i] > 0.0 else 0.0


@inner
def smooth_all(kind, distances, radius, weights):
    """Write K(d / u) into weights, one loop a kernel so that each is vectorised."""
    u = radius if radius > 0.0 else np.inf  # all neighbours at the query itself: t = 0
    if kind == EPANECHNIKOV:
        for i in range(len(distances)):
            t = distances[i] / u
            weights[i] = max(1.0 - t * t, 0.0)
    elif kind == UNIFORM:
        for i in range(len(distances)):
            weights[i] = 1.0 if distances[i] / u <= 1.0 else 0.0
    elif kind == TRIANGULAR:
        for i in range(len(distances)):
            weights[i] = max(1.0 - distances[i] / u, 0.0)
    elif kind == BIWEIGHT:
        for i in range(len(distances)):
            t = distances[i] / u
            weights[i] = max(1.0 - t * t, 0.0) ** 2
    else:
        for i in range(len(distances)):
            t = distances[i] / u
            weights[i] = np.exp(-0.5 * t * t) if t <= 1.0 else 0.0


@reduction
def add_up(weights):
    """Return Σ w, for what need not be the same in another order."""
    total = 0.0
    for i in range(len(weights)):
        total += weights[i]
    return total
