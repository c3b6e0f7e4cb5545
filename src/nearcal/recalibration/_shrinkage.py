"""Shrinkage: what few neighbours say is blended with what all say, and that with what the model says, by evidence.

The location and spread of the scores of a neighbourhood are estimates: of n scores of variance v, the mean has the
variance v / n and the logarithm of the standard deviation about 1 / (2n). They are drawn towards those of all scores by
the empirical-Bayes rule: with τ² the variance of true local means, a local mean is trusted by τ² / (τ² + v / n), and so
with log-spreads. τ² is what the local means of calibration points, each among the others, vary more than chance would
make them. The location and spread of all scores are in the same way drawn towards 0 and 1, where the model is right.
"""

from dataclasses import dataclass, replace

import numpy as np

from nearcal._arrays import FloatArray
from nearcal._saved import number, savable
from nearcal.recalibration._neighborhoods import Neighborhoods


@savable(
    mean=number(),
    log_spread=number(),
    mean_variance=number(0.0, finite=False),
    log_spread_variance=number(0.0, finite=False),
)
@dataclass(frozen=True)
class Shrinkage:
    """Where local means and log-spreads are drawn to, and the variances of the true ones around it."""

    mean: float
    log_spread: float
    mean_variance: float
    log_spread_variance: float

    def move(self, found: Neighborhoods, z: FloatArray) -> Neighborhoods:
        """Return the neighbourhoods with the scores of neighbours moved and stretched."""
        from nearcal._jit import _summary

        scores = z[found.indices] if found.scores is None else found.scores
        pairs = np.arange(len(scores), dtype=np.int32)
        mean, variance = _summary.weighted_moments(found.indptr, pairs, found.weights, scores)
        size = found.effective_size
        variance = _unbiased(variance, size)
        trust = _trust(self.mean_variance, variance / np.maximum(size, 1.0))
        center = self.mean + trust * (mean - self.mean)
        distrust = 1 - _trust(self.log_spread_variance, 0.5 / np.maximum(size, 1.0))
        log_spread = 0.5 * np.log(np.where(variance > 0, variance, np.exp(2 * self.log_spread)))
        stretch = np.exp(distrust * (self.log_spread - log_spread))
        # all points together, a thin row's stand-in, are no neighbourhood
        local = np.isfinite(found.bandwidth)
        center, stretch = np.where(local, center, mean), np.where(local, stretch, 1.0)
        lengths = np.diff(found.indptr)
        mean, center, stretch = (np.repeat(values, lengths) for values in (mean, center, stretch))
        return replace(found, scores=center + stretch * (scores - mean))


def learn_shrinkage(z: FloatArray, moments: FloatArray) -> Shrinkage:
    """Learn from all scores and from the mean, variance and effective size of each point's neighbours, shape (n, 3).

    Points of which nothing is known have NaN.
    """
    mean, variance, size = moments[~np.isnan(moments).any(axis=1)].T
    variance = _unbiased(variance, size)
    center, log_spread = _overall(z)
    if len(mean) < 2:
        return Shrinkage(center, log_spread, np.inf, np.inf)
    known = variance > 0
    log_spreads = 0.5 * np.log(variance[known])
    return Shrinkage(
        center,
        log_spread,
        _excess((mean - center) ** 2, variance / np.maximum(size, 1.0)),
        _excess((log_spreads - log_spread) ** 2, 0.5 / np.maximum(size[known], 1.0)) if known.any() else np.inf,
    )


def _unbiased(variance: FloatArray, size: FloatArray) -> FloatArray:
    """Return variances of weighted samples made up for the mean being their own."""
    return variance * size / np.maximum(size - 1, 1.0)


def _overall(z: FloatArray) -> tuple[float, float]:
    """Return the mean and log-spread of all scores, drawn towards those of a model that is right."""
    n, mean, variance = len(z), float(z.mean()), float(z.var())
    if n < 2 or not variance > 0:
        return mean, 0.0
    log_spread = 0.5 * float(np.log(variance))
    return mean * _kept(mean, variance / n), log_spread * _kept(log_spread, 0.5 / n)


def _kept(estimate: float, error_variance: float) -> float:
    return max(1 - error_variance / estimate**2, 0.0) if estimate else 0.0


def _excess(squares: FloatArray, expected: FloatArray) -> float:
    return max(float(squares.mean() - expected.mean()), 0.0)


def _trust(variance: float, error_variance: FloatArray) -> FloatArray:
    """Return variance / (variance + error variance); 1 where nothing is uncertain or nothing was learnt."""
    if np.isinf(variance):
        return np.ones_like(error_variance)
    total = variance + error_variance
    return np.divide(variance, total, out=np.ones_like(total), where=total > 0)
