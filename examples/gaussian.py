"""Recalibrate a misspecified linear model: the heteroscedastic Gaussian example of the paper (section 4.1).

Data: Y = 10 + 5 X² + e, with X uniform on (2, 20) and e Normal of standard deviation 30 X. The model is a straight line
with one standard deviation for all x. Overall its 95% intervals look right; nowhere are they.
"""

import argparse

import numpy as np

import nearcal as nc

REGIONS = [(2, 8), (8, 14), (14, 20)]


def generate(n, rng):
    """Return inputs and responses of the paper's example."""
    x = rng.uniform(2, 20, size=n)
    return x, rng.normal(true_mean(x), 30 * x)


def true_mean(x):
    """Return E(Y | x)."""
    return 10 + 5 * x**2


def score(out, x, y):
    """Return the figures of one row of the table; coverage is in per cent."""
    s = out.summary(0.95) if isinstance(out, nc.Recalibrated) else None
    mean = s.mean if s else out.mean()
    lower, upper = (s.lower, s.upper) if s else out.interval(0.95)
    covered = (lower <= y) & (y <= upper)
    miss = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    interval_score = upper - lower + 2 / 0.05 * miss
    by_region = [100 * covered[(a <= x) & (x < b)].mean() for a, b in REGIONS]
    return [
        np.mean((mean - true_mean(x)) ** 2),
        interval_score.mean() / np.abs(y).mean(),
        100 * covered.mean(),
        *by_region,
    ]


def main():
    """Fit, recalibrate, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=100_000, help="observations, split 80/10/10 (default 100000)")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)

    x, y = generate(arguments.n, rng)
    train, cal, new = np.split(np.arange(arguments.n), [int(0.8 * arguments.n), int(0.9 * arguments.n)])
    slope, intercept = np.polyfit(x[train], y[train], 1)
    sigma = np.std(y[train] - intercept - slope * x[train])

    def model(x):
        return nc.Normal(intercept + slope * x, sigma)

    local = nc.LocalRecalibrator(k=min(1000, len(cal) // 10)).fit(model(x[cal]), y[cal], x[cal])
    everywhere = nc.GlobalRecalibrator().fit(model(x[cal]), y[cal])
    rows = {
        "linear model": model(x[new]),
        "globally recalibrated": everywhere.recalibrate(model(x[new])),
        "locally recalibrated": local.recalibrate(model(x[new]), x[new]),
    }

    print(f"Heteroscedastic Gaussian example, {arguments.n:,} observations, seed {arguments.seed}")
    print("MSE to the true mean; scaled 95% interval score (lower is better); coverage of 95% intervals in per cent\n")
    columns = ["MSE", "score", "overall", *(f"x in {a}-{b}" for a, b in REGIONS)]
    print(f"{'':22}" + "".join(f"{name:>12}" for name in columns))
    for name, out in rows.items():
        mse, interval, *coverage = score(out, x[new], y[new])
        print(f"{name:22}{mse:12.1f}{interval:12.3f}" + "".join(f"{value:12.1f}" for value in coverage))


if __name__ == "__main__":
    main()
