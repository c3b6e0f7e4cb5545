"""Do promises hold: calibration sets drawn over and over, and the exact coverage of the intervals of each.

Two simulations. Of scores alone, as the conformal layer sees them: n points set aside, in two groups A and B that
overlap, whose scores are calibrated, or have another spread in every combination of groups, or heavy tails and ties;
the coverage of each set's interval follows from the true law. And of whole calibrations through the public interface,
with local recalibration of few points inside; and with none set aside, as controls.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import linprog
from scipy.sparse import block_diag

import nearcal as nc
from nearcal.guarantees.conditional_quantiles import STEP, TOLERANCE, solve
from nearcal.recalibration.order_statistics import ConfidentOrderStatistics, OrderStatistics
from nearcal_studies.study import Check, Conclusion, Outcome, Scale, Study, Unit

KINDS = ["calibrated", "heteroscedastic", "heavy tails, ties"]
COVERAGE, DELTA = 0.9, 0.1
_IN_GROUP = 0.4  # the probability to be in A, and in B
_COMBINATIONS = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=np.float64)
_CHUNK = 2_000_000
_PROGRAMMES = 25  # solved together
_SETS_OF_CROSS = 0.1  # of sets, since every fold is a fit
Array = NDArray[np.float64]


class Guarantees(Study):
    """Twenty thousand calibration sets of 19 to 1,000 points; two thousand whole calibrations of 19 and 50."""

    name = "guarantees"
    title = "Coverage with a guarantee"

    def settings(self, scale: Scale) -> dict[str, Any]:
        """Return the numbers of sets and points."""
        return {
            "sets": scale.choose(20_000, quick=2_000),
            "points": [19, 50, 200, 1000],
            "programmes": scale.choose(dict.fromkeys(("19", "50", "200", "1000"), 20_000), quick={"50": 300}),
            "whole": scale.choose(2_000, quick=60),
            "whole_points": [19, 50],
            "seeds": scale.seed_list(1, first=20),
        }

    def units(self, settings: Mapping[str, Any]) -> list[Unit]:
        """Return a unit for each simulation, kind of error and number of points."""
        units = []
        for seed in settings["seeds"]:
            for kind in KINDS:
                for n in settings["points"]:
                    about = {"kind": kind, "n": n, "seed": seed}
                    units.append(_unit("scores", of_scores, {**about, "sets": settings["sets"]}))
                for n, sets in settings["programmes"].items():
                    about = {"kind": kind, "n": int(n), "seed": seed, "sets": sets}
                    units.append(_unit("overlap", of_overlap, about, cost=0.1 * sets))
                about = {"kind": kind, "n": 19, "seed": seed, "sets": settings["whole"]}
                units.append(_unit("control", of_control, about, cost=10.0))
                for n in settings["whole_points"]:
                    about = {"kind": kind, "n": n, "seed": seed, "sets": settings["whole"]}
                    units.append(_unit("whole", of_whole, about, cost=0.01 * n * settings["whole"]))
        return sorted(units, key=lambda unit: unit.cost)  # cheap ones first

    def conclude(self, settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> Conclusion:
        """Return the table, and whether every promise was kept."""
        rows = [row for outcome in done.values() for row in outcome.numbers["rows"]]
        return Conclusion({"rows": rows}, as_markdown(rows), judge(rows))


def _unit(what: str, work: Callable[..., Any], settings: dict[str, Any], cost: float = 1.0) -> Unit:
    key = f"{what}-{KINDS.index(settings['kind'])}-{settings['n']}-{settings['seed']}"
    return Unit(key, lambda given: Outcome({"rows": work(**given)}), settings, cost)


# ---- laws of scores --------------------------------------------------------------------------------------------------


def spread(kind: str, flags: Array) -> Array:
    """Return the spread of scores in groups A and B."""
    if kind == "calibrated":
        return np.ones(flags.shape[:-1])
    return 0.7 * (1 + flags[..., 0]) * (1 + 0.5 * flags[..., 1])


def draw(kind: str, flags: Array, rng: np.random.Generator) -> Array:
    """Return scores of points in some groups."""
    scale = spread(kind, flags)
    if kind != KINDS[2]:
        return scale * rng.normal(size=scale.shape)
    return np.round(2 * scale * rng.standard_t(2, size=scale.shape)) / 2


def probability(kind: str, flags: Array, low: Array, high: Array) -> Array:
    """Return P(low <= Z <= high) of a point in some groups."""
    scale = spread(kind, flags)
    if kind != KINDS[2]:
        return stats.norm.cdf(high / scale) - stats.norm.cdf(low / scale)
    above, below = np.floor(2 * high + 1e-6) / 2 + 0.25, np.ceil(2 * low - 1e-6) / 2 - 0.25
    return stats.t(2).cdf(above / scale) - stats.t(2).cdf(below / scale)


def shares(of_group: int | None = None) -> Array:
    """Return the probability of every combination of groups, given one of them if it is named."""
    weight = np.prod(np.where(_COMBINATIONS > 0, _IN_GROUP, 1 - _IN_GROUP), axis=1)
    weight = weight if of_group is None else weight * _COMBINATIONS[:, of_group]
    return weight / weight.sum()


# ---- the conformal layer alone ---------------------------------------------------------------------------------------


def of_scores(kind: str, n: int, seed: int, sets: int) -> list[dict[str, Any]]:
    """Return coverages of order statistics: of everybody, of groups by label, and for all but few sets."""
    rng = np.random.default_rng([seed, n, KINDS.index(kind)])
    found: dict[str, list[Array]] = {name: [] for name in ("marginal", "upper bound", "pac", "group A", "group not A")}
    most: dict[str, list[Array]] = {name: [] for name in found}
    for start in range(0, sets, max(_CHUNK // n, 1)):
        count = min(max(_CHUNK // n, 1), sets - start)
        flags = (rng.uniform(size=(count, n, 2)) < _IN_GROUP).astype(np.float64)
        z = draw(kind, flags, rng)
        ordered = np.sort(z, axis=1)
        found["marginal"].append(_of_all(kind, *_at(OrderStatistics, ordered)))
        found["upper bound"].append(_of_all(kind, np.full(count, -np.inf), _upper(ordered)))
        found["pac"].append(_of_all(kind, *_at(lambda ranks: ConfidentOrderStatistics(ranks, DELTA), ordered)))
        for name, inside in (("group A", flags[..., 0] > 0), ("group not A", flags[..., 0] == 0)):
            found[name].append(_by_label(kind, z, inside, 1 if name == "group A" else 0))
            most[name].append(np.minimum(COVERAGE + 1 / (inside.sum(axis=1) + 1), 1.0))
    rows = [_row("scores", kind, n, name, np.concatenate(parts)) for name, parts in found.items()]
    for row in rows:
        if row["variant"] != "pac" and kind != KINDS[2]:  # with ties there may be more
            own = most[row["variant"]]
            row["most"] = float(np.concatenate(own).mean()) if own else COVERAGE + 1 / (n + 1)
    return rows


def _at(statistics: Callable[[Array], OrderStatistics], ordered: Array) -> tuple[Array, Array]:
    """Return the ends of the central interval of every set: the library chooses ranks, given ranks for scores."""
    n = ordered.shape[1]
    low, high = (float(end) for end in statistics(np.arange(1.0, n + 1)).central(np.array(COVERAGE)))
    infinite = np.full(len(ordered), np.inf)
    lower = -infinite if np.isinf(low) else ordered[:, int(low) - 1]
    return lower, infinite if np.isinf(high) else ordered[:, int(high) - 1]


def _upper(ordered: Array) -> Array:
    high = float(OrderStatistics(np.arange(1.0, ordered.shape[1] + 1)).quantile_bounds(np.array(COVERAGE))[1])
    return np.full(len(ordered), np.inf) if np.isinf(high) else ordered[:, int(high) - 1]


def _of_all(kind: str, low: Array, high: Array, weight: Array | None = None) -> Array:
    own = [probability(kind, flags, low, high) for flags in _COMBINATIONS]
    return (shares() if weight is None else weight) @ np.array(own)


def _by_label(kind: str, z: Array, inside: NDArray[np.bool_], label: int) -> Array:
    """Return coverages in a group by the order statistics of its own points, as many as every set has."""
    ordered = np.sort(np.where(inside, z, np.inf), axis=1)
    coverage = np.ones(len(z))
    sizes = inside.sum(axis=1)
    weight = shares(0) if label else shares() * (1 - _COMBINATIONS[:, 0]) / (1 - _IN_GROUP)
    for size in np.unique(sizes):
        own = sizes == size
        if size:
            coverage[own] = _of_all(kind, *_at(OrderStatistics, ordered[own, :size]), weight)
    return coverage


def of_overlap(kind: str, n: int, seed: int, sets: int) -> list[dict[str, Any]]:
    """Return coverages of the conditional quantile at 90% in groups that overlap, one new point's groups a set."""
    rng = np.random.default_rng([seed, n, KINDS.index(kind), 1])
    high, groups = np.empty(sets), np.empty((sets, 2))
    for start in range(0, sets, _PROGRAMMES):
        flags = (rng.uniform(size=(min(_PROGRAMMES, sets - start), n + 1, 2)) < _IN_GROUP).astype(np.float64)
        own = slice(start, start + len(flags))
        high[own] = solve_many(draw(kind, flags[:, :n], rng), np.concatenate([flags[..., :1] * 0 + 1, flags], axis=2))
        groups[own] = flags[:, n]
    coverage = np.array([probability(kind, *one) for one in zip(groups, np.full(sets, -np.inf), high, strict=True)])
    rows = [("conditional, all", np.ones(sets, dtype=bool))]
    rows += [(f"conditional, {name}", groups[:, place] > 0) for place, name in enumerate("AB")]
    rows += [("conditional, A and B", groups.all(axis=1))]
    return [_row("overlap", kind, n, name, coverage[own]) for name, own in rows]


def solve_many(scores: Array, members: Array) -> Array:
    """Return the thresholds of several sets at once, the last of ``members`` of each being the new point.

    Independent programmes side by side are one programme, solved in a sixth of the time with the same numbers. Where
    one of them has no solution, each is left to the library.
    """
    level, new = COVERAGE - STEP, members[:, -1]
    blocks = block_diag([own[:-1].T for own in members], format="csr")
    tolerance = {"primal_feasibility_tolerance": TOLERANCE, "dual_feasibility_tolerance": TOLERANCE}
    answer = linprog(
        -scores.ravel(), A_eq=blocks, b_eq=-level * new.ravel(), bounds=(level - 1, level), options=tolerance
    )
    if answer.status != 0:
        each = zip(scores, members, new, strict=True)
        return np.array([solve(own, known[:-1], row, COVERAGE) for own, known, row in each])
    return -(answer.eqlin.marginals.reshape(new.shape) * new).sum(axis=1)


# ---- whole calibrations ----------------------------------------------------------------------------------------------


def of_whole(kind: str, n: int, seed: int, sets: int) -> list[dict[str, Any]]:
    """Return coverages of calibrations through the public interface: n points set aside, none, and by folds."""
    rng = np.random.default_rng([seed, n, KINDS.index(kind), 2])
    corrections = (nc.Polish(),)
    local = nc.LocalRecalibrator(max(n // 4, 5), quantile_rule="predictive", corrections=corrections)
    found: dict[str, list[float]] = {"marginal, whole": [], "polish, none set aside": [], "cross, 5 folds": []}
    for place in range(sets):
        x, y = _points(kind, 2 * n, rng)
        new = _points(kind, 20, rng)[0]
        base, at = nc.Normal(np.zeros(2 * n), 1.0), nc.Normal(np.zeros(20), 1.0)
        promised = nc.GuaranteedRecalibrator(local, nc.Marginal(share=n, seed=place)).fit(base, y, x)
        found["marginal, whole"].append(_covered(kind, new, promised.recalibrate(at, new)))
        polished = local.fit(base[:n], y[:n], x[:n]).recalibrate(at, new)
        found["polish, none set aside"].append(_covered(kind, new, polished))
        if place < _SETS_OF_CROSS * sets:
            cross = nc.CrossRecalibrator(local, nc.Cross(folds=5, seed=place)).fit(base[:n], y[:n], x[:n])
            found["cross, 5 folds"].append(_covered(kind, new, cross.recalibrate(at, new)))
    rows = [_row("whole", kind, n, name, np.array(values)) for name, values in found.items()]
    rows[0] |= {} if kind == KINDS[2] else {"most": COVERAGE + 1 / (n + 1)}
    bound = nc.Guarantee("cross", n, folds=tuple(map(len, nc.Cross(folds=5).parts(n)))).least(COVERAGE)
    return [row | ({"bound": bound} if row["variant"].startswith("cross") else {}) for row in rows]


def of_control(kind: str, n: int, seed: int, sets: int) -> list[dict[str, Any]]:
    """Return coverages of plain local recalibration, none set aside, which must fail: five neighbours are no tails."""
    rng = np.random.default_rng([seed, n, KINDS.index(kind), 3])
    local, found = nc.LocalRecalibrator(max(n // 4, 5), quantile_rule="interpolated"), []
    for _ in range(sets):
        (x, y), new = _points(kind, n, rng), _points(kind, 20, rng)[0]
        out = local.fit(nc.Normal(np.zeros(n), 1.0), y, x).recalibrate(nc.Normal(np.zeros(20), 1.0), new)
        found.append(_covered(kind, new, out))
    return [_row("control", kind, n, "interpolated, none set aside", np.array(found))]


def _points(kind: str, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    x = rng.uniform(size=n)
    return x, draw(kind, np.column_stack([2 * x, np.zeros(n)]), rng)


def _covered(kind: str, x: Array, out: nc.Distribution) -> float:
    low, high = out.interval(COVERAGE)
    return float(probability(kind, np.column_stack([2 * x, np.zeros(len(x))]), low, high).mean())


# ---- what came out ---------------------------------------------------------------------------------------------------


def _row(what: str, kind: str, n: int, variant: str, coverage: Array) -> dict[str, Any]:
    return {
        "what": what,
        "kind": kind,
        "n": n,
        "variant": variant,
        "sets": len(coverage),
        "coverage": float(coverage.mean()),
        "se": float(coverage.std() / np.sqrt(len(coverage))),
        "short": float((coverage < COVERAGE - 1e-12).mean()),
    }


def as_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table, a line a variant and kind of error, a column a number of points."""
    sizes = sorted({row["n"] for row in rows})
    lines = [
        "Mean coverage of 90% intervals in per cent (of conditional ones, of the upper 90% quantile bound), and its "
        "standard error; of `pac` the share of sets that fall short, of which a tenth may.",
        "",
        "| variant | error | " + " | ".join(f"n = {n}" for n in sizes) + " |",
        "|---" * (len(sizes) + 2) + "|",
    ]
    for variant in dict.fromkeys(row["variant"] for row in rows):
        for kind in KINDS:
            own = {row["n"]: row for row in rows if row["variant"] == variant and row["kind"] == kind}
            cells = [_cell(own.get(n)) for n in sizes]
            lines.append(f"| {variant} | {kind} | " + " | ".join(cells) + " |")
    lines += ["", _of_controls(rows)]
    return "\n".join(lines)


def _of_controls(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say whether what promises nothing would have passed the test of what does."""
    words = []
    for start in ("polish", "interpolated"):
        own = [row for row in rows if row["variant"].startswith(start) and row["n"] == 19]
        short = sum(row["coverage"] < COVERAGE - 3 * row["se"] for row in own)
        words.append(f"{own[0]['variant']!r} in {short} of {len(own)} kinds of error" if own else "")
    return f"Controls at n = 19 that promise nothing, and fall short by more than three errors: {', '.join(words)}."


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    if row["variant"] == "pac":
        return f"{100 * row['short']:.1f} short"
    return f"{100 * row['coverage']:.2f} ± {100 * row['se']:.2f}"


def judge(rows: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Return whether coverages lie in [c, c + 1/(n + 1)] within three standard errors, and the control does not."""
    checks = []
    for row in rows:
        name = f"{row['variant']}, {row['kind']}, n = {row['n']}"
        margin = 3 * row["se"]
        if row["variant"] == "pac":
            error = np.sqrt(DELTA * (1 - DELTA) / row["sets"])
            checks.append(Check(f"{name}: share of sets that fall short", row["short"], "<", DELTA + 3 * error))
        elif row["variant"].startswith("cross"):
            checks.append(Check(f"{name}: coverage", row["coverage"], ">", row["bound"] - margin))
        elif row["variant"] == "conditional, A and B":
            continue  # which is told, and was not promised
        elif row["variant"].startswith("polish"):
            continue  # nothing was promised; the table tells
        elif row["variant"].startswith("interpolated"):
            checks.append(Check(f"{name}: coverage, a control", row["coverage"], "<", COVERAGE - margin))
        else:
            checks.append(Check(f"{name}: coverage", row["coverage"], ">", COVERAGE - margin - 1e-12))
            if "most" in row:
                checks.append(Check(f"{name}: coverage", row["coverage"], "<", row["most"] + margin + 1e-12))
    return checks
