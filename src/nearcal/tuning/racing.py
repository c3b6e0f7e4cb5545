"""Racing: candidates that do clearly worse than the best on some rows are not scored on the others.

Rows are drawn once, without looking at their order in the calibration set, and scored in heats. After each, candidates
leave whose scores are worse than the best's by more than three standard errors of the difference, row by row. What they
had is kept: their difference from the best is known as well as it had to be.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal.tuning.candidates import Candidate
from nearcal.tuning.choice import mean_and_error, standing

Scores = dict[Candidate, FloatArray]
EffortName = Literal["quick", "default", "thorough"]
EFFORT_NAMES: tuple[EffortName, ...] = get_args(EffortName)

_BEHIND = 3.0  # standard errors that a candidate must be worse to leave


@dataclass(frozen=True)
class Effort:
    """How much is tried.

    Attributes
    ----------
    heats : tuple of int
        After how many rows candidates may leave.
    rows : int or None
        How many rows decide at the end; None for all.
    spaces : int
        The number of spaces, the best, in which corrections are tried.
    """

    heats: tuple[int, ...]
    rows: int | None
    spaces: int


EFFORTS: dict[EffortName, Effort] = {
    "quick": Effort((100, 300), 1000, 1),
    "default": Effort((250, 1000), 2000, 3),
    "thorough": Effort((), None, 3),
}


def effort_of(effort: EffortName | Effort) -> Effort:
    """Return what is tried, given by name or as it is."""
    return effort if isinstance(effort, Effort) else EFFORTS[effort]


@dataclass(frozen=True)
class Clock:
    """When time is up, if ever: so many seconds after this was made."""

    seconds: float | None = None
    began: float = field(default_factory=time.monotonic)

    @property
    def is_up(self) -> bool:
        """Whether nothing more shall be begun."""
        return self.seconds is not None and time.monotonic() - self.began >= self.seconds


class Race:
    """The rows that candidates are scored on, heat by heat.

    Parameters
    ----------
    order : ndarray
        Rows that can be scored, in the order in which they are drawn.
    n : int
        The number of calibration rows.
    effort : Effort
    clock : Clock
    units, weights : ndarray of shape (n,), optional
        Rows of one unit depend on each other; rows count by their weights.

    Attributes
    ----------
    heats : list of ndarray
        The rows that each heat adds.
    has_final : bool
        Whether there are rows left after all heats that the effort asks for.
    """

    def __init__(
        self,
        order: IntArray,
        n: int,
        effort: Effort,
        clock: Clock,
        units: IntArray | None = None,
        weights: FloatArray | None = None,
    ) -> None:
        most = len(order) if effort.rows is None else min(len(order), effort.rows)
        ends = [size for size in effort.heats if size < most]
        self.order = order[:most]
        self.heats = [np.sort(part) for part in np.split(self.order, ends)]
        self.has_final = 0 < len(ends) == len(effort.heats)
        self.n, self.clock, self.units, self.weights = n, clock, units, weights

    @property
    def rows(self) -> IntArray:
        """The rows that decide, in increasing order."""
        return np.sort(np.concatenate(self.heats))

    def some(self, most: int) -> IntArray:
        """Return the first of the rows that decide, in increasing order: so many, or all."""
        return np.sort(self.order[: min(most, len(self.rows))])

    def run(
        self,
        entrants: Sequence[Candidate],
        score: Callable[[Sequence[Candidate], IntArray, Scores], None],
        rival: FloatArray | None = None,
        most: int | None = None,
    ) -> Scores:
        """Return the scores of all entrants, of shape (n,) each, NaN at rows that they were not scored on.

        ``score`` writes those of some candidates at some rows, and takes out whom it has no time for. Entrants must
        keep up with one another and with a ``rival`` whose scores are known; of those that do, ``most`` go to the
        final. When time is up, entrants without a rival have had their last heat, and its rows decide; others are not
        scored to the end.
        """
        scores = {entrant: np.full(self.n, np.nan) for entrant in entrants}
        staying, seen = list(entrants), np.zeros(0, dtype=np.intp)
        for number, heat in enumerate(self.heats):
            if number > 0:
                if self.clock.is_up:
                    self.heats = self.heats[:number] if rival is None else self.heats
                    break
                staying = self._keeping_up(scores, staying, rival, seen)
                staying = staying[:most] if self.has_final and number + 1 == len(self.heats) else staying
            score(staying, heat, scores)
            staying = [candidate for candidate in staying if candidate in scores]
            seen = np.concatenate([seen, heat])
        return scores

    def _keeping_up(
        self, scores: Scores, staying: Sequence[Candidate], rival: FloatArray | None, rows: IntArray
    ) -> list[Candidate]:
        """Return who may still be the best, the best on these rows first."""
        if not staying:
            return []
        ranking = sorted(staying, key=lambda candidate: standing(self.compare(scores[candidate], rows)[0]))
        ahead = [scores[ranking[0]], *([] if rival is None else [rival])]
        best = min(ahead, key=lambda own: standing(self.compare(own, rows)[0]))

        def is_far_behind(candidate: Candidate) -> bool:
            mean, error = self.compare(scores[candidate] - best, rows)
            return mean > _BEHIND * error

        return [candidate for candidate in ranking if not is_far_behind(candidate)]

    def compare(self, values: FloatArray, rows: IntArray) -> tuple[float, float]:
        """Return the mean of scores, or of differences, at some rows, and its standard error."""
        units = None if self.units is None else self.units[rows]
        return mean_and_error(values[rows], units, None if self.weights is None else self.weights[rows])

    def standings(self, scores: Scores) -> list[Candidate]:
        """Return candidates by their mean score, the best first.

        Who has left stands where the best does, plus the difference at the rows that both were scored on.
        """
        rows = self.rows
        whole = {one: self.compare(own, rows)[0] for one, own in scores.items() if not np.isnan(own[rows]).any()}
        if not whole:
            return []
        best = min(whole, key=lambda one: standing(whole[one]))
        for one, own in scores.items():
            if one not in whole:
                known = rows[~np.isnan(own[rows])]
                whole[one] = whole[best] + self.compare(own - scores[best], known)[0]
        return sorted(scores, key=lambda one: standing(whole[one]))
