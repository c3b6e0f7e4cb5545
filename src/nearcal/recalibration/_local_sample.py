"""The weighted sample of one chunk of rows, and what can be computed from it."""

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal._normal_scores import LEVEL_TOLERANCE, log_normal_density, log_tails_from_z
from nearcal._saved import savable, saved_array
from nearcal.distributions._base import Distribution
from nearcal.distributions._interpolation import Interpolated
from nearcal.distributions._kernel_density import silverman_bandwidth, smoothed_z
from nearcal.distributions._samples import interpolate_draws, sort_weighted
from nearcal.recalibration._neighborhoods import Neighborhoods
from nearcal.recalibration._score_map import ScoreMap

QuantileRule = Literal["step", "interpolated", "predictive", "conservative"]
QUANTILE_RULES: tuple[QuantileRule, ...] = get_args(QuantileRule)
CONTINUOUS_RULES = ("interpolated", "predictive")

_P_ROUNDING = 1e-9  # more than cdf(ppf(p)) may differ from p


@savable
class Calibration:
    """The normal scores of the calibration set, their ranks, and what polish makes of recalibrated scores."""

    def __init__(self, z: FloatArray) -> None:
        self.z = z
        self.polish: ScoreMap | None = None
        order = np.argsort(z, kind="stable")
        self.sorted_z = z[order]
        self.ranks = np.empty(len(z), dtype=np.int32)
        self.ranks[order] = np.arange(len(z), dtype=np.int32)
        self.has_ties = bool((np.diff(self.sorted_z) == 0).any())

    def _to_saved(self) -> dict[str, Any]:
        return {"z": self.z}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        # a copy, writable as scores are after a fit: kernels are compiled for one kind of array
        return cls(saved_array(saved, "z", np.float64, (None,)).copy())

    def polished(self, polish: ScoreMap | None) -> "Calibration":
        """Return the same scores with polish."""
        shared = copy(self)
        shared.polish = polish
        return shared


class PairScores(Calibration):
    """The scores of the neighbours of a chunk, one a pair of row and neighbour, where rows do not share them.

    Put in order, which few statistics ask for, only when asked for.
    """

    def __init__(self, z: FloatArray, polish: ScoreMap | None) -> None:
        self.z = z
        self.polish = polish

    @cached_property
    def sorted_z(self) -> FloatArray:
        """The scores in increasing order."""
        return self._ordered.sorted_z

    @cached_property
    def ranks(self) -> NDArray[np.int32]:
        """The place of each score among all."""
        return self._ordered.ranks

    @cached_property
    def _ordered(self) -> Calibration:
        return Calibration(self.z)


class LocalSample:
    """Neighbourhoods of a chunk of rows with their base distributions.

    Rows without a neighbourhood keep their base distribution in every statistic. Neighbours that come with scores of
    their own are numbered as pairs: pair by pair they are a calibration set of the chunk alone.
    """

    def __init__(self, base: Distribution, neighborhoods: Neighborhoods, calibration: Calibration) -> None:
        self.base = base
        if neighborhoods.scores is not None:
            calibration = PairScores(neighborhoods.scores, calibration.polish)
            pairs = np.arange(len(neighborhoods.indices), dtype=np.int32)
            neighborhoods = replace(neighborhoods, indices=pairs)
        self.neighborhoods = neighborhoods
        self.calibration = calibration
        self.left_alone: IntArray = np.flatnonzero(neighborhoods.which < 0)

    # ---- moments ----------------------------------------------------------------------------------------------------

    def moments(
        self, location_scale: tuple[FloatArray, FloatArray, FloatArray] | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance; given (loc, scale, standard scores) no quantile function is called."""
        if location_scale is None:
            mean, variance = self._sample_moments()
        else:
            loc, scale, scores = location_scale
            standard_mean, standard_variance = self._score_moments(scores)
            mean, variance = loc + scale * standard_mean, scale**2 * standard_variance
        if len(self.left_alone):
            kept = self.base[self.left_alone]
            mean[self.left_alone], variance[self.left_alone] = kept.mean(), kept.var()
        return mean, variance

    def _score_moments(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        from nearcal._jit import _summary

        nb = self.neighborhoods
        mean, variance = _summary.weighted_moments(nb.indptr, nb.indices, nb.weights, scores)
        return nb.per_row(mean, 0.0), nb.per_row(variance, 1.0)

    def score_moments(self) -> FloatArray:
        """Return mean, variance and effective size of the scores of every row, shape (rows, 3)."""
        mean, variance = self._score_moments(self.calibration.z)
        return np.stack([mean, variance, self.effective_size()], axis=1)

    def _sample_moments(self) -> tuple[FloatArray, FloatArray]:
        from nearcal._jit import _chebyshev, _summary

        scores, weights = self.scores()
        # decided row by row: a row's result must not depend on the longest neighbourhood beside it
        many = (self._lengths() >= 2 * _chebyshev.NODES) & self.base._quantiles_are_costly
        mean, variance, settled = np.empty(len(many)), np.empty(len(many)), many.copy()
        if many.any():
            mean[many], variance[many], settled[many] = self._interpolated_moments(many, scores[many], weights[many])
        rest = np.flatnonzero(~settled)
        if len(rest):
            base = self.base if len(rest) == len(many) else self.base[rest]
            mean[rest], variance[rest] = _summary.row_moments(base._from_z(scores[rest]), weights[rest])
        return mean, variance

    def _interpolated_moments(
        self, rows: NDArray[np.bool_], scores: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        """Return mean, variance and success, inverting the cdf of each row at a few Chebyshev nodes only."""
        from nearcal._jit import _chebyshev

        low = np.min(np.where(weights > 0, scores, np.inf), axis=1)
        high = np.max(np.where(weights > 0, scores, -np.inf), axis=1)
        nodes = np.cos(np.pi * (np.arange(_chebyshev.NODES) + 0.5) / _chebyshev.NODES)
        at = ((high + low) / 2)[:, np.newaxis] + ((high - low) / 2)[:, np.newaxis] * nodes
        base = self.base if rows.all() else self.base[rows]
        return _chebyshev.interpolated_moments(base._from_z(at), low, high, scores, weights)

    def _lengths(self) -> IntArray:
        """Return the number of neighbours of each row; 0 for rows left alone."""
        return np.where(self.neighborhoods.which < 0, 0, np.diff(self.neighborhoods.indptr)[self.neighborhoods.which])

    def sorted_sample(
        self, location_scale: tuple[FloatArray, FloatArray, FloatArray] | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the weighted sample, every row in increasing order; rows left alone have weight zero throughout.

        Scores are sorted once a neighbourhood, not once a row: quantile functions are increasing.
        """
        nb = self.neighborhoods
        standard = self.calibration.z if location_scale is None else location_scale[2]
        weights = nb.padded(nb.weights, 0.0)
        scores = nb.padded(standard[nb.indices], 0.0)
        scores = np.where(weights > 0, scores, scores[:, :1])  # padding must not lie outside the sample
        order = np.argsort(scores, axis=1)
        scores = np.take_along_axis(scores, order, axis=1)[nb.which]
        weights = np.take_along_axis(weights, order, axis=1)[nb.which]
        weights[self.left_alone] = 0.0
        if location_scale is None:
            return self.base._from_z(scores), weights
        loc, scale, _ = location_scale
        return loc[:, np.newaxis] + scale[:, np.newaxis] * scores, weights

    def scores(self) -> tuple[FloatArray, FloatArray]:
        """Return the weighted normal scores as (rows, longest) arrays; rows left alone have weight zero throughout."""
        nb = self.neighborhoods
        scores = nb.padded(self.calibration.z[nb.indices], 0.0)[nb.which]
        weights = nb.padded(nb.weights, 0.0)[nb.which]
        weights[self.left_alone] = 0.0
        # where a neighbourhood is short, its padding must not lie outside the sample
        return np.where(weights > 0, scores, scores[:, :1]), weights

    # ---- distribution function and quantiles ------------------------------------------------------------------------

    def quantile_scores(self, p: FloatArray, rule: QuantileRule) -> FloatArray:
        """Return the normal scores of the quantiles at levels p of shape (rows, q)."""
        if rule in CONTINUOUS_RULES:
            z = self.curve(rule).from_z(ndtri(p))
        else:
            z = self._step_scores(p, conservative=rule == "conservative")
        z[self.left_alone] = ndtri(p[self.left_alone])
        return z

    def values_at(self, z: FloatArray, rule: QuantileRule) -> FloatArray:
        """Return the responses at normal scores z of shape (rows, q)."""
        scores = self.curve(rule).from_z(z) if rule in CONTINUOUS_RULES else self.quantile_scores(ndtr(z), rule)
        scores[self.left_alone] = z[self.left_alone]
        return self.base._from_z(scores)

    def _step_scores(self, p: FloatArray, *, conservative: bool) -> FloatArray:
        from nearcal._jit import _quantiles, _value_quantiles

        nb = self.neighborhoods
        levels, from_above = np.ascontiguousarray(p), np.zeros(p.shape, dtype=np.bool_)
        if conservative:
            own = nb.per_row(nb.self_weight, 0.0)[:, np.newaxis]
            from_above = p < 0.5
            levels = np.where(from_above, p - (1 - p) * own, p * (1 + own))
        if nb.scores is not None:
            return _value_quantiles.quantile_values(nb.indptr, nb.scores, nb.weights, nb.which, levels, from_above)
        if nb.is_everyone:
            ranks = _equally_weighted_ranks(levels, from_above, len(self.calibration.z))
        else:
            ranks = _quantiles.quantile_ranks(
                nb.indptr, nb.indices, nb.weights, self.calibration.ranks, nb.which, levels, from_above
            )
        return self.calibration.sorted_z[ranks]

    def curve(self, rule: QuantileRule) -> Interpolated:
        """Return the weighted scores of each row as a continuous distribution."""
        return self._interpolated if rule == "interpolated" else self._predictive

    @cached_property
    def _interpolated(self) -> Interpolated:
        return self._polished(interpolate_draws(*self._sorted_scores))

    @cached_property
    def _predictive(self) -> Interpolated:
        return self._polished(interpolate_draws(*self._sorted_scores, np.maximum(self.effective_size(), 1.0)))

    def _polished(self, curve: Interpolated) -> Interpolated:
        """Move all scores to what they turned out to be worth; both maps are straight between the knots of either."""
        polish = self.calibration.polish
        if polish is None:
            return curve
        more = np.tile(polish.before_knots, (len(curve.values), 1))
        scores = np.concatenate([polish.after(curve.scores), np.tile(polish.after_knots, (len(more), 1))], axis=1)
        values = np.concatenate([curve.values, curve.from_z(more)], axis=1)
        # both increase, so that pairs survive sorting
        return Interpolated(np.sort(scores, axis=1), np.sort(values, axis=1), normal_tails=True)

    @cached_property
    def _sorted_scores(self) -> tuple[FloatArray, FloatArray]:
        scores, weights = self.scores()
        weights[self.left_alone, 0] = 1.0  # any proper weights: these rows are replaced
        if scores.shape[1] == 1:  # interpolation wants two knots: one of weight zero, as if a longer row stood beside
            scores, weights = np.repeat(scores, 2, axis=1), np.pad(weights, ((0, 0), (0, 1)))
        return sort_weighted(scores, weights)

    def log_tails(self, y: FloatArray, rule: QuantileRule) -> tuple[FloatArray, FloatArray]:
        """Return log P(Y <= y) and log P(Y > y) for y of shape (rows, q)."""
        if rule in CONTINUOUS_RULES:
            lower, upper = log_tails_from_z(self.curve(rule).z(self.base._unbounded_z(y)))
        else:
            with np.errstate(divide="ignore"):
                lower, upper = (np.log(tail) for tail in self.step_tails(y))
        if len(self.left_alone):
            kept, at = self.base[self.left_alone], y[self.left_alone]
            lower[self.left_alone], upper[self.left_alone] = kept._logcdf(at), kept._logsf(at)
        return lower, upper

    def step_tails(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights of the sample at or below y and above y; meaningless for rows left alone."""
        from nearcal._jit import _summary

        nb = self.neighborhoods
        thresholds = self._count_not_above(y)
        if nb.is_everyone:
            n = len(self.calibration.z)
            return thresholds / n, (n - thresholds) / n
        below, above = _summary.weight_below(
            nb.indptr, nb.indices, nb.weights, self.calibration.ranks, nb.which, thresholds
        )
        # the heavier from the lighter: sums of weights are 1 only up to rounding
        return np.where(below > above, 1 - above, below), np.where(below > above, above, 1 - below)

    def _count_not_above(self, y: FloatArray) -> IntArray:
        """Count the calibration scores whose values F⁻¹(Φ(z)), as they are computed, are at most y.

        The score of y is rounded, so it only brackets the count; inside the bracket the values themselves decide.
        """
        scores = self.calibration.sorted_z
        z_below, z_above = (
            self.base._unbounded_z(np.where(np.isfinite(y), np.nextafter(y, towards), y))
            for towards in (-np.inf, np.inf)
        )
        low = np.searchsorted(scores, ndtri(np.maximum(ndtr(z_below) - _P_ROUNDING, 0)))
        high = np.searchsorted(scores, -ndtri(np.maximum(ndtr(-z_above) - _P_ROUNDING, 0)), side="right")
        while (low < high).any():
            rows = np.flatnonzero((low < high).any(axis=1))
            lo, hi = low[rows], high[rows]
            middle = (lo + hi) // 2
            is_in = self.base[rows]._from_z(scores[np.minimum(middle, len(scores) - 1)]) <= y[rows]
            low[rows] = np.where((lo < hi) & is_in, middle + 1, lo)
            high[rows] = np.where((lo < hi) & ~is_in, middle, hi)
        return low

    def bounded_z(self, y: FloatArray, rule: QuantileRule) -> FloatArray:
        """Return finite normal scores: a step distribution counts y at least half an effective draw from its ends."""
        if rule in CONTINUOUS_RULES:
            z = self.curve(rule).z(self.base._z(y))
        else:
            half_draw = (0.5 / np.maximum(self.effective_size(), 1.0))[:, np.newaxis]
            below, above = self.step_tails(y)
            lighter = np.minimum(below, above)
            z = np.copysign(ndtri(np.maximum(lighter, half_draw)), below - above)
        z[self.left_alone] = self.base._z(y)[self.left_alone]
        return z

    # ---- density ----------------------------------------------------------------------------------------------------

    def log_density(self, y: FloatArray) -> FloatArray:
        """Return the log of (kernel density of the scores at z(y)) · dz/dy for y of shape (rows, q)."""
        from nearcal._jit import _summary

        nb = self.neighborhoods
        z = self.base._density_z(y)
        log_base = self.base._logpdf(y)
        inside = np.isfinite(log_base) & np.isfinite(z)  # outside the support there is nothing to recalibrate
        at = np.where(inside, z, 0.0)
        log_kernel = _summary.log_density(
            nb.indptr, nb.indices, nb.weights, self.calibration.z, nb.which, at, self._bandwidth()
        )
        density = np.where(inside, log_kernel + log_base - log_normal_density(at), -np.inf)
        density[self.left_alone] = log_base[self.left_alone]
        return density

    def density_z(self, y: FloatArray) -> FloatArray:
        """Return the normal scores of the smoothed distribution function, whose slope is the density."""
        scores, weights = self.scores()
        z = self.base._density_z(y)
        smooth = smoothed_z(z, scores, weights, self._bandwidth())
        smooth[self.left_alone] = z[self.left_alone]
        return smooth

    def _bandwidth(self) -> FloatArray:
        mean, variance = self._score_moments(self.calibration.z)
        std = np.sqrt(variance)
        quartiles = self._step_scores(np.tile([0.25, 0.75], (len(self.base), 1)), conservative=False)
        # identical scores have no spread to learn a bandwidth from: the calibrated spread, 1, stands in
        std = np.where(std > 1e-12 * np.abs(mean), std, 1.0)  # their mean is rounded, so std may be 1e-16 and not 0
        size = np.maximum(self.effective_size(), 1.0)
        return silverman_bandwidth(std, quartiles[:, 1] - quartiles[:, 0], size, 0.0)

    # ---- description ------------------------------------------------------------------------------------------------

    def effective_size(self) -> FloatArray:
        """Return 1 / Σ w² of each row; 0 for rows left alone."""
        return self.neighborhoods.per_row(self.neighborhoods.effective_size, 0.0)

    def radius(self) -> FloatArray:
        """Return the distance u at which the weights vanish."""
        return self.neighborhoods.per_row(self.neighborhoods.bandwidth, np.nan)


def _equally_weighted_ranks(levels: FloatArray, greatest: NDArray[np.bool_], n: int) -> IntArray:
    """Return what the kernel ``quantile_ranks`` does for n points of weight 1/n, without looking at each."""
    least_rank = np.ceil(n * (levels - LEVEL_TOLERANCE)) - 1
    greatest_rank = np.floor(n * (levels + LEVEL_TOLERANCE))
    ranks = np.where(greatest, greatest_rank, np.where(levels >= 1, n - 1, least_rank))
    return np.clip(ranks, 0, n - 1).astype(np.intp)
