"""Figure 3 of the paper: the surface, predictions before and after, and where intervals miss."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nearcal_studies.drawing import AFTER, BEFORE, LEGEND, SHOWN, TRUE, draw_points, name_panels, new_figure
from nearcal_studies.rosenbrock.network import rosenbrock, true_mean
from nearcal_studies.study import Outcome


def draw_figure_3(outcome: Outcome) -> Figure:
    """Draw the six panels."""
    arrays = outcome.arrays
    X, y = arrays["X"], arrays["y"]
    figure = new_figure(8.4, 5.4)
    surface = figure.add_subplot(2, 3, 1, projection="3d")
    rest = [figure.add_subplot(2, 3, place) for place in range(2, 7)]
    _draw_surface(surface, X, y)
    _draw_against_mean(rest[0], true_mean(X), y)
    colored = rest[1].scatter(X[:, 0], X[:, 1], c=arrays["mean_wsir"], s=2, cmap="viridis", linewidths=0)
    figure.colorbar(colored, ax=rest[1], label="prediction")
    rest[1].set(xlabel="$x_1$", ylabel="$x_2$")
    _draw_shift(rest[2], arrays)
    for ax, name in ((rest[3], "wsir"), (rest[4], "wsir_local")):
        _draw_misses(ax, X, arrays[f"covered_{name}"])
    titles = ["Data and mean surface", "Data against mean", "WSIR predictions", "Before and after"]
    name_panels([surface, *rest], [*titles, "WSIR: misses", "Recalibrated: misses"])
    return figure


def _draw_surface(ax: Any, X: NDArray[Any], y: NDArray[Any]) -> None:
    grid = np.meshgrid(np.linspace(-2, 2, 60), np.linspace(-1, 5, 60))
    ax.plot_surface(*grid, rosenbrock(*grid), cmap="viridis", alpha=0.6, linewidth=0)
    few = slice(0, SHOWN // 3)
    ax.scatter(X[few, 0], X[few, 1], y[few], s=1, color=TRUE, depthshade=False)
    ax.set(xlabel="$x_1$", ylabel="$x_2$")
    ax.tick_params(labelsize="x-small", pad=0)
    ax.view_init(elev=30, azim=-120)


def _draw_against_mean(ax: Axes, mean: NDArray[Any], y: NDArray[Any]) -> None:
    draw_points(ax, mean, y, color=BEFORE)
    ax.axline((0, 0), slope=1, color=TRUE, linewidth=0.8)
    ax.set(xlabel="true mean", ylabel="y")


def _draw_shift(ax: Axes, arrays: Mapping[str, Any]) -> None:
    """Draw predictions after against before, those at low x₂ apart."""
    low = arrays["X"][:, 1] < 0
    for rows, color, marker, label in ((~low, "0.6", ".", "$x_2 \\geq 0$"), (low, AFTER, "s", "$x_2 < 0$")):
        draw_points(ax, arrays["mean_wsir"][rows], arrays["mean_wsir_local"][rows], marker, color=color, label=label)
    ax.axline((0, 0), slope=1, color=TRUE, linewidth=0.8)
    ax.set(xlabel="WSIR", ylabel="recalibrated")
    ax.legend(markerscale=4, **LEGEND)


def _draw_misses(ax: Axes, X: NDArray[Any], covered: NDArray[Any]) -> None:
    inside = covered.astype(bool)
    draw_points(ax, *X[inside].T, color="0.85")
    ax.plot(*X[~inside].T, ".", color=AFTER, markersize=2.5, linestyle="none")
    ax.set(xlabel="$x_1$", ylabel="$x_2$")
