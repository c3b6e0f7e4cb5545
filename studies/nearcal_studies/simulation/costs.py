"""What work costs: processor time, time on the clock, and memory."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


@dataclass
class Cost:
    """The cost of a block of work, known once it is done.

    Attributes
    ----------
    seconds : float
        Time of processors, of all threads: on a shared machine the time on the clock says little.
    elapsed : float
        Seconds on the clock.
    peak, extra : float
        The most megabytes this process held, and how much that was above what it held at the start. Linux tells; NaN
        elsewhere.
    """

    seconds: float = 0.0
    elapsed: float = 0.0
    peak: float = 0.0
    extra: float = 0.0

    def as_numbers(self) -> dict[str, float]:
        """Return the cost of a whole unit of work, to be kept with its numbers."""
        return {"cpu_seconds": self.seconds, "elapsed_seconds": self.elapsed, "peak_megabytes": self.peak}


_open: list[Cost] = []  # the mark of the system is one for all: whoever resets it first tells those outside


@contextmanager
def watch() -> Iterator[Cost]:
    """Measure a block of work; blocks may be nested, in one thread."""
    _tell_all(_take_mark())
    cost = Cost()
    _open.append(cost)
    held = _held("VmRSS")
    started, begun = time.process_time(), time.perf_counter()
    try:
        yield cost
    finally:
        cost.seconds, cost.elapsed = time.process_time() - started, time.perf_counter() - begun
        _tell_all(_take_mark())
        cost.extra = cost.peak - held
        _open.remove(cost)


def _tell_all(mark: float) -> None:
    for cost in _open:
        cost.peak = max(cost.peak, mark) if cost.peak else mark


def _take_mark() -> float:
    """Return the most memory held since the last call, and begin anew."""
    mark = _held("VmHWM")
    if _RESET.exists():
        _RESET.write_text("5")
    return mark


def _held(name: str) -> float:
    """Return a line of the process's status in megabytes."""
    if not _STATUS.exists():
        return float("nan")
    found = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    return float("nan") if found is None else int(found[1]) / 1000


def add_up(costs: list[Mapping[str, float]]) -> dict[str, float]:
    """Return the cost of several units done one after another."""
    return {
        "cpu_seconds": sum(cost["cpu_seconds"] for cost in costs),
        "elapsed_seconds": sum(cost["elapsed_seconds"] for cost in costs),
        "peak_megabytes": max((cost["peak_megabytes"] or 0.0 for cost in costs), default=0.0),
    }
