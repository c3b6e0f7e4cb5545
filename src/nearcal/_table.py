"""A small table: named columns of equal length, printed aligned, handed on to pandas or polars.

Neither of the two is a dependency of nearcal: what diagnostics return needs no more than this.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._errors import InvalidInputError
from nearcal._optional import import_extra
from nearcal._saved import check_fields, instance, mapping_of, savable


@savable
class Table:
    """What diagnostics return: a frozen dictionary of columns of equal length.

    Parameters
    ----------
    columns : mapping of str to array_like
        One-dimensional columns of one common length.

    Examples
    --------
    >>> import nearcal as nc
    >>> table = nc.Table({"region": ["north", "south"], "coverage": [0.95, 0.8125]})
    >>> print(table)
    region  coverage
    north       0.95
    south     0.8125
    >>> table["coverage"].min(), len(table), next(iter(table))["region"]
    (np.float64(0.8125), 2, 'north')
    """

    columns: Mapping[str, NDArray[Any]]

    def __init__(self, columns: Mapping[str, Any]) -> None:
        arrays = {name: np.array(values) for name, values in columns.items()}
        lengths = {name: array.shape for name, array in arrays.items()}
        if len(set(lengths.values())) != 1 or any(len(shape) != 1 for shape in lengths.values()):
            raise InvalidInputError(f"columns must be one-dimensional and of one length, got shapes {lengths}")
        for array in arrays.values():
            array.flags.writeable = False
        object.__setattr__(self, "columns", arrays)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot set {name!r}")

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column."""
        try:
            return self.columns[name]
        except KeyError:
            raise KeyError(f"no column {name!r}; there are {', '.join(self.columns)}") from None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows, each a dictionary of plain Python values."""
        for values in zip(*(column.tolist() for column in self.columns.values()), strict=True):
            yield dict(zip(self.columns, values, strict=True))

    def __str__(self) -> str:
        return align((name, _format_column(column)) for name, column in self.columns.items())

    def __repr__(self) -> str:
        return str(self)

    def _to_saved(self) -> dict[str, Any]:
        return {"columns": dict(self.columns)}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        return cls(**check_fields(saved, {"columns": mapping_of(instance(np.ndarray))}))

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``."""
        return import_extra("pandas", "tables", "Table.to_pandas").DataFrame(dict(self.columns))

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame``."""
        return import_extra("polars", "tables", "Table.to_polars").DataFrame(dict(self.columns))


def format_number(value: float) -> str:
    """Return four significant digits, and nothing for a number that does not exist."""
    return "" if np.isnan(value) else f"{value:.4g}"


def format_with_error(value: float, error: float, sign: str = "") -> str:
    """Return a value with its standard error to one digit, written without a power of ten where that is short.

    Examples
    --------
    >>> format_with_error(621.34, 23.1)
    '621.3 ± 20'
    """
    error = 0.0 if error < 1e-9 * abs(value) else error  # what is the same in all rows has an error of rounding only
    return f"{value:{sign}.4g} ± {float(f'{error:.1g}'):g}"


def _format_column(column: NDArray[Any]) -> list[str]:
    if column.dtype.kind == "f":
        return [format_number(value) for value in column]
    return [str(value) for value in column.tolist()]


def align(columns: Iterable[tuple[str, list[str]]]) -> str:
    """Return lines of aligned columns, given names, which may be the same, and cells: words left, numbers right."""
    padded = []
    for name, cells in columns:
        width = max(len(name), *(len(cell) for cell in cells)) if cells else len(name)
        is_number = all(cell == "" or cell[0] in "-+.0123456789" or cell[:3] in ("inf", "nan") for cell in cells)
        padded.append([cell.rjust(width) if is_number else cell.ljust(width) for cell in (name, *cells)])
    return "\n".join("  ".join(line).rstrip() for line in zip(*padded, strict=True))
