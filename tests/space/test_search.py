"""The choice of a search, and that every search leads to the same recalibration."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.space import build_index
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


def test_faiss_reports_its_recall():
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(20_000, 8)), rng.normal(size=(200, 8))
    y = rng.normal(size=20_000)
    approximate, exact = (
        nc.LocalRecalibrator(k=100, search=search).fit(nc.Normal(np.zeros(20_000), 1.0), y, x)
        for search in ("faiss", "brute")
    )
    assert 0.95 <= approximate.index_.recall <= 1
    outs = [rc.recalibrate(nc.Normal(np.zeros(200), 1.0), new) for rc in (approximate, exact)]
    found = [[set(row) for row in out.neighbors(slice(None)).indices] for out in outs]
    assert np.mean([len(a & b) / 100 for a, b in zip(*found, strict=True)]) > 0.9
    with pytest.raises(nc.InvalidParameterError, match="k nearest only"):
        nc.LocalRecalibrator(radius=1.0, search="faiss").fit(nc.Normal(np.zeros(20_000), 1.0), y, x)


def test_faiss_finds_k_where_the_nearest_cells_are_nearly_empty():
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(2000, 2)), 100 + rng.normal(size=(3, 2))])
    rc = nc.LocalRecalibrator(k=50, search="faiss").fit(nc.Normal(np.zeros(2003), 1.0), rng.normal(size=2003), x)
    indices = rc.recalibrate(nc.Normal([0.0], 1.0), [[100.0, 100.0]]).neighbors(0).indices[0]
    assert len(set(indices)) == 50
    assert (indices >= 0).all()
