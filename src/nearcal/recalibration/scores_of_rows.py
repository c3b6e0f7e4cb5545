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
from nearcal._cached import cached_property
from nearcal._sample_weights import PointWeights
from nearcal.distributions import Distribution, Normal
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.corrections import LearntCorrection, bend, correct
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.fade import (
    FALSE_ALARM,
    LearntFade,
    expected_share,
    fade_curve,
    fade_steps,
    warn_of_faded,
)
from nearcal.recalibration.neighborhoods import Neighborhood, Neighborhoods, Rows
from nearcal.recalibration.reliability import OwnIsolation
from nearcal.recalibration.score_laws import CONTINUOUS_RULES, QuantileRule, ScoreLaw
from nearcal.recalibration.steps import EqualSteps, Steps
from nearcal.recalibration.weighted_steps import steps_of
from nearcal.recalibration.workers import Workers
from nearcal.space import MOST_PAIRS, NeighborIndex

if TYPE_CHECKING:
    from nearcal.recalibration.result import Recalibrated

Answers: TypeAlias = tuple[FloatArray, ...]
Statistic: TypeAlias = Callable[[ScoreLaw, Distribution, Rows], Answers]
OfBase: TypeAlias = Callable[[Distribution, Rows], Answers]

_FADE = LearntFade(FALSE_ALARM, "base", np.inf, 1.0, None)  # of trust that was given
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
        return _in_chunks(base, max(_CHUNK // width, 1), lambda part, rows: statistic(self.law, part, rows))

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

        return _in_chunks(base, max(_CHUNK // width, 1), ask)


def _in_chunks(base: Distribution, size: int, ask: Callable[[Distribution, slice], Answers]) -> Answers:
    n = len(base)
    if n <= size:
        return ask(base, slice(0, n))
    chunks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    return _join([ask(base[chunk], chunk) for chunk in chunks])


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
        return next((self.parts[p] for p in order if isinstance(self.parts[p].scores, LocalScores)), None)

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


class LocalScores(ScoresOfRows):
    """The scores of near calibration points, weighted by distance and corrected: Algorithm 1.

    No table of rows × neighbours is ever held for all rows: chunks of rows are searched and reduced on several threads
    within a memory budget. Neighbourhoods of earlier questions are kept while they fit in.

    Parameters
    ----------
    index : NeighborIndex
        The calibration points.
    points : ndarray of shape (m, d)
        The new rows in the scaled space.
    neighborhood : Neighborhood
        Which points to ask.
    calibration : CalibrationScores
        Their scores.
    corrections : sequence of LearntCorrection
        What is made of neighbours' scores, in this order.
    quantile_rule : str
        How the weighted scores are read.
    workers : Workers
    own_isolation : OwnIsolation
        How isolated calibration points are among themselves, for the reliability of rows.
    most_trust : ndarray of shape (m,), optional
        The trust that is known of the rows beforehand, by the ranges of columns; none where nothing fades.
    """

    def __init__(
        self,
        index: NeighborIndex,
        points: FloatArray,
        neighborhood: Neighborhood,
        calibration: CalibrationScores,
        corrections: tuple[LearntCorrection, ...],
        quantile_rule: QuantileRule,
        workers: Workers,
        own_isolation: OwnIsolation,
        most_trust: FloatArray | None = None,
    ) -> None:
        self.index, self.points, self.neighborhood = index, points, neighborhood
        self.calibration, self.corrections, self.quantile_rule = calibration, corrections, quantile_rule
        self.workers, self.own_isolation, self.most_trust = workers, own_isolation, most_trust
        self.n_cal = round(calibration.effective_size)
        self.fade: LearntFade | None = None
        self._was_told = False
        self._kept: dict[tuple[int, int], Neighborhoods] = {}
        self._spent = 0  # bytes of what is kept; threads that add at once may lose count of a chunk, no more
        self.has_density = self.is_curve = quantile_rule in CONTINUOUS_RULES
        # equal scores make atoms
        self.is_continuous, self.is_ordered = self.is_curve and not calibration.has_ties, self.is_curve
        for correction in corrections:
            self.is_continuous = self.is_continuous and correction.is_continuous
            self.is_ordered = self.is_ordered or correction.moves_scores
            self.fade = correction if isinstance(correction, LearntFade) else self.fade
        if self.fade is not None or most_trust is not None:
            self.expected_faded = expected_share(FALSE_ALARM if self.fade is None else self.fade.false_alarm)

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle and copy take along: all but the neighbourhoods kept, which can be found again."""
        state = {**vars(self), "_kept": {}, "_spent": 0}
        for found_again in ("order", "pairs_per_row"):
            state.pop(found_again, None)
        return state

    def take(self, rows: IntArray) -> "LocalScores":
        """Return the scores of the chosen rows."""
        trust = None if self.most_trust is None else self.most_trust[rows]
        return self._again(self.points[rows], trust, self.expected_faded)

    def faded(self, trust: FloatArray, false_alarm: float) -> "LocalScores":
        """Return the same with the lesser trust."""
        trust = trust if self.most_trust is None else np.minimum(trust, self.most_trust)
        expected = expected_share(false_alarm) if self.expected_faded is None else self.expected_faded
        return self._again(self.points, trust, expected)

    def _again(self, points: FloatArray, trust: FloatArray | None, expected_faded: float | None) -> "LocalScores":
        again = LocalScores(
            self.index, points, self.neighborhood, self.calibration, self.corrections, self.quantile_rule, self.workers,
            self.own_isolation, trust,
        )  # fmt: skip
        again.expected_faded = expected_faded
        return again

    # ---- neighbourhoods and laws ------------------------------------------------------------------------------------

    def find(self, rows: Rows, most: int = MOST_PAIRS) -> Neighborhoods:
        """Search the neighbourhoods of a chunk of rows, and correct the scores of neighbours.

        Within a radius, of the first rows: as many as have at most ``most`` neighbours together.
        """
        points = self.points[rows]
        near = self.neighborhood.find(self.index, points, rows, most)
        points = points[: len(near.which)]
        if self.is_ordered:
            near = near.by_score(self.calibration.ranks)
        if self.corrections:
            near = correct(near, points, self.calibration.z, self.corrections)
        return near if self.expected_faded is None else self._mark(near, points, rows)

    def _mark(self, near: Neighborhoods, points: FloatArray, rows: Rows) -> Neighborhoods:
        """Note the trust in rows; those that a radius leaves to all points have no isolation to speak of."""
        fade = self.fade or _FADE
        trust = np.ones(len(near.which))
        if self.fade is not None:
            by_isolation = fade.trust(self.neighborhood, self.neighborhood.isolation(near, self.index, points))
            trust = np.where(np.isinf(near.per_row(near.radius, np.nan)), 1.0, by_isolation)
        if self.most_trust is not None:
            trust = np.minimum(trust, self.most_trust[rows][: len(trust)])
        return fade.mark(near, trust, rows)

    def law(self, near: Neighborhoods) -> ScoreLaw:
        """Return what the scores of a chunk of rows are distributed like: the quantile rule says."""
        steps = Steps(near, self.calibration, conservative=self.quantile_rule == "conservative")
        if not self.is_curve:
            return steps
        return bend(steps.curve(predictive=self.quantile_rule == "predictive"), self.corrections)

    def _faded_law(self, law: ScoreLaw, trust: FloatArray, rows: IntArray) -> ScoreLaw:
        """Return what the scores of some rows of a chunk are distributed like, of which each is trusted in part."""
        if isinstance(law, Curve):
            return fade_curve(law.take(rows), trust, self._all_rows)
        assert isinstance(law, Steps)
        near = law.neighborhoods.part(rows)
        near = near if near.is_by_score else near.by_score(self.calibration.ranks)  # of equal scores each has its place
        part = Steps(near, self.calibration, conservative=law.conservative)
        return fade_steps(part, trust, None if self._all_rows is None else self.calibration)

    @cached_property
    def _all_rows(self) -> Curve | None:
        """The curve of all calibration scores, where rows fade to it."""
        if self.fade is None or self.fade.to != "global":
            return None
        return steps_of(self.calibration).curve(predictive=self.quantile_rule == "predictive")

    @cached_property
    def order(self) -> IntArray | None:
        """The rows in an order that makes chunks of near rows; None if the search gains nothing by it."""
        return self.index.order(self.points)

    @cached_property
    def pairs_per_row(self) -> int:
        """The number of neighbours of a row, or an estimate."""
        return self.neighborhood.pairs_per_row(self.index, self.points)

    # ---- chunks -----------------------------------------------------------------------------------------------------

    def gather(
        self, base: Distribution, statistic: Statistic, of_base: OfBase, *, columns: int = 1, table: bool = False,
        keep: bool = True,
    ) -> Answers:  # fmt: skip
        """Search and reduce chunk by chunk; where the search gains by it, rows near each other share a chunk."""
        return self.visit(
            base,
            lambda near, part, rows: self._answer(near, part, rows, statistic, of_base),
            columns=columns,
            table=self.is_curve or (table and not isinstance(base, Normal)),
            keep=keep,
        )

    def gather_described(self, base: Distribution, statistic: Statistic, of_base: OfBase, *, columns: int) -> Answers:
        """Compute a statistic and what describes every row in one pass, keeping nothing."""
        return self.visit(
            base,
            lambda near, part, rows: (*self._answer(near, part, rows, statistic, of_base), *describe(near)),
            columns=columns,
            table=self.is_curve or not isinstance(base, Normal),
            keep=False,
        )

    def _answer(
        self, near: Neighborhoods, base: Distribution, rows: Rows, statistic: Statistic, of_base: OfBase
    ) -> Answers:
        """Return a statistic of a chunk of rows, of which those without a neighbourhood keep their base."""
        law, alone = self.law(near), near.which < 0
        if near.trust is None and not alone.any():
            return statistic(law, base, rows)
        trust = np.where(alone, 0.0, 1.0) if near.trust is None else near.trust
        return answer_by_trust(law, base, rows, statistic, of_base, trust, self._faded_law, alone)

    def visit(
        self,
        base: Distribution,
        ask: Callable[[Neighborhoods, Distribution, Rows], Answers],
        *,
        columns: int = 1,
        table: bool = False,
        keep: bool = True,
    ) -> Answers:
        """Ask a question of the neighbourhoods of every chunk, and join the answers in the order of rows."""
        more = 0
        for correction in self.corrections:
            more += correction.more_knots if table else 0
        n = len(base)
        chunks = self.workers.chunks(n, max(self.pairs_per_row + more, columns, base._values_per_row))
        order = self.order if len(chunks) > 1 else None
        results: dict[int, Answers] = {}
        faded: dict[int, int] = {}

        def task(chunk: slice) -> None:
            answers, start = [], chunk.start
            faded[chunk.start] = 0
            while start < chunk.stop:
                near = self._neighborhoods(slice(start, chunk.stop), order, keep=keep)
                faded[chunk.start] += 0 if near.trust is None else int((near.trust < 1).sum())
                parts = near.split(self.workers.pairs_per_chunk(), more) if table else [slice(0, len(near.which))]
                for part in parts:
                    own = slice(start + part.start, start + part.stop)
                    rows = own if order is None else order[own]
                    answers.append(ask(near.part(part), base if own == slice(0, n) else base[rows], rows))
                start += len(near.which)
            results[chunk.start] = _join(answers)

        self.workers.run(task, chunks)
        if self.expected_faded is not None and not self._was_told:
            self._was_told = True
            warn_of_faded(sum(faded.values()), n, self.expected_faded)
        if len(chunks) == 1:
            return results[0]
        joined = _join([results.pop(chunk.start) for chunk in chunks])
        return joined if order is None else tuple(_put_back(values, order) for values in joined)

    def _neighborhoods(self, chunk: slice, order: IntArray | None, *, keep: bool) -> Neighborhoods:
        """Search the neighbourhoods of the first rows of a chunk, or take them from an earlier search of the same."""
        key = (chunk.start, chunk.stop)
        near = self._kept.get(key)
        if near is None:
            near = self.find(chunk if order is None else order[chunk], self.workers.pairs_per_chunk())
            size = near.nbytes if keep else 0
            if keep and self._spent + size <= self.workers.memory // 2:
                self._kept[key] = near
                self._spent += size
        return near


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


def describe(near: Neighborhoods) -> Answers:
    """Return the effective size, the radius and the trust of every row."""
    trust = np.where(near.which < 0, 0.0, 1.0) if near.trust is None else near.trust
    return near.per_row(near.effective_size, 0.0), near.per_row(near.radius, np.nan), trust


def _join(parts: list[Answers]) -> Answers:
    return parts[0] if len(parts) == 1 else tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def _put_back(values: FloatArray, order: IntArray) -> FloatArray:
    """Return values in the place of the row each belongs to, given the rows in the order they were computed."""
    placed = np.empty_like(values)
    placed[order] = values
    return placed
