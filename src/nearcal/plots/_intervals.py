"""Prediction intervals beside what was observed."""

from typing import TYPE_CHECKING, Any, Literal

from nearcal._arrays import check_choice
from nearcal._table import Table
from nearcal.plots._drawing import Tables, add_legend, as_axes, as_named
from nearcal.plots._style import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DODGE = 4.0  # points between the bars of two methods at the same x


def prediction_intervals(table: Tables, ax: "Axes | None" = None, *, kind: Literal["bars", "band"] = "bars") -> "Axes":
    """Draw prediction intervals and observations: dots where covered, crosses where missed.

    Parameters
    ----------
    table : Table or mapping of str to Table
        From :func:`nearcal.diagnostics.prediction_intervals`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; None makes a figure one column wide.
    kind : {"bars", "band"}
        A bar a row, good for some fifty rows, several methods side by side; or lines through the ends of the intervals,
        good for many rows along a feature, over the observations of the first method.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import nearcal as nc
    >>> table = nc.diagnostics.prediction_intervals(nc.Normal([1.0, 0.0], 1.0), [5.0, 0.5])
    >>> nc.plots.prediction_intervals(table).get_ylabel()
    'Response'
    """
    named = as_named(table, ("x", "lower", "median", "upper", "y", "covered"), "diagnostics.prediction_intervals")
    check_choice(kind, ("bars", "band"), "kind")
    ax = as_axes(ax)
    if kind == "band":
        _draw_observations(ax, next(iter(named.values())), color="0.55", size=2)
    for index, (name, one) in enumerate(named.items()):
        if kind == "band":
            _draw_band(ax, one, index, name)
        else:
            _draw_bars(ax, one, index, name, shift=(index - (len(named) - 1) / 2) * _DODGE)
    ax.set(xlabel="x", ylabel="Response")
    add_legend(ax)
    return ax


def _draw_bars(ax: "Axes", table: Table, index: int, name: str, shift: float) -> None:
    from matplotlib.transforms import offset_copy

    look = style(index)
    moved = offset_copy(
        ax.transData, fig=ax.get_figure(root=True), x=shift, units="points"
    )  # the data stay what they are
    looks: dict[str, Any] = {"color": look.color, "transform": moved}
    ax.vlines(table["x"], table["lower"], table["upper"], linestyle=look.line, linewidth=1.3, label=name, **looks)
    ax.plot(table["x"], table["median"], "_", markersize=4, **looks)
    _draw_observations(ax, table, color="black", size=4, transform=moved, is_first=index == 0)


def _draw_band(ax: "Axes", table: Table, index: int, name: str) -> None:
    look = style(index)
    for column in ("lower", "upper"):
        label = name if name and column == "lower" else f"_{column}"
        ax.plot(table["x"], table[column], color=look.color, linestyle=look.line, linewidth=1.3, label=label)


def _draw_observations(
    ax: "Axes", table: Table, color: str, size: float, *, is_first: bool = True, **options: Any
) -> None:
    covered = table["covered"]
    for rows, marker, label in ((covered, ".", "covered"), (~covered, "x", "missed")):
        shown = label if is_first else f"_{label}"
        ax.plot(table["x"][rows], table["y"][rows], marker, color=color, markersize=size, label=shown, **options)
