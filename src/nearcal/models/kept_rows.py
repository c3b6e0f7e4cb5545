"""A few rows of a model's inputs as a file can hold them: arrays, tensors, sparse matrices, frames, and several."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._errors import InvalidInputError
from nearcal._optional import import_extra
from nearcal._saved import flag, having, instance, one_of, optional, require, savable, text, tuple_of

MOST_BYTES = 2**18  # of all rows together: little beside the calibration set


def keep_rows(X: Any, count: int) -> Any:
    """Return some rows of inputs, evenly spread, with a method ``restore``; None of inputs that no file can hold.

    Fewer are kept where they are large, and none where one alone is.
    """
    n = _length(X)
    if n is None or n < 1:
        return None
    for number in range(min(count, n), 0, -1):
        rows = np.unique(np.linspace(0, n - 1, number).round().astype(np.intp))
        kept = _keep(X, rows)
        if kept is None or kept.nbytes <= MOST_BYTES:
            return kept
    return None


def _length(X: Any) -> int | None:
    if isinstance(X, Mapping | tuple):
        lengths = {_length(part) for part in (X.values() if isinstance(X, Mapping) else X)}
        return lengths.pop() if len(lengths) == 1 else None
    shape = getattr(X, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    return len(X) if isinstance(X, list) else None


def _keep(X: Any, rows: NDArray[np.intp]) -> Any:
    if isinstance(X, Mapping | tuple):
        names = tuple(X) if isinstance(X, Mapping) else None
        parts = tuple(_keep(part, rows) for part in (X.values() if isinstance(X, Mapping) else X))
        are_names = names is None or all(isinstance(name, str) for name in names)
        return KeptParts(names, parts) if are_names and all(part is not None for part in parts) else None
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        columns = [_keep_column(name, column) for name, column in X.iloc[rows].items()]
        known = tuple(column for column in columns if column is not None)
        return KeptFrame(known) if known and len(known) == len(columns) else None
    if hasattr(X, "detach"):
        return _keep_array(X.detach().cpu()[rows], "torch")
    if hasattr(X, "toarray"):
        return _keep_array(X.tocsr()[rows].toarray(), "sparse")
    if isinstance(X, np.ndarray):
        return _keep_array(X[rows], "numpy")
    return _keep_array([X[row] for row in rows], "list") if isinstance(X, list) else None


def _keep_array(values: Any, kind: str) -> "KeptArray | None":
    try:
        array = values.numpy() if kind == "torch" else np.array(values)
    except (TypeError, ValueError):  # torch's bfloat16, which numpy does not know, and rows of several lengths
        return None
    return KeptArray(array, kind) if _is_plain(array) else None


def _is_plain(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "biuf" and array.itemsize <= 8 and array.ndim > 0 and array.size > 0


@savable(values=instance(np.ndarray), kind=one_of("numpy", "torch", "sparse", "list"))
@dataclass(frozen=True, eq=False)
class KeptArray:
    """Rows of an array, a tensor, a sparse matrix or a list."""

    values: NDArray[Any]
    kind: str

    def __post_init__(self) -> None:
        require(_is_plain(self.values), "values must be rows of numbers")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """The size in a file."""
        return self.values.nbytes

    def restore(self) -> Any:
        """Return the rows as they were given."""
        values = np.array(self.values)  # writable, as inputs are
        if self.kind == "torch":
            return import_extra("torch", "torch", "the tensors kept with a calibration").from_numpy(values)
        if self.kind == "sparse":
            from scipy.sparse import csr_array

            return csr_array(values)
        return values.tolist() if self.kind == "list" else values


@savable(names=optional(tuple_of(text)), parts=tuple_of(having("restore", "nbytes")))
@dataclass(frozen=True, eq=False)
class KeptParts:
    """A tuple of inputs that a model takes together, or a mapping, which has names."""

    names: tuple[str, ...] | None
    parts: tuple[Any, ...]

    def __post_init__(self) -> None:
        require(len({len(part) for part in self.parts}) == 1, "parts must have the same number of rows")
        require(self.names is None or len(self.names) == len(self.parts), "names must be as many as parts")

    def __len__(self) -> int:
        return len(self.parts[0])

    @property
    def nbytes(self) -> int:
        """The size in a file."""
        return sum(part.nbytes for part in self.parts)

    def restore(self) -> Any:
        """Return the rows as they were given."""
        parts = tuple(part.restore() for part in self.parts)
        return parts if self.names is None else dict(zip(self.names, parts, strict=True))


# ---- frames of pandas -----------------------------------------------------------------------------------------------


@savable(
    name=text,
    dtype=text,
    values=instance(np.ndarray),
    categories=optional(instance(np.ndarray)),
    ordered=flag,
)
@dataclass(frozen=True, eq=False)
class KeptColumn:
    """A column of a frame: numbers; or the places of texts or numbers among categories, -1 for none."""

    name: str
    dtype: str
    values: NDArray[Any]
    categories: NDArray[Any] | None
    ordered: bool

    def __post_init__(self) -> None:
        require(_is_plain(self.values) and self.values.ndim == 1, "values must be a column of numbers")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """The size in a file."""
        return self.values.nbytes + (0 if self.categories is None else self.categories.nbytes)

    def restore(self, pandas: Any) -> Any:
        """Return the column."""
        if self.categories is None:
            return pandas.Series(np.array(self.values)).astype(self.dtype)
        require(len(self.categories) > 0 or (self.values == -1).all(), f"column {self.name!r} must have its categories")
        column = pandas.Series(
            pandas.Categorical.from_codes(self.values, self.categories.tolist(), ordered=self.ordered)
        )
        return column if self.dtype == "category" else column.astype(self.dtype)


@savable(columns=tuple_of(instance(KeptColumn)))
@dataclass(frozen=True, eq=False)
class KeptFrame:
    """Rows of a data frame of pandas."""

    columns: tuple[KeptColumn, ...]

    def __post_init__(self) -> None:
        require(len({len(column) for column in self.columns}) == 1, "columns must have the same number of rows")

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def nbytes(self) -> int:
        """The size in a file."""
        return sum(column.nbytes for column in self.columns)

    def restore(self) -> Any:
        """Return the rows as a frame."""
        pandas = import_extra("pandas", "tables", "the rows kept with a calibration")
        try:
            return pandas.DataFrame({column.name: column.restore(pandas) for column in self.columns})
        except (TypeError, ValueError) as error:  # a file may say anything
            raise InvalidInputError(f"the rows kept with the calibration must make a frame: {error}") from error


def _keep_column(name: Any, column: Any) -> KeptColumn | None:
    dtype = str(column.dtype)
    if not isinstance(name, str):
        return None
    if getattr(column.dtype, "kind", "O") in "biuf":
        has_gaps = bool(column.isna().any())
        values = column.to_numpy(dtype=np.float64, na_value=np.nan) if has_gaps else column.to_numpy()
        values = np.asarray(values, dtype=getattr(column.dtype, "numpy_dtype", column.dtype) if not has_gaps else None)
        return KeptColumn(name, dtype, values, None, False) if _is_plain(values) else None
    if dtype not in ("category", "object", "str", "string"):
        return None
    categorical = column if dtype == "category" else column.astype("category")
    categories = categorical.cat.categories.to_numpy()
    if categories.dtype.kind not in "biuf":
        if not all(isinstance(category, str) for category in categories):
            return None
        categories = categories.astype(np.str_)
    codes = categorical.cat.codes.to_numpy().astype(np.int64)
    return KeptColumn(name, dtype, codes, categories, bool(categorical.cat.ordered))
