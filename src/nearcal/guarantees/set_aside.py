"""Rows set aside before anything is learnt, and the groups that a promise is made to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, IntArray, as_float_array
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._sample_weights import as_point_weights
from nearcal.guarantees.promises import PAC, Promise
from nearcal.space import as_groups


@dataclass(frozen=True, eq=False)
class Members:
    """Who is in which group: flags (n, g), their names, and whether a row may be in several."""

    flags: FloatArray
    names: tuple[str, ...]
    overlap: bool

    @classmethod
    def of(cls, groups: Any, n: int, names: Sequence[str] | None = None, *, overlap: bool | None = None) -> Self:
        """Read labels (n,), or flags by name or as (n, g); of new rows for the ``names`` that are known.

        New labels that are not among the names are in no group.
        """
        if isinstance(groups, Mapping) or hasattr(groups, "columns"):
            found = {str(name): _column(groups[name], name, n) for name in groups}
            flags, own, overlaps = np.column_stack([*found.values()]), tuple(found), True
        else:
            labels = np.asarray(groups.to_numpy() if hasattr(groups, "to_numpy") else groups)
            overlaps = labels.ndim == 2 and labels.shape[1] > 1
            if len(labels) != n:
                raise InvalidInputError(
                    f"groups of the promise must have one entry a row, {n} of them, got {len(labels)}"
                )
            if overlaps:
                own = tuple(map(str, range(labels.shape[1]))) if names is None else tuple(names)
                flags = np.column_stack([_column(column, "flags", n) for column in labels.T])
            else:
                texts = np.array([_text(label) for label in labels.reshape(n).tolist()])
                own = tuple(dict.fromkeys(texts.tolist())) if names is None else tuple(names)
                flags = (texts[:, np.newaxis] == np.array(own)).astype(np.float64)
        if names is not None and (overlaps != overlap or flags.shape[1] != len(names) or set(own) != set(names)):
            kind = "flags of the groups" if overlap else "one label a row, of the groups"
            raise InvalidInputError(f"groups must be {kind} {', '.join(names)}, got {', '.join(own)}")
        if names is not None and own != tuple(names):
            flags, own = flags[:, [own.index(name) for name in names]], tuple(names)
        return cls(flags, own, overlaps)

    def take(self, rows: IntArray) -> "Members":
        """Return some rows."""
        return Members(self.flags[rows], self.names, self.overlap)

    def counts(self) -> dict[str, int]:
        """Return how many rows each group has."""
        return {name: int(column.sum()) for name, column in zip(self.names, self.flags.T, strict=True)}


def _column(values: Any, name: Any, n: int) -> FloatArray:
    flags = as_float_array(values, f"groups[{name!r}]").reshape(-1)
    if len(flags) != n or not np.isin(flags, (0.0, 1.0)).all():
        raise InvalidInputError(
            f"groups that overlap must be {n} flags each, True or False, got others for {name!r}; labels of groups "
            "that share no rows are one array of shape (n,)"
        )
    return flags


def _text(label: Any) -> str:
    """Return a label as text, a whole number the same whether it came as a float or not."""
    if isinstance(label, float) and not np.isfinite(label):
        raise InvalidInputError("groups of the promise must name a group for every row, got some that are missing")
    return str(int(label)) if isinstance(label, float) and label == int(label) else str(label)


@dataclass(frozen=True, eq=False)
class Aside:
    """Which rows are learnt from, which are set aside, and what is known of the latter."""

    rest: IntArray
    held: IntArray
    units: IntArray | None
    weight: FloatArray | None
    members: Members | None
    unit_count: int | None

    @classmethod
    def of(cls, promise: Promise, n: int, *, groups: Any, time: Any, sample_weight: Any, labels: Any) -> Self:
        """Set rows aside: ``groups`` depend on each other, and to the groups of ``labels`` the promise is made."""
        refuse_time(time)
        kept, weights = as_point_weights(sample_weight, n)
        rows = np.arange(n) if kept is None else kept
        units = None if groups is None else as_groups(groups, n)[rows]
        members = None if labels is None else Members.of(labels, n)
        if weights is not None:
            _refuse_weights(promise, members, units)
        if members is not None and members.overlap and units is not None and not isinstance(promise, PAC):
            raise InvalidParameterError(
                "groups of a promise that overlap need rows that do not depend on each other, got groups= as well; "
                "give labels of groups that share no rows, or guarantee=nc.PAC(...)"
            )
        rest, held = promise.set_aside(len(rows), units, 1 if members is None else len(members.names))
        count = None
        if units is not None:
            held, count = _whole_or_one(promise, held, units)
        return cls(
            rows[rest],
            rows[held],
            None if units is None or isinstance(promise, PAC) else units[held],
            None if weights is None else weights.given[held],
            None if members is None else members.take(rows[held]),
            count,
        )


def refuse_time(time: Any) -> None:
    """Refuse rows in order of time, of which nothing of the kind can be promised."""
    if time is not None and time is not False:
        raise InvalidParameterError(
            "guarantee needs rows that could have come in any order, got time=: rows that come later may be of another "
            "kind, and no coverage can be promised of them. nc.OnlineRecalibrator keeps coverage in the long run; "
            "where the order means nothing, give time=False"
        )


def _refuse_weights(promise: Promise, members: Members | None, units: IntArray | None) -> None:
    why = None
    if isinstance(promise, PAC):
        why = "order statistics of points that count differently have no such law"
    elif members is not None and members.overlap:
        why = "groups of the promise overlap"
    elif units is not None:
        why = "rows depend on each other by groups"
    if why is not None:
        raise InvalidParameterError(
            f"sample_weight must be left out where {why}; nc.Marginal without groups, or with labels, takes weights"
        )


def _whole_or_one(promise: Promise, held: IntArray, units: IntArray) -> tuple[IntArray, int]:
    """Return the rows of the units set aside, for PAC one at random of each; and the number of units."""
    order = np.random.default_rng(promise.seed).permutation(held)
    different, first = np.unique(units[order], return_index=True)
    return np.sort(order[first]) if isinstance(promise, PAC) else held, len(different)
