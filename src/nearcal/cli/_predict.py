"""``nearcal predict``: recalibrated predictions of new rows, however many there are."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from nearcal._errors import NearcalError
from nearcal.cli._companion import Companion
from nearcal.cli._console import print_json, progress_bar, remark
from nearcal.cli._mapping import match_columns
from nearcal.cli._mistakes import Mistake, check_share, require_place
from nearcal.cli._model import load_model, parts_of_space
from nearcal.cli._numbers import Rows, check_all, iterate, must_be_positive
from nearcal.cli._output import writing
from nearcal.cli._tables import check_format, open_table
from nearcal.cli._wanted import Wanted
from nearcal.models import CalibratedModel
from nearcal.recalibration import GlobalRecalibrator, LocalRecalibrator

EXAMPLES = r"""
nearcal predict model.nearcal new.parquet -o out.parquet
nearcal predict model.nearcal new.csv -o out.csv --keep id \
    --coverage 0.9 --coverage 0.95
nearcal predict model.nearcal new.parquet -o out.arrow \
    --quantiles 0.1,0.5,0.9 --no-mean --no-std
nearcal predict model.nearcal new.parquet -o out.parquet --reliability
"""


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model made by nearcal fit.")],
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
    reliability: Annotated[
        bool, typer.Option("--reliability", help="Write effective_size, radius, p_value and out_of_distribution.")
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
    when it is complete. Columns are mean, std, lower_90 and upper_90 for a coverage of 0.9, and q5 for the quantile of
    level 0.05.
    """
    begin = perf_counter()
    check_format(output)
    require_place(output)
    check_share(false_alarm, "--false-alarm")
    levels = list(dict.fromkeys(level for text in quantiles or [] for level in _as_levels(text)))
    coverages = [check_share(value, "--coverage") for value in dict.fromkeys(coverage or ([] if levels else [0.9]))]
    wanted = Wanted(mean, std, coverages, levels, false_alarm if reliability else None)
    calibrated, columns = load_model(model)
    file = open_table(new)
    needed = columns.columns(*parts_of_space(calibrated, columns))
    file.require(needed, asked_by=f"{model} takes")
    kept = match_columns(file, keep or [], "--keep")
    _check_clashes(kept, wanted)
    if output.exists() and output.samefile(new):
        raise Mistake(f"--output {output} is the table to be read", "choose another name")
    companion = Companion(columns)
    with writing(output) as write:
        with progress_bar("checking", file.rows) as report:

            def look(rows: Rows) -> None:
                companion.look(rows.complete())
                report(rows.stop, None)

            findings = check_all(file, needed, must_be_positive(columns), skip_missing, look)
        with progress_bar("predicting", findings.rows) as report:
            for rows in iterate(file, needed, kept):
                _follow(calibrated, rows, report)
                write(_predict_rows(calibrated, rows, wanted, companion, file.path))
                report(rows.stop, None)
    seconds = perf_counter() - begin
    if as_json:
        print_json(
            {
                "output": str(output),
                "rows": findings.rows,
                "rows_left_empty": findings.incomplete,
                "columns": [*kept, *wanted.names()],
                "seconds": round(seconds, 3),
            }
        )
        return
    if findings.incomplete:
        remark(f"left {findings.incomplete} rows with missing values empty")
    print(f"Wrote {findings.rows} rows to {output} in {seconds:.1f} s")


def _as_levels(text: str) -> list[float]:
    levels = []
    for part in text.split(","):
        try:
            levels.append(float(part))
        except ValueError:
            raise Mistake(f"--quantiles must be numbers between commas, got {text!r}", "such as 0.1,0.5,0.9") from None
    return [check_share(level, "--quantiles") for level in levels]


def _check_clashes(kept: tuple[str, ...], wanted: Wanted) -> None:
    names = wanted.names()
    if not names:
        raise Mistake("nothing to predict: --no-mean and --no-std, no --coverage and no --quantiles", "ask for one")
    for name in kept:
        if name in names:
            raise Mistake(f"--keep {name!r} has the name of a column to be written", "rename it in the table first")


def _follow(calibrated: CalibratedModel, rows: Rows, report: Callable[[int, int | None], None]) -> None:
    """Let the bar move within a batch, where the recalibrator tells how far it is."""
    recalibrator = calibrated.recalibrator
    if isinstance(recalibrator, LocalRecalibrator | GlobalRecalibrator):
        recalibrator.set_params(progress=lambda done, total: report(rows.start + done, None))


def _predict_rows(calibrated: CalibratedModel, rows: Rows, wanted: Wanted, companion: Companion, path: Path) -> Any:
    """Return kept columns and predictions as a record batch; those of incomplete rows are null."""
    columns: dict[str, Any] = dict(rows.texts)
    found: dict[str, Any] = {}
    if rows.whole.any():
        numbers, own = companion.join(rows.complete())
        try:
            found = {name: values[own] for name, values in wanted.of(calibrated.predict(numbers)).items()}
        except NearcalError as error:
            raise Mistake(f"rows {rows.start + 1} to {rows.stop} of {path}: {error}") from error
    for name in wanted.names():
        columns[name] = _with_gaps(found.get(name, np.empty(0, dtype=_dtype(name))), rows.whole)
    return pa.RecordBatch.from_pydict(columns)


def _dtype(name: str) -> type:
    return np.bool_ if name == "out_of_distribution" else np.float64


def _with_gaps(values: Any, whole: Any) -> Any:
    if whole.all():
        return pa.array(values)
    spread = np.zeros(len(whole), dtype=values.dtype)
    spread[whole] = values
    return pa.array(spread, mask=~whole)
