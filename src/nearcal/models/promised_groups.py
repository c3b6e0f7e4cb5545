"""The groups that a promise is made to, of rows of inputs: by a function of them, or by the names of columns."""

from collections.abc import Mapping
from typing import Any

from nearcal._errors import InvalidInputError
from nearcal.guarantees import as_promise, is_names


def groups_of_rows(promise: Any, X: Any) -> Any:
    """Return labels or flags of the rows of X, as far as a promise can tell them; None where it names no groups.

    Labels themselves are of the calibration rows: those of others must be given.
    """
    groups: Any = getattr(as_promise(promise), "groups", None)
    if callable(groups):
        return groups(X)
    if not is_names(groups):
        return None
    return _column(X, groups) if isinstance(groups, str) else {name: _column(X, name) for name in groups}


def labels_of_calibration(promise: Any, X: Any) -> Any:
    """Return the labels or flags of the calibration rows, whichever way they are given."""
    groups = getattr(promise, "groups", None)
    return groups_of_rows(promise, X) if callable(groups) or is_names(groups) else groups


def take_rows(X: Any, rows: Any) -> Any:
    """Return some rows of inputs of any kind that a model takes: arrays, tensors, frames, sparse, several of them."""
    if isinstance(X, Mapping):
        return {name: take_rows(part, rows) for name, part in X.items()}
    if isinstance(X, tuple):
        return tuple(take_rows(part, rows) for part in X)
    if isinstance(X, list):
        return [X[row] for row in rows]
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return (X.tocsr() if hasattr(X, "tocsr") else X)[rows]


def promised_columns(promise: Any) -> tuple[str, ...]:
    """Return the names of the columns whose groups have a promise; none where groups are told otherwise."""
    groups: Any = None if promise is None else getattr(as_promise(promise), "groups", None)
    if not is_names(groups):
        return ()
    return (groups,) if isinstance(groups, str) else tuple(groups)


def _column(X: Any, name: str) -> Any:
    names = list(X) if isinstance(X, Mapping) else list(getattr(X, "columns", ()))
    if name not in names:
        raise InvalidInputError(
            f"X must have the column {name!r}, whose groups the promise is made to, got "
            f"{', '.join(map(str, names)) or 'no names of columns'}; give a frame, or groups as a function of X"
        )
    return X[name]
