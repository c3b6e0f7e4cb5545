"""What is known of how rows belong together: the group of each, or when it was observed; validated."""

from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import IntArray, check_number
from nearcal._errors import InvalidInputError, InvalidParameterError

_BLOCKS = 30  # stretches that rows in order are cut into, where errors of means are counted by them


def as_groups(groups: Any, n: int) -> IntArray:
    """Return the group of each of n rows as a number, in the order in which groups first appear."""
    labels = _as_labels(groups, "groups", n, "one label a row")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InvalidInputError(
            f"groups must name a group for every row, got {int((~np.isfinite(labels)).sum())} of {n} that are no "
            "finite number; give rows without a group one of their own"
        )
    if labels.dtype == object:  # texts, some of them missing, have no order: by what they are
        places: dict[Any, int] = {}
        try:
            return np.array([places.setdefault(label, len(places)) for label in labels.tolist()], dtype=np.intp)
        except TypeError as error:
            raise InvalidInputError(f"groups must hold texts or numbers, got {error}") from error
    _, first, numbers = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers.reshape(n)]


def as_times(time: Any, n: int) -> NDArray[Any]:
    """Return when each of n rows was observed: numbers, or datetime64; True stands for the order of the rows."""
    if time is True:
        return np.arange(n)
    times = _as_labels(time, "time", n, "one number or date a row")
    if times.dtype.kind in "UOS":
        times = _as_dates(times)
    if times.dtype.kind not in "iufM":
        raise InvalidInputError(f"time must hold numbers or dates, got an array of dtype {times.dtype}")
    missing = np.isnat(times) if times.dtype.kind == "M" else ~np.isfinite(times)
    if missing.any():
        raise InvalidInputError(
            f"time must be known of every row, got {int(missing.sum())} of {n} missing, the first at index "
            f"{int(np.argmax(missing))}; drop those rows"
        )
    return times


def as_gap(gap: Any, times: NDArray[Any]) -> Any:
    """Return a length of time in the units of some times: a number, or a timedelta64 where these are dates."""
    is_date = times.dtype.kind == "M"
    if gap is None:
        return np.timedelta64(0) if is_date else 0
    if not is_date:
        check_number(gap, "gap", least=0.0)
        return gap
    if hasattr(gap, "to_timedelta64"):  # pandas
        gap = gap.to_timedelta64()
    if not isinstance(gap, timedelta | np.timedelta64):
        raise InvalidParameterError(
            f"gap must be a timedelta where time holds dates, got {gap!r}; for a day give datetime.timedelta(days=1)"
        )
    gap = np.timedelta64(gap)
    if np.isnat(gap) or gap < np.timedelta64(0):
        raise InvalidParameterError(f"gap must not be negative, got {gap!r}")
    return gap


def as_units(groups: Any, time: Any, n: int) -> IntArray | None:
    """Return which of n rows depend on each other, as one number a row; None if nothing is said.

    They are the groups, or 30 stretches of time of about equally many rows, so long that what happens in one tells
    little about the next, and enough to tell how much they differ.
    """
    if groups is not None and time is not None and time is not False:
        raise InvalidParameterError(
            "give groups or time, got both: errors of means are counted by groups of rows or by stretches of time"
        )
    if groups is not None:
        return as_groups(groups, n)
    return None if time is None or time is False else stretches(as_times(time, n), _BLOCKS)


def stretches(times: NDArray[Any], count: int) -> IntArray:
    """Cut rows into at most so many stretches of time with about equally many rows, none of which parts equal times.

    Returns the number of the stretch of each row.
    """
    n = len(times)
    starts = np.unique(np.sort(times)[np.arange(min(count, n)) * n // min(count, n)])
    return np.searchsorted(starts, times, side="right") - 1


def _as_labels(values: Any, name: str, n: int, what: str) -> NDArray[Any]:
    if isinstance(values, bool | str) or not hasattr(values, "__len__"):
        raise InvalidInputError(f"{name} must hold {what}, got {values!r}")
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    labels = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if labels.shape == (n, 1):
        labels = labels[:, 0]
    if labels.shape != (n,):
        raise InvalidInputError(f"{name} must have shape ({n},), {what}, got {labels.shape}")
    return labels


def _as_dates(texts: NDArray[Any]) -> NDArray[Any]:
    """Read dates of Python, of pandas with a time zone, or texts as in ISO 8601."""
    values = [_without_zone(value) for value in texts.tolist()]
    try:
        return np.array(values, dtype="datetime64[us]")
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"time must hold numbers or dates, got {texts.tolist()[0]!r} first, of which none can be made: {error}"
        ) from error


def _without_zone(value: Any) -> Any:
    """Return a date and time in UTC, as numpy has it; texts that numpy reads otherwise or not at all, as they are."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return value
    offset = value.utcoffset() if hasattr(value, "utcoffset") else None
    return value if offset is None else value.replace(tzinfo=None) - offset
