"""Cost of the local-linear correction and of relevance scaling, as ratios to the plain query of the same run.

    python benchmarks/corrections.py [--quick]

Mean, standard deviation and 95% interval of new rows at k = 1000, one thread, processor time. Writes
results/corrections.json; --quick takes less time and writes nothing.
"""

import argparse
import time

from cases import fit_ours, generate
from timing import save

import nearcal as nc

CASES = [(10_000, 5), (100_000, 5), (10_000, 20), (100_000, 20)]
K = 1000
ROWS = 2000
WAYS = {
    "plain": {},
    "linear": {"corrections": (nc.LocalLinear(),)},
    "relevance": {"scaling": "relevance"},
}


def time_case(n, d, seconds):
    """Return microseconds per row of every way; they take turns, so that what disturbs one disturbs all."""
    data = generate(n, d, ROWS)
    results = {}
    for name, options in WAYS.items():
        recalibrator = fit_ours(data, K, workers=nc.Workers(threads=1), **options)
        results[name] = recalibrator.recalibrate(nc.Normal(data.mean_new, data.sigma), data.space_new)
        results[name].summary(0.95)  # compiles
    spent, turns = dict.fromkeys(WAYS, 0.0), 0
    while sum(spent.values()) < seconds:
        turns += 1
        for name, result in results.items():
            start = time.process_time()
            result.summary(0.95)
            spent[name] += time.process_time() - start
    return {name: 1e6 * total / turns / ROWS for name, total in spent.items()}


def main():
    """Time all cases and print ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    rows = []
    for n, d in CASES[::2] if quick else CASES:
        costs = time_case(n, d, 2.0 if quick else 12.0)
        rows.append({"n": n, "d": d, "k": K, "costs": costs})
        line = "  ".join(f"{name} {cost:.0f} µs, ratio {cost / costs['plain']:.2f}" for name, cost in costs.items())
        print(f"n = {n}, d = {d}:  {line}", flush=True)
    if not quick:
        save("corrections", {"unit": "microseconds per row", "cases": rows})


if __name__ == "__main__":
    main()
