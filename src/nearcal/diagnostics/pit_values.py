"""PIT values, the coverage of central intervals, and how far PIT values are from uniform."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from nearcal._arrays import FloatArray, as_float_array, as_generator, as_response, check_count, require_finite
from nearcal._errors import InvalidInputError
from nearcal._table import Table
from nearcal.distributions import Distribution, Seed, as_levels, check_coverage, require_distribution

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
    generator = as_generator(rng)
    if dist.is_continuous:
        return dist.cdf(response)
    share = dist.resolution()
    lower, upper = dist.cdf_left(response), dist.cdf(response) + share
    u = generator.uniform(size=len(response))
    return (lower + u * (upper - lower)) / (1 + share)


def as_pit(p: Any) -> FloatArray:
    """Validate PIT values and sort them."""
    array = as_float_array(p, "p")
    if array.ndim != 1 or len(array) == 0:
        raise InvalidInputError(f"p must have shape (n,) with n >= 1, got {array.shape}; use nearcal.diagnostics.pit")
    require_finite(array, "p")
    if array.min() < 0 or array.max() > 1:
        raise InvalidInputError(
            f"p must hold PIT values in [0, 1], got {array.min()!r} to {array.max()!r}; use nearcal.diagnostics.pit"
        )
    return np.sort(array)


def is_covered(dist: Distribution, y: Any, coverage: float) -> NDArray[np.bool_]:
    """Tell which responses lie in the central intervals, ends included."""
    response = as_response(y, len(require_distribution(dist, "dist")), "y")
    lower, upper = dist.interval(check_coverage(coverage))
    return (lower <= response) & (response <= upper)


def as_inner_levels(levels: Any) -> FloatArray:
    """Validate nominal levels strictly between 0 and 1; returns (q,)."""
    array = np.atleast_1d(as_levels(levels))
    if array.ndim > 1 or not ((array > 0) & (array < 1)).all():
        raise InvalidInputError(f"levels must be numbers strictly between 0 and 1, shape (q,), got {levels!r}")
    return array


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
    level = as_inner_levels(levels)
    quantiles = dist.ppf(np.concatenate([0.5 - level / 2, 0.5 + level / 2]))
    lower, upper = quantiles[:, : len(level)], quantiles[:, len(level) :]
    observed = ((lower <= response) & (response <= upper)).mean(axis=0)
    standard_error = np.sqrt(level * (1 - level) / len(response))
    return Table({"level": level, "coverage": observed, "se": standard_error, "width": (upper - lower).mean(axis=0)})


#: Levels at which the probabilistic calibration error is taken.
PCE_LEVELS = np.arange(1, 100) / 100


def pit_distances(p: Any) -> Table:
    """Return the distances of PIT values from the uniform distribution, with their floors.

    Parameters
    ----------
    p : array_like of shape (n,)
        PIT values in [0, 1].

    Returns
    -------
    Table
        ``distance``, ``value`` and ``floor``, the mean of the distance for n uniform values: what a perfectly
        calibrated forecast would show.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> print(nc.diagnostics.pit_distances(np.random.default_rng(1).uniform(size=1000)))
    distance              value      floor
    wasserstein        0.007378    0.00991
    cramer-von-mises  7.358e-05  0.0001667
    pce                0.007495   0.009993
    """
    values = as_pit(p)
    n = len(values)
    fine = (np.arange(2000) + 0.5) / 2000  # the Wasserstein distance is the error averaged over all levels
    return Table(
        {
            "distance": ["wasserstein", "cramer-von-mises", "pce"],
            "value": [wasserstein(values), cramer_von_mises(values), pce(values)],
            "floor": [float(binomial_deviation(n, fine).mean()), 1 / (6 * n), pce_floor(n)],
        }
    )


def wasserstein(p: Any) -> float:
    """Return the first Wasserstein distance of PIT values from uniform, ``∫ |F_n(u) - u| du``; between 0 and ½.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.diagnostics.wasserstein([0.5])
    0.25
    """
    values = as_pit(p)
    n = len(values)  # scipy's wasserstein_distance compares two samples, not a sample and the uniform distribution
    low, high = np.arange(n) / n - values, (np.arange(n) + 1) / n - values
    # ∫ |v - U_(i)| dv over the i-th n-th of the unit interval
    return float(np.sum(high * np.abs(high) - low * np.abs(low)) / 2)


def cramer_von_mises(p: Any) -> float:
    """Return the Cramér-von Mises distance of PIT values from uniform, ∫ (F_n(u) - u)² du.

    Examples
    --------
    >>> import nearcal as nc
    >>> round(nc.diagnostics.cramer_von_mises([0.5]), 4)
    0.0833
    """
    values = as_pit(p)
    n = len(values)
    return float(1 / (12 * n**2) + np.mean((values - (np.arange(n) + 0.5) / n) ** 2))


def pce(p: Any) -> float:
    """Return the probabilistic calibration error of PIT values.

    That is how far the share of values up to u is from u, in absolute terms, averaged over u = 1%, …, 99%.

    References
    ----------
    V. Dheur and S. Ben Taieb, *A large-scale study of probabilistic calibration in neural network regression*, ICML
    2023, arXiv:2306.02738.

    Examples
    --------
    >>> import nearcal as nc
    >>> round(nc.diagnostics.pce([0.25, 0.75]), 4)
    0.1263
    """
    values = as_pit(p)
    share = np.searchsorted(values, PCE_LEVELS, side="right") / len(values)
    return float(np.abs(share - PCE_LEVELS).mean())


def pce_floor(n: int) -> float:
    """Return the mean :func:`pce` of a perfectly calibrated forecast of n independent observations, exactly.

    Examples
    --------
    >>> import nearcal as nc
    >>> round(nc.diagnostics.pce_floor(100), 4)
    0.0315
    """
    return float(binomial_deviation(check_count(n, "n"), PCE_LEVELS).mean())


def binomial_deviation(n: Any, level: Any) -> FloatArray:
    """Return E|K/n - level| for K binomial(n, level): de Moivre's 2 m C(n, m) level^m (1 - level)^(n - m + 1) / n."""
    n, level = np.asarray(n, dtype=np.float64), np.asarray(level, dtype=np.float64)
    m = np.floor(n * level) + 1
    log_choose = gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1)
    return 2 * m / n * np.exp(log_choose + xlogy(m, level) + xlog1py(n - m + 1, -level))
