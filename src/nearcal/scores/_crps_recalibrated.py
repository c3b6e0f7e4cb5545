"""The CRPS of recalibrated distributions, chunk by chunk."""

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions import Distribution, LogNormal, Normal
from nearcal.distributions.interpolation import Interpolated, add_up, count_not_above
from nearcal.distributions.quantile_series import quantile_values
from nearcal.recalibration import Recalibrated
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.neighborhoods import Rows
from nearcal.recalibration.score_laws import ScoreLaw
from nearcal.recalibration.steps import Steps
from nearcal.scores._crps import (
    OUTSIDE,
    REACH,
    RELATIVE_TOLERANCE,
    crps_rows,
    integrate,
    pinball_density,
    reach_of_rows,
)
from nearcal.scores.arrays import interpolated_crps, sorted_sample_crps

_PANELS = 2**16  # pieces of quantile functions integrated together, to bound memory
_ROUNDING = 1e-14  # of a response: what integrals of differences from it cannot be better than
_CENTRAL = np.array([-2.5, -0.7, 0.0, 0.7, 2.5])  # scores whose quantiles tell how far y is from a prediction
_LARGEST_LOG = 700.0  # of a number, nearly
_MANY_KNOTS = 100  # of a row: then the pieces between them are short, and few nodes on each suffice


@crps_rows.register
def _recalibrated(dist: Recalibrated, y: FloatArray) -> FloatArray:
    def of_rows(law: ScoreLaw, base: Distribution, rows: Rows) -> tuple[FloatArray]:
        score = _of_curve(law, base, y[rows]) if isinstance(law, Curve) else _of_steps(law, base, y[rows])
        return (score,)

    return dist.gather(of_rows, lambda base, rows: (crps_rows(base, y[rows]),), table=True)[0]


def _of_steps(law: ScoreLaw, base: Distribution, y: FloatArray) -> FloatArray:
    """Return the score of the weighted sample, in increasing order since quantile functions are."""
    scores, weights = law.sorted_scores  # type: ignore[attr-defined]
    counts = law.neighborhoods.lengths if isinstance(law, Steps) else None
    values = quantile_values(base, np.broadcast_to(scores, (len(base), scores.shape[1])), counts)
    return sorted_sample_crps(values, weights, y)


def _of_curve(law: Curve, base: Distribution, y: FloatArray) -> FloatArray:
    line = law.line.repeated(len(base)) if law.is_shared else law.line
    if isinstance(base, Normal):  # Normal quantiles are linear in the score, so the pieces stay straight
        return interpolated_crps(line.affine(base.loc, base.scale), y)
    z = law.after(base._unbounded_z(y[:, np.newaxis]))
    has_mean = law.has_moment(base, 1)
    if not isinstance(base, LogNormal):
        return _integrate_rows(base, line, y, z, has_mean)
    has_mean &= np.isfinite(law.moments(base)[0])
    log_unit = _log_unit(base, line)
    with np.errstate(over="ignore"):  # of rows without a mean
        score = _integrate_rows(LogNormal(base.mu - log_unit, base.sigma), line, y * np.exp(-log_unit), z, has_mean)
        return score * np.exp(log_unit)


def _log_unit(base: LogNormal, line: Interpolated) -> FloatArray:
    """Return logarithms of units in which quantiles do not overflow where they count; 0 if they do not anyway.

    Where log q(t) is m + b t, the loss is like exp(b t - t²): it peaks at b / 2, and counts up to 5 from there.
    """
    slope = base.sigma[:, np.newaxis] * line.slope_above
    largest = base.mu[:, np.newaxis] + base.sigma[:, np.newaxis] * line.from_z(np.maximum(REACH, slope / 2 + 5))
    return np.maximum(largest - _LARGEST_LOG, 0.0)[:, 0]


def _integrate_rows(
    base: Distribution, line: Interpolated, y: FloatArray, z: FloatArray, has_mean: NDArray[np.bool_]
) -> FloatArray:
    """Return the scores of rows, infinite for those without a mean."""
    score = np.where(has_mean, 0.0, np.inf)
    knots = 1 + np.count_nonzero(np.diff(np.broadcast_to(line.scores, line.values.shape), axis=1), axis=1)
    block = max(1, _PANELS // (line.values.shape[1] + 2))
    for order, kind in ((3, knots > _MANY_KNOTS), (10, knots <= _MANY_KNOTS)):
        rows = np.flatnonzero(np.isfinite(score) & kind)
        for start in range(0, len(rows), block):
            part = rows[start : start + block]
            score[part] = _integrate_pieces(base[part], line.take(part), y[part], z[part], order)
    return score


def _integrate_pieces(base: Distribution, line: Interpolated, y: FloatArray, z: FloatArray, order: int) -> FloatArray:
    """Integrate twice the pinball loss over all levels, between the knots of each row and the score of y."""
    n, s = line.values.shape
    quantiles = base._from_z(line.from_z(np.tile(np.append(_CENTRAL, OUTSIDE), (n, 1))))
    distance = quantiles - y[:, np.newaxis]
    typical = np.abs(distance[:, : len(_CENTRAL)]).mean(axis=1)
    ends = reach_of_rows(distance[:, len(_CENTRAL) :], typical)
    z = np.clip(z, -ends, ends)
    knots = np.broadcast_to(line.scores, (n, s))
    edges = np.sort(np.concatenate([-ends, np.clip(knots, -ends, ends), z, ends], axis=1), axis=1)
    panels = s + 2
    is_below = np.arange(panels) <= count_not_above(knots, z)

    def loss(origin: IntArray, t: FloatArray) -> FloatArray:
        rows = origin // panels
        quantiles = base[rows]._from_z(anchor[origin, np.newaxis] + slope[origin, np.newaxis] * t)
        return pinball_density(t, quantiles - y[rows, np.newaxis], is_below.ravel()[origin, np.newaxis])

    piece = np.arange(panels) - ~is_below
    intercepts, slopes = line.lines()
    anchor, slope = (np.take_along_axis(table, piece, axis=1).ravel() for table in (intercepts, slopes))
    # where an atom lies at y, distances are nothing but rounding: halving panels would never end
    tolerance = np.repeat(RELATIVE_TOLERANCE * typical + _ROUNDING * np.abs(y), panels)
    integral = integrate(loss, edges[:, :-1].ravel(), edges[:, 1:].ravel(), tolerance, order)
    return add_up(integral.reshape(n, panels))
