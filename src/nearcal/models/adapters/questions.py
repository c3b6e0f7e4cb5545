"""Questions to a model that is not ours: what it raises, and numbers that are none, become errors that say why."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import as_float_array
from nearcal._errors import InvalidInputError, NearcalError
from nearcal.distributions import Distribution

_SHOWN = 3  # columns that a message names


class _WrongType(InvalidInputError, TypeError):
    """What a model refused by a TypeError, as scikit-learn's do, and still is one."""


@contextmanager
def asking(model: str, X: Any = None) -> Iterator[None]:
    """Turn what a model raises into an error that names it, and the columns of X with gaps; its own stands behind."""
    try:
        yield
    except (NearcalError, MemoryError):
        raise
    except Exception as error:
        kind = _WrongType if isinstance(error, TypeError) else InvalidInputError
        gaps = columns_with_gaps(X)
        remedy = f" (X has {gaps}; drop or impute such rows)" if gaps else ""
        raise kind(
            f"X must be inputs that {model} can predict{remedy}, which raised {type(error).__name__}: {error}"
        ) from error


def check_inputs(X: Any) -> None:
    """Refuse what has no rows, and masked entries: there are models that predict a number, or what is masked."""
    has_rows = any(hasattr(X, name) for name in ("__len__", "__array__", "shape", "num_row"))  # the last of xgboost
    if not has_rows or isinstance(X, str | bytes | set | frozenset) or getattr(X, "shape", (1,)) == ():
        raise InvalidInputError(f"X must have one row an input, got {type(X).__name__}")
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        masked = int(np.ma.getmaskarray(X).sum())
        raise InvalidInputError(
            f"X must not be masked, got {masked} masked entries; drop those rows or fill them first"
        )


def require_one_a_row(output: Any, X: Any, model: str) -> None:
    """Refuse predictions of another number than there are inputs."""
    shape = getattr(X, "shape", None)
    rows = shape[0] if shape else len(X) if isinstance(X, list) else None
    if rows is None or not hasattr(output, "__len__"):
        return
    shape = getattr(output, "shape", (1,))  # of NGBoost's Gamma an array, its parameter
    count = len(output) if not isinstance(shape, tuple) or shape else 0
    if count != rows:
        raise InvalidInputError(f"X must be inputs for which {model} predicts one a row, got {count} for {rows}")


def require_finite_output(output: Any, X: Any, model: str) -> None:
    """Refuse predictions that are NaN or infinite, naming what is not finite in the inputs of the first such row."""
    if isinstance(output, Distribution) or not np.shape(output):
        return
    bad = ~np.isfinite(as_float_array(output, "the model's output"))
    if not bad.any():
        return
    of_row = bad.reshape(len(bad), -1).any(axis=1)
    row = int(np.argmax(of_row))
    columns = bad_columns(X, row)
    inputs = (
        f"whose inputs are not finite in {', '.join(columns)}: drop or impute such rows"
        if columns
        else "whose inputs are finite: look at the model"
    )
    raise InvalidInputError(
        f"X must be inputs for which {model} predicts finite numbers, got {int(of_row.sum())} rows of {len(bad)} for "
        f"which it does not, the first row {row}, {inputs}"
    )


def bad_columns(X: Any, row: int) -> list[str]:
    """Return the columns of a row of a table that are missing or infinite, as a message names them."""
    values = _row(X, row)
    if values is None:
        return []
    names = list(X.columns) if hasattr(X, "columns") else []
    bad = [place for place, value in enumerate(values) if _is_no_number(value)]
    named = [f"column {names[place]!r}" if names else f"column {place}" for place in bad]
    return [*named[:_SHOWN], f"{len(named) - _SHOWN} more"] if len(named) > _SHOWN else named


def columns_with_gaps(X: Any) -> str:
    """Say in which columns of a table numbers are missing or infinite; nothing of what is no table."""
    try:
        counts = [(name, _gaps(column)) for name, column in _columns(X)]
    except (TypeError, ValueError, RuntimeError):  # tensors of a device, frames of frames: the model's error tells more
        return ""
    return _listed(f"{gaps} in {name} that are missing or infinite" for name, gaps in counts if gaps)


def columns_without_numbers(X: Any) -> str:
    """Say which columns of a table hold gaps or are no numbers; nothing of what is no table."""
    found = []
    for name, column in _columns(X):
        gaps = _gaps(column)
        if gaps is None:
            found.append(f"{name} of {column.dtype}")
        elif gaps:
            found.append(f"{gaps} in {name} that are missing or infinite")
    return _listed(found)


def _columns(X: Any) -> list[tuple[str, Any]]:
    """Return the columns of a table with what messages call them; none of what is no table, or a sparse one."""
    if hasattr(X, "toarray") or (getattr(X, "ndim", None) != 2 and not hasattr(X, "columns")):
        return []
    if hasattr(X, "columns"):
        return [(f"column {name!r}", X[name]) for name in X.columns]
    return [(f"column {place}", column) for place, column in enumerate(np.asarray(X).T)]


def _gaps(column: Any) -> int | None:
    """Return how many numbers of a column are missing or infinite, None if they are no numbers."""
    try:
        return int((~np.isfinite(as_float_array(column, "X"))).sum())
    except InvalidInputError:
        return None


def _listed(found: Iterable[str]) -> str:
    every = list(found)
    return ", ".join([*every[:_SHOWN], f"{len(every) - _SHOWN} more columns"] if len(every) > _SHOWN else every)


def _row(X: Any, row: int) -> NDArray[Any] | None:
    """Return a row of a table of numpy, pandas, polars, torch or scipy; None of what is no table."""
    try:
        rows = X[row : row + 1]
        rows = rows.toarray() if hasattr(rows, "toarray") else rows
        values = np.asarray(rows.to_numpy() if hasattr(rows, "to_numpy") else rows)
    except (TypeError, ValueError, KeyError, IndexError, RuntimeError):
        return None
    return values[0] if values.ndim == 2 and len(values) else None


def _is_no_number(value: Any) -> bool:
    try:
        return not np.isfinite(value)
    except TypeError:  # None, and the NA of pandas; a category is a text
        return not isinstance(value, str)
