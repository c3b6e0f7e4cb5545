"""What each step past the paper's local recalibration brings, and all of them together, which is the default.

Methods: the base model; global recalibration; isotonic; the paper's local recalibration with layer and k tuned; the
same with polish (and the quantile rule that goes with it), with relevance scaling (and the joined space), with the
local-linear correction, with shrinkage, each left to tuning; and the default of ``nearcal.calibrate``. All eleven sets
take an hour of one core.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

import nearcal as nc
from nearcal_studies import recalibrators
from nearcal_studies.measures import coverage_by_region, find_regions
from nearcal_studies.sets import BASES, QUICK_ROWS, TABLES, WITHOUT_FOLDER, Part, Row, SetStudy, gather
from nearcal_studies.study import Check, Conclusion, Outcome, Scale

COVERAGE, WIDE = 0.9, 0.95
TITLES = {
    "crps": "CRPS / base",
    "pit_error": "PIT error",
    "coverage95": "coverage of 95%",
    "regional_error": "regional error",
    "worst_region": "worst region",
}


class Sharper(SetStudy):
    """Eleven sets, four base models, nine methods."""

    name = "sharper"
    title = "What each step past the paper brings"

    def settings(self, scale: Scale) -> dict[str, Any]:
        """Return at most 10,000, 2,000 and 2,000 rows of all sets; quick ones need no folder."""
        return {
            "sets": scale.choose([*TABLES, *WITHOUT_FOLDER], quick=WITHOUT_FOLDER),
            "bases": scale.choose(BASES, quick=BASES[:2]),
            "rows": scale.choose((10_000, 2_000, 2_000), quick=QUICK_ROWS),
            "seeds": scale.seed_list(5),
        }

    def compare(self, settings: Row, model: Any, options: Row, cal: Part, new: Part) -> list[Row]:
        """Return one row a method."""
        regions = find_regions(min(max(len(new[1]) // 50, 2), 10), cal[0], new[0], settings["seed"])
        layers = spaces_of(settings["base"], nc.adapt(model, **options).prepared(*cal))
        fixed = {"global": nc.GlobalRecalibrator(quantile_rule="predictive"), "isotonic": nc.IsotonicRecalibrator()}
        results: dict[str, tuple[nc.Distribution, str, float]] = {}
        for method, recalibrator in fixed.items():
            calibrated = recalibrators.calibrate(model, *cal, "input", recalibrator=recalibrator, **options)
            results[method] = calibrated.predict(new[0]), "", 0.0
        results = {"base": (calibrated.base(new[0]), "", 0.0), **results}
        for method, tuning in recalibrators.STEPS.items():
            start = time.process_time()
            spaces = layers if method in ("+ relevance", "default") else [name for name in layers if " + " not in name]
            calibrated = recalibrators.calibrate(model, *cal, spaces, tuning, one_thread=True, **options)
            seconds = time.process_time() - start
            results[method] = calibrated.predict(new[0]), str(calibrated.tuning.chosen), seconds
        return [
            {
                "n_cal": len(cal[1]),
                "method": method,
                "choice": choice,
                "seconds": seconds,
                **judge(dist, new[1], regions),
            }
            for method, (dist, choice, seconds) in results.items()
        ]

    def conclude(self, settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> Conclusion:
        """Return tables by base model and by set, and whether what was promised is kept."""
        rows = gather(settings, done)
        return Conclusion({"rows": rows}, as_markdown(rows), judge_promises(rows), readme=as_readme(rows))


def spaces_of(base: str, adapter: nc.adapters.ModelAdapter) -> list[str]:
    """Return the spaces to choose among: all layers, of trees input and output alone, and the joined one."""
    layers = ["input", "output"] if base == "LightGBM quantiles" else list(adapter.layers())
    return [*layers, " + ".join(dict.fromkeys([layers[0], *layers[-2:]]))]


def judge(dist: nc.Distribution, y: NDArray[Any], regions: NDArray[Any]) -> dict[str, float]:
    """Return the figures of one method."""
    pit = np.sort(ndtr(dist.z(y)))
    covered, wide = ((lower <= y) & (y <= upper) for lower, upper in (dist.interval(COVERAGE), dist.interval(WIDE)))
    by_region = coverage_by_region(covered, regions)
    return {
        "crps": float(nc.scores.crps(dist, y).mean()),
        "pit_error": float(np.abs(pit - (np.arange(len(y)) + 0.5) / len(y)).mean()),
        "coverage90": float(covered.mean()),
        "coverage95": float(wide.mean()),
        "regional_error": float(np.abs(by_region - COVERAGE).mean()),
        "worst_region": float(by_region.min()),
    }


def as_markdown(rows: Sequence[Row]) -> str:
    """Return the tables of base models and of sets."""
    bases, methods, sets = (list(dict.fromkeys(row[key] for row in rows)) for key in ("base", "method", "set"))
    seeds = sorted({row["seed"] for row in rows})
    lines = [
        f"Seeds {', '.join(map(str, seeds))}; {len({_run_of(row) for row in rows})} runs of "
        f"{len(sets)} sets and {len(bases)} base models. CRPS relative to the base model's of the same run, geometric "
        "mean over sets of the mean over seeds; PIT error, the mean distance of PIT values from uniform ones; coverage "
        "of 95% intervals; error of the coverage of 90% intervals over regions of 50 judged rows or more on average "
        "(ten at most), mean over regions; coverage of 90% intervals in the worst region. All but CRPS are means over "
        "sets of means over seeds.",
    ]
    for base in bases:
        lines += ["", f"**{base}**", "", "| method | " + " | ".join(TITLES.values()) + " |", "|---" * 6 + "|"]
        for method in methods:
            figures = [overall(rows, key, base, method) for key in TITLES]
            cells = [f"{figures[0]:.3f}", f"{figures[1]:.4f}", *(f"{100 * figure:.1f}" for figure in figures[2:])]
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
    shown = [method for method in methods if method != "base"]
    lines += [
        "",
        "CRPS relative to the base model's, means over seeds, by set:",
        "",
        "| set | base model | seeds | " + " | ".join(shown) + " | default chose |",
        "|---" * (len(shown) + 4) + "|",
    ]
    for name, base in dict.fromkeys((row["set"], row["base"]) for row in rows):
        own = [row for row in rows if (row["set"], row["base"]) == (name, base)]
        cells = [f"{of_set(rows, 'crps', base, method, name):.3f}" for method in shown]
        choice = next(row["choice"] for row in own if row["method"] == "default")
        count = len({row["seed"] for row in own})
        lines.append(f"| {name} | {base} | {count} | " + " | ".join(cells) + f" | {choice} |")
    return "\n".join([*lines, "", _worse_runs(rows)])


def as_readme(rows: Sequence[Row]) -> str:
    """Return what the README shows: relative CRPS by base model, and the other figures over all of them."""
    methods = {"global": "global", "isotonic": "isotonic", "paper": "the paper's, tuned", "default": "default"}
    bases = list(dict.fromkeys(row["base"] for row in rows))
    lines = ["| CRPS / base | " + " | ".join(methods.values()) + " |", "|---" * (len(methods) + 1) + "|"]
    for base in bases:
        cells = [f"{overall(rows, 'crps', base, method):.3f}" for method in methods]
        lines.append(f"| {base} | " + " | ".join(cells) + " |")
    for key, title in (("coverage95", "coverage of 95%"), ("regional_error", "regional error, points")):
        cells = [f"{100 * mean_over_bases(rows, key, method):.1f}" for method in methods]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def of_set(rows: Sequence[Row], key: str, base: str, method: str, name: str) -> float:
    """Return the mean over seeds of a figure; of the CRPS relative to the base model's."""
    own = {row["seed"]: row for row in rows if (row["set"], row["base"], row["method"]) == (name, base, method)}
    if key != "crps":
        return float(np.mean([row[key] for row in own.values()]))
    of_base = {row["seed"]: row["crps"] for row in rows if (*_run_of(row)[:2], row["method"]) == (name, base, "base")}
    return float(np.mean([row["crps"] / of_base[seed] for seed, row in own.items()]))


def overall(rows: Sequence[Row], key: str, base: str, method: str) -> float:
    """Return the mean over sets, of the CRPS the geometric mean."""
    own = [row for row in rows if row["base"] == base]
    values = [of_set(own, key, base, method, name) for name in dict.fromkeys(row["set"] for row in own)]
    return float(np.exp(np.mean(np.log(values))) if key == "crps" else np.mean(values))


def mean_over_bases(rows: Sequence[Row], key: str, method: str) -> float:
    """Return the mean over base models of the mean over sets."""
    return float(np.mean([overall(rows, key, base, method) for base in dict.fromkeys(row["base"] for row in rows)]))


def judge_promises(rows: Sequence[Row]) -> list[Check]:
    """Return what was asked of the default: sharper than the paper's method, never much worse than the base model."""
    bases, methods = (list(dict.fromkeys(row[key] for row in rows)) for key in ("base", "method"))
    pairs = {
        (name, base): of_set(rows, "crps", base, "default", name)
        for name, base in dict.fromkeys((row["set"], row["base"]) for row in rows)
    }
    worst = max(pairs, key=lambda pair: pairs[pair])
    pit = {method: mean_over_bases(rows, "pit_error", method) for method in ("default", "global")}
    regional = {method: 100 * mean_over_bases(rows, "regional_error", method) for method in methods}
    best = min((method for method in methods if method != "default"), key=lambda method: regional[method])
    reach = regional[best] + 200 * standard_error(rows, best)
    coverage = [100 * share for share in coverage_with_slopes(rows).values()] or [np.nan]
    adjusted = "coverage of 95% intervals where the default adjusts, over sets:"
    return [
        *(
            Check(
                f"{base}: CRPS of the default relative to the paper's",
                overall(rows, "crps", base, "default") / overall(rows, "crps", base, "paper"),
                "<",
                1,
            )
            for base in bases
        ),
        Check("PIT error of the default relative to global recalibration's", pit["default"] / pit["global"], "<", 1.2),
        Check(f"CRPS relative to the base model's, at worst ({', '.join(worst)})", pairs[worst], "<", 1.01),
        Check(
            f"regional error, points, against the best other's ({best}) and two standard errors",
            regional["default"],
            "<",
            reach,
        ),
        Check(f"{adjusted} mean", float(np.mean(coverage)), ">", 94),
        Check(f"{adjusted} mean", float(np.mean(coverage)), "<", 96),
        Check(f"{adjusted} lowest", min(coverage), ">", 92),
    ]


def _worse_runs(rows: Sequence[Row]) -> str:
    """Return how many runs, and which at worst, the default makes more than 1% worse than the base model."""
    base = {_run_of(row): row["crps"] for row in rows if row["method"] == "base"}
    ratios = {_run_of(row): row["crps"] / base[_run_of(row)] for row in rows if row["method"] == "default"}
    worst = max(ratios, key=lambda run: ratios[run])
    count = sum(ratio > 1.01 for ratio in ratios.values())
    return (
        f"Of single runs the default makes {count} of {len(ratios)} more than 1% worse than the base model, at worst "
        f"{ratios[worst]:.3f} ({worst[0]}, {worst[1]}, seed {worst[2]})."
    )


def coverage_with_slopes(rows: Sequence[Row]) -> dict[str, float]:
    """Return the mean coverage of 95% intervals by set, over the runs in which the default has slopes."""
    adjusted = [row for row in rows if row["method"] == "default" and recalibrators.is_adjusted(row["choice"])]
    return {
        name: float(np.mean([row["coverage95"] for row in adjusted if row["set"] == name]))
        for name in dict.fromkeys(row["set"] for row in adjusted)
    }


def standard_error(rows: Sequence[Row], method: str) -> float:
    """Return the standard error of the mean difference in regional error between the default and another method."""
    other = {_run_of(row): row["regional_error"] for row in rows if row["method"] == method}
    own = {_run_of(row): row["regional_error"] for row in rows if row["method"] == "default"}
    return float(np.std([own[run] - other[run] for run in own]) / np.sqrt(len(own)))


def _run_of(row: Row) -> tuple[str, str, int]:
    return row["set"], row["base"], row["seed"]
