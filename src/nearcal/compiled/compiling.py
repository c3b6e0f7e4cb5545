"""Compiling: from a fitted recalibrator, or a calibrated model, to a small function of the position."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from threadpoolctl import threadpool_limits

from nearcal._arrays import as_generator, check_number
from nearcal._errors import CompilationError, InvalidInputError, InvalidParameterError
from nearcal.compiled.crossfit import CrossFit, Trial, features_of, in_sample_loss
from nearcal.compiled.lessons import teach
from nearcal.compiled.loss import DOUBT, CompilationLoss, Judged, take_over
from nearcal.compiled.network import Effort
from nearcal.compiled.recalibrator import CompiledRecalibrator
from nearcal.compiled.student import Form, Kind, Student
from nearcal.compiled.surroundings import Surroundings
from nearcal.compiled.teachers import teacher_of
from nearcal.distributions import Distribution, Seed, require_distribution
from nearcal.guarantees import CrossRecalibrator, GuaranteedRecalibrator
from nearcal.recalibration import (
    AveragedRecalibrator,
    CombinedRecalibrator,
    ConformalRecalibrator,
    IdentityRecalibrator,
    KNNRegressor,
    LocalRecalibrator,
)
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.for_all_rows import RecalibratorOfAllRows
from nearcal.space import Folds, as_folds

TOLERANCE = 0.02
_LEAST_POINTS = 20
_HIDDEN = (64, 256)  # units of a layer: wide networks know more, and narrow ones keep what few outliers say from all
_NARROW, _WIDE = 4, 2  # how many of either a mean is of
_MANY_POINTS = 5000  # of fewer a student is the mean of several networks
_FINALISTS = 2  # forms that are tried on all folds
_ADVANTAGE = 0.001  # of CRPS, that a small network, which answers in a third of the time, may lose against others
_STEPS_A_ROW, _FEWEST_STEPS, _MOST_STEPS = 0.4, 800, 2500
_WIDE_STEPS = 0.7  # of those of narrow networks
_LARGER = 2  # times as large are the batches of who is finished: it is one, where those that are judged are dozens


@runtime_checkable
class Calibrated(Protocol):
    """A calibrated model, or what it has learnt: rooms above this one know more of it."""

    recalibrator: Any

    def compiled(self, recalibrator: Any, how: str) -> Any:
        """Return the same with its recalibrator compiled, given in words how."""
        ...


class Study(NamedTuple):
    """What was made of local recalibration, with its loss, and how rows were judged by whom that had not seen them."""

    compiled: CompiledRecalibrator
    by_exact: Judged
    by_students: Judged


def compile(
    model_or_recalibrator: Any,
    *,
    tolerance: float = TOLERANCE,
    dist_cal: Distribution | None = None,
    groups: Any = None,
    time: Any = None,
    gap: Any = None,
    rng: Seed = 0,
) -> Any:
    """Compile a fitted recalibrator, or the one of a calibrated model, to a small function of the position.

    What neighbourhoods say is learnt once, by a student: a network, with or without a smooth trend beside it. A row
    then costs microseconds, needs no search, and no calibration row is kept. What that loses is measured by
    cross-fitting: students and exact recalibrators that have not seen a fold of the calibration set judge it. Beyond a
    tolerance nothing is returned.

    Parameters
    ----------
    model_or_recalibrator : CalibratedModel, Recalibration, or a fitted recalibrator
        Of local recalibration with all its options and corrections, of several models combined, or one that treats all
        rows alike, which is taken over as it is.
    tolerance : float
        The largest loss of CRPS, relative to that of exact recalibration; with one standard error added it may be two
        percent more.
    dist_cal : Distribution, optional
        Predictive distributions of the calibration points, such as ``model.base(X_cal)``, in the order of ``fit`` and
        without points of weight 0: the loss is then that of responses. Without it CRPS is on the scale of normal
        scores, on which all rows count alike, whatever the spread of their predictions.
    groups, time, gap
        Which calibration rows may speak for which, as in :func:`nearcal.tune`: students are judged by such folds.
    rng : int, numpy.random.Generator or None
        Of folds, first weights and batches. The same seed gives the same result.

    Returns
    -------
    CalibratedModel, Recalibration, CombinedRecalibrator or CompiledRecalibrator
        Of the kind that was given, with the same interface; its recalibrator tells what was lost, ``loss_``.

    Raises
    ------
    CompilationError
        Where the loss is above the tolerance, or known so badly that one standard error takes it two percent beyond.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(1, 3, size=(300, 1))
    >>> rc = nc.LocalRecalibrator(k=60).fit(nc.Normal(np.zeros(300), 1.0), rng.normal(0.0, x[:, 0]), x)
    >>> compiled = nc.compile(rc)
    >>> compiled.recalibrate(nc.Normal([0.0, 0.0], 1.0), [[1.2], [2.8]]).std().round()
    array([1., 3.])
    >>> bool(compiled.loss_.loss < 0.02)
    True
    """
    check_number(tolerance, "tolerance", least=0.0)
    given = model_or_recalibrator
    exact = given.recalibrator if isinstance(given, Calibrated) else given
    folds = as_folds(groups, time, gap, _n_cal(exact))
    compiled = compile_recalibrator(exact, dist_cal, folds, tolerance=tolerance, rng=as_generator(rng))
    return given.compiled(compiled, _summary(compiled)) if isinstance(given, Calibrated) else compiled


def compile_recalibrator(
    exact: Any, dist_cal: Distribution | None, folds: Folds | None, *, tolerance: float, rng: np.random.Generator
) -> Any:
    """Compile a recalibrator, whatever its kind: the one place that knows how."""
    if isinstance(exact, CompiledRecalibrator):
        return exact
    if isinstance(exact, GuaranteedRecalibrator):
        inner = compile_recalibrator(exact.inner_, dist_cal, folds, tolerance=tolerance, rng=rng)
        is_done = inner is exact.inner_ and exact.held_.space is None
        return exact if is_done else exact.compiled(inner)
    if isinstance(exact, ConformalRecalibrator | CrossRecalibrator):
        raise InvalidParameterError(
            f"recalibrator must be one whose promise survives, got {type(exact).__name__}, whose intervals are order "
            "statistics; give a promise that sets rows aside, nc.GuaranteedRecalibrator, or keep it as it is"
        )
    if isinstance(exact, RecalibratorOfAllRows):
        law = exact.law_ if isinstance(exact.law_, Curve) else exact.law_.curve(predictive=False)
        return CompiledRecalibrator.of(law, None, take_over("one law of all rows"), exact, exact.n_cal_)
    if isinstance(exact, IdentityRecalibrator):
        knots = np.array([-1.0, 1.0])
        law = Curve.shared(knots, knots)
        return CompiledRecalibrator.of(law, None, take_over("no recalibration"), exact, exact.n_cal_)
    if isinstance(exact, CombinedRecalibrator):
        return _compile_combined(exact, dist_cal, folds, tolerance, rng)
    if isinstance(exact, LocalRecalibrator | AveragedRecalibrator) and not isinstance(exact, KNNRegressor):
        return _compile_local(exact, dist_cal, folds, tolerance, rng)
    raise InvalidParameterError(
        "recalibrator must be local, or combined of such, or one that treats all rows alike, since what is compiled is "
        f"a function of the position, got {type(exact).__name__}; keep it as it is"
    )


def _compile_combined(
    exact: CombinedRecalibrator, dist_cal: Any, folds: Folds | None, tolerance: float, rng: np.random.Generator
) -> CombinedRecalibrator:
    """Compile every member; what combines them is small already."""
    parts = [None] * len(exact.members_) if dist_cal is None else dist_cal.components
    compiled = copy.copy(exact)
    compiled.members_ = tuple(
        compile_recalibrator(member, part, folds, tolerance=tolerance, rng=rng)
        for member, part in zip(exact.members_, parts, strict=True)
    )
    compiled.members = compiled.members_
    return compiled


def _compile_local(
    exact: LocalRecalibrator | AveragedRecalibrator, dist_cal: Any, folds: Folds | None, tolerance: float,
    rng: np.random.Generator,
) -> CompiledRecalibrator:  # fmt: skip
    compiled = study(exact, dist_cal, folds, tolerance=tolerance, rng=rng).compiled
    loss = compiled.loss_
    if not loss.is_within(tolerance):
        raise CompilationError(
            f"compiling must lose at most tolerance={tolerance:.2%} of CRPS against exact recalibration, and at most "
            f"{DOUBT:.0%} more with one standard error added, got {loss.loss:+.2%} ± {loss.standard_error:.2%} on "
            f"{loss.rows} calibration rows, at best, by a {loss.form}; keep the exact recalibrator, give "
            f"tolerance={loss.least_tolerance():.2f} if you can afford that, or calibrate with more rows",
            loss,
        )
    return compiled


def study(
    exact: LocalRecalibrator | AveragedRecalibrator, dist_cal: Any, folds: Folds | None, *, tolerance: float,
    rng: np.random.Generator,
) -> Study:  # fmt: skip
    """Return the first student within a tolerance, small ones before large ones, else the best of all tried."""
    n = exact.n_cal_
    if n < _LEAST_POINTS:
        raise InvalidInputError(
            f"recalibrator must have at least {_LEAST_POINTS} calibration points to be compiled, got {n}; keep it as is"
        )
    if dist_cal is not None and len(require_distribution(dist_cal, "dist_cal")) != n:
        raise InvalidInputError(
            f"dist_cal must be the distributions of the {n} calibration points that have a weight, got {len(dist_cal)}"
        )
    teacher = teacher_of(exact)
    found: dict[Form, tuple[Student, CompilationLoss, Trial]] = {}
    with threadpool_limits(1, user_api="blas"):  # products of a batch are too small for more, as in tuning
        fit, lesson = CrossFit(teacher, dist_cal, folds, rng), teach(teacher, rng)
        fit = fit.with_more_folds(dist_cal) if fit.wants_more_folds(lesson) else fit
        unseen = fit.unseen_loss(lesson)
        for form in _forms(fit):
            if form in found:
                continue
            trial, finished = fit.attempt(form), _learning_better(form if n >= _MANY_POINTS else _several(form))
            student = Student.learn(lesson, features_of(teacher), finished, rng)
            student = student if trial.polish is None else student.polished(trial.polish)
            in_sample = in_sample_loss(student, lesson, dist_cal)
            loss = replace(fit.loss(trial), form=str(finished), in_sample=in_sample, unseen=unseen)
            found[form] = student, loss, trial
            if loss.is_within(tolerance):
                break
    student, loss, trial = min(found.values(), key=lambda one: (not one[1].is_within(tolerance), one[1].loss))
    surroundings = Surroundings.learn(teacher, trial.log_isolation[~np.isnan(trial.log_isolation)])
    return Study(CompiledRecalibrator.of(student, surroundings, loss, exact, n), fit.judged, trial.judged)


def _forms(fit: CrossFit) -> Iterator[Form]:
    """Yield the best form of one network, then, if nobody is content, of the mean of several, which err less."""
    rows = max(len(lesson.positions) for lesson, _ in fit.lessons)
    steps = int(np.clip(_STEPS_A_ROW * rows, _FEWEST_STEPS, _MOST_STEPS))
    trends = (True, False) if any(lesson.parts for lesson, _ in fit.lessons) else (False,)
    single = [Form((Kind(has_trend, _effort(hidden, steps)),)) for hidden in _HIDDEN for has_trend in trends]
    finalists = fit.race(single, _FINALISTS)
    if len(fit.z) < _MANY_POINTS and len(finalists) > 1:
        finalists.append(Form(tuple(form.kinds[0] for form in finalists)))
    best = _best([fit.attempt(one) for form in finalists for one in form.with_anchors_too()])
    yield best.form
    yield _best([fit.attempt(one) for one in _several(best.form).with_anchors_too()]).form


def _several(form: Form) -> Form:
    """Return the form with several networks: one depends on where it starts, the mean of several less.

    What is told of one is cautious of their mean, whose CRPS is no more than the mean of theirs. Of two kinds there is
    half as many of either.
    """

    def several(kind: Kind) -> Kind:
        members = _NARROW if kind.effort.hidden <= min(_HIDDEN) else _WIDE
        return kind._replace(effort=kind.effort._replace(members=max(members // len(form.kinds), 1)))

    return form._replace(kinds=tuple(map(several, form.kinds)))


def _learning_better(form: Form) -> Form:
    """Return the form that learns from larger batches: what is told of those with small ones is cautious of it."""

    def better(kind: Kind) -> Kind:
        return kind._replace(effort=kind.effort._replace(batch=_LARGER * kind.effort.batch))

    return form._replace(kinds=tuple(map(better, form.kinds)))


def _effort(hidden: int, steps: int) -> Effort:
    """Return how a network learns: a wide one in fewer steps, each larger."""
    if hidden == min(_HIDDEN):
        return Effort(hidden, steps)
    return Effort(hidden, int(_WIDE_STEPS * steps), rate=6e-3)


def _best(trials: Sequence[Trial]) -> Trial:
    """Return the trial that loses least, and one standard error; what is smaller is given some advantage."""

    def standing(trial: Trial) -> float:
        is_wide = any(kind.effort.hidden > min(_HIDDEN) for kind in trial.form.kinds)
        return trial.in_doubt + (_ADVANTAGE if is_wide else 0.0)

    return min(trials, key=standing)


def loss_of(recalibrator: Any) -> Any:
    """Return the loss of a compiled recalibrator, of several combined the largest; None of what is not compiled."""
    recalibrator = getattr(recalibrator, "inner_", recalibrator)
    if isinstance(recalibrator, CombinedRecalibrator):
        known = [loss_of(member) for member in recalibrator.members_]
        return max((loss for loss in known if loss is not None), key=lambda loss: loss.loss, default=None)
    return recalibrator.loss_ if isinstance(recalibrator, CompiledRecalibrator) else None


def _summary(compiled: Any) -> str:
    return str(loss_of(compiled)).partition("\n")[0]


def _n_cal(recalibrator: Any) -> int:
    if not hasattr(recalibrator, "recalibrate"):
        raise InvalidParameterError(
            "model_or_recalibrator must be a calibrated model or a fitted recalibrator, got "
            f"{type(recalibrator).__name__}; calibrate the model first, with nearcal.calibrate"
        )
    if hasattr(recalibrator, "_require_fitted"):
        recalibrator._require_fitted()
    return getattr(recalibrator, "n_cal_", 0)
