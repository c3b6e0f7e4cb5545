"""Throughput of all cores against one, wall time, in every exact case.

    python benchmarks/threads.py

Runs with one thread and with all alternate, and each round goes through all cases, so that a disturbance of some
seconds spoils a round and not a case; the median over the rounds of the ratio of neighbouring runs counts. Beside the
cases stands what the machine itself gives: the same ratio for arithmetic in registers, and for sums over more memory
than fits in the caches. On a quiet machine the first is near the number of cores. Writes results/threads.json.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
from cases import CASES, fit_ours, generate
from timing import save

import nearcal as nc

ROUNDS = 25
SECONDS = 0.3  # of one run with one thread
MOST_ROWS = 40_000


@numba.njit(nogil=True)
def spin(steps):
    """Take time without touching memory."""
    x = 0.5
    for _ in range(steps):
        x = 3.9 * x * (1 - x)
    return x


@numba.njit(nogil=True)
def sweep(table, times):
    """Read a table from memory again and again, in several sums at once."""
    total = np.zeros(8)
    for _ in range(times):
        for row in table:
            total += row
    return total


def controls(cores):
    """Return pairs of functions that do the same work in one thread and in as many as there are cores, by name."""
    pool = ThreadPoolExecutor(cores)
    tables = [np.ones((2**22, 8)) for _ in range(cores)]  # 256 MB each
    work = {
        "arithmetic": lambda i: spin(30_000_000),
        "memory": lambda i: sweep(tables[i], 1),
    }
    for task in work.values():
        task(0)
    each = range(cores)
    return {
        name: (lambda task=task: [task(i) for i in each], lambda task=task: list(pool.map(task, each)))
        for name, task in work.items()
    }


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

    one, several = (fit_ours(data, case.k, workers=nc.Workers(threads)) for threads in (1, cores))
    run(one, 1024)()
    m = int(min(max(1024 * SECONDS / wall_time(run(one, 1024)), 1024), MOST_ROWS))
    run(several, m)()
    return run(one, m), run(several, m)


def main():
    """Measure every exact case, and the machine."""
    cores = len(os.sched_getaffinity(0))
    cases = [case for case in CASES if not case.eps]
    machine = controls(cores)
    pairs = [*(runs(case, cores) for case in cases), *machine.values()]
    times = np.array([[[wall_time(run) for run in pair] for pair in pairs] for _ in range(ROUNDS)])
    ratios = np.median(times[..., 0] / times[..., 1], axis=0).tolist()
    rows = [
        {"n": case.n, "d": case.d, "k": case.k, "speed-up": ratio} for case, ratio in zip(cases, ratios, strict=False)
    ]
    given = dict(zip(machine, ratios[len(cases) :], strict=True))
    print(*rows, given, sep="\n")
    save("threads", {"cores": cores, "rounds": ROUNDS, "rows": rows, "machine": given})


if __name__ == "__main__":
    main()
