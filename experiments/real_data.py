"""What recalibration brings on real regression sets, tuned by leave-one-out, against what else could be done.

    python experiments/real_data.py FOLDER [--sets yacht boston ...] [--seeds 5] [--first-seed 0]

FOLDER holds the sets as NAME.npz with arrays X (n, d) and y (n,). Each is split at random into 60% to train a base
model, 20% to calibrate and 20% to judge; inputs and response are standardised by the training part. Base models are a
linear regression and a network of two hidden layers of 50, both with one standard deviation from calibration
residuals. Tuning chooses among layers, k, smoothings and scalings; what more there is to choose among, and what it
brings, is the matter of sharper.py. Writes results/real_data.json and .md beside this file.

Regions are ten clusters (k-means) of the calibration inputs. Regional error is the mean over regions of |coverage of
90% intervals - 90%|; its floor is what perfect intervals would show with so few rows in each region. Small sets have a
handful of rows in each of ten regions, so that most of the error is the floor; it is therefore also computed over fewer
regions, of 50 judged rows on average, at least two.
"""

import argparse
import json
import platform
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy.stats import binom
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor

import nearcal as nc

RESULTS = Path(__file__).parent / "results"
SETS = ["yacht", "boston", "energy", "concrete", "wine_red", "power", "kin8nm", "naval", "protein"]
METHODS = ["base", "isotonic", "global", "local, paper", "local, tuned"]
PLAIN = {"scaling": ("standard", "whiten"), "adjustment": "none", "shrinkage": False}
COVERAGE = 0.9
REGIONS = 10
HINDSIGHT_ROWS = 1000  # judged rows on which all candidates are compared


def base_models(seed):
    """Return the unfitted base models by name."""
    network = MLPRegressor(hidden_layer_sizes=(50, 50), early_stopping=True, max_iter=300, random_state=seed)
    return {"linear": LinearRegression(), "network": network}


def split(x, y, seed):
    """Return standardised inputs and responses of the training, calibration and judged rows."""
    parts = np.split(np.random.default_rng(seed).permutation(len(y)), [int(0.6 * len(y)), int(0.8 * len(y))])
    spread = x[parts[0]].std(axis=0)
    x = (x - x[parts[0]].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    y = (y - y[parts[0]].mean()) / y[parts[0]].std()
    return [(x[rows], y[rows]) for rows in parts]


def paper_settings(n_cal):
    """Return the paper's recalibrator: Epanechnikov weights in the input space, k a tenth of the calibration set."""
    return nc.LocalRecalibrator(k=min(1000, max(30, n_cal // 10), n_cal))


def run(name, x, y, seed):
    """Yield one row a base model and method."""
    train, cal, new = split(x, y, seed)
    regions = {
        "": find_regions(REGIONS, cal[0], new[0], seed),
        "_large": find_regions(min(max(len(new[1]) // 50, 2), REGIONS), cal[0], new[0], seed),
    }
    for base_name, model in base_models(seed).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(*train)
        layers = nc.adapt(model).prepared(*cal).layers()
        tuned = nc.calibrate(model, *cal, layer=layers, **PLAIN)
        fixed = {
            "isotonic": nc.IsotonicRecalibrator(),
            "global": nc.GlobalRecalibrator(),
            "local, paper": paper_settings(len(cal[1])),
        }
        results = {"base": tuned.base(new[0])}
        for method, recalibrator in fixed.items():
            calibrated = nc.calibrate(model, *cal, layer="input", recalibrator=recalibrator)
            results[method] = calibrated.predict(new[0])
        results["local, tuned"] = tuned.predict(new[0])
        row = {"set": name, "base": base_name, "seed": seed, "n_cal": len(cal[1])}
        row |= {f"floor{size}": floor(of_rows) for size, of_rows in regions.items()}
        for method in METHODS:
            extra = {}
            if method == "local, tuned":
                extra = {"choice": str(tuned.tuning.chosen), "hindsight": hindsight(tuned, cal, new)}
            yield row | {"method": method} | judge(results[method], new[1], regions) | extra


def find_regions(count, x_cal, x_new, seed):
    """Return the cluster of calibration inputs that each judged row belongs to."""
    return KMeans(count, n_init=3, random_state=seed).fit(x_cal).predict(x_new)


def judge(dist, y, regions):
    """Return mean CRPS, coverage of 90% intervals, and its mean absolute error over regions."""
    lower, upper = dist.interval(COVERAGE)
    covered = (lower <= y) & (y <= upper)
    figures = {"crps": nc.scores.crps(dist, y).mean(), "coverage": covered.mean()}
    for size, of_rows in regions.items():
        errors = [abs(covered[of_rows == r].mean() - COVERAGE) for r in np.unique(of_rows)]
        figures[f"regional_error{size}"] = np.mean(errors)
    return figures


def floor(regions):
    """Return the regional error to expect of perfect intervals: E |Binomial(n, 0.9) / n - 0.9|, mean over regions."""
    counts = np.unique(regions, return_counts=True)[1]
    return np.mean([binom(n, COVERAGE).expect(lambda hits, n=n: abs(hits / n - COVERAGE)) for n in counts])


def hindsight(tuned, cal, new):
    """Return the CRPS of leave-one-out's choice relative to that of the candidate that proves best on judged rows."""
    x, y = new[0][:HINDSIGHT_ROWS], new[1][:HINDSIGHT_ROWS]
    layers = tuned.model.layers()
    (dist_cal, spaces_cal), (dist_new, spaces_new) = tuned.model.run(cal[0], layers), tuned.model.run(x, layers)
    scores = []
    for row in tuned.tuning.table:
        if row["kind"] == "none":
            out = dist_new
        elif row["kind"] == "global":
            out = nc.GlobalRecalibrator().fit(dist_cal, cal[1]).recalibrate(dist_new)
        else:
            components = None if np.isnan(row["components"]) else int(row["components"])
            local = nc.LocalRecalibrator(
                int(row["k"]), smoothing=row["smoothing"], scaling=row["scaling"], components=components
            )
            local.fit(dist_cal, cal[1], spaces_cal[row["space"]])
            out = local.recalibrate(dist_new, spaces_new[row["space"]])
        scores.append(nc.scores.crps(out, y).mean())
    return scores[int(np.flatnonzero(tuned.tuning.table["chosen"])[0])] / min(scores)


def mean_of(rows, key, **where):
    """Return the mean of a figure over the rows that match."""
    return np.mean([row[key] for row in rows if all(row[name] == value for name, value in where.items())])


def as_markdown(rows):
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
    for name in dict.fromkeys(row["set"] for row in rows):
        for base in ("linear", "network"):
            cells = []
            for method in METHODS:
                where = {"set": name, "base": base, "method": method}
                crps = mean_of(rows, "relative_crps", **where)
                coverage, error = mean_of(rows, "coverage", **where), mean_of(rows, "regional_error", **where)
                cells.append(f"{crps:.3f} / {100 * coverage:.1f} / {100 * error:.1f}")
            least = mean_of(rows, "floor", set=name, base=base)
            lines.append(f"| {name} | {base} | " + " | ".join(cells) + f" | {100 * least:.1f} |")
    return "\n".join([*lines, "", *conclusions(rows)]) + "\n"


def conclusions(rows):
    """Return what the table shows, in sentences."""
    names = list(dict.fromkeys(row["set"] for row in rows))
    tuned = {
        (name, base): mean_of(rows, "relative_crps", set=name, base=base, method="local, tuned")
        for name in names
        for base in ("linear", "network")
    }
    worst = max(tuned, key=tuned.get)
    hind = mean_of([row for row in rows if "hindsight" in row], "hindsight")
    return [
        f"- Tuned against base, CRPS: geometric mean {np.exp(np.mean(np.log(list(tuned.values())))):.3f}, at worst "
        f"{tuned[worst]:.3f} ({worst[0]}, {worst[1]}).",
        _compare_regions(rows, "", f"{REGIONS} regions a set"),
        _compare_regions(rows, "_large", "regions of 50 judged rows or more on average"),
        f"- Leave-one-out's choice against the best candidate in hindsight: CRPS {100 * (hind - 1):.2f}% higher on "
        "average.",
    ]


def _compare_regions(rows, size, which):
    error = {method: mean_of(rows, f"regional_error{size}", method=method) for method in METHODS}
    least = mean_of(rows, f"floor{size}")
    figures = ", ".join(f"{method} {100 * error[method]:.2f}" for method in METHODS)
    tuned, isotonic = error["local, tuned"], error["isotonic"]
    return (
        f"- Error of coverage over {which}, in percentage points, mean over sets and base models: {figures}; floor "
        f"{100 * least:.2f}. Tuned against isotonic: {1 - tuned / isotonic:.0%} lower, the part above the floor "
        f"{1 - (tuned - least) / (isotonic - least):.0%} lower."
    )


def main():
    """Run the study, print the table, write it with seeds and versions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder with NAME.npz")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0, help="other than 0: results go to real_data_from_SEED")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.sets:
        data = np.load(arguments.folder / f"{name}.npz")
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            found = list(run(name, data["X"].astype(np.float64), data["y"].astype(np.float64), seed))
            for row in found:
                base = next(r for r in found if r["base"] == row["base"] and r["method"] == "base")
                row["relative_crps"] = row["crps"] / base["crps"]
            rows += found
            print(name, seed, *(f"{row['relative_crps']:.3f}" for row in found), flush=True)
    table = as_markdown(rows)
    packages = {package: version(package) for package in ("nearcal", "numpy", "scipy", "numba", "scikit-learn")}
    record = {"versions": {"python": platform.python_version(), **packages}, "rows": rows}
    arguments.output.mkdir(exist_ok=True)
    name = f"real_data_from_{arguments.first_seed}" if arguments.first_seed else "real_data"
    (arguments.output / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    (arguments.output / f"{name}.md").write_text(table)
    print(table)


if __name__ == "__main__":
    main()
