"""Predictive densities before and after."""

from typing import TYPE_CHECKING

from nearcal._errors import InvalidInputError
from nearcal._table import Table
from nearcal.plots._drawing import add_legend, as_axes, require_columns
from nearcal.plots._style import REFERENCE, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
