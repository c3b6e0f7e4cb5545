"""Predictive distributions as curves and intervals: tables to be drawn."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, as_float_array, as_response, check_count
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._table import Table
from nearcal.distributions import Distribution, as_levels, check_coverage, require_distribution

_SPAN = (0.001, 0.999)


def density_curves(
    dists: Mapping[str, Distribution], points: int = 200, *, span: Any = _SPAN, window: float = 0.025
) -> Table:
    """Return predictive densities on a grid, for every method and row, each the average over a window around it.

    An average, ``(cdf(b) - cdf(a)) / (b - a)``, exists for every distribution, also for one with atoms, and is smooth
    where the density of one made of many draws is not.

    Parameters
    ----------
    dists : mapping of str to Distribution
        Methods by name, each the same r rows, such as ``{"before": dist[rows], "after": out[rows]}``.
    points : int
        Number of values of the response at which the densities are taken.
    span : array_like of shape (2,)
        The grid of a row runs from the least quantile of the first level to the largest of the second, over methods.
    window : float
        Width b - a of the windows, as a share of the grid's; less shows more detail and more noise.

    Returns
    -------
    Table
        ``method``, ``row`` (0, …, r - 1), ``y`` and ``density``.

    Examples
    --------
    >>> import nearcal as nc
    >>> table = nc.diagnostics.density_curves({"before": nc.Normal(0.0, 2.0), "after": nc.Normal(0.0, 1.0)}, 3)
    >>> print(table)
    method  row      y    density
    before    0  -6.18   0.001698
    before    0      0     0.1993
    before    0   6.18   0.001698
    after     0  -6.18  2.336e-09
    after     0      0     0.3974
    after     0   6.18  2.336e-09
    """
    if not isinstance(dists, Mapping) or not dists:
        raise InvalidInputError('dists must be a non-empty mapping of names to distributions, such as {"base": dist}')
    rows = {len(require_distribution(dist, f"dists[{name!r}]")) for name, dist in dists.items()}
    if len(rows) > 1:
        raise InvalidInputError(f"dists must all have the same rows, got {sorted(rows)} rows; slice them alike")
    points, count = check_count(points, "points", 2), rows.pop()
    if not 0 < window < 1:
        raise InvalidParameterError(f"window must lie strictly between 0 and 1, got {window!r}")
    ends = np.stack([dist.ppf(as_levels(span)) for dist in dists.values()])
    low, high = ends[..., 0].min(axis=0), ends[..., 1].max(axis=0)
    grid = np.linspace(low, high, points, axis=1)
    # where all probability is at one point any width will do
    width = (window * np.where(high > low, high - low, 1.0))[:, np.newaxis]
    return Table(
        {
            "method": np.repeat(list(dists), count * points),
            "row": np.tile(np.repeat(np.arange(count), points), len(dists)),
            "y": np.tile(grid.ravel(), len(dists)),
            "density": np.concatenate([_average(dist, grid, width).ravel() for dist in dists.values()]),
        }
    )


def _average(dist: Distribution, y: FloatArray, width: FloatArray) -> FloatArray:
    """Return the average density over windows of this width around y."""
    # what the subtraction rounds away in the upper tail, 1e-16 of probability, does not show in a drawing
    return (dist.cdf(y + width / 2) - dist.cdf(y - width / 2)) / width


def prediction_intervals(dist: Distribution, y: Any, x: Any = None, *, coverage: float = 0.95) -> Table:
    """Return the central interval of every row beside what was observed.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.
    x : array_like of shape (n,), optional
        One number a row to order the rows by, such as a feature; None takes the rank of the median.
    coverage : float
        Nominal coverage.

    Returns
    -------
    Table
        ``x``, ``lower``, ``median``, ``upper``, ``y`` and whether y is ``covered``, sorted by x.

    Examples
    --------
    >>> import nearcal as nc
    >>> print(nc.diagnostics.prediction_intervals(nc.Normal([1.0, 0.0], 1.0), [5.0, 0.5]))
    x  lower  median  upper    y  covered
    0  -1.96       0   1.96  0.5  True
    1  -0.96       1   2.96    5  False
    """
    dist = require_distribution(dist, "dist")
    response = as_response(y, len(dist), "y")
    lower, upper = dist.interval(check_coverage(coverage))
    median = dist.median()
    rank = np.argsort(np.argsort(median, kind="stable"))
    place = rank if x is None else as_response(as_float_array(x, "x"), len(dist), "x")
    order = np.argsort(place, kind="stable")
    covered = (lower <= response) & (response <= upper)
    columns = {"x": place, "lower": lower, "median": median, "upper": upper, "y": response, "covered": covered}
    return Table({name: values[order] for name, values in columns.items()})
