"""Columns of a file as numbers, batch by batch; rows that have gaps are counted, refused or left out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nearcal._arrays import FloatArray
from nearcal.cli._console import Mistake, remark
from nearcal.cli._tables import TableFile

Columns: TypeAlias = dict[str, FloatArray]

_MOST_VALUES = 2**23  # of one batch: 64 MB
_MOST_ROWS = 2**17
_FEWEST_ROWS = 2**10


class Rows(NamedTuple):
    """A batch of rows: numbers by column, which rows have all of them, the other columns, and the rows before it."""

    numbers: Columns
    whole: NDArray[np.bool_]
    texts: Mapping[str, Any]
    start: int

    @property
    def stop(self) -> int:
        """The number of rows up to the end of the batch."""
        return self.start + len(self.whole)

    def complete(self) -> Columns:
        """Return the numbers of the rows that have no gaps."""
        return self.numbers if self.whole.all() else {name: v[self.whole] for name, v in self.numbers.items()}


def iterate(file: TableFile, columns: Sequence[str], texts: Sequence[str] = ()) -> Iterator[Rows]:
    """Yield the rows of a file in batches that take little memory."""
    file.require_numbers(columns)
    size = min(max(_MOST_VALUES // max(len(columns), 1), _FEWEST_ROWS), _MOST_ROWS)
    start = 0
    for batch in file.batches(columns, [name for name in texts if name not in columns], size):
        numbers = {name: _as_floats(batch.column(name)) for name in columns}
        whole = np.ones(len(batch), dtype=bool)
        for values in numbers.values():
            whole &= np.isfinite(values)
        yield Rows(numbers, whole, {name: batch.column(name) for name in texts}, start)
        start += len(batch)


def _as_floats(array: Any) -> FloatArray:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    # not safe: whole numbers beyond 2**53 are rounded as everywhere else
    return array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


class Findings:
    """What is wrong with the rows of a file, over all its batches."""

    def __init__(self, file: TableFile, positive: Mapping[str, str], skip_missing: bool) -> None:
        self.file = file
        self.positive = positive
        self.skip_missing = skip_missing
        self.rows = self.incomplete = 0
        self._first_gap = ""
        self._not_positive: dict[str, tuple[int, str]] = {}

    def look(self, rows: Rows) -> None:
        """Take note of a batch."""
        gaps = int((~rows.whole).sum())
        if gaps and not self.incomplete:
            first = int(np.argmin(rows.whole))
            name = next(name for name, values in rows.numbers.items() if not np.isfinite(values[first]))
            self._first_gap = f"the first in row {rows.start + first + 1}, column {name!r}"
        for name in self.positive:
            self._look_for_positive(rows, name)
        self.incomplete += gaps
        self.rows += len(rows.whole)

    def _look_for_positive(self, rows: Rows, name: str) -> None:
        values = rows.numbers[name]
        wrong = rows.whole & ~(values > 0)
        if wrong.any():
            first = int(np.argmax(wrong))
            count, where = self._not_positive.get(name, (0, f"row {rows.start + first + 1}: {values[first]:g}"))
            self._not_positive[name] = count + int(wrong.sum()), where

    def raise_mistakes(self) -> None:
        """Refuse the file if anything stands in the way of using it."""
        path = self.file.path
        if not self.rows:
            raise Mistake(f"{path} has no rows", "check how it was written")
        if self.incomplete and not self.skip_missing:
            raise Mistake(
                f"{path} has {self.incomplete} of {self.rows} rows with missing or infinite values, {self._first_gap}",
                "fill them, drop them, or pass --skip-missing",
            )
        if self.incomplete == self.rows:
            raise Mistake(f"{path} has no row without missing values, {self._first_gap}", "check how it was written")
        for name, (count, where) in self._not_positive.items():
            raise Mistake(
                f"column {name!r} of {path} is {self.positive[name]} and must be positive: {count} of {self.rows} rows "
                f"are not, the first is {where}",
                "correct them, or take another family or column",
            )


def read_all(
    file: TableFile,
    columns: Sequence[str],
    *,
    positive: Mapping[str, str],
    skip_missing: bool,
    texts: Sequence[str] = (),
) -> tuple[Columns, dict[str, Any], int]:
    """Return the complete rows of a file: columns of numbers, other columns as lists; and how many were left out."""
    findings = Findings(file, positive, skip_missing)
    parts: list[Columns] = []
    others: dict[str, list[Any]] = {name: [] for name in texts}
    for rows in iterate(file, columns, texts):
        findings.look(rows)
        parts.append(rows.complete())
        for name in texts:
            values = rows.texts[name].to_pylist()
            others[name] += [value for value, whole in zip(values, rows.whole, strict=True) if whole]
    findings.raise_mistakes()
    if findings.incomplete:
        remark(f"left out {findings.incomplete} of {findings.rows} rows with missing values")
    return {name: np.concatenate([part[name] for part in parts]) for name in columns}, others, findings.incomplete
