"""The Student t family, with tails that neither overflow nor underflow."""

from typing import Any

import numpy as np
from scipy.special import betaln, log_ndtr, stdtr, stdtrit

from nearcal._arrays import FloatArray, IntArray, broadcast_parameters, require_positive, require_shape
from nearcal._normal_scores import log_normal_density, quantile_of_log
from nearcal.distributions import _student_scores as student_scores
from nearcal.distributions._inversion import invert_increasing
from nearcal.distributions._parametric import standardise
from nearcal.distributions._student_scores import MANY_DF
from nearcal.distributions.base import Distribution, ParametricDistribution

_UNDERFLOW = 1e-290
_T_DIRECT = 1e100  # scipy's functions square t
_LOG_LARGEST = 800.0  # of log t: beyond, the tail is a power law to the last digit
_Z_DIRECT = 5.0  # scipy's stdtrit loses the far tails: at p = 1e-300 it returns inf for 5 degrees of freedom
_STIRLING = 1e3  # degrees of freedom from which on two terms of Stirling's series are exact
_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


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
        require_shape(parameters["df"], "df", 1e-50, 1e200)
        require_positive(parameters["scale"], "scale")
        self._store(**parameters)

    def _standardise(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return df, t and log |t|, which outlasts the overflow of t."""
        df, loc, scale = self._columns()
        df, t = np.broadcast_arrays(df, standardise(y, loc, scale))
        with np.errstate(divide="ignore", over="ignore"):
            log_distance = np.log(np.abs(y - loc))
            if np.isinf(log_distance).any():
                halved = np.log(np.abs(y / 2 - loc / 2)) + np.log(2.0)  # halves do not overflow, but may vanish
                log_distance = np.where(log_distance == np.inf, halved, log_distance)
            return df, t, log_distance - np.log(scale)

    def _logcdf(self, y: FloatArray) -> FloatArray:
        df, t, log_t = self._standardise(y)
        return _log_lower(df, t, log_t)

    def _logsf(self, y: FloatArray) -> FloatArray:
        df, t, log_t = self._standardise(y)
        return _log_lower(df, -t, log_t)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        df, t, log_t = self._standardise(y)
        return _log_density(df, t, log_t) - np.log(self.scale[:, np.newaxis])

    def _from_z(self, z: FloatArray) -> FloatArray:
        df, loc, scale = self._columns()
        df, loc, scale, z = np.broadcast_arrays(df, loc, scale, z)
        distance = np.abs(z)
        t = np.full(z.shape, np.inf)
        body = (df < MANY_DF) & (distance <= _Z_DIRECT)
        t[body] = -stdtrit(df[body], np.exp(log_ndtr(-distance[body])))
        far = np.isfinite(z) & ~(body & (t < _T_DIRECT))
        with np.errstate(over="ignore"):
            length = scale * t
            if far.any():
                length[far] = np.exp(_log_quantile(df[far], distance[far]) + np.log(scale[far]))
            return loc + np.copysign(length, z)

    def mean(self) -> FloatArray:
        """Return loc; NaN where df <= 1, as there is no mean."""
        return np.where(self.df > 1, self.loc, np.nan)

    def std(self) -> FloatArray:
        """Return scale (df / (df - 2))^½; infinite where 1 < df <= 2 and NaN where df <= 1."""
        has_variance = self.df > 2
        with np.errstate(over="ignore"):
            finite = self.scale * np.sqrt(self.df / np.where(has_variance, self.df - 2, 1.0))
        return np.where(has_variance, finite, np.where(self.df > 1, np.inf, np.nan))

    def _tail_powers(self) -> FloatArray:
        return np.stack([self.df, self.df], axis=1)

    def _standard_shapes(self) -> tuple[FloatArray, FloatArray, Distribution]:
        return self.loc, self.scale, self._with(loc=np.zeros(len(self)), scale=np.ones(len(self)))


def _log_1p_square(df: FloatArray, t: FloatArray, log_t: FloatArray) -> FloatArray:
    """Return log(1 + t²/df), where neither the square overflows nor the sum rounds the square away."""
    ratio = np.abs(t) / np.sqrt(df)
    small, large = np.minimum(ratio, 1.0), np.clip(ratio, 1.0, _T_DIRECT)
    near = np.where(ratio < 1, np.log1p(small * small), 2 * np.log(np.hypot(1.0, large)))
    return np.where(ratio <= _T_DIRECT, near, 2 * log_t - np.log(df))


def _log_density(df: FloatArray, t: FloatArray, log_t: FloatArray) -> FloatArray:
    few = np.minimum(df, _STIRLING)
    # by Stirling's series, where the logarithms of Gamma functions are large and nearly cancel
    log_constant = np.where(
        df < _STIRLING, -0.5 * np.log(few) - betaln(0.5 * few, 0.5), -(1 / 4 - 1 / (24 * df * df)) / df - _LOG_SQRT_2PI
    )
    return log_constant - 0.5 * (df + 1) * _log_1p_square(df, t, log_t)


def _log_lower(df: FloatArray, t: FloatArray, log_t: FloatArray) -> FloatArray:
    """Return the log-cdf of the standard t distribution."""
    log_tail = np.empty(t.shape)
    many = df >= MANY_DF
    log_square = _log_1p_square(df, t, log_t)
    log_tail[many] = log_ndtr(-student_scores.score(df[many], log_square[many]))
    log_tail[~many] = _log_tail_few(df[~many], np.abs(t[~many]), log_square[~many])
    # 1 - tail: the tail is at most one half
    return np.where(t < 0, log_tail, np.log1p(-np.exp(log_tail)))


def _log_tail_few(df: FloatArray, t: FloatArray, log_square: FloatArray) -> FloatArray:
    """Return log P(T > t), t > 0, for few degrees of freedom."""
    with np.errstate(divide="ignore"):
        p = stdtr(df, -t)
        log_tail = np.log(p)
    # stdtr squares t, so it fails for heavy tails long before the probability underflows
    far = ((p < _UNDERFLOW) | (t > _T_DIRECT)) & np.isfinite(log_square)
    if far.any():
        log_tail[far] = _log_power_tail(df[far], log_square[far])
    return log_tail


def _log_power_tail(df: FloatArray, log_square: FloatArray) -> FloatArray:
    """Sum P(T > t) = xᵃ / (2 a B(a, ½)) · Σ (½)ₙ/n! · a/(a+n) · xⁿ, with a = df/2 and x = 1/(1 + t²/df) < 1."""
    a = 0.5 * df
    x = np.exp(-log_square)
    power = np.ones_like(x)
    total = np.ones_like(x)
    step = 0
    while (power > 1e-17 * total).any() and step < 100_000:
        step += 1
        power = power * x * (step - 0.5) / step
        total += power * a / (a + step)
    return -a * log_square - np.log(2 * a) - betaln(a, 0.5) + np.log(total)


def _log_quantile(df: FloatArray, z: FloatArray) -> FloatArray:
    """Return log t of the standard t quantile of a positive score, which t itself may be too large for."""
    log_t = np.empty(len(z))
    many = df >= MANY_DF
    square = student_scores.log_square_of(df[many], z[many])
    with np.errstate(divide="ignore"):
        # log √(eˢ - 1), by whichever form keeps its digits
        half_log = np.where(square < 1, np.log(np.expm1(np.minimum(square, 1.0))), square + np.log(-np.expm1(-square)))
    log_t[many] = 0.5 * (np.log(df[many]) + half_log)
    log_t[~many] = _search_log_quantile(df[~many], z[~many])
    return log_t


def _search_log_quantile(df: FloatArray, z: FloatArray) -> FloatArray:
    log_tail = log_ndtr(-z)
    log_power_law = -(log_tail + np.log(df) + betaln(0.5 * df, 0.5)) / df + 0.5 * np.log(df)
    start = np.where(df > 100, np.log(z), np.maximum(log_power_law, np.log(z)))

    def score(log_t: FloatArray, which: IntArray) -> tuple[FloatArray, FloatArray]:
        own = df[which]
        with np.errstate(over="ignore", invalid="ignore"):  # far from the solution; a wrong slope costs a step
            t = np.exp(log_t)
            value = -quantile_of_log(_log_lower(own, -t, log_t))
            return value, np.exp(log_t + _log_density(own, t, log_t) - log_normal_density(value))

    log_t = log_power_law  # exact where it is large
    search = np.flatnonzero(log_power_law <= _LOG_LARGEST)
    if len(search):
        df, z = df[search], z[search]
        # t tails are heavier than Normal ones, so t >= z
        log_t[search] = invert_increasing(score, z, start[search], np.log(z), np.full(len(z), _LOG_LARGEST + 50))
    return log_t
