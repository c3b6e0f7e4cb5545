"""An index that took in points and let go of others answers, to the last bit, as one built anew."""

import copy
import pickle

import numpy as np
import pytest

from nearcal.space import GrowingIndex, IndexPlan, build_index, grow, settle

SPACES = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "grid": lambda rng, n, d: np.round(rng.normal(size=(n, d))),
    "duplicates": lambda rng, n, d: rng.normal(size=(40, d))[rng.integers(40, size=n)],
    "one place": lambda rng, n, d: np.ones((n, d)),
    "drifting": lambda rng, n, d: rng.normal(size=(n, d)) + np.linspace(0, 5, n)[:, None],
}
SEARCHES = [
    (1, "euclidean", "line"),
    (3, "euclidean", "boxes"),
    (3, "euclidean", "brute"),
    (3, "euclidean", "auto"),
    (3, "euclidean", "kdtree"),
    (2, "manhattan", "auto"),
    (2, "chebyshev", "auto"),
    (3, "cosine", "auto"),
]


def by_index(near):
    """Return row pointers, indices, distances and radii, neighbours of each query in the order of their index."""
    order = np.lexsort((near.indices, np.repeat(np.arange(len(near.radius)), np.diff(near.indptr))))
    return near.indptr, near.indices[order], near.distances[order], near.radius


def assert_same(index, fresh, queries, k):
    n = fresh.shape[0]
    assert index.shape == fresh.shape
    for size in {1, min(k, n), n}:
        found, expected = index.nearest(queries, size, 0.0), fresh.nearest(queries, size, 0.0)
        for one, other in zip(by_index(found), by_index(expected), strict=True):
            np.testing.assert_array_equal(one, other)
    for radius in (1e-9, 0.4, 50.0):
        found, expected = index.within(queries, radius), fresh.within(queries, radius)
        for one, other in zip(by_index(found), by_index(expected), strict=True):
            np.testing.assert_array_equal(one, other)


def random_history(rng, index, points, steps=14):
    """Yield an index and its points, after updates of one row to many and all ways to forget."""
    here = points[: index.shape[0]]
    rest = points[index.shape[0] :]
    for _ in range(steps):
        size = int(rng.choice([1, 1, 3, 40]))
        index, here, rest = index.extended(rest[:size]), np.concatenate([here, rest[:size]]), rest[size:]
        match rng.integers(4):
            case 0:
                kept = np.arange(len(here))[int(rng.integers(1, 30)) :]
            case 1:
                kept = np.flatnonzero(rng.random(len(here)) < rng.choice([0.6, 0.99, 0.99]))
            case 2:  # all that is near a place
                kept = np.flatnonzero(here[:, 0] > np.quantile(here[:, 0], 0.02))
            case _:
                kept = np.arange(len(here))
        if len(kept) > 20:
            index, here = index.restricted(kept), here[kept]
        if rng.random() < 0.6:  # where nobody asks, nothing is built
            yield index, here


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize(("d", "metric", "search"), SEARCHES)
def test_any_history_gives_the_answers_of_an_index_built_anew(d, metric, search, kind):
    rng = np.random.default_rng(d)
    points = SPACES[kind](rng, 1200, d) + (4.0 if metric == "cosine" else 0.0)
    queries = np.concatenate([points[:8], points[-8:], rng.normal(size=(8, d)) + (4.0 if metric == "cosine" else 0.0)])
    plan = IndexPlan(metric, search, 12, 0.0)
    start = build_index(points[:600], metric, search, 12)
    merged = 0
    for index, here in random_history(rng, grow(start, lambda: points[:600], plan), points):
        assert_same(index, build_index(here, metric, search, 12), queries, 12)
        np.testing.assert_array_equal(np.sort(index.points, axis=0), np.sort(here, axis=0))
        merged += search == "line" or len(index._built.segments) > 1
    assert merged > 2


def test_distances_that_have_the_same_root_are_told_apart_by_their_squares():
    """The square decides who is nearer, also where roots are rounded to the same number, and then the index."""
    first = np.stack([np.random.default_rng(3).uniform(1, 2, size=300), np.full(300, 2.1e-8)], axis=1)
    added = first[:25] * [1, 0]  # their squares are smaller by the last bit, many of their roots are the same
    points, query = np.concatenate([first, added]), np.zeros((1, 2))
    squares = (points**2).sum(axis=1)
    assert ((np.sqrt(squares[300:]) == np.sqrt(squares[:25])) & (squares[300:] < squares[:25])).sum() > 5
    plan = IndexPlan("euclidean", "boxes", 5, 0.0)
    index = grow(plan.build(first), lambda: first, plan).extended(added)
    assert len(index._built.segments) == 2
    for k in range(1, 325):
        expected = np.sort(np.lexsort((np.arange(325), squares))[:k])
        np.testing.assert_array_equal(np.sort(index.nearest(query, k, 0.0).indices), expected)
        np.testing.assert_array_equal(np.sort(plan.build(points).nearest(query, k, 0.0).indices), expected)


def test_structures_are_built_seldom(monkeypatch):
    built = []
    plan = IndexPlan("euclidean", "boxes", 5, 0.0)
    points = np.random.default_rng(0).normal(size=(10_000, 2))
    original = IndexPlan.build

    def build(self, some):
        built.append(len(some))
        return original(self, some)

    monkeypatch.setattr(IndexPlan, "build", build)
    index = grow(original(plan, points[:9200]), lambda: points[:9200], plan)
    for row in range(9200, 10_000):
        index = index.extended(points[row : row + 1])
        index.nearest(points[:1], 5, 0.0)
    assert max(built) <= 1024  # a tenth was not reached: the large structure is the first one
    assert sum(built) < 800 * 800 / 2 + 1024
    index.extended(points[:500]).nearest(points[:1], 5, 0.0)
    assert built[-1] == 10_500  # and now it was


def test_few_structures_are_searched_at_a_time():
    plan = IndexPlan("euclidean", "boxes", 5, 0.0)
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60_000, 2))
    index = grow(plan.build(points[:30_000]), lambda: points[:30_000], plan)
    most = 0
    for start in range(30_000, 60_000, 250):
        index = index.extended(points[start : start + 250])
        index.nearest(points[:1], 5, 0.0)
        most = max(most, len(index._built.segments))
    assert 2 < most <= 4


def test_forgotten_points_around_a_query_do_not_hide_the_others():
    """The search widens until it has found k that count."""
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(scale=0.01, size=(90, 2)), 5 + rng.normal(size=(910, 2))])
    plan = IndexPlan("euclidean", "boxes", 5, 0.0)
    index = grow(plan.build(points), lambda: points, plan).restricted(np.arange(90, 1000))
    assert len(index._built.segments) == 1
    assert index._built.kept is not None  # not built again: less than a tenth is forgotten
    assert_same(index, plan.build(points[90:]), np.zeros((3, 2)), 7)


@pytest.mark.parametrize("search", ["boxes", "brute", "kdtree"])
def test_approximate_searches_are_built_anew(search):
    rng = np.random.default_rng(0)
    points, queries = rng.normal(size=(3000, 4)), rng.normal(size=(50, 4))
    plan = IndexPlan("euclidean", search, 20, 0.5)
    index = grow(plan.build(points[:2900]), lambda: points[:2900], plan).extended(points[2900:])
    found, expected = index.nearest(queries, 20, 0.5), plan.build(points).nearest(queries, 20, 0.5)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)


def test_an_option_changed_since_the_fit_does_not_change_the_search():
    points = np.random.default_rng(0).normal(size=(300, 2))
    for search, others in (("boxes", ["line", "kdtree", "faiss"]), ("kdtree", ["boxes", "line"])):
        start = build_index(points[:250], "euclidean", search, 5)
        for other in others:
            index = grow(start, lambda: points[:250], IndexPlan("euclidean", other, 5, 0.0)).extended(points[250:])
            assert_same(index, build_index(points, "euclidean", search, 5), points[:20], 5)


def test_within_answers_as_many_queries_as_have_room():
    rng = np.random.default_rng(0)
    points, queries = rng.normal(size=(900, 2)), rng.normal(size=(30, 2))
    plan = IndexPlan("euclidean", "boxes", 5, 0.0)
    index = grow(plan.build(points[:850]), lambda: points[:850], plan).extended(points[850:])
    index = index.restricted(np.arange(10, 900))
    whole = index.within(queries, 0.7)
    for most in (1, 40, 300, 10**6):
        part = index.within(queries, 0.7, most)
        rows = len(part.radius)
        assert rows == 1 or len(part.indices) <= most
        assert rows == 30 or whole.indptr[rows + 1] > most
        np.testing.assert_array_equal(part.indptr, whole.indptr[: rows + 1])
        np.testing.assert_array_equal(part.indices, whole.indices[: whole.indptr[rows]])
        np.testing.assert_array_equal(part.distances, whole.distances[: whole.indptr[rows]])


def test_it_can_be_copied_pickled_and_settled():
    rng = np.random.default_rng(0)
    points, queries = rng.normal(size=(900, 2)), rng.normal(size=(30, 2))
    plan = IndexPlan("euclidean", "boxes", 5, 0.0)
    index = (
        grow(plan.build(points[:850]), lambda: points[:850], plan).extended(points[850:]).restricted(np.arange(5, 900))
    )
    for asked in (False, True):
        if asked:
            index.nearest(queries, 3, 0.0)
        for other in (copy.deepcopy(index), pickle.loads(pickle.dumps(index)), settle(index)):
            assert_same(other, plan.build(points[5:]), queries, 9)
    assert not isinstance(settle(index), GrowingIndex)
    assert settle(settle(index)) is settle(index)
