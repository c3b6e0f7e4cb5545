"""The CRPS of the families in closed form, and of mixtures, draws and quantiles.

The formulas are those of Jordan, Krüger and Lerch (2019, doi:10.18637/jss.v090.i12), rearranged where they would
subtract nearly equal numbers. The package scoringrules has them too and is as accurate but for extreme parameters; it
is not used here because importing it imports numba, which takes seconds, and the tests compare with it instead.
Beta functions appear as poch(a, ½) = Γ(a + ½) / Γ(a), which keeps its digits for large a.
"""

import numpy as np
from scipy.special import erf, log_ndtr, poch

from nearcal._arrays import FloatArray, IntArray
from nearcal._normal_scores import log_normal_density
from nearcal.distributions import (
    Distribution,
    Gamma,
    Laplace,
    LogNormal,
    Mixture,
    Normal,
    Quantiles,
    Samples,
    StudentT,
)
from nearcal.distributions.interpolation import Interpolated, add_up
from nearcal.scores._crps import BREAKS, RELATIVE_TOLERANCE, crps_rows, integrate
from nearcal.scores.arrays import interpolated_crps, sorted_sample_crps

_SQRT_HALF = np.sqrt(0.5)
_INV_SQRT_PI = 1 / np.sqrt(np.pi)
_FEW_DF = 1.25  # nearer to 1 the closed form subtracts nearly equal numbers divided by df - 1
_BLOCK = 1024  # rows of a mixture integrated together, to bound memory


def _absolute_normal_mean(distance: FloatArray, scale: FloatArray) -> FloatArray:
    """Return E|X| for X Normal with mean ``distance`` and standard deviation ``scale``."""
    z = distance / scale
    return distance * erf(z * _SQRT_HALF) + 2 * scale * np.exp(log_normal_density(z))


@crps_rows.register
def _normal(dist: Normal, y: FloatArray) -> FloatArray:
    return _absolute_normal_mean(y - dist.loc, dist.scale) - _INV_SQRT_PI * dist.scale


@crps_rows.register
def _lognormal(dist: LogNormal, y: FloatArray) -> FloatArray:
    z = dist.z(y)
    log_mean = dist.mu + dist.sigma**2 / 2
    with np.errstate(over="ignore", invalid="ignore"):
        # in logarithms, since the mean may overflow where its products with small probabilities do not
        beyond = np.exp(log_mean + log_ndtr(z - dist.sigma)) - np.exp(log_mean + log_ndtr(-dist.sigma * _SQRT_HALF))
        score = y * erf(z * _SQRT_HALF) - 2 * beyond
    return np.where(np.isfinite(score), score, np.inf)


@crps_rows.register
def _gamma(dist: Gamma, y: FloatArray) -> FloatArray:
    # y f(y), which stands for shape · scale times the difference of two Gamma cdfs
    density = np.maximum(y, 0.0) * np.exp(np.where(y > 0, dist.logpdf(y), 0.0))
    spread = dist.scale * (2 * density - _INV_SQRT_PI * poch(dist.shape, 0.5))
    return (y - dist.mean()) * (dist.cdf(y) - dist.sf(y)) + spread


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
    half_step = poch(df / 2, 0.5)
    # (df + t²) times the density; its power of 1 + t²/df has vanished before t² could overflow
    power = np.exp(-0.5 * (df - 1) * np.log1p(np.minimum(np.abs(t) / np.sqrt(df), 1e150) ** 2))
    inner = _INV_SQRT_PI * half_step * np.sqrt(df) * power
    spread = _INV_SQRT_PI * np.sqrt(df) * half_step**2 / poch(df - 0.5, 0.5)
    return dist.scale * (t * (dist.cdf(y) - dist.sf(y)) + 2 * (inner - spread) / (df - 1))


@crps_rows.register
def _mixture(dist: Mixture, y: FloatArray) -> FloatArray:
    """Return the CRPS of the components less how much they disagree.

    With F = Σ w_c F_c, the square of F - 1{· >= y} is the weighted mean of the squares of F_c - 1{· >= y} less the
    weighted variance of the F_c, so that CRPS(F, y) = Σ w_c CRPS(F_c, y) - ∫ Σ w_c (F_c - F)² dx. The last integral
    does not depend on y. For Normal components everything is elementary (Grimit et al., 2006, doi:10.1256/qj.05.235).
    """
    if all(type(component) is Normal for component in dist.components):
        return _normal_mixture(dist, y)
    score = _mean_crps(dist, y)
    finite = np.flatnonzero(np.isfinite(score))
    for start in range(0, len(finite), _BLOCK):
        rows = finite[start : start + _BLOCK]
        score[rows] -= _disagreement(dist[rows], score[rows])
    return score


def _normal_mixture(dist: Mixture, y: FloatArray) -> FloatArray:
    loc = np.stack([component.loc for component in dist.components if isinstance(component, Normal)])
    scale = np.stack([component.scale for component in dist.components if isinstance(component, Normal)])
    weights = dist.weights.T
    score = add_up((weights * _absolute_normal_mean(y - loc, scale)).T)  # term by term: a row's sum is its own
    for c in range(len(loc)):  # a row of pairs at a time: memory stays that of the mixture
        pairs = _absolute_normal_mean(loc[c] - loc, np.hypot(scale[c], scale))
        score -= 0.5 * weights[c] * add_up((weights * pairs).T)
    return score


def _mean_crps(dist: Mixture, y: FloatArray) -> FloatArray:
    scores = np.stack([crps_rows(component, y) for component in dist.components], axis=1)
    # a component of weight zero has no say, even without a mean
    return add_up(dist.weights * np.where(dist.weights > 0, scores, 0.0))


def _disagreement(dist: Mixture, scale: FloatArray) -> FloatArray:
    """Integrate the weighted variance of the components' distribution functions, between all their quantiles."""
    breaks = np.broadcast_to(BREAKS, (len(dist), len(BREAKS)))
    quantiles = np.stack([component.from_z(breaks) for component in dist.components], axis=1)
    # unused components do not count: their NaN are sorted to the end and bound no panel
    quantiles = np.where(dist.weights[:, :, np.newaxis] > 0, quantiles, np.nan)
    edges = np.sort(quantiles.reshape(len(dist), -1), axis=1)
    panels = edges.shape[1] - 1

    def variance(origin: IntArray, x: FloatArray) -> FloatArray:
        rows = origin // panels
        weights = dist.weights[rows].T[:, :, np.newaxis]
        cdf = np.stack([component[rows].cdf(x) for component in dist.components])
        mean = (weights * cdf).sum(axis=0)
        return (weights * (cdf - mean) ** 2).sum(axis=0)

    tolerance = np.repeat(RELATIVE_TOLERANCE * scale, panels)
    return integrate(variance, edges[:, :-1].ravel(), edges[:, 1:].ravel(), tolerance).reshape(len(dist), panels).sum(1)


@crps_rows.register
def _samples(dist: Samples, y: FloatArray) -> FloatArray:
    if isinstance(dist.curve, Interpolated):
        return interpolated_crps(dist.curve, y)
    return sorted_sample_crps(dist.draws, dist.weights, y)


@crps_rows.register
def _quantiles(dist: Quantiles, y: FloatArray) -> FloatArray:
    return interpolated_crps(dist.curve, y)
