"""Batches computed as the whole file would be."""

import numpy as np

from nearcal.cli._numbers import Columns
from nearcal.models.adapters import ColumnsModel

# where all rows share one of these, moments take a shorter way, whose last digits differ
_DECIDING = {"lognormal": "sigma", "gamma": "shape", "student_t": "df"}


class Companion:
    """A row that joins batches whose rows are alike by chance, in a file whose rows are not.

    Results of a row then do not depend, not even in their last digit, on where a file is cut into batches.
    """

    def __init__(self, model: ColumnsModel) -> None:
        source = model.parameters.get(_DECIDING.get(model.family, ""))
        self._column = source if isinstance(source, str) else None
        self._rows: list[Columns] = []  # the first row, and the first that differs from it

    def look(self, numbers: Columns) -> None:
        """Take note of the complete rows of a batch."""
        if self._column is None or len(self._rows) == 2 or not len(numbers[self._column]):
            return
        if not self._rows:
            self._rows.append(_take(numbers, 0))
        differs = numbers[self._column] != self._rows[0][self._column]
        if differs.any():
            self._rows.append(_take(numbers, int(np.argmax(differs))))

    def join(self, numbers: Columns) -> tuple[Columns, slice]:
        """Return a batch, with a row more if it needs one, and where its own rows are."""
        if self._column is None or len(self._rows) < 2 or np.ptp(numbers[self._column]) > 0:
            return numbers, slice(None)
        value = numbers[self._column][0]
        other = next(row for row in self._rows if row[self._column][0] != value)
        return {name: np.append(values, other[name]) for name, values in numbers.items()}, slice(-1)


def _take(numbers: Columns, row: int) -> Columns:
    return {name: values[row : row + 1].copy() for name, values in numbers.items()}
