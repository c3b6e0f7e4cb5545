"""What recalibration brings on real regression sets, tuned by leave-one-out, against what else could be done.

Base models are a linear regression and a network of two hidden layers of 50, both with one standard deviation from
calibration residuals. Tuning chooses among layers, k, smoothings and scalings; what more there is to choose among, and
what it brings, is the matter of the study "sharper".

Regions are ten clusters (k-means) of the calibration inputs. Regional error is the mean over regions of |coverage of
90% intervals - 90%|; its floor is what perfect intervals would show with so few rows in each region. Small sets have a
handful of rows in each of ten regions, so that most of the error is the floor; it is therefore also computed over fewer
regions, of 50 judged rows on average, at least two.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearcal as nc
from nearcal_studies import recalibrators
from nearcal_studies.measures import coverage_by_region, find_regions, regional_floor
from nearcal_studies.sets import QUICK_ROWS, TABLES, WITHOUT_FOLDER, Part, Row, SetStudy, gather
from nearcal_studies.study import Conclusion, Outcome, Scale

METHODS = ["base", "isotonic", "global", "local, paper", "local, tuned"]
COVERAGE = 0.9
REGIONS = 10
HINDSIGHT_ROWS = 1000  # judged rows on which all candidates are compared


class RealData(SetStudy):
    """Nine real sets, two base models, five methods."""

    name = "real_data"
    title = "Nine real sets"

    def settings(self, scale: Scale) -> dict[str, Any]:
        """Return all rows of all sets; quick ones need no folder."""
        return {
            "sets": scale.choose(TABLES, quick=WITHOUT_FOLDER),
            "bases": ["linear", "network"],
            "rows": scale.choose((None, None, None), quick=QUICK_ROWS),
            "seeds": scale.seed_list(5),
        }

    def compare(self, settings: Row, model: Any, options: Row, cal: Part, new: Part) -> list[Row]:
        """Return one row a method."""
        seed = settings["seed"]
        regions = {
            "": find_regions(REGIONS, cal[0], new[0], seed),
            "_large": find_regions(min(max(len(new[1]) // 50, 2), REGIONS), cal[0], new[0], seed),
        }
        tuned = recalibrators.calibrate(model, *cal, nc.adapt(model).prepared(*cal).layers(), recalibrators.PLAIN)
        n_cal = len(cal[1])
        fixed = {
            "isotonic": nc.IsotonicRecalibrator(),
            "global": nc.GlobalRecalibrator(),
            "local, paper": recalibrators.local(min(1000, max(30, n_cal // 10), n_cal)),
        }
        results = {"base": tuned.base(new[0])}
        for method, recalibrator in fixed.items():
            calibrated = recalibrators.calibrate(model, *cal, "input", recalibrator=recalibrator)
            results[method] = calibrated.predict(new[0])
        results["local, tuned"] = tuned.predict(new[0])
        floors = {f"floor{size}": regional_floor(of_rows, COVERAGE) for size, of_rows in regions.items()}
        rows = [
            {"n_cal": n_cal, **floors, "method": method, **judge(dist, new[1], regions)}
            for method, dist in results.items()
        ]
        rows[-1] |= {"choice": str(tuned.tuning.chosen), "hindsight": hindsight(tuned, cal, new)}
        return [{**row, "relative_crps": row["crps"] / rows[0]["crps"]} for row in rows]

    def conclude(self, settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> Conclusion:
        """Return the table of sets and the conclusions."""
        rows = gather(settings, done)
        return Conclusion({"rows": rows}, as_markdown(rows))


def judge(dist: nc.Distribution, y: NDArray[Any], regions: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """Return mean CRPS, coverage of 90% intervals, and its mean absolute error over regions."""
    lower, upper = dist.interval(COVERAGE)
    covered = (lower <= y) & (y <= upper)
    errors = {
        f"regional_error{size}": np.abs(coverage_by_region(covered, of_rows) - COVERAGE).mean()
        for size, of_rows in regions.items()
    }
    return {"crps": nc.scores.crps(dist, y).mean(), "coverage": covered.mean(), **errors}


def hindsight(tuned: nc.CalibratedModel, cal: Part, new: Part) -> float:
    """Return the CRPS of leave-one-out's choice relative to that of the candidate that proves best on judged rows."""
    x, y = new[0][:HINDSIGHT_ROWS], new[1][:HINDSIGHT_ROWS]
    layers = tuned.model.layers()
    (dist_cal, spaces_cal), (dist_new, spaces_new) = tuned.model.run(cal[0], layers), tuned.model.run(x, layers)
    scores = []
    for row in tuned.tuning.table:
        space_cal, space_new = (spaces.get(row["space"]) for spaces in (spaces_cal, spaces_new))
        recalibrator = recalibrators.candidate_recalibrator(row).fit(dist_cal, cal[1], space_cal)
        scores.append(nc.scores.crps(recalibrator.recalibrate(dist_new, space_new), y).mean())
    return scores[int(np.flatnonzero(tuned.tuning.table["chosen"])[0])] / min(scores)


def mean_of(rows: list[Row], key: str, **where: Any) -> float:
    """Return the mean of a figure over the rows that match."""
    return float(np.mean([row[key] for row in rows if all(row[name] == value for name, value in where.items())]))


def as_markdown(rows: list[Row]) -> str:
    """Return the table of sets and the conclusions."""
    seeds = sorted({row["seed"] for row in rows})
    lines = [
        f"Means over seeds {seeds[0]} to {seeds[-1]}: CRPS relative to the base model's / coverage of 90% intervals in "
        f"per cent / mean absolute error of that coverage over {REGIONS} regions, in percentage points. Floor: the "
        "error that perfect intervals would show.",
        "",
        "| set | base | " + " | ".join(METHODS) + " | floor |",
        "|---|---|" + "---|" * (len(METHODS) + 1),
    ]
    for name, base in dict.fromkeys((row["set"], row["base"]) for row in rows):
        cells = []
        for method in METHODS:
            where = {"set": name, "base": base, "method": method}
            crps = mean_of(rows, "relative_crps", **where)
            coverage, error = (100 * mean_of(rows, key, **where) for key in ("coverage", "regional_error"))
            cells.append(f"{crps:.3f} / {coverage:.1f} / {error:.1f}")
        least = 100 * mean_of(rows, "floor", set=name, base=base)
        lines.append(f"| {name} | {base} | " + " | ".join(cells) + f" | {least:.1f} |")
    return "\n".join([*lines, "", *conclusions(rows)])


def conclusions(rows: list[Row]) -> list[str]:
    """Return what the table shows, in sentences."""
    tuned = {
        (name, base): mean_of(rows, "relative_crps", set=name, base=base, method="local, tuned")
        for name, base in dict.fromkeys((row["set"], row["base"]) for row in rows)
    }
    worst = max(tuned, key=lambda pair: tuned[pair])
    excess = 100 * (mean_of([row for row in rows if "hindsight" in row], "hindsight") - 1)
    return [
        f"- Tuned against base, CRPS: geometric mean {np.exp(np.mean(np.log(list(tuned.values())))):.3f}, at worst "
        f"{tuned[worst]:.3f} ({worst[0]}, {worst[1]}).",
        _compare_regions(rows, "", f"{REGIONS} regions a set"),
        _compare_regions(rows, "_large", "regions of 50 judged rows or more on average"),
        f"- Leave-one-out's choice against the best candidate in hindsight: CRPS {excess:.2f}% higher on average.",
    ]


def _compare_regions(rows: list[Row], size: str, which: str) -> str:
    error = {method: mean_of(rows, f"regional_error{size}", method=method) for method in METHODS}
    least = mean_of(rows, f"floor{size}")
    figures = ", ".join(f"{method} {100 * error[method]:.2f}" for method in METHODS)
    tuned, isotonic = error["local, tuned"], error["isotonic"]
    return (
        f"- Error of coverage over {which}, in percentage points, mean over sets and base models: {figures}; floor "
        f"{100 * least:.2f}. Tuned against isotonic: {1 - tuned / isotonic:.0%} lower, the part above the floor "
        f"{1 - (tuned - least) / (isotonic - least):.0%} lower."
    )
