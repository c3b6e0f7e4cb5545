"""Questions to a model that is not ours: what it raises, and numbers that are none, become errors that say why."""

from collections.abc import Iterator
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
def asking(model: str) -> Iterator[None]:
    """Turn what a model raises into an error that names it; the model's own stands behind it."""
    try:
        yield
    except (NearcalError, MemoryError):
        raise
    except Exception as error:
        kind = _WrongType if isinstance(error, TypeError) else InvalidInputError
        raise kind(
            f"X must be inputs that {model} can predict, which raised {type(error).__name__}: {error}"
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


def columns_without_numbers(X: Any) -> str:
    """Say which columns of a table hold gaps or are no numbers; nothing of what is no table."""
    if hasattr(X, "toarray") or (getattr(X, "ndim", None) != 2 and not hasattr(X, "columns")):
        return ""
    has_names = hasattr(X, "columns")
    columns = [(f"column {name!r}", X[name]) for name in X.columns] if has_names else list(enumerate(np.asarray(X).T))
    found = []
    for name, column in columns:
        try:
            gaps = int((~np.isfinite(as_float_array(column, "X"))).sum())
        except InvalidInputError:
            found.append(f"{name if has_names else f'column {name}'} of {column.dtype}")
        else:
            if gaps:
                found.append(f"{gaps} in {name if has_names else f'column {name}'} that are missing or infinite")
    return ", ".join([*found[:_SHOWN], f"{len(found) - _SHOWN} more columns"] if len(found) > _SHOWN else found)


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
