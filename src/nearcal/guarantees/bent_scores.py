"""Scores of rows followed by one increasing map, common to all rows or to those of a cell: the law of a promise."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions import Distribution, as_level_row, central_levels
from nearcal.distributions.base import overflow_is_infinite
from nearcal.guarantees.promises import Guarantee
from nearcal.recalibration.conformal import ConformalDistribution
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.neighborhoods import Rows
from nearcal.recalibration.order_statistics import OrderStatistics
from nearcal.recalibration.polish import LearntPolish
from nearcal.recalibration.result import Neighbors, Recalibrated, WeightedSample
from nearcal.recalibration.score_laws import ScoreLaw
from nearcal.recalibration.scores_of_rows import Answers, OfBase, ScoresOfRows, Statistic

_ROUND_TRIP = 1e-9  # relatively more than a score changes on its way to a response and back: equal ones stay inside


class BentScores(ScoresOfRows):
    """The scores that a recalibrator gives to rows, bent by the map of each row's cell.

    Parameters
    ----------
    inner : Recalibrated
        What the recalibrator makes of the rows.
    cells : tuple of OrderStatistics
        The scores under it of points set aside, of every cell.
    which : ndarray of shape (m,)
        The cell of each row.
    guarantee : Guarantee
        What is promised.
    refuse : callable, optional
        Raises where an end of a row in the given cell is infinite; called with the cell and what was asked.
    """

    has_density = True

    def __init__(
        self,
        inner: Recalibrated,
        cells: tuple[OrderStatistics, ...],
        which: IntArray,
        guarantee: Guarantee,
        refuse: Callable[[int, str], None] | None = None,
    ) -> None:
        self.inner, self.cells, self.which = inner, cells, which
        self.guarantee, self.refuse = guarantee, refuse
        self.is_continuous = inner.scores.is_continuous and not any(cell.has_atoms for cell in cells)
        self.n_cal, self.expected_faded = inner.n_cal, inner.expected_faded

    @property
    def loudest(self) -> Recalibrated | None:
        """Whose neighbourhoods tell how near rows are to calibration points."""
        return self.inner if self.inner.scores.knows_isolation else self.inner.scores.loudest

    def take(self, rows: IntArray) -> "BentScores":
        """Return the scores of the chosen rows."""
        return BentScores(self.inner[rows], self.cells, self.which[rows], self.guarantee, self.refuse)

    def faded(self, trust: FloatArray, false_alarm: float) -> "BentScores":
        """Return the same map of scores that have faded before it."""
        return BentScores(self.inner.faded(trust, false_alarm), self.cells, self.which, self.guarantee, self.refuse)

    def effective_size(self, rows: int) -> FloatArray:
        """Return that of the recalibrator."""
        return self.inner.effective_size

    def trust_in(self, rows: int) -> FloatArray:
        """Return that of the recalibrator."""
        return self.inner.trust

    def gather(self, base: Distribution, statistic: Statistic, of_base: OfBase, **plan: Any) -> Answers:
        """Ask the recalibrator's scores chunk by chunk, and bend the law of each chunk."""

        def bent(law: ScoreLaw, part: Distribution, rows: Rows) -> Answers:
            assert isinstance(law, Curve)
            return self._by_cell(rows, part, lambda cell, own: _bend(cell, law.take(own)), statistic)

        def of_base_alone(part: Distribution, rows: Rows) -> Answers:
            return self._by_cell(rows, part, lambda cell, own: cell.thin_law, statistic)

        return self.inner.scores.gather(base, bent, of_base_alone, **plan)

    def _by_cell(
        self, rows: Rows, part: Distribution, law: Callable[[OrderStatistics, IntArray], Curve], statistic: Statistic
    ) -> Answers:
        which = self.which[rows]
        present = np.unique(which)
        everyone = np.arange(len(which))
        if len(present) == 1:
            return statistic(law(self.cells[present[0]], everyone), part, rows)
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        answers: Answers = ()
        for cell in present:
            own = everyone[which == cell]
            of_cell = statistic(law(self.cells[cell], own), part[own], numbers[own])
            answers = answers or tuple(np.empty((len(which), *one.shape[1:])) for one in of_cell)
            for answer, values in zip(answers, of_cell, strict=True):
                answer[own] = values
        return answers


def _bend(cell: OrderStatistics, curve: Curve) -> Curve:
    return LearntPolish(cell.thin_law.line.scores[0], cell.thin_law.line.values[0]).bend(curve)


class GuaranteedDistribution(ConformalDistribution):
    """Recalibrated predictive distributions with a promise, made by :class:`GuaranteedRecalibrator`.

    ``interval``, :meth:`quantile_bounds` and :meth:`cdf_bounds` have the promise: their ends are quantiles of the
    recalibrated prediction at levels that points set aside turned out to have. An end is infinite (or the end of the
    support) where so few points cannot give what is asked for. All other statistics are of one distribution inside:
    the recalibrated one, with its local shape, bent by a curve through about ∛n of n such levels.
    """

    scores: BentScores

    @property
    def guarantee(self) -> Guarantee:
        """What is promised, in words and numbers."""
        return self.scores.guarantee

    def interval(self, coverage: Any = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return a central interval with the promise, at a coverage that is a scalar or (q,)."""
        central_levels(coverage)
        level = np.asarray(coverage, dtype=np.float64)
        return self._ends(lambda cell: cell.central(level), level.shape, f"interval({coverage})")

    def quantile_bounds(self, p: Any) -> tuple[FloatArray, FloatArray]:
        """Return quantiles (lower, upper): Y < lower no more often than p, Y <= upper no less; each with the promise.

        Parameters
        ----------
        p : array_like
            Probabilities: a scalar or (q,).

        Returns
        -------
        lower, upper : ndarray
            Each (m,) for a scalar, else (m, q), for m rows.
        """
        levels = as_level_row(p)
        return self._ends(lambda cell: cell.quantile_bounds(levels), levels.shape, None)

    def cdf_bounds(self, y: Any) -> tuple[FloatArray, FloatArray]:
        """Return between what P(Y <= y) lies, as far as points set aside can tell; shapes as in ``cdf``."""

        def edge(side: int) -> Callable[[FloatArray], FloatArray]:
            def evaluate(y: FloatArray) -> FloatArray:
                z, edges = self.scores.inner._unbounded_z(y), np.empty(y.shape)
                for cell in np.unique(self.scores.which):
                    own = self.scores.which == cell
                    edges[own] = self.scores.cells[cell].cdf_bounds(z[own])[side]
                return edges

            return evaluate

        return self._evaluate(edge(0), y, "y"), self._evaluate(edge(1), y, "y")

    def _ends(self, ask: Callable[[OrderStatistics], Any], shape: tuple[int, ...], asked: str | None) -> Any:
        """Return the responses at the scores that the cell of each row answers with."""
        scores, size = self.scores, int(np.prod(shape, dtype=int))
        table = np.empty((len(scores.cells), 2, size))
        for cell in np.unique(scores.which):
            lower, upper = ask(scores.cells[cell])
            table[cell] = np.reshape(lower, size), np.reshape(upper, size)
            if scores.refuse is not None and asked is not None and np.isinf(table[cell]).any():
                scores.refuse(int(cell), asked)
        with overflow_is_infinite():
            values = scores.inner._from_z(outward(table).reshape(len(table), 2 * size)[scores.which])
        lower, upper = values[:, :size], values[:, size:]
        return (lower[:, 0], upper[:, 0]) if shape == () else (lower, upper)

    def neighbors(self, rows: Any) -> Neighbors:
        """Return the calibration points that speak for some rows; see :meth:`Recalibrated.neighbors`."""
        return self.scores.inner.neighbors(rows)

    def weighted_sample(self, rows: Any) -> WeightedSample:
        """Return the output of Algorithm 1 for some rows, which no promise has touched."""
        return self.scores.inner.weighted_sample(rows)


class PromisedReading(NamedTuple):
    """Where a recalibrated prediction is read under a promise that is made to everybody alike.

    ``ends`` are the scores of an interval's ends, ``law`` maps all other scores, and ``words`` is the promise.
    """

    ends: tuple[float, float]
    law: Curve
    words: str


def outward(ends: FloatArray) -> FloatArray:
    """Move scores (n, 2, q) of lower and upper ends apart by what rounding may have moved them together."""
    room = _ROUND_TRIP * np.maximum(np.abs(ends), 1.0)
    return ends + np.where(np.isfinite(ends), room, 0.0) * [[[-1.0], [1.0]]]
