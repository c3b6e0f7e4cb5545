"""What the figures share: panels, colours, and points that stay light."""

from collections.abc import Iterable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

#: Okabe and Ito's palette, as in nearcal's own plots.
PALETTE = ("#0072B2", "#D55E00", "#000000", "#56B4E9", "#009E73", "#CC79A7", "#E69F00")
BEFORE, AFTER = PALETTE[:2]
TRUE = "black"
SHOWN = 3000  # points of a scatter plot: more make a blot
SMALL: dict[str, Any] = {"markersize": 1.5, "linestyle": "none"}
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": "small"}


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, in inches, of no window's concern: it is only ever written to a file."""
    return Figure(figsize=(width, height), layout="constrained")


def name_panels(axes: Iterable[Axes], titles: Iterable[str]) -> None:
    """Write (a), (b), … and a title over the panels."""
    for letter, ax, title in zip("abcdef", axes, titles, strict=False):
        ax.set_title(f"({letter}) {title}", fontsize="medium", loc="left")


def draw_points(ax: Axes, x: Any, y: Any, marker: str = ".", **options: Any) -> None:
    """Draw the first few thousand points, small."""
    ax.plot(x[:SHOWN], y[:SHOWN], marker, **{**SMALL, "color": "0.8", **options})
