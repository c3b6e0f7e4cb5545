"""How far a row is from what was learnt: radius, isolation and trust, where there are no neighbours to ask."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray
from nearcal._errors import ThinNeighborhoodError
from nearcal._saved import (
    float_array,
    instance,
    number,
    one_of,
    optional,
    savable,
)
from nearcal.compiled.student import Reading, Student
from nearcal.compiled.teachers import LEAST_SIZE, Teacher
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.fade import LearntFade, expected_share, fade_curve, limits_of, warn_of_faded
from nearcal.recalibration.neighborhoods import KNearest, WithinRadius
from nearcal.recalibration.scores_of_rows import Answers, CurveOfEachRow, OfBase, Statistic
from nearcal.space import METRICS

_MOST_KEPT = 1000  # isolations of calibration points: p-values to a thousandth
_FARTHEST = 700.0  # of a logarithm, whose exponential is still a number


@savable(
    metric=one_of(*METRICS),
    distance=optional(number(0.0)),
    own=float_array(1),
    fade=optional(instance(LearntFade)),
    everyone=optional(instance(Curve)),
)
@dataclass(frozen=True)
class Surroundings:
    """What tells rows like the calibration set from others.

    Beyond the box of the calibration points the student says what it says of the nearest point of the box, and u² ≥
    u'² + b² for the distances u and u' of the two to any point in the box, b apart: a lower bound that is near the
    truth far out.

    Attributes
    ----------
    metric : str
        Of distances.
    distance : float or None
        The radius of neighbourhoods; None where they are the k nearest.
    own : ndarray of shape (q,)
        Logarithms of the isolation of calibration points, by the exact recalibrator or as students tell it that have
        not seen them, whichever is farther; increasing.
    fade : LearntFade or None
        How rows fade, by isolation as students tell it and, as ever, by the ranges of columns.
    everyone : Curve or None
        The law of all scores, if rows fade to it.
    """

    metric: str
    distance: float | None
    own: FloatArray
    fade: LearntFade | None
    everyone: Curve | None

    @classmethod
    def learn(cls, teacher: Teacher, log_isolation: FloatArray) -> Self:
        """Take over what the exact recalibrator knows, and how isolated calibration points seem to students.

        Students know isolation less exactly: what is far to them varies less, and may be off. Of either scale the
        farther counts, so that rows like the calibration set are not called unlike it.
        """
        near, fade = teacher.neighborhood, teacher.fade
        own = _own_isolation(teacher, log_isolation)
        if fade is not None:
            start, gap = limits_of(own, fade.false_alarm)
            fade = LearntFade(fade.false_alarm, fade.to, max(start, fade.start), max(gap, fade.gap), fade.ranges)
        distance = float(near.radius.distance) if isinstance(near, WithinRadius) else None
        return cls(teacher.metric, distance, own, fade, teacher.everyone())

    def log_isolation(self, student: Student, positions: FloatArray, reading: Reading) -> FloatArray:
        """Return how isolated rows are, on the scale of logarithms: greater is farther."""
        points = student.features.points(positions).astype(np.float64)
        beyond = np.abs(points - student.features.inside(points.astype(np.float32)))
        if self.metric == "manhattan":
            far = beyond.sum(axis=1)
        else:
            far = beyond.max(axis=1) if self.metric == "chebyshev" else np.sqrt((beyond * beyond).sum(axis=1))
        known = reading.log_isolation
        if self.distance is not None:  # minus the logarithm of how many are near: of none, beyond the radius
            left = np.clip(1 - (far / self.distance) ** 2, 1e-300, 1.0)
            return known - np.log(left)
        if self.metric == "cosine":
            return known
        both = np.exp(np.minimum(known, _FARTHEST))
        if self.metric == "manhattan":
            return np.log(both + far)
        return np.log(np.maximum(both, far) if self.metric == "chebyshev" else np.hypot(both, far))

    def limit(self, false_alarm: float) -> float:
        """Return the isolation beyond which a row is out of distribution, by the p-value of a conformal test."""
        n = len(self.own)
        place = int(np.ceil((1 + n) * (1 - false_alarm) - 1e-9))  # of calibration points, so many must be nearer
        return float(self.own[place - 1]) if 1 <= place <= n else np.inf

    def trust(self, positions: FloatArray, log_isolation: FloatArray) -> FloatArray | None:
        """Return the trust in rows; None where nothing fades."""
        if self.fade is None:
            return None
        trust = self.fade.trust_at(log_isolation)
        if self.fade.ranges is not None:
            trust = np.minimum(trust, self.fade.ranges.trust(positions))
        if self.fade.to == "raise" and (trust == 0).any():
            lost = trust == 0
            raise ThinNeighborhoodError(
                f"every row must be like the calibration set, got row {int(np.argmax(lost))}, and {int(lost.sum())} "
                f"rows of {len(lost)} looked at, that lie far from all calibration points or beyond the range of their "
                'columns; drop those rows, or choose Fade(to="base") or Fade(to="global")'
            )
        return trust


def _own_isolation(teacher: Teacher, log_isolation: FloatArray) -> FloatArray:
    """Return how isolated calibration points are, increasing; at most a thousand quantiles."""
    near, known = teacher.neighborhood, teacher.own_isolation()
    known = known if isinstance(near, KNearest) else known - LEAST_SIZE
    count = min(len(known), len(log_isolation), _MOST_KEPT)
    levels = (np.arange(count) + 0.5) / count
    known = np.log(np.maximum(known, 1e-300)) if isinstance(near, KNearest) else -np.log(-known)
    return np.maximum(np.quantile(known, levels), np.quantile(log_isolation, levels))


class CompiledScores(CurveOfEachRow):
    """A table of score quantiles a row, and what a student knows of the surroundings of each.

    Parameters
    ----------
    plain : Curve
        Before any fading.
    reading : Reading
        What the student says, with its isolation that of the surroundings.
    surroundings : Surroundings
    trust : ndarray of shape (n,), optional
        What share of the curve each row has; all, where nothing fades.
    n_cal : int
    """

    def __init__(
        self, plain: Curve, reading: Reading, surroundings: Surroundings, trust: FloatArray | None, n_cal: int
    ) -> None:
        fades = trust is not None and (trust < 1).any()
        super().__init__(fade_curve(plain, trust, surroundings.everyone) if fades and trust is not None else plain)
        self.plain, self.reading, self.surroundings, self.trust = plain, reading, surroundings, trust
        self.n_cal: int = n_cal
        self._was_told = trust is None
        if trust is not None:
            fade = surroundings.fade
            self.expected_faded = expected_share(0.0 if fade is None else fade.false_alarm)

    def take(self, rows: Any) -> "CompiledScores":
        """Return the scores of the chosen rows."""
        trust = None if self.trust is None else self.trust[rows]
        part = Reading(*(values[rows] for values in self.reading))
        return CompiledScores(self.plain.take(rows), part, self.surroundings, trust, self.n_cal)

    def faded(self, trust: FloatArray, false_alarm: float) -> "CompiledScores":
        """Return the same with the lesser trust."""
        trust = trust if self.trust is None else np.minimum(trust, self.trust)
        scores = CompiledScores(self.plain, self.reading, self.surroundings, trust, self.n_cal)
        scores.expected_faded = expected_share(false_alarm) if self.expected_faded is None else self.expected_faded
        return scores

    def gather(self, base: Any, statistic: Statistic, of_base: OfBase, **plan: Any) -> Answers:
        """Go through rows in chunks, and tell once if far too many have faded."""
        if not self._was_told:
            self._was_told = True
            assert self.trust is not None
            assert self.expected_faded is not None
            warn_of_faded(int((self.trust < 1).sum()), len(self.trust), self.expected_faded)
        return super().gather(base, statistic, of_base, **plan)

    def effective_size(self, rows: int) -> FloatArray:
        """Return what the student says of the size of neighbourhoods."""
        return np.exp(self.reading.log_size)

    def radius(self, rows: int) -> FloatArray:
        """Return what the student says of the distance to the k-th neighbour, or the radius of all."""
        distance = self.surroundings.distance
        if distance is not None:
            return np.full(rows, distance)
        return np.exp(np.minimum(self.reading.log_isolation, _FARTHEST))

    def isolation(self) -> tuple[FloatArray, FloatArray]:
        """Return the isolation of rows and of calibration points, on the scale of logarithms."""
        return self.reading.log_isolation, self.surroundings.own

    def trust_in(self, rows: int) -> FloatArray:
        """Return the trust in rows."""
        return np.ones(rows) if self.trust is None else self.trust
