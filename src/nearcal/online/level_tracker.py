"""The level, followed online: for each of some levels p the score below which a share p of responses falls.

The method is the multi-level quantile tracker of Ding, Gibbs and Tibshirani (arXiv:2512.23671), which is the quantile
tracker of Angelopoulos, Candès and Tibshirani (arXiv:2307.16895) for several levels at once, here on the scale of
normal scores. A level p_l has a hidden offset h_l, and predictions are made at the isotonic regression θ of the
offsets, so that quantiles never cross. A response y whose prediction was made at θ moves them all:

    h_l  <-  h_l + step · (p_l - 1{y <= quantile predicted at θ_l})

Summed up over the T responses told, this is an identity, whatever they were and in whatever order they came:

    share at or below the quantile of level p_l  =  p_l - (h_l - start_l) / (step · T)

So the share is as near to p_l as the offset is to its start, and the offset cannot go far. Let the scores of responses
and the starts lie in [-b, b], let there be L levels, and between a prediction and its response at most D others told.

- Two neighbours that are out of order are pooled by the regression: a prediction made then puts its response on the
  same side of both, which sets them right by step · (p_(l+1) - p_l). They get out of order by responses between them
  alone, whose predictions were made while they were in order: the last D + 1, each by less than a step. Of a pool, any
  beginning has a mean of at least θ, and any end of at most θ: no offset is farther from its θ than (D + 1)(L - 1)/2
  steps.
- An offset beyond b by more than (D + 1)(L - 1)/2 + D steps was so far out, when any prediction still to be told of was
  made, that its θ was beyond b: the response falls on the near side, and the offset moves back.

Hence |h_l| <= b + step · (D + 1)(L + 1)/2, and for any sequence of responses

    |share - p_l|  <=  (2b / step + (D + 1)(L + 1)/2) / T.

Sorting offsets instead of pooling them would keep no such promise: two that have changed places could be driven apart
for ever by responses between them.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray
from nearcal._saved import array, check_fields, count, number, require, savable, saved_array
from nearcal.distributions import central_levels
from nearcal.recalibration.curve import Curve

_MOST_TOLD = 2**53  # up to which counts are exact as floating-point numbers
_FARTHEST = 1e100  # of offsets, as of the scores of calibration points


@savable
class LevelTracker:
    """Offsets of some levels on the scale of normal scores.

    All there is to remember are counts: offsets follow from them, so that they are the same to the last bit in whatever
    order responses are told.

    Parameters
    ----------
    coverages : array_like of shape (q,)
        The levels are the ends of these central intervals, and the median.
    step : float
        How far the offset of a far level moves when a response lies beyond it.
    """

    def __init__(self, coverages: Any, step: float) -> None:
        self.levels: FloatArray = np.unique(np.append(central_levels(coverages), 0.5))
        self.step = step
        self.at_or_below = np.zeros(len(self.levels), dtype=np.int64)
        self.n_told = 0

    @property
    def starts(self) -> FloatArray:
        """The offsets before any response: the scores of the levels, which change nothing."""
        return ndtri(self.levels)

    @property
    def hidden(self) -> FloatArray:
        """The offsets, which need not be in order."""
        return self.starts + self.step * (self.n_told * self.levels - self.at_or_below)

    @property
    def offsets(self) -> FloatArray:
        """The scores that quantiles are read at: the hidden offsets, those out of order pooled."""
        from scipy.optimize import isotonic_regression  # not for those who only load a file

        return isotonic_regression(self.hidden).x

    def map(self) -> Curve:
        """Return the increasing map of scores: straight between levels, beyond them with the slope of its halves."""
        return Curve.shared(self.starts, self.offsets)

    def tell(self, is_at_or_below: Any) -> None:
        """Count responses, given for each of them whether it is at or below the quantiles predicted for it, (n, L)."""
        counts = np.asarray(is_at_or_below, dtype=np.int64)
        self.at_or_below = self.at_or_below + counts.sum(axis=0)
        self.n_told += len(counts)

    def _to_saved(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("levels", "step", "at_or_below", "n_told")}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        levels = saved_array(saved, "levels", np.float64, (None,))
        inside = levels[0] > 0 and levels[-1] < 1 and (np.diff(levels) > 0).all()
        require(inside and len(levels) > 2, "levels must increase between 0 and 1, and be three at least")
        checks = {
            "levels": array(np.float64, levels.shape),
            "step": number(5e-324),
            "at_or_below": array(np.int64, levels.shape),
            "n_told": count(0, _MOST_TOLD),
        }
        held = check_fields(saved, checks)
        counts = held["at_or_below"]
        # quantiles do not cross: what is at or below one is at or below the next
        increase = counts[0] >= 0 and counts[-1] <= held["n_told"] and (np.diff(counts) >= 0).all()
        require(increase, "at_or_below must increase, from 0 or more to at most n_told")
        tracker = cls(0.5, held["step"])
        tracker.levels, tracker.at_or_below, tracker.n_told = levels.copy(), counts.copy(), held["n_told"]
        with np.errstate(over="ignore"):
            require(np.abs(tracker.hidden).max() < _FARTHEST, f"offsets must be below {_FARTHEST:g}")
        return tracker
