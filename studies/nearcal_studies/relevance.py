"""Which way of stretching a space serves recalibration best: importances of trees, gradients, a learnt metric.

Every way learns from the calibration set how to stretch the standardised space; the judged rows are then recalibrated
with several k, and the best k by hindsight counts, alike for all.

- forest: square roots of the importances of scikit-learn's extremely randomised trees, of z and |z|;
- relevance: ``scaling="relevance"``, the same with trees judged on rows of their own;
- metric: one factor a column that minimises the leave-one-out error of kernel regression of z and |z| (Weinberger and
  Tesauro, 2007), by L-BFGS on at most 1,000 rows;
- gradients: the average outer product of the slopes of z and |z| in neighbourhoods, its square root as a linear map.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from sklearn.ensemble import ExtraTreesRegressor

import nearcal as nc
from nearcal_studies import recalibrators
from nearcal_studies.sets import QUICK_ROWS, TABLES, WITHOUT_FOLDER, Part, Row, SetStudy, gather
from nearcal_studies.study import Conclusion, Outcome, Scale
from nearcal_studies.tables import markdown_table

K = (10, 20, 50, 100, 200, 500)
MOST_ROWS = 1000


class Relevance(SetStudy):
    """Eleven sets, two base models, five ways in two spaces."""

    name = "relevance"
    title = "Ways to stretch a space"

    def settings(self, scale: Scale) -> dict[str, Any]:
        """Return at most 10,000, 2,000 and 2,000 rows of all sets; quick ones need no folder."""
        return {
            "sets": scale.choose([*TABLES, *WITHOUT_FOLDER], quick=WITHOUT_FOLDER),
            "bases": ["linear", "network"],
            "rows": scale.choose((10_000, 2_000, 2_000), quick=QUICK_ROWS),
            "seeds": scale.seed_list(3),
        }

    def compare(self, settings: Row, model: Any, options: Row, cal: Part, new: Part) -> list[Row]:
        """Return the CRPS of every space and way, and the seconds that learning and a first fit took."""
        adapter = nc.adapt(model, **options).prepared(*cal)
        layers = [layer for layer in adapter.layers() if not layer.startswith("leaf") and layer != "leaves"]
        (dist, positions), (dist_new, positions_new) = adapter.run(cal[0], layers), adapter.run(new[0], layers)
        spaces = {"input": ["input"], "joined": list(dict.fromkeys([layers[0], layers[-2], layers[-1]]))}
        z, rows = dist.z(cal[1]), []
        for space, names in spaces.items():
            x, x_new = (np.hstack([part[layer] for layer in names]) for part in (positions, positions_new))
            center, unit = x.mean(axis=0), np.where(x.std(axis=0) > 1e-12, x.std(axis=0), 1.0)
            x, x_new = (x - center) / unit, (x_new - center) / unit
            for way, (learn, scaling) in WAYS.items():
                start = time.process_time()
                transform = learn(x, z)
                seconds = time.process_time() - start
                points, points_new = x @ transform, x_new @ transform
                crps = []
                for k in (k for k in K if k < len(z)):
                    local = recalibrators.local(k, scaling=scaling, quantile_rule="predictive")
                    start = time.process_time()
                    local.fit(dist, cal[1], points)
                    seconds += time.process_time() - start if k == K[0] else 0.0
                    crps.append(nc.scores.crps(local.recalibrate(dist_new, points_new), new[1]).mean())
                rows.append({"space": space, "way": way, "crps": min(crps), "seconds": seconds})
        return rows

    def conclude(self, settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> Conclusion:
        """Return a table with a row a base model and space, a column a way."""
        rows = gather(settings, done)
        places = list(dict.fromkeys((row["base"], row["space"]) for row in rows))
        columns = {
            "base model": [*(base for base, _ in places), "seconds"],
            "space": [*(space for _, space in places), ""],
        }
        for way in WAYS:
            ratios = [f"{relative_crps(rows, way, base=base, space=space):.3f}" for base, space in places]
            columns[way] = [*ratios, f"{np.mean([row['seconds'] for row in rows if row['way'] == way]):.1f}"]
        seeds = ", ".join(map(str, settings["seeds"]))
        return Conclusion(
            {"rows": rows},
            f"CRPS relative to the standardised space, k by hindsight; geometric means over {len(settings['sets'])} "
            f"sets, seeds {seeds}. In the last row the seconds to learn and fit, means.\n\n" + markdown_table(columns),
        )


def relative_crps(rows: list[Row], way: str, **where: Any) -> float:
    """Return the geometric mean of a way's CRPS relative to that of the standardised space of the same run."""
    rows = [row for row in rows if all(row[key] == value for key, value in where.items())]
    runs = {(row["way"], row["set"], row["base"], row["seed"], row["space"]): row["crps"] for row in rows}
    logs = [np.log(crps / runs["standard", *key[1:]]) for key, crps in runs.items() if key[0] == way]
    return float(np.exp(np.mean(logs)))


def unstretched(x: NDArray[Any], z: NDArray[Any]) -> NDArray[Any]:
    """Return the map that leaves positions as they are."""
    return np.eye(x.shape[1])


def forest(x: NDArray[Any], z: NDArray[Any]) -> NDArray[Any]:
    """Return the square roots of importances."""
    trees = ExtraTreesRegressor(200, min_samples_leaf=5, max_features=1.0, random_state=0, n_jobs=1)
    return np.diag(np.sqrt(trees.fit(x, np.stack([z, np.abs(z)], axis=1)).feature_importances_))


def metric(x: NDArray[Any], z: NDArray[Any]) -> NDArray[Any]:
    """Return factors a that minimise Σ (t_i - Σ_j K_ij t_j)², K_ij ∝ exp(-|a (x_i - x_j)|²), j ≠ i."""
    rows = np.random.default_rng(0).permutation(len(x))[:MOST_ROWS]
    x, t = x[rows], _targets(z)[rows]

    def loss(log_factors: NDArray[Any]) -> tuple[float, NDArray[Any]]:
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
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 40}, bounds=[(-6, 4)] * len(start))
    return np.diag(np.exp(best.x))


def gradients(x: NDArray[Any], z: NDArray[Any]) -> NDArray[Any]:
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


def _targets(z: NDArray[Any]) -> NDArray[Any]:
    """Return z and |z - median|, cut at their outer hundredths, of unit variance: what nearcal's relevance looks at."""
    both = np.stack([z, np.abs(z - np.median(z))], axis=1)
    both = np.clip(both, *np.quantile(both, [0.01, 0.99], axis=0))
    spread = both.std(axis=0)
    return (both - both.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


#: How each way maps the standardised space, and the scaling that nearcal then applies.
WAYS: dict[str, tuple[Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]], str]] = {
    "standard": (unstretched, "none"),
    "forest": (forest, "none"),
    "relevance": (unstretched, "relevance"),
    "metric": (metric, "none"),
    "gradients": (gradients, "none"),
}
