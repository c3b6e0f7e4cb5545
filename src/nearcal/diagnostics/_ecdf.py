"""The empirical cdf of PIT values with a band that holds all of it at once."""

from functools import lru_cache
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, check_count
from nearcal._table import Table
from nearcal.diagnostics._uniformity import as_pit
from nearcal.distributions.base import interval_levels

_HALVINGS = 14  # of the pointwise level between Bonferroni's and the band's: to 1e-4 of their distance


def pit_ecdf(p: Any, points: int = 100, *, band: float = 0.95) -> Table:
    """Return the empirical cdf of PIT values on a grid, with a simultaneous band.

    Parameters
    ----------
    p : array_like of shape (n,)
        PIT values in [0, 1].
    points : int
        Number of steps of the grid u = 0, 1/points, …, 1.
    band : float
        Probability with which the empirical cdf of n independent uniform values lies in the band at *all* points.

    Returns
    -------
    Table
        ``u``, the share ``ecdf`` of values <= u, and the band's limits ``lower`` and ``upper``.

    Notes
    -----
    The band of Säilynoja, Bürkner and Vehtari: at every u the central range of a binomial(n, u) count, all at one
    pointwise level, which is chosen such that the whole holds with probability ``band``; it is narrow at the ends,
    where the Dvoretzky-Kiefer-Wolfowitz band is not. That probability is computed exactly, from a Poisson process
    held at its total; the level is the widest that counts, being whole numbers, allow. It takes the predictive
    distributions as given: see :func:`uniformity_tests` on what recalibration on a small calibration set adds.

    References
    ----------
    T. Säilynoja, P.-C. Bürkner and A. Vehtari, *Graphical test for discrete uniformity and its applications in
    goodness-of-fit evaluation and multiple sample comparison*, Stat. Comput. 32 (2022), arXiv:2103.10522.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> table = nc.diagnostics.pit_ecdf((np.arange(50) + 0.5) / 50, points=4)
    >>> print(table)
       u  ecdf  lower  upper
       0     0      0      0
    0.25  0.26   0.12    0.4
     0.5   0.5   0.34   0.66
    0.75  0.76    0.6   0.88
       1     1      1      1
    """
    values, points = as_pit(p), check_count(points, "points", 2)
    interval_levels(band)
    lower, upper = _simultaneous_counts(len(values), points, float(band))
    u = np.arange(points + 1) / points
    ecdf = np.searchsorted(values, u, side="right") / len(values)
    return Table({"u": u, "ecdf": ecdf, "lower": lower / len(values), "upper": upper / len(values)})


@lru_cache(maxsize=64)
def _simultaneous_counts(n: int, points: int, band: float) -> FloatArray:
    """Return the limits of the counts at the points of the grid, shape (2, points + 1)."""
    wide, narrow = (1 - band) / points, 1 - band  # Bonferroni's level always holds, the pointwise one never
    for _ in range(_HALVINGS):
        level = (wide + narrow) / 2
        if probability_inside(n, *_pointwise_counts(n, points, level)) >= band:
            wide = level
        else:
            narrow = level
    return _pointwise_counts(n, points, wide)


def _pointwise_counts(n: int, points: int, level: float) -> FloatArray:
    from scipy.stats import binom

    u = np.arange(points + 1) / points
    return np.maximum(binom.ppf([[level / 2], [1 - level / 2]], n, u), 0.0)  # scipy gives -1 at u = 0


def probability_inside(n: int, lower: FloatArray, upper: FloatArray) -> float:
    """Return the probability that counts of n uniform values below j/points, j = 0, 1, …, stay in [lower, upper].

    Counts of a Poisson process of rate n add up independently; given that n come in all, they are those of n uniform
    values.
    """
    from scipy.stats import poisson

    low, high = lower.astype(int), upper.astype(int)
    inside = np.ones(1)
    for j in range(1, len(low)):
        steps = np.arange(high[j] - low[j - 1] + 1)
        reached = np.convolve(inside, poisson.pmf(steps, n / (len(low) - 1)))
        inside = reached[low[j] - low[j - 1] : high[j] - low[j - 1] + 1]
    return float(inside[-1] / poisson.pmf(n, n))
