"""What a study is: settings, units of work, what is concluded from them, and the claims they bear on."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Scale:
    """How much of a study is run.

    Attributes
    ----------
    quick : bool
        About a minute: few seeds, small data; shows that everything works, not what is claimed.
    full : bool
        The paper's own sizes where the usual ones are smaller.
    seeds, first_seed : int or None
        The number of seeds (splits, repetitions) and the first of them, None for the study's own.
    """

    quick: bool = False
    full: bool = False
    seeds: int | None = None
    first_seed: int | None = None

    def __post_init__(self) -> None:
        if self.quick and self.full:
            raise ValueError("quick and full exclude each other, got both")
        if self.seeds is not None and self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {self.seeds}")

    def choose(self, usual: Any, *, quick: Any, full: Any = None) -> Any:
        """Return the value for this scale; without one of its own a full run takes the usual value."""
        if self.quick:
            return quick
        return full if self.full and full is not None else usual

    def seed_list(self, usual: int, *, quick: int = 1, first: int = 0) -> list[int]:
        """Return seeds in a row: as many as asked for, or the study's own number."""
        first = first if self.first_seed is None else self.first_seed
        count = self.choose(usual, quick=quick) if self.seeds is None else self.seeds
        return list(range(first, first + count))


@dataclass(frozen=True)
class Outcome:
    """What a unit of work found: numbers that JSON can hold, and arrays that figures or later units need."""

    numbers: Mapping[str, Any]
    arrays: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Unit:
    """A piece of work that is done whole or not at all.

    Attributes
    ----------
    key : str
        Its name, unique in the study and fit for a file name.
    work : callable
        Returns the outcome; is given the settings and the outcomes of ``needs`` in their order.
    settings : mapping
        All that decides the outcome, as JSON: a unit whose settings have changed is done anew.
    cost : float
        Expected cost, in any unit common to the study; the remaining time is estimated from it.
    needs : tuple of str
        Keys of earlier units whose outcomes the work is given.
    """

    key: str
    work: Callable[..., Outcome]
    settings: Mapping[str, Any]
    cost: float = 1.0
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Check:
    """A number that must lie below or above a bound; one that does not exist does neither.

    Examples
    --------
    >>> print(Check("MSE relative to the linear model's", 0.0176, "<", 0.1))
    [x] MSE relative to the linear model's: 0.0176 (< 0.1)
    """

    name: str
    number: float
    side: Literal["<", ">"]
    bound: float

    @property
    def holds(self) -> bool:
        """Whether the number lies on its side."""
        return bool(self.number < self.bound if self.side == "<" else self.number > self.bound)

    def __str__(self) -> str:
        number = "unknown" if math.isnan(self.number) else f"{self.number:.4g}"
        return f"[{'x' if self.holds else ' '}] {self.name}: {number} ({self.side} {self.bound:.4g})"


#: Sentences of the paper in our words, each after the section it stands in, and the checks that it comes to.
Claims = Mapping[str, Sequence[Check]]


@dataclass(frozen=True)
class Conclusion:
    """What finished units amount to.

    Attributes
    ----------
    results : mapping
        Every number of tables and claims, as JSON.
    tables : str
        Markdown: the tables, beside the paper's own figures where it has some, and what must be said of them.
    checks : sequence of Check
        What the study must show.
    figures : mapping of str to callable
        File names without ending, and functions that draw the figures.
    readme : str
        A table that the README quotes between its marks.
    """

    results: Mapping[str, Any]
    tables: str
    checks: Sequence[Check] = ()
    figures: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    readme: str = ""


class Study(ABC):
    """One study; ``data`` is the folder of regression sets, for those that need them."""

    name: str
    title: str

    def __init__(self, data: Path | None = None) -> None:
        self.data = data

    @abstractmethod
    def settings(self, scale: Scale) -> dict[str, Any]:
        """Return all that decides the results, as JSON; ``seeds`` is one of them."""

    @abstractmethod
    def units(self, settings: Mapping[str, Any]) -> Sequence[Unit]:
        """Return the units of work, each after those it needs."""

    @abstractmethod
    def conclude(self, settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> Conclusion:
        """Turn the outcomes of all units, by key, into results, tables and figures."""

    def claims(self, results: Mapping[str, Any]) -> Claims:
        """Return the paper's claims on this study, judged by the results of a run; none by default."""
        return {}
