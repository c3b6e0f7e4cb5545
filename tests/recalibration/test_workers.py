"""Chunks cover all rows once, threads share them, and one thread alone speaks to the caller."""

import threading

import numpy as np
import pytest

import nearcal as nc
from nearcal.recalibration.workers import Workers


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("rows", "pairs_per_row"), [(1, 1), (7, 1000), (7, 10_000), (300_003, 1), (300_003, 1000), (100, 10**9)]
)
def test_chunks_cover_all_rows_once_within_the_budget(threads, rows, pairs_per_row):
    workers = Workers(threads=threads, memory=2**26)
    chunks = workers.chunks(rows, pairs_per_row)
    assert [row for chunk in chunks for row in range(chunk.start, chunk.stop)] == list(range(rows))
    sizes = [chunk.stop - chunk.start for chunk in chunks]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) == 1 or max(sizes) * pairs_per_row <= workers.pairs_per_chunk()
    if rows * pairs_per_row <= 8192:  # less work than it takes to start a thread
        assert len(chunks) == 1
    else:
        assert len(chunks) == rows or len(chunks) % threads == 0


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_progress_is_told_by_the_caller_alone_and_reaches_the_end(threads):
    told, tellers, done = [], set(), []

    def progress(finished, total):
        told.append((finished, total))
        tellers.add(threading.get_ident())

    workers = Workers(threads=threads, progress=progress)
    chunks = workers.chunks(100_000, 1000)
    workers.run(done.append, chunks)
    assert sorted(done, key=lambda chunk: chunk.start) == chunks
    assert tellers == {threading.get_ident()}
    assert told == sorted(told)
    assert told[-1] == (100_000, 100_000)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("where", ["task", "progress"])
def test_an_error_stops_the_rest_and_is_raised(threads, where):
    started = []
    waiting = threading.Event()

    def fail(*_):
        waiting.set()
        raise ZeroDivisionError(where)

    def task(chunk):
        started.append(chunk)
        if where == "task" and chunk.start == 0:
            fail()
        waiting.wait(5)

    if where == "progress":
        waiting.set()
    workers = Workers(threads=threads, progress=fail if where == "progress" else False)
    chunks = workers.chunks(1_000_000, 1000)
    with pytest.raises(ZeroDivisionError, match=where):
        workers.run(task, chunks)
    if where == "task":
        assert len(started) <= 3 * threads < len(chunks)


def test_an_error_of_another_thread_is_raised():
    caller = threading.get_ident()
    others_turn = threading.Event()

    def task(chunk):
        if threading.get_ident() != caller:
            others_turn.set()
            raise ZeroDivisionError
        others_turn.wait(5)

    with pytest.raises(ZeroDivisionError):
        Workers(threads=2).run(task, Workers(threads=2).chunks(100_000, 1000))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "threads must be a whole number of 1 to 1024, got 0; None takes the processors available"),
        ({"threads": -1}, "threads must be .* got -1"),
        ({"threads": 100_000}, "threads must be a whole number of 1 to 1024, got 100000"),
        ({"threads": True}, "threads must be .* got True"),
        ({"threads": 2.0}, "threads must be .* got 2.0"),
        ({"threads": "2"}, "threads must be .* got '2'"),
        ({"memory": 1}, "memory must be a whole number of 1048576 to 4611686018427387904, got 1; it is in bytes"),
        ({"memory": 10**30}, "memory must be .* got 10000"),
        ({"memory": 1e30}, "memory must be .* got 1e.30"),
        ({"memory": None}, "memory must be .* got None"),
        ({"progress": "bar"}, "progress must be True, False or a function"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(nc.InvalidParameterError, match=message):
        Workers(**options)


def test_what_is_allowed_at_the_ends_works():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2000, 2)), rng.normal(size=2000)
    model = nc.Normal(np.zeros(2000), 1.0)
    expected = nc.LocalRecalibrator(k=50).fit(model, y, x).recalibrate(model, x).mean()
    for options in ({"threads": 1024}, {"memory": 2**20, "threads": 3}, {"memory": 2**62}):
        rc = nc.LocalRecalibrator(k=50, workers=nc.Workers(**options))
        np.testing.assert_array_equal(rc.fit(model, y, x).recalibrate(model, x).mean(), expected)


def test_each_has_its_part_of_the_memory_and_says_nothing():
    assert Workers(threads=4, memory=2**24, progress=True).each() == Workers(threads=1, memory=2**22)
    assert Workers(threads=1024, memory=2**20).each() == Workers(threads=1, memory=2**20)


def test_no_more_threads_are_started_than_there_are_chunks():
    alive, together = [], threading.Barrier(3)

    def task(chunk):
        together.wait(5)  # nobody does the work of two
        alive.append(threading.active_count())

    before = threading.active_count()
    Workers(threads=1024).run(task, [slice(i, i + 1) for i in range(3)])
    assert max(alive) <= before + 2


def test_anything_else_is_refused():
    with pytest.raises(nc.InvalidParameterError, match="workers must be nearcal"):
        Workers.of(4)
    assert Workers.of(None) == Workers()
