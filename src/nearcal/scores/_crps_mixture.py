"""The CRPS of mixtures: that of the components, less how much the components disagree.

With F = Σ w_c F_c, the square of F - 1{· >= y} is the weighted mean of the squares of F_c - 1{· >= y} less the weighted
variance of the F_c, so that CRPS(F, y) = Σ w_c CRPS(F_c, y) - ∫ Σ w_c (F_c - F)² dx. The last integral does not depend
on y. For Normal components everything is elementary (Grimit et al., 2006, doi:10.1256/qj.05.235).
"""

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions import Mixture, Normal
from nearcal.scores._crps_families import absolute_normal_mean
from nearcal.scores._crps_rows import BREAKS, RELATIVE_TOLERANCE, crps_rows
from nearcal.scores._quadrature import integrate

_BLOCK = 1024  # rows integrated together, to bound memory


@crps_rows.register
def _mixture(dist: Mixture, y: FloatArray) -> FloatArray:
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
    score = (weights * absolute_normal_mean(y - loc, scale)).sum(axis=0)
    for c in range(len(loc)):  # a row of pairs at a time: memory stays that of the mixture
        pairs = absolute_normal_mean(loc[c] - loc, np.hypot(scale[c], scale))
        score -= 0.5 * weights[c] * (weights * pairs).sum(axis=0)
    return score


def _mean_crps(dist: Mixture, y: FloatArray) -> FloatArray:
    scores = np.stack([crps_rows(component, y) for component in dist.components], axis=1)
    # a component of weight zero has no say, even without a mean
    return (dist.weights * np.where(dist.weights > 0, scores, 0.0)).sum(axis=1)


def _disagreement(dist: Mixture, scale: FloatArray) -> FloatArray:
    """Integrate the weighted variance of the components' distribution functions, between all their quantiles."""
    breaks = np.broadcast_to(BREAKS, (len(dist), len(BREAKS)))
    quantiles = np.stack([component._from_z(breaks) for component in dist.components], axis=1)
    # unused components do not count: their NaN are sorted to the end and bound no panel
    quantiles = np.where(dist.weights[:, :, np.newaxis] > 0, quantiles, np.nan)
    edges = np.sort(quantiles.reshape(len(dist), -1), axis=1)
    panels = edges.shape[1] - 1

    def variance(origin: IntArray, x: FloatArray) -> FloatArray:
        rows = origin // panels
        weights = dist.weights[rows].T[:, :, np.newaxis]
        cdf = np.stack([component[rows]._cdf(x) for component in dist.components])
        mean = (weights * cdf).sum(axis=0)
        return (weights * (cdf - mean) ** 2).sum(axis=0)

    tolerance = np.repeat(RELATIVE_TOLERANCE * scale, panels)
    return integrate(variance, edges[:, :-1].ravel(), edges[:, 1:].ravel(), tolerance).reshape(len(dist), panels).sum(1)
