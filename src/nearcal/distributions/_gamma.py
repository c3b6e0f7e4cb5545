"""The Gamma family, with log-probabilities that outlast the underflow of double precision."""

from typing import Any

import numpy as np
from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv, gammaln, log_ndtr, ndtr, xlogy

from nearcal._arrays import FloatArray, IntArray, broadcast_parameters, require_positive
from nearcal._normal_scores import log_normal_density, z_from_log_tails
from nearcal.distributions._base import Distribution, ParametricDistribution, is_shared
from nearcal.distributions._inversion import invert_increasing

_UNDERFLOW = 1e-290  # below this, probabilities lose digits and then vanish
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
    shape: FloatArray
    scale: FloatArray

    def __init__(self, shape: Any, scale: Any) -> None:
        parameters = broadcast_parameters(shape=shape, scale=scale)
        require_positive(parameters["shape"], "shape")
        require_positive(parameters["scale"], "scale")
        self._store(**parameters)

    def _logcdf(self, y: FloatArray) -> FloatArray:
        shape, scale = self._columns()
        return _log_lower(*np.broadcast_arrays(shape, y / scale))

    def _logsf(self, y: FloatArray) -> FloatArray:
        shape, scale = self._columns()
        return _log_upper(*np.broadcast_arrays(shape, y / scale))

    def _logpdf(self, y: FloatArray) -> FloatArray:
        shape, scale = self._columns()
        inside = (y >= 0) & np.isfinite(y)
        x = np.where(inside, y, 1.0) / scale
        return np.where(inside, xlogy(shape - 1, x) - x - gammaln(shape) - np.log(scale), -np.inf)

    def _from_z(self, z: FloatArray) -> FloatArray:
        shape, scale = self._columns()
        a, z = np.broadcast_arrays(shape, z)
        lower = z < 0
        x = np.empty(z.shape)
        x[lower], x[~lower] = gammaincinv(a[lower], ndtr(z[lower])), gammainccinv(a[~lower], ndtr(-z[~lower]))
        far = (np.abs(z) > _Z_DIRECT) & np.isfinite(z)
        if far.any():
            x[far] = _standard_quantile(a[far], z[far])
        return scale * x

    def mean(self) -> FloatArray:
        """Return shape · scale."""
        return self.shape * self.scale

    def var(self) -> FloatArray:
        """Return shape · scale²."""
        return self.shape * self.scale**2

    def _location_scale(self) -> tuple[FloatArray, FloatArray, Distribution] | None:
        if not is_shared(self.shape):
            return None
        return np.zeros(len(self)), self.scale, Gamma(self.shape[0], 1.0)


def _log_lower(a: FloatArray, x: FloatArray) -> FloatArray:
    """Return log P(a, x), the log-cdf of the standard Gamma distribution."""
    x = np.maximum(x, 0.0)
    p = gammainc(a, x)
    with np.errstate(divide="ignore"):
        log_p = np.where(p < 0.5, np.log(p), np.log1p(-gammaincc(a, x)))
    tiny = (p < _UNDERFLOW) & (x > 0)
    if tiny.any():
        log_p[tiny] = _log_lower_series(a[tiny], x[tiny])
    return log_p


def _log_upper(a: FloatArray, x: FloatArray) -> FloatArray:
    """Return log Q(a, x), the log-survival function of the standard Gamma distribution."""
    x = np.maximum(x, 0.0)
    q = gammaincc(a, x)
    with np.errstate(divide="ignore"):
        log_q = np.where(q < 0.5, np.log(q), np.log1p(-gammainc(a, x)))
    tiny = (q < _UNDERFLOW) & np.isfinite(x)
    if tiny.any():
        log_q[tiny] = _log_upper_fraction(a[tiny], x[tiny])
    return log_q


def _log_lower_series(a: FloatArray, x: FloatArray) -> FloatArray:
    """Sum P(a, x) = xᵃ e⁻ˣ / Γ(a+1) · Σ xⁿ / ((a+1)…(a+n)) (DLMF 8.11.4); x is far below a here."""
    term = np.ones_like(x)
    total = np.ones_like(x)
    step = 0
    while (term > 1e-17 * total).any() and step < 100_000:
        step += 1
        term = term * x / (a + step)
        total += term
    return a * np.log(x) - x - gammaln(a + 1) + np.log(total)


def _log_upper_fraction(a: FloatArray, x: FloatArray) -> FloatArray:
    """Evaluate the continued fraction of Q(a, x) (DLMF 8.9.2) by Lentz's method; x is far above a here."""
    b = x + 1 - a
    c = np.full_like(x, np.inf)
    d = 1 / b
    fraction = d
    for step in range(1, 100_000):
        numerator = step * (a - step)
        b = b + 2
        d = 1 / (numerator * d + b)
        c = b + numerator / c
        ratio = c * d
        fraction = fraction * ratio
        if (np.abs(ratio - 1) < 1e-16).all():
            break
    return a * np.log(x) - x - gammaln(a) + np.log(fraction)


def _standard_quantile(a: FloatArray, z: FloatArray) -> FloatArray:
    """Return standard Gamma quantiles in the far tails, solving for log x; x below 1e-308 becomes 0."""
    # lower tail: P ~ xᵃ / Γ(a+1), exact as x -> 0; upper tail: Wilson and Hilferty's cube
    log_small = (log_ndtr(z) + gammaln(a + 1)) / a
    cube_root = 1 - 1 / (9 * a) + z / (3 * np.sqrt(a))
    start = np.where(z < 0, log_small, np.log(a) + 3 * np.log(np.maximum(cube_root, 1e-3)))
    lower = np.where(z < 0, log_small, -np.inf)  # the factor e⁻ˣ makes P smaller, so x larger

    def score(log_x: FloatArray, which: IntArray) -> tuple[FloatArray, FloatArray]:
        shape = a[which]
        x = np.exp(np.clip(log_x, -745.0, 709.0))
        value = z_from_log_tails(_log_lower(shape, x), _log_upper(shape, x))
        log_slope = shape * log_x - x - gammaln(shape) - log_normal_density(value)
        return value, np.exp(log_slope)

    representable = start > -700
    log_x = np.where(representable, 0.0, -np.inf)
    if representable.any():
        a, z = a[representable], z[representable]
        log_x[representable] = invert_increasing(
            score, z, start[representable], lower[representable], np.full(len(z), np.inf)
        )
    return np.exp(log_x)
