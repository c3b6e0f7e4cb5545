"""The scores of near calibration points: Algorithm 1, in chunks of rows and on several threads."""

from collections.abc import Callable
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
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
from nearcal.recalibration.scores_of_rows import Answers, OfBase, ScoresOfRows, Statistic, answer_by_trust, join_answers
from nearcal.recalibration.steps import Steps
from nearcal.recalibration.weighted_steps import steps_of
from nearcal.recalibration.workers import Workers
from nearcal.space import MOST_PAIRS, NeighborIndex

_FADE = LearntFade(FALSE_ALARM, "base", np.inf, 1.0, None)  # of trust that was given


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

    knows_isolation = True

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

    def tables(self, base: Distribution, at: FloatArray) -> Answers:
        """Return quantiles of scores at levels Φ(at) before any fading, and what describes every row, in one pass.

        Rows without a neighbourhood have those of N(0, 1). Whoever asks tells of rows that fade.
        """
        self._was_told = True

        def ask(near: Neighborhoods, part: Distribution, rows: Rows) -> Answers:
            law = self.law(near)
            assert isinstance(law, Curve)
            table = law.before(np.tile(at, (len(near.which), 1)))
            table[near.which < 0] = at
            return (table, *describe(near))

        return self.visit(base, ask, columns=len(at), table=True, keep=False)

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
            results[chunk.start] = join_answers(answers)

        self.workers.run(task, chunks)
        if self.expected_faded is not None and not self._was_told:
            self._was_told = True
            warn_of_faded(sum(faded.values()), n, self.expected_faded)
        if len(chunks) == 1:
            return results[0]
        joined = join_answers([results.pop(chunk.start) for chunk in chunks])
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


def describe(near: Neighborhoods) -> Answers:
    """Return the effective size, the radius and the trust of every row."""
    trust = np.where(near.which < 0, 0.0, 1.0) if near.trust is None else near.trust
    return near.per_row(near.effective_size, 0.0), near.per_row(near.radius, np.nan), trust


def _put_back(values: FloatArray, order: IntArray) -> FloatArray:
    """Return values in the place of the row each belongs to, given the rows in the order they were computed."""
    placed = np.empty_like(values)
    placed[order] = values
    return placed
