"""Gaussian kernel estimates of weighted draws: density, and the normal scores of its distribution function."""

import numpy as np
from scipy.special import log_ndtr

from nearcal._arrays import FloatArray
from nearcal._normal_scores import log_normal_density, z_from_log_tails


def silverman_bandwidth(
    std: FloatArray, quartile_range: FloatArray, effective_size: FloatArray, floor: FloatArray | float
) -> FloatArray:
    """Return Silverman's 0.9 min(std, IQR / 1.349) n^(-1/5) (1986, eq. 3.31), with n the effective sample size."""
    robust = np.where(quartile_range > 0, np.minimum(std, quartile_range / 1.349), std)
    return np.maximum(0.9 * robust * effective_size**-0.2, floor)


def smoothed_log_density(y: FloatArray, draws: FloatArray, weights: FloatArray, width: FloatArray) -> FloatArray:
    """Return log Σ w φ((y - x) / h) / h for y of shape (n, q), draws (n, s), weights (n, s) or (1, s), widths (n,)."""
    columns = [_log_weighted_sum(weights, log_normal_density(t)) for t in _distances(y, draws, width)]
    return np.stack(columns, axis=1) - np.log(width)[:, np.newaxis]


def smoothed_z(y: FloatArray, draws: FloatArray, weights: FloatArray, width: FloatArray) -> FloatArray:
    """Return Φ⁻¹(Σ w Φ((y - x) / h)), the score whose slope is the smoothed density; shapes as above."""
    columns = [
        z_from_log_tails(_log_weighted_sum(weights, log_ndtr(t)), _log_weighted_sum(weights, log_ndtr(-t)))
        for t in _distances(y, draws, width)
    ]
    return np.stack(columns, axis=1)


def _distances(y: FloatArray, draws: FloatArray, width: FloatArray) -> "list[FloatArray]":
    """Return (y - x) / h, one (n, s) array for each column of y."""
    return [(column[:, np.newaxis] - draws) / width[:, np.newaxis] for column in y.T]


def _log_weighted_sum(weights: FloatArray, log_values: FloatArray) -> FloatArray:
    """Return log Σ w exp(v) along rows; added up one by one, so that padding of weight zero changes no bit."""
    largest = np.max(np.where(weights > 0, log_values, -np.inf), axis=1, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.cumsum(weights * np.exp(log_values - largest), axis=1)[:, -1]) + largest[:, 0]
