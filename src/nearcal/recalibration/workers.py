"""Run a task over chunks of rows, on several threads, with memory set by a budget and not by the number of rows."""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np

from nearcal._errors import InvalidParameterError
from nearcal._saved import count, flag, optional, savable
from nearcal.distributions.base import overflow_is_infinite
from nearcal.recalibration.progress import Progress, Report, on_terminal, reporting

# of fewer pairs, threads queue for the interpreter; of more rows, the last to finish lets the others wait
_PAIRS_PER_CHUNK, _ROWS_PER_CHUNK = 2**19, 2**11
_LITTLE = 2**13  # pairs: less work than it takes to start a thread
_BYTES_PER_PAIR = 64  # a neighbour's index, distance, weight and score, and the temporaries of their arithmetic
_MOST_THREADS = 1024  # more than any machine has processors; a storm of threads ends in an error of the system
_LEAST_MEMORY, _MOST_MEMORY = 2**20, 2**62


@savable(threads=optional(count(1, _MOST_THREADS)), memory=count(_LEAST_MEMORY, _MOST_MEMORY), progress=optional(flag))
@dataclass(frozen=True)
class Workers:
    """How many threads and how much memory a computation may take, and where it reports progress.

    Parameters
    ----------
    threads : int, optional
        Number of threads, at most 1024; None takes the processors available. Results do not depend on it.
    memory : int
        Bytes of working memory, 2**20 or more: half for the chunks in work, half for neighbourhoods kept between
        questions. A row is worked on whatever it takes.
    progress : bool or callable, optional
        True draws a progress bar on stderr, False none; a callable receives (rows done, rows in all), where rows that
        are gone through several times count as often. None draws a bar where it is needed: on a terminal, by
        :func:`nearcal.tune` and :func:`nearcal.calibrate`, if they take more than a second.
    """

    threads: int | None = None
    memory: int = 2**28
    progress: Progress = None

    def __post_init__(self) -> None:
        if self.threads is not None:
            _check_range(self.threads, "threads", 1, _MOST_THREADS, "None takes the processors available")
        _check_range(self.memory, "memory", _LEAST_MEMORY, _MOST_MEMORY, "it is in bytes, 2**28 by default")
        if not (self.progress is None or isinstance(self.progress, bool) or callable(self.progress)):
            raise InvalidParameterError(
                f"progress must be True, False or a function (done, total), or None, got {self.progress!r}"
            )

    @classmethod
    def of(cls, workers: object) -> "Workers":
        """Return the workers given, the usual ones for None."""
        if isinstance(workers, cls):
            return workers
        if workers is None:
            return _USUAL
        raise InvalidParameterError(
            f"workers must be nearcal.Workers(threads=…, memory=…, progress=…) or None, got {workers!r}"
        )

    def silent(self) -> "Workers":
        """Return the same with nothing said of progress, which single computations then do not show."""
        return replace(self, progress=None)

    def each(self) -> "Workers":
        """Return what one of these has, working alone: one thread, its part of the memory, and nothing to say."""
        return replace(self, threads=1, memory=max(self.memory // self.count(), _LEAST_MEMORY), progress=None)

    def reporting(self, activity: str, total: int) -> AbstractContextManager[Report]:
        """Yield a function that takes the rows just finished of a long activity; drawn on a terminal by default."""
        return reporting(on_terminal(self.progress), activity, total)

    def count(self) -> int:
        """Return the number of threads: those asked for, or the processors this process may use."""
        if self.threads is not None:
            return self.threads
        # not every system tells which processors a process may use
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def pairs_per_chunk(self) -> int:
        """Return how many pairs of row and neighbour a chunk may hold, for all in work to take half of the memory."""
        return min(self.memory // 2 // self.count() // _BYTES_PER_PAIR, _PAIRS_PER_CHUNK)

    def chunks(self, rows: int, pairs_per_row: int) -> list[slice]:
        """Split rows so that the chunks in work at one time together stay within half of the memory budget.

        Chunks are of one size but for a row, and every thread gets as many; little work is not shared out.
        """
        if rows * pairs_per_row <= _LITTLE and rows <= _ROWS_PER_CHUNK:
            return [slice(0, rows)]
        most = min(max(self.pairs_per_chunk() // max(pairs_per_row, 1), 1), _ROWS_PER_CHUNK)
        turns = -(-rows // (most * self.count()))
        count = min(turns * self.count(), rows)
        return [slice(rows * i // count, rows * (i + 1) // count) for i in range(count)]

    def run(self, task: Callable[[slice], None], chunks: list[slice], report: Report | None = None) -> None:
        """Run the task on every chunk; the first error stops the rest and is raised.

        The calling thread works like the others: one that only waited would want the interpreter after every chunk.
        It alone reports, what others have finished too: to ``report`` if this is part of a longer activity.
        """
        if len(chunks) == 1 and not self.progress and report is None:
            with overflow_is_infinite():
                task(chunks[0])
            return
        _keep_freed_memory(self.memory // 4)
        waiting = iter(chunks)
        finished: deque[int] = deque()

        def work(after_each: Callable[[], None]) -> None:
            try:
                for chunk in waiting:
                    with overflow_is_infinite():  # which a thread does not know from the one that started it
                        task(chunk)
                    finished.append(chunk.stop - chunk.start)
                    after_each()
            finally:
                deque(waiting, maxlen=0)  # after an error nobody finds more to do

        own = reporting(self.progress, "recalibrating", chunks[-1].stop) if report is None else nullcontext(report)
        with own as tell:

            def report_finished() -> None:
                while finished:
                    tell(finished.popleft())

            others = min(self.count(), len(chunks)) - 1
            with ThreadPoolExecutor(max(others, 1)) as pool:
                running = [pool.submit(work, lambda: None) for _ in range(others)]
                work(report_finished)
                for future in running:
                    future.result()
            report_finished()


def _check_range(value: object, name: str, least: int, most: int, remedy: str) -> None:
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (is_whole and least <= value <= most):  # type: ignore[operator]
        raise InvalidParameterError(f"{name} must be a whole number of {least} to {most}, got {value!r}; {remedy}")


def _keep_freed_memory(most: int) -> None:
    """Free a large block once, without touching it.

    glibc hands freed blocks back to the system unless it has seen larger ones come and go: every chunk would pay for
    its pages anew, which took more than half of the time at d = 1. 32 MB is the most that glibc takes as a hint.
    """
    np.empty(min(2**25 - 2**16, most), np.uint8)


_USUAL = Workers()
