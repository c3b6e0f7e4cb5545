"""The scores Z_j of every row of a batch: what a recalibrator has learnt, in the form that a result asks it in.

A result (:class:`nearcal.Recalibrated`) asks for a statistic of all rows. Whoever knows the scores of rows goes through
them in chunks, hands out the law of each chunk (:mod:`nearcal.recalibration.score_laws`), and joins the answers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self, TypeAlias

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal.distributions import Distribution, Normal
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.corrections import LearntCorrection, bend, correct
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.neighborhoods import Neighborhood, Neighborhoods, Rows
from nearcal.recalibration.reliability import OwnIsolation
from nearcal.recalibration.score_laws import CONTINUOUS_RULES, QuantileRule, ScoreLaw
from nearcal.recalibration.steps import EqualSteps, Steps
from nearcal.recalibration.workers import Workers
from nearcal.space import MOST_PAIRS, NeighborIndex

Answers: TypeAlias = tuple[FloatArray, ...]
Statistic: TypeAlias = Callable[[ScoreLaw, Distribution, Rows], Answers]
OfBase: TypeAlias = Callable[[Distribution, Rows], Answers]

_CHUNK = 2**16  # values of the response looked at together where rows share their scores


class ScoresOfRows(ABC):
    """The scores Z_j of a batch of rows."""

    is_continuous: bool
    has_density: bool
    n_cal: int | None = None  # the number of calibration points behind all rows, if there are such

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


class OneLaw(ScoresOfRows):
    """One law for all rows alike: global, isotonic and conformal recalibration, variance scaling."""

    n_cal: int

    def __init__(self, law: EqualSteps | Curve, n_cal: int) -> None:
        self.law, self.n_cal = law, n_cal
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
        """Return the number of calibration points."""
        return np.full(rows, float(self.n_cal))


class CurveOfEachRow(ScoresOfRows):
    """A table of score quantiles a row, from a function of the position: a quantile network."""

    has_density = True

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        self.is_continuous = not curve.line.has_atoms()

    def take(self, rows: IntArray) -> "CurveOfEachRow":
        """Return the scores of the chosen rows."""
        return CurveOfEachRow(self.curve.take(rows))

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
    ) -> None:
        self.index, self.points, self.neighborhood = index, points, neighborhood
        self.calibration, self.corrections, self.quantile_rule = calibration, corrections, quantile_rule
        self.workers, self.own_isolation = workers, own_isolation
        self.n_cal = len(calibration)
        self._kept: dict[tuple[int, int], Neighborhoods] = {}
        self._spent = 0  # bytes of what is kept; threads that add at once may lose count of a chunk, no more
        self.has_density = self.is_curve = quantile_rule in CONTINUOUS_RULES
        # equal scores make atoms
        self.is_continuous = self.is_curve and not calibration.has_ties
        for correction in corrections:
            self.is_continuous = self.is_continuous and correction.is_continuous

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle and copy take along: all but the neighbourhoods kept, which can be found again."""
        state = {**vars(self), "_kept": {}, "_spent": 0}
        for found_again in ("order", "pairs_per_row"):
            state.pop(found_again, None)
        return state

    def take(self, rows: IntArray) -> "LocalScores":
        """Return the scores of the chosen rows."""
        return LocalScores(
            self.index, self.points[rows], self.neighborhood, self.calibration, self.corrections, self.quantile_rule,
            self.workers, self.own_isolation,
        )  # fmt: skip

    # ---- neighbourhoods and laws ------------------------------------------------------------------------------------

    def find(self, rows: Rows, most: int = MOST_PAIRS) -> Neighborhoods:
        """Search the neighbourhoods of a chunk of rows, and correct the scores of neighbours.

        Within a radius, of the first rows: as many as have at most ``most`` neighbours together.
        """
        points = self.points[rows]
        near = self.neighborhood.find(self.index, points, rows, most)
        if not self.corrections:
            return near
        return correct(near, points[: len(near.which)], self.calibration.z, self.corrections)

    def law(self, near: Neighborhoods) -> ScoreLaw:
        """Return what the scores of a chunk of rows are distributed like: the quantile rule says."""
        steps = Steps(near, self.calibration, conservative=self.quantile_rule == "conservative")
        if not self.is_curve:
            return steps
        return bend(steps.curve(predictive=self.quantile_rule == "predictive"), self.corrections)

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
        """Compute a statistic, the effective size and the radius of every row in one pass, keeping nothing."""
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
        answers = statistic(self.law(near), base, rows)
        alone = np.flatnonzero(near.which < 0)
        if len(alone):
            numbers = rows.start + alone if isinstance(rows, slice) else rows[alone]
            for answer, of_alone in zip(answers, of_base(base[alone], numbers), strict=True):
                answer[alone] = of_alone
        return answers

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

        def task(chunk: slice) -> None:
            answers, start = [], chunk.start
            while start < chunk.stop:
                near = self._neighborhoods(slice(start, chunk.stop), order, keep=keep)
                parts = near.split(self.workers.pairs_per_chunk(), more) if table else [slice(0, len(near.which))]
                for part in parts:
                    own = slice(start + part.start, start + part.stop)
                    rows = own if order is None else order[own]
                    answers.append(ask(near.part(part), base if own == slice(0, n) else base[rows], rows))
                start += len(near.which)
            results[chunk.start] = _join(answers)

        self.workers.run(task, chunks)
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
            if keep and self._spent + near.nbytes <= self.workers.memory // 2:
                self._kept[key] = near
                self._spent += near.nbytes
        return near


def describe(near: Neighborhoods) -> Answers:
    """Return the effective size and the radius of every row."""
    return near.per_row(near.effective_size, 0.0), near.per_row(near.radius, np.nan)


def _join(parts: list[Answers]) -> Answers:
    return parts[0] if len(parts) == 1 else tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def _put_back(values: FloatArray, order: IntArray) -> FloatArray:
    """Return values in the place of the row each belongs to, given the rows in the order they were computed."""
    placed = np.empty_like(values)
    placed[order] = values
    return placed
