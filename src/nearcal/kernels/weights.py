"""Kernel weights of neighbourhoods: w ∝ K(d / u), normalised to sum 1."""

import numpy as np

from nearcal.kernels.compile import kernel, once, reduction

EPANECHNIKOV, UNIFORM, TRIANGULAR, BIWEIGHT, GAUSSIAN = range(5)


@kernel
def weigh(indptr, distances, radius, kind):
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
        own = weights[start:stop]
        smooth_all(kind, distances[start:stop], radius[row], own)
        total, squares = sums(own)
        if not total > 0.0:  # k = 1, or every neighbour at the edge: nothing tells them apart
            own[:] = 1.0
            total, squares = float(stop - start), float(stop - start)
        for i in range(len(own)):
            own[i] /= total
        effective_size[row] = total * total / squares
        self_weight[row] = 1.0 / total
    return weights, effective_size, self_weight


@kernel
def weigh_points(indptr, distances, shares, radius, kind):
    """Weigh neighbourhoods in CSR form whose points have weights themselves: w ∝ share · K(d / u).

    Returns the same as :func:`weigh`; the point at the query has the weight that points there have on average.
    """
    rows = len(indptr) - 1
    weights = np.empty(len(distances))
    effective_size = np.zeros(rows)
    self_weight = np.zeros(rows)
    for row in range(rows):
        start, stop = indptr[row], indptr[row + 1]
        if start == stop:
            continue
        own, share = weights[start:stop], shares[start:stop]
        smooth_all(kind, distances[start:stop], radius[row], own)
        for i in range(len(own)):
            own[i] *= share[i]
        total, squares = sums(own)
        if not total > 0.0:
            own[:] = share
            total, squares = sums(own)
        typical = 0.0
        for i in range(len(own)):
            own[i] /= total
            typical += own[i] * share[i]
        effective_size[row] = total * total / squares
        self_weight[row] = typical / total
    return weights, effective_size, self_weight


@once
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
def sums(values):
    """Return Σ v and Σ v²."""
    total = 0.0
    squares = 0.0
    for i in range(len(values)):
        total += values[i]
        squares += values[i] * values[i]
    return total, squares
