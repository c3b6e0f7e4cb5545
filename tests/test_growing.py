"""Rows that share memory with longer and shorter ones: everybody sees his own."""

import copy
import pickle
import threading

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcal._growing import GrowingRows


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 90), st.booleans()), max_size=12))
def test_any_history_of_any_version_is_that_of_plain_arrays(steps):
    """Each step continues a version of before, perhaps one that was continued already."""
    versions = [(GrowingRows(np.arange(5.0)), np.arange(5.0))]
    for number, (which, size, is_extended) in enumerate(steps):
        rows, plain = versions[which % len(versions)]
        if is_extended:
            more = 1000.0 * number + np.arange(float(size))
            versions.append((rows.extended(more), np.concatenate([plain, more])))
        else:
            kept = (
                np.flatnonzero((np.arange(len(plain)) * 7 + size) % 5 > 0) if size % 2 else np.arange(len(plain))[size:]
            )
            versions.append((rows.kept(kept), plain[kept]))
    for rows, plain in versions:
        np.testing.assert_array_equal(rows.array, plain)


def test_appending_again_and_again_copies_little():
    rows = GrowingRows(np.zeros((10, 3)))
    memory = set()
    for _ in range(10_000):
        rows = rows.extended(np.ones((1, 3)))
        memory.add(id(rows._room))
    assert len(memory) < 25  # each half as large again as the last
    assert len(rows) == 10_010


def test_the_last_rows_are_not_copied():
    rows = GrowingRows(np.arange(100.0))
    assert np.shares_memory(rows.kept(np.arange(60, 100)).array, rows.array)


def test_copies_and_pickles_leave_the_room_behind():
    rows = GrowingRows(np.arange(10.0)).extended(np.arange(5.0))
    for other in (copy.deepcopy(rows), pickle.loads(pickle.dumps(rows)), copy.copy(rows)):
        np.testing.assert_array_equal(other.extended(np.ones(2)).array[:15], rows.array)
    assert len(pickle.dumps(rows)) < 500


def test_many_threads_that_extend_the_same_rows_do_not_meet():
    start = GrowingRows(np.zeros(4)).extended(np.zeros(1))
    grown = {}

    def extend(number):
        rows = start
        for _ in range(200):
            rows = rows.extended(np.full(1, float(number)))
        grown[number] = rows

    threads = [threading.Thread(target=extend, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, rows in grown.items():
        np.testing.assert_array_equal(rows.array, np.concatenate([np.zeros(5), np.full(200, float(number))]))
