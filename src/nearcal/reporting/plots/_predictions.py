"""Predictive densities, and prediction intervals beside what was observed."""

from typing import TYPE_CHECKING, Any, Literal

from nearcal._arrays import check_choice
from nearcal._errors import InvalidInputError
from nearcal._table import Table
from nearcal.reporting.plots._drawing import REFERENCE, Tables, add_legend, as_axes, as_named, require_columns, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


def predictive_density(
    table: Table, ax: "Axes | None" = None, *, row: int = 0, observed: float | None = None
) -> "Axes":
    """Draw the predictive densities of one row, one line a method.

    Parameters
    ----------
    table : Table
        From :func:`nearcal.diagnostics.density_curves`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; None makes a figure one column wide.
    row : int
        Which row of the table's distributions.
    observed : float, optional
        What was observed, marked by a vertical line.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import nearcal as nc
    >>> table = nc.diagnostics.density_curves({"before": nc.Normal(0.0, 2.0), "after": nc.Normal(0.5, 1.0)})
    >>> ax = nc.plots.predictive_density(table, observed=1.0)
    >>> [line.get_label() for line in ax.lines]
    ['before', 'after', 'observed']
    """
    require_columns(table, ("method", "row", "y", "density"), "diagnostics.density_curves")
    if row not in table["row"]:
        raise InvalidInputError(f"row must be one of the table's, 0 to {table['row'].max()}, got {row!r}")
    ax = as_axes(ax)
    for index, method in enumerate(dict.fromkeys(table["method"].tolist())):
        look, chosen = style(index), (table["method"] == method) & (table["row"] == row)
        ax.plot(table["y"][chosen], table["density"][chosen], color=look.color, linestyle=look.line, label=method)
    if observed is not None:
        ax.axvline(observed, color=REFERENCE, linewidth=1, linestyle=":", label="observed")
    ax.set(xlabel="Response", ylabel="Predictive density")
    ax.ticklabel_format(axis="y", style="sci", scilimits=(-2, 4))
    ax.set_ylim(bottom=0)
    add_legend(ax)
    return ax


_DODGE = 4.0  # points between the bars of two methods at the same x


def prediction_intervals(table: Tables, ax: "Axes | None" = None, *, kind: Literal["bars", "band"] = "bars") -> "Axes":
    """Draw prediction intervals and observations.

    Parameters
    ----------
    table : Table or mapping of str to Table
        From :func:`nearcal.diagnostics.prediction_intervals`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; None makes a figure one column wide.
    kind : {"bars", "band"}
        A bar a row, good for some fifty rows, methods side by side, with observations as dots where they are covered
        and crosses where they are missed; or lines through the ends of the intervals over all observations, good for
        many rows along a feature.

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
    for index, (name, one) in enumerate(named.items()):
        if kind == "band":
            _draw_band(ax, one, index, name)
        else:
            _draw_bars(ax, one, index, name, last=len(named) - 1)
    if kind == "band":
        first = next(iter(named.values()))
        ax.plot(first["x"], first["y"], ".", color="0.6", markersize=2, zorder=1, label="observed")
    ax.set(xlabel="x", ylabel="Response")
    add_legend(ax)
    return ax


def _draw_bars(ax: "Axes", table: Table, index: int, name: str, last: int) -> None:
    from matplotlib.transforms import offset_copy

    look = style(index)
    looks: dict[str, Any] = {"color": look.color, "linestyle": look.line, "linewidth": 1.3, "label": name or "_bars"}
    bars = ax.vlines(table["x"], table["lower"], table["upper"], **looks)
    medians = ax.plot(table["x"], table["median"], "_", color=look.color, markersize=5)
    observed = _draw_observations(ax, table, named=index == last)
    # moved on the page only, and after the axes have seen where the data are
    figure: Any = ax.figure
    moved = offset_copy(ax.transData, fig=figure, x=(index - last / 2) * _DODGE, units="points")
    for artist in (bars, *medians, *observed):
        artist.set_transform(moved)


def _draw_band(ax: "Axes", table: Table, index: int, name: str) -> None:
    look = style(index)
    for column in ("lower", "upper"):
        label = name if name and column == "lower" else f"_{column}"
        ax.plot(table["x"], table[column], color=look.color, linestyle=look.line, linewidth=1.3, label=label)


def _draw_observations(ax: "Axes", table: Table, *, named: bool) -> list["Line2D"]:
    lines, covered = [], table["covered"]
    for rows, marker, label in ((covered, ".", "covered"), (~covered, "x", "missed")):
        shown = label if named else f"_{label}"
        lines += ax.plot(table["x"][rows], table["y"][rows], marker, color="black", markersize=4, label=shown)
    return lines
