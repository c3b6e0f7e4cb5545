"""Cost of the local-linear adjustment and of relevance scaling, as ratios to the plain query of the same run.

    python benchmarks/adjustment.py [--quick]

Mean, standard deviation and 95% interval of new rows at k = 1000, one thread, processor time. Writes
results/adjustment.json; --quick takes less time and writes nothing.
"""

import argparse

from cases import fit_ours, generate
from timing import cost_per_row, save

import nearcal as nc

CASES = [(10_000, 5), (100_000, 5), (10_000, 20), (100_000, 20)]
K = 1000
MOST_ROWS = 5000
WAYS = {
    "plain": {},
    "linear": {"adjustment": "linear"},
    "relevance": {"scaling": "relevance"},
}


def time_case(n, d, seconds):
    """Return microseconds per row of every way."""
    data = generate(n, d, MOST_ROWS)

    def first_rows(m):
        return data._replace(space_new=data.space_new[:m], mean_new=data.mean_new[:m])

    costs = {}
    for name, options in WAYS.items():
        recalibrator = fit_ours(data, K, threads=1, **options)

        def ours(rows, recalibrator=recalibrator):
            recalibrator.recalibrate(nc.Normal(rows.mean_new, rows.sigma), rows.space_new).summary(0.95)

        costs[name] = cost_per_row(ours, first_rows, seconds)
    return costs


def main():
    """Time all cases and print ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    rows = []
    for n, d in CASES[::2] if quick else CASES:
        costs = time_case(n, d, 0.3 if quick else 3.0)
        rows.append({"n": n, "d": d, "k": K, "costs": costs})
        line = "  ".join(f"{name} {cost:.0f} µs, ratio {cost / costs['plain']:.2f}" for name, cost in costs.items())
        print(f"n = {n}, d = {d}:  {line}", flush=True)
    if not quick:
        save("adjustment", {"unit": "microseconds per row", "cases": rows})


if __name__ == "__main__":
    main()
