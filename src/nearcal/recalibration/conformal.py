"""Conformal predictive distributions: one distribution of scores for all rows, with a guarantee."""

from dataclasses import replace
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, check_number
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._sample_weights import PointWeights
from nearcal._saved import instance, number, optional, require, savable
from nearcal.distributions import Distribution, as_level_row, central_levels, check_coverage, require_distribution
from nearcal.distributions.base import overflow_is_infinite
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.for_all_rows import LEARNT, RecalibratorOfAllRows
from nearcal.recalibration.order_statistics import Masses, OrderStatistics
from nearcal.recalibration.result import Recalibrated, Summary
from nearcal.recalibration.scores_of_rows import OneLaw


class ConformalScores(OneLaw):
    """The law of all rows, with the order statistics that it lies between."""

    def __init__(self, law: Curve, n_cal: int, weights: PointWeights | None, bounds: OrderStatistics) -> None:
        super().__init__(law, n_cal, weights)
        self.bounds = bounds


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

    With weights a_i of calibration points and b of the new one, the score of point i has the probability
    a_i / (Σ a + b) and the band the height b / (Σ a + b). The distribution inside it has at z_(i) what lies below, half
    of the probability of z_(i), and half of the height of the band.
    """

    def interval(self, coverage: Any = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return a central interval that holds a new response with probability at least ``coverage``, a scalar or (q,).

        The probability is over calibration set and new point together. Ends may be infinite. The interval holds the
        one between ``ppf`` at the same two levels.
        """
        below, above = central_levels(coverage)
        lower = self.quantile_bounds(below)[0]
        return lower, np.maximum(lower, self.quantile_bounds(above)[1])  # of close scores, values round apart

    def summary(self, coverage: float = 0.95, p: Any = (), y: Any = None) -> Summary:
        """Return the usual statistics; ``lower`` and ``upper`` are the ends of :meth:`interval`."""
        lower, upper = self.interval(check_coverage(coverage))
        return replace(super().summary(coverage, p, y), lower=lower, upper=upper)

    def quantile_bounds(self, p: Any) -> tuple[FloatArray, FloatArray]:
        """Return the conformal quantiles (lower, upper): P(Y < lower) <= p and P(Y <= upper) >= p.

        They are the order statistics of rank ⌊(n + 1) p⌋ and ⌈(n + 1) p⌉; ranks 0 and n + 1 are the support's ends.
        With weights they are the greatest score with a probability of 1 - p at and above it, and the least with p at
        and below it.

        Parameters
        ----------
        p : array_like
            Probabilities: a scalar or (q,).

        Returns
        -------
        lower, upper : ndarray
            Each (m,) for a scalar, else (m, q), for m rows.
        """
        levels = as_level_row(p)
        lower, upper = self._bounds.quantile_bounds(levels)
        return self._values(lower), self._values(upper)

    def cdf_bounds(self, y: Any) -> tuple[FloatArray, FloatArray]:
        """Return the edges of the conformal distribution function at y; shapes as in ``cdf``.

        They are #{z_i < z} / (n + 1) and (#{z_i <= z} + 1) / (n + 1), with z the score of y; with weights the
        probability of scores below z, and of those at or below z and of the new point.
        """
        edges = [lambda y, side=side: self._bounds.cdf_bounds(self.base._unbounded_z(y))[side] for side in (0, 1)]
        return self._evaluate(edges[0], y, "y"), self._evaluate(edges[1], y, "y")

    @property
    def _bounds(self) -> OrderStatistics:
        assert isinstance(self.scores, ConformalScores)
        return self.scores.bounds

    def _values(self, scores: FloatArray) -> FloatArray:
        """Return the responses at some scores, the same in every row."""
        with overflow_is_infinite():
            values = self.base._from_z(np.broadcast_to(scores, (len(self), scores.size)))
        return values[:, 0] if scores.ndim == 0 else values


@savable(**LEARNT, law_=instance(Curve), new_weight_=optional(number(1.0)))
class ConformalRecalibrator(RecalibratorOfAllRows):
    """Recalibrate all predictions alike, with a guarantee that needs no assumption on the model.

    The split conformal predictive system whose conformity score is the normal score Φ⁻¹(F(y)) of the response under its
    prediction. If calibration and new points are exchangeable, ``interval(c)`` of the result holds the new response
    with probability at least c, whatever the model and however few the calibration points, on average over x: nothing
    is said about any one region.

    The guarantee is for continuous base distributions. Ties among scores only make it more cautious.

    Parameters
    ----------
    new_weight : float, optional
        The weight of a new point, in units of the average weight of calibration points; at least that of the heaviest
        of them, which is the default. Without weights it is 1.

    Notes
    -----
    With ``sample_weight`` in ``fit`` the promise is one of two, and the new point's weight matters for both.

    - Covariate shift (Tibshirani et al.): if calibration points are exchangeable and a new point differs by the
      distribution of x alone, with weights proportional to the ratio of densities of x, new over calibration, the
      interval holds with probability at least c where the ratio of the new point is no larger than ``new_weight``. With
      estimated ratios it holds as far as they are right.
    - Weights fixed beforehand, such as by age (Barber et al.): with probability at least
      c - Σ a_i d_i / (Σ a + b), d_i being the distance in total variation that swapping point i with the new one makes:
      small where those unlike the new point have little weight.

    References
    ----------
    V. Vovk, I. Petej, I. Nouretdinov, V. Manokhin and A. Gammerman, *Computationally efficient versions of conformal
    predictive distributions*, Neurocomputing 397, 2020, arXiv:1911.00941. V. Vovk, J. Shen,
    V. Manokhin and M. Xie, *Nonparametric predictive distributions based on conformal prediction*, Machine Learning
    108:445-474, 2019, doi:10.1007/s10994-018-5755-8. R. J. Tibshirani, R. F. Barber, E. J. Candès and A. Ramdas,
    *Conformal Prediction Under Covariate Shift*, NeurIPS 2019, arXiv:1904.06019. R. F. Barber, E. J. Candès,
    A. Ramdas and R. J. Tibshirani, *Conformal Prediction Beyond Exchangeability*, Annals of Statistics 51:816-845,
    2023, doi:10.1214/23-AOS2276.

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

    new_weight_: float | None  # None where all points weigh the same

    def __init__(self, *, new_weight: float | None = None) -> None:
        self.new_weight = new_weight

    def fit_scores(self, calibration: CalibrationScores) -> Self:
        """Learn from the normal scores of a calibration set, and the weights of its points."""
        new_weight = self._weight_of_new(calibration.weights)
        super().fit_scores(calibration)
        self.new_weight_ = new_weight
        return self

    def recalibrate(self, dist_new: Distribution, space_new: Any = None) -> ConformalDistribution:
        """Return the conformal predictive distributions of new rows; ``space_new`` is ignored."""
        self._require_fitted()
        assert isinstance(self.law_, Curve)
        masses = _masses(self.n_cal_, self.weights_, self.new_weight_)
        bounds = OrderStatistics(self.law_.line.values[0], masses)
        scores = ConformalScores(self.law_, self.n_cal_, self.weights_, bounds)
        return ConformalDistribution(require_distribution(dist_new, "dist_new"), scores)

    def _learn(self, calibration: CalibrationScores) -> Curve:
        before, n = calibration.sorted_z, len(calibration)
        if before[0] == before[-1]:
            raise InvalidInputError(
                f"y_cal must give at least two different scores, got {n} rows that all have the normal score "
                f"{before[0]!r}; use more calibration points"
            )
        weights = None if calibration.weights is None else calibration.weights.take(calibration.order)
        return OrderStatistics(before, _masses(n, weights, self._weight_of_new(weights))).law

    def _weight_of_new(self, weights: PointWeights | None) -> float | None:
        """Return the weight of a new point in units of an average one; None if it is no other than all."""
        heaviest = 1.0 if weights is None else float(weights.relative.max())
        if self.new_weight is None:
            return None if weights is None else heaviest
        check_number(self.new_weight, "new_weight", least=0.0, strict=True)
        if self.new_weight < heaviest:
            raise InvalidParameterError(
                f"new_weight must be at least the weight of the heaviest calibration point, {heaviest:.6g} times the "
                f"average weight, got {self.new_weight!r}; leave it out to take that"
            )
        return None if weights is None and self.new_weight == 1 else float(self.new_weight)

    def _check_learnt(self) -> None:
        super()._check_learnt()
        assert isinstance(self.law_, Curve)
        require(len(self.law_.line.values[0]) == self.n_cal_, "law_ must have n_cal_ knots")
        require(self.weights_ is None or self.new_weight_ is not None, "new_weight_ must be known beside weights_")


def _masses(n: int, weights: PointWeights | None, new_weight: float | None) -> Masses | None:
    """Return the probabilities of scores, given weights in their order; None if all are equal."""
    if new_weight is None:
        return None
    return Masses(np.ones(n) if weights is None else weights.relative, new_weight)
