"""Families with elementary tails: Normal, LogNormal and Laplace."""

from typing import Any

import numpy as np
from scipy.special import erf, log_ndtr

from nearcal._arrays import FloatArray, broadcast_parameters, require_positive, require_shape
from nearcal._normal_scores import log_normal_density, log_tails_from_z
from nearcal.distributions.base import Distribution, ParametricDistribution
from nearcal.distributions.interpolation import Interpolated, add_up, power_of_two

_LOG_2 = np.log(2.0)
_NARROW = 1e-3  # of (std / mean)² of a lognormal variable
_SQRT_2, _SQRT_HALF = np.sqrt(2.0), np.sqrt(0.5)


class LocationScale(ParametricDistribution):
    """A family whose row j is loc_j + scale_j times one standard distribution."""

    _parameter_names = ("loc", "scale")
    _tails_are_light = True
    loc: FloatArray
    scale: FloatArray

    def __init__(self, loc: Any, scale: Any) -> None:
        parameters = broadcast_parameters(loc=loc, scale=scale)
        require_positive(parameters["scale"], "scale")
        self._store(**parameters)

    def _standardise(self, y: FloatArray) -> FloatArray:
        return standardise(y, *self._columns())

    def mean(self) -> FloatArray:
        """Return loc."""
        return np.array(self.loc)

    def _location_scale(self) -> tuple[FloatArray, FloatArray, Distribution]:
        return self.loc, self.scale, type(self)(0.0, 1.0)


def standardise(y: FloatArray, loc: FloatArray, scale: FloatArray) -> FloatArray:
    """Return (y - loc) / scale, infinite only where that is too large for a number, or y is infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        difference = y - loc
        x = difference / scale
        overflows = np.isinf(difference) & np.isfinite(y)
        if overflows.any():  # then y and loc have different signs, and the terms add up
            x = np.where(overflows, y / scale - loc / scale, x)
    return x


class Normal(LocationScale):
    """Normal distributions with mean ``loc`` and standard deviation ``scale``.

    Parameters
    ----------
    loc, scale : array_like
        Scalars, (n,) or (n, 1); they broadcast. ``scale`` is a standard deviation and must be positive.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.Normal([0.0, 1.0], 2.0).ppf(0.975).round(3)
    array([3.92, 4.92])
    >>> nc.Normal(0.0, 1.0).z(40.0)
    array([40.])
    """

    def _z(self, y: FloatArray) -> FloatArray:
        return self._standardise(y)

    def _log_slope(self, y: FloatArray, z: FloatArray) -> FloatArray:
        return np.broadcast_to(-np.log(self.scale[:, np.newaxis]), y.shape)

    def _from_z(self, z: FloatArray) -> FloatArray:
        loc, scale = self._columns()
        return loc + scale * z

    def _logcdf(self, y: FloatArray) -> FloatArray:
        return log_ndtr(self._z(y))

    def _logsf(self, y: FloatArray) -> FloatArray:
        return log_ndtr(-self._z(y))

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return log_normal_density(self._z(y)) - np.log(self.scale[:, np.newaxis])

    def std(self) -> FloatArray:
        """Return scale."""
        return np.array(self.scale)

    def _moments_at(self, scores: Interpolated) -> tuple[FloatArray, FloatArray]:
        mean, std = scores.moments()
        with np.errstate(over="ignore"):
            return self.loc + self.scale * mean, self.scale * std


class LogNormal(ParametricDistribution):
    """Distributions of exp(X) with X Normal of mean ``mu`` and standard deviation ``sigma``.

    Parameters
    ----------
    mu, sigma : array_like
        Parameters on the log scale: scalars, (n,) or (n, 1); ``sigma`` must be positive.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.LogNormal(0.0, 1.0).median()
    array([1.])
    """

    _parameter_names = ("mu", "sigma")
    _tails_are_light = True
    mu: FloatArray
    sigma: FloatArray

    def __init__(self, mu: Any, sigma: Any) -> None:
        parameters = broadcast_parameters(mu=mu, sigma=sigma)
        require_shape(parameters["sigma"], "sigma", 5e-324, 1e100)
        self._store(**parameters)

    def _z(self, y: FloatArray) -> FloatArray:
        mu, sigma = self._columns()
        with np.errstate(divide="ignore"):
            return (np.log(np.maximum(y, 0.0)) - mu) / sigma

    def _log_slope(self, y: FloatArray, z: FloatArray) -> FloatArray:
        inside = y > 0
        return np.where(inside, -np.log(self.sigma[:, np.newaxis]) - np.log(np.where(inside, y, 1.0)), -np.inf)

    def _from_z(self, z: FloatArray) -> FloatArray:
        mu, sigma = self._columns()
        with np.errstate(over="ignore"):
            return np.exp(mu + sigma * z)

    def _logcdf(self, y: FloatArray) -> FloatArray:
        return log_tails_from_z(self._z(y))[0]

    def _logsf(self, y: FloatArray) -> FloatArray:
        return log_tails_from_z(self._z(y))[1]

    def _logpdf(self, y: FloatArray) -> FloatArray:
        inside = (y > 0) & np.isfinite(y)
        safe = np.where(inside, y, 1.0)
        log_density = log_normal_density(self._z(safe)) - np.log(self.sigma[:, np.newaxis]) - np.log(safe)
        return np.where(inside, log_density, -np.inf)

    def mean(self) -> FloatArray:
        """Return exp(mu + sigma²/2)."""
        with np.errstate(over="ignore"):
            return np.exp(self.mu + self.sigma**2 / 2)

    def std(self) -> FloatArray:
        """Return (exp(sigma²) - 1)^½ exp(mu + sigma²/2)."""
        with np.errstate(over="ignore"):
            square = self.sigma**2
            # one exponential: of two factors one may overflow where the other vanishes; sigma² may vanish where sigma
            # does not
            log_root = np.where(
                square < 1e-9, np.log(self.sigma), 0.5 * (square + np.log(-np.expm1(-np.maximum(square, 1e-9))))
            )
            return np.exp(self.mu + square / 2 + log_root)

    def _moments_at(self, scores: Interpolated) -> tuple[FloatArray, FloatArray]:
        first, second = scores.log_mean_exp(self.sigma), scores.log_mean_exp(2 * self.sigma)
        with np.errstate(over="ignore", invalid="ignore"):
            log_ratio = np.maximum(second - 2 * first, 0.0)  # log of 1 + (std / mean)²
            log_relative = np.where(
                log_ratio > 1, 0.5 * (log_ratio + np.log(-np.expm1(-np.maximum(log_ratio, 1.0)))), 0.0
            )
            relative = np.where(log_ratio > 1, 1.0, np.sqrt(np.expm1(np.minimum(log_ratio, 1.0))))
            narrow = np.flatnonzero(log_ratio < _NARROW)
            if len(narrow):
                relative[narrow] = _narrow_spread(scores.take(narrow), self.sigma[narrow])
            mean = np.exp(self.mu + first)
            return mean, np.exp(self.mu + first + log_relative) * relative


def _narrow_spread(scores: Interpolated, sigma: FloatArray) -> FloatArray:
    """Return std / mean of exp(σ Z) where it is small: a difference of nearly equal moments otherwise."""
    values, weights = scores.rule()
    center = add_up(weights * values)[:, np.newaxis]
    offset = np.expm1(sigma[:, np.newaxis] * (values - center))
    mean = add_up(weights * offset)[:, np.newaxis]
    unit = power_of_two(np.abs(offset).max(axis=1))[:, np.newaxis]
    return (unit[:, 0] * np.sqrt(add_up(weights * ((offset - mean) / unit) ** 2))) / (1 + mean[:, 0])


class Laplace(LocationScale):
    """Laplace (double exponential) distributions.

    Parameters
    ----------
    loc, scale : array_like
        Median and scale b, of density ``exp(-|y - loc| / b) / (2 b)``: scalars, (n,) or (n, 1); ``scale`` is positive.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.Laplace(0.0, 1.0).var()
    array([2.])
    """

    def _from_z(self, z: FloatArray) -> FloatArray:
        loc, scale = self._columns()
        tail = -np.abs(z)
        # log(2Φ(z)); near the median 1 + erf keeps the small differences that log_ndtr rounds away
        magnitude = -np.where(tail > -1, np.log1p(erf(np.maximum(tail, -1) * _SQRT_HALF)), _LOG_2 + log_ndtr(tail))
        return loc + scale * np.copysign(magnitude, z)

    def _logcdf(self, y: FloatArray) -> FloatArray:
        return _laplace_lower_tail(self._standardise(y))

    def _logsf(self, y: FloatArray) -> FloatArray:
        return _laplace_lower_tail(-self._standardise(y))

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return -np.abs(self._standardise(y)) - _LOG_2 - np.log(self.scale[:, np.newaxis])

    def std(self) -> FloatArray:
        """Return √2 scale."""
        with np.errstate(over="ignore"):
            return _SQRT_2 * self.scale


def _laplace_lower_tail(x: FloatArray) -> FloatArray:
    """Return the log-cdf of the standard Laplace distribution."""
    return np.where(x < 0, np.minimum(x, 0) - _LOG_2, np.log1p(-0.5 * np.exp(-np.maximum(x, 0))))
