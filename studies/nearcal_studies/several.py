"""What several models calibrated together bring: against the best of them alone, and boosting on all rows.

A linear model, a network, LightGBM quantiles and extra trees, each calibrated by the default of ``nearcal.calibrate``
and all together; and LightGBM trained on the training and the calibration rows, which keeps nothing back to calibrate
with. What is chosen in the library was chosen on seeds below 5 and, in part, after a look at 5 to 9;
later ones judge it.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor
from threadpoolctl import threadpool_limits

import nearcal as nc
from nearcal_studies import recalibrators, training
from nearcal_studies.measures import find_regions, interval_scores
from nearcal_studies.sets import QUICK_ROWS, TABLES, WITHOUT_FOLDER, Part, Row, SetStudy, split, train
from nearcal_studies.sharper import WIDE, judge
from nearcal_studies.study import Check, Conclusion, Outcome, Scale, Unit

MODELS = ["linear", "network", "LightGBM quantiles", "extra trees"]
TREES = ("LightGBM quantiles", "extra trees")
SEVERAL, ALL_ROWS = "several", "LightGBM, all rows"
_FOREST = 200  # trees


class Several(SetStudy):
    """Eleven sets; a unit is a set and a seed."""

    name = "several"
    title = "Several models calibrated together"

    def settings(self, scale: Scale) -> dict[str, Any]:
        """Return at most 2,000, 600 and 1,000 rows of all sets, in full 10,000, 2,000 and 2,000."""
        return {
            "sets": scale.choose([*TABLES, *WITHOUT_FOLDER], quick=WITHOUT_FOLDER),
            "rows": scale.choose((2_000, 600, 1_000), quick=QUICK_ROWS, full=(10_000, 2_000, 2_000)),
            "seeds": scale.seed_list(5, first=0 if scale.quick else 5),
        }

    def units(self, settings: Mapping[str, Any]) -> list[Unit]:
        """Return the units, seed by seed."""
        units = super().units({**settings, "bases": [SEVERAL]})
        return [Unit(unit.key.replace(f"-{SEVERAL}-", "-"), unit.work, unit.settings) for unit in units]

    def _work(self, settings: Mapping[str, Any]) -> Outcome:
        with threadpool_limits(1), training.one_thread():
            parts = split(*self._load(settings["set"], settings["seed"]), settings["seed"], settings["rows"])
            models = train_all(*parts[0], settings["seed"], settings["set"] == "simulation")
            everything = [np.concatenate(both) for both in zip(*parts[:2], strict=True)]
            on_all, _ = train("LightGBM quantiles", *everything, settings["seed"])
            rows = self.compare(dict(settings), models, {"on_all": on_all}, *parts[1:])
        return Outcome({"rows": [{"set": settings["set"], "seed": settings["seed"], **row} for row in rows]})

    def compare(self, settings: Row, model: Any, options: Row, cal: Part, new: Part) -> list[Row]:
        """Return one row a method; ``model`` are several, and ``options`` hold the one that was trained on all rows."""
        regions = find_regions(min(max(len(new[1]) // 50, 2), 10), cal[0], new[0], settings["seed"])
        rows = []

        def add(method: str, dist: nc.Distribution, choice: str = "", seconds: float = 0.0) -> None:
            interval = interval_scores(*dist.interval(WIDE), new[1], WIDE).mean()
            own = {"method": method, "n_cal": len(cal[1]), "choice": choice, "seconds": seconds}
            rows.append({**own, **judge(dist, new[1], regions), "interval_score": float(interval)})

        for name, one in model.items():
            start = time.process_time()
            layers = ["input", "output", "input + output"] if name in TREES else "auto"
            calibrated = recalibrators.calibrate(one, *cal, layers, one_thread=True)
            seconds = time.process_time() - start
            add(f"{name}, base", calibrated.base(new[0]))
            add(name, calibrated.predict(new[0]), str(calibrated.tuning.chosen), seconds)
        start = time.process_time()
        together = recalibrators.calibrate(model, *cal, one_thread=True)
        add(SEVERAL, together.predict(new[0]), together.reason, time.process_time() - start)
        add(ALL_ROWS, nc.adapt(options["on_all"]).distribution(new[0]))
        return rows

    def conclude(self, settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> Conclusion:
        """Return the table by set, and whether what was promised is kept."""
        rows = [row for outcome in done.values() for row in outcome.numbers["rows"]]
        rows = sorted(rows, key=lambda row: settings["sets"].index(row["set"]))
        return Conclusion({"rows": rows}, as_markdown(rows), judge_promises(rows))


def train_all(x: NDArray[Any], y: NDArray[Any], seed: int, is_simulation: bool) -> dict[str, Any]:
    """Return the four models, trained."""
    hidden = (5, 5, 5, 5) if is_simulation else (50, 50)
    models = {name: train(name, x, y, seed, hidden)[0] for name in MODELS if name != "extra trees"}
    return {**models, "extra trees": ExtraTreesRegressor(_FOREST, n_jobs=1, random_state=seed).fit(x, y)}


def mean_of(rows: Sequence[Row], name: str, method: str, key: str = "crps") -> float:
    """Return the mean over seeds of a figure of one method on one set."""
    return float(np.mean([row[key] for row in rows if (row["set"], row["method"]) == (name, method)]))


def best_alone(rows: Sequence[Row], name: str, key: str = "crps") -> tuple[str, float]:
    """Return the calibrated model with the least mean over seeds on one set, in hindsight."""
    means = {model: mean_of(rows, name, model, key) for model in MODELS}
    best = min(means, key=lambda model: means[model])
    return best, means[best]


def ratios(rows: Sequence[Row], key: str = "crps") -> dict[str, float]:
    """Return the mean of several models relative to the best alone, by set."""
    return {name: mean_of(rows, name, SEVERAL, key) / best_alone(rows, name, key)[1] for name in _sets(rows)}


def as_markdown(rows: Sequence[Row]) -> str:
    """Return the table of sets."""
    seeds = sorted({row["seed"] for row in rows})
    counts = {name: len({row["seed"] for row in rows if row["set"] == name}) for name in _sets(rows)}
    boosted = _geometric([of_all_rows(rows, name, "LightGBM quantiles") for name in _sets(rows)])
    lines = [
        f"Seeds {', '.join(map(str, seeds))}; {sum(counts.values())} runs of {len(counts)} sets. Means over seeds: "
        "CRPS of all models together, and relative to it that of the best of them alone, calibrated, in hindsight; of "
        "LightGBM trained on the training and the calibration rows; and of LightGBM trained on the training rows and "
        "recalibrated. Coverage of 90% intervals, and the score of 95% intervals relative to the best alone's.",
        "",
        "| set | seeds | several | best alone | / several | LightGBM, all rows / several | LightGBM, recalibrated / "
        "several | coverage of 90% | interval score / best alone's |",
        "|---" * 9 + "|",
    ]
    for name, count in counts.items():
        own, (best, alone) = mean_of(rows, name, SEVERAL), best_alone(rows, name)
        cells = [f"{own:.4f}", best, f"{alone / own:.3f}", f"{mean_of(rows, name, ALL_ROWS) / own:.3f}"]
        cells += [f"{mean_of(rows, name, 'LightGBM quantiles') / own:.3f}"]
        cells += [f"{100 * mean_of(rows, name, SEVERAL, 'coverage90'):.1f}"]
        cells += [f"{ratios(rows, 'interval_score')[name]:.3f}"]
        lines.append(f"| {name} | {count} | " + " | ".join(cells) + " |")
    wins = sum(of_all_rows(rows, name, "LightGBM quantiles") < 1 for name in counts)
    return "\n".join(
        [
            *lines,
            "",
            "LightGBM trained on the training rows and recalibrated on the calibration rows has a CRPS of "
            f"{boosted:.3f} times that of LightGBM trained on both (geometric mean over sets), less on {wins} of "
            f"{len(counts)}; "
            f"its 90% intervals cover {_coverage(rows, 'LightGBM quantiles')}%, those of the other "
            f"{_coverage(rows, ALL_ROWS)}%.",
        ]
    )


def of_all_rows(rows: Sequence[Row], name: str, method: str) -> float:
    """Return the mean CRPS of a method relative to LightGBM's trained on all rows."""
    return mean_of(rows, name, method) / mean_of(rows, name, ALL_ROWS)


def judge_promises(rows: Sequence[Row]) -> list[Check]:
    """Return what was asked of several models."""
    by_set = ratios(rows)
    worst = max(by_set, key=lambda name: by_set[name])
    below = sum(of_all_rows(rows, name, SEVERAL) < 1 for name in by_set)
    return [
        Check("CRPS relative to the best model alone, geometric mean", _geometric(list(by_set.values())), "<", 0.98),
        Check(f"the same at worst ({worst})", by_set[worst], "<", 1.01),
        Check(f"sets with a CRPS below LightGBM's on all rows, of {len(by_set)}", below, ">", len(by_set) - 2.5),
    ]


def _sets(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["set"] for row in rows))


def _geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def _coverage(rows: Sequence[Row], method: str) -> str:
    return f"{100 * np.mean([mean_of(rows, name, method, 'coverage90') for name in _sets(rows)]):.1f}"
