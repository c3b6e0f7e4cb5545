"""What compiling the default recalibration loses, and whether the loss that it tells beforehand is what rows show.

The frame is that of the study "sharper", with seeds from 20 on: the form of students was chosen on seeds 0 and 1. The
default is calibrated, compiled at a tolerance of 2% of CRPS, told from calibration rows alone, and both are judged on
rows that neither has seen.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import nearcal as nc
from nearcal_studies import recalibrators
from nearcal_studies.measures import find_regions
from nearcal_studies.sets import BASES, QUICK_ROWS, TABLES, WITHOUT_FOLDER, Part, Row, SetStudy, gather
from nearcal_studies.sharper import judge, spaces_of
from nearcal_studies.study import Check, Conclusion, Outcome, Scale

TOLERANCE = 0.02
_KEYS = ("crps", "pit_error", "coverage95", "regional_error", "worst_region")


class Compiled(SetStudy):
    """Eleven sets, four base models, exact and compiled."""

    name = "compiled"
    title = "What compiling loses"

    def settings(self, scale: Scale) -> dict[str, Any]:
        """Return the frame of "sharper" with seeds from 20 on; quick ones need no folder."""
        return {
            "sets": scale.choose([*TABLES, *WITHOUT_FOLDER], quick=WITHOUT_FOLDER),
            "bases": scale.choose(BASES, quick=BASES[:2]),
            "rows": scale.choose((10_000, 2_000, 2_000), quick=QUICK_ROWS),
            "seeds": scale.seed_list(1, first=20),
        }

    def compare(self, settings: Row, model: Any, options: Row, cal: Part, new: Part) -> list[Row]:
        """Return one row for the exact default and one for the compiled one, if it was accepted."""
        regions = find_regions(min(max(len(new[1]) // 50, 2), 10), cal[0], new[0], settings["seed"])
        spaces = spaces_of(settings["base"], nc.adapt(model, **options).prepared(*cal))
        exact = recalibrators.calibrate(model, *cal, spaces, one_thread=True, **options)
        about = {"n_cal": len(cal[1]), "choice": repr(exact.recalibrator)}
        rows = [{"method": "exact", **about, **judge(exact.predict(new[0]), new[1], regions)}]
        start = time.process_time()
        try:
            compiled = nc.compile(exact, tolerance=TOLERANCE, dist_cal=exact.base(cal[0]), rng=settings["seed"])
        except nc.CompilationError as error:
            return [{**rows[0], **_told(error.loss, start), "accepted": False}]
        told = {**_told(compiled.recalibrator.loss_, start), "accepted": True}
        figures = judge(compiled.predict(new[0]), new[1], regions)
        return [{**rows[0], **told}, {"method": "compiled", **about, **told, **figures}]

    def conclude(self, settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> Conclusion:
        """Return a table of pairs, and whether what was asked for was reached."""
        rows = gather(settings, done)
        return Conclusion({"rows": rows}, as_markdown(rows), judge_promises(rows))


def _told(loss: nc.CompilationLoss, start: float) -> Row:
    """Return what is told of a student, and how long it took since a time of the process."""
    about = {"told": loss.loss, "told_error": loss.standard_error, "form": loss.form}
    return {**about, "seconds": time.process_time() - start}


def by_pair(rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, float]]:
    """Return, for every set and base model, means over seeds: what was told and judged, and the share accepted."""
    found = {}
    for pair in dict.fromkeys((row["set"], row["base"]) for row in rows):
        own = [row for row in rows if (row["set"], row["base"]) == pair]
        exact = {row["seed"]: row for row in own if row["method"] == "exact"}
        compiled = {row["seed"]: row for row in own if row["method"] == "compiled"}
        figures = {
            "told": float(np.mean([row["told"] for row in exact.values()])),
            "accepted": len(compiled) / len(exact),
            "seeds": len(exact),
        }
        figures["seconds"] = float(np.mean([row["seconds"] for row in exact.values()]))
        if compiled:
            ratios = [compiled[seed]["crps"] / exact[seed]["crps"] for seed in compiled]
            figures["judged"] = float(np.mean(ratios)) - 1
            figures["told_of_accepted"] = float(np.mean([row["told"] for row in compiled.values()]))
            for key in _KEYS[1:]:
                figures[f"exact_{key}"] = float(np.mean([exact[seed][key] for seed in compiled]))
                figures[key] = float(np.mean([row[key] for row in compiled.values()]))
        found[pair] = figures
    return found


def as_markdown(rows: Sequence[Row]) -> str:
    """Return a table with a line for every set and base model."""
    seeds = sorted({row["seed"] for row in rows})
    titles = ["set", "base model", "seeds", "accepted", "loss told", "loss judged", "PIT error: exact", "compiled"]
    titles += ["coverage of 95%: exact", "compiled", "regional error: exact", "compiled", "seconds"]
    lines = [
        f"Seeds {', '.join(map(str, seeds))}. Loss of CRPS in percent of the exact default's: told by cross-fitting on "
        "calibration rows, and judged on others if it was accepted; means over seeds, so many of each pair.",
        "",
        "| " + " | ".join(titles) + " |",
        "|---" * len(titles) + "|",
    ]
    for (name, base), figures in by_pair(rows).items():
        cells = [name, base, str(figures["seeds"]), f"{figures['accepted']:.0%}", f"{100 * figures['told']:+.1f}"]
        if "judged" in figures:
            cells += [
                f"{100 * figures['judged']:+.1f}",
                *(f"{figures[key]:.4f}" for key in ("exact_pit_error", "pit_error")),
            ]
            for key in ("coverage95", "regional_error"):
                cells += [f"{100 * figures[f'exact_{key}']:.1f}", f"{100 * figures[key]:.1f}"]
        else:
            cells += [""] * 7
        lines.append(f"| {' | '.join(cells)} | {figures['seconds']:.0f} |")
    return "\n".join(lines)


def judge_promises(rows: Sequence[Row]) -> list[Check]:
    """Return what was asked of compiling."""
    pairs = by_pair(rows)
    kept = {pair: figures for pair, figures in pairs.items() if "judged" in figures}
    if not kept:
        return []
    worst = max(kept, key=lambda pair: kept[pair]["judged"])
    off = {pair: figures["judged"] - figures["told_of_accepted"] for pair, figures in kept.items()}
    farthest = max(off, key=lambda pair: abs(off[pair]))
    mean = {key: float(np.mean([figures[key] for figures in kept.values()])) for key in _KEYS[1:]}
    exact = {key: float(np.mean([figures[f"exact_{key}"] for figures in kept.values()])) for key in _KEYS[1:]}
    overall = float(np.exp(np.mean([np.log1p(figures["judged"]) for figures in kept.values()])))
    return [
        Check("share of pairs accepted", float(np.mean([one["accepted"] for one in pairs.values()])), ">", 0.8),
        Check("CRPS against the exact default's, over those", overall, "<", 1.0),
        Check(f"CRPS against the exact default's, at worst ({', '.join(worst)})", 1 + kept[worst]["judged"], "<", 1.02),
        Check(
            f"loss judged less loss told, farthest ({', '.join(farthest)}), points", 100 * abs(off[farthest]), "<", 1.0
        ),
        Check("loss judged less loss told, mean, points", 100 * abs(float(np.mean(list(off.values())))), "<", 1.0),
        Check("PIT error against the exact default's", mean["pit_error"] / exact["pit_error"], "<", 1.1),
        Check("regional error against the exact default's", mean["regional_error"] / exact["regional_error"], "<", 1.1),
        Check("coverage of 95% intervals", 100 * mean["coverage95"], ">", 94),
        Check("coverage of 95% intervals", 100 * mean["coverage95"], "<", 96),
    ]
