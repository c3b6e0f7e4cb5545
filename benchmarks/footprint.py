"""Memory, latency and first-call times, each in three fresh processes, of which the median counts.

    python benchmarks/footprint.py

Writes results/footprint.json.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from cases import fit_ours, generate
from timing import save

import nearcal as nc

ROUNDS = 3


def measure_memory():
    """Peak memory above inputs and outputs: a million new rows, n_cal = 1e5, d = 1, k = 1000."""
    data = generate(100_000, 1, 1_000_000)
    recalibrator = fit_ours(data, 1000)
    out = recalibrator.recalibrate(nc.Normal(data.mean_new, data.sigma), data.space_new)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    summary = out.summary(0.95)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outputs = sum(array.nbytes for array in vars(summary).values())
    return {"rows": 1_000_000, "megabytes above inputs and outputs": (peak - before) / 1024 - outputs / 1e6}


def measure_latency():
    """One row at a time, n_cal = 1e5, d = 5, k = 1000: milliseconds."""
    data = generate(100_000, 5, 2000)
    recalibrator = fit_ours(data, 1000)
    times = []
    for i in range(2000):
        start = time.perf_counter()
        one = nc.Normal(data.mean_new[i : i + 1], data.sigma)
        recalibrator.recalibrate(one, data.space_new[i : i + 1]).summary(0.95)
        times.append(time.perf_counter() - start)
    p50, p99 = 1e3 * np.percentile(times[100:], [50, 99])
    return {"p50 milliseconds": p50, "p99 milliseconds": p99}


def measure_first_call():
    """Seconds from the start of fitting to the first summary in a fresh process, numpy and nearcal imported."""
    data = generate(100_000, 5, 1)
    start = time.perf_counter()
    recalibrator = fit_ours(data, 1000)
    recalibrator.recalibrate(nc.Normal(data.mean_new, data.sigma), data.space_new).summary(0.95)
    return {"seconds": time.perf_counter() - start}


def fresh(name, **environment):
    """Run one measurement in a fresh process."""
    command = [sys.executable, __file__, name]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    result = json.loads(done.stdout)
    print(name, result, flush=True)
    return result


def first_calls():
    """Measure the first call with an empty cache, and with the cache that it leaves."""
    with tempfile.TemporaryDirectory() as cache:
        return [fresh("measure_first_call", NUMBA_CACHE_DIR=cache) for _ in range(2)]


def median(results):
    """Return the median of each figure."""
    return {name: statistics.median(result[name] for result in results) for name in results[0]}


def main():
    """Run the measurement named on the command line, or all."""
    if len(sys.argv) > 1:
        print(json.dumps(globals()[sys.argv[1]]()))
        return
    cold, warm = zip(*(first_calls() for _ in range(ROUNDS)), strict=True)
    content = {
        "first call, cold cache": median(cold),
        "first call, warm cache": median(warm),
        "one row at a time": median([fresh("measure_latency") for _ in range(ROUNDS)]),
        "a million rows": median([fresh("measure_memory") for _ in range(ROUNDS)]),
    }
    save("footprint", content)


if __name__ == "__main__":
    main()
