"""Predictions given as draws: ensembles, MC dropout, posterior samples."""

from typing import Any, Self

import numpy as np
from scipy.special import ndtr, ndtri

from nearcal._arrays import FloatArray, IntArray, as_columns, check_choice
from nearcal._normal_scores import LEVEL_TOLERANCE, log_tails_from_z
from nearcal.distributions._base import Distribution
from nearcal.distributions._interpolation import Interpolated, count_not_above
from nearcal.distributions._kernel_density import silverman_bandwidth, smoothed_log_density, smoothed_z
from nearcal.distributions._mixture import normalise_weights
from nearcal.distributions._quantiles import TAILS, Tails, require_spread


class Samples(Distribution):
    """Distributions given by draws, equally weighted or not.

    Parameters
    ----------
    draws : array_like of shape (n, s)
        Row i holds s draws of prediction i.
    weights : array_like of shape (s,) or (n, s), optional
        Weights of the draws, not negative, normalised to sum 1 in every row. None weighs them equally.
    tails : {"normal", "empirical"}
        "normal" (at least two distinct draws a row): the sorted draws are quantiles at the middle of their share of
        probability (level (i - ½)/s without weights), joined by straight lines on the scale of normal scores and
        continued beyond the outermost draws as Normal tails with the slope of the line from the middle of the row to
        its outermost draw. Scores are finite, so recalibration can widen an under-dispersed ensemble.
        "empirical": the plain weighted empirical distribution, as in the paper. No probability lies beyond the
        outermost draws, so recalibration can shift and reweigh an ensemble but never widen it; for scores,
        observations outside count as half an effective draw from the end.

    Notes
    -----
    ``mean`` and ``var`` are those of the weighted draws. The density is a Gaussian kernel estimate with Silverman's
    bandwidth (the derivative of an interpolated distribution function would be all spikes).

    Examples
    --------
    >>> import nearcal as nc
    >>> ensemble = nc.Samples([[1.0, 2.0, 4.0]])
    >>> ensemble.median(), ensemble.mean().round(3)
    (array([2.]), array([2.333]))
    >>> nc.Samples([[1.0, 2.0, 4.0]], tails="empirical").ppf([0.3, 0.4, 1.0])
    array([[1., 2., 4.]])
    """

    draws: FloatArray
    weights: FloatArray
    tails: Tails
    _curve: "Interpolated | _Steps"

    def __init__(self, draws: Any, weights: Any = None, tails: Tails = "normal") -> None:
        check_choice(tails, TAILS, "tails")
        draws = as_columns(draws, "draws")
        n, s = draws.shape
        if weights is None:
            draws, weights = np.sort(draws, axis=1), np.full((1, s), 1 / s)
        else:
            draws, weights = sort_weighted(draws, normalise_weights(weights, n, s, "draws"))
        if tails == "normal":
            require_spread(draws, "draws")
        curve = interpolate_draws(draws, weights) if tails == "normal" else _Steps(draws, weights)
        self._store(draws=draws, weights=weights, tails=tails, _curve=curve)
        # conservative: a row with two equal draws has an atom
        self._store(is_continuous=isinstance(curve, Interpolated) and not curve.has_atoms())

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.draws)

    @property
    def _values_per_row(self) -> int:
        return self.draws.shape[1]

    def _rows(self, rows: IntArray) -> Self:
        weights = self.weights if len(self.weights) == 1 else self.weights[rows]
        return self._with(draws=self.draws[rows], weights=weights, _curve=self._curve.take(rows))

    def _logcdf(self, y: FloatArray) -> FloatArray:
        return log_tails_from_z(self._curve.z(y))[0]

    def _logsf(self, y: FloatArray) -> FloatArray:
        return log_tails_from_z(self._curve.z(y))[1]

    def _z(self, y: FloatArray) -> FloatArray:
        return self._curve.bounded_z(y)

    def _unbounded_z(self, y: FloatArray) -> FloatArray:
        return self._curve.z(y)

    def _from_z(self, z: FloatArray) -> FloatArray:
        return self._curve.from_z(z)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return smoothed_log_density(y, self.draws, self.weights, self._bandwidth())

    def _density_z(self, y: FloatArray) -> FloatArray:
        return smoothed_z(y, self.draws, self.weights, self._bandwidth())

    def _bandwidth(self) -> FloatArray:
        quartiles = self.ppf([0.25, 0.75])
        effective = 1 / np.sum(self.weights**2, axis=1)
        # a row of equal draws has no spread: a sliver keeps its density finite
        sliver = np.spacing(np.abs(self.draws).max(axis=1))
        return silverman_bandwidth(self.std(), quartiles[:, 1] - quartiles[:, 0], effective, sliver)

    def _resolution(self) -> FloatArray:
        share = np.sum(self.weights**2, axis=1) if self.tails == "empirical" else np.zeros(1)
        return np.broadcast_to(share, len(self))

    def mean(self) -> FloatArray:
        """Return the weighted mean of the draws."""
        return (self.weights * self.draws).sum(axis=1)

    def var(self) -> FloatArray:
        """Return the weighted variance of the draws, Σ w (y - mean)²."""
        return (self.weights * (self.draws - self.mean()[:, np.newaxis]) ** 2).sum(axis=1)


class _Steps:
    """The weighted empirical distribution of sorted draws, with the methods of ``Interpolated``."""

    def __init__(self, draws: FloatArray, weights: FloatArray) -> None:
        self.draws = draws
        self.weights = weights
        self.below = np.cumsum(weights, axis=1)
        self.half_draw = 0.5 * np.sum(weights**2, axis=1, keepdims=True)  # half of 1 / effective size

    def take(self, rows: IntArray) -> "_Steps":
        return _Steps(self.draws[rows], self.weights if len(self.weights) == 1 else self.weights[rows])

    def z(self, y: FloatArray) -> FloatArray:
        return ndtri(self._cdf(y))

    def bounded_z(self, y: FloatArray) -> FloatArray:
        return ndtri(np.clip(self._cdf(y), self.half_draw, 1 - self.half_draw))

    def from_z(self, z: FloatArray) -> FloatArray:
        reach = np.broadcast_to(ndtr(z) - LEVEL_TOLERANCE, (len(self.draws), z.shape[1]))
        index = np.minimum(count_not_above(self.below, reach), self.draws.shape[1] - 1)
        return np.take_along_axis(self.draws, index, axis=1)

    def _cdf(self, y: FloatArray) -> FloatArray:
        count = count_not_above(self.draws, y)
        below = np.broadcast_to(self.below, self.draws.shape)
        reached = np.take_along_axis(below, np.maximum(count - 1, 0), axis=1)
        return np.where(count == 0, 0.0, np.where(count == self.draws.shape[1], 1.0, np.minimum(reached, 1.0)))


def sort_weighted(draws: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sort draws with their weights; draws of weight zero become copies of one that counts."""
    order = np.argsort(draws, axis=1, kind="stable")
    draws, weights = np.take_along_axis(draws, order, axis=1), np.take_along_axis(weights, order, axis=1)
    return np.take_along_axis(draws, _last_that_counts(weights), axis=1), weights


def _last_that_counts(weights: FloatArray) -> IntArray:
    """Return for each place the last place up to it of positive weight, or the first such of the row."""
    counts = weights > 0
    last = np.maximum.accumulate(np.where(counts, np.arange(weights.shape[1]), -1), axis=1)
    return np.where(last < 0, counts.argmax(axis=1)[:, np.newaxis], last)


def interpolate_draws(draws: FloatArray, weights: FloatArray, sample_size: FloatArray | None = None) -> Interpolated:
    """Place each sorted draw at the middle of its share of probability, measured from the nearer end.

    Given the (effective) size n of each row's sample, the i-th of n equal draws is placed at i / (n + 1), where one
    more draw falls below it with that probability, instead of at (i - ½) / n.
    """
    below = np.cumsum(weights, axis=1) - weights / 2
    above = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1] - weights / 2
    below, above = (np.take_along_axis(share, _last_that_counts(weights), axis=1) for share in (below, above))
    if sample_size is not None:
        n = sample_size[:, np.newaxis]
        below, above = (n * below + 0.5) / (n + 1), (n * above + 0.5) / (n + 1)
    scores = np.where(below < above, ndtri(below), -ndtri(above))
    return Interpolated(scores, draws, normal_tails=True)
