"""Compare every recalibration method on the paper's Gaussian example and on regression sets.

    python benchmarks/compare_methods.py FOLDER [--sets concrete kin8nm protein] [--seed 1]

FOLDER holds the sets as NAME.npz with arrays X (n, d) and y (n,). Each is split at random into 60% to train a base
model of constant standard deviation, 20% to calibrate and 20% to judge. Writes compare_methods.json and .md.

GP-Beta takes part where netcal is installed, on a random part of the calibration points: netcal needs near a second an
epoch for 500 of them, and sets here have thousands.
"""

import argparse
import json
import platform
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.stats import binom
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearcal as nc

ROOT = Path(__file__).parent
COVERAGE = 0.9
REGIONS = 10
GAUSSIAN_SIZE = 20_000
GP_BETA_POINTS, GP_BETA_EPOCHS = 500, 50
PACKAGES = ["nearcal", "numpy", "scipy", "scikit-learn", "torch"]
if find_spec("netcal"):
    PACKAGES.append("netcal")


class Thinned:
    """A recalibrator that learns from some of the calibration points, drawn at random."""

    def __init__(self, recalibrator, points, seed):
        self.recalibrator, self.points, self.seed = recalibrator, points, seed

    def fit(self, dist_cal, y_cal, space_cal):
        """Learn from some of the points."""
        rows = np.random.default_rng(self.seed).permutation(len(y_cal))[: self.points]
        self.recalibrator.fit(dist_cal[rows], y_cal[rows], space_cal[rows])
        return self.recalibrator


def methods(n_cal, seed):
    """Return the recalibrators by name; local ones take a tenth of the calibration points, at least 30."""
    k = min(n_cal, max(30, n_cal // 10))
    gp_beta = {}
    if find_spec("netcal"):
        points = min(n_cal, GP_BETA_POINTS)
        gp_beta[f"GP-Beta, {points} points"] = Thinned(
            nc.GPBetaRecalibrator(epochs=GP_BETA_EPOCHS, rng=seed), points, seed
        )
    return {
        "variance scaling": nc.VarianceScaling(),
        "isotonic": nc.IsotonicRecalibrator(),
        "conformal": nc.ConformalRecalibrator(),
        "global": nc.GlobalRecalibrator(),
        "quantile network": nc.QuantileNetRecalibrator(rng=seed),
        "quantile network + space": nc.QuantileNetRecalibrator(use_space=True, rng=seed),
        **gp_beta,
        f"nearest neighbours, k={k}": nc.KNNRegressor(k=k, scaling="standard"),
        f"local, k={k}": nc.LocalRecalibrator(k=k, scaling="standard"),
    }


def base_models(seed):
    """Return the mean models by name."""
    network = MLPRegressor(hidden_layer_sizes=(50,), early_stopping=True, max_iter=500, random_state=seed)
    return {"linear": LinearRegression(), "network": make_pipeline(StandardScaler(), network)}


def load(folder, names, seed):
    """Yield (name, X, y) of the Gaussian example and of the sets."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(2, 20, size=GAUSSIAN_SIZE)
    yield "gaussian", x[:, np.newaxis], rng.normal(10 + 5 * x**2, 30 * x)
    for name in names:
        data = np.load(folder / f"{name}.npz")
        yield name, data["X"].astype(np.float64), data["y"]


def judge(dist, y, regions):
    """Return mean CRPS, coverage of 90% intervals, and the mean absolute error of coverage over regions."""
    lower, upper = dist.interval(COVERAGE)
    covered = (lower <= y) & (y <= upper)
    errors = [abs(covered[regions == r].mean() - COVERAGE) for r in np.unique(regions)]
    return {"crps": nc.scores.crps(dist, y).mean(), "coverage": covered.mean(), "regional_error": np.mean(errors)}


def regional_floor(regions):
    """Return the regional error to expect of perfect intervals: E |Binomial(n, 0.9) / n - 0.9|, mean over regions."""
    counts = np.unique(regions, return_counts=True)[1]
    return np.mean([binom(n, COVERAGE).expect(lambda hits, n=n: abs(hits / n - COVERAGE)) for n in counts])


def compare(name, x, y, seed):
    """Yield one row a base model and method."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, cal, new = np.split(order, [int(0.6 * len(y)), int(0.8 * len(y))])
    scaler = StandardScaler().fit(x[cal])
    clusters = KMeans(REGIONS, n_init=3, random_state=seed).fit(scaler.transform(x[cal]))
    regions = clusters.predict(scaler.transform(x[new]))
    for base_name, model in base_models(seed).items():
        # the network is trained on a standardised response, the linear model does not mind
        center, unit = y[train].mean(), y[train].std()
        model.fit(x[train], (y[train] - center) / unit)
        mean = center + unit * model.predict(x)
        dist = nc.Normal(mean, np.std(y[train] - mean[train]))
        row = {"set": name, "base": base_name, "n_cal": len(cal), "floor": regional_floor(regions)}
        yield row | {"method": "none"} | judge(dist[new], y[new], regions)
        for method, recalibrator in methods(len(cal), seed).items():
            out = recalibrator.fit(dist[cal], y[cal], x[cal]).recalibrate(dist[new], x[new])
            yield row | {"method": method} | judge(out, y[new], regions)


def as_markdown(rows, seed):
    """Return the rows as one table; CRPS is relative to that of the base model."""
    lines = [
        f"Mean CRPS relative to the base model's, coverage of 90% intervals, mean absolute error of that coverage over "
        f"{REGIONS} regions (floor: what perfect intervals would show). Seed {seed}.",
        "",
        "| set | base | method | CRPS | coverage | regional error | floor |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        if row["method"] == "none":
            base_crps = row["crps"]
        lines.append(
            f"| {row['set']} | {row['base']} | {row['method']} | {row['crps'] / base_crps:.3f} | {row['coverage']:.3f} "
            f"| {row['regional_error']:.3f} | {row['floor']:.3f} |"
        )
    return "\n".join(lines) + "\n"


def main():
    """Compare, print the table, write it with seed and versions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder with NAME.npz")
    parser.add_argument("--sets", nargs="*", default=["concrete", "kin8nm", "protein"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=ROOT / "results")
    arguments = parser.parse_args()
    rows = [
        row
        for name, x, y in load(arguments.folder, arguments.sets, arguments.seed)
        for row in compare(name, x, y, arguments.seed)
    ]
    table = as_markdown(rows, arguments.seed)
    versions = {"python": platform.python_version(), **{package: version(package) for package in PACKAGES}}
    arguments.output.mkdir(exist_ok=True)
    record = {"seed": arguments.seed, "versions": versions, "rows": rows}
    (arguments.output / "compare_methods.json").write_text(json.dumps(record, indent=1) + "\n")
    (arguments.output / "compare_methods.md").write_text(table)
    print(table)


if __name__ == "__main__":
    main()
