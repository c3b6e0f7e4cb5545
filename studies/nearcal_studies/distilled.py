"""How often a student takes the place of the choice of ``nearcal.tune``, and what it brings on other rows.

The frame is that of the study "sharper", on the sets with few calibration rows, where neighbourhoods are small and
noisy, with seeds from 45 on. Students are tried of two choices: that of the default, and that among single
neighbourhoods without a trend or a line, as in the paper.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import nearcal as nc
from nearcal_studies import recalibrators
from nearcal_studies.measures import find_regions
from nearcal_studies.sets import BASES, QUICK_ROWS, WITHOUT_FOLDER, Part, Row, SetStudy, gather
from nearcal_studies.sharper import judge, spaces_of
from nearcal_studies.study import Check, Conclusion, Outcome, Scale

SETS = ["yacht", "boston", "energy", "concrete", "wine_red"]
CHOICES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "one neighbourhood": {"members": 1, "trend": False, "linear": False, "shrinkage": False},
}


class Distilled(SetStudy):
    """Five sets, four base models, two choices, each with and without a student."""

    name = "distilled"
    title = "What distilling the choice brings"

    def settings(self, scale: Scale) -> dict[str, Any]:
        """Return the frame of "sharper" with seeds from 45 on; quick ones need no folder."""
        return {
            "sets": scale.choose(SETS, quick=WITHOUT_FOLDER),
            "bases": scale.choose(BASES, quick=BASES[:2]),
            "rows": scale.choose((10_000, 2_000, 2_000), quick=QUICK_ROWS),
            "seeds": scale.seed_list(1, first=45),
        }

    def compare(self, settings: Row, model: Any, options: Row, cal: Part, new: Part) -> list[Row]:
        """Return one row a choice: whether it was distilled, what was foretold of the student, and what came true."""
        regions = find_regions(min(max(len(new[1]) // 50, 2), 10), cal[0], new[0], settings["seed"])
        spaces = spaces_of(settings["base"], nc.adapt(model, **options).prepared(*cal))
        rows = []
        for choice, tuning in CHOICES.items():
            found, seconds = {}, {}
            for distilled in (False, True):
                start = time.process_time()
                asked = {**tuning, "distilled": distilled}
                found[distilled] = recalibrators.calibrate(model, *cal, spaces, asked, one_thread=True, **options)
                seconds[distilled] = time.process_time() - start
            student = found[True].tuning
            row = {"choice": choice, "n_cal": len(cal[1]), "kind": found[False].tuning.chosen.kind}
            row |= {"tried": bool(student.table["distilled"].any()), "chosen": bool(student.chosen.distilled)}
            row |= {"reason": student.reason, "seconds": seconds[False], "seconds_distilled": seconds[True]}
            for distilled, name in ((False, "exact"), (True, "student")):
                figures = judge(found[distilled].predict(new[0]), new[1], regions)
                row |= {f"{name}_{key}": value for key, value in figures.items()}
            rows.append(row)
        return rows

    def conclude(self, settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> Conclusion:
        """Return a table of choices, and whether students that were chosen are better on other rows."""
        rows = gather(settings, done)
        return Conclusion({"rows": rows}, as_markdown(rows), judge_promises(rows))


def as_markdown(rows: Sequence[Row]) -> str:
    """Return a table with a line a choice, and one with a line a student that was chosen."""
    seeds = sorted({row["seed"] for row in rows})
    lines = [
        f"Seeds {', '.join(map(str, seeds))}. CRPS of the student relative to that of the exact choice on other rows, "
        "geometric mean over those chosen; processor seconds of the choice without and with a student, medians.",
        "",
        "| choice | runs | students tried | chosen | CRPS | seconds | with a student |",
        "|---" * 7 + "|",
    ]
    for choice in dict.fromkeys(row["choice"] for row in rows):
        own = [row for row in rows if row["choice"] == choice]
        tried, chosen = (sum(row[key] for row in own) for key in ("tried", "chosen"))
        seconds = [f"{np.median([row[key] for row in own]):.1f}" for key in ("seconds", "seconds_distilled")]
        ratio = f"{_ratio(own):.3f}" if chosen else ""
        lines.append(f"| {choice} | {len(own)} | {tried} | {chosen} | {ratio} | {' | '.join(seconds)} |")
    lines += ["", "| set | base model | choice | foretold | CRPS |", "|---" * 5 + "|"]
    for row in rows:
        if row["chosen"]:
            foretold = row["reason"].partition("score by ")[2].partition(",")[0]
            ratio = row["student_crps"] / row["exact_crps"]
            lines.append(f"| {row['set']} | {row['base']} | {row['choice']} | {foretold} | {ratio:.3f} |")
    return "\n".join(lines)


def judge_promises(rows: Sequence[Row]) -> list[Check]:
    """Return what was asked of students: where one is chosen, it is better."""
    chosen = {choice: [row for row in rows if row["choice"] == choice and row["chosen"]] for choice in CHOICES}
    return [
        Check(f"CRPS of students against the exact choice's, {choice}", _ratio(own), "<", 1.0)
        for choice, own in chosen.items()
        if own
    ]


def _ratio(rows: Sequence[Row]) -> float:
    """Return the geometric mean of relative CRPS over the students that were chosen."""
    ratios = [row["student_crps"] / row["exact_crps"] for row in rows if row["chosen"]]
    return float(np.exp(np.mean(np.log(ratios))))
