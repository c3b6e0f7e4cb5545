"""Scores of the density and of the mean."""

from typing import Any

from nearcal._arrays import FloatArray, as_response
from nearcal.distributions import Distribution
from nearcal.distributions import require_distribution


def log_score(dist: Distribution, y: Any) -> FloatArray:
    """Return the logarithmic score -log f(y) of every observation; lower is better.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.

    Returns
    -------
    ndarray of shape (n,)
        Infinite where the density is zero.

    Notes
    -----
    The density of Samples and of recalibrated distributions is a kernel estimate: their log score measures that
    estimate too. The CRPS does not.

    References
    ----------
    I. J. Good, *Rational decisions*, JRSS B 14 (1952), doi:10.1111/j.2517-6161.1952.tb00104.x.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.scores.log_score(nc.Normal(0.0, 1.0), [0.0]).round(4)
    array([0.9189])
    """
    dist = require_distribution(dist, "dist")
    return -dist.logpdf(as_response(y, len(dist), "y"))


def squared_error(dist: Distribution, y: Any) -> FloatArray:
    """Return (y - mean)² of every observation; lower is better.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed, or a known true mean.

    Returns
    -------
    ndarray of shape (n,)
        NaN where the predictive distribution has no mean.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.scores.squared_error(nc.Gamma([1.0, 4.0], 1.0), [3.0, 3.0])
    array([4., 1.])
    """
    dist = require_distribution(dist, "dist")
    return (as_response(y, len(dist), "y") - dist.mean()) ** 2
