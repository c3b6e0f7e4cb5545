"""Caution: where a calibration set is too small to be sure, the model keeps a share of the say, or of a part."""

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nearcal._arrays import FloatArray, check_number
from nearcal._errors import InvalidParameterError
from nearcal._saved import number, savable
from nearcal.distributions.interpolation import Interpolated
from nearcal.recalibration.corrections import Correction, LearntCorrection
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.fade import mix_curve
from nearcal.space import View

if TYPE_CHECKING:
    from nearcal.recalibration.leave_one_out import LeaveOneOut


_TAILS_FROM, _TAILS_TO = 1.0, 2.0  # scores between which the share of the middle becomes that of the tails
_KEPT_HEIGHT = 0.5  # of a step between knots, when a part of a row is drawn to the model's


@savable(share=number(0.0), tails=number(0.0), middle=number(0.0))
@dataclass(frozen=True)
class Caution(Correction):
    """Leave a share of every prediction to the model, and shares of its tails and its middle, for all rows alike.

    With q(s) the quantile of a row's scores at level Φ(s), the row has (1 - c) q(s) + c s: the quantiles of the
    recalibrated distribution and of the base, averaged on the scale of scores. c is the share; in the tails, beyond
    the middle two thirds of the distribution, 1 - c goes down to (1 - c)(1 - tails), and within them to
    (1 - c)(1 - middle): on a straight line from scores of 1 to 2, and of -1 to -2. Parts of a row that lies apart from
    the model's prediction are drawn to it less, so that quantiles keep their order: every step from knot to knot keeps
    half of its height at least.

    :func:`nearcal.tune` asks for it where calibration points are too few to tell for sure that recalibration is better,
    or to tell it of a part: of the outer quantiles, which CRPS hardly sees and few neighbours tell least of, or of the
    middle, where a model may be right whose tails are not. It needs a continuous
    quantile rule, and comes after :class:`Polish`.

    Parameters
    ----------
    share : float
        c, at least 0 and below 1.
    tails : float
        The share of the tails, at least 0 and below 1.
    middle : float
        The share of the middle, at least 0 and below 1.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> x, y = rng.uniform(size=500), rng.normal(3.0, 1.0, size=500)
    >>> model = nc.Normal(np.zeros(500), 1.0)
    >>> settings = {"k": 400, "quantile_rule": "predictive"}
    >>> rc = nc.LocalRecalibrator(**settings, corrections=(nc.Caution(0.5),)).fit(model, y, x)
    >>> rc.recalibrate(model[:1], x[:1]).median().round(1)
    array([1.5])
    """

    share: float
    tails: float = 0.0
    middle: float = 0.0

    needs_continuous_rule = True

    def check(self) -> None:
        """Validate the shares."""
        for name, value in vars(self).items():
            check_number(value, name, least=0.0)
            if not value < 1:
                raise InvalidParameterError(
                    f"{name} must be below 1, got {value}; to leave all to the model use IdentityRecalibrator"
                )

    def learn(self, left_out: "LeaveOneOut", view: View) -> "LearntCaution | None":
        """Return what is done; None if both shares are none."""
        return self.learnt

    @property
    def learnt(self) -> "LearntCaution | None":
        """What is done, which no calibration point has a say in."""
        learnt = LearntCaution(float(self.share), float(self.tails), float(self.middle))
        return learnt if max(vars(learnt).values()) > 0 else None


@savable(share=number(0.0), tails=number(0.0), middle=number(0.0))
@dataclass(frozen=True)
class LearntCaution(LearntCorrection):
    """The shares that the base distribution keeps: of all, of the tails and of the middle."""

    share: float
    tails: float
    middle: float = 0.0

    def bend(self, curve: Curve) -> Curve:
        """Draw quantiles of scores to those of N(0, 1)."""
        drawn = mix_curve(curve, np.full(len(curve.line.values), 1 - self.share)).line
        is_whole = self.tails == self.middle == 0
        return Curve(drawn if is_whole else _draw_parts(drawn, self.tails, self.middle), is_shared=curve.is_shared)


def _draw_parts(line: Interpolated, tails: float, middle: float) -> Interpolated:
    """Return q(s) + λ w(s) (s - q(s)), with w the share at a score, and λ <= 1 that which keeps a row's order."""
    outer = np.clip((np.abs(line.scores) - _TAILS_FROM) / (_TAILS_TO - _TAILS_FROM), 0.0, 1.0)
    weights = tails * outer + middle * (1 - outer)
    way = weights * (line.scores - line.values)
    heights, lost = np.diff(line.values, axis=1), -np.diff(way, axis=1)
    shares = np.full(heights.shape, 1.0)
    np.divide(_KEPT_HEIGHT * heights, lost, out=shares, where=lost > _KEPT_HEIGHT * heights)
    share: FloatArray = shares.min(axis=1, keepdims=True)
    drawn = copy(line)
    drawn.values = np.maximum.accumulate(line.values + share * way, axis=1)  # increasing but for rounding
    drawn.slope_below = line.slope_below + share * weights[:, :1] * (1 - line.slope_below)
    drawn.slope_above = line.slope_above + share * weights[:, -1:] * (1 - line.slope_above)
    return drawn
