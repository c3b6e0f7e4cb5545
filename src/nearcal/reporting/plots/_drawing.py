"""What all plots share: looks of methods, told apart by colour and without it, axes to draw on, tables to draw."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from nearcal._errors import InvalidInputError
from nearcal._optional import import_extra
from nearcal._table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Okabe and Ito's palette, told apart by colour-blind readers, ordered so that neighbours differ in grey as well.
PALETTE = ("#0072B2", "#D55E00", "#000000", "#56B4E9", "#009E73", "#CC79A7", "#E69F00")
_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 3)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")

REFERENCE = "0.35"  # the grey of what a perfect forecast would show
BAND = "0.85"  # the grey of the range that chance explains, and of its edge
BAND_EDGE = "0.6"
BAND_NAME = "if calibrated"
COLUMN_WIDTH = (3.5, 2.7)  # inches: one column of a two-column page

LineStyle = str | tuple[int, tuple[int, ...]]


class Style(NamedTuple):
    """Looks of one method."""

    color: str
    line: LineStyle
    marker: str


def style(index: int) -> Style:
    """Return the looks of the method at this place; the eighth looks like the first."""
    index %= len(PALETTE)
    return Style(PALETTE[index], _LINES[index], _MARKERS[index])


#: One table, or several by the name of their method.
Tables: TypeAlias = Table | Mapping[str, Table]


def as_axes(ax: "Axes | None") -> "Axes":
    """Return the axes to draw on: those given, or those of a new figure one column wide."""
    if ax is not None:
        return ax
    pyplot = import_extra("matplotlib.pyplot", "plots", "nearcal.plots")
    return pyplot.subplots(figsize=COLUMN_WIDTH, layout="constrained")[1]


def as_named(tables: Any, columns: Sequence[str], source: str) -> dict[str, Table]:
    """Return tables by name, a single one under the empty name, after a look at their columns."""
    named = {"": tables} if isinstance(tables, Table) else tables
    if not isinstance(named, Mapping) or not named:
        raise InvalidInputError(
            f"table must be a table of nearcal.{source} or a non-empty mapping of names to such tables, got "
            f"{type(tables).__name__}"
        )
    for table in named.values():
        require_columns(table, columns, source)
    return dict(named)


def require_columns(table: Any, columns: Sequence[str], source: str) -> None:
    """Refuse what lacks the columns to be drawn, naming the function that makes them."""
    if not isinstance(table, Table):
        raise InvalidInputError(f"table must be a Table made by nearcal.{source}, got {type(table).__name__}")
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise InvalidInputError(
            f"table must be made by nearcal.{source}: the column {missing[0]!r} is missing, there are "
            f"{', '.join(table.columns)}"
        )


def add_legend(ax: "Axes", **options: Any) -> None:
    """Add a legend if anything drawn has a name."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(**{"frameon": False, "fontsize": "small", **options})
