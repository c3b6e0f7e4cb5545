"""What each step past the paper's local recalibration brings, and all of them together, which is the default.

    python experiments/sharper.py FOLDER [--sets yacht ...] [--bases linear ...] [--seeds 5] [--first-seed 0] [--table]

FOLDER holds the sets as NAME.npz with arrays X (n, d) and y (n,); diamonds come with the package and the paper's
simulation is drawn. Splits are 60% to train, 20% to calibrate, 20% to judge, at most 10,000, 2,000 and 2,000 rows.
Base models are those of base_models.py. Every finished (set, base model, seed) is kept in results/sharper.jsonl
(results/sharper_from_SEED.jsonl for other first seeds); results/sharper.md and .json are of what is finished, and a
table in the README. What either holds is not run again. --table runs nothing. All eleven sets take an hour of
one core.

Methods: the base model; global recalibration; isotonic; the paper's local recalibration with layer and k tuned; the
same with polish (and the quantile rule that goes with it), with relevance scaling (and the joined space), with
adjustment, with shrinkage, each left to tuning; and the default of ``nearcal.calibrate``.
"""

import argparse
import json
import platform
import time
from importlib.metadata import version
from pathlib import Path

import base_models
import numpy as np
import torch
from scipy.special import ndtr
from sharper_table import as_markdown, as_readme
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

import nearcal as nc
from nearcal.recalibration._settings import PAPER

RESULTS = Path(__file__).parent / "results"
COVERAGE, WIDE = 0.9, 0.95
LOCAL = {
    "paper": PAPER,
    "+ polish": {**PAPER, "quantile_rule": "predictive", "polish": True},
    "+ relevance": {**PAPER, "scaling": ("none", "relevance")},
    "+ adjustment": {**PAPER, "adjustment": ("none", "linear")},
    "+ shrinkage": {**PAPER, "shrinkage": (False, True)},
    "default": {},
}


def run(name, base, seed, folder):
    """Return one row a method."""
    train, cal, new = base_models.split(name, folder, seed)
    model, options = base_models.train(base, *train, seed, base_models.hidden_layers(name))
    regions = find_regions(min(max(len(new[1]) // 50, 2), 10), cal[0], new[0], seed)
    layers = base_layers(base, model, options, cal)
    fixed = {"global": nc.GlobalRecalibrator(quantile_rule="predictive"), "isotonic": nc.IsotonicRecalibrator()}
    results = {}
    for method, recalibrator in fixed.items():
        calibrated = nc.calibrate(model, *cal, layer="input", recalibrator=recalibrator, **options)
        results[method] = calibrated.predict(new[0]), "", 0.0
    results = {"base": (calibrated.base(new[0]), "", 0.0), **results}
    for method, settings in LOCAL.items():
        start = time.process_time()
        spaces = layers if method in ("+ relevance", "default") else [name for name in layers if " + " not in name]
        calibrated = nc.calibrate(model, *cal, layer=spaces, threads=1, **settings, **options)
        seconds = time.process_time() - start
        results[method] = calibrated.predict(new[0]), str(calibrated.tuning.chosen), seconds
    about = {"set": name, "base": base, "seed": seed, "n_cal": len(cal[1])}
    return [
        about | {"method": method, "choice": choice, "seconds": seconds} | judge(dist, new[1], regions)
        for method, (dist, choice, seconds) in results.items()
    ]


def base_layers(base, model, options, cal):
    """Return the spaces to choose among: all layers, of trees input and output alone, and the joined one."""
    layers = nc.adapt(model, **options).prepared(*cal).layers()
    layers = ["input", "output"] if base == "LightGBM quantiles" else list(layers)
    return [*layers, " + ".join(dict.fromkeys([layers[0], *layers[-2:]]))]


def find_regions(count, x_cal, x_new, seed):
    """Return the cluster of calibration inputs that each judged row belongs to."""
    return KMeans(count, n_init=3, random_state=seed).fit(x_cal).predict(x_new)


def judge(dist, y, regions):
    """Return the figures of one method."""
    pit = np.sort(ndtr(dist.z(y)))
    covered, wide = ((lower <= y) & (y <= upper) for lower, upper in (dist.interval(COVERAGE), dist.interval(WIDE)))
    by_region = np.array([covered[regions == region].mean() for region in np.unique(regions)])
    return {
        "crps": float(nc.scores.crps(dist, y).mean()),
        "pit_error": float(np.abs(pit - (np.arange(len(y)) + 0.5) / len(y)).mean()),
        "coverage90": float(covered.mean()),
        "coverage95": float(wide.mean()),
        "regional_error": float(np.abs(by_region - COVERAGE).mean()),
        "worst_region": float(by_region.min()),
    }


def main():
    """Run what is missing and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder with NAME.npz")
    parser.add_argument("--sets", nargs="*", default=base_models.SETS)
    parser.add_argument("--bases", nargs="*", default=base_models.BASES)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="only write the tables of what is finished")
    arguments = parser.parse_args()
    # base models are trained to the same bits on any machine of this kind, whatever its number of cores
    threadpool_limits(1)
    torch.set_num_threads(1)
    name = f"sharper_from_{arguments.first_seed}" if arguments.first_seed else "sharper"
    arguments.output.mkdir(exist_ok=True)
    kept, tables = arguments.output / f"{name}.jsonl", arguments.output / f"{name}.json"
    if tables.exists() and not kept.exists():
        rows = json.loads(tables.read_text())["rows"]
        kept.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    finished = {(row["set"], row["base"], row["seed"]) for row in rows}
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        for which in arguments.sets if not arguments.table else ():
            for base in arguments.bases:
                if (which, base, seed) in finished:
                    continue
                found = run(which, base, seed, arguments.folder)
                with kept.open("a") as file:
                    file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in found)
                rows += found
                ratios = (f"{row['method']} {row['crps'] / found[0]['crps']:.3f}" for row in found[1:])
                print(which, base, seed, *ratios, sep="  ", flush=True)
    packages = ("nearcal", "numpy", "scipy", "numba", "scikit-learn", "lightgbm", "torch")
    versions = {"python": platform.python_version(), **{package: version(package) for package in packages}}
    table = as_markdown(rows)
    tables.write_text(json.dumps({"versions": versions, "rows": rows}, indent=1, ensure_ascii=False) + "\n")
    (arguments.output / f"{name}.md").write_text(table)
    if arguments.output == RESULTS and name == "sharper":
        quote_in_readme(as_readme(rows))
    print(table)


def quote_in_readme(lines):
    """Put the table between its marks in the README."""
    readme = Path(__file__).parents[1] / "README.md"
    start, end = "<!-- real data -->", "<!-- /real data -->"
    before, after = readme.read_text().split(start)[0], readme.read_text().split(end)[1]
    readme.write_text("\n".join([before + start, *lines, end]) + after)


if __name__ == "__main__":
    main()
