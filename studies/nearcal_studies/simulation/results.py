"""Rows of all units put together, and their means over seeds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nearcal_studies.simulation.costs import add_up
from nearcal_studies.simulation.methods import COVERAGE, Row
from nearcal_studies.study import Outcome

#: What is measured of every row; those relative to the network are ratios on the same test rows.
METRICS = (
    "mse",
    "relative_mse",
    "coverage",
    "coverage_error",
    "crps",
    "relative_crps",
    "interval_score",
    "relative_interval_score",
    "train_seconds",
    "fit_seconds",
    "predict_microseconds",
    "predict_megabytes",
)
NO_NETWORK = "none"
KINDS = ("local", "density", "tuned")  # of units that recalibrate a network; the first has the network itself too


def gather_rows(settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> list[Row]:
    """Return one row a size, network, seed, method and setting."""
    rows: list[Row] = []
    for size in settings["sizes"]:
        for seed in size["seeds"]:
            shared = {"n": size["n"], "seed": seed}
            for network in settings["networks"]:
                rows += _of_network(f"{network}-{size['n']}-{seed}", {**shared, "network": network}, done)
            for row in done[f"neighbors-{size['n']}-{seed}"].numbers["rows"]:
                rows.append({**shared, "network": NO_NETWORK, **row, "train_seconds": 0.0, **_error_of(row)})
    return rows


def _of_network(name: str, shared: Row, done: Mapping[str, Outcome]) -> Iterator[Row]:
    trained, units = done[f"train-{name}"].numbers, [done[f"{kind}-{name}"].numbers for kind in KINDS]
    if trained["collapsed"]:
        return
    base = units[0]["rows"][0]
    for unit in units:
        through = unit["pass_microseconds"]
        for row in unit["rows"]:
            relative = {f"relative_{score}": row[score] / base[score] for score in ("mse", "crps", "interval_score")}
            costs = {
                "train_seconds": trained["seconds"],
                "fit_seconds": row.get("fit_seconds", 0.0),
                "predict_microseconds": through + row.get("predict_microseconds", 0.0),
            }
            yield {**shared, **row, **relative, **costs, **_error_of(row)}


def _error_of(row: Row) -> Row:
    return {"coverage_error": abs(row["coverage"] - COVERAGE)}


def summarise(settings: Mapping[str, Any], done: Mapping[str, Outcome], rows: Sequence[Row]) -> dict[str, Any]:
    """Return every number of tables and claims."""
    return {
        "methods": pool(rows, ("n", "network", "method")),
        "by_k": pool(rows, ("n", "network", "method", "k")),
        "settings": pool(
            [row for row in rows if row["method"] in ("local", "neighbors")],
            ("n", "network", "method", "layer", "k", "eps"),
        ),
        "choices": [
            {name: row[name] for name in ("n", "network", "seed", "layer", "k", "choice")}
            for row in rows
            if "choice" in row
        ],
        "training": _training(settings, done),
        "costs": _costs(settings, done),
        "memory": done["memory"].numbers["memory"],
    }


def pool(rows: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    """Return means and standard deviations over seeds, by the keys; within a seed, settings are averaged first.

    Of prediction times the least is there as well: other work on the machine only ever adds to them.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    return [{**dict(zip(keys, group, strict=True)), **_moments(members)} for group, members in groups.items()]


def _moments(rows: Sequence[Row]) -> Row:
    seeds = sorted({row["seed"] for row in rows})
    found: Row = {"seeds": len(seeds)}
    for metric in METRICS:
        values = [
            [row[metric] for row in rows if row["seed"] == seed and row.get(metric) is not None] for seed in seeds
        ]
        means = [np.mean(of_seed) for of_seed in values if of_seed]
        if means:
            found[metric] = float(np.mean(means))
            found[f"{metric}_sd"] = float(np.std(means, ddof=1)) if len(means) > 1 else None
    found["least_microseconds"] = min(row["predict_microseconds"] for row in rows)
    return found


def _training(settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> list[Row]:
    """Return, for every size and network, the learning rate chosen, epochs, and the networks that collapsed."""
    found = []
    for size in settings["sizes"]:
        for network in settings["networks"]:
            rate = done[f"rate-{network}-{size['n']}"].numbers
            trained = {seed: done[f"train-{network}-{size['n']}-{seed}"].numbers for seed in size["seeds"]}
            found.append(
                {
                    "n": size["n"],
                    "network": network,
                    "rate": rate["rate"],
                    "trials": rate["trials"],
                    "epochs": [of["epochs"] for of in trained.values()],
                    "dead_units": [sum(of["dead_units"]) for of in trained.values()],
                    "collapsed": [
                        {"seed": seed, "explained": of["explained"], "dead_units": of["dead_units"]}
                        for seed, of in trained.items()
                        if of["collapsed"]
                    ],
                    "trained": len(trained),
                }
            )
    return found


def _costs(settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> list[Row]:
    """Return what the units of a size took, all together and by kind."""
    found = []
    for size in settings["sizes"]:
        by_kind: dict[str, list[Mapping[str, float]]] = {}
        for key, unit in done.items():
            kind, *others = key.split("-")
            if str(size["n"]) in others and "cost" in unit.numbers:
                by_kind.setdefault(kind, []).append(unit.numbers["cost"])
        found.append(
            {
                "n": size["n"],
                **add_up([cost for costs in by_kind.values() for cost in costs]),
                "kinds": {kind: add_up(costs) for kind, costs in by_kind.items()},
            }
        )
    return found
