"""What commands say: results on stdout, progress and remarks on stderr."""

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def print_json(value: Any) -> None:
    """Print a result for machines; numbers that do not exist become null."""
    print(json.dumps(_plain(value), ensure_ascii=False, indent=2))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def remark(text: str) -> None:
    """Print a line for the person at the keyboard."""
    print(text, file=sys.stderr)


@contextmanager
def progress_bar(activity: str, total: int | None) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function that takes the rows done and, once known, all rows; it draws only where someone looks."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(activity, total=total)

        def update(done: int, total: int | None = None) -> None:
            # one pass over a batch may follow another: the bar does not go back
            bar.update(task, completed=max(done, bar.tasks[task].completed), total=total)

        yield update
