"""How far a long computation is: told to a function, or drawn on stderr, by rich where it is installed."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO, TypeAlias

from nearcal._errors import MissingExtraError
from nearcal._optional import import_extra

Progress: TypeAlias = bool | Callable[[int, int], None] | None

_SOON = 1.0  # seconds after which a terminal shows what nobody asked it to show
_INTERVAL = 0.5  # seconds between two lines of text
_LONG = 5.0  # seconds that are worth an estimate


class Report(Protocol):
    """Takes the amount just finished, and what is done next, if that is worth telling."""

    def __call__(self, finished: int, doing: str = "", /) -> None:
        """Take both."""


def quiet(finished: int, doing: str = "", /) -> None:
    """Tell nobody."""


def on_terminal(progress: Progress) -> Progress:
    """Return what is shown where nothing was said: a bar, if somebody looks at stderr."""
    return progress if progress is not None or not _is_terminal(sys.stderr) else _soon


def _soon(done: int, total: int) -> None:
    """Stand for a bar that is drawn once the work has taken a second."""


@contextmanager
def reporting(progress: Progress, activity: str, total: int) -> Iterator[Report]:
    """Yield a function that takes the amount of work just finished, of ``total`` in all."""
    if progress is True or progress is _soon:
        with _bar(activity, total, 0.0 if progress is True else _SOON) as report:
            yield report
    elif callable(progress):
        tell, done = progress, 0

        def count(finished: int, doing: str = "", /) -> None:
            nonlocal done
            if finished:
                done = min(done + finished, total)
                tell(done, total)

        yield count
    else:
        yield quiet


def _is_terminal(stream: Any) -> bool:
    return stream is not None and hasattr(stream, "isatty") and not stream.closed and stream.isatty()


@contextmanager
def _bar(activity: str, total: int, delay: float) -> Iterator[Report]:
    try:
        rich = import_extra("rich.progress", "progress", "a progress bar")
        console = import_extra("rich.console", "progress", "a progress bar").Console(file=sys.stderr)
        escape = import_extra("rich.markup", "progress", "a progress bar").escape
    except MissingExtraError:
        with _text(activity, total, delay, sys.stderr) as report:
            yield report
        return
    columns = (*rich.Progress.get_default_columns(), rich.TextColumn("left"))
    bar = rich.Progress(*columns, console=console, transient=delay > 0)
    line = bar.add_task(activity, total=total)
    start = threading.Timer(delay, bar.start)
    start.daemon = True
    if delay:
        start.start()
    else:
        bar.start()

    def advance(finished: int, doing: str = "", /) -> None:
        bar.update(line, advance=finished, description=escape(f"{activity}: {doing}") if doing else None)

    try:
        yield advance
    finally:
        start.cancel()
        bar.stop()


@contextmanager
def _text(activity: str, total: int, delay: float, stream: TextIO) -> Iterator[Report]:
    """Write a line that is written over again, by a thread: the caller may be compiling for a minute."""
    began, done, ended = time.monotonic(), 0, threading.Event()
    written, now = 0, activity

    def write(line: str, end: str = "") -> None:
        nonlocal written
        stream.write(f"\r{line:<{written}}{end}")
        stream.flush()
        written = len(line)

    def draw() -> None:
        if ended.wait(delay):
            return
        while True:
            write(describe(now, done, total, time.monotonic() - began))
            if ended.wait(_INTERVAL):
                return

    def count(finished: int, doing: str = "", /) -> None:
        nonlocal done, now
        done, now = min(done + finished, total), f"{activity}: {doing}" if doing else now

    drawing = threading.Thread(target=draw, daemon=True)
    drawing.start()
    try:
        yield count
    finally:
        ended.set()
        drawing.join()
        if written or not delay:
            write(describe(activity, done, total, time.monotonic() - began), "\n")


def describe(activity: str, done: int, total: int, seconds: float) -> str:
    """Say how far something is, and when it will be done, if that is long."""
    left = seconds * (total - done) / done if done else 0.0
    estimate = (
        f", about {left / 60:.0f} min left" if left > 90 else f", about {left:.0f} s left" if left > _LONG else ""
    )
    return f"{activity}: {100 * done // max(total, 1)}%{estimate}"
