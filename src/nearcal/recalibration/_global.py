"""Global recalibration: every calibration point speaks for every row."""

from typing import Any, Self

from nearcal._arrays import check_choice
from nearcal._saved import count, instance, savable
from nearcal.distributions import Distribution
from nearcal.recalibration._base import Recalibrator, calibration_scores, require_distribution
from nearcal.recalibration._chunks import Progress, Workers, check_workers
from nearcal.recalibration._local_sample import QUANTILE_RULES, Calibration, QuantileRule
from nearcal.recalibration._neighborhoods import Everyone
from nearcal.recalibration._result import Recalibrated


@savable(calibration_=instance(Calibration), n_cal_=count())
class GlobalRecalibrator(Recalibrator):
    """Recalibrate all predictions alike: the local method with k = n and equal weights.

    It mends what is wrong on average over the calibration set and cannot see that the model is too wide here and too
    narrow there.

    Parameters
    ----------
    quantile_rule, memory, threads, progress
        As in :class:`LocalRecalibrator`.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> y = np.random.default_rng(1).normal(size=1000)
    >>> rc = nc.GlobalRecalibrator().fit(nc.Normal(np.zeros(1000), 2.0), y)
    >>> rc.recalibrate(nc.Normal([0.0, 10.0], 2.0)).std().round(1)
    array([1., 1.])
    """

    calibration_: Calibration

    def __init__(
        self,
        *,
        quantile_rule: QuantileRule = "step",
        memory: int = 2**28,
        threads: int | None = None,
        progress: Progress = False,
    ) -> None:
        self.quantile_rule = quantile_rule
        self.memory = memory
        self.threads = threads
        self.progress = progress

    def fit(self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None) -> Self:
        """Learn from a calibration set; ``space_cal`` is ignored, so that recalibrators are interchangeable."""
        self._check_options()
        z = calibration_scores(require_distribution(dist_cal, "dist_cal"), y_cal)
        self.calibration_ = Calibration(z)
        self.n_cal_ = len(z)
        return self

    def recalibrate(self, dist_new: Distribution, space_new: Any = None) -> Recalibrated:
        """Return the recalibrated distributions of new rows; ``space_new`` is ignored."""
        self._require_fitted()
        self._check_options()
        base = require_distribution(dist_new, "dist_new")
        workers = Workers(self.threads, self.memory, self.progress)
        return Recalibrated(base, self.calibration_, Everyone(self.n_cal_), workers, self.quantile_rule)

    def _check_options(self) -> None:
        check_choice(self.quantile_rule, QUANTILE_RULES, "quantile_rule")
        check_workers(self.threads, self.memory, self.progress)
