"""What can be promised of intervals in finite samples: what is asked for, and what was given.

``Marginal``, ``PAC`` and ``Cross`` are asked for; a :class:`Guarantee` says in words and numbers what was given.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from nearcal._arrays import IntArray, check_choice, check_count
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._normal_scores import LEVEL_TOLERANCE
from nearcal._saved import count, flag, mapping_of, number, one_of, optional, require, savable, text, tuple_of
from nearcal.distributions import check_coverage
from nearcal.recalibration.order_statistics import gaps_needed

Small: TypeAlias = Literal["infinite", "error"]
SMALL: tuple[Small, ...] = ("infinite", "error")
_MOST_NEEDED = 10**7  # points that anybody is told to look for
_ASIDE = 5.0  # times √n rows are set aside: few to lose for those who learn, and enough to tell levels by


@dataclass(frozen=True)
class Promise:
    """What the promises that set rows aside have in common."""

    share: float | int | None = None
    seed: int = 0
    groups: Any = field(default=None, repr=False, compare=False)
    small: Small = "infinite"

    def check(self) -> None:
        """Refuse options that are none."""
        is_count = isinstance(self.share, int | np.integer) and not isinstance(self.share, bool)
        is_share = isinstance(self.share, float) and 0 < self.share < 1
        if not (self.share is None or is_share or (is_count and self.share >= 1)):
            raise InvalidParameterError(
                f"share must lie strictly between 0 and 1, or be a number of rows, or None for 5√n rows, got "
                f"{self.share!r}; 0.25 sets aside a quarter"
            )
        check_count(self.seed, "seed", 0)
        check_choice(self.small, SMALL, "small")

    def set_aside(self, n: int, units: IntArray | None = None, groups: int = 1) -> tuple[IntArray, IntArray]:
        """Return the numbers of the rows to learn from, and of those set aside; whole units where rows have such.

        To so many ``groups`` a promise is made each.
        """
        self.check()
        pieces = n if units is None else int(units.max()) + 1
        aside = max(1, round(self._share_of(pieces, n, groups) * pieces))
        if aside >= pieces:
            what = "rows" if units is None else "groups of rows that depend on each other"
            raise InvalidInputError(
                f"share must leave {what} to learn from, got {self.share!r} of {pieces}; take less, or more "
                'calibration rows, or guarantee="cross", which sets none aside'
            )
        chosen = np.random.default_rng(self.seed).permutation(pieces)[:aside]
        is_aside = np.isin(np.arange(n) if units is None else units, chosen)
        return np.flatnonzero(~is_aside), np.flatnonzero(is_aside)

    def _share_of(self, pieces: int, n: int, groups: int) -> float:
        if self.share is None:
            return min(_ASIDE * np.sqrt(groups / pieces), 0.5)
        return self.share if isinstance(self.share, float) else int(self.share) / n

    def _to_saved(self) -> dict[str, Any]:
        # labels have done their work, and a function has no place in a file: new rows' groups are then given
        names = self.groups if is_names(self.groups) else None
        return {**vars(self), "groups": names}


def _names(name: str, value: Any) -> Any:
    """Refuse what names no columns; None is no groups, or some that a file does not tell."""
    require(value is None or is_names(value), f"{name} must be names of columns, got {value!r}")
    return value


_FIELDS = {"share": optional(number(0.0)), "seed": count(0), "groups": _names, "small": one_of(*SMALL)}


@savable(**_FIELDS)
@dataclass(frozen=True)
class Marginal(Promise):
    """Promise that intervals hold a new response with the probability they say, on average or in each of some groups.

    Parameters
    ----------
    share : float or int, optional
        The share of calibration rows, or their number, that is set aside before anything is learnt from the others. By
        default 5√n of n rows, with g groups 5√(ng), but half of them at most.
    seed : int
        Which rows these are.
    groups : array_like, callable, str or sequence of str, optional
        To whom the promise is made, beside everybody: the label of each row, (n,), for groups that share no rows; or,
        for groups that overlap, a mapping of names to flags (n,), or flags (n, g). A function of X returns either, and
        names are columns of X: then new rows tell their groups themselves. Not to be confused with ``groups`` of
        :func:`nearcal.calibrate`: those are rows that depend on each other.
    small : {"infinite", "error"}
        What becomes of an interval whose group has too few points set aside: an infinite end, or an error that says
        how many it would take.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> X = rng.uniform(1, 3, size=(500, 1))
    >>> y = rng.normal(X[:, 0], X[:, 0])
    >>> model = nc.calibrate(lambda X: (X[:, 0], np.full(len(X), 2.0)), X, y, guarantee=nc.Marginal(share=0.2))
    >>> print(model.guarantee)
    Promised (marginal): interval(c) holds a new response with probability c to c + 1/101; 100 points set aside, seed 0.
    To whom: everybody together, on average over calibration sets and new points; nothing is said of any one x.
    Provided that: points set aside and new points are exchangeable.
    Finite ends: 90% needs 19 points, 95% 39, 99% 199.
    """


@savable(**_FIELDS, delta=number(0.0))
@dataclass(frozen=True)
class PAC(Promise):
    """Promise that intervals of this very calibration hold at least what they say, but for bad luck of rate delta.

    The coverage of :class:`Marginal` is an average over calibration sets, of which every other one has less. Here the
    share of new responses that ``interval(c)`` holds is at least c for all but a share ``delta`` of calibration sets
    (Vovk, 2012). Intervals are wider for it.

    Parameters
    ----------
    share, seed, groups, small
        As in :class:`Marginal`; of groups that overlap a row has the widest interval of those that it belongs to.
    delta : float
        The share of calibration sets that may fall short.

    References
    ----------
    V. Vovk, *Conditional validity of inductive conformal predictors*, ACML 2012, PMLR 25:475-490, arXiv:1209.2673.
    """

    delta: float = 0.1

    def check(self) -> None:
        """Refuse options that are none."""
        super().check()
        if not (isinstance(self.delta, float) and 0 < self.delta < 1):
            raise InvalidParameterError(f"delta must lie strictly between 0 and 1, got {self.delta!r}; try 0.1")


@savable(folds=count(2), seed=count(0))
@dataclass(frozen=True)
class Cross:
    """Promise half as much and set nothing aside: cross-conformal prediction (CV+) on scores.

    Everything is learnt once a fold, without its rows, which are then scored. Theory promises a coverage of 2c - 1,
    less a little of order 1/n; what is seen is near c (see the guide).

    Parameters
    ----------
    folds : int
        Number of folds; as many as there are rows for jackknife+. What theory promises is least in between.
    seed : int
        Which rows are together.

    References
    ----------
    R. F. Barber, E. J. Candès, A. Ramdas and R. J. Tibshirani, *Predictive inference with the jackknife+*, Annals of
    Statistics 49:486-507, 2021, doi:10.1214/20-AOS1965.
    """

    folds: int = 5
    seed: int = 0

    def parts(self, n: int) -> list[IntArray]:
        """Return the rows of every fold, of about equally many."""
        check_count(self.folds, "folds", 2)
        check_count(self.seed, "seed", 0)
        if n < self.folds:
            raise InvalidInputError(f"folds must be at most the number of rows, {n}, got {self.folds}")
        order = np.random.default_rng(self.seed).permutation(n)
        return [np.sort(part) for part in np.array_split(order, self.folds)]


_BY_NAME: Mapping[str, Promise | Cross] = {"marginal": Marginal(), "pac": PAC(), "cross": Cross()}


def as_promise(guarantee: Any) -> Marginal | PAC | Cross:
    """Return what is asked for, given its name or itself."""
    if isinstance(guarantee, str):
        check_choice(guarantee, tuple(_BY_NAME), "guarantee")
        guarantee = _BY_NAME[guarantee]
    if not isinstance(guarantee, Marginal | PAC | Cross):
        raise InvalidParameterError(
            f"guarantee must be one of {', '.join(map(repr, _BY_NAME))}, or nc.Marginal(...), nc.PAC(...) or "
            f"nc.Cross(...), got {guarantee!r}"
        )
    if isinstance(guarantee, Promise):
        guarantee.check()
    return guarantee


def is_names(groups: Any) -> bool:
    """Tell whether groups are given as columns by their names."""
    return isinstance(groups, str) or (
        isinstance(groups, list | tuple) and len(groups) > 0 and all(isinstance(one, str) for one in groups)
    )


@savable(
    kind=one_of(*_BY_NAME),
    n=count(),
    groups=mapping_of(count(0)),
    overlap=flag,
    seed=count(0),
    delta=optional(number(0.0)),
    folds=optional(tuple_of(count())),
    units=optional(count()),
    weighted=flag,
    notes=tuple_of(text),
)
@dataclass(frozen=True)
class Guarantee:
    """What is promised, to whom, on what condition, and from how many points; print it.

    Attributes
    ----------
    kind : {"marginal", "pac", "cross"}
    n : int
        The number of points behind it: those set aside, or all of a cross-conformal calibration.
    groups : mapping of str to int
        To whom it is made beside everybody, with the number of points set aside in each.
    overlap : bool
        Whether groups share rows.
    seed : int
    delta : float or None
        The share of calibration sets that may fall short, of "pac".
    folds : tuple of int or None
        The sizes of the folds, of "cross".
    units : int or None
        How many groups of rows that depend on each other the points come from, where rows do.
    weighted : bool
        Whether points have weights.
    notes : tuple of str
        What else must be known.
    """

    kind: str
    n: int
    groups: Mapping[str, int] = field(default_factory=dict)
    overlap: bool = False
    seed: int = 0
    delta: float | None = None
    folds: tuple[int, ...] | None = None
    units: int | None = None
    weighted: bool = False
    notes: tuple[str, ...] = ()

    def least(self, coverage: float) -> float:
        """Return the coverage promised of ``interval(coverage)``."""
        check_coverage(coverage)
        return cross_bound(coverage, self.folds) if self.folds is not None else coverage

    def most(self, coverage: float, group: str | None = None) -> float:
        """Return the largest coverage of ``interval(coverage)``, without ties, of everybody or in one group.

        It is 1 where theory says no more.
        """
        check_coverage(coverage)
        if self.kind != "marginal" or self.overlap or self.weighted or self.units is not None:
            return 1.0
        counts = [self.n] if not self.groups else [self.groups[group]] if group else list(self.groups.values())
        return min(1.0, coverage + 1 / (min(counts) + 1))

    def needed(self, coverage: float) -> int:
        """Return how many points, of everybody or of a group, give ``interval(coverage)`` two finite ends."""
        check_coverage(coverage)
        n = int(np.ceil(2 / (1 - coverage) - 1 - LEVEL_TOLERANCE * 1e3))
        while self.delta is not None and n < _MOST_NEEDED:
            if gaps_needed(n, np.array(coverage), self.delta) <= n - 1:
                return n
            n += max(1, n // 100)
        return n

    def with_note(self, note: str) -> Self:
        """Return the same, with one more thing to know."""
        return replace(self, notes=(*self.notes, note))

    def __str__(self) -> str:
        return "\n".join(
            [
                f"Promised ({self.kind}): {self._what()}.",
                f"To whom: {self._to_whom()}.",
                f"Provided that: {self._condition()}.",
                f"Finite ends: 90% needs {self.needed(0.9)} points, 95% {self.needed(0.95)}, 99% {self.needed(0.99)}"
                f"{' of the group' if self.groups else ''}.",
                *(f"Note: {note}." for note in self.notes),
            ]
        )

    def _what(self) -> str:
        aside = f"{self.n} points set aside, seed {self.seed}"
        if self.kind == "cross":
            assert self.folds is not None
            promised = ", ".join(f"{self.least(c):.1%} at c = {c:.0%}" for c in (0.9, 0.95))
            return (
                f"interval(c) holds a new response with probability 2c - 1, less a little ({promised}); {self.n} "
                f"points in {len(self.folds)} folds, seed {self.seed}, none set aside"
            )
        if self.kind == "pac":
            return (
                f"interval(c) holds at least the share c of new responses, but for {self.delta:.3g} of calibration "
                f"sets; {aside}"
            )
        upper = self.most(0.5) < 1 and not self.groups
        what = f"probability c to c + 1/{self.n + 1}" if upper else "probability c at least"
        what += ", and at most c + 1/(n + 1) of a group of n" if self.groups and self.most(0.5) < 1 else ""
        return f"interval(c) holds a new response with {what}; {aside}"

    def _to_whom(self) -> str:
        if not self.groups:
            who = "everybody together"
        else:
            named = list(self.groups.items())
            listed = ", ".join(f"{name} ({n} points)" for name, n in named[:8])
            more = f" and {len(named) - 8} more" if len(named) > 8 else ""
            who = f"each group{', though they overlap, and everybody' * self.overlap}: {listed}{more}"
        average = "for this calibration set" if self.kind == "pac" else "on average over calibration sets"
        return f"{who}, {average} and new points; nothing is said of any one x"

    def _condition(self) -> str:
        points = "points" if self.kind == "cross" else "points set aside"
        if self.weighted:
            return (
                f"{points} are exchangeable, new ones differ by the distribution of x alone, weights are "
                "proportional to the ratio of the two densities of x, and no new point's is above the largest of them"
            )
        if self.units is not None:
            return (
                f"the {self.units} groups of rows that depend on each other, of {points}, and a new group are "
                "exchangeable, and the new point is any row of a new group"
            )
        together = "independent with one distribution" if self.kind == "pac" else "exchangeable"
        return f"{points} and new points are {together}"


def cross_bound(coverage: float, folds: tuple[int, ...]) -> float:
    """Return the coverage that CV+ has at least: each end is missed with at most twice its level, and a little.

    With n rows in K folds, an end of level a is missed with probability at most 2 (a (n + 1) + K - 1) / (n + K), twice
    the mean of K p-values; in equal folds of m rows also at most (2a (n + 1) + m - 1) / (n + m), by counting who can
    be stranger than most others (Barber et al., theorems 1 and 4, one end at a time).
    """
    n, number_of, level = sum(folds), len(folds), (1 - coverage) / 2
    missed = [2 * (level * (n + 1) + number_of - 1) / (n + number_of)]
    if len(set(folds)) == 1:
        missed.append((2 * level * (n + 1) + folds[0] - 1) / (n + folds[0]))
    return max(0.0, 1 - 2 * min(missed))
