"""Distilling: a student of what was chosen takes its place, if it is better on rows that neither has seen."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._table import Table
from nearcal.compiled import CompiledRecalibrator, Study, study
from nearcal.distributions import Distribution
from nearcal.recalibration import AveragedRecalibrator, LocalRecalibrator
from nearcal.space import Folds
from nearcal.tuning.candidates import Candidate
from nearcal.tuning.choice import Comparison, mean_and_error
from nearcal.tuning.evidence import Tuning
from nearcal.tuning.finals import TAILS, Decision, Finals
from nearcal.tuning.racing import Effort, EffortName

_ERRORS = 2  # standard errors by which a student must be better


class Scores(NamedTuple):
    """Mean CRPS and 95% interval score."""

    crps: float
    interval: float


class Distilled(NamedTuple):
    """A student, and its scores less those of its teacher: of rows that neither had seen, with standard errors.

    ``total`` is the difference in what finalists are chosen by, relative to the teacher's score; ``std_error`` that of
    the student's own CRPS.
    """

    recalibrator: CompiledRecalibrator
    rows: int
    std_error: float
    crps: tuple[float, float]
    interval: tuple[float, float]
    total: tuple[float, float]

    @classmethod
    def of(cls, studied: Study, folds: Folds | None) -> "Distilled":
        """Compare students with teachers row by row."""
        exact, own = studied.by_exact, studied.by_students
        known = np.flatnonzero(~np.isnan(exact.crps))
        units = None if folds is None else folds.units[known]
        weights = exact.weights[known]

        def mean(values: FloatArray) -> tuple[float, float]:
            return mean_and_error(values[known], units, weights)

        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):  # infinite scores, or none to speak of
            crps, interval = own.crps - exact.crps, own.interval - exact.interval
            total, whole = mean(crps + TAILS * interval), mean(exact.crps + TAILS * exact.interval)
            difference, error = np.divide(total, whole[0]).tolist()
            return cls(studied.compiled, len(known), mean(own.crps)[1], mean(crps), mean(interval), (difference, error))

    @property
    def is_better(self) -> bool:
        """Whether the student takes the place of its teacher.

        One form or two were tried, so its score owes little to chance; but it is that of few rows where students differ
        most. And the exact recalibrator can be updated, looked into and put in shards: it stays where there is doubt.
        """
        difference, error = self.total
        return difference < -_ERRORS * error and self.recalibrator.loss_.loss < 0

    def __str__(self) -> str:
        difference, error = (100 * part for part in self.total)
        return (
            f"a student ({self.recalibrator.loss_.form}) differs from its teacher in CRPS + {TAILS} × 95% interval "
            f"score by {difference:+.1f}% ± {error:.1f}%, on {self.rows} rows that neither had seen"
        )


def check_distilled(distilled: Any) -> None:
    """Refuse what says not whether there is to be a student."""
    if not (isinstance(distilled, bool) or (isinstance(distilled, str) and distilled == "auto")):
        raise InvalidParameterError(f'distilled must be True, False or "auto", got {distilled!r}')


def wants_student(
    distilled: bool | Literal["auto"], effort: EffortName | Effort, chosen: Collection[Candidate]
) -> bool:
    """Tell whether a student of a choice is tried: if not said, of one neighbourhood without trend or line, at leisure.

    Averages and trends leave students nothing to smooth (the study "distilled").
    """
    is_rough = len(chosen) == 1 and not any(one.trend or one.linear for one in chosen)
    return effort == "thorough" and is_rough if distilled == "auto" else distilled


def distil(
    exact: LocalRecalibrator | AveragedRecalibrator, dist_cal: Distribution, folds: Folds | None
) -> Distilled | str:
    """Return a student of a choice, or why there is none; large ones are tried where small ones are no better."""
    try:
        return Distilled.of(study(exact, dist_cal, folds, tolerance=0.0, rng=np.random.default_rng(0)), folds)
    except InvalidInputError as error:
        return str(error)


def scores_of(decision: Decision, comparison: Comparison, finals: Finals | None) -> Scores:
    """Return the scores of what was chosen, as far as they are known."""
    if finals is None or decision.place not in finals.places:
        return Scores(float(comparison.mean[decision.place]), np.nan)
    if len(decision.weights) == 1:
        interval = float(finals.mean("interval")[finals.places.index(decision.place)])
        return Scores(float(comparison.mean[decision.place]), interval)
    assert finals.average is not None
    crps, interval = (np.average(own, weights=finals.weights) for own in finals.average[1:])
    return Scores(float(crps), float(interval))


def with_student(found: Tuning, student: Distilled | str, teacher: Scores) -> Tuning:
    """Return what tuning found with a student among the candidates, which is the choice if it is better."""
    if isinstance(student, str):
        return replace(found, reason=f"{found.reason} Not distilled: {student}.")
    is_better, chosen = student.is_better, replace(found.chosen, distilled=True)
    rows = list(found.table)
    place = next(place for place, row in enumerate(rows) if Candidate.of_row(row) == found.chosen)
    best = rows[place]["crps"] - rows[place]["difference"]
    crps = teacher.crps + student.crps[0]
    row = {
        **rows[place],
        "distilled": True,
        "crps": crps,
        "std_error": student.std_error,
        "difference": crps - best,
        "difference_std_error": student.crps[1],
        "interval_score": teacher.interval + student.interval[0],
        "log_score": np.nan,
        "rows": student.rows,
        "weight": float(is_better),
        "chosen": is_better,
    }
    if not is_better:
        return replace(found, table=_appended(found.table, row), reason=f"{found.reason} Not distilled: {student}.")
    table = _appended(found.table, row, unless={"weight": 0.0, "chosen": False})
    reason = f"Distilled: {student}. The teacher: {found.reason}"
    return replace(found, table=table, chosen=chosen, reason=reason, recalibrator=student.recalibrator)


def _appended(table: Table, row: Mapping[str, Any], unless: Mapping[str, Any] | None = None) -> Table:
    """Return a table with one more row, and all others with some values that they have now."""
    columns = {name: np.append(column, row[name]) for name, column in table.columns.items()}
    for name, value in (unless or {}).items():
        columns[name][:-1] = value
    return Table(columns)
