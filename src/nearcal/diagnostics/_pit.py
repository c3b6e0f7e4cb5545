"""Probability integral transform (PIT) values, and the coverage of central intervals."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, as_response
from nearcal._errors import InvalidInputError
from nearcal._table import Table
from nearcal.distributions import Distribution
from nearcal.distributions.base import Seed, as_levels
from nearcal.distributions import require_distribution

_LEVELS = np.array([0.5, 0.8, 0.9, 0.95, 0.99])


def pit(dist: Distribution, y: Any, rng: Seed = None) -> FloatArray:
    """Return PIT values, uniform on (0, 1) if the predictive distributions are right.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.
    rng : int, numpy.random.Generator or None
        Seed or generator of the randomisation; None draws fresh entropy. Continuous distributions need none.

    Returns
    -------
    ndarray of shape (n,)

    Notes
    -----
    F(y) where F is continuous. At an atom, uniform between P(Y < y) and P(Y <= y). A distribution known through s
    equally weighted draws (Samples with empirical tails, recalibrated distributions under the step and conservative
    rules) cannot tell probabilities closer than a draw: y is ranked among the draws *and itself*, so that the value
    is uniform between r/(s + 1) and (r + 1)/(s + 1) with r draws below it. For draws from the distribution of y this
    is exactly uniform, while r/s is not and puts y beyond all draws at 0 or 1. With weights, s is the effective size.

    References
    ----------
    C. Czado, T. Gneiting and L. Held, *Predictive model assessment for count data*, Biometrics 65 (2009),
    doi:10.1111/j.1541-0420.2009.01191.x.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.diagnostics.pit(nc.Normal(0.0, 1.0), [0.0])
    array([0.5])
    >>> ensemble = nc.Samples([[1.0, 2.0, 3.0]], tails="empirical")
    >>> 0.5 < nc.diagnostics.pit(ensemble, [2.5], rng=1)[0] < 0.75
    np.True_
    """
    dist = require_distribution(dist, "dist")
    response = as_response(y, len(dist), "y")
    if dist.is_continuous:
        return dist.cdf(response)
    share = dist._resolution()
    lower, upper = dist.cdf_left(response), dist.cdf(response) + share
    u = np.random.default_rng(rng).uniform(size=len(response))
    return (lower + u * (upper - lower)) / (1 + share)


def is_covered(dist: Distribution, y: FloatArray, coverage: float) -> NDArray[np.bool_]:
    """Tell which responses lie in the central intervals, ends included."""
    lower, upper = dist.interval(coverage)
    return (lower <= y) & (y <= upper)


def coverage(dist: Distribution, y: Any, levels: Any = _LEVELS) -> Table:
    """Return the observed coverage of central intervals at several nominal levels.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.
    levels : array_like of shape (q,)
        Nominal coverages, strictly between 0 and 1.

    Returns
    -------
    Table
        ``level``, ``coverage``, its standard error ``se`` were the level right, sqrt(level (1 - level) / n), and the
        mean ``width`` of the intervals.

    Examples
    --------
    >>> import nearcal as nc
    >>> print(nc.diagnostics.coverage(nc.Normal([0.0] * 4, 1.0), [0.0, 0.5, 1.0, 2.0], [0.5, 0.9]))
    level  coverage    se  width
      0.5       0.5  0.25  1.349
      0.9      0.75  0.15   3.29
    """
    dist = require_distribution(dist, "dist")
    response = as_response(y, len(dist), "y")[:, np.newaxis]
    level = np.atleast_1d(as_levels(levels))
    if level.ndim > 1 or not ((level > 0) & (level < 1)).all():
        raise InvalidInputError(f"levels must be numbers strictly between 0 and 1, shape (q,), got {levels!r}")
    quantiles = dist.ppf(np.concatenate([0.5 - level / 2, 0.5 + level / 2]))
    lower, upper = quantiles[:, : len(level)], quantiles[:, len(level) :]
    observed = ((lower <= response) & (response <= upper)).mean(axis=0)
    standard_error = np.sqrt(level * (1 - level) / len(response))
    return Table({"level": level, "coverage": observed, "se": standard_error, "width": (upper - lower).mean(axis=0)})
