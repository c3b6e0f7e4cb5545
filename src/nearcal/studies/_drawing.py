"""What the figures share: panels, colours, and points that stay light."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from nearcal._optional import import_extra
from nearcal.reporting.plots._drawing import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BEFORE, AFTER = PALETTE[0], PALETTE[1]
TRUE = "black"
SHOWN = 3000  # points of a scatter plot: more make a blot
SMALL: dict[str, Any] = {"markersize": 1.5, "linestyle": "none"}
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": "small"}


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure, in inches, of no window's concern: it is only ever written to a file."""
    figure: Figure = import_extra("matplotlib.figure", "studies", "the figures of a study").Figure(
        figsize=(width, height), layout="constrained"
    )
    return figure


def name_panels(axes: "Iterable[Axes]", titles: Iterable[str]) -> None:
    """Write (a), (b), … and a title over the panels."""
    for letter, ax, title in zip("abcdef", axes, titles, strict=False):
        ax.set_title(f"({letter}) {title}", fontsize="medium", loc="left")


def draw_points(ax: "Axes", x: Any, y: Any, marker: str = ".", **options: Any) -> None:
    """Draw the first few thousand points, small."""
    ax.plot(x[:SHOWN], y[:SHOWN], marker, **{**SMALL, "color": "0.8", **options})
