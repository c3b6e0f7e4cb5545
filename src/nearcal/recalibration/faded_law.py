"""One law for all rows alike that fades: global recalibration of rows unlike the calibration set."""

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions import Distribution
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.fade import expected_share, fade_curve, fade_equal_steps, warn_of_faded
from nearcal.recalibration.neighborhoods import Rows
from nearcal.recalibration.score_laws import ScoreLaw
from nearcal.recalibration.scores_of_rows import Answers, OfBase, OneLaw, ScoresOfRows, Statistic, answer_by_trust
from nearcal.recalibration.steps import EqualSteps


class FadedLaw(ScoresOfRows):
    """One law for all rows alike, of which some rows have as much as they are trusted, and the rest of their base."""

    n_cal: int
    expected_faded: float

    def __init__(self, scores: OneLaw, trust: FloatArray, false_alarm: float) -> None:
        self.scores, self.trust, self.false_alarm = scores, trust, false_alarm
        self.n_cal, self.has_density, self.is_continuous = scores.n_cal, scores.has_density, scores.is_continuous
        self.expected_faded = expected_share(false_alarm)
        self._was_told = False

    def take(self, rows: IntArray) -> "FadedLaw":
        """Return the scores of the chosen rows."""
        return FadedLaw(self.scores, self.trust[rows], self.false_alarm)

    def gather(
        self, base: Distribution, statistic: Statistic, of_base: OfBase, *, columns: int = 1, table: bool = False,
        keep: bool = True,
    ) -> Answers:  # fmt: skip
        """Ask the law of all rows, and for rows that are trusted in part or not at all once more."""
        if not self._was_told:
            self._was_told = True
            warn_of_faded(int((self.trust < 1).sum()), len(self.trust), self.expected_faded)

        def ask(law: ScoreLaw, part: Distribution, rows: Rows) -> Answers:
            return answer_by_trust(law, part, rows, statistic, of_base, self.trust[rows], _fade_law)

        return self.scores.gather(base, ask, of_base, columns=columns, table=True, keep=keep)

    def effective_size(self, rows: int) -> FloatArray:
        """Return the number of calibration points; 0 where the base distribution was left as it was."""
        return np.where(self.trust > 0, self.scores.effective_size(rows), 0.0)

    def trust_in(self, rows: int) -> FloatArray:
        """Return the trust."""
        return self.trust

    def faded(self, trust: FloatArray, false_alarm: float) -> "FadedLaw":
        """Return the same with the lesser trust."""
        return FadedLaw(self.scores, np.minimum(trust, self.trust), false_alarm)


def _fade_law(law: ScoreLaw, trust: FloatArray, rows: IntArray) -> ScoreLaw:
    if isinstance(law, EqualSteps):
        return fade_equal_steps(law, trust)
    assert isinstance(law, Curve)
    return fade_curve(law.take(rows), trust, None)
