"""Run a task over chunks of rows, on several threads, with memory set by a budget and not by the number of rows."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from nearcal._arrays import check_count
from nearcal._errors import InvalidParameterError
from nearcal._optional import import_extra
from nearcal._saved import count, flag, optional, savable

Progress: TypeAlias = bool | Callable[[int, int], None]

# of fewer pairs, threads queue for the interpreter; of more rows, the last to finish lets the others wait
_PAIRS_PER_CHUNK, _ROWS_PER_CHUNK = 2**19, 2**11
_LITTLE = 2**13  # pairs: less work than it takes to start a thread
_BYTES_PER_PAIR = 64  # a neighbour's index, distance, weight and score, and the temporaries of their arithmetic


@savable(threads=optional(count()), memory=count(most=2**62), progress=flag)
@dataclass(frozen=True)
class Workers:
    """How many threads and how much memory a computation may take, and where it reports progress.

    Parameters
    ----------
    threads : int, optional
        Number of threads; None takes the processors available. Results do not depend on it.
    memory : int
        Bytes of working memory: half for the chunks in work, half for neighbourhoods kept between questions.
    progress : bool or callable
        True draws a progress bar; a callable receives (rows done, rows in all).
    """

    threads: int | None = None
    memory: int = 2**28
    progress: Progress = False

    def __post_init__(self) -> None:
        if self.threads is not None:
            check_count(self.threads, "threads")
        check_count(self.memory, "memory", minimum=2**20)
        if not (isinstance(self.progress, bool) or callable(self.progress)):
            raise InvalidParameterError(
                f"progress must be True, False or a function (done, total), got {self.progress!r}"
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
        """Return the same without progress."""
        return replace(self, progress=False)

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

    def run(self, task: Callable[[slice], None], chunks: list[slice], activity: str = "recalibrating") -> None:
        """Run the task on every chunk; the first error stops the rest and is raised.

        The calling thread works like the others: one that only waited would want the interpreter after every chunk.
        It alone reports, what others have finished too.
        """
        if len(chunks) == 1 and self.progress is False:
            task(chunks[0])
            return
        _keep_freed_memory(self.memory // 4)
        waiting = iter(chunks)
        finished: deque[int] = deque()

        def work(after_each: Callable[[], None]) -> None:
            try:
                for chunk in waiting:
                    task(chunk)
                    finished.append(chunk.stop - chunk.start)
                    after_each()
            finally:
                deque(waiting, maxlen=0)  # after an error nobody finds more to do

        with self._reporter(chunks[-1].stop, activity) as report:

            def report_finished() -> None:
                while finished:
                    report(finished.popleft())

            others = min(self.count(), len(chunks)) - 1
            with ThreadPoolExecutor(max(others, 1)) as pool:
                running = [pool.submit(work, lambda: None) for _ in range(others)]
                work(report_finished)
                for future in running:
                    future.result()
            report_finished()

    @contextmanager
    def _reporter(self, rows: int, activity: str) -> Iterator[Callable[[int], None]]:
        """Yield a function that takes the number of rows just finished."""
        if callable(self.progress):
            callback, done = self.progress, 0

            def count_rows(finished: int) -> None:
                nonlocal done
                done += finished
                callback(done, rows)

            yield count_rows
        elif self.progress:
            rich_progress = import_extra("rich.progress", "progress", "progress=True")
            with rich_progress.Progress() as bar:
                line = bar.add_task(activity, total=rows)
                yield lambda finished: bar.advance(line, finished)
        else:
            yield lambda finished: None


def _keep_freed_memory(most: int) -> None:
    """Free a large block once, without touching it.

    glibc hands freed blocks back to the system unless it has seen larger ones come and go: every chunk would pay for
    its pages anew, which took more than half of the time at d = 1. 32 MB is the most that glibc takes as a hint.
    """
    np.empty(min(2**25 - 2**16, most), np.uint8)


_USUAL = Workers()
