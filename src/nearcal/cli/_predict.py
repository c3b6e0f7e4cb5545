"""``nearcal predict``: recalibrated predictions of new rows, however many there are."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Annotated, NamedTuple

import typer

from nearcal._errors import NearcalError, OutOfDistributionWarning
from nearcal.cli._console import Mistake, ModelFile, check_share, progress_bar, remark, require_place, tell
from nearcal.cli._folders import (
    Engine,
    EngineName,
    Scheduler,
    WorkersOption,
    go_through,
    parts_of,
    raise_failures,
    require_other_folder,
)
from nearcal.cli._model import load_model, match_columns, must_be_positive
from nearcal.cli._rows import Findings, iterate
from nearcal.cli._tables import TableFile, are_whole_numbers, check_format, open_table, writing
from nearcal.distributed.batches import BatchPredictor, Rows, needed_columns, predict_rows
from nearcal.distributed.parts import PartPredictor
from nearcal.distributed.wanted import Wanted, find_same_name
from nearcal.models import CalibratedModel
from nearcal.recalibration import AveragedRecalibrator, LocalRecalibrator, Workers, warn_of_faded

EXAMPLES = r"""
nearcal predict model.nearcal new.parquet -o out.parquet
nearcal predict model.nearcal new.csv -o out.csv --keep id \
    --coverage 0.9 --coverage 0.95
nearcal predict model.nearcal new.parquet -o out.arrow \
    --quantiles 0.1,0.5,0.9 --no-mean --no-std
nearcal predict model.nearcal new.parquet -o out.parquet --reliability
nearcal predict model.nearcal new/ -o out/ --engine dask --workers 8
"""


def predict(
    model: ModelFile,
    new: Annotated[
        Path, typer.Argument(metavar="NEW", help="Table of new rows: .parquet, .csv, .arrow … or a folder.")
    ],
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
    engine: EngineName = "local",
    workers: WorkersOption = None,
    scheduler: Scheduler = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Of a folder, go on past parts that cannot be predicted.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Write the recalibrated predictions of new rows.

    The table is read and written in batches: memory does not grow with its rows. The output appears under its name
    when it is complete. Columns are mean, std, lower_90 and upper_90 for a coverage of 0.9, q5 for the quantile of
    level 0.05, and trust.

    Of a folder of Parquet files, with folders such as year=2024 in it, every part is predicted into a part of the same
    name under the folder --output. A part is complete or absent; parts that are there already, made by this model from
    these files, are not computed again.
    """
    begin = perf_counter()
    runner = Engine.of(engine, workers, scheduler, new)
    if new.is_dir():
        require_other_folder(output, new)
    else:
        if keep_going:
            raise Mistake("--keep-going is about the parts of a folder, and NEW is one file", "leave it out")
        require_place(output, model=model, table=new)
        check_format(output)
    check_share(false_alarm, "--false-alarm")
    levels = list(dict.fromkeys(level for text in quantiles or [] for level in _as_levels(text)))
    coverages = [check_share(value, "--coverage") for value in dict.fromkeys(coverage or ([] if levels else [0.9]))]
    calibrated, columns = load_model(model)
    is_told = (reliability or calibrated.fade is not None) if trust is None else trust
    wanted = Wanted(mean, std, tuple(coverages), tuple(levels), is_told, false_alarm if reliability else None)
    if new.is_dir():
        task = PartTask(model, new, output, wanted, keep or [], skip_missing)
        _predict_folder(task, calibrated, runner, keep_going, as_json, begin)
        return
    file = open_table(new)
    needed = needed_columns(calibrated)
    file.require(needed, asked_by=f"{model} takes")
    kept = match_columns(file, keep or [], "--keep")
    _check_clashes(kept, wanted)
    with writing(output) as write:
        findings = _check(file, needed, kept, Findings(file, must_be_positive(columns), skip_missing))
        faded = 0
        with progress_bar("predicting", findings.rows) as report, _told_at_the_end():
            for rows in iterate(file, needed, kept):
                _follow(calibrated, rows, report)
                try:
                    batch, faded_here = predict_rows(calibrated, rows, wanted)
                except NearcalError as error:
                    raise Mistake(f"rows {rows.start + 1} to {rows.stop} of {file.path}: {error}") from error
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


class PartTask(NamedTuple):
    """What is asked of a folder."""

    model: Path
    new: Path
    output: Path
    wanted: Wanted
    keep: Sequence[str]
    skip_missing: bool

    def over(
        self, names: Sequence[str], calibrated: CalibratedModel, engine: Engine, keep_going: bool
    ) -> PartPredictor:
        """Return the work on every part, for what the first of them has; or the first that will do."""
        try:
            first = open_table(self.new / names[0])
            first.require(needed_columns(calibrated), asked_by=f"{self.model} takes")
        except Mistake:
            if keep_going and len(names) > 1:
                return self.over(names[1:], calibrated, engine, keep_going)
            raise
        kept = match_columns(first, self.keep, "--keep")
        _check_clashes(kept, self.wanted)
        task = BatchPredictor(self.wanted, kept, self.skip_missing)
        schema = task.schema(first.schema, calibrated)
        model, new, output = (str(path.resolve()) for path in (self.model, self.new, self.output))
        return PartPredictor(model, new, output, task, schema, 1 if engine.name == "dask" else None)


def _predict_folder(
    task: PartTask, calibrated: CalibratedModel, engine: Engine, keep_going: bool, as_json: bool, begin: float
) -> None:
    names = parts_of(task.new)
    work = task.over(names, calibrated, engine, keep_going)
    with _told_at_the_end():
        totals = go_through(work, names, engine, keep_going)
    raise_failures(totals, keep_going)
    seconds = perf_counter() - begin
    if totals.incomplete and not as_json:
        remark(f"left {totals.incomplete} rows with missing values empty")
    if calibrated.fade is not None:
        warn_of_faded(totals.faded, totals.rows - totals.incomplete, calibrated.fade.expected)
    facts = {
        "output": str(task.output),
        "parts": totals.parts,
        "parts_done_before": totals.done_before,
        "rows": totals.rows,
        "rows_left_empty": totals.incomplete,
        "rows_faded": totals.faded,
        "columns": work.schema.names,
        "seconds": round(seconds, 3),
    }
    before = f"; {totals.done_before} parts were there before" if totals.done_before else ""
    text = f"Wrote {totals.rows} rows in {totals.parts} parts to {task.output} in {seconds:.1f} s{before}"
    tell(as_json, facts, text)


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


def _check_clashes(kept: Sequence[str], wanted: Wanted) -> None:
    names = wanted.names()
    for values in (wanted.coverages, wanted.levels):
        if same := find_same_name(values):
            raise Mistake(f"columns of {same[0]!r} and {same[1]!r} would have the same name", "leave one out")
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
    members = recalibrator.members_ if isinstance(recalibrator, AveragedRecalibrator) else (recalibrator,)
    count, size = len(members), rows.stop - rows.start
    for before, member in enumerate(members):  # of an average one after another
        if isinstance(member, LocalRecalibrator):

            def follow(done: int, total: int, before: int = before) -> None:
                report(rows.start + (before * size + done) // count, None)

            member.workers = replace(Workers.of(member.workers), progress=follow)
