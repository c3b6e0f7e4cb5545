"""Which way of stretching a space serves recalibration best: importances of trees, gradients, a learnt metric.

    python experiments/relevance.py FOLDER [--sets ...] [--bases ...] [--seeds 3] [--spaces input joined]

FOLDER, sets, splits and base models are those of sharper.py. Every way learns from the calibration set how to stretch
the standardised space; the judged rows are then recalibrated with several k, and the best k by hindsight counts, alike
for all. Writes results/relevance.json and .md: CRPS relative to the standardised space, as geometric means over sets
and seeds.

- forest: square roots of the importances of scikit-learn's extremely randomised trees, of z and |z|;
- relevance: ``scaling="relevance"``, the same with trees judged on rows of their own;
- metric: one factor a column that minimises the leave-one-out error of kernel regression of z and |z| (Weinberger and
  Tesauro, 2007), by L-BFGS on at most 1,000 rows;
- gradients: the average outer product of the slopes of z and |z| in neighbourhoods, its square root as a linear map.
"""

import argparse
import json
import time
from pathlib import Path

import base_models
import numpy as np
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from sklearn.ensemble import ExtraTreesRegressor

import nearcal as nc
from nearcal.relevance import _targets, learn_relevance

RESULTS = Path(__file__).parent / "results"
K = (10, 20, 50, 100, 200, 500)
MOST_ROWS = 1000


def forest(x, z):
    """Return the square roots of importances."""
    trees = ExtraTreesRegressor(200, min_samples_leaf=5, max_features=1.0, random_state=0, n_jobs=1)
    return np.sqrt(trees.fit(x, np.stack([z, np.abs(z)], axis=1)).feature_importances_)


def relevance(x, z):
    """Return the library's own factors."""
    return np.sqrt(learn_relevance(x, z))


def metric(x, z):
    """Return factors a that minimise Σ (t_i - Σ_j K_ij t_j)², K_ij ∝ exp(-|a (x_i - x_j)|²), j ≠ i."""
    rows = np.random.default_rng(0).permutation(len(x))[:MOST_ROWS]
    x, t = x[rows], _targets(z)[rows]

    def loss(log_factors):
        squares = np.exp(2 * log_factors)
        scaled = x * np.exp(log_factors)
        lengths = (scaled**2).sum(axis=1)
        distances = np.maximum(lengths[:, None] + lengths - 2 * scaled @ scaled.T, 0.0)
        np.fill_diagonal(distances, np.inf)
        kernel = np.exp(-(distances - distances.min(axis=1, keepdims=True)))
        kernel /= kernel.sum(axis=1, keepdims=True)
        error = kernel @ t - t
        # d loss / d distance_ij = -2 K_ij Σ_t error_it (t_jt - fitted_it)
        by_pair = -2 * kernel * (error @ t.T - (error * (error + t)).sum(axis=1, keepdims=True))
        by_pair = by_pair + by_pair.T
        gradient = squares * 2 * ((by_pair.sum(axis=1) @ x**2) - np.einsum("na,na->a", x, by_pair @ x))
        return (error**2).sum() / len(x), gradient / len(x)

    start = np.full(x.shape[1], 0.5 * np.log(2.0 / x.shape[1]))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 40}, bounds=[(-6, 4)] * len(start))
    return np.exp(found.x)


def gradients(x, z):
    """Return the square root of the average outer product of slopes, twice: the second time in the first's space."""
    transform = np.eye(x.shape[1])
    t = _targets(z)
    for _ in range(2):
        points = x @ transform
        k = min(max(5 * (x.shape[1] + 1), 50), len(x) // 2)
        rows = np.random.default_rng(0).permutation(len(x))[:500]
        indices = cKDTree(points).query(points[rows], k)[1]
        outer = np.zeros((x.shape[1],) * 2)
        for row, near in zip(rows, indices, strict=True):
            moved = x[near] - x[row]
            moved = moved - moved.mean(axis=0)
            gram = moved.T @ moved / k
            slopes = np.linalg.solve(gram + 0.1 * np.trace(gram) / len(gram) * np.eye(len(gram)), moved.T @ t[near] / k)
            outer += slopes @ slopes.T
        values, vectors = np.linalg.eigh(outer / len(rows))
        transform = vectors * np.sqrt(np.maximum(values, 1e-4 * values.max()))
    return transform


WAYS = {
    "standard": lambda x, z: 1.0,
    "forest": forest,
    "relevance": relevance,
    "metric": metric,
    "gradients": gradients,
}


def run(name, base, seed, folder, spaces):
    """Return the CRPS of every space and way, and the seconds that learning took."""
    train, cal, new = base_models.split(name, folder, seed)
    model, options = base_models.train(base, *train, seed, base_models.hidden_layers(name))
    adapter = nc.adapt(model, **options).prepared(*cal)
    layers = [layer for layer in adapter.layers() if not layer.startswith("leaf") and layer != "leaves"]
    (dist, positions), (dist_new, positions_new) = adapter.run(cal[0], layers), adapter.run(new[0], layers)
    joined = list(dict.fromkeys([layers[0], layers[-2], layers[-1]]))
    z, rows = dist.z(cal[1]), []
    for space in spaces:
        names = ["input"] if space == "input" else joined
        x, x_new = (np.hstack([part[layer] for layer in names]) for part in (positions, positions_new))
        center, unit = x.mean(axis=0), np.where(x.std(axis=0) > 1e-12, x.std(axis=0), 1.0)
        x, x_new = (x - center) / unit, (x_new - center) / unit
        for way, learn in WAYS.items():
            start = time.process_time()
            factors = learn(x, z)
            seconds = time.process_time() - start
            points, points_new = (
                (x @ factors, x_new @ factors) if np.ndim(factors) == 2 else (x * factors, x_new * factors)
            )
            crps = []
            for k in K:
                if k < len(z):
                    local = nc.LocalRecalibrator(k=k, quantile_rule="predictive").fit(dist, cal[1], points)
                    crps.append(nc.scores.crps(local.recalibrate(dist_new, points_new), new[1]).mean())
            rows.append(
                {
                    "set": name,
                    "base": base,
                    "seed": seed,
                    "space": space,
                    "way": way,
                    "crps": min(crps),
                    "seconds": seconds,
                }
            )
    return rows


def main():
    """Run the comparison, print it, write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="*", default=base_models.SETS)
    parser.add_argument("--bases", nargs="*", default=["linear", "network"])
    parser.add_argument("--spaces", nargs="*", default=["input", "joined"])
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    for way in list(WAYS):
        if way not in arguments.ways:
            del WAYS[way]
    rows = []
    for name in arguments.sets:
        for base in arguments.bases:
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
                rows += run(name, base, seed, arguments.folder, arguments.spaces)
            ratios = (f"{way} {relative_crps(rows, way, set=name, base=base):.3f}" for way in WAYS)
            print(f"{name:12} {base:10}", *ratios, sep="  ", flush=True)
    table = as_markdown(rows)
    print(table)
    arguments.output.mkdir(exist_ok=True)
    (arguments.output / "relevance.json").write_text(json.dumps(rows, indent=1) + "\n")
    (arguments.output / "relevance.md").write_text(table)


def as_markdown(rows):
    """Return a table with a row a base model and space, a column a way."""
    sets, seeds = list(dict.fromkeys(row["set"] for row in rows)), sorted({row["seed"] for row in rows})
    lines = [
        f"CRPS relative to the standardised space, k by hindsight; geometric means over {len(sets)} sets, seeds "
        f"{', '.join(map(str, seeds))}. In the last row the seconds to learn, means.",
        "",
        "| base model | space | " + " | ".join(WAYS) + " |",
        "|---" * (len(WAYS) + 2) + "|",
    ]
    for base in dict.fromkeys(row["base"] for row in rows):
        for space in dict.fromkeys(row["space"] for row in rows):
            cells = [f"{relative_crps(rows, way, base=base, space=space):.3f}" for way in WAYS]
            lines.append(f"| {base} | {space} | {' | '.join(cells)} |")
    seconds = [np.mean([row["seconds"] for row in rows if row["way"] == way]) for way in WAYS]
    return "\n".join([*lines, "| seconds | | " + " | ".join(f"{value:.1f}" for value in seconds) + " |"]) + "\n"


def relative_crps(rows, way, **where):
    """Return the geometric mean of a way's CRPS relative to that of the standardised space of the same seed."""
    rows = [row for row in rows if all(row[key] == value for key, value in where.items())]
    runs = {(row["way"], row["set"], row["base"], row["seed"], row["space"]): row["crps"] for row in rows}
    logs = [np.log(crps / runs["standard", *key[1:]]) for key, crps in runs.items() if key[0] == way]
    return np.exp(np.mean(logs))


if __name__ == "__main__":
    main()
