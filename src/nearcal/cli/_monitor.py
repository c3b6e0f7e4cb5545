"""``nearcal monitor``: whether predictions are still calibrated, told by responses in order of time."""

from pathlib import Path
from typing import Annotated, Any

import typer

import nearcal as nc
from nearcal.cli._console import Mistake, ModelFile, SkipMissing, check_share, require_place, tell
from nearcal.cli._judge import Response, judge
from nearcal.cli._model import load_artefact
from nearcal.online import Alarm, CalibrationMonitor

LOST = 3  # the exit code of an alarm: 1 is what a crash leaves, 2 a mistake
_FALSE_ALARM = 0.01
EXAMPLES = r"""
nearcal monitor model.nearcal stream.parquet
nearcal monitor model.nearcal stream.csv --y price \
    --false-alarm 0.001 --json
nearcal monitor model.nearcal today.parquet --state monitor.nearcal
nearcal monitor model.nearcal stream.parquet --base
"""


def monitor(
    model: ModelFile,
    stream: Annotated[
        Path, typer.Argument(metavar="STREAM", help="Table of rows with responses, in order of time, oldest first.")
    ],
    y: Response = None,
    false_alarm: Annotated[
        float | None, typer.Option(help=f"Probability of ever giving a false alarm; {_FALSE_ALARM} if not given.")
    ] = None,
    base: Annotated[bool, typer.Option("--base", help="Watch the model's own predictions instead.")] = False,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Go on from this file if it exists, and write it: one stream in many tables."
        ),
    ] = None,
    skip_missing: SkipMissing = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Tell whether predictions have lost their calibration, and since when.

    Responses are bet on in the order of rows: the exit code is 0 while calibration holds, 3 once it is lost. While it
    holds, an alarm is ever given with probability at most --false-alarm, however many rows there are and however often
    the command is run with the same --state. After an alarm, and what was done about it, remove that file.
    """
    if false_alarm is not None:
        check_share(false_alarm, "--false-alarm")
    if state is not None:
        require_place(state, "--state", model=model, table=stream)
    watch = _open(state, false_alarm)
    judged = judge(model, stream, y, skip_missing)
    before = watch.n_observed
    alarm = watch.observe(judged.dists["base" if base else "recalibrated"], judged.y)
    if state is not None:
        nc.save(watch, state)
    facts = {
        "calibrated": alarm is None,
        "rows": len(judged.y),
        "rows_left_out": judged.left_out,
        "rows_before": before,
        "false_alarm": watch.false_alarm,
        "p_value": watch.p_value,
        "alarm": None if alarm is None else _facts(alarm),
    }
    tell(as_json, facts, _sentence(watch, len(judged.y), before))
    if alarm is not None:
        raise typer.Exit(LOST)


def _open(state: Path | None, false_alarm: float | None) -> CalibrationMonitor:
    if state is None or not state.exists():
        return CalibrationMonitor(_FALSE_ALARM if false_alarm is None else false_alarm)
    watch = load_artefact(state, "give a file that nearcal monitor --state wrote").content
    if not isinstance(watch, CalibrationMonitor):
        raise Mistake(
            f"--state {state} holds a {type(watch).__name__}, no monitor",
            "give a file that --state wrote, or a new name",
        )
    if false_alarm not in (None, watch.false_alarm):
        raise Mistake(
            f"--false-alarm is {false_alarm:g}, and --state {state} was begun with {watch.false_alarm:g}",
            "leave --false-alarm out, or begin a new file",
        )
    return watch


def _facts(alarm: Alarm) -> dict[str, Any]:
    """Return an alarm with rows counted from 1, as people count the rows of a table."""
    return {"row": alarm.index + 1, "since_row": alarm.since + 1, "diagnosis": alarm.diagnosis}


def _sentence(watch: CalibrationMonitor, rows: int, before: int) -> str:
    counted = f"{rows} rows" + (f" after {before}" if before else "")
    if watch.alarm is None:
        return f"{counted}: no sign that calibration was lost (p = {watch.p_value:.2g})"
    row, since = watch.alarm.index + 1, watch.alarm.since + 1
    return (
        f"{counted}: calibration was lost, {watch.alarm.diagnosis}; noticed at row {row}, since about row {since} "
        f"(p = {watch.p_value:.2g})"
    )
