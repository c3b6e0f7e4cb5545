"""The weighted sample of all scores, for rows alike: calibration points that do not count alike, without neighbours."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray
from nearcal._cached import cached_property
from nearcal._normal_scores import LEVEL_TOLERANCE
from nearcal._saved import require, savable
from nearcal.distributions import Distribution
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.steps import EqualSteps, as_if_beyond, count_not_above


@savable
class WeightedSteps(EqualSteps):
    """All scores with the weights of their points: the weighted empirical distribution.

    Whole weights are repeated points. What depends on how many there are, the predictive curve and the conservative
    rule, takes their effective size n for their number: a point of weight 2 is one observation that counts double, and
    the new point of the conservative rule has the weight v = 1 / n beside all others.
    """

    def __init__(self, calibration: CalibrationScores, *, conservative: bool = False) -> None:
        super().__init__(calibration, conservative=conservative)
        assert calibration.weights is not None
        self.shares = calibration.weights.relative[calibration.order] / self.size
        self.own = np.full(1, 1 / calibration.effective_size)  # the weight of the new point beside all others

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        steps = EqualSteps._from_saved(saved)
        require(steps.calibration.weights is not None, "weighted steps must have weights")
        return cls(steps.calibration, conservative=steps.conservative)

    @cached_property
    def below(self) -> FloatArray:
        """The weight of the first i scores, i = 0, …, n."""
        return np.minimum(np.concatenate([[0.0], np.cumsum(self.shares)]), 1.0)

    @cached_property
    def above(self) -> FloatArray:
        """The weight of all but the first i scores, i = 0, …, n."""
        return np.minimum(np.concatenate([np.cumsum(self.shares[::-1])[::-1], [0.0]]), 1.0)

    @cached_property
    def sorted_scores(self) -> tuple[FloatArray, FloatArray]:
        """Scores in increasing order and their weights, (1, n)."""
        weights = self.shares
        if self.conservative:
            below = as_if_beyond(self.below[1:], self.own)
            below[-1] = 1.0
            weights = np.diff(below, prepend=0.0)
        return self.calibration.sorted_z[np.newaxis], weights[np.newaxis]

    def score_quantiles(self, p: FloatArray) -> FloatArray:
        """Return the least scores whose cumulated weight reaches p."""
        levels = np.where(p < 0.5, p - (1 - p) * self.own, p * (1 + self.own)) if self.conservative else p
        ranks = np.searchsorted(self.below[1:], levels - LEVEL_TOLERANCE)
        ranks = np.where(levels >= 1, self.size - 1, np.minimum(ranks, self.size - 1))
        return self.calibration.sorted_z[ranks]

    def finite_scores(self, base: Distribution, y: FloatArray) -> FloatArray:
        """Return scores that count y at least half an effective draw from the ends."""
        below, above = self._tails(base, y)
        return np.copysign(ndtri(np.maximum(np.minimum(below, above), 0.5 * self.own)), below - above)

    def _tails(self, base: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights at or below y and above y, the heavier as 1 less the lighter: sums of weights round."""
        count = count_not_above(self.calibration.sorted_z, base, y)
        below, above = self.below[count], self.above[count]
        below, above = np.where(below > above, 1 - above, below), np.where(below > above, above, 1 - below)
        if self.conservative:
            return as_if_beyond(below, self.own, above), as_if_beyond(above, self.own, below)
        return below, above


def steps_of(calibration: CalibrationScores, *, conservative: bool = False) -> EqualSteps:
    """Return the steps of all scores, with weights where their points have them."""
    kind = EqualSteps if calibration.weights is None else WeightedSteps
    return kind(calibration, conservative=conservative)
