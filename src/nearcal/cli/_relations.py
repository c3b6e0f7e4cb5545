"""Columns that say which rows belong together: groups, time, and the gap between."""

import re
from datetime import timedelta
from typing import Annotated, Any, NamedTuple, TypeAlias

import typer

from nearcal.cli._console import Mistake
from nearcal.cli._tables import TableFile
from nearcal.distributed.batches import Columns, is_numeric

_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*([dhms])")

Groups: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Column of groups: rows of one person, device or place, which depend on each other."
    ),
]
Time: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of when rows were observed, numbers or dates.")
]
InOrder: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--in-order/--any-order",
        help="Rows are in order of time, or in an order that means nothing; tested if not said.",
        show_default=False,
    ),
]


class Relations(NamedTuple):
    """The columns asked for, of numbers and of anything, and what else was said."""

    groups: str | None
    time: str | None
    in_order: bool | None
    numbers: list[str]
    texts: list[str]

    @classmethod
    def of(cls, file: TableFile, groups: str | None, time: str | None, in_order: bool | None = None) -> "Relations":
        """Look the columns up in a file."""
        if time is not None and in_order is not None:
            option = "--in-order" if in_order else "--any-order"
            raise Mistake(f"--time and {option} are both given", "--time says which order it is")
        given = {"--groups": groups, "--time": time}
        for option, name in given.items():
            if name is not None:
                file.require([name], asked_by=f"{option} names")
        is_number = time is not None and is_numeric(file.schema.field(time).type)
        texts = dict.fromkeys(name for name in (groups, None if is_number else time) if name is not None)
        return cls(groups, time, in_order, [time] if time is not None and is_number else [], list(texts))

    def values(self, numbers: Columns, texts: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments ``groups`` and ``time`` of the library, given the columns that were read."""
        time: Any = self.in_order
        if self.time is not None:
            time = numbers[self.time] if self.time in self.numbers else texts[self.time]
        return {"groups": None if self.groups is None else texts[self.groups], "time": time}

    def gap(self, text: str | None) -> Any:
        """Return a length of time: a number, or where dates are given a number with a unit."""
        if text is None:
            return None
        if self.time is None and not self.in_order:
            raise Mistake("--gap is a length of time and needs --time", "name the column of when rows were observed")
        length = _LENGTH.fullmatch(text.strip())
        if self.texts and self.time in self.texts:
            if length is None:
                raise Mistake(
                    f"--gap must have a unit where column {self.time!r} holds dates, got {text!r}",
                    "for example 2d, 12h, 30m or 15s",
                )
            try:
                return timedelta(**{_UNITS[length[2]]: float(length[1])})
            except OverflowError:
                raise Mistake(f"--gap is longer than any time, got {text!r}", "for example 2d") from None
        try:
            return float(text)
        except ValueError:
            raise Mistake(
                f"--gap must be a number where time is counted in numbers, got {text!r}", "for example 48"
            ) from None
