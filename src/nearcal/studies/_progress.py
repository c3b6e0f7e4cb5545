"""Progress over units of unequal cost, with the remaining time; a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from nearcal._optional import import_extra
from nearcal.studies._study import Unit


class Reporter(Protocol):
    """Hears of the units as they come and go."""

    def starts(self, unit: Unit) -> None:
        """Take note of a unit that begins."""
        ...

    def ends(self, unit: Unit) -> None:
        """Take note of a unit that is done."""
        ...


class Clock:
    """Estimates the remaining time from what units of known cost took so far."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.total = sum(unit.cost for unit in units)
        self.done = 0.0
        self._start = self._last = time.monotonic()

    def finish(self, unit: Unit) -> None:
        """Count a unit as done."""
        self.done += unit.cost
        self._last = time.monotonic()

    def remaining(self) -> float | None:
        """Return the seconds that are left, None before the first unit is done."""
        if not self.done:
            return None
        pace = (self._last - self._start) / self.done
        return max(0.0, (self.total - self.done) * pace - (time.monotonic() - self._last))


def duration(seconds: float) -> str:
    """Return a length of time in words.

    Examples
    --------
    >>> duration(42.3), duration(300), duration(8000)
    ('42 s', '5 min', '2 h 13 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def reporter(name: str, units: Sequence[Unit], *, progress: bool) -> Iterator[Reporter]:
    """Yield what is told of the units still to be done."""
    if not progress or not units:
        yield _Silence()
    elif sys.stderr.isatty():
        with _Bar(name, units) as bar:
            yield bar
    else:
        yield _Lines(name, units)


class _Silence:
    def starts(self, unit: Unit) -> None:
        pass

    def ends(self, unit: Unit) -> None:
        pass


class _Lines:
    """One line a finished unit, for log files."""

    def __init__(self, name: str, units: Sequence[Unit]) -> None:
        self._name, self._count, self._number = name, len(units), 0
        self._clock = Clock(units)

    def starts(self, unit: Unit) -> None:
        pass

    def ends(self, unit: Unit) -> None:
        self._clock.finish(unit)
        self._number += 1
        left = self._clock.remaining() or 0.0
        print(f"{self._name} {self._number}/{self._count}: {unit.key}; {duration(left)} left", file=sys.stderr)


class _Bar:
    """A bar whose time left counts down between units too."""

    def __init__(self, name: str, units: Sequence[Unit]) -> None:
        rich = import_extra("rich.progress", "studies", "progress=True")
        console = import_extra("rich.console", "studies", "progress=True").Console(stderr=True)
        clock = self._clock = Clock(units)

        class TimeLeft(rich.ProgressColumn):  # type: ignore[name-defined, misc]
            def render(self, task: Any) -> str:
                seconds = clock.remaining()
                return "" if seconds is None else f"{duration(seconds)} left"

        columns = (
            rich.TextColumn("{task.description}"),
            rich.BarColumn(),
            rich.TaskProgressColumn(),
            rich.TimeElapsedColumn(),
            TimeLeft(),
        )
        self._progress = rich.Progress(*columns, console=console)
        self._name = name
        self._task = self._progress.add_task(name, total=self._clock.total)

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def starts(self, unit: Unit) -> None:
        self._progress.update(self._task, description=f"{self._name}: {unit.key}")

    def ends(self, unit: Unit) -> None:
        self._clock.finish(unit)
        self._progress.update(self._task, completed=self._clock.done)
