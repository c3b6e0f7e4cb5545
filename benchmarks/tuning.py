"""Time to tune: 5 spaces, 6 values of k, 2 smoothings, at 10,000 calibration points, and all that is tuned by default.

    python benchmarks/tuning.py [--quick]

Writes results/tuning.json. --quick takes 2,000 points and writes nothing.
"""

import argparse
import time

import numpy as np
from cases import inputs
from timing import save

import nearcal as nc

WIDTHS = (8, 200, 100, 50, 1)  # inputs, three layers that narrow, and the output
K = (10, 50, 100, 200, 500, 1000)
SMOOTHINGS = ("epanechnikov", "uniform")


def bases(y_mean, rng):
    """Return predictive distributions by the name of their family: standardised, interpolated and computed singly."""
    n = len(y_mean)
    center, spread = y_mean[:, np.newaxis], rng.uniform(0.5, 2.0, n)
    parts = [nc.Normal(y_mean - spread, spread), nc.Normal(y_mean + spread, 0.5 * spread)]
    return {
        "Normal": nc.Normal(y_mean, spread),
        "Gamma, several shapes": nc.Gamma(rng.uniform(1.0, 20.0, n), spread),
        "Mixture of two": nc.Mixture(rng.dirichlet([2.0, 2.0], n), parts),
        "Samples of 100": nc.Samples(center + spread[:, np.newaxis] * rng.normal(size=(n, 100))),
    }


def main():
    """Tune every family once, after a run that compiles, and save the seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    n = 2000 if quick else 10_000
    rng = np.random.default_rng(0)
    spaces = {f"width {width}": inputs(n, width, rng) for width in WIDTHS}
    k = [size for size in K if size < n]
    seconds = {}
    for name, dist in bases(spaces["width 8"][:, 0], rng).items():
        y = dist.from_z(rng.normal(size=n) * (1 + 0.5 * np.tanh(spaces["width 8"][:, 0])))
        few = slice(0, 2500)
        plain = {
            "k": k,
            "smoothing": SMOOTHINGS,
            "scaling": "standard",
            "linear": False,
            "shrinkage": False,
            "trend": False,
        }
        for what, options in {name: plain, **({"Normal, by default": {}} if name == "Normal" else {})}.items():
            nc.tune(dist[few], y[few], {key: space[few] for key, space in spaces.items()}, **options)
            start, start_work = time.perf_counter(), time.process_time()
            tuning = nc.tune(dist, y, spaces, **options)
            elapsed, work = time.perf_counter() - start, time.process_time() - start_work
            seconds[what] = {"elapsed": elapsed, "of processors": work}
            print(f"{what:25} {elapsed:6.1f} s, {work:6.1f} s of processors  {tuning.reason}", flush=True)
    if not quick:
        save("tuning", {"n_cal": n, "widths": WIDTHS, "k": K, "smoothings": SMOOTHINGS, "seconds": seconds})


if __name__ == "__main__":
    main()
