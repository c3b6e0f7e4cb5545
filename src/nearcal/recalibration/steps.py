"""Weighted scores as they are: the paper's weighted sample of a row's neighbours, and of all scores alike."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal._normal_scores import LEVEL_TOLERANCE
from nearcal._saved import check_fields, flag, instance, savable
from nearcal.distributions import Distribution, Normal
from nearcal.distributions.interpolation import power_of_two, sort_weighted, through_draws
from nearcal.distributions.quantile_series import quantile_values
from nearcal.recalibration.calibration_scores import CalibrationScores, PairScores
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.neighborhoods import Neighborhoods

_P_ROUNDING = 1e-9  # more than cdf(ppf(p)) may differ from p


class Steps:
    """Weighted scores as they are: the weighted empirical distribution of each row's neighbours.

    The neighbours' scores are those of the calibration set or, where corrections have moved them, one a pair of row and
    neighbour. Rows without a neighbourhood get numbers without a meaning.

    Parameters
    ----------
    neighborhoods : Neighborhoods
    calibration : CalibrationScores
    conservative : bool
        Whether the new point itself, with weight K(0), lies beyond every quantile: cumulated weights C become the
        median of ½, C / (1 + v) and (C + v) / (1 + v), with v the point's weight relative to the sum of all others.
        For equal weights the quantile at p is the ⌈(k + 1) p⌉-th smallest value above the median, as in split
        conformal prediction, bounded by the outermost value.
    """

    def __init__(
        self, neighborhoods: Neighborhoods, calibration: CalibrationScores, *, conservative: bool = False
    ) -> None:
        self.conservative = conservative
        self.neighborhoods, self.calibration = neighborhoods, calibration
        if neighborhoods.scores is not None:  # pair by pair they are a calibration set of the chunk alone
            self.calibration = PairScores(neighborhoods.scores)

    @property
    def _indices(self) -> NDArray[np.int32]:
        nb = self.neighborhoods
        return nb.indices if nb.scores is None else np.arange(len(nb.indices), dtype=np.int32)

    @property
    def _own_weight(self) -> FloatArray:
        """The weight v of the new point beside its neighbours, (rows, 1)."""
        return self.neighborhoods.per_row(self.neighborhoods.self_weight, 0.0)[:, np.newaxis]

    # ---- the weighted sample ----------------------------------------------------------------------------------------

    def weighted_scores(self) -> tuple[FloatArray, FloatArray]:
        """Return scores and weights as (rows, longest) tables; short rows end in copies of a score, of weight zero."""
        nb = self.neighborhoods
        own = self.calibration.z[self._indices]
        scores, weights = nb.padded(own, 0.0)[nb.which], nb.padded(nb.weights, 0.0)[nb.which]
        return np.where(weights > 0, scores, scores[:, :1]), weights

    @cached_property
    def sorted_scores(self) -> tuple[FloatArray, FloatArray]:
        """Scores in increasing order, and their weights; sorted once a neighbourhood, not once a row."""
        nb = self.neighborhoods
        weights = nb.padded(nb.weights, 0.0)
        scores = nb.padded(self.calibration.z[self._indices], 0.0)
        if scores.shape[1] == 1:  # a curve wants two knots: one of weight zero, as if a longer row stood beside
            scores, weights = np.repeat(scores, 2, axis=1), np.pad(weights, ((0, 0), (0, 1)))
        if nb.is_by_score and nb.scores is None:
            scores = _end_in_copies(scores, np.diff(nb.indptr))
        else:
            scores, weights = sort_weighted(np.where(weights > 0, scores, scores[:, :1]), weights)
        scores, weights = scores[nb.which], weights[nb.which]
        if self.conservative:
            below = as_if_beyond(np.minimum(np.cumsum(weights, axis=1), 1.0), self._own_weight)
            below[:, -1] = 1.0
            weights = np.diff(below, axis=1, prepend=0.0)
        return scores, weights

    def curve(self, *, predictive: bool) -> Curve:
        """Return the continuous distribution through these scores; predictive ones cover the next score as well."""
        scores, weights = self.sorted_scores
        alone = self.neighborhoods.which < 0
        if alone.any():  # any proper weights: these rows are replaced
            weights = weights.copy()
            weights[alone, 0] = 1.0
        size = np.maximum(self.effective_size(), 1.0) if predictive else None
        return Curve(through_draws(scores, weights, size))

    def effective_size(self) -> FloatArray:
        """Return 1 / Σ w² of each row; 0 for rows without a neighbourhood."""
        return self.neighborhoods.per_row(self.neighborhoods.effective_size, 0.0)

    def radius(self) -> FloatArray:
        """Return the distance at which the weights vanish; NaN for rows without a neighbourhood."""
        return self.neighborhoods.per_row(self.neighborhoods.radius, np.nan)

    def score_moments(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the scores of each row."""
        from nearcal.kernels import summary

        nb = self.neighborhoods
        mean, variance = summary.weighted_moments(nb.indptr, self._indices, nb.weights, self.calibration.z)
        return nb.per_row(mean, 0.0), nb.per_row(variance, 1.0)

    # ---- statistics -------------------------------------------------------------------------------------------------

    def moments(self, base: Distribution) -> tuple[FloatArray, FloatArray]:
        """Return Σ w y and the root of Σ w (y - mean)² of each row."""
        if isinstance(base, Normal) and not self.conservative:
            return _normal_moments(base, *self.score_moments())
        scores, weights = self.sorted_scores if self.conservative else self.weighted_scores()
        return _sample_moments(quantile_values(base, scores, self.neighborhoods.lengths), weights)

    def tail_powers(self, base: Distribution) -> FloatArray:
        """Return infinity: a sample ends."""
        return np.full((len(base), 2), np.inf)

    def quantiles(self, base: Distribution, p: FloatArray) -> FloatArray:
        """Return the least values whose cumulated weight reaches p."""
        return base._from_z(self._score_quantiles(p))

    def values(self, base: Distribution, z: FloatArray) -> FloatArray:
        """Return the quantiles at levels Φ(z)."""
        return self.quantiles(base, ndtr(z))

    def _score_quantiles(self, p: FloatArray) -> FloatArray:
        from nearcal.kernels import quantiles

        nb, levels = self.neighborhoods, np.ascontiguousarray(p)
        if self.conservative:
            own = self._own_weight
            levels = np.where(p < 0.5, p - (1 - p) * own, p * (1 + own))
        if nb.scores is not None:
            return quantiles.weighted_quantiles(nb.indptr, self._indices, nb.weights, nb.scores, nb.which, levels)
        ranks = quantiles.weighted_quantiles(
            nb.indptr, nb.indices, nb.weights, self.calibration.ranks, nb.which, levels
        )
        return self.calibration.sorted_z[ranks]

    def log_tails(self, base: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the logarithms of the weights at or below y and above y."""
        with np.errstate(divide="ignore"):
            below, above = (np.log(tail) for tail in self._tails(base, y))
        return below, above

    def finite_scores(self, base: Distribution, y: FloatArray) -> FloatArray:
        """Return scores that count y at least half an effective draw from the ends."""
        half_draw = (0.5 / np.maximum(self.effective_size(), 1.0))[:, np.newaxis]
        below, above = self._tails(base, y)
        return np.copysign(ndtri(np.maximum(np.minimum(below, above), half_draw)), below - above)

    def log_density(self, base: Distribution, y: FloatArray) -> FloatArray:
        """Return minus infinity: there is no density, and nobody asks; rows left to their base have one."""
        return np.full(y.shape, -np.inf)

    def _tails(self, base: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights at or below y and above y, the heavier as 1 less the lighter: sums of weights round."""
        from nearcal.kernels import summary

        nb = self.neighborhoods
        below, above = summary.weight_below(
            nb.indptr, self._indices, nb.weights, self.calibration.ranks, nb.which, self._count_not_above(base, y)
        )
        below, above = np.where(below > above, 1 - above, below), np.where(below > above, above, 1 - below)
        if self.conservative:
            own = self._own_weight
            return as_if_beyond(below, own, above), as_if_beyond(above, own, below)
        return below, above

    def _count_not_above(self, base: Distribution, y: FloatArray) -> IntArray:
        return count_not_above(self.calibration.sorted_z, base, y)


@savable
class EqualSteps:
    """All calibration scores, equally weighted, for every row alike; nothing is looked at row by row."""

    def __init__(self, calibration: CalibrationScores, *, conservative: bool = False) -> None:
        self.calibration, self.conservative = calibration, conservative
        self.size = len(calibration)

    def _to_saved(self) -> dict[str, Any]:
        return {"calibration": self.calibration, "conservative": self.conservative}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        return cls(**check_fields(saved, {"calibration": instance(CalibrationScores), "conservative": flag}))

    @cached_property
    def sorted_scores(self) -> tuple[FloatArray, FloatArray]:
        """Scores in increasing order and their weights, (1, n)."""
        below = np.arange(1, self.size + 1) / self.size
        if self.conservative:
            below = as_if_beyond(below, np.full(1, 1 / self.size))
            below[-1] = 1.0
        weights = np.diff(below, prepend=0.0) if self.conservative else np.full(self.size, 1 / self.size)
        return self.calibration.sorted_z[np.newaxis], weights[np.newaxis]

    def curve(self, *, predictive: bool) -> Curve:
        """Return the continuous distribution through these scores."""
        scores, weights = self.sorted_scores
        if self.size == 1:
            scores, weights = np.repeat(scores, 2, axis=1), np.array([[1.0, 0.0]])
        size = np.full(1, self.calibration.effective_size) if predictive else None
        return Curve(through_draws(scores, weights, size), is_shared=True)

    def moments(self, base: Distribution) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the values at all scores."""
        from nearcal.kernels import summary

        scores, weights = self.sorted_scores
        if isinstance(base, Normal):
            mean, variance = (moment[0] for moment in summary.row_moments(scores, weights))
            return _normal_moments(base, mean, variance)
        values = quantile_values(base, np.tile(scores, (len(base), 1)))
        return _sample_moments(values, np.tile(weights, (len(base), 1)))

    def tail_powers(self, base: Distribution) -> FloatArray:
        """Return infinity: a sample ends."""
        return np.full((len(base), 2), np.inf)

    def quantiles(self, base: Distribution, p: FloatArray) -> FloatArray:
        """Return the least values whose cumulated weight reaches p."""
        return base._from_z(self.score_quantiles(p))

    def score_quantiles(self, p: FloatArray) -> FloatArray:
        """Return the least scores whose cumulated weight reaches p."""
        levels = p
        if self.conservative:
            levels = np.where(p < 0.5, p - (1 - p) / self.size, p * (1 + 1 / self.size))
        ranks = np.where(levels >= 1, self.size - 1, np.ceil(self.size * (levels - LEVEL_TOLERANCE)) - 1)
        return self.calibration.sorted_z[np.clip(ranks, 0, self.size - 1).astype(np.intp)]

    def values(self, base: Distribution, z: FloatArray) -> FloatArray:
        """Return the quantiles at levels Φ(z)."""
        return self.quantiles(base, ndtr(z))

    def log_tails(self, base: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the logarithms of the shares of values at or below y and above y."""
        with np.errstate(divide="ignore"):
            below, above = (np.log(tail) for tail in self._tails(base, y))
        return below, above

    def finite_scores(self, base: Distribution, y: FloatArray) -> FloatArray:
        """Return scores that count y at least half a draw from the ends."""
        below, above = self._tails(base, y)
        return np.copysign(ndtri(np.maximum(np.minimum(below, above), 0.5 / self.size)), below - above)

    def log_density(self, base: Distribution, y: FloatArray) -> FloatArray:
        """Return minus infinity: there is no density, and nobody asks."""
        return np.full(y.shape, -np.inf)

    def _tails(self, base: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        count = count_not_above(self.calibration.sorted_z, base, y)
        below, above = count / self.size, (self.size - count) / self.size
        if self.conservative:
            own = np.full(1, 1 / self.size)
            return as_if_beyond(below, own), as_if_beyond(above, own)
        return below, above


def _end_in_copies(table: FloatArray, lengths: IntArray) -> FloatArray:
    """Return rows of which those shorter than the table end in copies of their last entry."""
    if (lengths >= table.shape[1]).all():
        return table
    places = np.minimum(np.arange(table.shape[1]), np.maximum(lengths, 1)[:, np.newaxis] - 1)
    return np.take_along_axis(table, places, axis=1)


def _normal_moments(base: Normal, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of loc + scale · Z, given mean and variance of Z."""
    with np.errstate(over="ignore"):  # what is too large is infinite
        return base.loc + base.scale * mean, base.scale * np.sqrt(variance)


def _sample_moments(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of weighted values; the latter infinite where a value overflows."""
    from nearcal.kernels import summary

    largest = np.where(weights != 0, np.abs(values), 0.0).max(axis=1)
    unit = power_of_two(largest)  # so that squares neither overflow nor underflow
    mean, variance = summary.row_moments(values / unit[:, np.newaxis], weights)
    return unit * mean, np.where(np.isfinite(largest), unit * np.sqrt(variance), np.inf)


def count_not_above(sorted_z: FloatArray, base: Distribution, y: FloatArray) -> IntArray:
    """Count the scores whose values F⁻¹(Φ(z)), as they are computed, are at most y, for y of shape (rows, q).

    The score of y is rounded, so it only brackets the count; inside the bracket the values themselves decide.
    """
    z_below, z_above = (
        base._unbounded_z(np.where(np.isfinite(y), np.nextafter(y, towards), y)) for towards in (-np.inf, np.inf)
    )
    low = np.searchsorted(sorted_z, ndtri(np.maximum(ndtr(z_below) - _P_ROUNDING, 0)))
    high = np.searchsorted(sorted_z, -ndtri(np.maximum(ndtr(-z_above) - _P_ROUNDING, 0)), side="right")
    while (low < high).any():
        rows = np.flatnonzero((low < high).any(axis=1))
        lo, hi = low[rows], high[rows]
        middle = (lo + hi) // 2
        is_in = base[rows]._from_z(sorted_z[np.minimum(middle, len(sorted_z) - 1)]) <= y[rows]
        low[rows] = np.where((lo < hi) & is_in, middle + 1, lo)
        high[rows] = np.where((lo < hi) & ~is_in, middle, hi)
    return low


def as_if_beyond(below: FloatArray, own: FloatArray, above: FloatArray | None = None) -> FloatArray:
    """Return cumulated weights as if the new point, of weight ``own``, lay beyond each; 0 and 1 stay.

    A weight below may round to 1 where there is still some above: where that is known, it decides.
    """
    moved = np.clip(0.5, below / (1 + own), (below + own) / (1 + own))
    is_all = below >= 1 if above is None else above <= 0
    return np.where(below <= 0, 0.0, np.where(is_all, 1.0, moved))
