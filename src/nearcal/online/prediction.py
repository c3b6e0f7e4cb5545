"""What an online recalibrator predicts: recalibrated distributions with a ticket a row."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal.recalibration import Neighbors, Recalibrated, Reliability, WeightedSample
from nearcal.recalibration.scores_of_rows import ScoresOfRows


class OnlinePrediction(Recalibrated):
    """Recalibrated predictive distributions, made by :meth:`OnlineRecalibrator.predict`.

    They are what the recalibrator within predicts, ``base``, with the level corrected for all rows alike. Every
    statistic is one of the result; what is told about neighbourhoods is told of those behind ``base``.

    Attributes
    ----------
    tickets : ndarray of shape (n,)
        What to call each row by when its response becomes known.
    """

    base: Recalibrated
    tickets: NDArray[np.int64]

    def __init__(self, base: Recalibrated, scores: ScoresOfRows, tickets: NDArray[np.int64]) -> None:
        super().__init__(base, scores)
        self._store(tickets=tickets)

    def _rows(self, rows: IntArray) -> Self:
        return type(self)(self.base[rows], self.scores.take(rows), self.tickets[rows])

    @property
    def n_cal(self) -> int | None:
        """The number of calibration points behind the predictions; None where there are none."""
        return self.base.n_cal

    @cached_property
    def effective_size(self) -> FloatArray:
        """The effective number of calibration points of every row; see :attr:`Recalibrated.effective_size`."""
        return self.base.effective_size

    @cached_property
    def radius(self) -> FloatArray:
        """The distance at which weights vanish, in every row; see :attr:`Recalibrated.radius`."""
        return self.base.radius

    @cached_property
    def trust(self) -> FloatArray:
        """How much of the local law every row has; see :attr:`Recalibrated.trust`."""
        return self.base.trust

    @cached_property
    def _describe(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.base.effective_size, self.base.radius, self.base.trust

    def reliability(self, false_alarm: float = 0.01) -> Reliability:
        """Tell how far each row can be trusted; see :meth:`Recalibrated.reliability`."""
        return self.base.reliability(false_alarm)

    def neighbors(self, rows: Any) -> Neighbors:
        """Return the calibration points that speak for some rows; see :meth:`Recalibrated.neighbors`."""
        return self.base.neighbors(rows)

    def weighted_sample(self, rows: Any) -> WeightedSample:
        """Return the output of Algorithm 1, before the correction of the level."""
        return self.base.weighted_sample(rows)
