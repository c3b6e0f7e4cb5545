"""``nearcal predict``: recalibrated predictions of new rows, however many there are."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from nearcal._errors import NearcalError, OutOfDistributionWarning
from nearcal.cli._console import Mistake, ModelFile, check_share, progress_bar, remark, require_place, tell
from nearcal.cli._guarantee import columns_of_promise
from nearcal.cli._model import load_model, match_columns, must_be_positive, parts_of_space
from nearcal.cli._rows import Findings, Rows, iterate
from nearcal.cli._tables import TableFile, are_whole_numbers, check_format, open_table, writing
from nearcal.distributions import interval_levels
from nearcal.models import CalibratedModel
from nearcal.recalibration import LocalRecalibrator, Recalibrated, Workers, warn_of_faded

_JUDGED = ("effective_size", "radius", "p_value", "out_of_distribution")
EXAMPLES = r"""
nearcal predict model.nearcal new.parquet -o out.parquet
nearcal predict model.nearcal new.csv -o out.csv --keep id \
    --coverage 0.9 --coverage 0.95
nearcal predict model.nearcal new.parquet -o out.arrow \
    --quantiles 0.1,0.5,0.9 --no-mean --no-std
nearcal predict model.nearcal new.parquet -o out.parquet --reliability
"""


def predict(
    model: ModelFile,
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Table of new rows: .parquet, .csv, .arrow …")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write; the suffix says the format.")],
    coverage: Annotated[
        list[float] | None, typer.Option(metavar="SHARE", help="Coverage of an interval; may be repeated.")
    ] = None,
    quantiles: Annotated[
        list[str] | None, typer.Option(metavar="LEVELS", help="Levels of quantiles, 0.1,0.5,0.9.")
    ] = None,
    mean: Annotated[bool, typer.Option(help="Whether to write the mean.")] = True,
    std: Annotated[bool, typer.Option(help="Whether to write the standard deviation.")] = True,
    trust: Annotated[
        bool | None,
        typer.Option(
            "--trust/--no-trust",
            help="Write how much of its recalibration a row has, below 1 if it is unlike the calibration set; if not "
            "said, with --reliability and where the model fades.",
            show_default=False,
        ),
    ] = None,
    reliability: Annotated[
        bool, typer.Option("--reliability", help="Write effective_size, radius, p_value, out_of_distribution, trust.")
    ] = False,
    false_alarm: Annotated[float, typer.Option(help="Share of usual rows that may be flagged.")] = 0.01,
    keep: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Columns to copy, such as an id.")] = None,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave predictions of rows with missing values empty.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Write the recalibrated predictions of new rows.

    The table is read and written in batches: memory does not grow with its rows. The output appears under its name
    when it is complete. Columns are mean, std, lower_90 and upper_90 for a coverage of 0.9, q5 for the quantile of
    level 0.05, and trust.
    """
    begin = perf_counter()
    require_place(output, model=model, table=new)
    check_format(output)
    check_share(false_alarm, "--false-alarm")
    levels = list(dict.fromkeys(level for text in quantiles or [] for level in _as_levels(text)))
    coverages = [check_share(value, "--coverage") for value in dict.fromkeys(coverage or ([] if levels else [0.9]))]
    calibrated, columns = load_model(model)
    is_told = (reliability or calibrated.fade is not None) if trust is None else trust
    wanted = Wanted(mean, std, coverages, levels, is_told, false_alarm if reliability else None)
    file = open_table(new)
    needed = list(
        dict.fromkeys([*columns.columns(*parts_of_space(calibrated, columns)), *columns_of_promise(calibrated)])
    )
    file.require(needed, asked_by=f"{model} takes")
    kept = match_columns(file, keep or [], "--keep")
    _check_clashes(kept, wanted)
    with writing(output) as write:
        findings = _check(file, needed, kept, Findings(file, must_be_positive(columns), skip_missing))
        faded = 0
        with progress_bar("predicting", findings.rows) as report, _told_at_the_end():
            for rows in iterate(file, needed, kept):
                _follow(calibrated, rows, report)
                batch, faded_here = _predict_rows(calibrated, rows, wanted, file.path)
                write(batch)
                faded += faded_here
                report(rows.stop, None)
    seconds = perf_counter() - begin
    if findings.incomplete and not as_json:
        remark(f"left {findings.incomplete} rows with missing values empty")
    if calibrated.fade is not None:
        warn_of_faded(faded, findings.rows - findings.incomplete, calibrated.fade.expected)
    facts = {
        "output": str(output),
        "rows": findings.rows,
        "rows_left_empty": findings.incomplete,
        "rows_faded": faded,
        "columns": [*kept, *wanted.names()],
        "seconds": round(seconds, 3),
    }
    unlike = "" if calibrated.fade is None else f"; {faded} are unlike the calibration set"
    tell(as_json, facts, f"Wrote {findings.rows} rows to {output} in {seconds:.1f} s{unlike}")


@contextmanager
def _told_at_the_end() -> Iterator[None]:
    """Keep every batch from warning by itself: all are told of together."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutOfDistributionWarning)
        yield


def _as_levels(text: str) -> list[float]:
    try:
        levels = [float(part) for part in text.split(",")]
    except ValueError:
        raise Mistake(f"--quantiles must be numbers between commas, got {text!r}", "such as 0.1,0.5,0.9") from None
    return [check_share(level, "--quantiles") for level in levels]


def _check_clashes(kept: Sequence[str], wanted: "Wanted") -> None:
    names = wanted.names()
    for values in (wanted.coverages, wanted.levels):
        for one, other in combinations(values, 2):
            if _percent(one) == _percent(other):
                raise Mistake(f"columns of {one!r} and {other!r} would have the same name", "leave one out")
    if not names:
        raise Mistake("nothing to predict: --no-mean and --no-std, no --coverage and no --quantiles", "ask for one")
    for name in kept:
        if name in names:
            raise Mistake(f"--keep {name!r} has the name of a column to be written", "rename it in the table first")


def _check(file: TableFile, needed: Sequence[str], kept: Sequence[str], findings: Findings) -> Findings:
    """Read a file once: refuse it if anything is wrong, and find the columns of text that are whole numbers."""
    whole = set(kept) - set(needed) if file.is_text else set()
    with progress_bar("checking", file.rows) as report:
        for rows in iterate(file, needed, sorted(whole)):
            findings.look(rows)
            whole = {name for name in whole if are_whole_numbers(rows.texts[name])}
            report(rows.stop, None)
    findings.raise_mistakes()
    file.whole_numbers = frozenset(whole)
    return findings


def _follow(calibrated: CalibratedModel, rows: Rows, report: Callable[[int, int | None], None]) -> None:
    """Let the bar move within a batch, where the recalibrator tells how far it is."""
    recalibrator = getattr(calibrated.recalibrator, "inner_", calibrated.recalibrator)
    if isinstance(recalibrator, LocalRecalibrator):
        workers = Workers.of(recalibrator.workers)
        recalibrator.workers = replace(workers, progress=lambda done, total: report(rows.start + done, None))


def _predict_rows(calibrated: CalibratedModel, rows: Rows, wanted: "Wanted", path: Path) -> tuple[Any, int]:
    """Return kept columns and predictions as a record batch, those of incomplete rows null, and how many have faded."""
    columns: dict[str, Any] = dict(rows.texts)
    predicted: dict[str, Any] = {}
    if rows.whole.any():
        try:
            predicted = wanted.of(calibrated.predict(rows.complete()))
        except NearcalError as error:
            raise Mistake(f"rows {rows.start + 1} to {rows.stop} of {path}: {error}") from error
    for name in wanted.names():
        columns[name] = _with_gaps(predicted.get(name, np.empty(0, dtype=_dtype(name))), rows.whole)
    return pa.RecordBatch.from_pydict(columns), int((predicted.get("trust", np.ones(0)) < 1).sum())


def _dtype(name: str) -> type:
    return np.bool_ if name == "out_of_distribution" else np.float64


def _with_gaps(values: Any, whole: Any) -> Any:
    if whole.all():
        return pa.array(values)
    spread = np.zeros(len(whole), dtype=values.dtype)
    spread[whole] = values
    return pa.array(spread, mask=~whole)


@dataclass(frozen=True)
class Wanted:
    """What to write of every row; ``false_alarm`` is None where reliability was not asked for."""

    mean: bool
    std: bool
    coverages: list[float]
    levels: list[float]
    trust: bool
    false_alarm: float | None

    def names(self) -> list[str]:
        """Return the names of the columns."""
        moments = [name for name, is_wanted in (("mean", self.mean), ("std", self.std)) if is_wanted]
        ends = [f"{end}_{_percent(value)}" for value in self.coverages for end in ("lower", "upper")]
        judged = () if self.false_alarm is None else _JUDGED
        last = ("trust",) * self.trust
        return [*moments, *ends, *(f"q{_percent(level)}" for level in self.levels), *judged, *last]

    def of(self, dist: Recalibrated) -> dict[str, Any]:
        """Compute the columns of some rows, and in any case their trust."""
        # a conformal interval is not two quantiles
        values: list[Any] = self._summary(dist) if type(dist) is Recalibrated else self._one_by_one(dist)
        trust = values.pop()
        if self.false_alarm is not None:
            table = dist.reliability(self.false_alarm)
            values += [table[name] for name in _JUDGED]
        values += [trust] * self.trust
        return {**dict(zip(self.names(), values, strict=True)), "trust": trust}

    def _summary(self, dist: Recalibrated) -> list[Any]:
        """Compute all statistics in one pass over the neighbourhoods, trust the last."""
        ends = [level for value in self.coverages for level in interval_levels(value)]
        summary = dist.summary(p=[*ends, *self.levels])
        moments = [column for column, is_wanted in ((summary.mean, self.mean), (summary.std, self.std)) if is_wanted]
        return [*moments, *summary.quantiles.T, summary.trust]

    def _one_by_one(self, dist: Recalibrated) -> list[Any]:
        """Ask for every statistic, trust the last."""
        moments = [get() for get, is_wanted in ((dist.mean, self.mean), (dist.std, self.std)) if is_wanted]
        ends = [end for value in self.coverages for end in dist.interval(value)]
        return [*moments, *ends, *(dist.ppf(level) for level in self.levels), dist.trust]


def _percent(share: float) -> str:
    return f"{100 * share:.10g}"
