"""Choosing by leave-one-out where rows are in order of time, and where they are not.

Demand for electricity, half hours in order (elec2): rows to train on, to calibrate with and to judge follow each other.
How to recalibrate is chosen by plain leave-one-out, with ``time``, and with nothing said; each choice is compared with
the best candidate in hindsight, by the CRPS of the judged rows, and judged once more as the recalibrator that
``nearcal.tune`` returns, with polish. All 45,312 half hours, every fourth or second taken, are cut into a half and
two quarters; and two stretches from it, every half hour taken, have a month to calibrate with and a month to judge.

The column of inputs that counts the days is kept, or left out. On the whole series a gap of two fifths of the
calibration rows is tried as well: the judged rows lie half as many ahead on average.

That two fifths of the rows must lie before those that are scored, and that neighbourhoods are a share of those who may
speak, was chosen on such months from rows 0 and 11,000, the latter after a look at every fourth row; the gap is the
better of two that were tried on every fourth row; the other numbers were fixed before anything was run.

On nine sets in random order, the test that rows following each other are independent must not object: its statistic,
for two base models.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import nearcal as nc
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.space import CalibrationSpace, Folds, Scaling, share_of
from nearcal.space.folds import Fold
from nearcal.tuning.row_order import is_dependent, serial_correlation
from nearcal.tuning.scoring import Scorer
from nearcal_studies import training
from nearcal_studies.recalibrators import ONE_THREAD
from nearcal_studies.sets import TABLES, Part, Row, split, train
from nearcal_studies.study import Check, Conclusion, Outcome, Scale, Study, Unit
from nearcal_studies.tables import markdown_table

COVERAGE = 0.9
WAYS: Mapping[str, Mapping[str, Any]] = {
    "leave-one-out": {"time": False},
    "time": {"time": True},
    "nothing said": {},
}
K, SMOOTHINGS, SCALINGS = (
    (1000, 500, 200, 100, 50, 20, 10),
    ("biweight", "epanechnikov"),
    ("standard", "whiten", "relevance"),
)
SERIES = "elec2"
# the first row, the step from row to row, and how many to train on, to calibrate with, to judge
STRETCHES: Mapping[str, Sequence[int]] = {
    "all": (0, 1, 22_656, 11_328, 11_328),
    "all, every fourth": (0, 4, 5_664, 2_832, 2_832),
    "all, every second": (0, 2, 11_328, 5_664, 5_664),
    "no date, every fourth": (0, 4, 5_664, 2_832, 2_832),
    "no date, every second": (0, 2, 11_328, 5_664, 5_664),
    "months from 22,000": (22_000, 1, 6_000, 1_500, 1_500),
    "months from 33,000": (33_000, 1, 6_000, 1_500, 1_500),
}
JUDGED = ("all", "all, every fourth", "all, every second", "no date, every fourth", "no date, every second")
MADE = "made"
DATELESS = "no date"  # stretches without the first column of inputs, which counts the days
WITH_GAP, _GAP = "time, gap", 0.4  # of the calibration rows: judged rows are half as many ahead on average
_CLOSE = 1.05  # of the best in hindsight


class Blocked(Study):
    """A series, two base models, three ways to choose; nine sets in random order."""

    name = "blocked"
    title = "Choosing in order of time"

    def settings(self, scale: Scale) -> dict[str, Any]:
        """Return the rows of each stretch, the base models and the sets; a quick run needs no folder."""
        return {
            "stretches": scale.choose(STRETCHES, quick={MADE: (0, 1, 600, 300, 300)}),
            "bases": scale.choose(["LightGBM quantiles", "network"], quick=["network"]),
            "sets": scale.choose(TABLES, quick=[]),
            "shuffled_bases": ["linear", "LightGBM quantiles"],
            "seeds": scale.seed_list(3),
        }

    def units(self, settings: Mapping[str, Any]) -> list[Unit]:
        """Return a unit for each stretch and base model, and one for each set and seed."""
        needed = [*settings["sets"], *([] if MADE in settings["stretches"] else [SERIES])]
        absent = [name for name in needed if not self._path(name).is_file()]
        if absent:
            raise FileNotFoundError(
                f"{self.name} needs the sets {', '.join(absent)} as NAME.npz with arrays X (n, d) and y (n,); give "
                "their folder with --data"
            )
        first = settings["seeds"][0]
        stretches = [
            Unit(
                "".join(letter if letter.isalnum() else "_" for letter in f"{stretch} {base}"),
                self._choose,
                {"stretch": stretch, "rows": list(rows), "base": base, "seed": first},
                cost=10.0,
            )
            for stretch, rows in settings["stretches"].items()
            for base in settings["bases"]
        ]
        with_gap = [
            Unit(f"{unit.key}-gap", self._choose_ahead, {**unit.settings, "gap": _GAP}, cost=3.0, needs=(unit.key,))
            for unit in stretches
            if unit.settings["stretch"] in JUDGED
        ]
        shuffled = [
            Unit(f"{name}-{seed}", self._shuffle, {"set": name, "bases": settings["shuffled_bases"], "seed": seed})
            for name in settings["sets"]
            for seed in settings["seeds"]
        ]
        return [*stretches, *with_gap, *shuffled]

    def _path(self, name: str) -> Path:
        return (self.data or Path()) / f"{name}.npz"

    def _load(self, name: str) -> Part:
        with np.load(self._path(name)) as arrays:
            return arrays["X"].astype(np.float64), arrays["y"].astype(np.float64)

    def _choose(self, settings: Mapping[str, Any]) -> Outcome:
        """Choose in one stretch in every way, and in hindsight."""
        with threadpool_limits(1), training.one_thread():
            found = self._case(settings).judge_all()
        return Outcome({"stretch": settings["stretch"], "base": settings["base"], **found})

    def _choose_ahead(self, settings: Mapping[str, Any], known: Outcome) -> Outcome:
        """Choose with a gap as well."""
        with threadpool_limits(1), training.one_thread():
            case = self._case(settings)
            gap = int(settings["gap"] * len(case.y[0]))
            found = case.judge({"time": True, "gap": gap}, known.numbers["best"] * case.base)
        return Outcome({"of": known.numbers["stretch"], "base": settings["base"], "way": found})

    def _case(self, settings: Mapping[str, Any]) -> "Case":
        first, step, *rows = settings["rows"]
        x, y = made(sum(rows), settings["seed"]) if settings["stretch"] == MADE else self._load(SERIES)
        x, y = (values[first::step][: sum(rows)] for values in (x, y))
        x = x[:, 1:] if settings["stretch"].startswith(DATELESS) else x
        parts = in_order(x, y, rows)
        model, options = train(settings["base"], *parts[0], settings["seed"])
        return Case.of(model, options, *parts[1:])

    def _shuffle(self, settings: Mapping[str, Any]) -> Outcome:
        """Test calibration rows in random order."""
        found = []
        with threadpool_limits(1), training.one_thread():
            parts = split(*self._load(settings["set"]), settings["seed"], (4_000, 2_000, 2_000))
            for base in settings["bases"]:
                model, options = train(base, *parts[0], settings["seed"])
                x, y = parts[1]
                z = nc.adapt(model, **options).prepared(x, y).distribution(x).z(y)
                found.append(
                    {
                        "base": base,
                        "correlation": serial_correlation(z),
                        "alarm": is_dependent(serial_correlation(z), len(z)),
                    }
                )
        return Outcome({"set": settings["set"], "rows": found})

    def conclude(self, settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> Conclusion:
        """Return a table of choices, one of correlations, and what must be shown."""
        found = [outcome.numbers for outcome in done.values()]
        ahead = {(one["of"], one["base"]): {WITH_GAP: one["way"]} for one in found if "of" in one}
        stretches = [
            {**one, "ways": {**one["ways"], **ahead.get((one["stretch"], one["base"]), {})}}
            for one in found
            if "ways" in one
        ]
        shuffled = [{**row, "set": one["set"]} for one in found if "set" in one for row in one["rows"]]
        results = {
            "stretches": stretches,
            "shuffled": shuffled,
            "worst": {
                way: {stretch: worst(stretches, stretch, way) for stretch in JUDGED} for way in (*WAYS, WITH_GAP)
            },
        }
        return Conclusion(results, as_markdown(stretches, shuffled), checks(stretches, shuffled))


class Case:
    """A trained model on calibration rows and later ones."""

    def __init__(self, dist: Sequence[Any], y: Sequence[Any], spaces: Sequence[Mapping[str, NDArray[Any]]]) -> None:
        self.dist, self.y, self.spaces = dist, y, spaces
        self.base = float(nc.scores.crps(dist[1], y[1]).mean())

    @classmethod
    def of(cls, model: Any, options: Row, cal: Part, new: Part) -> "Case":
        """Run the model on both parts: input, output, and both joined."""
        adapter = nc.adapt(model, **options).prepared(*cal)
        runs = [adapter.run(x, ["input", "output"]) for x, _ in (cal, new)]
        spaces = [{**layers, "input + output": np.hstack(list(layers.values()))} for _, layers in runs]
        return cls([dist for dist, _ in runs], [cal[1], new[1]], spaces)

    def judge_all(self) -> dict[str, Any]:
        """Choose in every way, and compare each choice with the best in hindsight."""
        best, hindsight = self.hindsight()
        ways = {way: self.judge(relations, best) for way, relations in WAYS.items()}
        z = self.dist[0].z(self.y[0])
        return {"correlation": serial_correlation(z), "hindsight": hindsight, "best": best / self.base, "ways": ways}

    def judge(self, relations: Mapping[str, Any], best: float) -> dict[str, Any]:
        """Choose by some relations of rows, and compare the choice with the best in hindsight."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nc.DependenceWarning)
            warnings.simplefilter("ignore", nc.OutOfDistributionWarning)
            tuning = nc.tune(self.dist[0], self.y[0], self.spaces[0], members=1, **relations, workers=ONE_THREAD)
            out = self.recalibrate(tuning.recalibrator, tuning.chosen.space)
            lower, upper = out.interval(COVERAGE)
        crps = self.score(tuning.chosen)  # the choice alone: rows unlike the calibration set do not fade here
        return {
            "chosen": str(tuning.chosen),
            "crps": crps / self.base,
            "to_best": crps / best,
            "returned": float(nc.scores.crps(out, self.y[1]).mean()) / self.base,
            "coverage": float(((lower <= self.y[1]) & (self.y[1] <= upper)).mean()),
        }

    def hindsight(self) -> tuple[float, str]:
        """Return the least CRPS of later rows over all candidates that tuning may choose, and whose it is.

        Candidates are scored as tuning scores them, but at later rows, each by all calibration rows.
        """
        n, m = (len(y) for y in self.y)
        dist, y = nc.distributions.concatenate(self.dist), np.concatenate(self.y)
        folds = Folds((Fold(np.arange(n, n + m), np.arange(n)),), np.zeros(n + m, dtype=np.intp), "in hindsight")
        sizes = [size * (n + m) // n for size in K if size < n]  # of which the share of those who speak is k
        z = dist.z(y)
        places = {
            (name, Scaling(scaling)): CalibrationSpace(
                np.concatenate([space[name] for space in self.spaces]), z, Scaling(scaling), sizes[0] + 1, folds=folds
            )
            for name in self.spaces[0]
            for scaling in SCALINGS
        }
        scorer = Scorer(dist, y, CalibrationScores(z), places, ONE_THREAD, folds=folds)
        everyone, plain = scorer.score_plain(sizes, SMOOTHINGS)
        local, rows = {**plain, **scorer.score_linear(plain, sizes)}, scorer.race.rows
        means = {
            replace(one, k=share_of(one.k, n, n + m)): scorer.race.compare(scores, rows)[0]
            for one, scores in local.items()
        }
        for one in sorted(means, key=lambda one: means[one])[:2]:
            shrunk = replace(one, shrinkage=True)
            means[shrunk] = self.score(shrunk)
        means[nc.Candidate("global")] = scorer.race.compare(everyone, rows)[0]
        means[nc.Candidate("none")] = self.base
        best = min(means, key=lambda one: means[one])
        return means[best], str(best)

    def score(self, candidate: nc.Candidate) -> float:
        """Return the CRPS of later rows under a candidate as tuning scores it: the step rule, without polish."""
        if candidate.kind == "none":
            return self.base
        if candidate.kind == "global":
            recalibrator: Any = nc.GlobalRecalibrator()
        else:
            recalibrator = candidate.local_recalibrator("step", None, None, ONE_THREAD)
        space = self.spaces[0]["input" if candidate.space is None else candidate.space]
        fitted = recalibrator.fit(self.dist[0], self.y[0], space)
        return float(nc.scores.crps(self.recalibrate(fitted, candidate.space), self.y[1]).mean())

    def recalibrate(self, recalibrator: Any, space: str | None) -> Any:
        """Return the recalibrated distributions of later rows."""
        return recalibrator.recalibrate(self.dist[1], self.spaces[1]["input" if space is None else space])


def in_order(x: NDArray[Any], y: NDArray[Any], rows: Sequence[int]) -> list[Part]:
    """Return standardised inputs and responses of the training, calibration and judged rows, one after another."""
    spread = x[: rows[0]].std(axis=0)
    x = (x - x[: rows[0]].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    y = (y - y[: rows[0]].mean()) / y[: rows[0]].std()
    edges = np.cumsum([0, *rows])
    return [(x[a:b], y[a:b]) for a, b in pairwise(edges)]


def made(n: int, seed: int) -> Part:
    """Return a series with a daily cycle, weather that lasts for days, and a column that tells when it was."""
    rng = np.random.default_rng(seed)
    weather = np.zeros(n)
    for i in range(1, n):
        weather[i] = 0.98 * weather[i - 1] + 0.2 * rng.normal()
    hour = np.arange(n) % 24
    x = np.column_stack([np.arange(n) / n, np.sin(hour * np.pi / 12), np.cos(hour * np.pi / 12)])
    return x, x[:, 1] + weather + 0.1 * rng.normal(size=n)


def worst(stretches: Sequence[Row], stretch: str, way: str) -> float:
    """Return the CRPS of the choice relative to the best in hindsight, over base models at worst."""
    own = [one["ways"] for one in stretches if one["stretch"] == stretch]
    return max((ways[way]["to_best"] for ways in own if way in ways), default=np.nan)


def checks(stretches: Sequence[Row], shuffled: Sequence[Row]) -> list[Check]:
    """Return what must be shown."""
    words = "CRPS of the choice relative to the best in hindsight, at worst"
    return [
        *(
            Check(f"{words}: {stretch}, {way}", worst(stretches, stretch, way), "<", _CLOSE)
            for way in ("time", WITH_GAP)
            for stretch in JUDGED
        ),
        *(
            Check(f"{words}: {stretch}, leave-one-out", worst(stretches, stretch, "leave-one-out"), ">", _CLOSE)
            for stretch in JUDGED
        ),
        Check(
            "correlation of scores that follow each other in time, least",
            min((one["correlation"] for one in stretches), default=np.nan),
            ">",
            0.2,
        ),
        Check("alarms on sets in random order", sum(row["alarm"] for row in shuffled), "<", 1),
    ]


def as_markdown(stretches: Sequence[Row], shuffled: Sequence[Row]) -> str:
    """Return the tables."""
    columns: dict[str, list[str]] = {name: [] for name in ("rows", "base model", "chosen by", "what", "CRPS / base")}
    columns |= {name: [] for name in ("/ best in hindsight", "as returned", "coverage of 90%")}
    for one in stretches:
        for way, judged in one["ways"].items():
            cells = [one["stretch"], one["base"], way, judged["chosen"], f"{judged['crps']:.3f}"]
            cells += [f"{judged['to_best']:.3f}", f"{judged['returned']:.3f}", f"{100 * judged['coverage']:.1f}"]
            for column, cell in zip(columns.values(), cells, strict=True):
                column.append(cell)
        for column, cell in zip(
            columns.values(),
            [one["stretch"], one["base"], "hindsight", one["hindsight"], f"{one['best']:.3f}", "1.000", "", ""],
            strict=True,
        ):
            column.append(cell)
    text = (
        "Rows in order of time. CRPS of later rows relative to the base model's: of the candidate chosen, as tuning "
        "scores it, and of the recalibrator that it returns, with polish.\n\n" + markdown_table(columns)
    )
    if stretches:
        found = ", ".join(f"{one['correlation']:.2f}" for one in stretches)
        text += f"\n\nSpearman's correlation of calibration scores that follow each other, in the same order: {found}."
    if shuffled:
        largest = max(shuffled, key=lambda row: row["correlation"])
        text += (
            f"\n\nOf {len(shuffled)} calibration sets in random order the largest is {largest['correlation']:.3f} "
            f"({largest['set']}, {largest['base']}); alarms: {sum(row['alarm'] for row in shuffled)}."
        )
    return text
