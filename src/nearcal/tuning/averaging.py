"""Averaging finalists: which of them, with what weights, and what their average scores.

A choice among candidates that score alike is left to chance, and they err in different places: an average of a few is
better than the best of them nearly always.
"""

from typing import NamedTuple

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal.recalibration.pooling import average_crps
from nearcal.tuning.choice import standing

_DRAWS = 20  # candidates drawn into an average, with replacement: weights are multiples of a twentieth
_FOLDS = 5
_RANDOM_FOLDS = 10


class Average(NamedTuple):
    """The average of finalists: its weights, one a finalist, and its scores, with weights learnt from other rows."""

    weights: FloatArray
    crps: FloatArray
    interval: FloatArray


def draw_members(values: FloatArray, y: FloatArray, most: int, counts: FloatArray | None = None) -> FloatArray:
    """Return the weights of candidates whose average scores best, ``most`` of them at most, of sum 1.

    One candidate after another is drawn, with replacement, the one with which the average of all drawn so far has the
    least mean CRPS (Caruana et al., 2004, doi:10.1145/1015330.1015432): what is drawn often weighs much, and what only
    seems to help, by a few rows, hardly ever enters.

    Parameters
    ----------
    values : ndarray of shape (candidates, rows, 41)
        Quantiles of rows under every candidate.
    y : ndarray of shape (rows,)
    most : int
    counts : ndarray of shape (rows,), optional
        How much each row counts.
    """
    values = np.ascontiguousarray(values)
    drawn, total = np.zeros(len(values)), np.zeros(values.shape[1:])
    for number in range(_DRAWS):
        is_full = np.count_nonzero(drawn) == most
        places = np.flatnonzero(drawn) if is_full else np.arange(len(values))
        means = [np.average(average_crps(total, values[one], number + 1, y), weights=counts) for one in places]
        best = places[int(np.argmin([standing(mean) for mean in means]))]
        drawn[best] += 1
        total += values[best]
    return drawn / _DRAWS


def cross_fitted(
    tables: FloatArray, values: FloatArray, y: FloatArray, most: int, folds: IntArray, counts: FloatArray | None = None
) -> FloatArray:
    """Return the average of tables, (rows, columns), each row with weights drawn without its fold."""
    averaged = np.empty(tables.shape[1:])
    for fold in np.unique(folds):
        inside, others = folds == fold, folds != fold
        others = others if others.any() else inside
        of_rows = None if counts is None else counts[others]
        weights = draw_members(values[:, others], y[others], most, of_rows)
        averaged[inside] = average_tables(weights, tables[:, inside])
    return averaged


def average_tables(weights: FloatArray, tables: FloatArray) -> FloatArray:
    """Return the average of tables, one a candidate, of those that have a weight."""
    total = np.zeros(tables.shape[1:])
    for weight, table in zip(weights, tables, strict=True):
        total = total + weight * table if weight > 0 else total
    return total


def folds_by_score(z: FloatArray, units: IntArray | None) -> IntArray:
    """Return the fold of every row: by the rank of its score, whatever the order of rows; of units by their number."""
    if units is None:
        folds = np.empty(len(z), dtype=np.intp)
        folds[np.argsort(z, kind="stable")] = np.arange(len(z)) % _FOLDS
        return folds
    return np.unique(units, return_inverse=True)[1] % _FOLDS


def folds_at_random(z: FloatArray, units: IntArray | None) -> IntArray:
    """Return the fold of every row, by a draw of ranks, whatever the order of rows; of units by their number.

    In folds by rank the scores of each are those of all, and what all rows have in common would not look in doubt.
    """
    if units is not None:
        return folds_by_score(z, units)
    folds = np.empty(len(z), dtype=np.intp)
    folds[np.argsort(z, kind="stable")] = np.random.default_rng(0).permutation(len(z)) % _RANDOM_FOLDS
    return folds
