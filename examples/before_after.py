"""Draw the picture of the README: intervals of a straight line before and after local recalibration.

    python examples/before_after.py [--out docs/_static/before_after.png]

The data are those of the paper's section 4.1: the mean is curved and the spread grows with x, but the model is a line
with one standard deviation. Overall its 90% intervals look right; nowhere are they.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import nearcal as nc

COVERAGE = 0.9
BINS = np.linspace(2, 20, 13)


def generate(n, rng):
    """Return inputs and responses."""
    x = rng.uniform(2, 20, size=n)
    return x, rng.normal(10 + 5 * x**2, 30 * x)


def draw_band(ax, x, y, grid, dist):
    """Draw observations and the interval along a grid."""
    lower, upper = dist.interval(COVERAGE)
    ax.plot(x, y, ".", color="0.75", markersize=1.5, zorder=1)
    ax.fill_between(grid, lower, upper, color="#0072B2", alpha=0.25, linewidth=0, zorder=2)
    ax.plot(grid, dist.mean(), color="#0072B2", linewidth=1.8, zorder=3)
    ax.set_ylim(-1200, 3400)


def draw_coverage(ax, x, covered):
    """Draw the share of observations inside their interval, by x."""
    part = np.digitize(x, BINS[1:-1])
    shares = [covered[part == i].mean() for i in range(len(BINS) - 1)]
    ax.axhline(COVERAGE, color="black", linewidth=1, linestyle="--")
    colors = ["#D55E00" if abs(share - COVERAGE) > 0.03 else "#0072B2" for share in shares]
    ax.bar((BINS[:-1] + BINS[1:]) / 2, shares, width=1.2, color=colors)
    ax.set(ylim=(0.5, 1.0), xlabel="x")


def main():
    """Fit the line, recalibrate it, draw both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/_static/before_after.png"))
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    (x_train, y_train), (x_cal, y_cal), (x, y) = (generate(10_000, rng) for _ in range(3))
    slope, intercept = np.polyfit(x_train, y_train, 1)
    sigma = np.std(y_train - intercept - slope * x_train)

    def line(x):
        return nc.Normal(intercept + slope * x, sigma)

    local = nc.LocalRecalibrator(k=500).fit(line(x_cal), y_cal, x_cal)
    grid = np.linspace(2, 20, 200)
    methods = {
        "before: a line with one σ": line,
        "after: nearcal": lambda x: local.recalibrate(line(x), x),
    }
    figure, axes = plt.subplots(2, 2, figsize=(8, 4.4), height_ratios=[2, 1], sharex=True, sharey="row", layout="tight")
    for (title, predict), (band, bars) in zip(methods.items(), axes.T, strict=True):
        lower, upper = predict(x).interval(COVERAGE)
        covered = (lower <= y) & (y <= upper)
        draw_band(band, x[:3000], y[:3000], grid, predict(grid))
        draw_coverage(bars, x, covered)
        band.set_title(f"{title}\n90% intervals cover {covered.mean():.1%}", fontsize=11)
    axes[0, 0].set_ylabel("y")
    axes[1, 0].set_ylabel("coverage by x")
    figure.savefig(arguments.out, dpi=130)


if __name__ == "__main__":
    main()
