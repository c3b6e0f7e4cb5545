"""The CRPS of parametric families in closed form.

The formulas are those of Jordan, Krüger and Lerch (2019, doi:10.18637/jss.v090.i12), rearranged where they would
subtract nearly equal numbers. The package scoringrules has them too and is as accurate but for extreme parameters; it
is not used here because importing it imports numba, which takes seconds, and the tests compare with it instead.
Beta functions appear as poch(a, ½) = Γ(a + ½) / Γ(a), which keeps its digits for large a.
"""

import numpy as np
from scipy.special import erf, log_ndtr, ndtr, poch

from nearcal._arrays import FloatArray
from nearcal._normal_scores import log_normal_density
from nearcal.distributions import Distribution, Gamma, Laplace, LogNormal, Normal, StudentT
from nearcal.scores._crps_rows import crps_rows

_SQRT_HALF = np.sqrt(0.5)
_INV_SQRT_PI = 1 / np.sqrt(np.pi)
_FEW_DF = 1.25  # nearer to 1 the closed form subtracts nearly equal numbers divided by df - 1


def absolute_normal_mean(distance: FloatArray, scale: FloatArray) -> FloatArray:
    """Return E|X| for X Normal with mean ``distance`` and standard deviation ``scale``."""
    z = distance / scale
    return distance * erf(z * _SQRT_HALF) + 2 * scale * np.exp(log_normal_density(z))


@crps_rows.register
def _normal(dist: Normal, y: FloatArray) -> FloatArray:
    return absolute_normal_mean(y - dist.loc, dist.scale) - _INV_SQRT_PI * dist.scale


@crps_rows.register
def _lognormal(dist: LogNormal, y: FloatArray) -> FloatArray:
    z = dist._z(y[:, np.newaxis])[:, 0]
    log_mean = dist.mu + dist.sigma**2 / 2
    with np.errstate(over="ignore", invalid="ignore"):
        # in logarithms, since the mean may overflow where its products with small probabilities do not
        beyond = np.exp(log_mean + log_ndtr(z - dist.sigma)) - np.exp(log_mean + log_ndtr(-dist.sigma * _SQRT_HALF))
        score = y * erf(z * _SQRT_HALF) - 2 * beyond
    return np.where(np.isfinite(score), score, np.inf)


@crps_rows.register
def _gamma(dist: Gamma, y: FloatArray) -> FloatArray:
    column = y[:, np.newaxis]
    lower, upper = dist._cdf(column)[:, 0], dist._sf(column)[:, 0]
    # y f(y), which stands for shape · scale times the difference of two Gamma cdfs
    density = np.maximum(y, 0.0) * np.exp(np.where(y > 0, dist._logpdf(column)[:, 0], 0.0))
    return (y - dist.mean()) * (lower - upper) + dist.scale * (2 * density - _INV_SQRT_PI * poch(dist.shape, 0.5))


@crps_rows.register
def _laplace(dist: Laplace, y: FloatArray) -> FloatArray:
    distance = np.abs(y - dist.loc) / dist.scale
    return dist.scale * (distance + np.exp(-distance) - 0.75)


@crps_rows.register
def _student_t(dist: StudentT, y: FloatArray) -> FloatArray:
    score = np.full(len(y), np.inf)  # without a mean
    many = dist.df >= _FEW_DF
    few = (dist.df > 1) & ~many
    if many.any():
        score[many] = _student_t_closed(dist[many], y[many])
    if few.any():
        score[few] = crps_rows.dispatch(Distribution)(dist[few], y[few])
    return score


def _student_t_closed(dist: StudentT, y: FloatArray) -> FloatArray:
    df, t = dist.df, (y - dist.loc) / dist.scale
    column = y[:, np.newaxis]
    half_step = poch(df / 2, 0.5)
    # (df + t²) times the density; its power of 1 + t²/df has vanished before t² could overflow
    power = np.exp(-0.5 * (df - 1) * np.log1p(np.minimum(np.abs(t) / np.sqrt(df), 1e150) ** 2))
    inner = _INV_SQRT_PI * half_step * np.sqrt(df) * power
    spread = _INV_SQRT_PI * np.sqrt(df) * half_step**2 / poch(df - 0.5, 0.5)
    balance = dist._cdf(column)[:, 0] - dist._sf(column)[:, 0]
    return dist.scale * (t * balance + 2 * (inner - spread) / (df - 1))


def standard_normal_energy(t: FloatArray) -> FloatArray:
    """Return ∫ Φ(u)² du from -∞ to t."""
    finite = np.where(np.isneginf(t), 0.0, t)
    p = ndtr(finite)
    energy = finite * p**2 + 2 * p * np.exp(log_normal_density(finite)) - _INV_SQRT_PI * ndtr(np.sqrt(2) * finite)
    return np.where(np.isneginf(t), 0.0, energy)
