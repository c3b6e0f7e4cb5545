"""Nearest-neighbour regression: the responses of the neighbours, without a model."""

from typing import Any, Self

import numpy as np

from nearcal._arrays import as_response, as_space
from nearcal._errors import InvalidParameterError
from nearcal._saved import number, savable
from nearcal.distributions import Distribution, Normal
from nearcal.recalibration.fade import Fade
from nearcal.recalibration.local import LEARNT, LocalRecalibrator
from nearcal.recalibration.neighborhoods import Radius
from nearcal.recalibration.result import Recalibrated


@savable(**LEARNT, unit_=number(5e-324))
class KNNRegressor(LocalRecalibrator):
    """Predict by the weighted responses of nearby calibration points, ignoring the model.

    The predictive distribution of row j is the weighted sample {y_i, w_ij}, with the neighbours, weights and rules of
    :class:`LocalRecalibrator`: the paper's direct comparison, which tells how much of local recalibration is due to the
    neighbours alone. It is local recalibration of a model whose quantile function is the identity, and is computed as
    that: lazily, in chunks.

    Parameters
    ----------
    k, radius, smoothing, eps, scaling, metric, search, quantile_rule, corrections, workers
        As in :class:`LocalRecalibrator`; but thin neighbourhoods have no base distribution to fall back on.

    References
    ----------
    E. A. Nadaraya, *On Estimating Regression*, Theory of Probability and Its Applications 9:141-142, 1964,
    doi:10.1137/1109020. C. J. Stone, *Consistent Nonparametric Regression*, Annals of Statistics 5:595-620, 1977,
    doi:10.1214/aos/1176343886.

    Examples
    --------
    >>> import nearcal as nc
    >>> rc = nc.KNNRegressor(k=2, smoothing="uniform").fit(None, [1.0, 3.0, 50.0], [0.0, 1.0, 9.0])
    >>> out = rc.recalibrate(None, [0.4])
    >>> out.mean(), out.ppf([0.0, 1.0])
    (array([2.]), array([[1., 3.]]))
    """

    unit_: float

    def fit(
        self,
        dist_cal: Distribution | None,
        y_cal: Any,
        space_cal: Any,
        *,
        groups: Any = None,
        time: Any = None,
        gap: Any = None,
    ) -> Self:
        """Store a calibration set.

        Parameters
        ----------
        dist_cal : ignored
            May be None; there so that recalibrators are interchangeable.
        y_cal : array_like of shape (n,) or (n, 1)
            What was observed.
        space_cal : array_like of shape (n, d)
            Where they are. (n,) is (n, 1).
        groups, time, gap
            As in :class:`LocalRecalibrator`.
        """
        self._check_options()
        space = as_space(space_cal, "space_cal")
        y = as_response(y_cal, len(space), "y_cal")
        # A unit of the size of the spread, for the density and the tails of rows whose neighbours all agree; a power of
        # two, since dividing and multiplying by it rounds nothing.
        spread = np.ptp(y) / 4
        unit = float(2.0 ** np.round(np.log2(spread))) if spread > 0 else 1.0
        super().fit(_identity(len(y), unit), y, space, groups=groups, time=time, gap=gap)
        self.unit_ = unit
        return self

    def recalibrate(self, dist_new: Distribution | None, space_new: Any) -> Recalibrated:
        """Return the predictive distributions of new rows; nothing is computed before it is asked for.

        Parameters
        ----------
        dist_new : ignored
            May be None.
        space_new : array_like of shape (m, d)
            Where they are, in the space given to ``fit``.

        Returns
        -------
        Recalibrated
            Its ``base`` is the identity, no prediction.
        """
        self._require_fitted()
        space = as_space(space_new, "space_new")
        return super().recalibrate(_identity(len(space), self.unit_), space)

    def _check_options(self) -> None:
        super()._check_options()
        if self.radius is not None and Radius.of(self.radius).thin == "base":
            raise InvalidParameterError(
                "thin must be one of 'nearest', 'global', 'raise' for KNNRegressor, which has no base distribution, "
                "got 'base'"
            )
        for correction in self.corrections:
            if isinstance(correction, Fade) and correction.to != "global":
                raise InvalidParameterError(
                    "Fade must be to 'global' for KNNRegressor, which has no base distribution, got "
                    f"to={correction.to!r}"
                )


def _identity(rows: int, unit: float) -> Normal:
    """Return distributions whose normal score is the response itself, in the given unit."""
    return Normal(np.broadcast_to(0.0, rows), unit)
