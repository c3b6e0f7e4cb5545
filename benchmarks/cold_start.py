"""What the first call of a fresh container compiles, in seconds of processor time by kernel.

    python benchmarks/cold_start.py

Each of ``predict`` (with a recalibrator that learns nothing but the index) and ``calibrate`` runs once in a process of
its own, with an empty cache of numba. Writes results/cold_start.json.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter

import numpy as np

import nearcal as nc

SHOWN = 15


def first_call(what):
    """Return the seconds of a first call, and those of every kernel that it compiled, without what it calls."""
    from numba.core import event

    seconds, open_calls = Counter(), []

    class Listener(event.Listener):
        def on_start(self, happening):
            function = happening.data["dispatcher"].py_func
            open_calls.append([f"{function.__module__}.{function.__name__}", time.process_time(), 0.0])

        def on_end(self, happening):
            name, start, inside = open_calls.pop()
            took = time.process_time() - start
            seconds[name.removeprefix("nearcal.kernels.")] += took - inside
            if open_calls:
                open_calls[-1][2] += took

    event.register("numba:compile", Listener())
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y, base = rng.normal(X[:, 0] ** 2, 1 + np.abs(X[:, 1])), nc.Normal(np.zeros(600), 1.0)
    start, wall = time.process_time(), time.perf_counter()
    if what == "predict":
        nc.LocalRecalibrator(k=50).fit(base, y, X).recalibrate(base[:5], X[:5]).summary()
    else:
        nc.calibrate(lambda X: X[:, 0], X, y, workers=nc.Workers(threads=1, progress=False))
    return {
        "processor seconds": time.process_time() - start,
        "seconds": time.perf_counter() - wall,
        "compiled": len(seconds),
        "seconds by kernel": dict(seconds.most_common(SHOWN)),
    }


def main():
    """Ask fresh processes, print and write."""
    from timing import save

    results = {}
    for what in ("predict", "calibrate"):
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, __file__, what]
            done = subprocess.run(
                command, env={**os.environ, "NUMBA_CACHE_DIR": cache}, stdout=subprocess.PIPE, text=True, check=True
            )
        results[what] = json.loads(done.stdout)
        print(json.dumps({what: results[what]}, indent=1), flush=True)
    save("cold_start", {"results": results})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(first_call(sys.argv[1])))
    else:
        main()
