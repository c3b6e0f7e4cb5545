"""The CRPS of recalibrated distributions, chunk by chunk."""

import numpy as np
from scipy.special import log_ndtr

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions import Distribution, Normal
from nearcal.distributions._interpolation import Interpolated, count_not_above
from nearcal.recalibration import MappedDistribution, Recalibrated
from nearcal.recalibration._local_sample import CONTINUOUS_RULES, LocalSample
from nearcal.recalibration._neighborhoods import Rows
from nearcal.scores._crps import REACH, RELATIVE_TOLERANCE, crps_rows, integrate, pinball_density
from nearcal.scores.arrays import interpolated_crps, sorted_sample_crps

_PANELS = 2**16  # pieces of quantile functions integrated together, to bound memory
_ROUNDING = 1e-14  # of a response: what integrals of differences from it cannot be better than
_MANY_KNOTS = 100  # then the pieces between them are short, and few nodes on each suffice


@crps_rows.register
def _recalibrated(dist: Recalibrated, y: FloatArray) -> FloatArray:
    def score(sample: LocalSample, rows: Rows) -> tuple[FloatArray]:
        own, alone = y[rows], sample.left_alone
        if dist.quantile_rule in CONTINUOUS_RULES:
            result = np.empty(len(own))
            others = np.setdiff1d(np.arange(len(own)), alone)
            if len(others):
                curve = sample.curve(dist.quantile_rule).take(others)
                result[others] = _interpolated(sample.base[others], curve, own[others])
        else:
            result = sorted_sample_crps(*sample.sorted_sample(dist._standardised(sample, rows)), own)
        if len(alone):
            result[alone] = crps_rows(sample.base[alone], own[alone])
        return (result,)

    return dist._gather(score, expanded=True)[0]


def _interpolated(base: Distribution, curve: Interpolated, y: FloatArray) -> FloatArray:
    if isinstance(base, Normal):  # Normal quantiles are linear in the score, so the pieces stay straight
        return interpolated_crps(curve.affine(base.loc, base.scale), y)
    z = curve.z(base._unbounded_z(y[:, np.newaxis]))
    score = np.where(_has_mean(base, curve), 0.0, np.inf)
    rows = np.flatnonzero(np.isfinite(score))
    block = max(1, _PANELS // (curve.values.shape[1] + 2))
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        score[part] = _integrate_pieces(base[part], curve.take(part), y[part], z[part])
    return score


@crps_rows.register
def _mapped(dist: MappedDistribution, y: FloatArray) -> FloatArray:
    """Integrate between the knots of the map: left to find them, the general quadrature runs out of memory."""
    curve = dist.score_map._curve
    knots = curve.values.shape[1]
    block = max(1, _PANELS // (knots + 2))
    score = np.empty(len(y))
    for start in range(0, len(y), block):
        rows = np.arange(start, min(start + block, len(y)))
        own = curve.take(np.zeros(len(rows), dtype=np.intp))
        own.scores = np.broadcast_to(curve.scores, (len(rows), knots))
        score[rows] = _interpolated(dist.base[rows], own, y[rows])
    return score


def _has_mean(base: Distribution, curve: Interpolated) -> FloatArray:
    """Tell whether p |F⁻¹(p)| falls on its way into both tails; a tail of scores can be too steep for a heavy base."""
    t = np.array([[-2 * REACH, -REACH, REACH, 2 * REACH]])
    with np.errstate(divide="ignore"):
        size = log_ndtr(-np.abs(t)) + np.log(np.abs(base._from_z(curve.from_z(np.repeat(t, len(base), axis=0)))))
    return ~((size[:, 0] > size[:, 1]) | (size[:, 3] > size[:, 2]))


def _integrate_pieces(base: Distribution, curve: Interpolated, y: FloatArray, z: FloatArray) -> FloatArray:
    """Integrate twice the pinball loss over all levels, between the knots of each row and the score of y."""
    n, s = curve.values.shape
    ends = np.full((n, 1), REACH)
    z = np.clip(z, -REACH, REACH)
    edges = np.sort(np.concatenate([-ends, np.clip(curve.scores, -REACH, REACH), z, ends], axis=1), axis=1)
    panels = s + 2
    is_below = np.arange(panels) <= count_not_above(curve.scores, z)

    def loss(origin: IntArray, t: FloatArray) -> FloatArray:
        rows = origin // panels
        quantiles = base[rows]._from_z(anchor[origin, np.newaxis] + slope[origin, np.newaxis] * t)
        return pinball_density(t, quantiles - y[rows, np.newaxis], is_below.ravel()[origin, np.newaxis])

    piece = np.arange(panels) - ~is_below
    intercepts, slopes = curve.lines()
    anchor, slope = (np.take_along_axis(table, piece, axis=1).ravel() for table in (intercepts, slopes))
    quantiles = base._from_z(curve.from_z(np.tile([-2.5, -0.7, 0.0, 0.7, 2.5], (n, 1))))
    typical = np.abs(quantiles - y[:, np.newaxis]).mean(axis=1)
    # where an atom lies at y, distances are nothing but rounding: halving panels would never end
    tolerance = np.repeat(RELATIVE_TOLERANCE * typical + _ROUNDING * np.abs(y), panels)
    order = 3 if s > _MANY_KNOTS else 10
    found = integrate(loss, edges[:, :-1].ravel(), edges[:, 1:].ravel(), tolerance, order)
    return found.reshape(n, panels).sum(axis=1)
