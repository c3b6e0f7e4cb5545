"""Nearest-neighbour regression: the responses of the neighbours, without a model."""

import copy
from typing import Any, Self

import numpy as np

from nearcal._arrays import LARGEST, FloatArray, as_float_array, as_response, as_space
from nearcal._errors import InvalidParameterError
from nearcal._sample_weights import as_point_weights, keep_rows
from nearcal._saved import number, savable
from nearcal.distributions import Distribution, Normal
from nearcal.recalibration.base import is_empty
from nearcal.recalibration.calibration_scores import LARGEST_SCORE, CalibrationScores
from nearcal.recalibration.caution import Caution
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
        sample_weight: Any = None,
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
        groups, time, gap, sample_weight
            As in :class:`LocalRecalibrator`.
        """
        self._check_options()
        n = as_float_array(y_cal, "y_cal").size
        rows, _ = as_point_weights(sample_weight, n)
        space = as_space(keep_rows(space_cal, rows, n, "space_cal"), "space_cal")
        y = as_response(keep_rows(y_cal, rows, n, "y_cal"), len(space), "y_cal")
        unit = _unit_of(y)
        known = {"groups": groups, "time": time, "gap": gap, "sample_weight": sample_weight}
        super().fit(_identity(n, unit), y_cal, space_cal, **known)
        self.unit_ = unit
        return self

    def update(
        self, dist_cal: Distribution | None, y_cal: Any, space_cal: Any = None, *, sample_weight: Any = None
    ) -> Self:
        """Append points to the calibration set, as in ``LocalRecalibrator.update``; ``dist_cal`` is ignored.

        The unit of responses, which tails and densities of neighbours that all agree are drawn in, is that of a fit on
        all points, unless there are corrections, which have learnt in the old one.
        """
        self._require_fitted()
        if is_empty(y_cal):
            return self
        space = as_space(space_cal, "space_cal")
        y = as_response(y_cal, len(space), "y_cal")
        return super().update(_identity(len(y), self.unit_), y, space, sample_weight=sample_weight)

    def relearn(self, *, groups: Any = None, time: Any = None, gap: Any = None) -> Self:
        """Learn again all that was learnt from the calibration set, as ``LocalRecalibrator.relearn`` does."""
        self._require_fitted()
        y, given = self.calibration_.z * self.unit_, self.calibration_.given_weights
        return self.fit(None, y, self.positions(), groups=groups, time=time, gap=gap, sample_weight=given)

    def _hold_rows(self, calibration: CalibrationScores, *parts: Any, **more: Any) -> None:
        unit = self.unit_ if self.corrections_ else _unit_of(calibration.z * self.unit_)
        if unit != self.unit_:
            calibration = calibration.rescaled(self.unit_ / unit)
        super()._hold_rows(calibration, *parts, unit_=unit, **more)

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
        fitted = copy.copy(self)  # another thread may update this one meanwhile
        return LocalRecalibrator.recalibrate(fitted, _identity(len(space), fitted.unit_), space)

    def _check_options(self) -> None:
        super()._check_options()
        if self.radius is not None and Radius.of(self.radius).thin == "base":
            raise InvalidParameterError(
                "thin must be one of 'nearest', 'global', 'raise' for KNNRegressor, which has no base distribution, "
                "got 'base'"
            )
        for correction in self.corrections:
            if isinstance(correction, Caution):
                raise InvalidParameterError(
                    f"corrections must be without Caution for KNNRegressor, which has no base distribution to leave a "
                    f"share to, got {correction!r}"
                )
            if isinstance(correction, Fade) and correction.to != "global":
                raise InvalidParameterError(
                    "Fade must be to 'global' for KNNRegressor, which has no base distribution, got "
                    f"to={correction.to!r}"
                )


def _unit_of(y: FloatArray) -> float:
    """Return a unit of the size of the spread, for the density and the tails of rows whose neighbours all agree.

    It is a power of two, since dividing and multiplying by it rounds nothing.
    """
    spread = y.max() / 4 - y.min() / 4
    size = spread if spread > 0 else max(float(np.abs(y).max()), 1.0)
    power = min(np.round(np.log2(size)), np.floor(np.log2(LARGEST)))
    return float(2.0**power) if spread > 0 or size > LARGEST_SCORE else 1.0


def _identity(rows: int, unit: float) -> Normal:
    """Return distributions whose normal score is the response itself, in the given unit."""
    return Normal(np.broadcast_to(0.0, rows), unit)
