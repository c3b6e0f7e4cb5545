"""Relevance: how much each column of a space tells about the errors of a model.

Errors are the normal scores z of a calibration set. A column matters for recalibration if the location of z or its
spread changes along it, so the targets are z and ``|z - median|``, both cut at their outer hundredths and of unit
variance. Extremely randomised trees (Geurts, Ernst and Wehenkel, 2006, doi:10.1007/s10994-006-6226-1) are grown for
both together. The importance of a column is usually what its splits explain on the rows they were chosen on, which
rewards columns of pure noise as well. Here every tree is grown on half of its rows and judged on the other half, by the
product of what a split shifts in the two halves: that is zero on average where a column tells nothing.
"""

from itertools import combinations

import numpy as np

from nearcal._arrays import FloatArray, IntArray

_TREES = 200
_MOST_ROWS = 1000  # of a tree; many small trees tell as much as few large ones
_LEAST_IN_LEAF = 8
_MOST_TRIES = 24  # columns that a node chooses among


def learn_relevance(space: FloatArray, z: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the relevance of each column of positions of shape (n, d), the largest being 1.

    Where no column tells anything, all have relevance 1. Rows that have weights are drawn by them, with replacement,
    in either half of a tree, so that no row is in both.
    """
    return _relative(_told(np.ascontiguousarray(space.T), z, weights, np.arange(len(z)), _TREES, 0))


def learn_relevance_without(
    space: FloatArray, z: FloatArray, fold: IntArray, folds: int, weights: FloatArray | None = None
) -> list[FloatArray]:
    """Return the relevance of each column as learnt without each of some folds of the rows, given the fold of each.

    A tree takes a thousand rows at most. Where so many are in fewer folds, a tree leaves out several and serves each of
    these: 250 trees do for five folds of a thousand rows, where each by itself would take 200.
    """
    n = len(z)
    columns = np.ascontiguousarray(space.T)
    taken = min(max(-(-folds * _MOST_ROWS // n), 1), folds - 1)  # folds that a tree takes its rows from
    of_folds = list(combinations(range(folds), taken))
    each = -(-_TREES * folds // (len(of_folds) * (folds - taken)))
    told = np.zeros((folds, space.shape[1]))
    for seed, own in enumerate(of_folds):
        rows = np.flatnonzero(np.isin(fold, own))
        # folds that share no tree are learnt from as if each were alone
        total = _told(columns, z, weights, rows, each, seed if taken < folds - 1 else 0)
        told[[number for number in range(folds) if number not in own]] += total
    return [_relative(total) for total in told]


def _relative(told: FloatArray) -> FloatArray:
    largest = told.max()
    return np.maximum(told, 0.0) / largest if largest > 0 else np.ones(len(told))


def _told(
    columns: FloatArray, z: FloatArray, weights: FloatArray | None, among: IntArray, count: int, seed: int
) -> FloatArray:
    """Return what so many trees, grown and judged on some of the rows alone, explain by each column."""
    from nearcal.kernels import trees

    n, d = len(among), len(columns)
    weights = None if weights is None else weights[among]
    targets = np.zeros((len(z), 2))
    targets[among] = _targets(z[among], weights)
    rng = np.random.default_rng(seed)
    grown = min(n, _MOST_ROWS) // 2
    nodes = max(grown // _LEAST_IN_LEAF, 1)
    told = np.zeros(d)
    for _ in range(count):
        rows = rng.permutation(n)
        if weights is None:
            rows = rows[: 2 * grown]
        else:
            halves = (rows[: n // 2], rows[n // 2 :])
            rows = np.concatenate([rng.choice(half, grown, p=weights[half] / weights[half].sum()) for half in halves])
        draws = rng.random((nodes, min(d, _MOST_TRIES), 2))
        rows = among[rows]
        trees.tree_relevance(columns, targets, rows[:grown], rows[grown:], draws, _LEAST_IN_LEAF, told)
    return told


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
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    return values[order][np.minimum(np.searchsorted(below, np.multiply(p, below[-1])), len(values) - 1)]
