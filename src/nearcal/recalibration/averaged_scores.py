"""The scores of rows as several neighbourhoods have them on average: a table of quantiles a row."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions import AVERAGED_SCORES as SCORES
from nearcal.distributions import Distribution
from nearcal.distributions.interpolation import Interpolated
from nearcal.recalibration.corrections import LearntCorrection, bend
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.fade import expected_share, fade_curve
from nearcal.recalibration.score_laws import ScoreLaw
from nearcal.recalibration.scores_of_rows import Answers, OfBase, ScoresOfRows, Statistic, answer_by_trust, in_chunks

if TYPE_CHECKING:
    from nearcal.recalibration.result import Recalibrated

_CHUNK = 2**16  # knots of curves that are bent together


class AveragedScores(ScoresOfRows):
    """What the average of several neighbourhoods makes of rows.

    Of every row 41 numbers are held; curves with all knots that corrections add are made for a chunk of rows at a time.

    Parameters
    ----------
    table : ndarray of shape (n, 41)
        Quantiles of scores.
    corrections : sequence of LearntCorrection
        What is done about them, for all rows alike.
    size, trust : ndarray of shape (n,)
        The effective size of the neighbourhoods, and the trust in rows, on average.
    heaviest : Recalibrated
        What the member of the greatest weight makes of the rows.
    fade : ndarray of shape (n,), optional
        The trust by which curves are drawn to that of the base; none if they are not.
    expected_faded : float, optional
        The share of rows like the calibration set whose trust is below 1, where any fade.
    """

    has_density = True

    def __init__(
        self,
        table: FloatArray,
        corrections: Sequence[LearntCorrection],
        size: FloatArray,
        trust: FloatArray,
        heaviest: "Recalibrated",
        fade: FloatArray | None = None,
        expected_faded: float | None = None,
    ) -> None:
        self.table, self.corrections, self.size, self.trust = table, tuple(corrections), size, trust
        self.heaviest, self.fade, self.expected_faded = heaviest, fade, expected_faded
        self.n_cal = heaviest.n_cal
        has_atoms = bool((table[:, 1:] <= table[:, :-1]).any())
        self.is_continuous = not has_atoms and all(one.is_continuous for one in self.corrections)

    @property
    def loudest(self) -> "Recalibrated":
        """The member whose neighbourhoods tell how near rows are to calibration points."""
        return self.heaviest

    def take(self, rows: IntArray) -> "AveragedScores":
        """Return the scores of the chosen rows."""
        fade = None if self.fade is None else self.fade[rows]
        return AveragedScores(
            self.table[rows], self.corrections, self.size[rows], self.trust[rows], self.heaviest[rows], fade,
            self.expected_faded,
        )  # fmt: skip

    def gather(
        self, base: Distribution, statistic: Statistic, of_base: OfBase, *, columns: int = 1, table: bool = False,
        keep: bool = True,
    ) -> Answers:  # fmt: skip
        """Go through rows in chunks that bound memory; rows that are not trusted at all have their base."""
        knots = len(SCORES) + sum(one.more_knots for one in self.corrections)

        def ask(part: Distribution, rows: slice) -> Answers:
            law = bend(as_curve(self.table[rows]), self.corrections)
            if self.fade is None:
                return statistic(law, part, rows)
            return answer_by_trust(law, part, rows, statistic, of_base, self.fade[rows], _faded_law)

        return in_chunks(base, max(_CHUNK // max(columns, base._values_per_row, knots), 1), ask)

    def effective_size(self, rows: int) -> FloatArray:
        """Return the mean of the members' effective sizes, by their weights."""
        return self.size

    def trust_in(self, rows: int) -> FloatArray:
        """Return the mean of the members' trust, by their weights, as far as the rows are trusted at all."""
        return self.trust

    def faded(self, trust: FloatArray, false_alarm: float) -> "AveragedScores":
        """Return curves drawn to that of the base; those that are drawn farther already stay."""
        return AveragedScores(
            self.table, self.corrections, self.size, np.minimum(trust, self.trust), self.heaviest,
            trust if self.fade is None else np.minimum(trust, self.fade),
            max(expected_share(false_alarm), self.expected_faded or 0.0),
        )  # fmt: skip


def as_curve(table: FloatArray) -> Curve:
    """Return the laws of rows that are known by their quantiles of scores."""
    return Curve(Interpolated(SCORES[np.newaxis], np.maximum.accumulate(table, axis=1), normal_tails=True))


def _faded_law(law: ScoreLaw, trust: FloatArray, rows: IntArray) -> Curve:
    assert isinstance(law, Curve)
    return fade_curve(law.take(rows), trust, None)
