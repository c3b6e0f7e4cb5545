"""Isotonic recalibration (Kuleshov, Fenner and Ermon, 2018)."""

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidInputError
from nearcal._saved import count, instance, savable
from nearcal.recalibration._mapped import ScoreMapRecalibrator
from nearcal.recalibration._score_map import ScoreMap


@savable(score_map_=instance(ScoreMap), n_cal_=count())
class IsotonicRecalibrator(ScoreMapRecalibrator):
    """Recalibrate all predictions alike, by isotonic regression of observed on predicted probabilities.

    With the PIT values p_i = F_i(y_i) of a calibration set and their empirical frequencies r_i, isotonic regression of
    r on p estimates R(p) = P(F(Y) <= p), and the recalibrated distribution function is R(F(y)). It is continuous, with
    a density; see :class:`MappedDistribution`.

    Notes
    -----
    - The frequency is r_i = (#{p_j < p_i} + #{p_j <= p_i}) / 2n. The paper has #{p_j <= p_i} / n, which gives
      probability zero to all that lies above the largest p_i; without ties the two differ by 1 / 2n.
    - Frequencies increase with p by construction, so least squares under monotonicity leaves them as they are: the fit
      interpolates the r_i, and the method is global recalibration with straight lines for steps.
    - Lines are drawn on the scale of normal scores, between (Φ⁻¹(p_i), Φ⁻¹(r_i)), and go on beyond the outermost points
      with the slope of the line from the middle of the map: tails stay Normal on that scale.
    - The density is the exact derivative of that, hence as rough as the spacings of n points.

    References
    ----------
    V. Kuleshov, N. Fenner and S. Ermon, *Accurate Uncertainties for Deep Learning Using Calibrated Regression*,
    ICML 2018, PMLR 80, arXiv:1807.00263.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> y = np.random.default_rng(1).normal(size=1000)
    >>> rc = nc.IsotonicRecalibrator().fit(nc.Normal(np.zeros(1000), 2.0), y)
    >>> rc.recalibrate(nc.Normal([0.0, 10.0], 2.0)).std().round(1)
    array([1., 1.])
    """

    def _learn(self, z: FloatArray) -> ScoreMap:
        before, counts = np.unique(z, return_counts=True)
        if len(before) < 2:
            raise InvalidInputError(
                f"y_cal must give at least two different PIT values, got {len(z)} rows that all have the normal score "
                f"{before[0]!r}; use more calibration points"
            )
        below = np.cumsum(counts) - counts / 2
        above = len(z) - below
        # a frequency is inverted from its nearer end, so that the map is symmetric
        after = np.where(below < above, ndtri(below / len(z)), -ndtri(above / len(z)))
        return ScoreMap(after, before)
