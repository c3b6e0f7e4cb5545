"""The scores Z_j of every row of a batch: what a recalibrator has learnt, in the form that a result asks it in.

A result (:class:`nearcal.Recalibrated`) asks for a statistic of all rows. Whoever knows the scores of rows goes through
them in chunks, hands out the law of each chunk (:mod:`nearcal.recalibration.score_laws`), and joins the answers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._sample_weights import PointWeights
from nearcal.distributions import Distribution
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.fade import (
    expected_share,
    fade_curve,
)
from nearcal.recalibration.neighborhoods import Rows
from nearcal.recalibration.score_laws import ScoreLaw
from nearcal.recalibration.steps import EqualSteps

if TYPE_CHECKING:
    from nearcal.recalibration.result import Recalibrated

Answers: TypeAlias = tuple[FloatArray, ...]
Statistic: TypeAlias = Callable[[ScoreLaw, Distribution, Rows], Answers]
OfBase: TypeAlias = Callable[[Distribution, Rows], Answers]

_CHUNK = 2**16  # values of the response looked at together where rows share their scores


class ScoresOfRows(ABC):
    """The scores Z_j of a batch of rows."""

    is_continuous: bool
    has_density: bool
    n_cal: int | None = None  # the (effective) number of calibration points behind all rows, if there are such
    expected_faded: float | None = None  # the share of rows like the calibration set that fade, where any do

    @abstractmethod
    def take(self, rows: IntArray) -> "ScoresOfRows":
        """Return the scores of the chosen rows."""

    @abstractmethod
    def gather(
        self,
        base: Distribution,
        statistic: Statistic,
        of_base: OfBase,
        *,
        columns: int = 1,
        table: bool = False,
        keep: bool = True,
    ) -> Answers:
        """Compute a statistic of every row, chunk by chunk.

        Parameters
        ----------
        base : Distribution
            The base distributions of all rows.
        statistic : callable
            Maps (law of the scores, base distributions, row numbers) of a chunk to arrays with one row each.
        of_base : callable
            The same statistic of base distributions alone, for rows that are left as they are.
        columns : int
            The number of values asked for in each row, for planning memory.
        table : bool
            Whether a table of rows × neighbours is made on the way.
        keep : bool
            Whether neighbourhoods may be kept for the next question.
        """

    def effective_size(self, rows: int) -> FloatArray:
        """Return the number of equally weighted scores that would tell as much, shape (rows,)."""
        return np.full(rows, np.nan)

    def radius(self, rows: int) -> FloatArray:
        """Return the distance at which the weights of calibration points vanish, shape (rows,): infinite if none do."""
        return np.full(rows, np.inf)

    def isolation(self) -> tuple[FloatArray, FloatArray] | None:
        """Return how isolated rows are, and calibration points, in increasing order, where that is known beforehand."""
        return None

    @property
    def knows_isolation(self) -> bool:
        """Whether these scores themselves tell how near rows are to calibration points."""
        return self.isolation() is not None

    @property
    def loudest(self) -> "Recalibrated | None":
        """Whose neighbourhoods tell how near rows are to calibration points, where these scores have none."""
        return None

    def trust_in(self, rows: int) -> FloatArray:
        """Return what share of the recalibration each row has, shape (rows,): 1 where nothing fades."""
        return np.ones(rows)

    @abstractmethod
    def faded(self, trust: FloatArray, false_alarm: float) -> "ScoresOfRows":
        """Return scores drawn to those of the base, N(0, 1), where the trust in a row, of shape (n,), is below 1."""


class Untouched(ScoresOfRows):
    """Standard Normal scores in every row: predictions stay as they are, to the last bit."""

    has_density = True
    is_continuous = True

    def take(self, rows: IntArray) -> Self:
        """Return the same."""
        return self

    def gather(self, base: Distribution, statistic: Statistic, of_base: OfBase, **plan: Any) -> Answers:
        """Ask the base distributions."""
        return of_base(base, slice(0, len(base)))

    def effective_size(self, rows: int) -> FloatArray:
        """Return zeros: nothing was learnt."""
        return np.zeros(rows)

    def faded(self, trust: FloatArray, false_alarm: float) -> Self:
        """Return the same: rows have their base distribution already."""
        return self


class OneLaw(ScoresOfRows):
    """One law for all rows alike: global, isotonic and conformal recalibration, variance scaling."""

    n_cal: int

    def __init__(self, law: EqualSteps | Curve, n_cal: int, weights: PointWeights | None = None) -> None:
        self.law = law
        self.size = float(n_cal) if weights is None else weights.effective_size
        self.n_cal = round(self.size)
        self.has_density = isinstance(law, Curve)
        self.is_continuous = isinstance(law, Curve) and not law.line.has_atoms()

    def take(self, rows: IntArray) -> Self:
        """Return the same: rows do not differ."""
        return self

    def gather(
        self, base: Distribution, statistic: Statistic, of_base: OfBase, *, columns: int = 1, table: bool = False,
        keep: bool = True,
    ) -> Answers:  # fmt: skip
        """Go through rows in chunks that bound memory."""
        knots = 1
        if table:  # the rule of a curve is costly: not for a question that makes no table
            knots = self.law.size if isinstance(self.law, EqualSteps) else self.law.rule[0].shape[1]
        width = max(columns, base._values_per_row, knots)
        return in_chunks(base, max(_CHUNK // width, 1), lambda part, rows: statistic(self.law, part, rows))

    def effective_size(self, rows: int) -> FloatArray:
        """Return the number of calibration points, or their effective size where they have weights."""
        return np.full(rows, self.size)

    def faded(self, trust: FloatArray, false_alarm: float) -> ScoresOfRows:
        """Return one law, drawn to that of the base row by row."""
        from nearcal.recalibration.faded_law import FadedLaw

        return FadedLaw(self, trust, false_alarm)


class CurveOfEachRow(ScoresOfRows):
    """A table of score quantiles a row, from a function of the position: a quantile network."""

    has_density = True

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        self.is_continuous = not curve.line.has_atoms()

    def take(self, rows: IntArray) -> "CurveOfEachRow":
        """Return the scores of the chosen rows."""
        return CurveOfEachRow(self.curve.take(rows))

    def faded(self, trust: FloatArray, false_alarm: float) -> "CurveOfEachRow":
        """Return curves drawn to that of the base."""
        return CurveOfEachRow(fade_curve(self.curve, trust, None))

    def gather(
        self, base: Distribution, statistic: Statistic, of_base: OfBase, *, columns: int = 1, table: bool = False,
        keep: bool = True,
    ) -> Answers:  # fmt: skip
        """Go through rows in chunks that bound memory."""
        width = max(columns, base._values_per_row, self.curve.line.values.shape[1])

        def ask(part: Distribution, rows: slice) -> Answers:
            return statistic(self.curve.take(np.arange(rows.start, rows.stop)), part, rows)

        return in_chunks(base, max(_CHUNK // width, 1), ask)


def in_chunks(base: Distribution, size: int, ask: Callable[[Distribution, slice], Answers]) -> Answers:
    """Ask a question of so many rows at a time, and join the answers."""
    n = len(base)
    if n <= size:
        return ask(base, slice(0, n))
    chunks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    return join_answers([ask(base[chunk], chunk) for chunk in chunks])


class CombinedScores(CurveOfEachRow):
    """What several recalibrators make of rows together, as a table of score quantiles a row.

    Parameters
    ----------
    curve : Curve
        Of the combination.
    parts : sequence of Recalibrated
        What each of them makes of the rows, and their ``weights``.
    trust : ndarray of shape (n,), optional
        What share of the curve each row has already, where the rest was drawn to the base; all by default.
    """

    def __init__(
        self, curve: Curve, parts: "Sequence[Recalibrated]", weights: FloatArray, trust: FloatArray | None = None
    ) -> None:
        super().__init__(curve)
        self.parts, self.weights, self.trust = tuple(parts), weights, trust
        rates = [part.expected_faded for part in parts if part.expected_faded is not None]
        self.expected_faded = max(rates, default=None)
        self.n_cal = max((part.n_cal for part in parts if part.n_cal is not None), default=None)

    @property
    def loudest(self) -> "Recalibrated | None":
        """The part of the greatest weight, of those that look at neighbours if there are any."""
        order = sorted(range(len(self.parts)), key=lambda place: -self.weights[place])
        parts = [self.parts[place] for place in order]
        heard = (part if part.scores.knows_isolation else part.scores.loudest for part in parts)
        return next((part for part in heard if part is not None), None)

    def take(self, rows: IntArray) -> "CombinedScores":
        """Return the scores of the chosen rows."""
        trust = None if self.trust is None else self.trust[rows]
        return CombinedScores(self.curve.take(rows), [part[rows] for part in self.parts], self.weights, trust)

    def effective_size(self, rows: int) -> FloatArray:
        """Return the mean of the parts' effective sizes, by their weights."""
        return self._average([part.effective_size for part in self.parts])

    def trust_in(self, rows: int) -> FloatArray:
        """Return the mean of the parts' trust, by their weights, as far as the rows are trusted at all."""
        known = self._average([part.trust for part in self.parts])
        return known if self.trust is None else np.minimum(known, self.trust)

    def faded(self, trust: FloatArray, false_alarm: float) -> "CombinedScores":
        """Return curves drawn to that of the base."""
        held = trust if self.trust is None else self.trust * trust
        scores = CombinedScores(fade_curve(self.curve, trust, None), self.parts, self.weights, held)
        scores.expected_faded = max(expected_share(false_alarm), self.expected_faded or 0.0)
        return scores

    def _average(self, values: Sequence[FloatArray]) -> FloatArray:
        total = np.zeros(len(values[0]))
        for weight, own in zip(self.weights, values, strict=True):
            total = total + weight * own
        return total


def answer_by_trust(
    law: ScoreLaw,
    base: Distribution,
    rows: Rows,
    statistic: Statistic,
    of_base: OfBase,
    trust: FloatArray,
    fade: Callable[[ScoreLaw, FloatArray, IntArray], ScoreLaw],
    left_alone: NDArray[np.bool_] | None = None,
) -> Answers:
    """Return a statistic of a chunk of rows, of which some are trusted in part, and some keep their base.

    The others are asked as if these were not there: no bit of theirs depends on them.
    """
    answers = statistic(law, base, rows)
    left_alone = trust == 0 if left_alone is None else left_alone
    for chosen in (np.flatnonzero((trust < 1) & ~left_alone), np.flatnonzero(left_alone)):
        if len(chosen) == 0:
            continue
        numbers = rows.start + chosen if isinstance(rows, slice) else rows[chosen]
        if left_alone[chosen[0]]:
            own = of_base(base[chosen], numbers)
        else:
            own = statistic(fade(law, trust[chosen], chosen), base[chosen], numbers)
        for answer, of_chosen in zip(answers, own, strict=True):
            answer[chosen] = of_chosen
    return answers


def join_answers(parts: list[Answers]) -> Answers:
    """Return the answers of chunks of rows as one."""
    return parts[0] if len(parts) == 1 else tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))
