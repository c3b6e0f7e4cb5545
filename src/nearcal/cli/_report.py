"""``nearcal report``: one page for the person who must decide whether to trust the model."""

from pathlib import Path
from typing import Annotated

import typer

import nearcal
from nearcal.cli._console import print_json
from nearcal.cli._judging import judge
from nearcal.cli._mistakes import Mistake, check_share, require_place

EXAMPLES = r"""
nearcal report model.nearcal test.parquet -o report.html
nearcal report model.nearcal test.csv -o report.html \
    --features carat,clarity --title 'Prices of diamonds'
"""


def report(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model made by nearcal fit.")],
    test: Annotated[
        Path, typer.Argument(metavar="TEST", help="Table of rows with responses, none of which the model has seen.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the page, .html.")],
    y: Annotated[str | None, typer.Option("--y", help="Column of what was observed; as in fit if not given.")] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Columns that regions are described by; those of the space if not given."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    coverage: Annotated[float, typer.Option(help="Coverage of the intervals judged.")] = 0.9,
    skip_missing: Annotated[bool, typer.Option("--skip-missing", help="Leave out rows with missing values.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Write a page that tells whether, and where, predictions can be trusted before and after recalibration.

    The page is one file and needs no network.
    """
    check_share(coverage, "--coverage")
    if output.suffix.lower() not in (".html", ".htm"):
        raise Mistake(f"--output {output} is no page", f"did you mean '{output.with_suffix('.html')}'?")
    require_place(output)
    judged = judge(model, test, y, skip_missing, features)
    page = nearcal.report(
        judged.dists,
        judged.y,
        judged.space,
        features=judged.features or None,
        title=title or f"{model.name} on {test.name}",
        response=judged.response,
        coverage=coverage,
        tuning=judged.tuning,
    )
    page.save(output)
    if as_json:
        print_json({"output": str(output), "rows": len(judged.y), "rows_left_out": judged.left_out})
        return
    print(f"Wrote {output}; open it in a browser: {output.resolve().as_uri()}")
