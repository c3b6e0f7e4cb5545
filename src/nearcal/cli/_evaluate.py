"""``nearcal evaluate``: the table before and after."""

from pathlib import Path
from typing import Annotated

import typer

from nearcal.cli._console import print_json
from nearcal.cli._judging import judge
from nearcal.cli._mistakes import Mistake, check_share
from nearcal.reporting import evaluate as compare

EXAMPLES = """
nearcal evaluate model.nearcal test.parquet
nearcal evaluate model.nearcal test.csv --y price --coverage 0.95 --json
"""


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model made by nearcal fit.")],
    test: Annotated[
        Path, typer.Argument(metavar="TEST", help="Table of rows with responses, none of which the model has seen.")
    ],
    y: Annotated[str | None, typer.Option("--y", help="Column of what was observed; as in fit if not given.")] = None,
    coverage: Annotated[float, typer.Option(help="Coverage of the intervals judged.")] = 0.9,
    regions: Annotated[int, typer.Option(help="Number of regions of the space, for local calibration.")] = 10,
    skip_missing: Annotated[bool, typer.Option("--skip-missing", help="Leave out rows with missing values.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Compare predictions before and after recalibration with what was observed.

    Lower is better for crps, log_score, rmse, interval_score, pce and regional_coverage_error. Coverage overall and in
    the worst region should be near the one asked for.
    """
    check_share(coverage, "--coverage")
    if regions < 2:
        raise Mistake(f"--regions must be at least 2, got {regions}", "10 is usual")
    judged = judge(model, test, y, skip_missing)
    if judged.space is not None and regions > len(judged.y):
        raise Mistake(f"--regions must be at most the number of rows, {len(judged.y)}, got {regions}", "take fewer")
    table = compare(judged.dists, judged.y, judged.space, coverage, regions=regions)
    if as_json:
        print_json(
            {"rows": len(judged.y), "rows_left_out": judged.left_out, "coverage": coverage, "metrics": list(table)}
        )
        return
    print(f"{len(judged.y)} rows, intervals of coverage {coverage:g}\n{table}")
