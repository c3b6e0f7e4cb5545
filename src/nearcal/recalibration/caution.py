"""Caution: where a calibration set is too small to be sure, the model keeps a share of the say."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nearcal._arrays import check_number
from nearcal._errors import InvalidParameterError
from nearcal._saved import number, savable
from nearcal.recalibration.corrections import Correction, LearntCorrection
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.fade import mix_curve
from nearcal.space import View

if TYPE_CHECKING:
    from nearcal.recalibration.leave_one_out import LeaveOneOut


@savable(share=number(0.0))
@dataclass(frozen=True)
class Caution(Correction):
    """Leave a share of every prediction to the model, for all rows alike.

    With q(s) the quantile of a row's scores at level Φ(s), the row has (1 - c) q(s) + c s: the quantiles of the
    recalibrated distribution and of the base, averaged on the scale of scores. :func:`nearcal.tune` asks for it where
    calibration points are too few to tell for sure that recalibration is better. It needs a continuous quantile rule,
    and comes after :class:`Polish`.

    Parameters
    ----------
    share : float
        c, at least 0 and below 1.

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

    needs_continuous_rule = True

    def check(self) -> None:
        """Validate the share."""
        check_number(self.share, "share", least=0.0)
        if not self.share < 1:
            raise InvalidParameterError(
                f"share must be below 1, got {self.share}; to leave all to the model use IdentityRecalibrator"
            )

    def learn(self, left_out: "LeaveOneOut", view: View) -> "LearntCaution | None":
        """Return what is done; None if the share is none."""
        return self.learnt

    @property
    def learnt(self) -> "LearntCaution | None":
        """What is done, which no calibration point has a say in."""
        return LearntCaution(float(self.share)) if self.share > 0 else None


@savable(share=number(0.0))
@dataclass(frozen=True)
class LearntCaution(LearntCorrection):
    """The share that the base distribution keeps."""

    share: float

    def bend(self, curve: Curve) -> Curve:
        """Draw quantiles of scores to those of N(0, 1)."""
        return mix_curve(curve, np.full(len(curve.line.values), 1 - self.share))
