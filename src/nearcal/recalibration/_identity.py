"""No recalibration, under the interface of recalibrators."""

from typing import Any, Self

from nearcal._saved import count, savable
from nearcal.distributions import Distribution
from nearcal.recalibration._base import Recalibrator, calibration_scores, require_distribution


@savable(n_cal_=count())
class IdentityRecalibrator(Recalibrator):
    """Leave predictions as they are: what tuning chooses for a model that recalibration would not improve.

    Examples
    --------
    >>> import nearcal as nc
    >>> rc = nc.IdentityRecalibrator().fit(nc.Normal([0.0, 1.0], 1.0), [0.1, 0.8])
    >>> rc.recalibrate(nc.Normal([2.0], 3.0)).mean()
    array([2.])
    """

    def fit(self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None) -> Self:
        """Check the calibration set as other recalibrators do, and learn nothing from it."""
        self.n_cal_ = len(calibration_scores(require_distribution(dist_cal, "dist_cal"), y_cal))
        return self

    def recalibrate(self, dist_new: Distribution, space_new: Any = None) -> Distribution:
        """Return the distributions of new rows as they are."""
        self._require_fitted()
        return require_distribution(dist_new, "dist_new")
