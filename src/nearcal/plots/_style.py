"""How methods are told apart: by colour, and without it."""

from typing import NamedTuple

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
