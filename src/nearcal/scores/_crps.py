"""The continuous ranked probability score."""

from typing import Any

from nearcal._arrays import FloatArray, as_response
from nearcal.distributions import Distribution
from nearcal.distributions import require_distribution

# imported for the families they register
from nearcal.scores import _crps_families, _crps_mixture, _crps_recalibrated, _crps_sample  # noqa: F401
from nearcal.scores._crps_rows import crps_rows


def crps(dist: Distribution, y: Any) -> FloatArray:
    """Return the continuous ranked probability score of every observation; lower is better.

    ``CRPS(F, y) = ∫ (F(x) - 1{x >= y})² dx = E|X - y| - ½ E|X - X'|``, in the unit of the response.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.

    Returns
    -------
    ndarray of shape (n,)
        Infinite where the predictive distribution has no mean, such as Student's t with df <= 1: outside the
        distributions with a mean the score is not proper.

    Notes
    -----
    Never by simulation:

    - Normal, LogNormal, Gamma, StudentT, Laplace and mixtures of Normal distributions: closed forms;
    - Samples: of the weighted draws, whatever their ``tails``; recalibrated distributions under the step and
      conservative rules: of their weighted sample, computed in chunks. Both exact, as sums over the sorted sample;
    - Quantiles, and recalibrated Normal distributions under the interpolated rule: exact, piece by piece;
    - all else: adaptive quadrature, to about 1e-11 of the score.

    References
    ----------
    T. Gneiting and A. E. Raftery, *Strictly proper scoring rules, prediction, and estimation*, JASA 102 (2007),
    doi:10.1198/016214506000001437.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.scores.crps(nc.Normal(0.0, [1.0, 10.0]), [0.5, 0.5]).round(4)
    array([0.3314, 2.3469])
    """
    dist = require_distribution(dist, "dist")
    return crps_rows(dist, as_response(y, len(dist), "y"))
