"""Timing on a noisy machine: processor time, the best of several repeats, enough rows to last."""

import json
import platform
import time
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
PACKAGES = ["nearcal", "numpy", "scipy", "numba", "scikit-learn", "faiss-cpu"]


def cost_per_row(run, make_rows, seconds, clock=time.process_time, repeats=3):
    """Return microseconds per row of ``run(rows)``: rows to last ``seconds`` in all, the best repeat counts.

    ``make_rows(m)`` gives m rows. The first runs warm caches and compilers and tell how many rows to take; a method
    that works in batches shows its speed only on many rows, so a thousand are taken where that is affordable.
    """
    m, cost = 64, None
    run(make_rows(m))
    for m in (64, 1024):
        if cost is None or cost * m < 2 * seconds:
            rows = make_rows(m)
            cost = min(_time(run, rows, clock) for _ in range(2)) / m
    m = int(min(max(seconds / repeats / cost, 32), 20_000))
    rows = make_rows(m)
    return 1e6 * min(cost, *(_time(run, rows, clock) / m for _ in range(repeats)))


def _time(run, rows, clock):
    start = clock()
    run(rows)
    return max(clock() - start, 1e-6)


def save(name, content):
    """Write results with the versions they were measured with."""
    versions = {package: version(package) for package in PACKAGES}
    content = {"python": platform.python_version(), "versions": versions, **content}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"wrote {path}")


def load(name):
    """Read results, or None."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None
