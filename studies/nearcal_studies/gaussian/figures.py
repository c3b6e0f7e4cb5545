"""Figures 1 and 2 of the paper: the linear model, right overall and wrong in places; moments after recalibration."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import nearcal as nc
from nearcal_studies.drawing import AFTER, BEFORE, LEGEND, SMALL, TRUE, draw_points, name_panels, new_figure
from nearcal_studies.gaussian.methods import LinearModel, true_mean
from nearcal_studies.study import Outcome

HIGHLIGHTED = (17.68, 2146.22)  # the paper's observation
NEIGHBORHOODS = (4.0, 17.68)
COLORS = (BEFORE, AFTER)


def draw_figure_1(outcome: Outcome, k: int) -> Figure:
    """Draw the six panels on the linear model."""
    x, y = outcome.arrays["x"], outcome.arrays["y"]
    model = LinearModel(**outcome.numbers["model"])
    point, linear = model.distribution([HIGHLIGHTED[0]]), model.distribution(x)
    figure = new_figure(7.8, 4.8)
    axes = figure.subplots(2, 3)
    (a, b, c), (d, e, f) = axes
    _draw_data(a, x, y, point)
    _draw_means(b, x, linear, point)
    nc.plots.predictive_density(nc.diagnostics.density_curves({"linear": point}), c, observed=HIGHLIGHTED[1])
    _shade_pit(c, point)
    p = nc.diagnostics.pit(linear, y)
    nc.plots.pit_histogram(nc.diagnostics.pit_histogram(p), d)
    regions = nc.diagnostics.nearest_regions(x, NEIGHBORHOODS, k=k)
    _draw_neighborhoods(e, x, y, regions)
    tables = {
        f"x ≈ {center:g}": nc.diagnostics.pit_histogram(p[rows])
        for center, rows in zip(NEIGHBORHOODS, regions.rows, strict=True)
    }
    nc.plots.pit_histogram(tables, f).set_ylim(0, 5.4)  # room for the legend
    f.legend(loc="upper left", **LEGEND)
    titles = ["Data", "Mean functions", "Predictive density", "Global histogram", "Neighbourhoods", "Local histograms"]
    name_panels(axes.flat, titles)
    return figure


def _draw_data(ax: Axes, x: NDArray[Any], y: NDArray[Any], point: nc.Distribution) -> None:
    """Draw observations, and the predictive density of the highlighted one on its side."""
    draw_points(ax, x, y)
    _draw_sideways(ax, point)
    ax.plot(*HIGHLIGHTED, "o", color=TRUE, markersize=5)
    ax.set(xlabel="x", ylabel="y")


def _draw_sideways(ax: Axes, point: nc.Distribution) -> None:
    """Draw a predictive density along the y axis, its foot at the highlighted x."""
    table = nc.diagnostics.density_curves({"linear": point})
    foot = HIGHLIGHTED[0]
    ax.plot(foot - 4 * table["density"] / table["density"].max(), table["y"], color=AFTER)
    ax.plot([foot, foot], table["y"][[0, -1]], color=AFTER, linewidth=0.8)


def _draw_means(ax: Axes, x: NDArray[Any], linear: nc.Distribution, point: nc.Distribution) -> None:
    """Draw the true mean against the model's."""
    order = np.argsort(x)
    ax.plot(x[order], true_mean(x[order]), color=TRUE, linestyle="--", label="true mean")
    ax.plot(x[order], linear.mean()[order], color=BEFORE, label="linear model")
    _draw_sideways(ax, point)
    ax.plot(*HIGHLIGHTED, "o", color=TRUE, markersize=5)
    ax.set(xlabel="x", ylabel="Mean of y")
    ax.legend(**LEGEND)


def _shade_pit(ax: Axes, point: nc.Distribution) -> None:
    """Shade the probability below the highlighted observation: its PIT value."""
    y = HIGHLIGHTED[1]
    below = np.linspace(point.ppf(0.001)[0], y, 200)
    ax.fill_between(below, point.pdf(below[np.newaxis])[0], color=BEFORE, alpha=0.25, linewidth=0)
    ax.text(point.mean()[0], 2e-4, f"PIT =\n{point.cdf(y)[0]:.4f}", ha="center", fontsize="small")
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()
    ax.set(xlabel="y", yticks=[])


def _draw_neighborhoods(ax: Axes, x: NDArray[Any], y: NDArray[Any], regions: nc.diagnostics.Regions) -> None:
    """Draw the observations nearest to the two points."""
    draw_points(ax, x, y)
    for center, rows, color, marker in zip(NEIGHBORHOODS, regions.rows, COLORS, "os", strict=True):
        ax.plot(x[rows], y[rows], marker, color=color, **SMALL)
        ax.plot(center, true_mean(center), marker, color="white", markeredgecolor=TRUE, label=f"x ≈ {center:g}")
    ax.set(xlabel="x", ylabel="y")
    ax.legend(**LEGEND)


def draw_figure_2(outcome: Outcome) -> Figure:
    """Draw the four panels: means and standard deviations, of the linear model and after recalibration."""
    arrays = outcome.arrays
    figure = new_figure(9.6, 2.6)
    axes = figure.subplots(1, 4)
    for pair, name in zip((axes[:2], axes[2:]), ("global", "local"), strict=True):
        for ax, moment in zip(pair, ("mean", "std"), strict=True):
            _draw_moment(ax, arrays, moment, name)
        pair[0].set(ylabel="Mean", ylim=(-300, 2100))
        pair[1].set(ylabel="Standard deviation", ylim=(0, 680))
    name_panels(axes, ["Mean, global", "SD, global", "Mean, local", "SD, local"])
    return figure


def _draw_moment(ax: Axes, arrays: Any, moment: str, name: str) -> None:
    """Draw a true curve and its estimates, for every row of the test set."""
    x = arrays["x"]
    order = np.argsort(x)
    for method, color, line in (("linear", BEFORE, "-"), (name, AFTER, "--")):
        ax.plot(x[order], arrays[f"{moment}_{method}"][order], color=color, linestyle=line, label=method)
    truth = true_mean(x) if moment == "mean" else 30 * x
    ax.plot(x[order], truth[order], color=TRUE, linestyle=":", linewidth=2, label="true")
    ax.set(xlabel="x")
    ax.legend(**LEGEND)
