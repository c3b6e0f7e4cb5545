"""``nearcal reproduce``: the studies of the paper, run again."""

from pathlib import Path
from typing import Annotated

import typer

from nearcal.cli._console import check_word

EXAMPLES = """
nearcal reproduce gaussian --quick
nearcal reproduce all --out results
"""


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="gaussian, rosenbrock, simulation, diamonds, or all.")],
    output: Annotated[
        Path | None, typer.Option("--out", "--output", "-o", help="Folder for tables and figures.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version that shows the way.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The size of the paper.")] = False,
    seeds: Annotated[int | None, typer.Option(help="Number of repetitions.")] = None,
) -> None:
    """Run a study of the paper again, print its table and write its figures."""
    from nearcal import studies

    check_word(name, (*studies.STUDIES, "all"), "NAME")
    result = studies.reproduce(name, output, quick=quick, seeds=seeds, full=full, progress=True)
    print(f"{result}\nWrote {result.out}")
