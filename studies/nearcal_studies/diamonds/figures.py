"""Figure 5 of the paper: predictions, two predictive distributions, and PIT values around them."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

import nearcal as nc
from nearcal_studies.drawing import LEGEND, PALETTE, TRUE, draw_points, name_panels, new_figure
from nearcal_studies.study import Outcome

COLORS = PALETTE[:2]  # of the cheap and the dear diamond, as in the histograms
NAMES = {"base": "network", "local": "recalibrated"}
_NEIGHBORS = 500


def draw_figure_5(outcome: Outcome) -> Figure:
    """Draw predictions, densities of two diamonds, and histograms of PIT values around them."""
    arrays = outcome.arrays
    figure = new_figure(7.8, 5.6)
    axes = figure.subplots(2, 2)
    (a, b), (c, d) = axes
    rows, y = arrays["highlighted"], arrays["y"]
    draw_points(a, y, arrays["mean"])
    a.axline((0, 0), slope=1, color=TRUE, linewidth=0.8)
    for row, color in zip(rows, COLORS, strict=True):
        a.plot(y[row], arrays["mean"][row], "o", color=color, markersize=6)
    a.set(xlabel="price", ylabel="prediction of the network", xlim=(0, 20000), ylim=(0, 25000))
    _draw_densities(b, arrays)
    regions = nc.diagnostics.nearest_regions(arrays["space"], arrays["space"][rows], k=min(_NEIGHBORS, len(y) // 10))
    for ax, name in ((c, "base"), (d, "local")):
        tables = {
            f"near {y[row]:,.0f}": nc.diagnostics.pit_histogram(arrays[f"pit_{name}"][near])
            for row, near in zip(rows, regions.rows, strict=True)
        }
        nc.plots.pit_histogram(tables, ax)
    top = max(c.get_ylim()[1], d.get_ylim()[1])
    for ax in (c, d):
        ax.set_ylim(0, top)
    name_panels(
        axes.flat, ["Predictions", "Two predictive distributions", "PIT near them, network", "PIT, recalibrated"]
    )
    return figure


def _draw_densities(ax: Axes, arrays: Mapping[str, Any]) -> None:
    """Draw both densities of both diamonds, each pair scaled to its highest point: the dear one is far wider."""
    for place, (row, color) in enumerate(zip(arrays["highlighted"], COLORS, strict=True)):
        chosen = arrays["curve_row"] == place
        top = arrays["curve_density"][chosen].max()
        for method, line in (("base", "-"), ("local", "--")):
            of = chosen & (arrays["curve_method"] == method)
            label = "" if place else NAMES[method]  # once: the colours are those of the first panel
            ax.plot(arrays["curve_y"][of], arrays["curve_density"][of] / top, line, color=color, label=label)
        ax.axvline(arrays["y"][row], color=color, linewidth=0.8, linestyle=":")
    ax.set(xlabel="price", ylabel="density, scaled", yticks=[])
    ax.legend(loc="upper center", **LEGEND)
