"""The Student t family, with tails that neither overflow nor underflow."""

from typing import Any

import numpy as np
from scipy.special import betaln, log_ndtr, ndtri_exp, stdtr, stdtrit

from nearcal._arrays import FloatArray, IntArray, broadcast_parameters, require_positive
from nearcal._normal_scores import log_normal_density
from nearcal.distributions._inversion import invert_increasing
from nearcal.distributions.base import Distribution, ParametricDistribution

_UNDERFLOW = 1e-290
_Z_DIRECT = 5.0  # scipy's stdtrit loses the far tails: at p = 1e-300 it returns inf for 5 degrees of freedom
_MANY_DF = 1e4


class StudentT(ParametricDistribution):
    """Student t distributions with ``df`` degrees of freedom, shifted by ``loc`` and stretched by ``scale``.

    Parameters
    ----------
    df, loc, scale : array_like
        Scalars, (n,) or (n, 1); ``df`` and ``scale`` are positive, ``df`` need not be whole. The mean is NaN for
        df <= 1; the variance is infinite for 1 < df <= 2 and NaN for df <= 1.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.StudentT(5.0, loc=[0.0, 1.0], scale=2.0).ppf(0.975).round(3)
    array([5.141, 6.141])
    """

    _parameter_names = ("df", "loc", "scale")
    _quantiles_are_costly = True
    df: FloatArray
    loc: FloatArray
    scale: FloatArray

    def __init__(self, df: Any, loc: Any, scale: Any) -> None:
        parameters = broadcast_parameters(df=df, loc=loc, scale=scale)
        require_positive(parameters["df"], "df")
        require_positive(parameters["scale"], "scale")
        self._store(**parameters)

    def _standardise(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        df, loc, scale = self._columns()
        df, t = np.broadcast_arrays(df, (y - loc) / scale)
        return df, t

    def _logcdf(self, y: FloatArray) -> FloatArray:
        df, t = self._standardise(y)
        return _log_lower(df, t)

    def _logsf(self, y: FloatArray) -> FloatArray:
        df, t = self._standardise(y)
        return _log_lower(df, -t)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        df, t = self._standardise(y)
        return _log_density(df, t) - np.log(self.scale[:, np.newaxis])

    def _from_z(self, z: FloatArray) -> FloatArray:
        df, loc, scale = self._columns()
        df, z = np.broadcast_arrays(df, z)
        distance = np.abs(z)
        t = -stdtrit(df, np.exp(log_ndtr(-np.minimum(distance, _Z_DIRECT))))
        far = (distance > _Z_DIRECT) & np.isfinite(z)
        if far.any():
            t[far] = _standard_quantile(df[far], distance[far])
        t[np.isinf(z)] = np.inf
        with np.errstate(over="ignore"):
            return loc + scale * np.copysign(t, z)

    def mean(self) -> FloatArray:
        """Return loc; NaN where df <= 1, as there is no mean."""
        return np.where(self.df > 1, self.loc, np.nan)

    def var(self) -> FloatArray:
        """Return scale² df / (df - 2); infinite where 1 < df <= 2 and NaN where df <= 1."""
        with np.errstate(divide="ignore"):
            finite = self.scale**2 * self.df / np.where(self.df > 2, self.df - 2, 1.0)
        return np.where(self.df > 2, finite, np.where(self.df > 1, np.inf, np.nan))

    def _standard_shapes(self) -> tuple[FloatArray, FloatArray, Distribution]:
        return self.loc, self.scale, self._with(loc=np.zeros(len(self)), scale=np.ones(len(self)))


def _log_density(df: FloatArray, t: FloatArray) -> FloatArray:
    log_1p_square = 2 * np.log(np.hypot(1.0, t / np.sqrt(df)))  # t² would overflow for df near 1
    return -0.5 * (df + 1) * log_1p_square - 0.5 * np.log(df) - betaln(0.5 * df, 0.5)


def _log_lower(df: FloatArray, t: FloatArray) -> FloatArray:
    """Return the log-cdf of the standard t distribution."""
    with np.errstate(divide="ignore"):
        p = stdtr(df, -np.abs(t))
        log_tail = np.log(p)
    # stdtr squares t, so it fails for heavy tails long before the probability underflows
    far = ((p < _UNDERFLOW) | (np.abs(t) > 1e100)) & np.isfinite(t)
    if far.any():
        log_tail[far] = _log_far_tail(df[far], np.abs(t[far]))
    return np.where(t < 0, log_tail, np.log1p(-np.exp(log_tail)))


def _log_far_tail(df: FloatArray, t: FloatArray) -> FloatArray:
    """Return log P(T > t) where it is tiny: near-Normal for many degrees of freedom, a power law for few."""
    result = np.empty_like(t)
    many = df > _MANY_DF
    result[many] = log_ndtr(-_hill_score(df[many], t[many]))
    result[~many] = _log_power_tail(df[~many], t[~many])
    return result


def _log_power_tail(df: FloatArray, t: FloatArray) -> FloatArray:
    """Sum P(T > t) = xᵃ / (2 a B(a, ½)) · Σ (½)ₙ/n! · a/(a+n) · xⁿ, with a = df/2 and x = df/(df + t²) < 1."""
    a = 0.5 * df
    log_x = -2 * np.log(np.hypot(1.0, t / np.sqrt(df)))
    x = np.exp(log_x)
    power = np.ones_like(x)
    total = np.ones_like(x)
    step = 0
    while (power > 1e-17 * total).any() and step < 100_000:
        step += 1
        power = power * x * (step - 0.5) / step
        total += power * a / (a + step)
    return a * log_x - np.log(2 * a) - betaln(a, 0.5) + np.log(total)


def _hill_score(df: FloatArray, t: FloatArray) -> FloatArray:
    """Return the normal score of t by Hill's expansion (1970, CACM algorithm 395), in powers of 1/df²."""
    a = df - 0.5
    b = 48 * a * a
    w = np.sqrt(a * np.log1p(t * t / df))
    correction = (4 * w**7 + 33 * w**5 + 240 * w**3 + 855 * w) / (10 * b * (b + 0.8 * w**4 + 100))
    return w + (w**3 + 3 * w) / b - correction


def _standard_quantile(df: FloatArray, z: FloatArray) -> FloatArray:
    """Return the standard t quantile of a large positive score, solving for log t; overflow gives inf."""
    log_tail = log_ndtr(-z)
    log_power_law = -(log_tail + np.log(df) + betaln(0.5 * df, 0.5)) / df + 0.5 * np.log(df)
    start = np.where(df > 100, np.log(z), np.maximum(log_power_law, np.log(z)))

    def score(log_t: FloatArray, which: IntArray) -> tuple[FloatArray, FloatArray]:
        t = np.exp(log_t)
        value = -ndtri_exp(_log_lower(df[which], -t))
        slope = np.exp(log_t + _log_density(df[which], t) - log_normal_density(value))
        return value, slope

    representable = start < 709.0
    log_t = np.full(len(z), np.inf)
    if representable.any():
        df, z, start = df[representable], z[representable], start[representable]
        # t tails are heavier than Normal ones, so t >= z
        log_t[representable] = invert_increasing(score, z, start, np.log(z), np.full(len(z), 709.7))
    return np.exp(log_t)
