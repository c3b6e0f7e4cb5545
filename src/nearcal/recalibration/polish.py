"""Polish: one increasing map of scores, common to all rows, that mends what neighbourhoods get wrong on average."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import ndtr, ndtri

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import InvalidParameterError
from nearcal._sample_weights import PointWeights, effective_size
from nearcal._saved import check_fields, flag, instance, savable
from nearcal.distributions.interpolation import Interpolated
from nearcal.recalibration.corrections import Correction, LearntCorrection
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.row_drift import latest_rows
from nearcal.space import View

if TYPE_CHECKING:
    from nearcal.recalibration.leave_one_out import LeaveOneOut

_KNOTS = 63
_FARTHEST = 1e4  # score of a knot: Φ of it is 0 or 1 many times over, and digits are left for those near 0


@savable(drift=flag)
@dataclass(frozen=True)
class Polish(Correction):
    """Make up, for all rows alike, for what neighbourhoods get wrong on average.

    The errors of the model drift inside a neighbourhood, and few neighbours tell little about tails. How much shows
    where each calibration point falls in the distribution that the others make for it: the i-th of n such scores is
    moved to probability i / (n + 1). Predictions are then as well calibrated overall as after global recalibration. It
    needs a continuous quantile rule, "interpolated" or "predictive". With a radius it is learnt from neighbourhoods
    that are not thin, and applied to all.

    Parameters
    ----------
    drift : bool
        Whether to test such scores for a drift along the rows, of their level or their spread, in order of time where
        ``time`` is given to ``fit``, else as they come. Where there is one, at a rate of false alarms of 1 in 1,000
        (rows that err alike for a while count for fewer), the latest quarter of the rows alone is learnt from, 100 rows
        at least, and a :class:`nearcal.DependenceWarning` tells: new rows come after them.
    """

    drift: bool = False

    needs_continuous_rule = True

    def check(self) -> None:
        """Validate the parameter."""
        if not isinstance(self.drift, bool):
            raise InvalidParameterError(f"drift must be True or False, got {self.drift!r}")

    def learn(self, left_out: "LeaveOneOut", view: View) -> "LearntPolish | None":
        """Learn from the scores of calibration points in the distributions that the others make for them.

        The i-th of n scores is worth s, the score of probability i / (n + 1), equal scores that of their mean rank. But
        it moves by at most ``1 + |s|``: a point that a few close neighbours call impossible must not stretch the
        tails of all. Of many scores, some 63 evenly spaced ones count. Nothing is learnt from fewer than two different
        scores. Where points have weights, a score with the share q of all weight below it, and half of its own, is
        worth the probability (n q + ½) / (n + 1), with n the effective size.
        """
        return self.learn_from(_left_out_scores(left_out), left_out.calibration.weights, left_out.order)

    def learn_from(self, scores: FloatArray, points: PointWeights | None, order: IntArray) -> "LearntPolish | None":
        """Learn from the scores of calibration points among the others, NaN where none speak; ``order`` is by time."""
        rows = np.flatnonzero(~np.isnan(scores))
        if self.drift:
            by_time = order[np.isin(order, rows)]
            rows = rows[latest_rows(scores[rows], np.searchsorted(rows, by_time))]
        return polish_of(scores[rows], None if points is None else points.relative[rows])


@savable
class LearntPolish(LearntCorrection):
    """An increasing map of scores: what a score under the recalibrated distribution turned out to be worth.

    Parameters
    ----------
    after, before : ndarray of shape (q,)
        Increasing scores of the knots, as they turned out and as the recalibrated distributions had it.
    """

    def __init__(self, after: FloatArray, before: FloatArray) -> None:
        self.map = Curve.shared(after, before)
        self.is_continuous, self.more_knots = not self.map.line.has_atoms(), len(after)

    def bend(self, curve: Curve) -> Curve:
        """Move all scores to what they turned out to be worth; both are straight between the knots of either."""
        line, rows = curve.line, len(curve.line.values)
        after, before = (np.tile(knots, (rows, 1)) for knots in (self.map.line.scores, self.map.line.values))
        moved = self.map.after(np.broadcast_to(line.scores, line.values.shape))
        # where all left-out scores agree the map is flat, and scores beyond them are worth next to any number
        scores = np.concatenate([np.clip(moved, -_FARTHEST, _FARTHEST), after], axis=1)
        values = np.concatenate([line.values, line.from_z(before)], axis=1)
        # both increase, so that pairs survive sorting
        bent = Interpolated(np.sort(scores, axis=1), np.sort(values, axis=1), normal_tails=True)
        return Curve(bent, is_shared=curve.is_shared)

    def _to_saved(self) -> dict[str, Any]:
        return {"map": self.map}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        line = check_fields(saved, {"map": instance(Curve)})["map"].line
        return cls(line.scores[0], line.values[0])


def polish_of(scores: FloatArray, weights: FloatArray | None) -> LearntPolish | None:
    """Return the map from scores that points had among others to what these turned out to be worth."""
    different, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    if len(different) < 2:
        return None
    if weights is None:
        worth = ndtri((np.cumsum(counts) - (counts - 1) / 2) / (len(scores) + 1))
    else:
        mass, n = np.bincount(place, weights / weights.sum()), effective_size(weights)
        worth = ndtri((n * (np.cumsum(mass) - mass / 2) + 0.5) / (n + 1))
    if len(worth) > _KNOTS:
        kept = np.unique(np.searchsorted(worth, np.linspace(worth[0], worth[-1], _KNOTS)))
        different, worth = different[kept], worth[kept]
    # s ± (1 + |s|), in a form that rounding leaves increasing
    return LearntPolish(worth, np.clip(different, 2 * np.minimum(worth, 0.0) - 1, 2 * np.maximum(worth, 0.0) + 1))


def _left_out_scores(left_out: "LeaveOneOut") -> FloatArray:
    """Return the scores of calibration points in the distributions that the others make for them, NaN where none do."""
    z, unknown = left_out.calibration.z, np.full(len(left_out.calibration), np.nan)
    if len(z) < 2:
        return unknown
    return left_out.gather(lambda steps, rows: middle_score(left_out.law(steps), z[rows]), unknown)


def middle_score(curve: Curve, z: FloatArray) -> FloatArray:
    """Return the scores of z; in an atom, which equal scores make, that of the middle of its probability."""
    column = z[:, np.newaxis]
    upper, lower = curve.after(column)[:, 0], curve.after(np.nextafter(column, -np.inf))[:, 0]
    is_atom = upper - lower > 1e-9
    below, above = ndtr(lower) / 2 + ndtr(upper) / 2, ndtr(-lower) / 2 + ndtr(-upper) / 2
    return np.where(is_atom, np.where(below < above, ndtri(below), -ndtri(above)), upper)
