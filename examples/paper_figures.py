"""Redraw figures 1 and 2 of the paper: the heteroscedastic Gaussian example (section 4.1) before and after.

Figure 1 looks at the linear model: right overall, wrong in different ways in different places. Figure 2 shows mean and
standard deviation after global and after local recalibration.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from gaussian import generate, true_mean

import nearcal as nc

HIGHLIGHTED = (17.68, 2146.22)  # the paper's observation
NEIGHBORHOODS = (4.0, 17.68)
COLORS = ("#0072B2", "#D55E00")
SHOWN = 3000  # points of a scatter plot: more make a blot
SMALL = {"markersize": 1.5, "linestyle": "none", "rasterized": True}


def prepare(n, seed):
    """Return inputs and responses of the test set, and the three predictive distributions by name."""
    x, y = generate(n, np.random.default_rng(seed))
    train, cal, new = np.split(np.arange(n), [int(0.8 * n), int(0.9 * n)])
    slope, intercept = np.polyfit(x[train], y[train], 1)
    sigma = np.std(y[train] - intercept - slope * x[train])

    def model(x):
        return nc.Normal(intercept + slope * x, sigma)

    everywhere = nc.GlobalRecalibrator().fit(model(x[cal]), y[cal])
    local = nc.LocalRecalibrator(k=min(1000, len(cal) // 10)).fit(model(x[cal]), y[cal], x[cal])
    dists = {
        "linear": model(x[new]),
        "global": everywhere.recalibrate(model(x[new])),
        "local": local.recalibrate(model(x[new]), x[new]),
    }
    return x[new], y[new], dists, model


def draw_figure_1(x, y, linear, model):
    """Draw the six panels on the linear model."""
    figure, axes = plt.subplots(2, 3, figsize=(7.8, 4.8), layout="constrained")
    (a, b, c), (d, e, f) = axes
    point = model(np.array([HIGHLIGHTED[0]]))
    draw_data(a, x, y, point)
    draw_means(b, x, linear, point)
    nc.plots.predictive_density(nc.diagnostics.density_curves({"linear": point}), c, observed=HIGHLIGHTED[1])
    shade_pit(c, point)
    p = nc.diagnostics.pit(linear, y)
    nc.plots.pit_histogram(nc.diagnostics.pit_histogram(p), d)
    regions = nc.diagnostics.nearest_regions(x, NEIGHBORHOODS, k=min(1000, len(x) // 10))
    draw_neighborhoods(e, x, y, regions)
    tables = {
        f"x ≈ {center:g}": nc.diagnostics.pit_histogram(p[rows])
        for center, rows in zip(NEIGHBORHOODS, regions.rows, strict=True)
    }
    nc.plots.pit_histogram(tables, f).set_ylim(0, 5.4)  # room for the legend
    f.legend(loc="upper left", frameon=False, fontsize="small")
    titles = ["Data", "Mean functions", "Predictive density", "Global histogram", "Neighbourhoods", "Local histograms"]
    name_panels(axes.flat, titles)
    return figure


def draw_data(ax, x, y, point):
    """Draw observations, and the predictive density of the highlighted one on its side."""
    ax.plot(x[:SHOWN], y[:SHOWN], ".", color="0.8", **SMALL)
    draw_sideways(ax, point)
    ax.plot(*HIGHLIGHTED, "o", color="black", markersize=5)
    ax.set(xlabel="x", ylabel="y")


def draw_sideways(ax, point):
    """Draw a predictive density along the y axis, its foot at the highlighted x."""
    table = nc.diagnostics.density_curves({"linear": point})
    foot = HIGHLIGHTED[0]
    ax.plot(foot - 4 * table["density"] / table["density"].max(), table["y"], color=COLORS[1])
    ax.plot([foot, foot], table["y"][[0, -1]], color=COLORS[1], linewidth=0.8)


def draw_means(ax, x, linear, point):
    """Draw the true mean against the model's."""
    order = np.argsort(x)
    ax.plot(x[order], true_mean(x[order]), color="black", linestyle="--", label="true mean")
    ax.plot(x[order], linear.mean()[order], color=COLORS[0], label="linear model")
    draw_sideways(ax, point)
    ax.plot(*HIGHLIGHTED, "o", color="black", markersize=5)
    ax.set(xlabel="x", ylabel="Mean of y")
    ax.legend(frameon=False, fontsize="small")


def shade_pit(ax, point):
    """Shade the probability below the highlighted observation: its PIT value."""
    y = HIGHLIGHTED[1]
    below = np.linspace(point.ppf(0.001)[0], y, 200)
    ax.fill_between(below, point.pdf(below[np.newaxis])[0], color=COLORS[0], alpha=0.25, linewidth=0)
    ax.text(point.mean()[0], 2e-4, f"PIT =\n{point.cdf(y)[0]:.4f}", ha="center", fontsize="small")
    ax.get_legend().remove()
    ax.set(xlabel="y", yticks=[])


def draw_neighborhoods(ax, x, y, regions):
    """Draw the observations nearest to the two points."""
    ax.plot(x[:SHOWN], y[:SHOWN], ".", color="0.8", **SMALL)
    for center, rows, color, marker in zip(NEIGHBORHOODS, regions.rows, COLORS, "os", strict=True):
        ax.plot(x[rows], y[rows], marker, color=color, **SMALL)
        ax.plot(center, true_mean(center), marker, color="white", markeredgecolor="black", label=f"x ≈ {center:g}")
    ax.set(xlabel="x", ylabel="y")
    ax.legend(frameon=False, fontsize="small")


def draw_figure_2(x, dists):
    """Draw the four panels: means and standard deviations, of the linear model and after recalibration."""
    figure, axes = plt.subplots(1, 4, figsize=(9.6, 2.6), layout="constrained")
    for pair, name in zip((axes[:2], axes[2:]), ("global", "local"), strict=True):
        draw_moments(pair[0], x, true_mean(x), {key: dists[key].mean() for key in ("linear", name)})
        draw_moments(pair[1], x, 30 * x, {key: dists[key].std() for key in ("linear", name)})
        pair[0].set(ylabel="Mean", ylim=(-300, 2100))
        pair[1].set(ylabel="Standard deviation", ylim=(0, 680))
    name_panels(axes, ["Mean, global", "SD, global", "Mean, local", "SD, local"])
    return figure


def draw_moments(ax, x, truth, estimates):
    """Draw a true curve and its estimates, for every row of the test set."""
    order = np.argsort(x)
    for (name, values), color, line in zip(estimates.items(), COLORS, ("-", "--"), strict=True):
        ax.plot(x[order], values[order], color=color, linestyle=line, label=name)
    ax.plot(x[order], truth[order], color="black", linestyle=":", linewidth=2, label="true")
    ax.set(xlabel="x")
    ax.legend(frameon=False, fontsize="small")


def name_panels(axes, titles):
    """Write (a), (b), … and a title over the panels."""
    for letter, ax, title in zip("abcdef", axes, titles, strict=False):
        ax.set_title(f"({letter}) {title}", fontsize="medium", loc="left")


def main():
    """Draw both figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("figures"), help="folder for the figures (default figures)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=100_000, help="observations, split 80/10/10 (default 100000)")
    arguments = parser.parse_args()
    mpl.use("Agg")
    arguments.out.mkdir(parents=True, exist_ok=True)
    x, y, dists, model = prepare(arguments.n, arguments.seed)
    figures = {"figure_1": draw_figure_1(x, y, dists["linear"], model), "figure_2": draw_figure_2(x, dists)}
    for name, figure in figures.items():
        path = arguments.out / f"{name}.png"
        figure.savefig(path, dpi=200)
        print(path)


if __name__ == "__main__":
    main()
