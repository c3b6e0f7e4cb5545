"""Features by name, numbers or categories, and limits of them in words: "carat > 1.9 and clarity ≤ SI2"."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, as_float_array
from nearcal._errors import InvalidInputError

MISSING = "missing"
EVERYWHERE = "all rows"
_SHOWN_LEVELS = 4

Limits = tuple[float, float] | frozenset[int]  # low < value <= high, or one of these levels


@dataclass(frozen=True)
class Feature:
    """One column.

    Attributes
    ----------
    name : str
        What it is called.
    values : ndarray of shape (n,)
        Numbers, NaN where missing; of a category the place in ``levels``.
    levels : tuple of str or None
        The names of the categories; None for numbers.
    is_ordered : bool
        Whether <= means something: of numbers, and of categories whose order was stated.
    """

    name: str
    values: FloatArray
    levels: tuple[str, ...] | None = None
    is_ordered: bool = True


def as_features(
    features: Any, n: int, levels: Mapping[str, Sequence[Any]] | None = None, names: Sequence[str] | None = None
) -> tuple[Feature, ...]:
    """Take a table (pandas, polars, nearcal), a mapping of names to columns, or an (n, d) array, of n rows."""
    columns = _named_columns(features, names)
    if not columns:
        raise InvalidInputError("features must have at least one column, got none")
    unknown = [name for name in levels or () if name not in columns]
    if unknown:
        raise InvalidInputError(f"levels must be of features, got {unknown[0]!r}; there are {', '.join(columns)}")
    return tuple(_as_feature(name, values, n, (levels or {}).get(name)) for name, values in columns.items())


def _named_columns(features: Any, names: Sequence[str] | None) -> dict[str, Any]:
    keys = list(features) if isinstance(features, Mapping) else list(getattr(features, "columns", []))
    if keys:
        return {str(key): features[key] for key in keys}
    is_text = has_categories(features)
    array = _to_numpy(features) if is_text else as_float_array(features, "features")
    if array.ndim not in (1, 2):
        raise InvalidInputError(f"features must be a table, a mapping or an (n, d) array, got shape {array.shape}")
    # a series knows more than its values: its name, and the order of its categories
    columns = [features if is_text else array] if array.ndim == 1 else list(array.T)
    labels = _column_names(features, len(columns)) if names is None else _as_names(names)
    if len(labels) != len(columns) or len(set(labels)) != len(labels):
        raise InvalidInputError(f"names must be {len(columns)} different names, one a column, got {labels}")
    return dict(zip(labels, columns, strict=True))


def _column_names(features: Any, count: int) -> list[str]:
    name = getattr(features, "name", None)
    return [name] if isinstance(name, str) and name and count == 1 else [f"x{j}" for j in range(count)]


def _as_names(names: Any) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidInputError(f"names must be a sequence of names, one a column, got {names!r}; write it as a list")
    return [str(name) for name in names]


def has_categories(values: Any) -> bool:
    """Tell whether there is text in an array, a series, or a column of a table or a mapping."""
    if isinstance(values, Mapping) or len(getattr(values, "columns", ())):
        return any(has_categories(values[name]) for name in (values if isinstance(values, Mapping) else values.columns))
    if values is None or hasattr(values, "detach"):
        return False
    try:
        array = _to_numpy(values)
    except ValueError:  # lists of unequal lengths
        return False
    return array.dtype.kind in "US" or (array.dtype.kind == "O" and any(isinstance(x, str) for x in array.flat))


def _as_feature(name: str, values: Any, n: int, levels: Sequence[Any] | None) -> Feature:
    levels = _declared_levels(values) if levels is None else levels
    array = _to_numpy(values)
    if array.shape != (n,):
        raise InvalidInputError(
            f"features[{name!r}] must have {n} values, one a row of the distribution, got {array.shape}"
        )
    if levels is not None:
        return as_category(name, array, [str(level) for level in levels], is_ordered=True)
    if array.dtype.kind == "O" and all(entry is None or isinstance(entry, int | float) for entry in array):
        is_bool = any(isinstance(entry, bool) for entry in array)
        array = array if is_bool else array.astype(np.float64)
    if array.dtype.kind in "iuf":
        numbers = array.astype(np.float64)
        if np.isinf(numbers).any():
            raise InvalidInputError(
                f"features[{name!r}] must be finite or missing, got {int(np.isinf(numbers).sum())} infinite values; "
                "clip them or take logarithms later"
            )
        return Feature(name, numbers)
    if array.dtype.kind in "bOUS":
        return as_category(name, array)
    raise InvalidInputError(
        f"features[{name!r}] must hold numbers or categories, got dtype {array.dtype}; convert dates to numbers first"
    )


def _declared_levels(values: Any) -> list[str] | None:
    """Return the levels of an ordered categorical of pandas or an Enum of polars, in order."""
    dtype = getattr(values, "dtype", None)
    kind = type(dtype).__name__
    if dtype is not None and (kind == "Enum" or (kind == "CategoricalDtype" and dtype.ordered)):
        return [str(level) for level in dtype.categories]
    return None


def _to_numpy(values: Any) -> NDArray[Any]:
    if hasattr(values, "detach"):
        return as_float_array(values, "features")
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)


def as_category(
    name: str, array: NDArray[Any], levels: list[str] | None = None, *, is_ordered: bool = False
) -> Feature:
    """Take values as categories, each by its text; without ``levels`` those that occur, sorted."""
    labels = np.array([MISSING if _is_missing(entry) else str(entry) for entry in array.tolist()])
    present = np.unique(labels).tolist()
    if levels is None:
        levels = present
    elif MISSING in present and MISSING not in levels:
        levels = [MISSING, *levels]
    levels = list(dict.fromkeys(levels))
    place = {level: code for code, level in enumerate(levels)}
    unknown = [label for label in present if label not in place]
    if unknown:
        raise InvalidInputError(
            f"levels[{name!r}] must name every category of the feature, got {unknown[0]!r}, which is not one of "
            f"{', '.join(repr(level) for level in levels)}"
        )
    return Feature(name, np.array([place[label] for label in labels], dtype=np.float64), tuple(levels), is_ordered)


def _is_missing(entry: Any) -> bool:
    return entry is None or type(entry).__name__ in {"NAType", "NaTType"} or entry != entry


def describe_limits(limits: Mapping[int, Limits], columns: Sequence[Feature]) -> str:
    """Join the limits of features, given by their places; none are all rows."""
    return " and ".join(_condition(columns[j], limits[j]) for j in sorted(limits)) or EVERYWHERE


def _condition(column: Feature, limit: Limits) -> str:
    if not isinstance(limit, tuple):
        return _set_condition(column, limit)
    if column.levels is not None:
        return _graded_condition(column.name, column.levels, limit)
    low, high = (f"{end:.15g}" for end in limit)
    if limit[0] == -np.inf:
        return f"{column.name} ≤ {high}" + (" or missing" if np.isnan(column.values).any() else "")
    return f"{column.name} > {low}" if limit[1] == np.inf else f"{low} < {column.name} ≤ {high}"


def _graded_condition(name: str, levels: tuple[str, ...], limit: tuple[float, float]) -> str:
    first, last = max(0, int(max(limit[0], -1)) + 1), int(min(limit[1], len(levels) - 1))
    if first == last:
        return f"{name} = {levels[first]}"
    if first == 0:
        return f"{name} ≤ {levels[last]}"
    return f"{name} ≥ {levels[first]}" if last == len(levels) - 1 else f"{levels[first]} ≤ {name} ≤ {levels[last]}"


def _set_condition(column: Feature, chosen: frozenset[int]) -> str:
    levels = column.levels or ()
    inside = [level for code, level in enumerate(levels) if code in chosen]
    if len(inside) == 1:
        return f"{column.name} = {inside[0]}"
    rest = [level for code, level in enumerate(levels) if code not in chosen]
    if len(rest) == 1 and len(inside) > 2:
        return f"{column.name} ≠ {rest[0]}"
    shown, more = inside[:_SHOWN_LEVELS], len(inside) - _SHOWN_LEVELS
    return f"{column.name} in {', '.join(shown)}" + (f" and {more} more" if more > 0 else "")
