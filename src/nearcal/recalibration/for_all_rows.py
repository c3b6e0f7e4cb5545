"""Recalibrators that treat all rows alike: one distribution of scores Z for every row.

What is wrong on average over the calibration set is mended; that a model is too wide here and too narrow there is not.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray, IntArray, check_choice
from nearcal._errors import InvalidInputError
from nearcal._normal_scores import LEVEL_TOLERANCE
from nearcal._saved import count, float_array, instance, require, savable
from nearcal.distributions import Distribution, as_levels, central_levels, check_coverage, require_distribution
from nearcal.distributions.base import overflow_is_infinite
from nearcal.recalibration.base import Recalibrator, calibration_scores, is_empty
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.result import Recalibrated, Summary
from nearcal.recalibration.score_laws import CONTINUOUS_RULES, QUANTILE_RULES, QuantileRule
from nearcal.recalibration.scores_of_rows import OneLaw, Untouched
from nearcal.recalibration.steps import EqualSteps


class RecalibratorOfAllRows(Recalibrator):
    """Base class: a subclass says what the scores Z are, given those of a calibration set."""

    law_: Curve | EqualSteps
    z_: FloatArray  # the scores in the order of the points

    def fit(self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None) -> Self:
        """Learn from a calibration set; ``space_cal`` is ignored, so that recalibrators are interchangeable.

        Parameters
        ----------
        dist_cal : Distribution
            Predictive distributions of the n calibration points.
        y_cal : array_like of shape (n,) or (n, 1)
            What was observed.
        space_cal : ignored
        """
        return self.fit_scores(calibration_scores(require_distribution(dist_cal, "dist_cal"), y_cal))

    def fit_scores(self, z: FloatArray) -> Self:
        """Learn from the normal scores of a calibration set, shape (n,)."""
        self.law_ = self._learn(z)
        self.z_ = z
        self.n_cal_ = len(z)
        return self

    def update(self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None) -> Self:
        """Append points to the calibration set, and learn from all of it: the same, to the last bit, as ``fit`` on all.

        It costs what a fit does, the sort of all scores. Results made before stay as they were.

        Parameters
        ----------
        dist_cal, y_cal, space_cal
            More of what was given to ``fit``, of any number of rows, also none; the family may differ.

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
        more = calibration_scores(require_distribution(dist_cal, "dist_cal"), y_cal)
        return self.fit_scores(np.concatenate([self.z_, more]))

    def _keep(self, rows: IntArray) -> None:
        self.fit_scores(self.z_[rows])

    def recalibrate(self, dist_new: Distribution, space_new: Any = None) -> Recalibrated:
        """Return the recalibrated distributions of new rows; ``space_new`` is ignored."""
        self._require_fitted()
        return Recalibrated(require_distribution(dist_new, "dist_new"), OneLaw(self.law_, self.n_cal_))

    @abstractmethod
    def _learn(self, z: FloatArray) -> Curve | EqualSteps:
        """Return the law of scores, given calibration scores of shape (n,)."""

    def _check_learnt(self) -> None:
        require(not isinstance(self.law_, EqualSteps) or self.law_.size == self.n_cal_, "law_ must have n_cal_ scores")
        require(len(self.z_) == self.n_cal_, "z_ must have n_cal_ scores")


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
        return self.fit_scores(calibration_scores(require_distribution(dist_cal, "dist_cal"), y_cal))

    def fit_scores(self, z: FloatArray) -> Self:
        """Count the scores of a calibration set."""
        self.n_cal_ = len(z)
        return self

    def update(self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None) -> Self:
        """Check more calibration points as ``fit`` does, and count them."""
        self._require_fitted()
        if not is_empty(y_cal):
            self.n_cal_ += len(calibration_scores(require_distribution(dist_cal, "dist_cal"), y_cal))
        return self

    def _keep(self, rows: IntArray) -> None:
        self.n_cal_ = len(rows)

    def recalibrate(self, dist_new: Distribution, space_new: Any = None) -> Recalibrated:
        """Return the distributions of new rows as they are, to the last bit."""
        self._require_fitted()
        return Recalibrated(require_distribution(dist_new, "dist_new"), Untouched())


@savable(n_cal_=count(), z_=float_array(1), law_=instance(Curve, EqualSteps))
class GlobalRecalibrator(RecalibratorOfAllRows):
    """Recalibrate all predictions alike: the local method with k = n and equal weights.

    Parameters
    ----------
    quantile_rule : {"step", "interpolated", "predictive", "conservative"}
        As in :class:`LocalRecalibrator`.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> y = np.random.default_rng(1).normal(size=1000)
    >>> rc = nc.GlobalRecalibrator().fit(nc.Normal(np.zeros(1000), 2.0), y)
    >>> rc.recalibrate(nc.Normal([0.0, 10.0], 2.0)).std().round(1)
    array([1., 1.])
    """

    def __init__(self, *, quantile_rule: QuantileRule = "step") -> None:
        self.quantile_rule = quantile_rule

    def _learn(self, z: FloatArray) -> Curve | EqualSteps:
        check_choice(self.quantile_rule, QUANTILE_RULES, "quantile_rule")
        steps = EqualSteps(CalibrationScores(z), conservative=self.quantile_rule == "conservative")
        if self.quantile_rule not in CONTINUOUS_RULES:
            return steps
        return steps.curve(predictive=self.quantile_rule == "predictive")


@savable(n_cal_=count(), z_=float_array(1), law_=instance(Curve))
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

    def _learn(self, z: FloatArray) -> Curve:
        largest = np.abs(z).max()
        if not largest > 0:
            raise InvalidInputError(
                "y_cal must not equal the median of dist_cal in every row: no factor on the spread describes that; "
                "use more calibration points"
            )
        factor = float(largest * np.sqrt(np.mean((z / largest) ** 2)))  # z² may overflow
        knots = np.array([-1.0, 1.0])
        return Curve.shared(knots, factor * knots)


@savable(n_cal_=count(), z_=float_array(1), law_=instance(Curve))
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

    def _learn(self, z: FloatArray) -> Curve:
        before, counts = np.unique(z, return_counts=True)
        if len(before) < 2:
            raise InvalidInputError(
                f"y_cal must give at least two different PIT values, got {len(z)} rows that all have the normal score "
                f"{before[0]!r}; use more calibration points"
            )
        below = np.cumsum(counts) - counts / 2
        above = len(z) - below
        # a frequency is inverted from its nearer end, so that the map is symmetric
        return Curve.shared(np.where(below < above, ndtri(below / len(z)), -ndtri(above / len(z))), before)


class ConformalDistribution(Recalibrated):
    """Conformal predictive distributions, made by :class:`ConformalRecalibrator`.

    With the n sorted calibration scores z_(1) <= … <= z_(n), a new response is as likely to fall into any of the n + 1
    gaps between them. That fixes the distribution function only up to a band of height 1/(n + 1) (Vovk's fuzzy
    distribution, whose two edges are :meth:`cdf_bounds`):

    - ``interval``, :meth:`quantile_bounds`: outward order statistics, with the guarantee. An end is infinite (or the
      end of the support) when n points cannot give the coverage asked for: a central interval of coverage c needs
      n >= 2 / (1 - c) - 1.
    - ``cdf``, ``ppf``, ``pdf``, ``mean``, ``var``, ``sample``, ``z``: one distribution inside the band, equal to
      i/(n + 1) at z_(i), linear in between on the scale of normal scores and with Normal tails on that scale. Its
      quantiles are within 1/(n + 1) of their level; where (n + 1) p is a whole number they are exact. Equal calibration
      scores are an atom.
    """

    def interval(self, coverage: Any = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return a central interval that holds a new response with probability at least ``coverage``, a scalar or (q,).

        The probability is over calibration set and new point together. Ends may be infinite. The interval holds the
        one between ``ppf`` at the same two levels.
        """
        lower, upper = central_levels(coverage)
        return self.quantile_bounds(lower)[0], self.quantile_bounds(upper)[1]

    def summary(self, coverage: float = 0.95, p: Any = (), y: Any = None) -> Summary:
        """Return the usual statistics; ``lower`` and ``upper`` are the ends of :meth:`interval`."""
        lower, upper = self.interval(check_coverage(coverage))
        return replace(super().summary(coverage, p, y), lower=lower, upper=upper)

    def quantile_bounds(self, p: Any) -> tuple[FloatArray, FloatArray]:
        """Return the conformal quantiles (lower, upper): P(Y < lower) <= p and P(Y <= upper) >= p.

        They are the order statistics of rank ⌊(n + 1) p⌋ and ⌈(n + 1) p⌉; ranks 0 and n + 1 are the support's ends.

        Parameters
        ----------
        p : array_like
            Probabilities: a scalar or (q,).

        Returns
        -------
        lower, upper : ndarray
            Each (m,) for a scalar, else (m, q), for m rows.
        """
        levels = as_levels(p)
        if levels.ndim > 1:
            raise InvalidInputError(f"p must be a scalar or have shape (q,), got {levels.shape}")
        size = len(self._knots) + 1
        lower = self._order_statistics(np.floor(size * (levels + LEVEL_TOLERANCE)))
        upper = self._order_statistics(np.ceil(size * (levels - LEVEL_TOLERANCE)))
        return lower, upper

    def cdf_bounds(self, y: Any) -> tuple[FloatArray, FloatArray]:
        """Return the edges of the conformal distribution function at y; shapes as in ``cdf``.

        They are #{z_i < z} / (n + 1) and (#{z_i <= z} + 1) / (n + 1), with z the score of y.
        """
        scores = self._knots
        size = len(scores) + 1

        def count(side: Any, more: int) -> Any:
            return lambda y: (np.searchsorted(scores, self.base._unbounded_z(y), side=side) + more) / size

        return self._evaluate(count("left", 0), y, "y"), self._evaluate(count("right", 1), y, "y")

    @property
    def _knots(self) -> FloatArray:
        """The sorted calibration scores."""
        assert isinstance(self.scores, OneLaw)
        assert isinstance(self.scores.law, Curve)
        return self.scores.law.line.values[0]

    def _order_statistics(self, ranks: Any) -> FloatArray:
        scores = np.concatenate([[-np.inf], self._knots, [np.inf]])
        index = np.clip(ranks, 0, len(scores) - 1).astype(np.intp)
        with overflow_is_infinite():
            values = self.base._from_z(np.broadcast_to(scores[index], (len(self), index.size)))
        return values[:, 0] if index.ndim == 0 else values


@savable(n_cal_=count(), z_=float_array(1), law_=instance(Curve))
class ConformalRecalibrator(RecalibratorOfAllRows):
    """Recalibrate all predictions alike, with a guarantee that needs no assumption on the model.

    The split conformal predictive system whose conformity score is the normal score Φ⁻¹(F(y)) of the response under its
    prediction. If calibration and new points are exchangeable, ``interval(c)`` of the result holds the new response
    with probability at least c, whatever the model and however few the calibration points, on average over x: nothing
    is said about any one region.

    The guarantee is for continuous base distributions. Ties among scores only make it more cautious.

    References
    ----------
    V. Vovk, I. Petej, I. Nouretdinov, V. Manokhin and A. Gammerman, *Computationally efficient versions of conformal
    predictive distributions*, Neurocomputing 397, 2020, arXiv:1911.00941. V. Vovk, J. Shen,
    V. Manokhin and M. Xie, *Nonparametric predictive distributions based on conformal prediction*, Machine Learning
    108:445-474, 2019, doi:10.1007/s10994-018-5755-8.

    Examples
    --------
    Nineteen points are just enough for 90%, with the outermost two as ends, and too few for 95%:

    >>> import numpy as np, nearcal as nc
    >>> y = np.arange(-9.0, 10.0)
    >>> out = nc.ConformalRecalibrator().fit(nc.Normal(np.zeros(19), 1.0), y).recalibrate(nc.Normal(100.0, 1.0))
    >>> out.interval(0.9)
    (array([91.]), array([109.]))
    >>> out.interval(0.95)
    (array([-inf]), array([inf]))
    """

    def recalibrate(self, dist_new: Distribution, space_new: Any = None) -> ConformalDistribution:
        """Return the conformal predictive distributions of new rows; ``space_new`` is ignored."""
        self._require_fitted()
        return ConformalDistribution(require_distribution(dist_new, "dist_new"), OneLaw(self.law_, self.n_cal_))

    def _learn(self, z: FloatArray) -> Curve:
        before = np.sort(z)
        if before[0] == before[-1]:
            raise InvalidInputError(
                f"y_cal must give at least two different scores, got {len(z)} rows that all have the normal score "
                f"{before[0]!r}; use more calibration points"
            )
        rank = np.arange(1, len(z) + 1)
        # ranks are inverted from their nearer end, so that the map is symmetric
        low, high = rank / (len(z) + 1), rank[::-1] / (len(z) + 1)
        return Curve.shared(np.where(low < high, ndtri(low), -ndtri(high)), before)
