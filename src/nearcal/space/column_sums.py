"""Exact sums of columns and of their squares: mean and deviation do not depend on the order of rows, nor on parts.

A double is a whole number of 53 bits times a power of two. The whole numbers of one power are added up in pieces of 18
bits, whose sums and sums of products never round in a batch; all powers together are one integer of Python's, of any
length. So sums of parts are added without rounding, by whoever has them, and are rounded once, at the end.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray
from nearcal.space.scaling import SpaceMap, constant_limit

_BITS = 18  # three pieces of a significand
_LEAST = 1128  # 2**-1128 divides every double's piece
_MOST_ROWS = 2**16  # whose products of pieces add up to less than 2**53


@dataclass(frozen=True)
class ColumnSums:
    """Number of rows, exact sums, exact sums of squares, and largest magnitudes of the columns of a space."""

    n: int
    sums: tuple[int, ...]  # in units of 2**-1128
    squares: tuple[int, ...]  # in units of 2**-2256
    largest: tuple[float, ...]

    @classmethod
    def of(cls, space: FloatArray) -> Self:
        """Return the sums over the rows of an (n, d) space of finite numbers."""
        d = space.shape[1]
        total = cls(0, (0,) * d, (0,) * d, (0.0,) * d)
        for start in range(0, len(space), _MOST_ROWS):
            total = total + cls._of_few(space[start : start + _MOST_ROWS])
        return total

    @classmethod
    def _of_few(cls, space: FloatArray) -> Self:
        added = [_add_exactly(np.ascontiguousarray(column)) for column in space.T]
        largest = tuple(np.abs(space).max(axis=0).tolist())
        return cls(len(space), tuple(sum_ for sum_, _ in added), tuple(square for _, square in added), largest)

    def __add__(self, other: Self) -> Self:
        """Return the sums over both sets of rows."""
        return type(self)(
            self.n + other.n,
            tuple(a + b for a, b in zip(self.sums, other.sums, strict=True)),
            tuple(a + b for a, b in zip(self.squares, other.squares, strict=True)),
            tuple(max(a, b) for a, b in zip(self.largest, other.largest, strict=True)),
        )

    @property
    def mean(self) -> FloatArray:
        """The mean of each column, rounded once."""
        return np.array([float(Fraction(total, self.n << _LEAST)) for total in self.sums])

    @property
    def deviation(self) -> FloatArray:
        """The standard deviation of each column, the root of a variance that is rounded once."""
        # n Σx² - (Σx)², over n²; scaled by an even power of two, lest a square beyond the doubles is rounded to one
        variances = [self.n * q - s * s for s, q in zip(self.sums, self.squares, strict=True)]
        exponents = [max(v.bit_length() - 2 * self.n.bit_length(), 0) & ~1 for v in variances]
        scaled = [float(Fraction(v, self.n**2 << e)) for v, e in zip(variances, exponents, strict=True)]
        return np.ldexp(np.sqrt(scaled), [e // 2 - _LEAST for e in exponents])

    def standard_map(self) -> SpaceMap:
        """Return the map of ``scaling="standard"``: columns in units of their deviation; constant ones stay."""
        deviation = self.deviation
        is_constant = deviation <= constant_limit(np.array(self.largest))
        return SpaceMap(self.mean, 1 / np.where(is_constant, 1.0, deviation), "space_new")


def _add_exactly(column: FloatArray) -> tuple[int, int]:
    significand, exponent = np.frexp(column)
    whole = np.ldexp(significand, 3 * _BITS).astype(np.int64)  # exact: 53 bits, and a zero
    powers = exponent.astype(np.int64) - 3 * _BITS
    least = int(powers.min())
    groups, size = powers - least, int(powers.max()) - least + 1
    high, rest = whole >> (2 * _BITS), whole & ((1 << 2 * _BITS) - 1)
    pieces = [piece.astype(np.float64) for piece in (rest & ((1 << _BITS) - 1), rest >> _BITS, high)]
    total = square = 0
    for i, one in enumerate(pieces):
        total += _join(np.bincount(groups, one, size), least, _LEAST, 1) << (i * _BITS)
        for j, other in enumerate(pieces[: i + 1]):
            product = _join(np.bincount(groups, one * other, size), least, 2 * _LEAST, 2) << ((i + j) * _BITS)
            square += product if i == j else 2 * product
    return total, square


def _join(sums: NDArray[Any], least: int, unit: int, power: int) -> int:
    """Return whole numbers by their powers of two as one, in units of 2**-unit."""
    present = np.flatnonzero(sums)
    return sum(int(sums[i]) << (power * (least + int(i)) + unit) for i in present)
