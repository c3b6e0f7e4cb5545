"""What a study is: settings, units of work, and what is concluded from them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import NDArray

from nearcal._arrays import check_count
from nearcal._errors import InvalidParameterError
from nearcal.studies._claims import Claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")


@dataclass(frozen=True)
class Scale:
    """How much of a study is run.

    Attributes
    ----------
    quick : bool
        About a minute: few seeds, small data; shows that everything works, not what the paper claims.
    full : bool
        The paper's own sizes where the usual ones are smaller.
    seeds : int or None
        The number of seeds (splits, repetitions), None for the study's own.
    """

    quick: bool = False
    full: bool = False
    seeds: int | None = None

    def __post_init__(self) -> None:
        if self.quick and self.full:
            raise InvalidParameterError("quick and full exclude each other, got both")
        if self.seeds is not None:
            check_count(self.seeds, "seeds")

    def choose(self, usual: T, *, quick: T, full: T | None = None) -> T:
        """Return the value for this scale; without one of its own a full run takes the usual value."""
        if self.quick:
            return quick
        return full if self.full and full is not None else usual

    def seed_list(self, usual: int, *, quick: int = 1) -> list[int]:
        """Return the seeds 0, 1, …: as many as asked for, or the study's own number."""
        return list(range(self.choose(usual, quick=quick) if self.seeds is None else self.seeds))


@dataclass(frozen=True)
class Outcome:
    """What a unit of work found.

    Attributes
    ----------
    numbers : mapping
        Numbers, strings, lists and mappings of them: what JSON can hold, numpy scalars and arrays included.
    arrays : mapping of str to ndarray
        Larger arrays that figures or later units need.
    """

    numbers: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Unit:
    """A piece of work that is done whole or not at all.

    Attributes
    ----------
    key : str
        Its name, unique in the study and fit for a file name.
    work : callable
        Returns the outcome; is given the outcomes of ``needs`` in their order.
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
    """Something the study must show, and whether it did."""

    statement: str
    found: str
    holds: bool


@dataclass(frozen=True)
class Conclusion:
    """What finished units amount to.

    Attributes
    ----------
    results : mapping
        Every number of tables and claims, as JSON.
    tables : str
        Markdown: the tables in the paper's form beside the paper's own figures, and what must be said of them.
    checks : sequence of Check
        What the study must show.
    figures : mapping of str to callable
        File names without ending, and functions that draw the figures.
    """

    results: Mapping[str, Any]
    tables: str
    checks: Sequence[Check] = ()
    figures: Mapping[str, "Callable[[], Figure]"] = field(default_factory=dict)


class Study(ABC):
    """One study of the paper.

    Subclasses are light to import; what needs torch or scikit-learn is imported by the work of units.
    """

    name: str
    title: str
    packages: tuple[str, ...] = ()  # modules of the extra "studies" that units import; matplotlib aside

    @abstractmethod
    def settings(self, scale: Scale) -> Mapping[str, Any]:
        """Return all that decides the results, as JSON; ``seeds`` is one of them."""

    @abstractmethod
    def units(self, settings: Mapping[str, Any]) -> Sequence[Unit]:
        """Return the units of work, each after those it needs."""

    @abstractmethod
    def conclude(self, settings: Mapping[str, Any], done: Mapping[str, Outcome]) -> Conclusion:
        """Turn the outcomes of all units, by key, into results, tables and figures."""

    def claims(self, results: Mapping[str, Any]) -> Sequence[Claim]:
        """Return the paper's claims on this study, judged by the results of a run; none by default."""
        return ()
