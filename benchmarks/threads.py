"""Throughput of all cores against one, wall time, in every exact case.

    python benchmarks/threads.py

Runs with one thread and with all alternate, and each round goes through all cases, so that a disturbance of some
seconds spoils a round and not a case; the best of the rounds counts on either side. Beside the cases stands what the
machine itself gives: the same ratio for plain arithmetic that shares nothing, near the number of cores on a quiet
machine. Writes results/threads.json.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
from cases import CASES, fit_ours, generate
from timing import save

import nearcal as nc

ROUNDS = 12
SECONDS = 0.4  # of one run with one thread
MOST_ROWS = 40_000


@numba.njit(nogil=True)
def spin(steps):
    """Take time without touching memory."""
    x = 0.5
    for _ in range(steps):
        x = 3.9 * x * (1 - x)
    return x


def control(cores, steps=40_000_000):
    """Return functions that do the same arithmetic in one thread and in as many as there are cores."""
    pool = ThreadPoolExecutor(cores)
    spin(1)
    return lambda: [spin(steps) for _ in range(cores)], lambda: list(pool.map(spin, [steps] * cores))


def wall_time(run):
    """Return the seconds that a run takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def runs(case, cores):
    """Return functions that recalibrate the same rows with one thread and with all cores."""
    data = generate(case.n, case.d, MOST_ROWS)

    def run(recalibrator, m):
        dist = nc.Normal(data.mean_new[:m], data.sigma)
        return lambda: recalibrator.recalibrate(dist, data.space_new[:m]).summary(0.95)

    one, several = (fit_ours(data, case.k, threads=threads) for threads in (1, cores))
    run(one, 1024)()
    m = int(min(max(1024 * SECONDS / wall_time(run(one, 1024)), 1024), MOST_ROWS))
    run(several, m)()
    return run(one, m), run(several, m)


def main():
    """Measure every exact case, and the machine."""
    cores = len(os.sched_getaffinity(0))
    cases = [case for case in CASES if not case.eps]
    pairs = [*(runs(case, cores) for case in cases), control(cores)]
    times = np.array([[[wall_time(run) for run in pair] for pair in pairs] for _ in range(ROUNDS)])
    *speed_ups, machine = np.divide(*times.min(axis=0).T).tolist()
    rows = [
        {"n": case.n, "d": case.d, "k": case.k, "speed-up": ratio} for case, ratio in zip(cases, speed_ups, strict=True)
    ]
    print(*rows, f"plain arithmetic {machine:.2f}", sep="\n")
    save("threads", {"cores": cores, "rounds": ROUNDS, "rows": rows, "plain arithmetic": machine})


if __name__ == "__main__":
    main()
