"""``nearcal demo``: a network on the diamonds, before and after."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """
nearcal demo
nearcal demo -o somewhere
"""


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for figures and the report.")] = Path(
        "nearcal-demo"
    ),
) -> None:
    """Train a network on the prices of diamonds, recalibrate it, and show what has changed."""
    from nearcal import studies

    studies.demo(output, progress=True)
