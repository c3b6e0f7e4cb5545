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


def tuned():
    """Return what ``nc.tune`` chooses for 10,000 points whose model errs in mean and spread."""
    data = generate(10_000, 5, 600)
    y = data.z + 0.8 * np.sin(2 * data.space[:, 1])
    return data, nc.tune(nc.Normal(np.zeros(len(y)), 1.0), y, data.space, workers=nc.Workers(progress=False))


def measure_tuned_latency():
    """One row at a time after tuning, with all corrections that it chose, n_cal = 1e4, d = 5: milliseconds."""
    data, tuning = tuned()
    times = []
    for i in range(600):
        start = time.perf_counter()
        one = nc.Normal(data.mean_new[i : i + 1], data.sigma)
        tuning.recalibrator.recalibrate(one, data.space_new[i : i + 1]).summary(0.95)
        times.append(time.perf_counter() - start)
    p50, p99 = 1e3 * np.percentile(times[100:], [50, 99])
    return {"p50 milliseconds": p50, "p99 milliseconds": p99}


def measure_first_tuning():
    """Seconds of the first ``nc.tune`` and the first summary after it in a fresh process, n_cal = 1e4, d = 5."""
    start = time.perf_counter()
    data, tuning = tuned()
    tuning.recalibrator.recalibrate(nc.Normal(data.mean_new, data.sigma), data.space_new).summary(0.95)
    return {"seconds": time.perf_counter() - start}


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


def cold_and_warm(name):
    """Measure with an empty cache and with the cache that that leaves, each several times; return the medians."""
    results = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as cache:
            results.append([fresh(name, NUMBA_CACHE_DIR=cache) for _ in range(2)])
    return [median(runs) for runs in zip(*results, strict=True)]


def median(results):
    """Return the median of each figure."""
    return {name: statistics.median(result[name] for result in results) for name in results[0]}


def main():
    """Run the measurement named on the command line, or all."""
    if len(sys.argv) > 1:
        print(json.dumps(globals()[sys.argv[1]]()))
        return
    cold, warm = cold_and_warm("measure_first_call")
    cold_tuning, warm_tuning = cold_and_warm("measure_first_tuning")
    content = {
        "first call, cold cache": cold,
        "first call, warm cache": warm,
        "first call of nc.tune, cold cache": cold_tuning,
        "first call of nc.tune, warm cache": warm_tuning,
        "one row at a time": median([fresh("measure_latency") for _ in range(ROUNDS)]),
        "one row at a time, tuned": median([fresh("measure_tuned_latency") for _ in range(ROUNDS)]),
        "a million rows": median([fresh("measure_memory") for _ in range(ROUNDS)]),
    }
    save("footprint", content)


if __name__ == "__main__":
    main()
