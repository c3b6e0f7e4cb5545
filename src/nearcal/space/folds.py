"""Which calibration rows may speak for which while anything is learnt from them.

A new row is judged by calibration rows that know nothing of it. A calibration row that stands in for a new one must be
too: rows of its own group, or those observed about when it was, would tell what no one could know of a new row. So rows
are looked up in folds, each among those alone that may speak for all of its rows.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import IntArray
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal.space.row_relations import as_gap, as_groups, as_times, stretches

_FOLDS = 10  # of groups, or stretches of rows in order
_GROUP_FOLDS_IN_TIME = 5  # of groups within each stretch of time: every pair of the two asks for a space of its own
_STRETCHES = 10  # of time
_LEAST_PAST = 0.4  # share of all rows that must lie before a stretch for it to be looked up
_LEAST_SPEAKERS = 2
_MARGIN = 0.5  # of a stretch of rows in order, on either side of it, that may not speak for it
_UNITS = 30  # stretches that errors of means are counted by


@dataclass(frozen=True)
class Fold:
    """Rows that are looked up together, and the others that may speak for all of them; both increase."""

    rows: IntArray
    speakers: IntArray


@dataclass(frozen=True)
class Folds:
    """Every row is looked up in one fold at most.

    Attributes
    ----------
    folds : tuple of Fold
    units : ndarray of shape (n,)
        Rows with the same number depend on each other: errors of means are counted by these.
    words : str
        How rows were judged, to end a sentence with.
    by_time : ndarray of shape (n,) or None
        Rows from the oldest to the latest, of equal times as they come; None where nothing is known of time.
    """

    folds: tuple[Fold, ...]
    units: IntArray
    words: str
    by_time: IntArray | None = None

    @property
    def rows(self) -> IntArray:
        """All rows that are looked up, in increasing order."""
        return np.sort(np.concatenate([fold.rows for fold in self.folds]))


def share_of(k: int, speakers: int, n: int) -> int:
    """Return how many of some speakers are as large a share of them as k is of all n points: one at least.

    So neighbourhoods are about as wide as a new row's, who has all points around it. With k of fewer points they would
    be wider, and small k would be chosen.
    """
    return -(-k * speakers // n)


def as_folds(groups: Any, time: Any, gap: Any, n: int) -> Folds | None:
    """Return the folds of n rows whose groups or times are given; None if neither is.

    Parameters
    ----------
    groups : array_like of shape (n,), optional
    time : array_like of shape (n,), True for the order of the rows, False or None for nothing
    gap : number or timedelta, optional
    n : int
    """
    has_time = time is not None and time is not False
    if gap is not None and not has_time:
        raise InvalidParameterError(f"gap is a length of time and needs time, got gap={gap!r} and time={time!r}")
    if not has_time:
        return None if groups is None else _by_groups(as_groups(groups, n))
    times = as_times(time, n)
    return _by_time(times, as_gap(gap, times), None if groups is None else as_groups(groups, n))


def _by_groups(groups: IntArray) -> Folds:
    """Keep groups whole, in ten folds of about equally many rows; each is looked up among all others."""
    fold = _balanced(groups, _FOLDS)
    parts = tuple(Fold(np.flatnonzero(fold == i), np.flatnonzero(fold != i)) for i in range(fold.max() + 1))
    if len(parts) < 2:
        raise InvalidInputError(
            "groups must be at least two, since rows are judged by those of other groups, got one; leave groups out if "
            "rows are independent"
        )
    return Folds(parts, groups, "rows were judged by those of other groups")


def _by_time(times: NDArray[Any], gap: Any, groups: IntArray | None) -> Folds:
    """Chain forward: ten stretches of time, each looked up among the rows before it, more than a gap away.

    The first stretches, with less than two fifths of all rows before them, are not looked up: so few speak for a row
    otherwise than all will for a new one. Given groups too, rows of a stretch are looked up fold by fold of groups,
    among earlier rows of other folds.
    """
    stretch, n = stretches(times, _STRETCHES), len(times)
    fold = np.zeros(n, dtype=np.intp) if groups is None else _balanced(groups, _GROUP_FOLDS_IN_TIME)
    least, found = max(_LEAST_PAST * n, _LEAST_SPEAKERS), []
    for number in range(stretch.max() + 1):
        inside = stretch == number
        past = times < times[inside].min() - gap
        if past.sum() < least:
            continue
        for part in range(fold.max() + 1):
            rows = np.flatnonzero(inside & (fold == part))
            speakers = np.flatnonzero(past & (fold != part) if groups is not None else past)
            if len(rows) and len(speakers) >= _LEAST_SPEAKERS:
                found.append(Fold(rows, speakers))
    if not found:
        raise InvalidInputError(
            f"time must leave some rows with two fifths of all {n} rows before them, more than the gap of {gap} away"
            f"{' and some of them of other groups' * (groups is not None)}, got none; take a smaller gap, or more rows"
        )
    others = "earlier rows" if groups is None else "earlier rows of other groups"
    return Folds(
        tuple(found), stretches(times, _UNITS), f"rows were judged by {others} alone", np.argsort(times, kind="stable")
    )


def in_order(n: int) -> Folds:
    """Keep rows that follow each other together: ten stretches, each looked up among rows half a stretch away and more.

    For rows of which nothing is known but that those next to each other are alike, whether in time or by group: which
    way time runs, and where a group ends, nobody said.
    """
    edges = np.arange(_FOLDS + 1) * n // _FOLDS
    order, margin = np.arange(n), max(int(_MARGIN * n / _FOLDS), 1)
    parts = []
    for start, stop in pairwise(edges.tolist()):
        far = (order < start - margin) | (order >= stop + margin)
        parts.append(Fold(order[start:stop], order[far]))
    return Folds(tuple(parts), stretches(order, _UNITS), "rows were judged by those that are not near in order")


def _balanced(groups: IntArray, count: int) -> IntArray:
    """Return a fold for each row: the largest group left goes to the fold with fewest rows, the first of equals."""
    sizes = np.bincount(groups)
    load = np.zeros(min(count, len(sizes)), dtype=np.intp)
    fold_of = np.empty(len(sizes), dtype=np.intp)
    for group in np.argsort(-sizes, kind="stable"):
        fold_of[group] = np.argmin(load)
        load[fold_of[group]] += sizes[group]
    return fold_of[groups]
