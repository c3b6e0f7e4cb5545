"""Time to tune, in alternation with another checkout: five layers, families of distributions, boosted quantiles.

    python benchmarks/tuning.py ../nearcal-before [--rounds 3] [--only "five layers"]

Each measurement runs in a fresh process on one thread, first in one checkout, then in the other, round after round, and
the least of the rounds counts, in seconds of processor; with "two threads" in seconds of wall time. Writes
results/tuning.json.
"""

import argparse
import tempfile
from pathlib import Path

from timing import load, save
from versions import HERE, PROGRAMS, measure

LAYERS = """
from cases import inputs
n, widths = 10_000, (8, 200, 100, 50, 1)
rng = np.random.default_rng(0)
spaces = {f"width {width}": inputs(n, width, rng) for width in widths}
y_mean = spaces["width 8"][:, 0]
center, spread = y_mean[:, np.newaxis], rng.uniform(0.5, 2.0, n)
parts = [nc.Normal(y_mean - spread, spread), nc.Normal(y_mean + spread, 0.5 * spread)]
families = {
    "Normal": nc.Normal(y_mean, spread),
    "Gamma, several shapes": nc.Gamma(rng.uniform(1.0, 20.0, n), spread),
    "Mixture of two": nc.Mixture(rng.dirichlet([2.0, 2.0], n), parts),
    "Samples of 100": nc.Samples(center + spread[:, np.newaxis] * rng.normal(size=(n, 100))),
}

def cost(dist, clock, **options):
    y = dist.from_z(np.random.default_rng(1).normal(size=n) * (1 + 0.5 * np.tanh(y_mean)))
    few = slice(0, 2500)
    # once to compile
    nc.tune(dist[few], y[few], {key: space[few] for key, space in spaces.items()}, **options)
    start = clock()
    nc.tune(dist, y, spaces, **options)
    return 1e6 * (clock() - start)
"""
# settings that both versions have, the same for all families
PLAIN = '{"k": (1000, 500, 200, 100, 50, 10), "scaling": "standard", "linear": False, "shrinkage": False}'
TREES = """
import lightgbm
n, levels = 4915 + 1638, (np.arange(17) + 1) / 18
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(n, 8))  # as in kin8nm: a product of sines and noise that depends on where
y = np.sin(2 * X[:, 0]) * np.cos(3 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.3 * np.exp(X[:, 4]) * rng.normal(size=n)
options = {"objective": "quantile", "n_estimators": 100, "n_jobs": 1, "random_state": 0, "verbose": -1}
models = [lightgbm.LGBMRegressor(alpha=level, **options).fit(X[:4915], y[:4915]) for level in levels]

def cost(clock, **options):
    nc.calibrate(models, X[4915:5415], y[4915:5415], levels=levels, **options)  # compiles
    start = clock()
    nc.calibrate(models, X[4915:], y[4915:], levels=levels, **options)
    return 1e6 * (clock() - start)
"""
CASES = {
    "five layers": PROGRAMS["calibrate"],
    "boosted quantiles": f"""{TREES}
print(json.dumps({{"17 x 100 trees, n 1638": cost(time.process_time, **one_thread)}}))
""",
    "families": f"""{LAYERS}
plain = {{**one_thread, **{PLAIN}}}
costs = {{f"{{name}}, plain": cost(dist, time.process_time, **plain) for name, dist in families.items()}}
print(json.dumps(costs))
""",
    "two threads": f"""{LAYERS}
print(json.dumps({{"wall time, two threads": cost(families["Normal"], time.perf_counter, **two_threads)}}))
""",
    "boosted quantiles, two threads": f"""{TREES}
seconds = cost(time.perf_counter, **two_threads)
print(json.dumps({{"17 x 100 trees, n 1638, wall time, two threads": seconds}}))
""",
}


def main():
    """Alternate between the checkouts, print ratios, and save the seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="another checkout of this repository")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=CASES, help="one of the programs")
    arguments = parser.parse_args()
    checkouts = {"before": arguments.before.resolve(), "after": HERE}
    known = load("tuning") if arguments.only else None
    seconds = {} if known is None else known["seconds"]
    with tempfile.TemporaryDirectory() as root:
        for program in [arguments.only] if arguments.only else CASES:
            least = {}
            for _ in range(arguments.rounds):
                for name, checkout in checkouts.items():
                    for case, cost in measure(checkout, CASES[program], f"{root}/{name}").items():
                        own = least.setdefault(case, {})
                        own[name] = min(cost / 1e6, own.get(name, float("inf")))
            for case, own in least.items():
                seconds[case] = {**own, "rounds": arguments.rounds}
                ratio = own["after"] / own["before"]
                print(f"{case:48} {own['before']:7.1f} s {own['after']:7.1f} s  after / before {ratio:.3f}", flush=True)
    save("tuning", {"seconds": seconds})


if __name__ == "__main__":
    main()
