"""Columns of a file as numbers, batch by batch; rows that have gaps are counted, refused or left out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nearcal.cli._console import Mistake, remark
from nearcal.cli._tables import TableFile
from nearcal.distributed.batches import Columns, Rows, rows_at_once


def iterate(file: TableFile, columns: Sequence[str], texts: Sequence[str] = ()) -> Iterator[Rows]:
    """Yield the rows of a file in batches that take little memory."""
    file.require_numbers(columns)
    start = 0
    for batch in file.batches(columns, [name for name in texts if name not in columns], rows_at_once(len(columns))):
        yield Rows.of(batch, columns, texts, start)
        start += len(batch)


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
            self._first_gap = rows.describe_gap()
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
