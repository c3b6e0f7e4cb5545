"""Cross-fitting: students and exact recalibrators that have not seen a fold judge it."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
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

_FOLDS, _MORE_FOLDS, _FEW_POINTS = 5, 10, 500  # without a fifth of few points both know much less than with all
_RACED = 0.4  # of the folds, which tell what forms are worth trying on all
_MOST_POINTS = 10_000  # that are cross-fitted
_ERRORS = 2  # standard errors that a loss in sample, or a gain by more rows or a polish, must be beyond
_USUAL_GAIN = 0.05  # by the rows of a fold, up to which students gain what the exact one gains; of more, no more


@dataclass(frozen=True)
class Trial:
    """What students of one form say of all rows that they have not seen."""

    form: Form
    tables: FloatArray
    log_isolation: FloatArray
    polish: LearntPolish | None
    loss: float
    standard_error: float
    judged: Judged

    @property
    def in_doubt(self) -> float:
        """The loss and its standard error, which is little for those who say what their teacher says."""
        return self.loss + self.standard_error


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
    count : int, optional
        Another number of random folds.
    """

    def __init__(
        self,
        teacher: Teacher,
        base: Distribution | None,
        folds: Folds | None,
        rng: np.random.Generator,
        count: int | None = None,
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
        count = count or (_MORE_FOLDS if n < _FEW_POINTS else _FOLDS)
        self.folds = _random_folds(n, min(count, n), rng) if folds is None else folds.folds
        self.regions = find_regions(teacher.space_map(self.positions), rng)
        self.judged = Judged(self.regions, self.weights)
        self.lessons = [self._teach(fold) for fold in self.folds]
        self.trials: dict[str, Trial] = {}
        self._students: dict[tuple[Form, int], Student] = {}
        self._seed = int(rng.integers(2**62))  # of students, the same whoever learns first

    def _teach(self, fold: Fold) -> tuple[Lesson, Features]:
        """Judge a fold by the exact recalibrator of the others, and let it teach."""
        teacher = self.teacher.restricted(fold.speakers)
        out = teacher.recalibrate(self.base[fold.rows], self.positions[fold.rows])
        self.judged.take(fold.rows, out, self.y[fold.rows])
        return teach(teacher, self.rng), features_of(teacher)

    def race(self, forms: Sequence[Form], finalists: int) -> list[Form]:
        """Return the forms that do best on the first folds, with anchors or without; to try some of them is enough."""
        places = range(max(int(_RACED * len(self.folds)), 1))
        self._learn(forms, places)

        def mean(form: Form) -> float:
            scores = []
            for place in places:
                rows, student = self.folds[place].rows, self._student(form, place)
                out = Recalibrated(self.base[rows], CurveOfEachRow(curve_of(student.read(self.positions[rows]).tables)))
                scores.append(crps(out, self.y[rows]))
            return float(np.average(np.concatenate(scores), weights=self._weights_in(places)))

        with_anchors = [form._replace(has_anchors=True) for form in forms]
        means = [min(mean(one), mean(two)) for one, two in zip(forms, with_anchors, strict=True)]
        return [forms[place] for place in np.argsort(means, kind="stable")[:finalists]]

    def attempt(self, form: Form) -> Trial:
        """Let students of a form judge every fold; marginal calibration is mended by what other folds tell."""
        if str(form) not in self.trials:
            n, places = len(self.z), range(len(self.folds))
            tables, isolation = np.full((n, len(LEVEL_SCORES)), np.nan), np.full(n, np.nan)
            self._learn([form], places)
            for fold, place in zip(self.folds, places, strict=True):
                reading = self._student(form, place).read(self.positions[fold.rows])
                tables[fold.rows], isolation[fold.rows] = reading.tables, reading.log_isolation
            self.trials[str(form)] = self._judge(form, tables, isolation)
        return self.trials[str(form)]

    def _learn(self, forms: Sequence[Form], places: Iterable[int]) -> None:
        """Have a student of every form learn the lesson of every fold; those that have learnt it are kept."""
        tasks = [(Form((kind,)), place) for form in forms for kind in form.kinds for place in places]
        tasks = [task for task in dict.fromkeys(tasks) if task not in self._students]

        def learn(task: tuple[Form, int]) -> Student:
            form, place = task
            return Student.learn(*self.lessons[place], form, np.random.default_rng([self._seed, place]))

        with ThreadPoolExecutor(self.teacher.workers.count()) as pool:
            self._students.update(zip(tasks, pool.map(learn, tasks), strict=True))

    def _student(self, form: Form, place: int) -> Student:
        """Return who has learnt; students that are there already are averaged, and have their anchors added, once."""
        if (form, place) not in self._students:
            if form.has_anchors:
                student = self._student(form._replace(has_anchors=False), place).anchored(self.lessons[place][0])
            else:
                student = Student.mean_of([self._student(Form((kind,)), place) for kind in form.kinds])
            self._students[form, place] = student
        return self._students[form, place]

    def _weights_in(self, places: Iterable[int]) -> FloatArray:
        return np.concatenate([self.weights[self.folds[place].rows] for place in places])

    def _judge(self, form: Form, tables: FloatArray, isolation: FloatArray) -> Trial:
        """Judge with and without a polish: exact tables had theirs, and of few rows another is no more than noise.

        It is there where it lowers the CRPS, or where PIT values are off, by more than chance.
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
        gain, doubt = self._relative_loss(polished, plain, known)
        mends = gain < -_ERRORS * doubt or is_off(plain.measures()[1], len(known))
        best, polish = (polished, self._polish(scores, known)) if mends else (plain, None)
        return Trial(form, tables, isolation, polish, *self._relative_loss(best, self.judged, known), best)

    def _relative_loss(self, one: Judged, other: Judged, rows: IntArray) -> tuple[float, float]:
        return _relative_to(one.crps[rows], other.crps[rows], self.weights[rows])

    def _polish(self, scores: FloatArray, rows: IntArray) -> LearntPolish | None:
        """Return what scores of some rows turned out to be worth."""
        return polish_of(scores[rows], self.weights[rows] if self.has_weights else None)

    def loss(self, trial: Trial) -> CompilationLoss:
        """Return what a form of students loses."""
        tried = {name: one.loss for name, one in self.trials.items()}
        return compare(str(trial.form), self.judged, trial.judged, tried, self.units)

    def unseen_loss(self, lesson: Lesson) -> float:
        """Return what folds do not show, given the lesson of all: the exact one gains more by their rows than students.

        Where responses are all but a function of the position, neighbours nearer by a fold tell far more.
        """
        gain, error = self._gain(lesson)
        return max(gain - _ERRORS * error - _USUAL_GAIN, 0.0)

    def wants_more_folds(self, lesson: Lesson) -> bool:
        """Tell whether the exact one gains so much by the rows of a fold that smaller ones should judge."""
        return len(self.folds) < _MORE_FOLDS and self._gain(lesson)[0] > _USUAL_GAIN

    def with_more_folds(self, base: Distribution | None) -> "CrossFit":
        """Return the same with more folds, which are smaller."""
        return CrossFit(self.teacher, base, None, self.rng, _MORE_FOLDS)

    def _gain(self, lesson: Lesson) -> tuple[float, float]:
        """Return what the exact one gains by the rows of a fold, relative, as single points left out tell.

        Where rows depend on each other that tells nothing.
        """
        if not self.is_of_all:
            return 0.0, 0.0
        points, known = slice(lesson.points), self.judged.crps[lesson.rows]
        is_known = ~np.isnan(known)
        with_all = _crps(lesson.tables[points], self.base[lesson.rows], lesson.z)
        return _relative_to(known[is_known], with_all[is_known], lesson.weights[is_known])


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


def _random_folds(n: int, count: int, rng: np.random.Generator) -> Sequence[Fold]:
    number = rng.permutation(n) % count
    return [Fold(np.flatnonzero(number == one), np.flatnonzero(number != one)) for one in range(count)]
