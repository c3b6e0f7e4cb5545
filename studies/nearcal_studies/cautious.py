"""What trends, finals that see the tails, and caution bring over the default before them; with few rows too.

The frame is that of the study "sharper", with seeds that nothing was chosen on. Methods: the base model, global
recalibration, the earlier default, and the default. Every run is done with all calibration rows, and once more with 200
of them, where the best candidate in hindsight tells what a choice has missed. A run of a set of less than 2,000 rows
judges every row of it once, a fifth at a time by what has not seen it: 62 rows of a single split tell CRPS to 15%.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearcal as nc
from nearcal_studies import recalibrators
from nearcal_studies.measures import find_regions, interval_scores
from nearcal_studies.sets import BASES, QUICK_ROWS, TABLES, TURNS, WITHOUT_FOLDER, Part, Row, SetStudy, gather
from nearcal_studies.sharper import judge, spaces_of
from nearcal_studies.study import Check, Conclusion, Outcome, Scale

METHODS: Mapping[str, Mapping[str, Any]] = {"earlier": recalibrators.EARLIER, "default": {}}
ASKED = {
    "linear": 0.96,
    "network": 0.96,
    "network with σ": 0.98,
    "LightGBM quantiles": 0.98,
}  # CRPS against the earlier
_JUDGED = 1000  # rows, by which candidates are compared in hindsight
_STANDARD_ERRORS = 2.0  # beyond which a difference is not left to chance
_WORDS = 100  # letters of a choice that are kept
_HINDSIGHT = 20  # best local candidates by leave-one-out that are compared


class Cautious(SetStudy):
    """Eleven sets, four base models, two defaults, all calibration rows and few."""

    name = "cautious"
    title = "What trends, tails, averages and caution bring"

    def settings(self, scale: Scale) -> dict[str, Any]:
        """Return the frame of "sharper" with seeds from 5 on; quick ones need no folder."""
        return {
            "sets": scale.choose([*TABLES, *WITHOUT_FOLDER], quick=WITHOUT_FOLDER),
            "bases": scale.choose(BASES, quick=BASES[:2]),
            "rows": scale.choose((10_000, 2_000, 2_000), quick=QUICK_ROWS),
            "few": scale.choose(200, quick=100),
            "turns": TURNS,
            "seeds": scale.seed_list(5, first=5),
        }

    def compare(self, settings: Row, model: Any, options: Row, cal: Part, new: Part) -> list[Row]:
        """Return one row a method and frame."""
        regions = find_regions(min(max(len(new[1]) // 50, 2), 10), cal[0], new[0], settings["seed"])
        few = tuple(part[: settings["few"]] for part in cal), tuple(part[:_JUDGED] for part in new)
        rows = [{"frame": "all rows", **row} for row in _methods(settings["base"], model, options, cal, new, regions)]
        return [
            *rows,
            *(
                {"frame": "few rows", **row}
                for row in _methods(settings["base"], model, options, *few, regions[:_JUDGED], hindsight=True)
            ),
        ]

    def conclude(self, settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> Conclusion:
        """Return a table a frame, and whether what was asked for was reached."""
        rows = gather(settings, done)
        return Conclusion({"rows": rows}, as_markdown(rows), judge_promises(rows))


def _methods(
    base: str, model: Any, options: Row, cal: Part, new: Part, regions: NDArray[Any], hindsight: bool = False
) -> list[Row]:
    spaces = spaces_of(base, nc.adapt(model, **options).prepared(*cal))
    everyone = nc.GlobalRecalibrator(quantile_rule="predictive")
    calibrated = recalibrators.calibrate(model, *cal, "input", recalibrator=everyone, **options)
    found = {"base": (calibrated.base(new[0]), ""), "global": (calibrated.predict(new[0]), "")}
    for method, tuning in METHODS.items():
        calibrated = recalibrators.calibrate(model, *cal, spaces, tuning, one_thread=True, **options)
        found[method] = calibrated.predict(new[0]), repr(calibrated.recalibrator)
    of_base = nc.scores.crps(found["base"][0], new[1])
    rows = [
        {"method": method, "n_cal": len(cal[1]), "choice": choice[:_WORDS], **_figures(dist, new[1], regions, of_base)}
        for method, (dist, choice) in found.items()
    ]
    if hindsight:
        best = min(_crps_of_candidates(calibrated, model, options, cal, new), *(row["crps"] for row in rows))
        rows = [{**row, "regret": (row["crps"] - best) / rows[0]["crps"]} for row in rows]
    return rows


def _crps_of_candidates(calibrated: Any, model: Any, options: Row, cal: Part, new: Part) -> float:
    """Return the least CRPS of judged rows that a candidate would have had, of the best by leave-one-out."""
    table = [row for row in calibrated.tuning.table if row["kind"] == "local"]
    crps = []
    for row in sorted(table, key=lambda row: row["crps"])[:_HINDSIGHT]:
        candidate = nc.Candidate.of_row(row)
        recalibrator = candidate.local_recalibrator("predictive", nc.Polish(), None, recalibrators.ONE_THREAD)
        own = recalibrators.calibrate(model, *cal, candidate.space, recalibrator=recalibrator, **options)
        crps.append(float(nc.scores.crps(own.predict(new[0]), new[1]).mean()))
    return min(crps)


def _figures(dist: nc.Distribution, y: NDArray[Any], regions: NDArray[Any], of_base: NDArray[Any]) -> dict[str, float]:
    """Return what rows show of a method; ``crps_error`` is of the CRPS relative to the base model's, row by row."""
    figures = judge(dist, y, regions)
    figures["crps_error"] = float((nc.scores.crps(dist, y) - of_base).std() / np.sqrt(len(y)) / of_base.mean())
    figures["interval95"] = float(interval_scores(*dist.interval(0.95), y, 0.95).mean())
    figures["log_score"] = float(-dist.logpdf(y).mean()) if dist.has_density else float("nan")
    return figures


# ---- what is concluded ----------------------------------------------------------------------------------------------


def ratios(rows: Sequence[Row], key: str, method: str, against: str = "base") -> dict[tuple[str, str, int], float]:
    """Return a figure of every run relative to another method's."""
    by_run = {(*_run_of(row), row["method"]): row[key] for row in rows}
    return {run: by_run[*run, method] / by_run[*run, against] for run in dict.fromkeys(_run_of(row) for row in rows)}


def overall(rows: Sequence[Row], key: str, method: str, base: str | None = None) -> float:
    """Return the geometric mean over sets (and base models) of the mean over seeds, relative to the base model's."""
    return float(np.exp(np.mean(np.log(list(_by_pair(ratios(rows, key, method), base).values())))))


def _by_pair(values: Mapping[tuple[str, str, int], float], base: str | None = None) -> dict[tuple[str, str], float]:
    pairs = dict.fromkeys(run[:2] for run in values if base in (None, run[1]))
    return {pair: float(np.mean([value for run, value in values.items() if run[:2] == pair])) for pair in pairs}


def as_markdown(rows: Sequence[Row]) -> str:
    """Return one table for all rows and one for few."""
    lines = [
        "CRPS and 95% interval score relative to the base model's, geometric mean over sets of means over seeds. Of "
        "sets of less than 2,000 rows a run judges all, a fifth at a time by what has not seen it."
    ]
    every = [row for row in rows if row["frame"] == "all rows"]
    few = [row for row in rows if row["frame"] == "few rows"]
    titles = ["base model", "CRPS: earlier", "default", "interval score: earlier", "default", "PIT error: global"]
    titles += ["earlier", "default", "regional error: earlier", "default", "worst region: earlier", "default"]
    lines += ["", "| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for base in dict.fromkeys(row["base"] for row in every):
        cells = [f"{overall(every, key, method, base):.3f}" for key in ("crps", "interval95") for method in METHODS]
        cells += [f"{_mean(every, 'pit_error', method, base):.4f}" for method in ("global", *METHODS)]
        cells += [
            f"{100 * _mean(every, key, method, base):.1f}"
            for key in ("regional_error", "worst_region")
            for method in METHODS
        ]
        lines.append(f"| {base} | " + " | ".join(cells) + " |")
    count = max(row["n_cal"] for row in few)
    lines += [
        "",
        f"With at most {count} calibration rows: regret against the best candidate in hindsight, in percent of the "
        "base model's CRPS, and the share of runs more than 1% worse than the base model, in percent.",
        "",
        "| base model | CRPS: earlier | default | regret: earlier | default | worse: earlier | default |",
        "|---" * 7 + "|",
    ]
    for base in dict.fromkeys(row["base"] for row in few):
        cells = [f"{overall(few, 'crps', method, base):.3f}" for method in METHODS]
        cells += [f"{100 * _mean(few, 'regret', method, base):.2f}" for method in METHODS]
        cells += [f"{100 * _share_worse(few, method, base):.1f}" for method in METHODS]
        lines.append(f"| {base} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def judge_promises(rows: Sequence[Row]) -> list[Check]:
    """Return what was asked of the default, against the earlier one and the base model."""
    every = [row for row in rows if row["frame"] == "all rows"]
    few = [row for row in rows if row["frame"] == "few rows"]
    crps, wide = ratios(every, "crps", "default"), _by_pair(ratios(every, "interval95", "default"))
    pairs, worst_run = _by_pair(crps), max(crps, key=crps.__getitem__)
    worst, widest = max(pairs, key=pairs.__getitem__), max(wide, key=wide.__getitem__)
    return [
        *(
            Check(
                f"{base}: CRPS against the earlier default's",
                overall(every, "crps", "default", base) / overall(every, "crps", "earlier", base),
                "<",
                asked,
            )
            for base, asked in ASKED.items()
            if base in {row["base"] for row in every}
        ),
        Check(f"CRPS / base, worst mean over seeds ({', '.join(worst)})", pairs[worst], "<", 1.01),
        Check(f"CRPS / base, worst run ({', '.join(map(str, worst_run))})", crps[worst_run], "<", 1.02),
        Check(f"runs of {len(crps)} with CRPS / base above 1.02, beyond chance", _beyond_chance(every, 1.02), "<", 1),
        Check(
            "interval score against the earlier default's",
            overall(every, "interval95", "default") / overall(every, "interval95", "earlier"),
            "<",
            0.96,
        ),
        Check(f"interval score / base, worst mean over seeds ({', '.join(widest)})", wide[widest], "<", 1.01),
        Check("the same, less two standard errors over seeds", _beyond_seeds(every, "interval95"), "<", 1.01),
        Check(
            "PIT error against global recalibration's",
            _mean(every, "pit_error", "default") / _mean(every, "pit_error", "global"),
            "<",
            1.2,
        ),
        *(
            Check(
                f"{key.replace('_', ' ')} against the earlier default's",
                _mean(every, key, "default") / _mean(every, key, "earlier"),
                sign,
                1.0,
            )
            for key, sign in (("regional_error", "<"), ("worst_region", ">"))
        ),
        Check(
            "regional error against the earlier default's, less two standard errors",
            1 + _beyond_errors(every, "regional_error", "default", "earlier"),
            "<",
            1.0,
        ),
        Check(
            "few rows: regret against the earlier default's",
            _mean(few, "regret", "default") / _mean(few, "regret", "earlier"),
            "<",
            0.5,
        ),
        Check(
            "few rows: share of runs 1% worse than the base model",
            _share_worse(few, "default"),
            "<",
            0.5 * _share_worse(few, "earlier"),
        ),
        Check(f"few rows: runs of {len(crps)} 1% worse, beyond chance", _beyond_chance(few, 1.01), "<", 1),
    ]


def _mean(rows: Sequence[Row], key: str, method: str, base: str | None = None) -> float:
    return float(np.mean([row[key] for row in rows if row["method"] == method and base in (None, row["base"])]))


def _beyond_errors(rows: Sequence[Row], key: str, method: str, against: str) -> float:
    """Return by how much a figure is higher on the mean of runs, relative to another method's, beyond chance.

    Two standard errors of the mean difference, run by run, are taken from it: regions of fifty rows tell a coverage of
    90% to four points.
    """
    of_run: dict[tuple[str, str, int], dict[str, float]] = {}
    for row in rows:
        of_run.setdefault(_run_of(row), {})[row["method"]] = row[key]
    differences = np.array([one[method] - one[against] for one in of_run.values()])
    error = differences.std() / np.sqrt(len(differences))
    return float((differences.mean() - _STANDARD_ERRORS * error) / _mean(rows, key, against))


def _beyond_seeds(rows: Sequence[Row], key: str) -> float:
    """Return the largest mean over seeds of a figure relative to the base model's, less two standard errors."""
    by_pair: dict[tuple[str, str], list[float]] = {}
    for run, value in ratios(rows, key, "default").items():
        by_pair.setdefault(run[:2], []).append(value)
    return max(
        float(np.mean(own) - _STANDARD_ERRORS * np.std(own, ddof=len(own) > 1) / np.sqrt(len(own)))
        for own in by_pair.values()
    )


def _share_worse(rows: Sequence[Row], method: str, base: str | None = None) -> float:
    return float(
        np.mean([value > 1.01 for run, value in ratios(rows, "crps", method).items() if base in (None, run[1])])
    )


def _beyond_chance(rows: Sequence[Row], most: float) -> int:
    """Return how many runs of the default are worse than a ratio by more than two standard errors of judged rows."""
    errors = {_run_of(row): row["crps_error"] for row in rows if row["method"] == "default"}
    found = ratios(rows, "crps", "default").items()
    return sum(value - _STANDARD_ERRORS * errors[run] > most for run, value in found)


def _run_of(row: Row) -> tuple[str, str, int]:
    return row["set"], row["base"], row["seed"]
