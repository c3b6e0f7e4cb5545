"""Predictions whose responses are not known yet, each under its ticket, at most so many."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, check_count
from nearcal._errors import InvalidInputError
from nearcal._saved import array, check_fields, count, float_array, instance, optional, require, savable, tuple_of
from nearcal.distributions import (
    Distribution,
    Gamma,
    Laplace,
    LogNormal,
    Mixture,
    Normal,
    Quantiles,
    Samples,
    StudentT,
)
from nearcal.distributions.base import ParametricDistribution

_FAMILIES: dict[str, Any] = {family.__name__: family for family in (Normal, LogNormal, Gamma, StudentT, Laplace)}
_MOST_TICKETS = 2**62
_LARGEST = np.finfo(np.float64).max  # no response is on the other side of it


class Waiting(NamedTuple):
    """A prediction: its base distribution, one row, its place (d,) if it has one, and the quantiles predicted, (L,)."""

    base: Distribution
    place: FloatArray | None
    quantiles: FloatArray


@savable
class WaitingRoom:
    """Predictions in the order of their tickets, which count up from 0; the oldest make room for new ones."""

    def __init__(self, most: int) -> None:
        self.most = check_count(most, "most_waiting")
        self.next_ticket = 0
        self.n_dropped = 0
        self._waiting: dict[int, Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def tickets(self) -> NDArray[np.int64]:
        """The tickets of all that wait, oldest first."""
        return np.array(list(self._waiting), dtype=np.int64)

    def require_room(self, n: int) -> None:
        """Refuse more predictions at a time than there is room for in all."""
        if n > self.most:
            raise InvalidInputError(
                f"dist_new must have at most most_waiting = {self.most} rows at a time, got {n}: the first would be "
                "dropped at once; predict in parts, or give a larger most_waiting"
            )

    def enter(self, base: Distribution, space: FloatArray | None, quantiles: FloatArray) -> NDArray[np.int64]:
        """Keep predictions of n rows, and return their tickets."""
        tickets = np.arange(self.next_ticket, self.next_ticket + len(base))
        for row, ticket in enumerate(tickets.tolist()):
            place = None if space is None else space[row].copy()
            self._waiting[ticket] = Waiting(base[row : row + 1], place, np.clip(quantiles[row], -_LARGEST, _LARGEST))
        self.next_ticket += len(base)
        while len(self._waiting) > self.most:
            del self._waiting[next(iter(self._waiting))]
            self.n_dropped += 1
        return tickets

    def find(self, tickets: Any) -> dict[int, Waiting]:
        """Return the predictions of some tickets, refusing tickets that nothing waits under and those given twice."""
        found: dict[int, Waiting] = {}
        for ticket in as_tickets(tickets):
            if ticket in found:
                raise InvalidInputError(f"tickets must differ from each other, got {ticket} twice; tell each once")
            if ticket not in self._waiting:
                raise InvalidInputError(f"tickets must be of predictions that wait, got {ticket}: {self._why(ticket)}")
            found[ticket] = self._waiting[ticket]
        return found

    def _why(self, ticket: int) -> str:
        if not 0 <= ticket < self.next_ticket:
            none = f"there were {self.next_ticket} so far, 0 to {self.next_ticket - 1}" if self.next_ticket else "none"
            return f"no prediction had it ({none}); take it from the tickets of what predict returned"
        dropped = (
            f", or dropped with {self.n_dropped} in all that were older than the newest {self.most} (most_waiting)"
            if self.n_dropped
            else ""
        )
        return f"it was observed or discarded before{dropped}; each is told once"

    def all(self) -> Iterable[Waiting]:
        """Return all predictions that wait, oldest first."""
        return self._waiting.values()

    def leave(self, tickets: Iterable[int]) -> None:
        """Let go of predictions."""
        for ticket in tickets:
            del self._waiting[ticket]

    # ---- files ------------------------------------------------------------------------------------------------------

    def _to_saved(self) -> dict[str, Any]:
        waiting = list(self._waiting.values())
        return {
            "most": self.most,
            "next_ticket": self.next_ticket,
            "n_dropped": self.n_dropped,
            "tickets": self.tickets if waiting else None,
            "quantiles": np.array([one.quantiles for one in waiting]) if waiting else None,
            "places": tuple(one.place for one in waiting),
            "bases": tuple(_describe(one.base, ticket) for ticket, one in self._waiting.items()),
        }

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        held = check_fields(
            saved,
            {
                "most": count(),
                "next_ticket": count(0, _MOST_TICKETS),
                "n_dropped": count(0, _MOST_TICKETS),
                "tickets": optional(array(np.int64, (None,))),
                "quantiles": optional(array(np.float64, (None, None))),
                "places": tuple_of(optional(array(np.float64, (None,)))),
                "bases": tuple_of(instance(dict)),
            },
        )
        room = cls(held["most"])
        room.next_ticket, room.n_dropped = held["next_ticket"], held["n_dropped"]
        tickets = [] if held["tickets"] is None else held["tickets"].tolist()
        quantiles = [] if held["quantiles"] is None else list(held["quantiles"])
        numbers = [-1, *tickets, room.next_ticket]
        require(all(a < b for a, b in pairwise(numbers)), "tickets must increase, from 0 to below next_ticket")
        fits = len(tickets) == len(quantiles) == len(held["places"]) == len(held["bases"]) <= room.most
        require(fits, "as many tickets, quantiles, places and bases must wait, at most as many as most")
        for ticket, base, place, row in zip(tickets, held["bases"], held["places"], quantiles, strict=True):
            room._waiting[ticket] = Waiting(_restore(base), None if place is None else place.copy(), row.copy())
        return room


def as_tickets(tickets: Any) -> list[int]:
    """Return tickets as whole numbers: one, or a sequence of them."""
    numbers = np.atleast_1d(np.asarray(tickets))
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1 or not numbers.size:
        raise InvalidInputError(
            f"tickets must be a whole number or a sequence of them of shape (n,), got dtype {numbers.dtype} and shape "
            f"{numbers.shape}; take them from the tickets of what predict returned"
        )
    return numbers.tolist()


def _describe(base: Distribution, ticket: int) -> dict[str, Any]:
    """Return a row of a distribution as arrays; those that cannot be told so are named."""
    name = type(base).__name__
    if isinstance(base, ParametricDistribution) and _FAMILIES.get(name) is type(base):
        return {"kind": name, "parameters": {key: np.array(getattr(base, key)) for key in base._parameter_names}}
    if type(base) is Quantiles:
        return {"kind": name, "levels": base.levels, "values": base.values, "tails": base.tails}
    if type(base) is Samples and (base.weights == base.weights[0, 0]).all():
        return {"kind": name, "draws": base.draws, "tails": base.tails}
    if type(base) is Mixture:
        components = [_describe(component, ticket) for component in base.components]
        return {"kind": name, "weights": base.weights, "components": components}
    what = "weighted draws" if type(base) is Samples else f"a {name}"
    raise InvalidInputError(
        f"predictions that wait for their responses must be of nearcal's own families to be saved, got {what} under "
        f"ticket {ticket}; observe or discard it first"
    )


def _restore(saved: Mapping[str, Any]) -> Distribution:
    """Return the row of a distribution; constructors check the values they are given."""
    row = array(np.float64, (1, None))
    match saved:
        case {"kind": "Quantiles", "levels": levels, "values": values, "tails": tails}:
            base: Distribution = Quantiles(float_array(1)("levels", levels), row("values", values), tails)
        case {"kind": "Samples", "draws": draws, "tails": tails}:
            base = Samples(row("draws", draws), tails=tails)
        case {"kind": "Mixture", "weights": weights, "components": [*components]}:
            mixture = Mixture(row("weights", weights), [_restore(component) for component in components])
            base = mixture._with(weights=np.array(weights))  # not normalised again: that would change a bit
        case {"kind": str(kind), "parameters": dict(parameters)} if kind in _FAMILIES:
            base = _FAMILIES[kind](**{name: array(np.float64, (1,))(name, value) for name, value in parameters.items()})
        case _:
            raise InvalidInputError(f"bases must be of nearcal's own families, got {saved.get('kind')!r}")
    return base
