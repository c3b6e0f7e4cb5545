"""The Gamma family, with log-probabilities that outlast the underflow of double precision."""

from typing import Any

import numpy as np
from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv, gammaln, log_ndtr, ndtr, xlogy

from nearcal._arrays import FloatArray, broadcast_parameters, require_positive
from nearcal.distributions.base import Distribution, ParametricDistribution

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
            x[far] = _far_quantiles(a[far], z[far])
        return scale * x

    def mean(self) -> FloatArray:
        """Return shape · scale."""
        return self.shape * self.scale

    def var(self) -> FloatArray:
        """Return shape · scale²."""
        return self.shape * self.scale**2

    def _standard_shapes(self) -> tuple[FloatArray, FloatArray, Distribution]:
        return np.zeros(len(self)), self.scale, self._with(scale=np.ones(len(self)))


def _log_lower(a: FloatArray, x: FloatArray) -> FloatArray:
    """Return log P(a, x), the log-cdf of the standard Gamma distribution."""
    x = np.maximum(x, 0.0)
    p = gammainc(a, x)
    with np.errstate(divide="ignore"):
        log_p = np.where(p < 0.5, np.log(p), np.log1p(-gammaincc(a, x)))
    tiny = (p < _UNDERFLOW) & (x > 0)
    if tiny.any():
        from nearcal.kernels import gamma_tails

        log_p[tiny] = gamma_tails.log_lower(a[tiny], x[tiny])
    return log_p


def _log_upper(a: FloatArray, x: FloatArray) -> FloatArray:
    """Return log Q(a, x), the log-survival function of the standard Gamma distribution."""
    x = np.maximum(x, 0.0)
    q = gammaincc(a, x)
    with np.errstate(divide="ignore"):
        log_q = np.where(q < 0.5, np.log(q), np.log1p(-gammainc(a, x)))
    tiny = (q < _UNDERFLOW) & np.isfinite(x)
    if tiny.any():
        from nearcal.kernels import gamma_tails

        log_q[tiny] = gamma_tails.log_upper(a[tiny], x[tiny])
    return log_q


def _far_quantiles(a: FloatArray, z: FloatArray) -> FloatArray:
    """Return standard Gamma quantiles in the far tails; x below 1e-304 becomes 0."""
    from nearcal.kernels import gamma_tails

    x = np.empty_like(z)
    low = z < 0
    x[low] = gamma_tails.lower_quantiles(a[low], log_ndtr(z[low]))
    a, z = a[~low], z[~low]
    cube = a * (1 - 1 / (9 * a) + z / (3 * np.sqrt(a))) ** 3  # Wilson and Hilferty's
    x[~low] = gamma_tails.upper_quantiles(a, log_ndtr(-z), np.maximum(cube, a + z * np.sqrt(a)))
    return x
