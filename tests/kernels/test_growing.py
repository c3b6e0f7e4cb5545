"""The nearest of several sets of points."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcal.kernels.growing import merge_nearest
from nearcal.kernels.select import Nearest, make_scratch
from nearcal.space._exact import LeafBoxes
from tests import reference

SEEDS = st.integers(0, 2**32)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 300), st.integers(1, 9), st.booleans())
def test_points_within_a_bound_of_each_query(seed, n, d, are_whole):
    rng = np.random.default_rng(seed)
    points, queries = rng.normal(size=(n, d)), rng.normal(size=(7, d))
    if are_whole:
        points, queries = np.round(points), np.round(queries)
    distances = np.sqrt(reference.squares(points, queries))
    bounds = np.array([0.0, 1.0, 0.5, np.inf, 1e-200, *np.sort(distances[5:], axis=1)[:, n // 2]])
    found = LeafBoxes(points).within_each(queries, bounds)
    for row in range(7):
        part = slice(*found.indptr[row : row + 2])
        expected = np.flatnonzero(distances[row] <= bounds[row])
        np.testing.assert_array_equal(np.sort(found.indices[part]), expected)
        np.testing.assert_array_equal(found.distances[part], distances[row, found.indices[part]])


@settings(max_examples=80, deadline=None)
@given(SEEDS, st.integers(1, 40), st.integers(0, 40), st.integers(1, 3), st.booleans(), st.floats(0, 0.9))
def test_the_nearest_of_two_sets_some_of_which_do_not_count(seed, n_first, n_others, d, are_whole, share):
    rng = np.random.default_rng(seed)
    n = n_first + n_others
    points, queries = rng.normal(size=(n, d)), rng.normal(size=(4, d))
    if are_whole:
        points, queries = np.round(points), np.round(queries)
    counts = rng.random(n) >= share
    counts[rng.integers(n)] = True
    numbers = np.where(counts, np.cumsum(counts) - 1, -1).astype(np.int32)
    squares, rows = reference.squares(points, queries), 4
    k = int(rng.integers(1, counts.sum() + 1))

    def everything(start, stop):
        return np.tile(np.arange(start, stop, dtype=np.int32), (rows, 1)), np.sqrt(squares[:, start:stop])

    first = Nearest(*everything(0, n_first), np.zeros(rows))
    indices, distances = (table.ravel() for table in everything(n_first, n))
    out = Nearest(np.empty((rows, k), np.int32), np.empty((rows, k)), np.empty(rows))
    room = np.empty(n), np.empty(n, np.int32), np.empty(n), np.empty(n, np.int32)
    for array in (points, queries):
        array.flags.writeable = False
    others, order = (np.arange(rows + 1) * n_others, indices, distances), np.array([2, 0, 3, 1])
    need = min(k, int(counts[:n_first].sum()))
    merge_nearest(first, others, numbers, points, queries, k, need, True, (room, make_scratch(n)), order, out)
    squares = squares[np.argsort(order)]
    for row in range(rows):
        expected = np.sort(np.argsort(squares[row, counts], kind="stable")[:k])
        np.testing.assert_array_equal(out.indices[row], expected)
        np.testing.assert_array_equal(out.distances[row], np.sqrt(squares[row, counts][expected]))
        assert out.radius[row] == out.distances[row].max()
