"""The nearest points of a weight equal their slow twin, for every search and metric."""

import numpy as np
import pytest

from nearcal.space import METRICS, build_index, nearest_of_weight
from tests import reference

N, M = 90, 7
RNG = np.random.default_rng(0)
POINTS = {
    "anywhere": RNG.normal(size=(N, 3)),
    "a grid, full of ties": RNG.integers(1, 4, size=(N, 3)).astype(float),
    "one place": np.ones((N, 3)),
}
WEIGHTS = {
    "uneven": RNG.uniform(0.05, 3.0, size=N),
    "whole": RNG.integers(1, 5, size=N).astype(float),
    "one heavy": np.where(np.arange(N) == 40, 60.0, 0.3),
    "mostly light": np.where(np.arange(N) % 30 == 0, 5.0, 0.01),
}
WEIGHTS = {name: weights / weights.mean() for name, weights in WEIGHTS.items()}
METRIC_DISTANCES = {
    "euclidean": lambda gap: np.sqrt((gap**2).sum(axis=1)),
    "manhattan": lambda gap: np.abs(gap).sum(axis=1),
    "chebyshev": lambda gap: np.abs(gap).max(axis=1),
}


def check(found, row, expected):
    indices, distances, shares = expected
    part = slice(found.indptr[row], found.indptr[row + 1])
    np.testing.assert_array_equal(found.indices[part], indices)
    np.testing.assert_allclose(found.distances[part], distances, rtol=1e-12)
    np.testing.assert_allclose(found.shares[part], shares, rtol=1e-9, atol=1e-12)
    assert found.radius[row] == found.distances[part][-1]


@pytest.mark.parametrize("k", [1, 2.5, 20, N])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("points", POINTS.values(), ids=POINTS)
@pytest.mark.parametrize("search", ["boxes", "brute", "kdtree"])
def test_equal_a_sort_of_all_distances(search, points, weights, k):
    queries = np.concatenate([RNG.normal(size=(M - 2, 3)), points[:2]])
    found = nearest_of_weight(build_index(points, "euclidean", search, 5), queries, k, 0.0, weights)
    for row, query in enumerate(queries):
        distances = np.sqrt(reference.squares(points, query[np.newaxis])[0])
        check(found, row, reference.nearest_of_weight(distances, weights, k))
    np.testing.assert_allclose(found.amounts, k, rtol=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric(metric):
    points, weights = POINTS["anywhere"], WEIGHTS["mostly light"]
    queries = RNG.normal(size=(M, 3))
    index = build_index(points, metric, "auto", 5)
    found = nearest_of_weight(index, queries, 6, 0.0, weights)
    everyone = index.nearest(queries, N, 0.0)
    for row in range(M):
        distances = np.empty(N)
        part = slice(row * N, (row + 1) * N)
        distances[everyone.indices[part]] = everyone.distances[part]
        if metric in METRIC_DISTANCES:
            np.testing.assert_allclose(distances, METRIC_DISTANCES[metric](points - queries[row]), rtol=1e-12)
        check(found, row, reference.nearest_of_weight(distances, weights, 6))


def test_on_a_line():
    points, weights = np.round(RNG.normal(size=(N, 1)), 1), WEIGHTS["uneven"]
    queries = RNG.normal(size=(M, 1))
    found = nearest_of_weight(build_index(points, "euclidean", "line", 5), queries, 11, 0.0, weights)
    for row, query in enumerate(queries):
        check(found, row, reference.nearest_of_weight(np.abs(points - query)[:, 0], weights, 11))


def test_what_is_left_out_does_not_count():
    points, weights = POINTS["a grid, full of ties"], WEIGHTS["one heavy"]
    own = np.arange(30, 50)  # the heavy one is among them

    def left_out(rows, indices):
        return indices == own[rows, np.newaxis]

    index = build_index(points, "euclidean", "boxes", 5)
    found = nearest_of_weight(index, points[own], 8, 0.0, weights, left_out)
    for row, point in enumerate(own):
        others = np.delete(np.arange(N), point)
        distances = np.sqrt(reference.squares(points[others], points[[point]])[0])
        indices, distances, shares = reference.nearest_of_weight(distances, weights[others], 8)
        check(found, row, (others[indices], distances, shares))


def test_all_where_they_weigh_less():
    weights = WEIGHTS["one heavy"]
    index = build_index(POINTS["anywhere"], "euclidean", "boxes", 5)
    found = nearest_of_weight(index, POINTS["anywhere"][[40]], N, 0.0, weights, lambda rows, indices: indices == 40)
    assert len(found.indices) == N - 1
    np.testing.assert_allclose(found.amounts, N - weights[40])


@pytest.mark.parametrize("most", [1, 50, 400, 2000])
def test_of_the_first_queries_alone_if_there_are_many(most):
    """Each answer is that of the whole search, to the last bit."""
    points, weights = POINTS["anywhere"], WEIGHTS["mostly light"]
    index, queries = build_index(points, "euclidean", "boxes", 5), RNG.normal(size=(40, 3))
    whole = nearest_of_weight(index, queries, 4, 0.0, weights)
    start = 0
    while start < len(queries):
        part = nearest_of_weight(index, queries[start:], 4, 0.0, weights, most=most)
        assert 1 <= len(part.radius) <= len(queries) - start
        for row in range(len(part.radius)):
            own = slice(part.indptr[row], part.indptr[row + 1])
            same = slice(whole.indptr[start + row], whole.indptr[start + row + 1])
            for name in ("indices", "distances", "shares"):
                np.testing.assert_array_equal(getattr(part, name)[own], getattr(whole, name)[same])
        start += len(part.radius)


def test_whole_weights_are_repeated_points():
    points, copies = POINTS["a grid, full of ties"], RNG.integers(1, 4, size=N)
    mean = copies.mean()
    queries = RNG.normal(size=(M, 3))
    weighted = nearest_of_weight(build_index(points, "euclidean", "boxes", 5), queries, 30 / mean, 0.0, copies / mean)
    repeated = np.repeat(np.arange(N), copies)
    plain = build_index(points[repeated], "euclidean", "boxes", 5).nearest(queries, 30, 0.0)
    np.testing.assert_allclose(weighted.radius, plain.radius)
    for row in range(M):
        counts = np.bincount(repeated[plain.indices[30 * row : 30 * (row + 1)]], minlength=N)
        own = slice(weighted.indptr[row], weighted.indptr[row + 1])
        np.testing.assert_allclose(
            np.bincount(weighted.indices[own], weighted.shares[own] * mean, N), counts, rtol=1e-12, atol=1e-12
        )
