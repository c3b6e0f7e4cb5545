"""Predictive distributions as curves and intervals: tables to be drawn."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearcal._arrays import as_float_array, as_response, check_count
from nearcal._errors import InvalidInputError
from nearcal._table import Table
from nearcal.distributions import Distribution
from nearcal.distributions.base import as_levels
from nearcal.distributions import require_distribution

_SPAN = (0.001, 0.999)


def density_curves(dists: Mapping[str, Distribution], points: int = 200, *, span: Any = _SPAN) -> Table:
    """Return predictive densities on a grid, for every method and row.

    Parameters
    ----------
    dists : mapping of str to Distribution
        Methods by name, each the same r rows, such as ``{"before": dist[rows], "after": out[rows]}``.
    points : int
        Number of values of the response at which the densities are taken.
    span : array_like of shape (2,)
        The grid of a row runs from the least quantile of the first level to the largest of the second, over methods.

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
    before    0  -6.18   0.001684
    before    0      0     0.1995
    before    0   6.18   0.001684
    after     0  -6.18  2.024e-09
    after     0      0     0.3989
    after     0   6.18  2.024e-09
    """
    if not isinstance(dists, Mapping) or not dists:
        raise InvalidInputError('dists must be a non-empty mapping of names to distributions, such as {"base": dist}')
    rows = {len(require_distribution(dist, f"dists[{name!r}]")) for name, dist in dists.items()}
    if len(rows) > 1:
        raise InvalidInputError(f"dists must all have the same rows, got {sorted(rows)} rows; slice them alike")
    points, count = check_count(points, "points", 2), rows.pop()
    ends = np.stack([dist.ppf(as_levels(span)) for dist in dists.values()])
    grid = np.linspace(ends[..., 0].min(axis=0), ends[..., 1].max(axis=0), points, axis=1)
    return Table(
        {
            "method": np.repeat(list(dists), count * points),
            "row": np.tile(np.repeat(np.arange(count), points), len(dists)),
            "y": np.tile(grid.ravel(), len(dists)),
            "density": np.concatenate([dist.pdf(grid).ravel() for dist in dists.values()]),
        }
    )


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
    lower, upper = dist.interval(coverage)
    median = dist.median()
    rank = np.argsort(np.argsort(median, kind="stable"))
    place = rank if x is None else as_response(as_float_array(x, "x"), len(dist), "x")
    order = np.argsort(place, kind="stable")
    covered = (lower <= response) & (response <= upper)
    columns = {"x": place, "lower": lower, "median": median, "upper": upper, "y": response, "covered": covered}
    return Table({name: values[order] for name, values in columns.items()})
