"""Rows drawn at random by their numbers, and equal numbers among many: in parts, in any order, with one result."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray

_IN_MEMORY = 2**22  # numbers that are sorted at a time


def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return what looks like random bits of numbers (the finaliser of splitmix64), no two alike."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@dataclass(frozen=True)
class RowSample:
    """The rows of the least draws, where the draw of a row follows from its number: ordered by it.

    So the first of them are a smaller sample, and the sample of all rows is that of the samples of parts.
    """

    draws: NDArray[np.uint64]
    rows: IntArray
    space: FloatArray
    z: FloatArray

    @classmethod
    def of(cls, space: FloatArray, z: FloatArray, start: int, size: int, seed: int, before: Self | None = None) -> Self:
        """Draw among the rows numbered from ``start`` on, and those of a sample of rows ``before`` them."""
        rows = np.arange(start, start + len(z))
        draws = _draw(rows, seed)
        if before is None:
            return cls(draws, rows, space, z)._least(size)
        few = np.flatnonzero(draws < before.draws[-1]) if len(before.rows) == size else slice(None)
        return before.joined(cls(draws[few], rows[few], space[few], z[few]), size)

    def joined(self, other: Self, size: int) -> Self:
        """Return the sample of both sets of rows."""
        both = (np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("draws", "rows", "space", "z"))
        return type(self)(*both)._least(size)

    def _least(self, size: int) -> Self:
        order = np.argsort(self.draws, kind="stable")[:size]
        return type(self)(self.draws[order], self.rows[order], self.space[order], self.z[order])


def draw_rows(n: int, size: int, seed: int) -> IntArray:
    """Return the rows that a sample of n rows has, in increasing order."""
    kept, draws = np.empty(0, np.intp), np.empty(0, np.uint64)
    for start in range(0, n, _IN_MEMORY):
        rows = np.arange(start, min(start + _IN_MEMORY, n))
        kept, draws = np.concatenate([kept, rows]), np.concatenate([draws, _draw(rows, seed)])
        least = np.argsort(draws, kind="stable")[:size]
        kept, draws = kept[least], draws[least]
    return np.sort(kept)


def _draw(rows: IntArray, seed: int) -> NDArray[np.uint64]:
    """Return the draw of each row."""
    return _mix(_mix(rows.astype(np.uint64)) ^ _mix(np.full(1, seed, np.uint64)))


def has_equals(batches: Iterable[FloatArray], n: int, folder: Path) -> bool:
    """Tell whether any two of n numbers are equal, through files in a folder where they are too many to be sorted.

    Equal numbers come to the same file; they are sorted file by file.
    """
    files = -(-n // _IN_MEMORY)
    paths = [folder / f"{number}.numbers" for number in range(files)]
    for batch in batches:
        numbers = batch + 0.0  # 0 and -0 are equal
        if len(np.unique(numbers)) < len(numbers):
            return True
        which = _mix(numbers.view(np.uint64)) % np.uint64(files)
        for number, path in enumerate(paths):
            with path.open("ab") as file:
                file.write(np.ascontiguousarray(numbers[which == number]).data)
    stored = (np.fromfile(path, np.float64) for path in paths)
    return any(len(np.unique(numbers)) < len(numbers) for numbers in stored)
