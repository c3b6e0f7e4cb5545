"""Recalibrators made of several: their members, the columns that each looks at, and their weights."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._saved import require
from nearcal.recalibration.base import Recalibrator


class RecalibratorOfMembers(Recalibrator):
    """What recalibrators have in common that ask several others."""

    members: Sequence[Any]
    columns: Sequence[Sequence[int]] | None
    members_: tuple[Any, ...]
    columns_: tuple[tuple[int, ...], ...]
    weights_: FloatArray

    @property
    def n_features_in_(self) -> int:
        """The number of columns of the space that it looks at, one at least."""
        return 1 + max((column for own in self.columns_ for column in own), default=0)

    def __repr__(self) -> str:
        defaults = {name: argument.default for name, argument in self._arguments.items()}
        others = [name for name in defaults if name not in ("members", "columns")]
        told = [f"{name}={value!r}" for name in others if repr(value := getattr(self, name)) != repr(defaults[name])]
        members = f"[{', '.join(map(repr, self.members))}]"
        return f"{type(self).__name__}({', '.join([members, *told])})"

    def _check_members(self) -> None:
        if len(self.members) < 2 or not all(hasattr(member, "recalibrate") for member in self.members):
            raise InvalidParameterError(
                "members must be at least two recalibrators, such as [nc.LocalRecalibrator(k=100), "
                f"nc.LocalRecalibrator(k=20)], got {self.members!r}"
            )
        if self.columns is not None and len(self.columns) != len(self.members):
            raise InvalidParameterError(
                f"columns must say for each of the {len(self.members)} members where it looks, got {len(self.columns)}"
            )

    def _columns_of(self, space: FloatArray | None) -> list[Sequence[int]]:
        width = 0 if space is None else space.shape[1]
        columns: list[Sequence[int]] = [range(width)] * len(self.members)
        columns = columns if self.columns is None else list(self.columns)
        for own in columns:
            if any(not 0 <= column < width for column in own):
                raise InvalidParameterError(
                    f"columns must be numbers of columns of the space, 0 to {width - 1}, got {list(own)}"
                )
        return columns

    def _members_keeping(self, rows: IntArray) -> tuple[Any, ...]:
        """Return copies of the members with some of their calibration points."""
        members = tuple(copy.copy(member) for member in self.members_)
        for member in members:
            member._keep(rows)
        return members

    def _check_learnt(self) -> None:
        sizes = {len(self.members_), len(self.columns_), len(self.weights_)}
        require(len(sizes) == 1 and sizes.pop() > 1, "members_, columns_ and weights_ must be as many, two at least")
        require((self.weights_ >= 0).all() and self.weights_.sum() > 0, "weights_ must not be negative")
        require(all(one.n_cal_ == self.n_cal_ for one in self.members_), "members_ must have n_cal_ calibration points")
        self.members, self.columns = self.members_, self.columns_


def all_within(recalibrator: Any) -> Iterator[Any]:
    """Go through a recalibrator and all those that it asks, and that these ask."""
    yield recalibrator
    inner = getattr(recalibrator, "inner_", None)
    for one in (*(() if inner is None else (inner,)), *getattr(recalibrator, "members_", ())):
        yield from all_within(one)


def at_columns(space: FloatArray | None, columns: Sequence[int]) -> FloatArray | None:
    """Return some columns of a space; None for a member that looks at none."""
    if space is None or len(columns) == 0:
        return None
    if max(columns) >= space.shape[1]:
        raise InvalidInputError(
            f"the space must have at least {max(columns) + 1} columns as in fit, got {space.shape[1]}"
        )
    return np.ascontiguousarray(space[:, list(columns)])  # sums of columns round by the order in memory
