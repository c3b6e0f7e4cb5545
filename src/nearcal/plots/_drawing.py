"""What all plots share: the axes they draw on, and the tables they are given."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from nearcal._errors import InvalidInputError
from nearcal._optional import import_extra
from nearcal._table import Table
from nearcal.plots._style import COLUMN_WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
