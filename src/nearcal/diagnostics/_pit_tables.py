"""PIT values as tables to be drawn: histograms, the empirical cdf and reliability, with what chance explains."""

from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from nearcal._arrays import FloatArray, check_choice, check_count
from nearcal._errors import InvalidInputError
from nearcal._table import Table
from nearcal.diagnostics.groups import clopper_pearson
from nearcal.diagnostics.pit_values import as_inner_levels, as_pit
from nearcal.diagnostics.regions import Regions, as_regions
from nearcal.distributions import interval_levels

_HALVINGS = 14  # of the pointwise level between Bonferroni's and the band's: to 1e-4 of their distance
_LEVELS = np.concatenate([[0.01, 0.025, 0.05], np.arange(1, 10) / 10, [0.95, 0.975, 0.99]])
ReliabilityKind = Literal["quantile", "interval"]


def pit_histogram(p: Any, bins: int = 20, *, band: float = 0.95) -> Table:
    """Count PIT values in bins of equal width.

    Parameters
    ----------
    p : array_like of shape (n,)
        PIT values in [0, 1].
    bins : int
        Number of bins.
    band : float
        Probability with which *all* bars of a histogram of n independent uniform values lie in the band, at least.

    Returns
    -------
    Table
        One row a bin: its ends ``left`` and ``right``, the ``count``, the ``density`` count · bins / n, and the band's
        limits ``lower`` and ``upper`` of the density.

    Notes
    -----
    A count of uniform values is binomial(n, 1/bins). The band holds its central 1 - (1 - band) / bins, so that by
    Bonferroni's inequality it holds all bins at once. It takes the predictive distributions as given: see
    :func:`uniformity_tests` on what recalibration on a small calibration set adds.

    Examples
    --------
    >>> import nearcal as nc
    >>> print(nc.diagnostics.pit_histogram([0.1, 0.2, 0.3, 0.9], bins=2))
    left  right  count  density  lower  upper
       0    0.5      3      1.5      0      2
     0.5      1      1      0.5      0      2
    """
    values, bins = as_pit(p), check_count(bins, "bins")
    return Table(_histogram(values, bins, band))


def local_pit_histograms(p: Any, regions: Regions | Any, bins: int = 10, *, band: float = 0.95) -> Table:
    """Count PIT values in bins, region by region.

    Parameters
    ----------
    p : array_like of shape (n,)
        PIT values in [0, 1].
    regions : Regions or array_like of shape (n,)
        Regions made by :func:`kmeans_regions`, :func:`nearest_regions` or :func:`group_regions`, or a label a row.
    bins : int
        Number of bins.
    band : float
        As in :func:`pit_histogram`, for each region by itself.

    Returns
    -------
    Table
        ``region``, then the columns of :func:`pit_histogram`: one row a region and bin.

    Examples
    --------
    >>> import nearcal as nc
    >>> table = nc.diagnostics.local_pit_histograms([0.1, 0.2, 0.3, 0.9], ["a", "a", "b", "b"], bins=2)
    >>> table["region"].tolist(), table["count"].tolist()
    (['a', 'a', 'b', 'b'], [2, 0, 1, 1])
    """
    as_pit(p)
    values, bins = np.asarray(p, dtype=np.float64), check_count(bins, "bins")
    if isinstance(regions, int | np.integer):
        raise InvalidInputError(
            f"regions must be Regions or a label a row, got {regions!r}; use nearcal.diagnostics.kmeans_regions"
        )
    chosen = as_regions(regions, None, len(values), None)
    parts = [_histogram(values[rows], bins, band) for rows in chosen.rows]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Table({"region": np.repeat(chosen.names, bins), **columns})


def _histogram(values: FloatArray, bins: int, band: float) -> dict[str, Any]:
    from scipy.stats import binom

    n, edges = len(values), np.arange(bins + 1) / bins
    count = np.histogram(values, edges)[0]
    lower, upper = binom.ppf(interval_levels(1 - (1 - band) / bins), n, 1 / bins) * bins / n
    limits = {"lower": np.full(bins, lower), "upper": np.full(bins, upper)}
    return {"left": edges[:-1], "right": edges[1:], "count": count, "density": count * bins / n, **limits}


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


def reliability(
    p: Any, levels: Any = _LEVELS, *, kind: ReliabilityKind = "quantile", confidence: float = 0.95
) -> Table:
    """Return the observed share of what is predicted to happen with probability ``level``.

    Parameters
    ----------
    p : array_like of shape (n,)
        PIT values in [0, 1].
    levels : array_like of shape (q,)
        Nominal levels, strictly between 0 and 1.
    kind : {"quantile", "interval"}
        The share of observations below the predicted quantile of that level, or inside the central interval of that
        coverage.
    confidence : float
        Level of the confidence limits, each level by itself.

    Returns
    -------
    Table
        ``level``, the share ``observed``, and its exact (Clopper-Pearson) confidence limits ``lower`` and ``upper``.

    Examples
    --------
    >>> import nearcal as nc
    >>> print(nc.diagnostics.reliability([0.1, 0.2, 0.3, 0.9], [0.25, 0.5]))
    level  observed    lower   upper
     0.25       0.5  0.06759  0.9324
      0.5      0.75   0.1941  0.9937
    """
    values = as_pit(p)
    check_choice(kind, get_args(ReliabilityKind), "kind")
    level = as_inner_levels(levels)
    depth = values if kind == "quantile" else np.sort(np.abs(2 * values - 1))
    count = np.searchsorted(depth, level, side="right")
    lower, upper = clopper_pearson(count, len(values), confidence)
    return Table({"level": level, "observed": count / len(values), "lower": lower, "upper": upper})
