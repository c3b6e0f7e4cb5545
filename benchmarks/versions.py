"""Time two checkouts of nearcal in alternation: engine, one row at a time, and ``nc.calibrate`` with five layers.

    python benchmarks/versions.py ../nearcal-before [--rounds 5]

Each measurement runs in a fresh process on one thread, first in one checkout, then in the other, round after round,
and the least of the rounds counts: other work on the machine then falls on both. Both checkouts run under this
Python, each with its own sources and its own benchmarks/cases.py. Writes results/versions.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]

# Each program runs in the benchmarks/ of a checkout and prints a mapping of names to costs. Layouts differ in the
# name of the option for one thread.
PREAMBLE = """
import json, time
import numpy as np
import nearcal as nc
one_thread, two_threads = (
    {"workers": nc.Workers(threads=count)} if hasattr(nc, "Workers") else {"threads": count} for count in (1, 2)
)
"""
PROGRAMS = {
    "engine": """
from cases import CASES
from engine import time_case
fast = [case for case in CASES if case.n * case.d <= 500_000 or (case.eps and case.n * case.d <= 2_000_000)]
costs = {f"n {c.n}, d {c.d}, k {c.k}, eps {c.eps:g}": time_case(c, 1.0, 1, references=False)["nearcal"] for c in fast}
print(json.dumps(costs))
""",
    "large cases of the engine": """
from cases import CASES
from engine import time_case
large = [case for case in CASES if case.n * case.d > 500_000 and (not case.eps or case.n * case.d > 2_000_000)]
costs = {f"n {c.n}, d {c.d}, k {c.k}, eps {c.eps:g}": time_case(c, 1.0, 1, references=False)["nearcal"] for c in large}
print(json.dumps(costs))
""",
    "one row": """
from footprint import measure_latency
print(json.dumps({"one row at a time, p50": 1e3 * measure_latency()["p50 milliseconds"]}))
""",
    "calibrate": """
from cases import inputs
n, widths = 10_000, (8, 200, 100, 50, 1)
rng = np.random.default_rng(0)
spaces = {f"width {width}": inputs(n, width, rng) for width in widths}
dist = nc.Normal(spaces["width 8"][:, 0], rng.uniform(0.5, 2.0, n))
y = dist.from_z(rng.normal(size=n) * (1 + 0.5 * np.tanh(spaces["width 8"][:, 0])))

class Ready(nc.adapters.ModelAdapter):
    # all is computed beforehand; inputs are the numbers of rows
    def layers(self): return tuple(spaces)
    def distribution(self, X): return dist[X[:, 0]]
    def represent(self, X, layer): return spaces[layer][X[:, 0]]
    def run(self, X, names): return self.distribution(X), {name: self.represent(X, name) for name in names}

X = np.arange(n)[:, np.newaxis]
nc.calibrate(Ready(), X[:2500], y[:2500], **one_thread)  # compiles
start = time.process_time()
nc.calibrate(Ready(), X, y, **one_thread)
print(json.dumps({"calibrate, n 10000, five layers": 1e6 * (time.process_time() - start)}))
""",
}


def measure(checkout, program, cache):
    """Return the costs that a program prints in a checkout, in microseconds."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout / "src"),
        "NUMBA_CACHE_DIR": cache,
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
    }
    command = [sys.executable, "-c", PREAMBLE + program]
    done = subprocess.run(
        command, cwd=checkout / "benchmarks", env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main():
    """Alternate between the checkouts and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="another checkout of this repository")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=PROGRAMS, help="one of the programs")
    arguments = parser.parse_args()
    checkouts = {"before": arguments.before.resolve(), "after": HERE}
    least, shown = {name: {} for name in checkouts}, set()
    with tempfile.TemporaryDirectory() as root:
        for program in [arguments.only] if arguments.only else PROGRAMS:
            for _ in range(arguments.rounds):
                for name, checkout in checkouts.items():
                    for case, cost in measure(checkout, PROGRAMS[program], f"{root}/{name}").items():
                        least[name][case] = min(cost, least[name].get(case, cost))
            for case in [case for case in least["after"] if case not in shown]:
                print(describe(case, least), flush=True)
            shown.update(least["after"])
    path = Path(__file__).parent / "results" / "versions.json"
    results = json.loads(path.read_text())["costs"] if arguments.only and path.exists() else {}
    for case in least["after"]:
        results[case] = {**{name: least[name][case] for name in checkouts}, "rounds": arguments.rounds}
    path.write_text(json.dumps({"unit": "microseconds", "costs": results}, indent=1) + "\n")


def describe(case, least):
    """Return a line: microseconds before and after, and the ratio."""
    before, after = least["before"][case], least["after"][case]
    return f"{case:36} {before:12.1f} {after:12.1f}  after / before {after / before:.3f}"


if __name__ == "__main__":
    main()
