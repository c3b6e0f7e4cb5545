"""Ranges of columns: how far beyond anything that calibration points show a row lies, column by column.

Distances to neighbours see a row that is far from all points; they do not see one that has left their range in a single
column among many, or in a column that a scaling has shrunk. There a model extrapolates, and its errors with it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray
from nearcal._saved import float_array, number, require, savable

_TAIL = 0.1  # share of the points at either end of a column whose spread is the unit of what lies beyond
_SPAN = 0.5  # of such units, over which all trust is lost
_LEAST_TOLD = 0.05  # of the probability 1 / (n + 1) that n points can tell: of rarer ends of columns they tell nothing
_BOUNDLESS = 1e300  # the unit of a column that is not looked at


def upper_limit(values: FloatArray, false_alarm: float) -> float:
    """Return what one more value exceeds with probability ``false_alarm`` at most.

    That is the ⌈(1 - false_alarm)(n + 1)⌉-th smallest of n values. Where these are too few to tell, the greatest stands
    for the probability 1 / (n + 1), and a tail that falls exponentially from the median leads from it to the one asked
    for: by few points a row would too often be called unlike them.
    """
    n = len(values)
    if n == 0:
        return np.inf
    if false_alarm * (n + 1) < 1:
        greatest, middle = float(values.max()), float(np.median(values))
        more = np.log(2 * false_alarm) / np.log(2 / (n + 1)) - 1 if n > 1 else 0.0
        return greatest + more * (greatest - middle) if np.isfinite(greatest - middle) else greatest
    place = int(np.clip(np.ceil((1 - false_alarm) * (n + 1)), 1, n)) - 1
    return float(np.partition(values, place)[place])


def falling(way: FloatArray) -> FloatArray:
    """Return the trust after a share s of the way to none, 1 - s²: whoever is barely beyond a limit loses little.

    Of rows like the calibration set most are barely beyond. Where recalibration is worth a hundred times the base
    distribution, as it may be, even a thousandth of the latter shows.
    """
    return 1 - np.clip(way, 0.0, 1.0) ** 2


@savable(
    low=float_array(1), high=float_array(1), tail_below=float_array(1), tail_above=float_array(1),
    limit=number(0.0, finite=False),
)  # fmt: skip
@dataclass(frozen=True)
class Ranges:
    """The ranges of columns among calibration points, and how far one more point may be expected to leave them.

    The excess of a row is the largest over columns of the distance that it lies beyond the range of the calibration
    points, in units of the outermost tenth of that range: of max - q₀.₉ above, and of q₀.₁ - min below. What points
    show among themselves is the excess of each over the range of the others.

    Attributes
    ----------
    low, high, tail_below, tail_above : ndarray of shape (d,)
        Ends of the range of every column, and the length of its outermost tenths.
    limit : float
        The excess that a point from the same distribution has with probability ``false_alarm`` at most.

    Notes
    -----
    Where ``false_alarm`` is below a twentieth of 1 / (n + 1), n points tell nothing of it, and of a column with few
    values, whose ends are those of several points, even less. Then the unit is the whole range of a column, and the
    limit one of it; a column that does not vary is not looked at.
    """

    low: FloatArray
    high: FloatArray
    tail_below: FloatArray
    tail_above: FloatArray
    limit: float

    def __post_init__(self) -> None:
        lengths = {len(ends) for ends in (self.low, self.high, self.tail_below, self.tail_above)}
        require(len(lengths) == 1, f"ends must be as many as tails, one a column, got {sorted(lengths)}")

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.low)

    @classmethod
    def of(cls, space: FloatArray, false_alarm: float) -> "Ranges":
        """Learn from calibration positions of shape (n, d)."""
        ordered = np.sort(space, axis=0)
        low, high = ordered[0].copy(), ordered[-1].copy()
        if false_alarm * (len(space) + 1) < _LEAST_TOLD:
            whole = np.where(high > low, high - low, _BOUNDLESS)
            return cls(low, high, whole, whole, 1.0)
        tail_below, tail_above = _tails(ordered)
        return cls(low, high, tail_below, tail_above, upper_limit(_own_excess(space, ordered), false_alarm))

    def excess(self, space: FloatArray) -> FloatArray:
        """Return how far each row of an (m, d) space lies beyond the ranges; 0 within."""
        above, below = _in_units(space - self.high, self.tail_above), _in_units(self.low - space, self.tail_below)
        return np.maximum(above, below).max(axis=1, initial=0.0)

    def trust(self, space: FloatArray) -> FloatArray:
        """Return 1 for rows within the limit, 1 - s² at a share s of half a unit beyond it, and 0 there, shape (m,)."""
        if np.isinf(self.limit):  # no point has shown what to expect
            return np.ones(len(space))
        return falling((self.excess(space) - self.limit) / _SPAN)

    def outside(self, space: FloatArray) -> NDArray[np.bool_]:
        """Tell in which columns each row lies beyond the range, shape (m, d)."""
        return (space > self.high) | (space < self.low)


def _tails(ordered: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lengths of the outermost tenths of sorted columns, below and above."""
    inner = np.quantile(ordered, [_TAIL, 1 - _TAIL], axis=0)
    return inner[0] - ordered[0], ordered[-1] - inner[1]


def _in_units(beyond: FloatArray, tail: FloatArray) -> FloatArray:
    """Return distances beyond an end in units of a tail, 0 inside; of a tail without length any is infinitely far."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(beyond > 0, beyond / tail, 0.0)


def _own_excess(space: FloatArray, ordered: FloatArray) -> FloatArray:
    """Return the excess of every point over the ranges of the others: only the outermost of a column have any."""
    n = len(space)
    if n < 2:
        return np.empty(0)
    excess = np.zeros(n)
    below = _in_units(ordered[1] - ordered[0], _tails(ordered[1:])[0])
    above = _in_units(ordered[-1] - ordered[-2], _tails(ordered[:-1])[1])
    np.maximum.at(excess, space.argmin(axis=0), below)
    np.maximum.at(excess, space.argmax(axis=0), above)
    return excess
