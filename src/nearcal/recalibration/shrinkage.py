"""Shrinkage: few neighbours are blended with all, and all with the model, by evidence."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal._sample_weights import average
from nearcal._saved import number, savable
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.corrections import Correction, LearntCorrection
from nearcal.recalibration.neighborhoods import Neighborhoods
from nearcal.space import View

if TYPE_CHECKING:
    from nearcal.recalibration.leave_one_out import LeaveOneOut

_MOST_SHRUNK = 2000  # points whose neighbourhoods tell how much true ones vary


@savable
@dataclass(frozen=True)
class Shrinkage(Correction):
    """Blend what few neighbours say with what all say, and that with what the model says, by evidence.

    Of a neighbourhood of effective size n whose scores have mean m and variance v, the mean is drawn to the mean M of
    all scores by 1 - τ² / (τ² + v / n), and log √v to that of all scores by 1 - ω² / (ω² + 1 / (2n)): the
    empirical-Bayes rule, since m has the variance v / n and log √v about 1 / (2n). τ² and ω² are the variances of true
    local means and log-spreads: what those of calibration points, each among the others, vary more than chance would
    make them. M and the spread of all scores are drawn to 0 and 1, where the model is right, likewise. It steadies
    small neighbourhoods of a model that is nearly right, and takes a little from those of a model that is badly wrong.
    """

    def learn(self, left_out: "LeaveOneOut", view: View) -> "LearntShrinkage":
        """Learn from all scores, and from the neighbourhoods of some calibration points among the others."""
        z, weights = left_out.calibration.z, left_out.calibration.weights
        moments = np.full((len(z), 3), np.nan)
        if len(z) > 1:
            some = np.sort(np.random.default_rng(0).permutation(len(z))[:_MOST_SHRUNK])
            left_out.gather(
                lambda steps, rows: np.stack([*steps.score_moments(), steps.effective_size()], axis=1), moments, some
            )
        known = ~np.isnan(moments).any(axis=1)
        mean, variance, size = moments[known].T
        share = None if weights is None else weights.relative[known]
        variance = _unbiased(variance, size)
        center, log_spread = _overall(left_out.calibration)
        if len(mean) < 2:
            return LearntShrinkage(center, log_spread, np.inf, np.inf)
        varies = variance > 0
        log_spreads = 0.5 * np.log(variance[varies])
        with np.errstate(over="ignore"):  # an infinite variance: nothing is drawn anywhere
            squares = (mean - center) ** 2
        return LearntShrinkage(
            center,
            log_spread,
            _excess(squares, variance / np.maximum(size, 1.0), share),
            _excess(
                (log_spreads - log_spread) ** 2,
                0.5 / np.maximum(size[varies], 1.0),
                None if share is None else share[varies],
            )
            if varies.any()
            else np.inf,
        )


@savable(
    mean=number(),
    log_spread=number(),
    mean_variance=number(0.0, finite=False),
    log_spread_variance=number(0.0, finite=False),
)
@dataclass(frozen=True)
class LearntShrinkage(LearntCorrection):
    """Where local means and log-spreads are drawn to, and the variances of the true ones around it."""

    mean: float
    log_spread: float
    mean_variance: float
    log_spread_variance: float

    moves_scores = True

    def move(
        self, near: Neighborhoods, scores: FloatArray, points: FloatArray, own: IntArray | None = None
    ) -> FloatArray:
        """Move and stretch the scores of each neighbourhood."""
        from nearcal.kernels import summary

        pairs = np.arange(len(scores), dtype=np.int32)
        mean, variance = summary.weighted_moments(near.indptr, pairs, near.weights, scores)
        size = near.effective_size
        variance = _unbiased(variance, size)
        trust = _trust(self.mean_variance, variance / np.maximum(size, 1.0))
        center = self.mean + trust * (mean - self.mean)
        distrust = 1 - _trust(self.log_spread_variance, 0.5 / np.maximum(size, 1.0))
        log_spread = 0.5 * np.log(np.where(variance > 0, variance, np.exp(2 * self.log_spread)))
        apart = self.log_spread - log_spread
        stretch = np.exp(np.multiply(distrust, apart, out=np.zeros_like(apart), where=distrust > 0))
        # all points together, a thin row's stand-in, are no neighbourhood
        local = np.isfinite(near.radius)
        center, stretch = np.where(local, center, mean), np.where(local, stretch, 1.0)
        lengths = np.diff(near.indptr)
        mean, center, stretch = (np.repeat(values, lengths) for values in (mean, center, stretch))
        return center + stretch * (scores - mean)


def _unbiased(variance: FloatArray, size: FloatArray) -> FloatArray:
    """Return variances of weighted samples made up for the mean being their own."""
    return variance * size / np.maximum(size - 1, 1.0)


def _overall(calibration: CalibrationScores) -> tuple[float, float]:
    """Return the mean and log-spread of all scores, drawn towards those of a model that is right."""
    z, weights, n = calibration.z, calibration.weights, calibration.effective_size
    mean = average(z, weights)
    variance = float(z.var()) if weights is None else average((z - mean) ** 2, weights)
    if len(z) < 2 or not variance > 0:
        return mean, 0.0
    log_spread = 0.5 * float(np.log(variance))
    return mean * _share_kept(mean, variance / n), log_spread * _share_kept(log_spread, 0.5 / n)


def _share_kept(estimate: float, error_variance: float) -> float:
    return max(1 - error_variance / estimate**2, 0.0) if estimate else 0.0


def _excess(squares: FloatArray, expected: FloatArray, weights: FloatArray | None) -> float:
    if not (np.isfinite(squares).all() and np.isfinite(expected).all()):
        return np.inf
    if weights is not None:
        return max(float(np.average(squares - expected, weights=weights)), 0.0)
    return max(float(squares.mean() - expected.mean()), 0.0)


def _trust(variance: float, error_variance: FloatArray) -> FloatArray:
    """Return variance / (variance + error variance); 1 where nothing is uncertain or nothing was learnt."""
    if np.isinf(variance):
        return np.ones_like(error_variance)
    total = variance + error_variance
    return np.divide(variance, total, out=np.ones_like(total), where=total > 0)
