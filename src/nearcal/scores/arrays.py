"""Scores from arrays at hand, without validation: of intervals, of sorted draws, of interpolated quantiles.

The CRPS of the last two is ∫ F² up to the response plus ∫ (1 - F)² beyond it, piece by piece: exact sums of positive
terms. The usual form E|X - y| - ½ E|X - X'| has the same value but subtracts, and takes a double sum or the same sort.
"""

import numpy as np
from scipy.special import ndtr

from nearcal._arrays import FloatArray
from nearcal._normal_scores import log_normal_density
from nearcal.distributions.interpolation import Interpolated, add_up

_INV_SQRT_PI = 1 / np.sqrt(np.pi)
_LARGEST = np.finfo(np.float64).max / 4  # draws between whose negative and which all differences are numbers


def score_interval(lower: FloatArray, upper: FloatArray, y: FloatArray, coverage: float) -> FloatArray:
    """Return the interval score of given intervals."""
    miss = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
    width = np.subtract(upper, lower, out=np.zeros(len(y)), where=upper > lower)  # both may be infinite
    return width + 2 / (1 - coverage) * miss


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

    Returns
    -------
    ndarray of shape (n,)
        Infinite where a draw that has a weight is.
    """
    if (values[:, 0] < -_LARGEST).any() or (values[:, -1] > _LARGEST).any():
        bounded = np.clip(values, -_LARGEST, _LARGEST)
        is_infinite = ((values != bounded) & (weights > 0)).any(axis=1)
        return np.where(is_infinite, np.inf, sorted_sample_crps(bounded, weights, y))
    below = np.cumsum(weights[:, :-1], axis=1) ** 2
    above = np.cumsum(weights[:, :0:-1], axis=1)[:, ::-1] ** 2
    column = y[:, np.newaxis]
    inside = below * np.diff(np.minimum(values, column), axis=1) + above * np.diff(np.maximum(values, column), axis=1)
    return (add_up(inside) if inside.shape[1] else 0.0) + _outside(values, y)


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
    below = np.diff(_standard_normal_energy(np.minimum(scores, z)), axis=1)
    above = -np.diff(_standard_normal_energy(-np.maximum(scores, z)), axis=1)
    return add_up(slopes * (below + above)) + outside


def _outside(values: FloatArray, y: FloatArray) -> FloatArray:
    """Return the distance of y from the range of the values, where all probability lies on one side of it."""
    return np.maximum(values[:, 0] - y, 0.0) + np.maximum(y - values[:, -1], 0.0)


def _standard_normal_energy(t: FloatArray) -> FloatArray:
    """Return ∫ Φ(u)² du from -∞ to t."""
    finite = np.where(np.isneginf(t), 0.0, t)
    p = ndtr(finite)
    energy = finite * p**2 + 2 * p * np.exp(log_normal_density(finite)) - _INV_SQRT_PI * ndtr(np.sqrt(2) * finite)
    return np.where(np.isneginf(t), 0.0, energy)
