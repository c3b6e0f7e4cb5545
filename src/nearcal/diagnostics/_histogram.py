"""Histograms of PIT values, overall and by region, with the band that uniform values stay in."""

from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, check_count
from nearcal._errors import InvalidInputError
from nearcal._table import Table
from nearcal.diagnostics._regions import Regions, as_regions
from nearcal.diagnostics._uniformity import as_pit
from nearcal.distributions.base import interval_levels


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
    found = as_regions(_no_number(regions), None, len(values), None)
    parts = [_histogram(values[rows], bins, band) for rows in found.rows]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Table({"region": np.repeat(found.names, bins), **columns})


def _no_number(regions: Any) -> Any:
    if isinstance(regions, int | np.integer):
        raise InvalidInputError(
            f"regions must be Regions or a label a row, got {regions!r}; use nearcal.diagnostics.kmeans_regions"
        )
    return regions


def _histogram(values: FloatArray, bins: int, band: float) -> dict[str, Any]:
    from scipy.stats import binom

    n, edges = len(values), np.arange(bins + 1) / bins
    count = np.histogram(values, edges)[0]
    lower, upper = binom.ppf(interval_levels(1 - (1 - band) / bins), n, 1 / bins) * bins / n
    limits = {"lower": np.full(bins, lower), "upper": np.full(bins, upper)}
    return {"left": edges[:-1], "right": edges[1:], "count": count, "density": count * bins / n, **limits}
