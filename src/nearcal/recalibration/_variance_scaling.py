"""Variance scaling: one factor on the predicted standard deviations."""

import numpy as np

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidInputError
from nearcal._saved import count, instance, number, savable
from nearcal.recalibration._mapped import ScoreMapRecalibrator
from nearcal.recalibration._score_map import ScoreMap


@savable(factor_=number(0.0), score_map_=instance(ScoreMap), n_cal_=count())
class VarianceScaling(ScoreMapRecalibrator):
    """Stretch or shrink all predictive distributions about their medians by one factor.

    The factor is s = √(mean z_i²) over the normal scores z_i = Φ⁻¹(F_i(y_i)) of a calibration set, and a recalibrated
    score is z / s. For Normal predictions this multiplies every standard deviation by s, with s² the mean of
    (y_i - μ_i)² / σ_i², as in the papers. For any other continuous family it is the same on the scale of normal
    scores, where s is the maximum-likelihood factor all the same: the log-density of y is log φ(z / s) - log s plus a
    term without s.

    Attributes
    ----------
    factor_ : float
        The factor s: above 1 where the model was too confident.

    References
    ----------
    D. Levi, L. Gispan, N. Giladi and E. Fetaya, *Evaluating and Calibrating Uncertainty Prediction in Regression
    Tasks*, Sensors 22(15):5540, 2022, doi:10.3390/s22155540. M.-H. Laves, S. Ihler, J. F. Fast, L. A. Kahrs and
    T. Ortmaier, *Well-Calibrated Regression Uncertainty in Medical Imaging with Deep Learning*, MIDL 2020,
    PMLR 121:393-412.

    Examples
    --------
    >>> import nearcal as nc
    >>> rc = nc.VarianceScaling().fit(nc.Normal([0.0, 0.0, 0.0], 1.0), [-3.0, 0.0, 3.0])
    >>> rc.recalibrate(nc.Normal(10.0, 1.0)).var().round(6)
    array([6.])
    """

    factor_: float

    def _learn(self, z: FloatArray) -> ScoreMap:
        largest = np.abs(z).max()
        if not largest > 0:
            raise InvalidInputError(
                "y_cal must not equal the median of dist_cal in every row: no factor on the spread describes that; "
                "use more calibration points"
            )
        self.factor_ = float(largest * np.sqrt(np.mean((z / largest) ** 2)))  # z² may overflow
        knots = np.array([-1.0, 1.0])
        return ScoreMap(knots, self.factor_ * knots)
