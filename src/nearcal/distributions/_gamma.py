"""The Gamma family, with log-probabilities that outlast the underflow of double precision."""

from typing import Any

import numpy as np
from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv, gammaln, log_ndtr, ndtr

from nearcal._arrays import FloatArray, broadcast_parameters, require_positive, require_shape
from nearcal._normal_scores import log_tails_from_z, z_from_log_tails
from nearcal.distributions import _gamma_scores as gamma_scores
from nearcal.distributions._gamma_scores import LARGE_SHAPE
from nearcal.distributions.base import Distribution, ParametricDistribution

_UNDERFLOW = 1e-290  # below this, probabilities lose digits and then vanish
_SMALLEST = 1e-290  # below this x, standardised, is no more than its logarithm: P is xᵃ / Γ(a + 1) to the last digit
_LOG_SMALLEST = np.log(_SMALLEST)
_STIRLING = 100.0  # shapes from which on four terms of Stirling's series are exact
_Z_DIRECT = 36.0  # Φ(-36) is 4e-284: scipy's inverses are accurate up to here


class Gamma(ParametricDistribution):
    """Gamma distributions with mean shape · scale and variance shape · scale².

    Parameters
    ----------
    shape, scale : array_like
        Scalars, (n,) or (n, 1), positive. A network that predicts a mean μ and a shape α gives
        ``Gamma(α, μ / α)``.

    Examples
    --------
    >>> import nearcal as nc
    >>> mu = [1.0, 10.0]
    >>> nc.Gamma(100.0, [m / 100.0 for m in mu]).mean()
    array([ 1., 10.])
    """

    _parameter_names = ("shape", "scale")
    _quantiles_are_costly = True
    _tails_are_light = True
    shape: FloatArray
    scale: FloatArray

    def __init__(self, shape: Any, scale: Any) -> None:
        parameters = broadcast_parameters(shape=shape, scale=scale)
        require_shape(parameters["shape"], "shape", 1e-50, 1e30)
        require_positive(parameters["scale"], "scale")
        self._store(**parameters)

    def _standardise(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return shape, x = y / scale where y is positive and else 0, and log x, which outlasts the underflow of x."""
        shape, scale = self._columns()
        shape, scale, y = np.broadcast_arrays(shape, scale, np.maximum(y, 0.0))
        with np.errstate(divide="ignore", over="ignore"):
            x = y / scale
            return shape, x, np.where(x > _SMALLEST, np.log(x), np.log(y) - np.log(scale))

    def _logcdf(self, y: FloatArray) -> FloatArray:
        return _log_tails(*self._standardise(y))[0]

    def _logsf(self, y: FloatArray) -> FloatArray:
        return _log_tails(*self._standardise(y))[1]

    def _z(self, y: FloatArray) -> FloatArray:
        return z_from_log_tails(*_log_tails(*self._standardise(y)))

    def _logpdf(self, y: FloatArray) -> FloatArray:
        shape, x, log_x = self._standardise(y)
        inside = (y >= 0) & np.isfinite(x)
        log_scale = np.log(self.scale[:, np.newaxis])
        with np.errstate(invalid="ignore"):
            log_density = np.where(shape < _STIRLING, _log_density(shape, x, log_x), _stirling_density(shape, x, log_x))
        return np.where(inside, log_density - log_scale, -np.inf)

    def _from_z(self, z: FloatArray) -> FloatArray:
        shape, scale = self._columns()
        shape, scale, z = np.broadcast_arrays(shape, scale, z)
        log_scale = np.log(scale)
        # P ~ xᵃ / Γ(a + 1) as x -> 0: its logarithm tells quantiles that are too small for x but not for scale · x
        log_small = (log_ndtr(z) + gammaln(shape + 1)) / shape
        large = shape >= LARGE_SHAPE
        small = (log_small < _LOG_SMALLEST) & ~large
        rest = ~(large | small)
        body, above = rest & (np.abs(z) <= _Z_DIRECT), rest & (z > _Z_DIRECT)
        below = rest & (z < -_Z_DIRECT)
        values = np.empty(z.shape)
        values[large] = scale[large] * gamma_scores.quantile(shape[large], z[large])
        values[small] = np.exp(log_small[small] + log_scale[small])
        values[body] = scale[body] * _in_the_body(shape[body], z[body])
        if above.any():
            values[above] = scale[above] * _far_above(shape[above], z[above])
        if below.any():
            values[below] = np.exp(_far_below(shape[below], z[below]) + log_scale[below])
        return values

    def mean(self) -> FloatArray:
        """Return shape · scale."""
        with np.errstate(over="ignore"):
            return self.shape * self.scale

    def std(self) -> FloatArray:
        """Return √shape · scale."""
        with np.errstate(over="ignore"):
            return np.sqrt(self.shape) * self.scale

    def _standard_shapes(self) -> tuple[FloatArray, FloatArray, Distribution]:
        return np.zeros(len(self)), self.scale, self._with(scale=np.ones(len(self)))


def _log_density(a: FloatArray, x: FloatArray, log_x: FloatArray) -> FloatArray:
    """Return the log-density of the standard Gamma distribution; at 0 it may be finite or infinite."""
    return np.where(a == 1, 0.0, (a - 1) * log_x) - x - gammaln(a)


def _stirling_density(a: FloatArray, x: FloatArray, log_x: FloatArray) -> FloatArray:
    """Return the same for shapes so large that a log x, x and log Γ(a) are large and nearly cancel."""
    eta = gamma_scores.eta_of((x - a) / a, log_x - np.log(a))
    log_gamma_star = (1 / 12 - (1 / 360 - 1 / (1260 * a * a)) / (a * a)) / a  # by Stirling's series
    log_density = -a * eta**2 / 2 + 0.5 * np.log(a / (2 * np.pi)) - log_x - log_gamma_star
    return np.where(np.isneginf(log_x), -np.inf, log_density)


def _log_tails(a: FloatArray, x: FloatArray, log_x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log P(a, x) and log Q(a, x), the log-cdf and log-survival function of the standard Gamma distribution."""
    is_large = a >= LARGE_SHAPE
    lower, upper = np.empty(x.shape), np.empty(x.shape)
    if is_large.any():
        lower[is_large], upper[is_large] = log_tails_from_z(
            gamma_scores.score(a[is_large], x[is_large], log_x[is_large])
        )
    lower[~is_large], upper[~is_large] = _log_tails_by_series(a[~is_large], x[~is_large], log_x[~is_large])
    return lower, upper


def _log_tails_by_series(a: FloatArray, x: FloatArray, log_x: FloatArray) -> tuple[FloatArray, FloatArray]:
    p, q = gammainc(a, x), gammaincc(a, x)
    with np.errstate(divide="ignore"):
        lower = np.where(p < 0.5, np.log(p), np.log1p(-q))
        upper = np.where(q < 0.5, np.log(q), np.log1p(-p))
    is_small = x <= _SMALLEST  # P ~ xᵃ / Γ(a + 1)
    if is_small.any():
        log_p = np.minimum(a[is_small] * log_x[is_small] - gammaln(a[is_small] + 1), 0.0)
        with np.errstate(divide="ignore"):
            lower[is_small], upper[is_small] = log_p, np.log(-np.expm1(log_p))
    lower_vanishes, upper_vanishes = (p < _UNDERFLOW) & ~is_small, (q < _UNDERFLOW) & np.isfinite(x)
    if lower_vanishes.any() or upper_vanishes.any():
        from nearcal.kernels import gamma_tails

        lower[lower_vanishes] = gamma_tails.log_lower(a[lower_vanishes], x[lower_vanishes])
        upper[upper_vanishes] = gamma_tails.log_upper(a[upper_vanishes], x[upper_vanishes])
    return lower, upper


def _in_the_body(a: FloatArray, z: FloatArray) -> FloatArray:
    lower = z < 0
    x = np.empty(z.shape)
    x[lower], x[~lower] = gammaincinv(a[lower], ndtr(z[lower])), gammainccinv(a[~lower], ndtr(-z[~lower]))
    return x


def _far_below(a: FloatArray, z: FloatArray) -> FloatArray:
    """Return logarithms of quantiles."""
    from nearcal.kernels import gamma_tails

    return gamma_tails.lower_quantiles(a, log_ndtr(z))


def _far_above(a: FloatArray, z: FloatArray) -> FloatArray:
    from nearcal.kernels import gamma_tails

    log_q = log_ndtr(-z)
    x = np.full(len(z), np.inf)
    finite = np.isfinite(log_q)
    a, z, log_q = a[finite], z[finite], log_q[finite]
    x[finite] = gamma_tails.upper_quantiles(a, log_q, np.maximum(-log_q, a + z * np.sqrt(a)))
    return x
