"""What it costs to update a calibration set, and to ask one that was updated: ratios within one run.

    python benchmarks/updates.py

n = 100,000 calibration points in d = 5 dimensions, k = 100 and 1,000, seed 0, one thread, processor time. Updates are
timed alone, and with a prediction after each, which has to build what the update put off. Queries are timed on an index
that was made by updates and on one built anew over the same points, in turn, and the best of each counts:

- after 100,000 points in batches of 1,000, and as many of the oldest forgotten on the way (a window) or not;
- at worst: just before all points are built into one structure again.

That the answers of both are equal to the last bit is checked on the way.
"""

import time

import numpy as np
from timing import save

import nearcal as nc

N, D, SEED = 100_000, 5, 0
KS = (100, 1000)
BATCHES = (1000, 100, 10, 1)
ROWS, REPEATS = 2000, 7
WORKERS = nc.Workers(threads=1)


def make_points(rng, n):
    """Return predictions, responses and positions of n points."""
    space = rng.normal(size=(n, D))
    return nc.Normal(space[:, 0], 1.0), rng.normal(space[:, 0], np.exp(0.3 * space[:, 1])), space


def seconds(run):
    """Return the processor time that a function takes."""
    start = time.process_time()
    run()
    return time.process_time() - start


def time_updates(rng, batch, *, asking):
    """Return points a second, of about a second's updates."""
    rc = nc.LocalRecalibrator(k=100, workers=WORKERS).fit(*make_points(rng, N))
    steps = max(5, min(20_000 // batch, 200 if asking else 2000))
    dist, y, space = make_points(rng, batch * (steps + 1))
    new = nc.Normal(np.zeros(1), 1.0), rng.normal(size=(1, D))

    def step(number):
        rows = slice(number * batch, (number + 1) * batch)
        rc.update(dist[rows], y[rows], space[rows])
        if asking:
            rc.recalibrate(*new).ppf(0.9)

    step(0)  # compiles, and makes the index one that grows
    return batch * steps / seconds(lambda: [step(number) for number in range(1, steps + 1)])


def time_queries(rc, rng, k):
    """Return the cost of a query of an index as it is, and as a ratio to that of one built anew."""
    queries, grown = rng.normal(size=(ROWS, D)), rc.index_
    fresh = type(grown).settled.function(grown)
    found, expected = (index.nearest(queries, k, 0.0) for index in (grown, fresh))
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)
    costs = {"grown": [], "fresh": []}
    for _ in range(REPEATS):
        for name, index in (("grown", grown), ("fresh", fresh)):
            costs[name].append(seconds(lambda index=index: index.nearest(queries, k, 0.0)))
    best = {name: 1e6 * min(values) / ROWS for name, values in costs.items()}
    return {
        "n": grown.shape[0],
        "structures": len(grown._built.segments),
        "fresh_us": round(best["fresh"], 2),
        "ratio": round(best["grown"] / best["fresh"], 3),
    }


def updated(rng, k, points, *, window):
    """Return a recalibrator that so many points were added to, and as many forgotten if it has a window."""
    rc = nc.LocalRecalibrator(k=k, workers=WORKERS).fit(*make_points(rng, N))
    for _ in range(points // 1000):
        rc.update(*make_points(rng, 1000))
        if window:
            rc.forget(keep_last=N)
        rc.recalibrate(nc.Normal(np.zeros(1), 1.0), np.zeros((1, D))).mean()
    return rc


def main():
    """Measure and write."""
    rng = np.random.default_rng(SEED)
    result = {"n": N, "d": D, "seed": SEED, "updates_per_second": {}, "queries": {}}
    for batch in BATCHES:
        result["updates_per_second"][f"batches of {batch}"] = {
            "alone": round(time_updates(rng, batch, asking=False)),
            "with a prediction after each": round(time_updates(rng, batch, asking=True)),
        }
        print(batch, result["updates_per_second"][f"batches of {batch}"])
    for k in KS:
        result["queries"][f"k = {k}"] = {
            "after 100,000 more": time_queries(updated(rng, k, 100_000, window=False), rng, k),
            "after 100,000 in a window": time_queries(updated(rng, k, 100_000, window=True), rng, k),
            "at worst": time_queries(updated(rng, k, 11_000, window=False), rng, k),
            "at worst, in a window": time_queries(updated(rng, k, 5_000, window=True), rng, k),
        }
        print(k, result["queries"][f"k = {k}"])
    save("updates", result)


if __name__ == "__main__":
    main()
