"""Cross-fitting: students and exact recalibrators that have not seen a fold judge it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal.compiled.features import Features
from nearcal.compiled.lessons import Lesson, teach
from nearcal.compiled.loss import CompilationLoss, Judged, compare, find_regions, is_off
from nearcal.compiled.network import LEVEL_SCORES
from nearcal.compiled.student import Form, Student
from nearcal.compiled.teachers import Teacher
from nearcal.distributions import Distribution, Normal
from nearcal.distributions.interpolation import Interpolated
from nearcal.recalibration import Recalibrated
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.polish import LearntPolish, polish_of
from nearcal.recalibration.scores_of_rows import CurveOfEachRow
from nearcal.scores import crps
from nearcal.space import Fold, Folds

_FOLDS, _FOLDS_OF_FEW, _FEW_POINTS = 5, 10, 3000  # without a fifth of few points both know much less than with all
_MOST_POINTS = 10_000  # that are cross-fitted
_ERRORS = 2  # standard errors that a loss in sample, or a gain by more rows, must be beyond
_SHARED_GAIN, _USUAL_GAIN = 0.5, 0.05  # students gain half of what the exact one gains, of little all


@dataclass(frozen=True)
class Trial:
    """What students of one form say of all rows that they have not seen."""

    form: Form
    tables: FloatArray
    log_isolation: FloatArray
    polish: LearntPolish | None
    loss: float
    judged: Judged


class CrossFit:
    """Exact recalibrators and lessons without each fold; students of any form can be tried on them.

    Parameters
    ----------
    teacher : Teacher
    base : Distribution, optional
        The predictive distributions of its calibration points: CRPS is then of responses, else of scores.
    folds : Folds, optional
        Which rows may speak for which; five random folds by default, ten of few points.
    rng : numpy.random.Generator
    """

    def __init__(
        self, teacher: Teacher, base: Distribution | None, folds: Folds | None, rng: np.random.Generator
    ) -> None:
        rows = np.sort(rng.permutation(len(teacher.calibration))[:_MOST_POINTS]) if folds is None else None
        self.is_of_all = rows is not None and len(rows) == len(teacher.calibration)
        if rows is not None and not self.is_of_all:
            teacher, base = teacher.restricted(rows), None if base is None else base[rows]
        self.teacher, self.z, self.rng = teacher, teacher.calibration.z, rng
        n = len(self.z)
        self.positions = teacher.positions
        self.base = Normal(np.zeros(n), 1.0) if base is None else base
        self.y = self.z if base is None else self.base.from_z(self.z)
        weights = teacher.calibration.weights
        self.weights = np.ones(n) if weights is None else weights.relative
        self.has_weights, self.units = weights is not None, "score" if base is None else "response"
        self.folds = _random_folds(n, rng) if folds is None else folds.folds
        self.regions = find_regions(teacher.space_map(self.positions), rng)
        self.judged = Judged(self.regions, self.weights)
        self.lessons = [self._teach(fold) for fold in self.folds]
        self.trials: dict[str, Trial] = {}
        self._students: dict[str, list[Student]] = {}

    def _teach(self, fold: Fold) -> tuple[Lesson, Features]:
        """Judge a fold by the exact recalibrator of the others, and let it teach."""
        teacher = self.teacher.restricted(fold.speakers)
        out = teacher.recalibrate(self.base[fold.rows], self.positions[fold.rows])
        self.judged.take(fold.rows, out, self.y[fold.rows])
        return teach(teacher, self.rng), features_of(teacher)

    def attempt(self, form: Form) -> Trial:
        """Let students of a form judge every fold; marginal calibration is mended by what other folds tell."""
        if str(form) not in self.trials:
            n = len(self.z)
            tables, isolation = np.full((n, len(LEVEL_SCORES)), np.nan), np.full(n, np.nan)
            for fold, student in zip(self.folds, self._learn(form), strict=True):
                reading = student.read(self.positions[fold.rows])
                tables[fold.rows], isolation[fold.rows] = reading.tables, reading.log_isolation
            self.trials[str(form)] = self._judge(form, tables, isolation)
        return self.trials[str(form)]

    def _learn(self, form: Form) -> list[Student]:
        """Return a student a fold; anchors are added to students that may be there already."""
        if form.has_anchors:
            plain = self._learn(form._replace(has_anchors=False))
            return [student.anchored(lesson) for student, (lesson, _) in zip(plain, self.lessons, strict=True)]
        if str(form) not in self._students:
            learnt = [Student.learn(lesson, features, form, self.rng) for lesson, features in self.lessons]
            self._students[str(form)] = learnt
        return self._students[str(form)]

    def _judge(self, form: Form, tables: FloatArray, isolation: FloatArray) -> Trial:
        """Judge with and without a polish: exact tables had theirs, and of few rows another is no more than noise.

        It is there where it lowers the CRPS, or where PIT values are off by more than chance.
        """
        known = np.concatenate([fold.rows for fold in self.folds])
        scores = np.full(len(self.z), np.nan)
        scores[known] = curve_of(tables[known]).after(self.z[known, np.newaxis])[:, 0]
        polished, plain = Judged(self.regions, self.weights), Judged(self.regions, self.weights)
        for fold in self.folds:
            curve, polish = curve_of(tables[fold.rows]), self._polish(scores, np.setdiff1d(known, fold.rows))
            bent = curve if polish is None else polish.bend(curve)
            for judged, own in ((plain, curve), (polished, bent)):
                out = Recalibrated(self.base[fold.rows], CurveOfEachRow(own))
                judged.take(fold.rows, out, self.y[fold.rows])
        exact, *means = (
            np.average(one.crps[known], weights=self.weights[known]) for one in (self.judged, plain, polished)
        )
        mends = means[1] <= means[0] or is_off(plain.measures()[1], len(known))
        best, polish = (polished, self._polish(scores, known)) if mends else (plain, None)
        return Trial(form, tables, isolation, polish, float(means[int(mends)] / exact - 1), best)

    def _polish(self, scores: FloatArray, rows: IntArray) -> LearntPolish | None:
        """Return what scores of some rows turned out to be worth."""
        return polish_of(scores[rows], self.weights[rows] if self.has_weights else None)

    def loss(self, trial: Trial) -> CompilationLoss:
        """Return what a form of students loses."""
        tried = {name: one.loss for name, one in self.trials.items()}
        return compare(str(trial.form), self.judged, trial.judged, tried, self.units)

    def unseen_loss(self, lesson: Lesson) -> float:
        """Return what folds do not show, given the lesson of all: the exact one gains more by their rows than students.

        Where responses are all but a function of the position, neighbours nearer by a fold tell far more. What the
        exact one gains is told by leaving out single points; where rows depend on each other that tells nothing.
        """
        if not self.is_of_all:
            return 0.0
        points, known = slice(lesson.points), self.judged.crps[lesson.rows]
        is_known = ~np.isnan(known)
        with_all = _crps(lesson.tables[points], self.base[lesson.rows], lesson.z)
        mean, error = _relative_to(known[is_known], with_all[is_known], lesson.weights[is_known])
        return max(_SHARED_GAIN * (mean - _ERRORS * error - _USUAL_GAIN), 0.0)


def in_sample_loss(student: Student, lesson: Lesson, base: Distribution | None) -> float:
    """Return the loss of CRPS at points that a student has learnt from, against what the others say of each.

    It is less by two standard errors: what few points tell of it is chance.
    """
    points = slice(lesson.points)
    base = Normal(np.zeros(lesson.points), 1.0) if base is None else base[lesson.rows]
    trend = None if lesson.trend is None else lesson.trend[points]
    read = student.read(lesson.positions[points], trend).tables
    own, exact = (_crps(tables, base, lesson.z) for tables in (read, lesson.tables[points]))
    mean, error = _relative_to(own, exact, lesson.weights)
    return mean - _ERRORS * error


def _crps(tables: FloatArray, base: Distribution, z: FloatArray) -> FloatArray:
    """Return the CRPS of rows with some scores, by tables."""
    return crps(Recalibrated(base, CurveOfEachRow(curve_of(tables))), base.from_z(z))


def _relative_to(scores: FloatArray, others: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return by how much scores are above others, relative to these, and the standard error."""
    difference = (scores - others) / np.average(others, weights=weights)
    return float(np.average(difference, weights=weights)), float(difference.std() / np.sqrt(len(difference)))


def features_of(teacher: Teacher) -> Features:
    """Return what students of a recalibrator see."""
    return Features.learn(teacher.space_map, teacher.positions, on_sphere=teacher.metric == "cosine")


def curve_of(tables: FloatArray) -> Curve:
    """Return the laws of rows, given their tables."""
    return Curve(Interpolated(LEVEL_SCORES[np.newaxis], tables, normal_tails=True))


def _random_folds(n: int, rng: np.random.Generator) -> Sequence[Fold]:
    number = rng.permutation(n) % min(_FOLDS_OF_FEW if n < _FEW_POINTS else _FOLDS, n)
    return [Fold(np.flatnonzero(number == one), np.flatnonzero(number != one)) for one in range(number.max() + 1)]
