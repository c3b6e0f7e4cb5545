"""How far PIT values are from uniform, and how far a perfect forecast would be at the same sample size."""

from typing import Any

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from nearcal._arrays import FloatArray, check_count
from nearcal._table import Table
from nearcal.diagnostics._uniformity import as_pit

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
    n = len(values)
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
