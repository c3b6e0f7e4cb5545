"""Recalibrators that treat all rows alike: one distribution of scores Z for every row.

What is wrong on average over the calibration set is mended; that a model is too wide here and too narrow there is not.
"""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray, IntArray, check_choice
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._sample_weights import PointWeights, average
from nearcal._saved import count, instance, require, savable
from nearcal.distributions import AVERAGED_SCORES as SCORES
from nearcal.distributions import Distribution, require_distribution
from nearcal.recalibration.base import Recalibrator, is_empty, read_calibration
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.caution import Caution, LearntCaution
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.result import Recalibrated
from nearcal.recalibration.score_laws import CONTINUOUS_RULES, QUANTILE_RULES, QuantileRule
from nearcal.recalibration.scores_of_rows import OneLaw, Untouched
from nearcal.recalibration.steps import EqualSteps
from nearcal.recalibration.weighted_steps import steps_of

LEARNT = {"n_cal_": count(), "calibration_": instance(CalibrationScores)}


class RecalibratorOfAllRows(Recalibrator):
    """Base class: a subclass says what the scores Z are, given those of a calibration set."""

    law_: Curve | EqualSteps
    calibration_: CalibrationScores

    def fit(self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None, *, sample_weight: Any = None) -> Self:
        """Learn from a calibration set; ``space_cal`` is ignored, so that recalibrators are interchangeable.

        Parameters
        ----------
        dist_cal : Distribution
            Predictive distributions of the n calibration points.
        y_cal : array_like of shape (n,) or (n, 1)
            What was observed.
        space_cal : ignored
        sample_weight : array_like of shape (n,), optional
            How much each point counts; relative, not negative. Points of weight 0 are as if absent.
        """
        return self.fit_scores(read_calibration(dist_cal, y_cal, None, sample_weight)[0])

    def fit_scores(self, calibration: CalibrationScores) -> Self:
        """Learn from the normal scores of a calibration set, and the weights of its points."""
        self.law_ = self._learn(calibration)
        self.calibration_ = calibration
        self.n_cal_ = len(calibration)
        return self

    def update(self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None, *, sample_weight: Any = None) -> Self:
        """Append points to the calibration set, and learn from all of it: the same, to the last bit, as ``fit`` on all.

        It costs what a fit does, the sort of all scores. Results made before stay as they were.

        Parameters
        ----------
        dist_cal, y_cal, space_cal, sample_weight
            More of what was given to ``fit``, of any number of rows, also none; the family may differ. Points without
            a weight count 1.

        Returns
        -------
        self
            If it fails, nothing has changed.

        Examples
        --------
        >>> import nearcal as nc
        >>> rc = nc.VarianceScaling().fit(nc.Normal([0.0, 0.0], 1.0), [-3.0, 3.0])
        >>> round(rc.update(nc.Normal(0.0, 1.0), [0.0]).factor_ ** 2, 6)
        6.0
        """
        self._require_fitted()
        if is_empty(y_cal):
            return self
        more, _, _ = read_calibration(dist_cal, y_cal, None, sample_weight)
        return self.fit_scores(self.calibration_.extended(more))

    def _keep(self, rows: IntArray) -> None:
        self.fit_scores(self.calibration_.restricted(rows))

    @property
    def weights_(self) -> PointWeights | None:
        """The weights of the points by increasing score; None if all count alike."""
        weights = self.calibration_.weights
        return None if weights is None else weights.take(self.calibration_.order)

    def recalibrate(self, dist_new: Distribution, space_new: Any = None) -> Recalibrated:
        """Return the recalibrated distributions of new rows; ``space_new`` is ignored."""
        self._require_fitted()
        return Recalibrated(require_distribution(dist_new, "dist_new"), OneLaw(self.law_, self.n_cal_, self.weights_))

    @abstractmethod
    def _learn(self, calibration: CalibrationScores) -> Curve | EqualSteps:
        """Return the law of scores, given those of n calibration points and their weights."""

    def _check_learnt(self) -> None:
        require(not isinstance(self.law_, EqualSteps) or self.law_.size == self.n_cal_, "law_ must have n_cal_ scores")
        require(len(self.calibration_) == self.n_cal_, "calibration_ must have n_cal_ scores")


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

    def fit(self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None, *, sample_weight: Any = None) -> Self:
        """Check the calibration set as other recalibrators do, and learn nothing from it."""
        return self.fit_scores(read_calibration(dist_cal, y_cal, None, sample_weight)[0])

    def fit_scores(self, calibration: CalibrationScores) -> Self:
        """Count the scores of a calibration set."""
        self.n_cal_ = len(calibration)
        return self

    def update(self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None, *, sample_weight: Any = None) -> Self:
        """Check more calibration points as ``fit`` does, and count them."""
        self._require_fitted()
        if not is_empty(y_cal):
            self.n_cal_ += len(read_calibration(dist_cal, y_cal, None, sample_weight)[0])
        return self

    def _keep(self, rows: IntArray) -> None:
        self.n_cal_ = len(rows)

    def recalibrate(self, dist_new: Distribution, space_new: Any = None) -> Recalibrated:
        """Return the distributions of new rows as they are, to the last bit."""
        self._require_fitted()
        return Recalibrated(require_distribution(dist_new, "dist_new"), Untouched())


@savable(**LEARNT, law_=instance(Curve, EqualSteps))
class GlobalRecalibrator(RecalibratorOfAllRows):
    """Recalibrate all predictions alike: the local method with k = n and equal weights.

    Parameters
    ----------
    quantile_rule : {"step", "interpolated", "predictive", "conservative"}
        As in :class:`LocalRecalibrator`.
    caution : Caution, optional
        What is left to the model; it needs a continuous quantile rule. Scores are then known by their quantiles at 41
        levels, Φ(-4), Φ(-3.8), …, Φ(4), with straight lines in between and Normal tails.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> y = np.random.default_rng(1).normal(size=1000)
    >>> rc = nc.GlobalRecalibrator().fit(nc.Normal(np.zeros(1000), 2.0), y)
    >>> rc.recalibrate(nc.Normal([0.0, 10.0], 2.0)).std().round(1)
    array([1., 1.])
    """

    def __init__(self, *, quantile_rule: QuantileRule = "step", caution: Caution | None = None) -> None:
        self.quantile_rule = quantile_rule
        self.caution = caution

    def _learn(self, calibration: CalibrationScores) -> Curve | EqualSteps:
        check_choice(self.quantile_rule, QUANTILE_RULES, "quantile_rule")
        learnt = self._learnt_caution()
        steps = steps_of(calibration, conservative=self.quantile_rule == "conservative")
        if self.quantile_rule not in CONTINUOUS_RULES:
            return steps
        law = steps.curve(predictive=self.quantile_rule == "predictive")
        if learnt is None:
            return law
        # points that happen to lie close to one another would hold up tails that are drawn
        return learnt.bend(Curve.shared(SCORES, law.before(SCORES[np.newaxis])[0]))

    def _learnt_caution(self) -> LearntCaution | None:
        """Validate what is left to the model, and return what is done."""
        if self.caution is None:
            return None
        if not isinstance(self.caution, Caution):
            raise InvalidParameterError(f"caution must be a nearcal.Caution or None, got {self.caution!r}")
        if self.quantile_rule not in CONTINUOUS_RULES:
            raise InvalidParameterError(
                f"caution needs a continuous quantile_rule, one of {CONTINUOUS_RULES}, got {self.quantile_rule!r}"
            )
        self.caution.check()
        return self.caution.learnt


@savable(**LEARNT, law_=instance(Curve))
class VarianceScaling(RecalibratorOfAllRows):
    """Stretch or shrink all predictive distributions about their medians by one factor: Z is N(0, s²).

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

    @property
    def factor_(self) -> float:
        """The factor s."""
        self._require_fitted()
        assert isinstance(self.law_, Curve)
        return float(self.law_.line.values[0, -1])

    def _learn(self, calibration: CalibrationScores) -> Curve:
        z = calibration.z
        largest = np.abs(z).max()
        if not largest > 0:
            raise InvalidInputError(
                "y_cal must not equal the median of dist_cal in every row: no factor on the spread describes that; "
                "use more calibration points"
            )
        factor = float(largest * np.sqrt(average((z / largest) ** 2, calibration.weights)))  # z² may overflow
        knots = np.array([-1.0, 1.0])
        return Curve.shared(knots, factor * knots)


@savable(**LEARNT, law_=instance(Curve))
class IsotonicRecalibrator(RecalibratorOfAllRows):
    """Recalibrate all predictions alike, by isotonic regression of observed on predicted probabilities.

    With the PIT values p_i = F_i(y_i) of a calibration set and their empirical frequencies r_i, isotonic regression of
    r on p estimates R(p) = P(F(Y) <= p), and the recalibrated distribution function is R(F(y)). It is continuous, with
    a density.

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

    def _learn(self, calibration: CalibrationScores) -> Curve:
        z = calibration.z
        before, counts = _different(calibration)
        if len(before) < 2:
            raise InvalidInputError(
                f"y_cal must give at least two different PIT values, got {len(z)} rows that all have the normal score "
                f"{before[0]!r}; use more calibration points"
            )
        below = np.cumsum(counts) - counts / 2
        above = len(z) - below
        # a frequency is inverted from its nearer end, so that the map is symmetric
        return Curve.shared(np.where(below < above, ndtri(below / len(z)), -ndtri(above / len(z))), before)


def _different(calibration: CalibrationScores) -> tuple[FloatArray, Any]:
    """Return the different scores in increasing order, and how many there are of each, or their weight."""
    if calibration.weights is None:
        return np.unique(calibration.z, return_counts=True)
    different, place = np.unique(calibration.z, return_inverse=True)
    return different, np.bincount(place, calibration.weights.relative)
