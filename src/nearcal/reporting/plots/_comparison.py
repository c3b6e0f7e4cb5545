"""The coverage map, and sharpness against calibration."""

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcal._errors import InvalidInputError
from nearcal._table import Table
from nearcal.reporting.plots._drawing import REFERENCE, add_legend, as_axes, require_columns, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = ("left_0", "right_0", "left_1", "right_1", "coverage", "finding")
_SIGNS = {"under": ("v", "too little"), "over": ("^", "too much")}


def coverage_map(table: Table, ax: "Axes | None" = None, *, limits: Any = None, colorbar: bool = True) -> "Axes":
    """Draw the coverage of every cell, and mark the cells that differ from nominal by more than chance.

    Parameters
    ----------
    table : Table
        From :func:`nearcal.diagnostics.coverage_map`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; None makes a figure one column wide.
    limits : (float, float), optional
        Coverages at the two ends of the colour scale, to compare maps; None takes the least of the table, and 1.
    colorbar : bool
        Draw the colour scale beside the map.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> space, y = rng.uniform(size=(1000, 2)), rng.normal(size=1000)
    >>> ax = nc.plots.coverage_map(nc.diagnostics.coverage_map(nc.Normal(np.zeros(1000), 1.0), y, space, cells=3))
    >>> len(ax.collections[0].get_paths())
    9
    """
    require_columns(table, _COLUMNS, "diagnostics.coverage_map")
    ax = as_axes(ax)
    cells = _draw_cells(ax, table, limits)
    for finding, (marker, label) in _SIGNS.items():
        rows = table["finding"] == finding
        x, y = ((table[f"left_{j}"] + table[f"right_{j}"])[rows] / 2 for j in (0, 1))
        ax.plot(x, y, marker, color="white", markeredgecolor="black", markersize=5, label=label)
    ax.autoscale_view()
    ax.margins(0)
    ax.set(xlabel="First coordinate", ylabel="Second coordinate")
    if colorbar and ax.figure is not None:
        ax.figure.colorbar(cells, ax=ax, label="Coverage")
    if (table["finding"] != "ok").any():
        place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2}
        add_legend(ax, **place, handletextpad=0.1, columnspacing=0.8, borderpad=0.1)
    return ax


def _draw_cells(ax: "Axes", table: Table, limits: Any) -> Any:
    from matplotlib.collections import PolyCollection

    corners = [("left_0", "left_1"), ("right_0", "left_1"), ("right_0", "right_1"), ("left_0", "right_1")]
    squares = np.stack([np.stack([table[a], table[b]], axis=1) for a, b in corners], axis=1)
    # cividis grows lighter all the way: it reads the same in grey and for colour-blind readers
    cells = PolyCollection(list(squares), array=table["coverage"], cmap="cividis", edgecolors="face", linewidths=0.2)
    low, high = (table["coverage"].min(), 1.0) if limits is None else limits
    cells.set_clim(low, high)
    return ax.add_collection(cells)


_NAMES = {
    "width": "Mean width of the intervals",
    "pce": "Probabilistic calibration error",
    "regional_coverage_error": "Regional coverage error",
    "crps": "CRPS",
    "interval_score": "Interval score",
}


def sharpness(
    table: Table, ax: "Axes | None" = None, *, x: str = "width", y: str = "pce", floor: float | None = None
) -> "Axes":
    """Draw one metric of :func:`nearcal.evaluate` against another: by default sharpness against calibration.

    Both are better when smaller: the best methods are at the lower left.

    Parameters
    ----------
    table : Evaluation
        From :func:`nearcal.evaluate`, with both metrics.
    ax : matplotlib.axes.Axes, optional
        Where to draw; None makes a figure one column wide.
    x, y : str
        Metrics on the two axes; "regional_coverage_error" as y tells local calibration from marginal.
    floor : float, optional
        What a perfectly calibrated forecast would show, such as :func:`nearcal.diagnostics.pce_floor` of n: a line.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> observed = np.random.default_rng(1).normal(size=300)
    >>> dists = {"wide": nc.Normal(np.zeros(300), 2.0), "right": nc.Normal(np.zeros(300), 1.0)}
    >>> table = nc.evaluate(dists, observed, metrics=["width", "pce"])
    >>> nc.plots.sharpness(table, floor=nc.diagnostics.pce_floor(300)).get_xlabel()
    'Mean width of the intervals'
    """
    require_columns(table, ("metric", "method", "value", "se"), "evaluate")
    ax = as_axes(ax)
    across, up = (_select(table, metric) for metric in (x, y))
    for index, method in enumerate(across):
        look, (value_x, error_x), (value_y, error_y) = style(index), across[method], up[method]
        looks: dict[str, Any] = {"color": look.color, "marker": look.marker, "markersize": 6, "linestyle": "none"}
        ax.errorbar(value_x, value_y, error_y, error_x, **looks, markerfacecolor="white", label=method)
    if floor is not None:
        ax.axhline(floor, color=REFERENCE, linewidth=0.8, linestyle=":", label="perfect forecast")
    ax.set(xlabel=_NAMES.get(x, x), ylabel=_NAMES.get(y, y))
    ax.set_ylim(bottom=0)
    add_legend(ax)
    return ax


def _select(table: Table, metric: str) -> dict[str, tuple[float, float]]:
    """Return the value and standard error of a metric by method."""
    rows = {row["method"]: (row["value"], np.nan_to_num(row["se"])) for row in table if row["metric"] == metric}
    if not rows:
        known = ", ".join(dict.fromkeys(table["metric"].tolist()))
        raise InvalidInputError(f"table must hold the metric {metric!r}, it has {known}; ask nearcal.evaluate for it")
    return rows
