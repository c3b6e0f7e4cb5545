"""Split conformal predictive systems: finite-sample guarantees from ranks alone."""

from typing import Any

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import InvalidInputError
from nearcal._normal_scores import LEVEL_TOLERANCE
from nearcal._saved import count, instance, savable
from nearcal.distributions import Distribution
from nearcal.distributions._base import as_levels, interval_levels
from nearcal.recalibration._base import require_distribution
from nearcal.recalibration._mapped import MappedDistribution, ScoreMapRecalibrator
from nearcal.recalibration._score_map import ScoreMap


class ConformalDistribution(MappedDistribution):
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

    def interval(self, coverage: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return a central interval that holds a new response with probability at least ``coverage``.

        The probability is over calibration set and new point together. Ends may be infinite. The interval holds the
        one between ``ppf`` at the same two levels.
        """
        lower, upper = interval_levels(coverage)
        return self.quantile_bounds(lower)[0], self.quantile_bounds(upper)[1]

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
        size = len(self.score_map.before_knots) + 1
        lower = self._order_statistics(np.floor(size * (levels + LEVEL_TOLERANCE)))
        upper = self._order_statistics(np.ceil(size * (levels - LEVEL_TOLERANCE)))
        return lower, upper

    def cdf_bounds(self, y: Any) -> tuple[FloatArray, FloatArray]:
        """Return the edges of the conformal distribution function at y; shapes as in ``cdf``.

        They are #{z_i < z} / (n + 1) and (#{z_i <= z} + 1) / (n + 1), with z the score of y.
        """
        scores = self.score_map.before_knots
        size = len(scores) + 1

        def count(side: Any, more: int) -> Any:
            return lambda y: (np.searchsorted(scores, self.base._unbounded_z(y), side=side) + more) / size

        return self._evaluate(count("left", 0), y, "y"), self._evaluate(count("right", 1), y, "y")

    def _order_statistics(self, ranks: Any) -> FloatArray:
        scores = np.concatenate([[-np.inf], self.score_map.before_knots, [np.inf]])
        index: IntArray = np.clip(ranks, 0, len(scores) - 1).astype(np.intp)
        values = self.base._from_z(np.broadcast_to(scores[index], (len(self), index.size)))
        return values[:, 0] if index.ndim == 0 else values


@savable(score_map_=instance(ScoreMap), n_cal_=count())
class ConformalRecalibrator(ScoreMapRecalibrator):
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
        return ConformalDistribution(require_distribution(dist_new, "dist_new"), self.score_map_)

    def _learn(self, z: FloatArray) -> ScoreMap:
        before = np.sort(z)
        if before[0] == before[-1]:
            raise InvalidInputError(
                f"y_cal must give at least two different scores, got {len(z)} rows that all have the normal score "
                f"{before[0]!r}; use more calibration points"
            )
        rank = np.arange(1, len(z) + 1)
        # ranks are inverted from their nearer end, so that the map is symmetric
        low, high = rank / (len(z) + 1), rank[::-1] / (len(z) + 1)
        return ScoreMap(np.where(low < high, ndtri(low), -ndtri(high)), before)
