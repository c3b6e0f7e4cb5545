"""What is measured of one method, all from means over rows."""

from typing import Literal, get_args

import numpy as np

from nearcal._arrays import FloatArray
from nearcal._bootstrap import weighted_means
from nearcal.diagnostics import pit
from nearcal.diagnostics._distances import PCE_LEVELS
from nearcal.diagnostics._regions import Regions
from nearcal.diagnostics._uniformity import run_test
from nearcal.distributions import Distribution
from nearcal.scores import crps, log_score, squared_error
from nearcal.scores._quantile_scores import score_interval

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
]
METRICS: tuple[Metric, ...] = get_args(Metric)


class Judged:
    """The metrics of one method: each a function of means over rows, so that reweighting rows bootstraps them all."""

    def __init__(
        self,
        dist: Distribution,
        y: FloatArray,
        coverage: float,
        regions: Regions | None,
        metrics: list[Metric],
        bootstrap: int,
        seed: int,
    ) -> None:
        lower, upper = dist.interval(coverage)
        values = pit(dist, y, seed)
        covered = ((lower <= y) & (y <= upper)).astype(np.float64)
        columns = {"coverage": covered, "width": upper - lower}
        columns["interval_score"] = score_interval(lower, upper, y, coverage)
        if "crps" in metrics:
            columns["crps"] = crps(dist, y)
        if "log_score" in metrics:
            columns["log_score"] = log_score(dist, y)
        columns["rmse"] = squared_error(dist, y)
        self.names = list(columns)
        self.nominal = coverage
        self.region_count = len(regions.rows) if regions else 0
        blocks = [*columns.values(), *(values[:, np.newaxis] <= PCE_LEVELS).T, *_memberships(regions, covered)]
        table = np.column_stack(blocks)
        self.value = self._metrics(table.mean(axis=0), metrics)
        self.resampled = self._metrics(weighted_means(table, bootstrap, np.random.default_rng(seed)), metrics)
        if "ks_p_value" in metrics:
            self.value["ks_p_value"] = np.array(run_test("kolmogorov-smirnov", np.sort(values)).p_value)
            self.resampled["ks_p_value"] = np.full(bootstrap, np.nan)

    def _metrics(self, means: FloatArray, metrics: list[Metric]) -> dict[str, FloatArray]:
        """Return the metrics of means whose last axis runs over the columns."""
        count, levels = len(self.names), len(PCE_LEVELS)
        found = {name: means[..., j] for j, name in enumerate(self.names)}
        found["rmse"] = np.sqrt(found["rmse"])
        found["pce"] = np.abs(means[..., count : count + levels] - PCE_LEVELS).mean(axis=-1)
        if self.region_count:
            size, hits = np.split(means[..., count + levels :], 2, axis=-1)
            local = hits / np.where(size > 0, size, np.nan)
            found["worst_region_coverage"] = np.nanmin(local, axis=-1)
            found["regional_coverage_error"] = np.nanmean(np.abs(local - self.nominal), axis=-1)
        return {name: value for name, value in found.items() if name in metrics}


def _memberships(regions: Regions | None, covered: FloatArray) -> list[FloatArray]:
    """Return the indicator of each region, then the indicator of each region and covered."""
    if regions is None:
        return []
    inside = np.zeros((len(regions.rows), len(covered)))
    for indicator, rows in zip(inside, regions.rows, strict=True):
        indicator[rows] = 1.0
    return [*inside, *(inside * covered)]
