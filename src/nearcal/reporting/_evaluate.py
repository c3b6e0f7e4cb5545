"""One table of all that matters, before and after recalibration."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray, as_generator, as_response, as_space, check_choice, check_count
from nearcal._errors import InvalidInputError
from nearcal._table import Table, align, format_number, format_with_error
from nearcal.diagnostics import pit
from nearcal.diagnostics.conditional import risk_of_rows, rows_in_worst_slab
from nearcal.diagnostics.dependence import effective_share
from nearcal.diagnostics.pit_values import PCE_LEVELS
from nearcal.diagnostics.regions import Regions, as_regions
from nearcal.diagnostics.uniformity import run_test
from nearcal.distributions import Distribution, Seed, check_coverage, require_distribution
from nearcal.recalibration import Recalibrated
from nearcal.scores import crps, log_score
from nearcal.scores.arrays import score_interval
from nearcal.space import as_units

Metric = Literal[
    "crps",
    "log_score",
    "rmse",
    "interval_score",
    "coverage",
    "width",
    "pce",
    "ks_p_value",
    "worst_region_coverage",
    "regional_coverage_error",
    "faded",
    "worst_slab_coverage",
    "excess_risk",
]
METRICS: tuple[Metric, ...] = get_args(Metric)
_REGIONAL = ("worst_region_coverage", "regional_coverage_error")
_REGIONS = 10  # where nobody says how many, of as many rows
_CONDITIONAL = ("worst_slab_coverage", "excess_risk")  # which take a search, and so must be named
_CHUNK = 2**14  # rows that get their bootstrap weights together


class Evaluation(Table):
    """A table of metrics by method, printed with one line a metric."""

    def __str__(self) -> str:
        methods = list(dict.fromkeys(self["method"].tolist()))
        lines = [("metric", list(dict.fromkeys(self["metric"].tolist())))]
        for method in methods:
            chosen = [row for row in self if row["method"] == method]
            lines.append((method, [_with_error(row["value"], row["se"]) for row in chosen]))
            if method != methods[0]:
                changes = [_with_error(row["difference"], row["difference_se"]) for row in chosen]
                lines.append((f"{method} - {methods[0]}", changes))
        is_missing = (self["metric"] == "log_score") & np.isnan(self["value"])
        note = "\nlog_score is blank where a distribution has atoms and no density" if is_missing.any() else ""
        if (self["metric"] == "faded").any():
            note += (
                "\nfaded is the share of rows unlike the calibration set, which keep their base distribution in part "
                "or whole"
            )
        return align(lines) + note


def _with_error(value: float, error: float) -> str:
    return format_number(value) if np.isnan(error) else format_with_error(value, error)


def evaluate(
    dists: Mapping[str, Distribution] | Distribution,
    y: Any,
    space: Any = None,
    coverage: float = 0.95,
    *,
    regions: int | Regions | Any = None,
    metrics: Sequence[Metric] | None = None,
    groups: Any = None,
    time: Any = None,
    bootstrap: int = 200,
    rng: Seed = 0,
) -> Evaluation:
    """Compare predictive distributions of the same rows: scores, calibration and local calibration.

    Parameters
    ----------
    dists : mapping of str to Distribution, or Distribution
        Methods by name, such as ``{"base": dist, "local": out}``; the others are compared with the first.
    y : array_like of shape (n,) or (n, 1)
        What was observed.
    space : array_like of shape (n, d), or of shape (n,) with categories, optional
        Where the rows are; adds the regional metrics. Of categories, each is a region.
    coverage : float
        Nominal coverage of the central intervals.
    regions : int, Regions or array_like of shape (n,), optional
        As in :func:`nearcal.diagnostics.local_calibration`; a number needs ``space``. Without it 10, or as many as
        there are rows.
    metrics : sequence of str, optional
        Which metrics; None takes all but two that take a search, which must be named and need a ``space`` of numbers:
        "worst_slab_coverage", the coverage of the slab that covers least, a tenth of the rows or more, on rows that it
        was not searched in; and "excess_risk", what a classifier gains by telling where intervals miss, in the L1
        loss: by how much local coverage is off nominal on average, from below (see
        :func:`nearcal.diagnostics.excess_risk`).
    groups : array_like of shape (n,), optional
        The group of each row, such as a person or a place: rows of one group may depend on each other, and standard
        errors and the p-value allow for it.
    time : array_like of shape (n,), True or None
        When each row was observed, numbers or dates, or True for rows in order of time: rows near in time may depend on
        each other. Instead of groups.
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
        and ks_p_value, of the Kolmogorov-Smirnov test of the PIT values, not small. Where a method fades
        (:class:`nearcal.Fade`), ``faded`` is the share of rows whose trust is below 1; NaN for methods that do not.

    Notes
    -----
    Standard errors are by a bootstrap with independent Poisson(1) weights of the rows, the same for all methods, so
    that differences are paired. A p-value has none. With ``groups`` all rows of a group have one weight; with ``time``
    all rows of a stretch, of which there are thirty with about equally many rows: long enough where what happens in one
    tells little about the next, and enough for standard errors that are right to an eighth. For stretches of your own
    give their numbers as groups. The Kolmogorov-Smirnov test then counts n over the design effect for n, as
    :func:`nearcal.diagnostics.uniformity_tests` does.

    The log score needs a density: it is NaN for distributions that have atoms and none (``has_density`` is False), and
    rough for those made of many draws, where crps says more.

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
    named = as_named(dists)
    n = len(next(iter(named.values())))
    response = as_response(y, n, "y")
    fades = any(isinstance(dist, Recalibrated) and dist.expected_faded is not None for dist in named.values())
    plan = plan_evaluation(
        n, space, coverage, regions=regions, metrics=metrics, groups=groups, time=time, bootstrap=bootstrap, rng=rng,
        fades=fades,
    )  # fmt: skip
    return judge_all({name: judge_rows(dist, response, plan) for name, dist in named.items()}, plan)


class EvaluationPlan(NamedTuple):
    """What an evaluation looks at: coverage, metrics, regions, its bootstrap, and which rows belong together."""

    coverage: float
    metrics: list[Metric]
    places: Regions | None
    bootstrap: int
    seed: int
    units: IntArray | None
    points: FloatArray | None


def plan_evaluation(
    n: int, space: Any, coverage: float, *, regions: Any, metrics: Sequence[Metric] | None, groups: Any, time: Any,
    bootstrap: int, rng: Seed, fades: bool,
) -> EvaluationPlan:  # fmt: skip
    """Return what is looked at in n rows, whoever computes what of each; arguments as in :func:`evaluate`."""
    generator = as_generator(rng)
    regions = min(_REGIONS, n) if regions is None else regions
    has_regions = space is not None or not isinstance(regions, int)
    places = as_regions(regions, space, n, generator) if has_regions else None
    chosen = _choose(metrics, has_regions=has_regions, fades=fades)
    points = as_space(space, "space", n) if set(chosen) & set(_CONDITIONAL) else None
    units = as_units(groups, time, n)
    seed = int(generator.integers(2**63))
    samples = check_count(bootstrap, "bootstrap", 2)
    return EvaluationPlan(check_coverage(coverage), chosen, places, samples, seed, units, points)


def judge_rows(dist: Distribution, y: FloatArray, plan: EvaluationPlan, start: int = 0) -> dict[str, FloatArray]:
    """Return by name what an evaluation asks of each row; of any part of the rows, ``start`` being those before it."""
    with np.errstate(over="ignore", invalid="ignore"):  # what is beyond the largest number is infinite
        lower, upper = dist.interval(plan.coverage)
        chance = np.random.default_rng(plan.seed)
        chance.bit_generator.advance(start)  # type: ignore[attr-defined]  # one number a row
        columns = {"pit": pit(dist, y, chance), "covered": ((lower <= y) & (y <= upper)).astype(np.float64)}
        columns |= {"width": upper - lower, "interval_score": score_interval(lower, upper, y, plan.coverage)}
        if "crps" in plan.metrics:
            columns["crps"] = crps(dist, y)
        if "log_score" in plan.metrics:
            has_density = getattr(dist, "has_density", True)
            columns["log_score"] = log_score(dist, y) if has_density else np.full(len(y), np.nan)
        if "faded" in plan.metrics:
            columns["faded"] = np.full(len(y), np.nan)
            if isinstance(dist, Recalibrated) and dist.expected_faded is not None:
                columns["faded"] = (dist.trust < 1).astype(np.float64)
        return {**columns, "error": dist.mean() - y}


def judge_all(judged: Mapping[str, Mapping[str, FloatArray]], plan: EvaluationPlan) -> Evaluation:
    """Return the table, given what :func:`judge_rows` says of all rows by every method."""
    return _tabulate(list(judged), plan.metrics, [_Judged(columns, plan) for columns in judged.values()])


def as_named(dists: Any) -> dict[str, Distribution]:
    """Return distributions of the same rows by name, which is text."""
    if isinstance(dists, Distribution):
        dists = {"predictions": dists}
    if not isinstance(dists, Mapping) or not dists:
        raise InvalidInputError(
            'dists must be a distribution or a non-empty mapping of names to distributions, such as {"base": dist}'
        )
    # a table's texts end before trailing NULs, by which names would then not differ
    named = {str(name).rstrip("\0"): require_distribution(dist, f"dists[{name!r}]") for name, dist in dists.items()}
    if len(named) < len(dists):
        raise InvalidInputError(f"dists must have names that differ as text, got {', '.join(map(repr, dists))}")
    n = len(next(iter(named.values())))
    for name, dist in named.items():
        if len(dist) != n:
            raise InvalidInputError(f"dists must all have {n} rows, one a response, got {len(dist)} in {name!r}")
    return named


def _choose(metrics: Sequence[Metric] | None, *, has_regions: bool, fades: bool) -> list[Metric]:
    if metrics is None:
        unknown = (*_CONDITIONAL, *(() if has_regions else _REGIONAL), *(() if fades else ("faded",)))
        return [metric for metric in METRICS if metric not in unknown]
    for metric in metrics:
        check_choice(metric, METRICS, "metrics")
        if metric in (*_REGIONAL, *_CONDITIONAL) and not has_regions:
            raise InvalidInputError(f"space must be given for the metric {metric!r}, or regions as labels")
    return list(metrics)


class _Judged:
    """The metrics of one method: each a function of means over rows, so that reweighting rows bootstraps them all."""

    def __init__(self, judged: Mapping[str, FloatArray], plan: EvaluationPlan) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # what is beyond the largest number is infinite
            self._judge(dict(judged), plan)

    def _judge(self, judged: dict[str, FloatArray], plan: EvaluationPlan) -> None:
        values, covered, error = judged.pop("pit"), judged.pop("covered"), judged.pop("error")
        columns = {"coverage": covered, **judged}
        if plan.points is not None:
            columns |= _conditional_columns(covered > 0, plan.points, plan.coverage, plan.metrics, plan.seed)
        self.largest_error = float(np.abs(error).max()) or 1.0  # whose square may be beyond the largest number
        columns["rmse"] = (error / self.largest_error) ** 2 if np.isfinite(self.largest_error) else np.abs(error)
        self.names = list(columns)
        self.nominal = plan.coverage
        self.region_count = len(plan.places.rows) if plan.places else 0
        blocks = [*columns.values(), *(values[:, np.newaxis] <= PCE_LEVELS).T, *_memberships(plan.places, covered)]
        table, metrics = np.column_stack(blocks), plan.metrics
        self.value = self._metrics(table.mean(axis=0), metrics)
        random = np.random.default_rng(plan.seed)
        self.resampled = self._metrics(_weighted_means(table, plan.bootstrap, random, plan.units), metrics)
        if "ks_p_value" in metrics:
            share = effective_share(values, plan.units)
            self.value["ks_p_value"] = np.array(run_test("kolmogorov-smirnov", np.sort(values), share).p_value)
            self.resampled["ks_p_value"] = np.full(plan.bootstrap, np.nan)

    def _metrics(self, means: FloatArray, metrics: list[Metric]) -> dict[str, FloatArray]:
        """Return the metrics of means whose last axis runs over the columns."""
        count, levels = len(self.names), len(PCE_LEVELS)
        values = {name: means[..., j] for j, name in enumerate(self.names)}
        if "worst_slab_coverage" in values:
            size = values["in_slab"]
            values["worst_slab_coverage"] = values["worst_slab_coverage"] / np.where(size > 0, size, np.nan)
        values["rmse"] = np.sqrt(values["rmse"]) * self.largest_error
        values["pce"] = np.abs(means[..., count : count + levels] - PCE_LEVELS).mean(axis=-1)
        if self.region_count:
            size, hits = np.split(means[..., count + levels :], 2, axis=-1)
            local = hits / np.where(size > 0, size, np.nan)
            # a bootstrap sample may have no row of any region, and then no such figure
            values["worst_region_coverage"] = np.fmin.reduce(local, axis=-1)
            present = np.maximum((size > 0).sum(axis=-1), 1)
            errors = np.nansum(np.abs(local - self.nominal), axis=-1) / present
            values["regional_coverage_error"] = np.where(np.isnan(local).all(axis=-1), np.nan, errors)
        return {name: value for name, value in values.items() if name in metrics}


def _conditional_columns(
    covered: NDArray[np.bool_], points: FloatArray, coverage: float, metrics: list[Metric], seed: int
) -> dict[str, FloatArray]:
    """Return what rows add to the excess risk, and who is in the worst slab, and covered there."""
    columns: dict[str, FloatArray] = {}
    if "worst_slab_coverage" in metrics:
        inside = rows_in_worst_slab(covered, points, seed)
        columns |= {"in_slab": inside.astype(np.float64), "worst_slab_coverage": (inside & covered).astype(np.float64)}
    if "excess_risk" in metrics:
        columns["excess_risk"] = risk_of_rows(covered, points, coverage, seed)
    return columns


def _memberships(regions: Regions | None, covered: FloatArray) -> list[FloatArray]:
    """Return the indicator of each region, then the indicator of each region and covered."""
    if regions is None:
        return []
    inside = np.zeros((len(regions.rows), len(covered)))
    for indicator, rows in zip(inside, regions.rows, strict=True):
        indicator[rows] = 1.0
    return [*inside, *(inside * covered)]


def _tabulate(methods: list[str], metrics: list[Metric], results: list[_Judged]) -> Evaluation:
    first, records = results[0], []
    for metric in metrics:
        for method, result in zip(methods, results, strict=True):
            with np.errstate(invalid="ignore", over="ignore"):  # infinite scores have no standard error
                difference = np.nan if result is first else float(result.value[metric] - first.value[metric])
                change = _spread(result.resampled[metric] - first.resampled[metric])
                error = _spread(result.resampled[metric])
            change = np.nan if result is first else change
            records.append((metric, method, float(result.value[metric]), error, difference, change))
    names = ("metric", "method", "value", "se", "difference", "difference_se")
    return Evaluation(dict(zip(names, zip(*records, strict=True), strict=True)))


def _spread(values: FloatArray) -> float:
    """Return the standard deviation, also of numbers whose squares are beyond the largest or below the least."""
    largest = float(np.abs(values).max()) or 1.0
    return float(np.std(values / largest) * largest)


def _weighted_means(
    table: FloatArray, count: int, rng: np.random.Generator, units: IntArray | None = None
) -> FloatArray:
    """Return means of the columns of an (n, a) table under ``count`` sets of random weights; shape (count, a).

    The Poisson bootstrap: every row gets an independent Poisson(1) weight, so that rows can be taken in chunks and all
    metrics of all methods see the same draws. scipy.stats.bootstrap takes 4 times as long (10,000 rows, 120 columns,
    200 samples) and has no standard errors of differences. A column with infinite entries has infinite or NaN means.
    Rows of one unit have one weight.
    """
    sizes = np.ones(len(table))
    if units is not None:
        _, which = np.unique(units, return_inverse=True)
        sizes = np.bincount(which).astype(np.float64)
        with np.errstate(invalid="ignore"):
            table = np.column_stack([np.bincount(which, column) for column in table.T])
    sums, total = np.zeros((count, table.shape[1])), np.zeros((count, 1))
    for start in range(0, len(table), _CHUNK):
        rows = table[start : start + _CHUNK]
        weights = rng.poisson(1.0, size=(count, len(rows))).astype(np.float64)
        with np.errstate(invalid="ignore"):
            sums += weights @ rows
        total += (weights @ sizes[start : start + _CHUNK])[:, np.newaxis]
    return sums / np.maximum(total, 1.0)
