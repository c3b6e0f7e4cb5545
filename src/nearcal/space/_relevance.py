"""Relevance: how much each column of a space tells about the errors of a model.

Errors are the normal scores z of a calibration set. A column matters for recalibration if the location of z or its
spread changes along it, so the targets are z and ``|z - median|``, both cut at their outer hundredths and of unit
variance. Extremely randomised trees (Geurts, Ernst and Wehenkel, 2006, doi:10.1007/s10994-006-6226-1) are grown for
both together. The importance of a column is usually what its splits explain on the rows they were chosen on, which
rewards columns of pure noise as well. Here every tree is grown on half of its rows and judged on the other half, by the
product of what a split shifts in the two halves: that is zero on average where a column tells nothing.
"""

import numpy as np

from nearcal._arrays import FloatArray

_TREES = 200
_MOST_ROWS = 1000  # of a tree; many small trees tell as much as few large ones
_LEAST_IN_LEAF = 8
_MOST_TRIES = 24  # columns that a node chooses among


def learn_relevance(space: FloatArray, z: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the relevance of each column of positions of shape (n, d), the largest being 1.

    Where no column tells anything, all have relevance 1. Rows that have weights are drawn by them, with replacement,
    in either half of a tree, so that no row is in both.
    """
    from nearcal.kernels import trees

    n, d = space.shape
    targets = _targets(z, weights)
    columns = np.ascontiguousarray(space.T)
    rng = np.random.default_rng(0)
    grown = min(n, _MOST_ROWS) // 2
    nodes = max(grown // _LEAST_IN_LEAF, 1)
    total = np.zeros(d)
    for _ in range(_TREES):
        rows = rng.permutation(n)
        if weights is None:
            rows = rows[: 2 * grown]
        else:
            halves = (rows[: n // 2], rows[n // 2 :])
            rows = np.concatenate([rng.choice(half, grown, p=weights[half] / weights[half].sum()) for half in halves])
        draws = rng.random((nodes, min(d, _MOST_TRIES), 2))
        trees.tree_relevance(columns, targets, rows[:grown], rows[grown:], draws, _LEAST_IN_LEAF, total)
    largest = total.max()
    return np.maximum(total, 0.0) / largest if largest > 0 else np.ones(d)


def _targets(z: FloatArray, weights: FloatArray | None) -> FloatArray:
    middle = np.median(z) if weights is None else _quantiles(z, [0.5], weights)
    both = np.stack([z, np.abs(z - middle)], axis=1)
    if weights is None:
        both = np.clip(both, *np.quantile(both, [0.01, 0.99], axis=0))
        center, spread = both.mean(axis=0), both.std(axis=0)
    else:
        both = np.clip(both, *np.stack([_quantiles(column, [0.01, 0.99], weights) for column in both.T], axis=1))
        center = np.average(both, axis=0, weights=weights)
        spread = np.sqrt(np.average((both - center) ** 2, axis=0, weights=weights))
    return (both - center) / np.where(spread > 0, spread, 1.0)


def _quantiles(values: FloatArray, p: list[float], weights: FloatArray) -> FloatArray:
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return values[order][np.minimum(np.searchsorted(below, np.multiply(p, below[-1])), len(values) - 1)]
