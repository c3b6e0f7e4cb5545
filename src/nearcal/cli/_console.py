"""Between command and person: results on stdout, remarks and progress on stderr, and mistakes, each in one line."""

import difflib
import json
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from nearcal._errors import DependenceWarning, OutOfDistributionWarning, TiesWarning

_MOST_NAMED = 12

# options that several commands share
ModelFile: TypeAlias = Annotated[Path, typer.Argument(metavar="MODEL", help="Model made by nearcal fit.")]
SkipMissing: TypeAlias = Annotated[bool, typer.Option("--skip-missing", help="Leave out rows with missing values.")]


class Mistake(Exception):
    """Something the user got wrong: what is wrong, in one line, and what to do instead."""

    def __init__(self, message: str, suggestion: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion


def did_you_mean(word: str, known: Iterable[str], what: str = "known") -> str:
    """Return a question with the name most like a word, or without any like it a list of the names there are."""
    names = list(dict.fromkeys(known))
    by_lower = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    if close:
        return f"did you mean {by_lower[close[0]]!r}?"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{what}: {', '.join(names[:_MOST_NAMED])}{more}"


def check_word(word: str, known: Iterable[str], option: str) -> str:
    """Return an option's value, refusing one that is not among the known ones."""
    names = list(known)
    if word not in names:
        raise Mistake(f"{option} does not know {word!r}", did_you_mean(word, names))
    return word


def check_share(value: float, option: str) -> float:
    """Return a probability strictly between 0 and 1; who gives percent is asked about it."""
    if 0 < value < 1:
        return value
    suggestion = f"did you mean {value / 100:g}?" if 2 <= value < 100 else "95% is 0.95"
    raise Mistake(f"{option} must lie strictly between 0 and 1, got {value:g}", suggestion)


def require_file(path: Path, remedy: str) -> None:
    """Refuse a path where there is no file to read; a file with a similar name may have been meant."""
    if path.is_dir():
        raise Mistake(f"{path} is a directory without Parquet files", "give a file, or a folder of them")
    if not path.exists():
        neighbours = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        question = did_you_mean(path.name, neighbours)
        better = _no_path(str(path))
        raise Mistake(f"there is no file {path}", better or (question if question.endswith("?") else remedy))


def _no_path(path: str) -> str:
    """Say what to do about a path that is none."""
    if path == "-" or re.match(r"\w+:/", path):
        return "files are read from disk: save it there first"
    if any(mark in path for mark in "*?"):
        return "one file is read at a time: put tables together first"
    return "write out your home directory" if path.startswith("~") else ""


def require_place(path: Path, option: str = "--output", /, **read: Path) -> None:
    """Refuse, before any work is done, a path where no file can be written or that is one to be read."""
    if path.is_dir():
        raise Mistake(f"{option} {path} is a directory", "give the name of a file")
    if not path.parent.is_dir():
        raise Mistake(f"{option} {path} lies in a directory that does not exist", f"create {path.parent} first")
    for what, other in read.items():
        if path.exists() and other.exists() and path.samefile(other):  # also by way of a link
            raise Mistake(f"{option} {path} is the {what} to be read", "choose another name")


def require_folder(path: Path) -> None:
    """Refuse, before any work is done, a path where no folder is and none can be made."""
    taken = next(place for place in (path, *path.parents) if place.exists())
    if not taken.is_dir():
        raise Mistake(f"--output {path} must be a folder, and {taken} is a file", "give the name of a new folder")


def tell(as_json: bool, facts: dict[str, Any], text: str) -> None:
    """Print a result, for machines or for people; to machines, numbers that do not exist are null."""
    print(json.dumps(_plain(facts), ensure_ascii=False, indent=2) if as_json else text)


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
def warnings_as_remarks() -> Iterator[None]:
    """Show warnings in a line each, without the line of code that gave them, of which the user has written none."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        remark(f"note: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        # whatever was told before, in a process that runs commands
        for kind in (TiesWarning, DependenceWarning, OutOfDistributionWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = show
        yield


@contextmanager
def progress_bar(activity: str, total: int | None, unit: str = "rows") -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function that takes the rows done and, once known, all rows; it draws only where someone looks.

    The wheel turns and the clock runs also while nothing is reported: before the first rows, and after the last.
    """
    activity_bar = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    numbers = (MofNCompleteColumn(), TextColumn(f"{unit},"), TimeElapsedColumn())
    console = Console(stderr=True)
    is_seen = console.is_terminal
    with Progress(*activity_bar, *numbers, console=console, disable=not is_seen, transient=True) as bar:
        task = bar.add_task(activity, total=total)

        def update(done: int, total: int | None = None) -> None:
            # one pass over a batch may follow another: the bar does not go back
            bar.update(task, completed=max(done, bar.tasks[task].completed), total=total)

        yield update
