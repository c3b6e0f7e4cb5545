"""Figure 4 of the paper: accuracy, coverage and costs, by size of the data and by number of neighbours."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nearcal_studies.drawing import LEGEND, PALETTE, name_panels, new_figure
from nearcal_studies.simulation.data import NOISE_VARIANCE
from nearcal_studies.simulation.methods import COVERAGE, Row
from nearcal_studies.simulation.results import NO_NETWORK

_METHODS = {
    "network": ("NN", PALETTE[0]),
    "isotonic": ("ISO", PALETTE[3]),
    "density": ("QNN", PALETTE[4]),
    "local": ("RC", PALETTE[1]),
    "tuned": ("RC, tuned", PALETTE[5]),
    "neighbors": ("kNN", PALETTE[2]),
}
_NETWORKS = {"small": ("small network", 0.0), "big": ("big network", 0.6), NO_NETWORK: ("", 0.3)}  # and how filled
_GOLD = "#B8860B"
_WIDTH = 0.8  # of all boxes of a group


def draw_figure_4(rows: Sequence[Row]) -> Figure:
    """Draw the six panels; a box is over seeds and, for RC and kNN, over layers, ε and in (a), (c), (e), (f) over k.

    Panels (b) and (d) are over all sizes that have enough calibration points for every k.
    """
    figure = new_figure(11.0, 11.0)
    axes = figure.subplots(3, 2)
    (a, b), (c, d), (e, f) = axes
    by_k = _with_every_k([row for row in rows if row["method"] in ("local", "neighbors")])
    _draw_boxes(a, rows, "n", "mse")
    _draw_boxes(b, by_k, "k", "mse")
    _draw_boxes(c, rows, "n", "coverage")
    _draw_boxes(d, by_k, "k", "coverage")
    for ax in (a, b):
        ax.axhline(NOISE_VARIANCE, color=_GOLD, linestyle="--", label="true model")
        ax.set(yscale="log", ylabel="MSE")
    for ax in (c, d):
        ax.axhline(COVERAGE, color=_GOLD, linestyle="--", label="nominal")
        ax.set(ylabel="Coverage of 95% intervals")
    totals = [
        {**row, "seconds": row["train_seconds"] + row["fit_seconds"]} for row in rows if row["method"] != "neighbors"
    ]
    _draw_boxes(e, totals, "n", "seconds")
    _draw_boxes(f, rows, "n", "predict_microseconds")
    e.set(yscale="log", ylabel="Training and fitting (s of processor)")
    f.set(yscale="log", ylabel="Prediction (µs of processor a row)")
    name_panels(
        axes.flat,
        [
            "MSE by data size",
            "MSE by nearest samples",
            "Coverage by data size",
            "Coverage by nearest samples",
            "Training time by data size",
            "Prediction time by data size",
        ],
    )
    figure.legend(*a.get_legend_handles_labels(), loc="outside lower center", ncols=6, **LEGEND)
    return figure


def _with_every_k(rows: Sequence[Row]) -> list[Row]:
    sizes = {k: {row["n"] for row in rows if row["k"] == k} for k in {row["k"] for row in rows}}
    common = set.intersection(*sizes.values()) if sizes else set()
    return [row for row in rows if row["n"] in common]


def _draw_boxes(ax: Axes, rows: Sequence[Row], group: str, metric: str) -> None:
    """Draw a group of boxes for every size or k, a box for every method and network."""
    groups = sorted({row[group] for row in rows})
    present = {(row["method"], row["network"]) for row in rows}
    kinds = [(method, network) for method in _METHODS for network in _NETWORKS if (method, network) in present]
    width = _WIDTH / max(len(kinds), 1)
    for place, (method, network) in enumerate(kinds):
        (name, color), (of_network, fill) = _METHODS[method], _NETWORKS[network]
        values = [
            [row[metric] for row in rows if (row["method"], row["network"], row[group]) == (method, network, value)]
            for value in groups
        ]
        positions = np.arange(len(groups)) + (place + 0.5) * width - _WIDTH / 2
        shown: list[Any] = [(own, at) for own, at in zip(values, positions, strict=True) if own]
        ax.boxplot(
            [own for own, _ in shown],
            positions=[at for _, at in shown],
            widths=0.85 * width,
            patch_artist=True,
            manage_ticks=False,
            boxprops={"facecolor": (color, fill), "edgecolor": color, "linewidth": 0.8},
            medianprops={"color": color, "linewidth": 1.6},
            flierprops={"marker": ".", "markersize": 2, "markeredgecolor": color},
            whiskerprops={"color": color, "linewidth": 0.8},
            capprops={"color": color, "linewidth": 0.8},
        )
        label = f"{name}, {of_network}" if of_network else name
        ax.bar([np.nan], [np.nan], facecolor=(color, fill), edgecolor=color, label=label)
    ax.set_xticks(range(len(groups)), [_name_group(group, value) for value in groups])
    ax.set_xlim(-0.5, len(groups) - 0.5)


def _name_group(group: str, value: int) -> str:
    return f"$N = 10^{round(np.log10(value))}$" if group == "n" else f"$k = {value}$"
