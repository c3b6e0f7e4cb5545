"""Predictions given as draws: ensembles, MC dropout, posterior samples."""

from typing import Any, Self

import numpy as np
from scipy.special import ndtr, ndtri

from nearcal._arrays import FloatArray, IntArray, as_columns, check_choice
from nearcal._normal_scores import LEVEL_TOLERANCE
from nearcal.distributions._mixture import normalise_weights
from nearcal.distributions._quantiles import TAILS, CurveDistribution, Tails, require_spread
from nearcal.distributions.interpolation import (
    Interpolated,
    count_not_above,
    normal_masses,
    sort_weighted,
    through_draws,
    weighted_moments,
)


class Samples(CurveDistribution):
    """Distributions given by draws, equally weighted or not.

    Parameters
    ----------
    draws : array_like of shape (n, s)
        Row i holds s draws of prediction i.
    weights : array_like of shape (s,) or (n, s), optional
        Weights of the draws, not negative, normalised to sum 1 in every row. None weighs them equally.
    tails : {"normal", "empirical"}
        "normal" (at least two distinct draws a row): a continuous distribution. Some 2 √s of the sorted draws, the
        outermost among them, are quantiles at the middle of their share of probability (level (i - ½)/s without
        weights), joined by straight lines on the scale of normal scores and continued beyond the outermost draws as
        Normal tails with the slope of the line from the middle of the row to its outermost draw. Scores are finite, so
        recalibration can widen an under-dispersed ensemble.
        "empirical": the plain weighted empirical distribution, as in the paper. No probability lies beyond the
        outermost draws, so recalibration can shift and reweigh an ensemble but never widen it; for scores,
        observations outside count as half an effective draw from the end.

    Notes
    -----
    All statistics are those of the one distribution that ``tails`` says: with "normal" the mean is that of the
    continuous distribution, close to that of the draws, and the density is the slope of its distribution function. With
    "empirical" moments and scores are those of the weighted draws, and there is no density.

    Examples
    --------
    >>> import nearcal as nc
    >>> ensemble = nc.Samples([[1.0, 2.0, 4.0]])
    >>> ensemble.median(), ensemble.mean().round(3)
    (array([2.]), array([2.326]))
    >>> nc.Samples([[1.0, 2.0, 4.0]], tails="empirical").ppf([0.3, 0.4, 1.0])
    array([[1., 2., 4.]])
    """

    draws: FloatArray
    weights: FloatArray
    tails: Tails
    curve: "Interpolated | _Steps"

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
        curve = through_draws(draws, weights) if tails == "normal" else _Steps(draws, weights)
        self._store(draws=draws, weights=weights, tails=tails, curve=curve, has_density=tails == "normal")
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
        return self._with(draws=self.draws[rows], weights=weights, curve=self.curve.take(rows))

    def _resolution(self) -> FloatArray:
        share = np.sum(self.weights**2, axis=1) if self.tails == "empirical" else np.zeros(1)
        return np.broadcast_to(share, len(self))


class _Steps:
    """The weighted empirical distribution of sorted draws, with the methods of ``Interpolated``."""

    def __init__(self, draws: FloatArray, weights: FloatArray) -> None:
        self.draws = draws
        self.weights = weights
        self.below = np.cumsum(weights, axis=1)
        self.above = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
        self.half_draw = 0.5 * np.sum(weights**2, axis=1, keepdims=True)  # half of 1 / effective size

    def take(self, rows: IntArray) -> "_Steps":
        return _Steps(self.draws[rows], self.weights if len(self.weights) == 1 else self.weights[rows])

    def z(self, y: FloatArray) -> FloatArray:
        below, above = self._tails(y)
        return np.where(below < above, ndtri(below), -ndtri(above))

    def bounded_z(self, y: FloatArray) -> FloatArray:
        below, above = self._tails(y)
        lighter = np.maximum(np.minimum(below, above), self.half_draw)
        return np.where(below < above, ndtri(lighter), -ndtri(lighter))

    def log_tails(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        with np.errstate(divide="ignore"):
            below, above = (np.log(tail) for tail in self._tails(y))
        return below, above

    def logpdf(self, y: FloatArray) -> FloatArray:
        """Return minus infinity: there is no density, and ``Samples`` does not ask."""
        return np.full(y.shape, -np.inf)

    log_slope = logpdf

    def from_z(self, z: FloatArray) -> FloatArray:
        """Return the least draws that have reached Φ(z): by the weight up to them, or in the upper half above them."""
        z = np.broadcast_to(z, (len(self.draws), z.shape[1]))
        s = self.draws.shape[1]
        from_below = count_not_above(self.below, ndtr(z) * (1 - LEVEL_TOLERANCE))
        # the weight above draw i is that from draw i + 1 on; how many draws have more than Φ(-z) above them?
        from_above = s - 1 - count_not_above(self.above[:, :0:-1], ndtr(-z) * (1 + LEVEL_TOLERANCE))
        index = np.where(z < 0, from_below, from_above)
        return np.take_along_axis(self.draws, np.minimum(index, s - 1), axis=1)

    def at_scores_of(self, scores: Interpolated) -> "_Steps":
        """Return the same draws, weighted by the probability of the scores at which each is read."""
        next_above = np.pad(self.above[:, 1:], ((0, 0), (0, 1)))
        ends = np.where(self.below < next_above, ndtri(self.below), -ndtri(next_above))
        after = scores.z(np.broadcast_to(ends, self.draws.shape))
        return _Steps(self.draws, normal_masses(np.pad(after, ((0, 0), (1, 0)), constant_values=-np.inf)))

    def moments(self) -> tuple[FloatArray, FloatArray]:
        return weighted_moments(self.draws, self.weights)

    def _tails(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights at or below y and above it, the heavier as 1 less the lighter."""
        s = self.draws.shape[1]
        count = count_not_above(self.draws, y)
        below, above = (np.broadcast_to(table, self.draws.shape) for table in (self.below, self.above))
        lower = np.where(count == 0, 0.0, np.take_along_axis(below, np.maximum(count - 1, 0), axis=1))
        upper = np.where(count == s, 0.0, np.take_along_axis(above, np.minimum(count, s - 1), axis=1))
        return np.where(lower > upper, 1 - upper, lower), np.where(lower > upper, upper, 1 - lower)
