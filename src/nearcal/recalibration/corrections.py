"""Corrections: what is done about neighbourhoods being wider than a point, and small.

A correction is given to :class:`nearcal.LocalRecalibrator` as it is (``nc.LocalLinear()``), and ``fit`` makes it learn
what it needs. Learnt, it does one of three things: it moves the scores of neighbours before they are read, row by row
(:mod:`~nearcal.recalibration.trend`, :mod:`~nearcal.recalibration.local_linear`,
:mod:`~nearcal.recalibration.shrinkage`); it bends what they are read as, for all rows alike
(:mod:`~nearcal.recalibration.polish`); or, last, it says how far the result of each row is to be trusted
(:mod:`~nearcal.recalibration.caution`, :mod:`~nearcal.recalibration.fade`).
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from nearcal._arrays import FloatArray, IntArray
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.neighborhoods import Neighborhoods
from nearcal.space import View

if TYPE_CHECKING:
    from nearcal.recalibration.leave_one_out import LeaveOneOut


class Correction(ABC):
    """What a user asks for."""

    comes_first = False  # whether it wants scores as they are
    needs_continuous_rule = False  # whether it bends a curve, so that there must be one
    comes_last = False  # whether it says how far what all others have made of a row is trusted

    def check(self) -> None:  # noqa: B027, most have nothing to check
        """Validate the parameters."""

    @abstractmethod
    def learn(self, left_out: "LeaveOneOut", view: View) -> "LearntCorrection | None":
        """Learn from calibration points, each among the others, for new rows in ``view``; None if there is nothing."""


class LearntCorrection:
    """What ``fit`` has learnt; a correction overrides ``move`` or ``bend``."""

    moves_scores = False
    is_continuous = True  # whether no atoms are made
    more_knots = 0  # that a curve has afterwards

    def move(
        self, near: Neighborhoods, scores: FloatArray, points: FloatArray, own: IntArray | None = None
    ) -> FloatArray:
        """Return the scores of neighbours, one a pair, moved for the rows at ``points``.

        Where these are calibration points among the others, ``own`` are their numbers.
        """
        return scores

    def bend(self, curve: Curve) -> Curve:
        """Return a curve of scores as it should have been."""
        return curve

    def seen_in(self, view: View, neighbors: int, calibration: CalibrationScores) -> "LearntCorrection":
        """Return the same for another view of the calibration points, in which rows have so many neighbours."""
        return self

    def extended(self, points: FloatArray) -> Self:
        """Return the same, with calibration points more, which nothing is learnt from."""
        return self

    def restricted(self, rows: IntArray) -> Self:
        """Return the same for some of the calibration points, given their numbers in increasing order."""
        return self


def moves_scores(corrections: tuple[LearntCorrection, ...]) -> bool:
    """Tell whether a correction moves the scores of neighbours."""
    return any(correction.moves_scores for correction in corrections)


def correct(
    near: Neighborhoods,
    points: FloatArray,
    z: FloatArray,
    corrections: tuple[LearntCorrection, ...],
    own: IntArray | None = None,
) -> Neighborhoods:
    """Return the neighbourhoods of rows at some points with the scores of neighbours as corrections move them."""
    for correction in corrections:
        if correction.moves_scores:
            scores = z[near.indices] if near.scores is None else near.scores
            near = replace(near, scores=correction.move(near, scores, points, own))
    return near


def bend(curve: Curve, corrections: tuple[LearntCorrection, ...]) -> Curve:
    """Return a curve as corrections common to all rows bend it."""
    for correction in corrections:
        curve = correction.bend(curve)
    return curve
