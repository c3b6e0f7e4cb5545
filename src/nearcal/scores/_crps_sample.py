"""The CRPS of weighted draws and of interpolated quantiles: exact sums of positive terms.

Both are ∫ F² up to the response plus ∫ (1 - F)² beyond it, piece by piece. The usual form E|X - y| - ½ E|X - X'| has
the same value but subtracts, and takes a double sum or the same sort.
"""

import numpy as np

from nearcal._arrays import FloatArray
from nearcal.distributions import Quantiles, Samples
from nearcal.distributions.interpolation import Interpolated
from nearcal.scores._crps_families import standard_normal_energy
from nearcal.scores._crps_rows import crps_rows


def sorted_sample_crps(values: FloatArray, weights: FloatArray, y: FloatArray) -> FloatArray:
    """Return the CRPS of weighted draws.

    Parameters
    ----------
    values : ndarray of shape (n, s)
        Draws, non-decreasing along a row.
    weights : ndarray of shape (1, s) or (n, s)
        Their weights, of sum 1.
    y : ndarray of shape (n,)
        Responses.
    """
    below = np.cumsum(weights[:, :-1], axis=1) ** 2
    above = np.cumsum(weights[:, :0:-1], axis=1)[:, ::-1] ** 2
    column = y[:, np.newaxis]
    inside = (below * np.diff(np.minimum(values, column), axis=1)).sum(axis=1)
    inside += (above * np.diff(np.maximum(values, column), axis=1)).sum(axis=1)
    return inside + _outside(values, y)


def interpolated_crps(curve: Interpolated, y: FloatArray) -> FloatArray:
    """Return the CRPS of a quantile function that is piecewise linear in the normal score.

    On a piece of slope b the integral of F² dy is b times that of Φ(t)² dt, which is elementary.
    """
    column = y[:, np.newaxis]
    n, s = curve.values.shape
    z = curve.z(column)
    scores = np.broadcast_to(curve.scores, (n, s))
    slopes = curve.lines()[1][:, 1:-1]
    outside = np.zeros(n) if curve.normal_tails else _outside(curve.values, y)
    if curve.normal_tails:
        infinite = np.full((n, 1), np.inf)
        scores = np.concatenate([-infinite, scores, infinite], axis=1)
        slopes = np.concatenate([curve.slope_below, slopes, curve.slope_above], axis=1)
    below = np.diff(standard_normal_energy(np.minimum(scores, z)), axis=1)
    above = -np.diff(standard_normal_energy(-np.maximum(scores, z)), axis=1)
    return (slopes * (below + above)).sum(axis=1) + outside


def _outside(values: FloatArray, y: FloatArray) -> FloatArray:
    """Return the distance of y from the range of the values, where all probability lies on one side of it."""
    return np.maximum(values[:, 0] - y, 0.0) + np.maximum(y - values[:, -1], 0.0)


@crps_rows.register
def _samples(dist: Samples, y: FloatArray) -> FloatArray:
    return sorted_sample_crps(dist.draws, dist.weights, y)


@crps_rows.register
def _quantiles(dist: Quantiles, y: FloatArray) -> FloatArray:
    return interpolated_crps(dist._curve, y)
