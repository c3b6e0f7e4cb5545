"""Intervals with a guarantee: ours and its rivals on ten real sets, four base models, several seeds.

    python benchmarks/guarantees.py --data FOLDER --seeds 20 21 22 23 24

Every set is split at random into 60%, 20% and 20%, at most 2,000 rows to train on, 600 to calibrate with and 1,000 to
judge; 90% intervals. A unit is a set, a base model and a seed; finished units are kept in the JSON file, so that an
interrupted run goes on. Settings of ours (the share set aside) and of RLCP (its bandwidth) were chosen on seeds 0 and
1; seeds from 20 on judge them.

Rivals: split conformal and residual-normalised conformal by MAPIE; CQR on the base model's quantiles; crepes,
normalised by nearest neighbours and by Mondrian bins of that; the conditional guarantee of Gibbs, Cherian and Candès
for functions linear in x, one linear programme a row, as its paper and MAPIE have it (MAPIE's own needs cvxpy); RLCP
of Hore and Barber, naively.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from covmetrics.ERT import ERT
from covmetrics.losses import L1_miscoverage, brier_score
from crepes import ConformalRegressor
from crepes.extras import DifficultyEstimator, binning
from lightgbm import LGBMClassifier
from mapie.conformity_scores import ResidualNormalisedScore
from mapie.regression import SplitConformalRegressor
from scipy.optimize import linprog
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from threadpoolctl import threadpool_limits

import nearcal as nc
from nearcal_studies import training
from nearcal_studies.sets import BASES, TABLES, SetStudy, split, train

COVERAGE = 0.9
ROWS = (2000, 600, 1000)
SHARE = None  # of calibration rows, set aside: the default, 5√n of them
RLCP_SIZE = 100  # effective number of points that RLCP's bandwidth is chosen for
RESULTS = Path(__file__).parent / "results" / "guarantees.json"
CLASSIFIER = {"n_estimators": 50, "max_depth": 3, "learning_rate": 0.05, "min_child_samples": 40}


class Sets(SetStudy):
    """Loads sets as the studies do."""

    name = title = "guarantees"
    compare = settings = conclude = None


Sets.__abstractmethods__ = frozenset()


class Known(RegressorMixin, BaseEstimator):
    """A fitted regressor whose predictions are the means of a model as nearcal sees it."""

    def __init__(self, adapter=None):
        self.adapter = adapter

    def fit(self, X, y):
        """Take note: there is nothing to fit."""
        self.fitted_ = True
        return self

    def predict(self, X):
        """Return means."""
        return self.adapter.distribution(np.asarray(X)).mean()


# ---- methods: each returns a function of new inputs, which returns the ends of intervals ----------------------------


def ours(promise):
    """Local recalibration, tuned, with a promise."""

    def fit(case):
        calibrated = nc.calibrate(
            case.model, case.X, case.y, guarantee=promise, tuning={"effort": "quick"}, workers=nc.Workers(threads=1),
            **case.options,
        )  # fmt: skip
        return lambda X: calibrated.predict(X).interval(COVERAGE)

    return fit


def without_guarantee(case):
    """Local recalibration, tuned on all calibration rows, without a promise."""
    calibrated = nc.calibrate(
        case.model, case.X, case.y, tuning={"effort": "quick"}, workers=nc.Workers(threads=1), **case.options
    )
    return lambda X: calibrated.predict(X).interval(COVERAGE)


def split_conformal(case):
    """Absolute residuals, by MAPIE: intervals of one width."""
    conformal = SplitConformalRegressor(Known(case.adapter).fit(None, None), COVERAGE, prefit=True)
    conformal.conformalize(case.X, case.y)
    return lambda X: conformal.predict_interval(X)[1][:, :, 0].T


def residual_normalised(case):
    """Residuals over their size as a forest predicts it, by MAPIE."""
    forest = RandomForestRegressor(100, min_samples_leaf=10, n_jobs=1, random_state=0)
    score = ResidualNormalisedScore(residual_estimator=forest, prefit=False, random_state=0)
    conformal = SplitConformalRegressor(Known(case.adapter).fit(None, None), COVERAGE, score, prefit=True)
    conformal.conformalize(case.X, case.y)
    return lambda X: conformal.predict_interval(X)[1][:, :, 0].T


def cqr(case):
    """Conformalized quantile regression on the quantiles of the base model."""
    levels = np.array([0.5 - COVERAGE / 2, 0.5 + COVERAGE / 2])
    low, high = case.adapter.distribution(case.X).ppf(levels).T
    threshold = conformal_quantile(np.maximum(low - case.y, case.y - high))

    def predict(X):
        low, high = case.adapter.distribution(X).ppf(levels).T
        return low - threshold, high + threshold

    return predict


def crepes(mondrian):
    """Residuals over the size of those of neighbours, or in bins of it, by crepes."""

    def fit(case):
        rest, held = nc.Marginal(share=0.5).set_aside(len(case.y))
        residuals = case.y - case.adapter.distribution(case.X).mean()
        difficulty = DifficultyEstimator().fit(case.X[rest], residuals=residuals[rest], scaler=True)
        sigmas = difficulty.apply(case.X[held])
        if not mondrian:
            conformal = ConformalRegressor().fit(residuals[held], sigmas=sigmas)
            return lambda X: (
                conformal.predict_int(
                    case.adapter.distribution(X).mean(), sigmas=difficulty.apply(X), confidence=COVERAGE
                ).T
            )
        bins, edges = binning(sigmas, bins=4)
        conformal = ConformalRegressor().fit(residuals[held], bins=bins)
        return lambda X: (
            conformal.predict_int(
                case.adapter.distribution(X).mean(), bins=binning(difficulty.apply(X), bins=edges), confidence=COVERAGE
            ).T
        )

    return fit


def gibbs(case):
    """Gibbs, Cherian and Candès, class of functions linear in x, deterministic: one linear programme a row."""
    scores = np.abs(case.y - case.adapter.distribution(case.X).mean())
    members = np.column_stack([np.ones(len(case.X)), case.X])

    def threshold(row):
        answer = linprog(-scores, A_eq=members.T, b_eq=-COVERAGE * row, bounds=(COVERAGE - 1, COVERAGE), method="highs")
        return np.inf if answer.status == 2 else -answer.eqlin.marginals @ row

    def predict(X):
        half = np.array([threshold(np.append(1.0, row)) for row in X])
        mean = case.adapter.distribution(X).mean()
        return mean - half, mean + half

    return predict


def rlcp(case):
    """Hore and Barber: weights around a centre drawn near the new row, whose own weight lies at infinity."""
    scores = np.abs(case.y - case.adapter.distribution(case.X).mean())
    order = np.argsort(scores)
    points, ordered = case.X[order], np.append(scores[order], np.inf)
    bandwidth = _bandwidth(points)

    def predict(X):
        centres = X + np.random.default_rng(0).normal(scale=bandwidth, size=X.shape)
        own = np.exp(-((X - centres) ** 2).sum(axis=1) / (2 * bandwidth**2))
        squares = (centres**2).sum(axis=1)[:, None] + (points**2).sum(axis=1) - 2 * centres @ points.T
        weights = np.column_stack([np.exp(-squares / (2 * bandwidth**2)), own])
        cumulated = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
        half = ordered[np.minimum((cumulated < COVERAGE - 1e-12).sum(axis=1), len(scores))]
        mean = case.adapter.distribution(X).mean()
        return mean - half, mean + half

    return predict


def _bandwidth(points):
    """Return the least of a grid at which a centre has the effective number of points asked for, at the median."""
    squares = (points**2).sum(axis=1)[:, None] + (points**2).sum(axis=1) - 2 * points @ points.T
    for bandwidth in np.geomspace(0.1, 10.0, 25):
        weights = np.exp(-np.maximum(squares, 0) / (4 * bandwidth**2))  # a centre is a bandwidth away itself
        if np.median(weights.sum(axis=1) ** 2 / (weights**2).sum(axis=1)) >= min(RLCP_SIZE, 0.5 * len(points)):
            return bandwidth
    return 10.0


def conformal_quantile(scores):
    """Return the order statistic of split conformal prediction."""
    rank = int(np.ceil((len(scores) + 1) * COVERAGE - 1e-9))
    return np.inf if rank > len(scores) else np.sort(scores)[rank - 1]


METHODS: dict[str, Callable] = {
    "nearcal, marginal": ours(nc.Marginal(share=SHARE)),
    "nearcal, cross": ours(nc.Cross(folds=5)),
    "nearcal, no guarantee": without_guarantee,
    "split conformal (MAPIE)": split_conformal,
    "CQR": cqr,
    "residual-normalised (MAPIE)": residual_normalised,
    "normalised (crepes)": crepes(mondrian=False),
    "Mondrian (crepes)": crepes(mondrian=True),
    "Gibbs et al.": gibbs,
    "RLCP": rlcp,
}
CHOOSING = {f"nearcal, share {share}": ours(nc.Marginal(share=share)) for share in (None, 0.15, 0.25, 0.4)} | {
    "nearcal, cross": ours(nc.Cross(folds=5)),
    "nearcal, no guarantee": without_guarantee,
}

# ---- one unit -------------------------------------------------------------------------------------------------------


class Case:
    """A trained model and the calibration rows."""

    def __init__(self, model, options, X, y):
        self.model, self.options, self.X, self.y = model, options, X, y
        self.adapter = nc.adapt(model, **options).prepared(X, y)


def run_unit(sets, name, base, seed, methods):
    """Return a row for every method, of one trained model."""
    with threadpool_limits(1), training.one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = split(*sets._load(name, seed), seed, ROWS)
        model, options = train(base, *parts[0], seed)
        case, (X, y) = Case(model, options, *parts[1]), parts[2]
        return [{"method": method, **judge(fit, case, X, y)} for method, fit in methods.items()]


def shape_of(sets, name, base, seed, rows=(2000, 1000, 2000)):
    """Return the CRPS with the guarantee relative to that without, of the same 1,000 calibration rows."""
    with threadpool_limits(1), training.one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = split(*sets._load(name, seed), seed, rows)
        model, options = train(base, *parts[0], seed)
        how = {"tuning": {"effort": "quick"}, "workers": nc.Workers(threads=1), **options}
        scores = {}
        for word, guarantee in (("without", None), ("cross", nc.Cross()), ("marginal", nc.Marginal(share=SHARE))):
            dist = nc.calibrate(model, *parts[1], guarantee=guarantee, **how).predict(parts[2][0])
            scores[word] = float(nc.scores.crps(dist, parts[2][1]).mean())
        inner = float(nc.scores.crps(dist.scores.inner, parts[2][1]).mean())  # learnt from as few rows, no promise
    ratios = {"ratio": scores["marginal"] / scores["without"], "of_the_map": scores["marginal"] / inner}
    ratios["cross_ratio"] = scores["cross"] / scores["without"]
    return [{"n_cal": len(parts[1][1]), **scores, **ratios}]


def judge(fit, case, X, y):
    """Return how one method does."""
    begin = time.process_time()
    predict = fit(case)
    fitted = time.process_time()
    lower, upper = predict(X)
    done = time.process_time()
    infinite = ~np.isfinite(upper - lower)
    reach = 2 * np.ptp(case.y)  # stands for an infinite end, where a mean is taken
    middle = np.median(case.y)
    lower, upper = np.maximum(lower, middle - reach), np.minimum(upper, middle + reach)
    covered = (lower <= y) & (y <= upper)
    missed = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    return {
        "coverage": float(covered.mean()),
        "width": float((upper - lower).mean()),
        "interval_score": float((upper - lower + 2 / (1 - COVERAGE) * missed).mean()),
        "infinite": float(infinite.mean()),
        **excess_risks(X, covered),
        "worst_slab": worst_slab(X, covered),
        "fit_seconds": fitted - begin,
        "predict_seconds": done - fitted,
        "rows": len(y),
        "n_cal": len(case.y),
    }


def excess_risks(X, covered):
    """Return the excess risks of the target coverage as covmetrics has them, cross-fitted in five folds."""
    if covered.all():
        return {"ert_l1": 1 - COVERAGE, "ert_brier": (1 - COVERAGE) ** 2}
    ert = ERT(LGBMClassifier, **CLASSIFIER, n_jobs=1, verbose=-1)
    found = ert.evaluate_multiple_losses(
        X, covered.astype(np.float64), 1 - COVERAGE, all_losses=[brier_score, L1_miscoverage]
    )
    return {"ert_l1": float(found["ERT_L1_miscoverage"]), "ert_brier": float(found["ERT_brier_score"])}


def worst_slab(X, covered):
    """Return the coverage of the worst slab with a fifth of the rows, on rows that it was not searched in."""
    y = np.where(covered, 0.0, 9.0)  # a Normal interval holds the one and not the other
    table = nc.diagnostics.worst_slab_coverage(
        nc.Normal(np.zeros(len(y)), 1.0), y, X, coverage=COVERAGE, mass=0.2, directions=200
    )
    return float(table["coverage"][0])


def main():
    """Run what is not done yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21, 22, 23, 24])
    parser.add_argument("--sets", nargs="+", default=[*TABLES, "diamonds"])
    parser.add_argument("--bases", nargs="+", default=BASES)
    parser.add_argument("--choose", action="store_true", help="compare shares set aside, on other seeds")
    parser.add_argument("--shape", action="store_true", help="compare the CRPS with and without the guarantee")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    methods = CHOOSING if options.choose else METHODS
    if options.output is None:
        options.output = RESULTS.with_name("guarantees_shape.json") if options.shape else RESULTS
    known = json.loads(options.output.read_text())["rows"] if options.output.exists() else []
    done = {(row["set"], row["base"], row["seed"]) for row in known}
    sets = Sets(options.data)
    for seed in options.seeds:
        for name in options.sets:
            for base in options.bases:
                if (name, base, seed) in done:
                    continue
                unit = {"set": name, "base": base, "seed": seed}
                work = shape_of(sets, name, base, seed) if options.shape else run_unit(sets, name, base, seed, methods)
                known += [{**unit, **row} for row in work]
                facts = {"coverage": COVERAGE, "rows": ROWS, "share": SHARE, "version": nc.__version__}
                options.output.write_text(json.dumps({"settings": facts, "rows": known}, indent=1))
                print(seed, name, base, flush=True)
    if options.shape:
        print(shape_words(options.output))
        return
    shape = RESULTS.with_name("guarantees_shape.json")
    table = as_markdown(known) + (f"\n\n{shape_words(shape)}" if shape.exists() else "")
    options.output.with_suffix(".md").write_text(table + "\n")
    print(table)


def _listed(units, place):
    return ", ".join(dict.fromkeys(str(unit[place]) for unit in units))


def shape_words(path):
    """Say what the guarantee costs in CRPS, by fewer rows to learn from, and by the map of the promise itself."""
    rows = json.loads(path.read_text())["rows"]
    cost, of_map, cross = (np.array([row[what] for row in rows]) for what in ("ratio", "of_the_map", "cross_ratio"))
    return (
        f"CRPS with the marginal guarantee relative to that without, of the same 1,000 calibration rows, {len(rows)} "
        f"units: median {np.median(cost):.3f}, largest {cost.max():.3f}, within 2% in {(cost <= 1.02).sum()}. Of that "
        f"the map of the promise itself: median {np.median(of_map):.3f}, largest {of_map.max():.3f}; the rest is that "
        "5√n = 158 rows are not learnt from. "
        f'With "cross", which learns from all: median {np.median(cross):.3f}, largest {cross.max():.3f}.'
    )


def as_markdown(rows):
    """Return the table of methods: means over units, widths and scores relative to the best rival of each unit."""
    units = {}
    for row in rows:
        units.setdefault((row["set"], row["base"], row["seed"]), {})[row["method"]] = row
    whole = [unit for unit in units.values() if len(unit) == max(map(len, units.values()))]
    names = list(whole[0])
    lines = [
        f"Means over {len(whole)} units: {_listed(units, 0)}; {_listed(units, 1)}; seeds {_listed(units, 2)}.",
        "Width and interval score relative to the split conformal one of the unit, geometric means; time per row "
        "predicted, median.",
        "",
        "| method | coverage | width | interval score | ERT (L1), pts | ERT (Brier) × 1000 | worst slab | infinite | "
        "µs a row |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    reference = next((name for name in names if name.startswith("split")), names[0])
    for name in names:
        own = [unit[name] for unit in whole]
        base = [unit[reference] for unit in whole]
        relative = {
            what: np.exp(np.mean([np.log(a[what] / b[what]) for a, b in zip(own, base, strict=True)]))
            for what in ("width", "interval_score")
        }
        mean = {what: np.nanmean([row[what] for row in own]) for what in own[0] if what != "method" and what in (
            "coverage", "ert_l1", "ert_brier", "worst_slab", "infinite")}  # fmt: skip
        pace = np.median([1e6 * row["predict_seconds"] / row["rows"] for row in own])
        lines.append(
            f"| {name} | {100 * mean['coverage']:.1f} | {relative['width']:.3f} | {relative['interval_score']:.3f} | "
            f"{100 * mean['ert_l1']:.2f} | {1000 * mean['ert_brier']:.2f} | {100 * mean['worst_slab']:.1f} | "
            f"{100 * mean['infinite']:.2f}% | {pace:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
