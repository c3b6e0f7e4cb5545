"""Coverage over groups, and how far it strays."""

from typing import Any

import numpy as np

from nearcal._arrays import as_response
from nearcal._table import Table
from nearcal.diagnostics._distances import binomial_deviation
from nearcal.diagnostics._multiplicity import Correction, adjust
from nearcal.diagnostics._pit import is_covered
from nearcal.diagnostics._regions import Regions, as_regions
from nearcal.distributions import Distribution
from nearcal.distributions.base import Seed
from nearcal.distributions import require_distribution


def group_coverage(
    dist: Distribution,
    y: Any,
    groups: Regions | Any,
    *,
    coverage: float = 0.95,
    correction: Correction = "fdr",
) -> Table:
    """Return the coverage of central intervals in every group.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.
    groups : array_like of shape (n,), or Regions
        A label a row, or regions made by :func:`kmeans_regions` and the like.
    coverage : float
        Nominal coverage.
    correction : {"fdr", "holm", "none"}
        Correction of the p-values for the number of groups.

    Returns
    -------
    Table
        ``group``, ``n``, ``coverage``, ``gap`` to the nominal coverage, exact (Clopper-Pearson) 95% confidence limits
        ``lower`` and ``upper``, and the binomial test's ``p_value`` and ``p_adjusted``.

    Examples
    --------
    >>> import nearcal as nc
    >>> dist = nc.Normal([0.0] * 4, 1.0)
    >>> nc.diagnostics.group_coverage(dist, [0.0, 1.0, 5.0, 0.0], ["a", "a", "b", "b"])["coverage"]
    array([1. , 0.5])
    """
    from scipy.stats import binomtest

    dist = require_distribution(dist, "dist")
    covered = is_covered(dist, as_response(y, len(dist), "y"), coverage)
    found = as_regions(groups, None, len(dist), None)
    tests = [binomtest(int(covered[rows].sum()), len(rows), coverage) for rows in found.rows]
    limits = [test.proportion_ci() for test in tests]
    observed = np.array([covered[rows].mean() for rows in found.rows])
    p_values = np.array([test.pvalue for test in tests])
    return Table(
        {
            "group": found.names,
            "n": [len(rows) for rows in found.rows],
            "coverage": observed,
            "gap": observed - coverage,
            "lower": [limit.low for limit in limits],
            "upper": [limit.high for limit in limits],
            "p_value": p_values,
            "p_adjusted": adjust(p_values, correction),
        }
    )


def coverage_gap(
    dist: Distribution,
    y: Any,
    groups: int | Regions | Any,
    space: Any = None,
    *,
    coverage: float = 0.95,
    rng: Seed = 0,
) -> Table:
    """Return how far the coverage strays from nominal over groups, in one row.

    Parameters
    ----------
    dist, y, coverage
        As in :func:`group_coverage`.
    groups : int, Regions or array_like of shape (n,)
        As ``regions`` in :func:`local_calibration`.
    space : array_like of shape (n, d), optional
        Needed when ``groups`` is a number.
    rng : int, numpy.random.Generator or None
        Seed or generator for clusters.

    Returns
    -------
    Table
        ``mean_gap``, the mean over groups of ``|coverage - nominal|``; ``floor``, its mean were the coverage nominal in
        every group; ``worst_gap`` and the group ``worst`` that has it.

    References
    ----------
    T. Ding, A. Angelopoulos, S. Bates, M. Jordan and R. Tibshirani, *Class-conditional conformal prediction with many
    classes*, NeurIPS 2023, arXiv:2306.09335.

    Examples
    --------
    >>> import nearcal as nc
    >>> dist = nc.Normal([0.0] * 4, 1.0)
    >>> print(nc.diagnostics.coverage_gap(dist, [0.0, 1.0, 5.0, 0.0], ["a", "a", "b", "b"]))
    mean_gap    floor  worst_gap  worst
        0.25  0.09025      -0.45  b
    """
    dist = require_distribution(dist, "dist")
    covered = is_covered(dist, as_response(y, len(dist), "y"), coverage)
    found = as_regions(groups, space, len(dist), rng)
    gaps = np.array([covered[rows].mean() - coverage for rows in found.rows])
    floor = binomial_deviation([len(rows) for rows in found.rows], coverage).mean()
    worst = int(np.argmax(np.abs(gaps)))
    return Table(
        {"mean_gap": [np.abs(gaps).mean()], "floor": [floor], "worst_gap": [gaps[worst]], "worst": [found.names[worst]]}
    )
