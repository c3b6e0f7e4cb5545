"""The choice of a search, and that every search leads to the same recalibration."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.space import METRICS, build_index, count_within
from nearcal.space._kdtree import KDTreeIndex


@pytest.mark.parametrize(
    ("d", "metric", "expected"),
    [(1, "euclidean", "SortedLine"), (3, "euclidean", "LeafBoxes"), (30, "euclidean", "BlockedBrute")]
    + [(3, metric, "KDTreeIndex") for metric in ("manhattan", "chebyshev", "cosine")],
)
def test_automatic_choice(d, metric, expected):
    points = np.random.default_rng(0).normal(size=(3000, d))
    assert type(build_index(points, metric, "auto", 10)).__name__ == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"search": "line"}, "one dimension, got 2"),
        ({"search": "brute", "metric": "cosine"}, 'needs metric="euclidean"'),
        ({"search": "quantum"}, "search must be one of"),
    ],
)
def test_impossible_choices_are_refused(options, message):
    x = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(nc.InvalidParameterError, match=message):
        nc.LocalRecalibrator(k=5, **options).fit(nc.Normal(np.zeros(50), 1.0), x[:, 0], x)


@pytest.mark.parametrize("d", [1, 3, 12])
@pytest.mark.parametrize("option", [{"k": 60}, {"radius": nc.Radius(1.0, thin="global")}])
def test_every_search_gives_the_same_recalibration(d, option):
    rng = np.random.default_rng(d)
    x, new = rng.normal(size=(900, d)), rng.normal(size=(50, d))
    base, base_new = nc.Normal(x[:, 0], 1.0), nc.Normal(new[:, 0], 1.0)
    y = x[:, 0] + rng.normal(size=900) * np.exp(x[:, 0] / 2)
    searches = ["kdtree", "boxes", "brute"] + ["line"] * (d == 1)
    results = []
    for search in searches:
        out = nc.LocalRecalibrator(**option, search=search).fit(base, y, x).recalibrate(base_new, new)
        results.append(np.column_stack([out.mean(), out.std(), *out.interval(0.9), out.effective_size, out.radius]))
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], rtol=1e-10)


@pytest.mark.parametrize(("metric", "power"), [("manhattan", 1), ("chebyshev", np.inf), ("euclidean", 2)])
def test_metrics_of_the_tree(metric, power):
    rng = np.random.default_rng(1)
    points, queries = rng.normal(size=(300, 4)), rng.normal(size=(10, 4))
    distances = np.linalg.norm(points - queries[:, None], ord=power, axis=2)
    found = KDTreeIndex(points, metric).nearest(queries, 7, 0.0)
    np.testing.assert_allclose(np.sort(found.distances.reshape(10, 7)), np.sort(distances)[:, :7], rtol=1e-12)
    within = KDTreeIndex(points, metric).within(queries, 1.5)
    np.testing.assert_array_equal(np.diff(within.indptr), (distances <= 1.5).sum(axis=1))


def test_cosine_distance():
    rng = np.random.default_rng(1)
    points, queries = rng.normal(size=(300, 4)), rng.normal(size=(10, 4))
    cosine = points @ queries.T / np.linalg.norm(points, axis=1)[:, None] / np.linalg.norm(queries, axis=1)
    found = KDTreeIndex(points, "cosine").nearest(queries, 7, 0.0)
    np.testing.assert_allclose(np.sort(found.distances.reshape(10, 7)), np.sort(1 - cosine.T)[:, :7], rtol=1e-9)
    within = KDTreeIndex(points, "cosine").within(queries, 0.3)
    np.testing.assert_array_equal(np.diff(within.indptr), (1 - cosine.T <= 0.3).sum(axis=1))


# ---- a radius, a bounded number of neighbours at a time -------------------------------------------------------------

RADIUS_SEARCHES = [("line", "euclidean", 1)] + [(name, "euclidean", 4) for name in ("boxes", "brute", "kdtree")]
RADIUS_SEARCHES += [("kdtree", metric, 4) for metric in METRICS if metric != "euclidean"]


@pytest.mark.parametrize(("search", "metric", "d"), RADIUS_SEARCHES)
@pytest.mark.parametrize("most", [0, 1, 700, 3000, 10**9])
def test_a_bounded_search_answers_the_first_queries(search, metric, d, most):
    rng = np.random.default_rng(0)
    points = 1 + np.concatenate([rng.normal(size=(300, d)), 1e-3 * rng.normal(size=(700, d))])
    queries = 1 + rng.normal(size=(100, d)) * np.where(rng.random(100) < 0.7, 1.0, 1e-3)[:, np.newaxis]
    index = build_index(points, metric, search, 10)
    radius = 0.01 if metric == "cosine" else 0.3
    whole = index.within(queries, radius)
    assert len(whole.indptr) == 101
    counts, start = np.diff(whole.indptr), 0
    while start < 100:
        part = index.within(queries[start:], radius, most)
        found = len(part.indptr) - 1
        assert found == len(part.radius) >= 1
        assert found == 1 or part.indptr[-1] <= most
        np.testing.assert_array_equal(np.diff(part.indptr), counts[start : start + found])
        own = slice(whole.indptr[start], whole.indptr[start + found])
        np.testing.assert_array_equal(part.indices, whole.indices[own])
        np.testing.assert_array_equal(part.distances, whole.distances[own])
        start += found
    np.testing.assert_array_equal(count_within(index, queries, radius), counts)
