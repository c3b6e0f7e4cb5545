"""``nearcal evaluate`` and ``nearcal report``: predictions before and after, of rows whose responses are known."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import typer

import nearcal as nc
from nearcal._arrays import FloatArray
from nearcal.cli._console import Mistake, ModelFile, SkipMissing, check_share, require_place, tell
from nearcal.cli._folders import Engine, EngineName, Scheduler, WorkersOption, parts_of
from nearcal.cli._model import load_model, match_columns, must_be_positive
from nearcal.cli._relations import Groups, Relations, Time
from nearcal.cli._rows import read_all
from nearcal.cli._tables import open_table
from nearcal.compiled import CompilationLoss, loss_of
from nearcal.distributed.batches import is_numeric, judged_columns, needed_columns
from nearcal.distributions import Distribution
from nearcal.tuning import Combination, Tuning

TestFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="TEST", help="Table of rows with responses, or a folder; the model has seen none.")
]
Response: TypeAlias = Annotated[
    str | None, typer.Option("--y", help="Column of what was observed; as in fit if not given.")
]
Coverage: TypeAlias = Annotated[float, typer.Option(help="Coverage of the intervals judged.")]

EXAMPLES = {
    "evaluate": """
nearcal evaluate model.nearcal test.parquet
nearcal evaluate model.nearcal test.csv --y price --coverage 0.95 --json
nearcal evaluate model.nearcal later.parquet --time observed_at
nearcal evaluate model.nearcal test/ --engine dask --workers 8
""",
    "report": r"""
nearcal report model.nearcal test.parquet -o report.html
nearcal report model.nearcal test.csv -o report.html \
    --features carat,clarity --title 'Prices of diamonds'
""",
}


def evaluate(
    model: ModelFile,
    test: TestFile,
    y: Response = None,
    coverage: Coverage = 0.9,
    regions: Annotated[
        int | None,
        typer.Option(
            help="Number of regions of the space, for local calibration; 10, or as many as rows, if not given."
        ),
    ] = None,
    groups: Groups = None,
    time: Time = None,
    skip_missing: SkipMissing = False,
    engine: EngineName = "local",
    workers: WorkersOption = None,
    scheduler: Scheduler = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Compare predictions before and after recalibration with what was observed.

    Lower is better for crps, log_score, rmse, interval_score, pce and regional_coverage_error. Coverage overall and in
    the worst region should be near the one asked for.
    """
    check_share(coverage, "--coverage")
    if regions is not None and regions < 2:
        raise Mistake(f"--regions must be at least 2, got {regions}", "10 is usual")
    runner = Engine.of(engine, workers, scheduler, test)
    if runner.name == "dask":
        table = _evaluate_on_dask(model, test, y, coverage, regions, groups, time, skip_missing, runner)
        facts = {"coverage": coverage, "metrics": list(table)}
        tell(as_json, facts, f"intervals of coverage {coverage:g}\n{table}")
        return
    judged = judge(model, test, y, skip_missing, groups=groups, time=time)
    if judged.space is not None and regions is not None and regions > len(judged.y):
        raise Mistake(f"--regions must be at most the number of rows, {len(judged.y)}, got {regions}", "take fewer")
    table = nc.evaluate(judged.dists, judged.y, judged.space, coverage, regions=regions, **judged.relations)
    facts = {"rows": len(judged.y), "rows_left_out": judged.left_out, "coverage": coverage, "metrics": list(table)}
    tell(as_json, facts, f"{len(judged.y)} rows, intervals of coverage {coverage:g}\n{table}")


def _evaluate_on_dask(
    model: Path, test: Path, y: str | None, coverage: float, regions: int | None, groups: str | None, time: str | None,
    skip_missing: bool, engine: Engine,
) -> nc.Evaluation:  # fmt: skip
    """Let a cluster compute what is asked of each row; a model of columns says which columns these are."""
    from nearcal.distributed.dask import read_parts

    calibrated, columns = load_model(model)
    names, response = parts_of(test), y or columns.response
    if response is None:
        raise Mistake(f"{model} does not say which column holds the responses", "name it by --y")
    if groups is not None and time is not None:
        raise Mistake("--groups and --time are both given", "errors are counted by one of them: give the coarser one")
    related = [name for name in (groups, time) if name is not None]
    needed = list(dict.fromkeys([response, *needed_columns(calibrated), *judged_columns(calibrated), *related]))
    open_table(test).require(needed, asked_by=f"{model} takes")
    with engine.client():
        frame = read_parts(test.resolve(), names, needed, skip_missing=skip_missing)
        return nc.dask.evaluate(model, frame, response, coverage, regions=regions, groups=groups, time=time)


def report(
    model: ModelFile,
    test: TestFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the page, .html.")],
    y: Response = None,
    features: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Columns that regions are described by; those of the space if not given."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    unit: Annotated[str, typer.Option(help="What the response is measured in, such as dollars.")] = "",
    coverage: Coverage = 0.9,
    groups: Groups = None,
    time: Time = None,
    skip_missing: SkipMissing = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Write a page that tells whether, and where, predictions can be trusted before and after recalibration.

    The page is one file and needs no network.
    """
    check_share(coverage, "--coverage")
    require_place(output, model=model, table=test)
    if output.suffix.lower() not in (".html", ".htm"):
        raise Mistake(f"--output {output} is no page", f"did you mean '{output.with_suffix('.html')}'?")
    judged = judge(model, test, y, skip_missing, features, groups, time)
    page = nc.report(
        judged.dists,
        judged.y,
        judged.space,
        features=judged.features or None,
        # names of files need not be in UTF-8, pages are
        title=title or f"{model.name} on {test.name}".encode(errors="replace").decode(),
        response=judged.response,
        unit=unit,
        coverage=coverage,
        tuning=judged.tuning,
        **judged.relations,
    )
    page.save(output)
    facts = {"output": str(output), "rows": len(judged.y), "rows_left_out": judged.left_out}
    tell(as_json, facts, f"Wrote {output}; open it in a browser: {output.resolve().as_uri()}")


class Judged(NamedTuple):
    """Distributions by name, responses and their name, positions if there are any, features by name, and the rest."""

    dists: dict[str, Distribution]
    y: FloatArray
    response: str
    space: FloatArray | None
    features: dict[str, Any]
    left_out: int
    tuning: Tuning | Combination | CompilationLoss | None
    relations: dict[str, Any]


def judge(
    model: Path,
    test: Path,
    response: str | None,
    skip_missing: bool,
    features: Sequence[str] | None = None,
    groups: str | None = None,
    time: str | None = None,
) -> Judged:
    """Read a table of new rows with responses, and predict them; features default to the columns of the space."""
    if groups is not None and time is not None:
        raise Mistake("--groups and --time are both given", "errors are counted by one of them: give the coarser one")
    calibrated, columns = load_model(model)
    file = open_table(test)
    y = response or columns.response
    if y is None:
        raise Mistake(f"{model} does not say which column holds the responses", "name it by --y")
    file.require([y], asked_by="should hold the responses")
    own = judged_columns(calibrated)
    needed = tuple(dict.fromkeys([*needed_columns(calibrated), *own]))
    file.require(needed, asked_by=f"{model} takes")
    shown = match_columns(file, features, "--features") if features else own
    numeric = [name for name in shown if is_numeric(file.schema.field(name).type)]
    related = Relations.of(file, groups, time)
    texts = list(dict.fromkeys([*(name for name in shown if name not in numeric), *related.texts]))
    names = list(dict.fromkeys([y, *needed, *numeric, *related.numbers]))
    table, others, left_out = read_all(
        file, names, positive=must_be_positive(columns), skip_missing=skip_missing, texts=texts
    )
    return Judged(
        {"base": calibrated.base(table), "recalibrated": calibrated.predict(table)},
        table[y],
        y,
        np.column_stack([table[name] for name in own]) if own else None,
        {name: table[name] if name in table else others[name] for name in shown},
        left_out,
        calibrated.tuning or loss_of(calibrated.recalibrator),
        related.values(table, others),
    )
