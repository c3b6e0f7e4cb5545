"""One table of all that matters, before and after recalibration."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nearcal._arrays import as_response, check_choice, check_count
from nearcal._errors import InvalidInputError
from nearcal._table import Table, align, format_number, format_with_error
from nearcal.diagnostics._regions import Regions, as_regions
from nearcal.distributions import Distribution
from nearcal.distributions.base import Seed
from nearcal.evaluation._judged import METRICS, Judged, Metric
from nearcal.distributions import require_distribution

_REGIONAL = ("worst_region_coverage", "regional_coverage_error")


class Evaluation(Table):
    """A table of metrics by method, printed with one line a metric."""

    def __str__(self) -> str:
        methods = list(dict.fromkeys(self["method"].tolist()))
        lines: dict[str, list[str]] = {"metric": list(dict.fromkeys(self["metric"].tolist()))}
        for method in methods:
            chosen = [row for row in self if row["method"] == method]
            lines[method] = [_with_error(row["value"], row["se"]) for row in chosen]
            if method != methods[0]:
                changes = [_with_error(row["difference"], row["difference_se"]) for row in chosen]
                lines[f"{method} - {methods[0]}"] = changes
        return align(lines)


def _with_error(value: float, error: float) -> str:
    return format_number(value) if np.isnan(error) else format_with_error(value, error)


def evaluate(
    dists: Mapping[str, Distribution],
    y: Any,
    space: Any = None,
    coverage: float = 0.95,
    *,
    regions: int | Regions | Any = 10,
    metrics: Sequence[Metric] | None = None,
    bootstrap: int = 200,
    rng: Seed = 0,
) -> Evaluation:
    """Compare predictive distributions of the same rows: scores, calibration and local calibration.

    Parameters
    ----------
    dists : mapping of str to Distribution
        Methods by name, such as ``{"base": dist, "local": out}``; the others are compared with the first.
    y : array_like of shape (n,) or (n, 1)
        What was observed.
    space : array_like of shape (n, d), optional
        Where the rows are; adds the regional metrics.
    coverage : float
        Nominal coverage of the central intervals.
    regions : int, Regions or array_like of shape (n,)
        As in :func:`nearcal.diagnostics.local_calibration`; a number needs ``space``.
    metrics : sequence of str, optional
        Which metrics; None takes all. The log score of recalibrated distributions is a kernel estimate and the
        slowest of them.
    bootstrap : int
        Number of bootstrap samples behind the standard errors.
    rng : int, numpy.random.Generator or None
        Seed or generator of the bootstrap, of randomised PIT values and of clusters.

    Returns
    -------
    Evaluation
        A table of ``metric``, ``method``, ``value``, its standard error ``se``, the ``difference`` to the first
        method and its paired standard error ``difference_se``. Lower is better for crps, log_score, rmse,
        interval_score, width (at equal coverage), pce and regional_coverage_error, the mean over regions of
        ``|coverage - nominal|``; coverage and worst_region_coverage, the least over regions, should be near nominal,
        and ks_p_value, of the Kolmogorov-Smirnov test of the PIT values, not small.

    Notes
    -----
    Standard errors are by a bootstrap with independent Poisson(1) weights of the rows, the same for all methods, so
    that differences are paired. A p-value has none.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> y = rng.normal(size=500)
    >>> table = nc.evaluate({"wide": nc.Normal(np.zeros(500), 2.0), "right": nc.Normal(np.zeros(500), 1.0)}, y,
    ...                     metrics=["crps", "coverage"])
    >>> print(table)
    metric             wide          right     right - wide
    crps      0.6252 ± 0.01  0.5126 ± 0.02  -0.1125 ± 0.006
    coverage          1 ± 0  0.958 ± 0.009   -0.042 ± 0.009
    """
    if not isinstance(dists, Mapping) or not dists:
        raise InvalidInputError('dists must be a non-empty mapping of names to distributions, such as {"base": dist}')
    n = len(require_distribution(next(iter(dists.values())), "dists"))
    response = as_response(y, n, "y")
    generator = np.random.default_rng(rng)
    found = as_regions(regions, space, n, generator) if space is not None or not isinstance(regions, int) else None
    chosen = _choose(metrics, has_regions=found is not None)
    seed = int(generator.integers(2**63))
    results = []
    for name, dist in dists.items():
        if len(require_distribution(dist, f"dists[{name!r}]")) != n:
            raise InvalidInputError(f"dists must all have {n} rows, one a response, got {len(dist)} in {name!r}")
        results.append(Judged(dist, response, coverage, found, chosen, check_count(bootstrap, "bootstrap", 2), seed))
    return _tabulate(list(dists), chosen, results)


def _choose(metrics: Sequence[Metric] | None, *, has_regions: bool) -> list[Metric]:
    if metrics is None:
        return [metric for metric in METRICS if has_regions or metric not in _REGIONAL]
    for metric in metrics:
        check_choice(metric, METRICS, "metrics")
        if metric in _REGIONAL and not has_regions:
            raise InvalidInputError(f"space must be given for the metric {metric!r}, or regions as labels")
    return list(metrics)


def _tabulate(methods: list[str], metrics: list[Metric], results: list[Judged]) -> Evaluation:
    first, records = results[0], []
    for metric in metrics:
        for method, result in zip(methods, results, strict=True):
            with np.errstate(invalid="ignore"):  # infinite scores have no standard error
                difference = np.nan if result is first else float(result.value[metric] - first.value[metric])
                change = float(np.std(result.resampled[metric] - first.resampled[metric]))
                error = float(np.std(result.resampled[metric]))
            change = np.nan if result is first else change
            records.append((metric, method, float(result.value[metric]), error, difference, change))
    names = ("metric", "method", "value", "se", "difference", "difference_se")
    return Evaluation(dict(zip(names, zip(*records, strict=True), strict=True)))
