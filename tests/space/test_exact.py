"""The exact searches against a brute force that is slow and obvious: the same sets, distances and tie rule."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearcal as nc
from nearcal.space import _exact, build_index
from nearcal.space._exact import BlockedBrute, LeafBoxes, SortedLine
from tests import reference

STRUCTURES = {"line": SortedLine, "boxes": LeafBoxes, "brute": BlockedBrute}
KINDS = ["normal", "offset", "integers", "duplicates", "constant", "scales", "outliers"]
each_structure = pytest.mark.parametrize("name", STRUCTURES)


def structures(d):
    """Every structure that can hold points of this dimension."""
    return [cls for cls in STRUCTURES.values() if d == 1 or cls is not SortedLine]


def make_points(rng, kind, n, d):
    if kind == "normal":
        return rng.normal(size=(n, d))
    if kind == "offset":  # columns around 1e6 with a spread of 1e-3
        return 1e6 + 1e-3 * rng.normal(size=(n, d))
    if kind == "integers":  # ties everywhere
        return rng.integers(0, 4, size=(n, d)).astype(float)
    if kind == "duplicates":
        return rng.normal(size=(max(n // 10, 1), d))[rng.integers(0, max(n // 10, 1), n)]
    if kind == "constant":
        return np.full((n, d), 3.0)
    if kind == "scales":  # badly scaled columns
        return rng.normal(size=(n, d)) * 10.0 ** rng.integers(-6, 7, d)
    return rng.standard_cauchy(size=(n, d)) ** 3  # outliers


def check_nearest(structure, points, queries, k):
    found = structure.nearest(queries, k, 0.0)
    indices, distances = (part.reshape(len(queries), k) for part in (found.indices, found.distances))
    squares = reference.squares(points, queries)
    # by distance, then by index: a stable sort
    expected = np.sort(np.argsort(squares, axis=1, kind="stable")[:, :k], axis=1)
    order = np.argsort(indices, axis=1)
    np.testing.assert_array_equal(np.take_along_axis(indices, order, axis=1), expected)
    exact = np.sqrt(np.take_along_axis(squares, expected, axis=1))
    np.testing.assert_array_equal(np.take_along_axis(distances, order, axis=1), exact)
    np.testing.assert_array_equal(found.radius, exact.max(axis=1))
    np.testing.assert_array_equal(found.indptr, np.arange(len(queries) + 1) * k)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    n=st.integers(1, 700),
    d=st.integers(1, 24),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_nearest(kind, n, d, share, seed):
    rng = np.random.default_rng(seed)
    points = make_points(rng, kind, n, d)
    queries = np.concatenate([make_points(rng, kind, 7, d), points[rng.integers(0, n, 4)]])
    for k in {1, n, 1 + int(share * (n - 1))}:
        for cls in structures(d):
            check_nearest(cls(points), points, queries, k)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("d", "k"), [(1, 300), (3, 1), (5, 300), (20, 100), (20, 5000), (100, 50), (300, 300)])
def test_nearest_of_many_points(kind, d, k):
    rng = np.random.default_rng(7)
    points = make_points(rng, kind, 6007, d)
    queries = np.concatenate([make_points(rng, kind, 8, d), points[:5]])
    for cls in structures(d):
        check_nearest(cls(points), points, queries, k)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [1000, 100])  # with 100 the thinned points are thinned again
def test_nearest_by_a_guess_among_thinned_points(kind, many, monkeypatch):
    monkeypatch.setattr(_exact, "_MANY_POINTS", many)
    rng = np.random.default_rng(8)
    points = make_points(rng, kind, 6007, 5)
    queries = np.concatenate([make_points(rng, kind, 100, 5), points[:5], points[:1] + 1e9])
    structure = BlockedBrute(points)
    assert (structure.thinned.thinned is None) == (many == 1000)
    for k in (1, 300, 6007):
        check_nearest(structure, points, queries, k)


@pytest.mark.parametrize("n", [64 * 31 + 1, 64 * 32 - 1, 65])
def test_a_nearly_empty_last_leaf(n):
    """A query at home in a leaf of fewer than k points once took its bound from beyond the histogram."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(n, 3))
    structure = LeafBoxes(points)
    check_nearest(structure, points, points, 40)
    whole = structure.nearest(points, 40, 0.7).indices
    alone = [structure.nearest(point[None], 40, 0.7).indices for point in points]
    np.testing.assert_array_equal(np.concatenate(alone), whole)


@pytest.mark.parametrize("d", [1, 2, 20])
def test_far_queries(d):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3000, d))
    queries = rng.normal(size=(6, d)) * 10.0 ** np.array([[1], [3], [6], [12], [40], [140]])
    for cls in structures(d):
        check_nearest(cls(points), points, queries, 100)


@pytest.mark.parametrize("scale", [1e-140, 1e-30, 1e30, 1e140])
@pytest.mark.parametrize("d", [1, 2, 20])
def test_extreme_scales(scale, d):
    rng = np.random.default_rng(0)
    points, queries = scale * rng.normal(size=(3000, d)), scale * rng.normal(size=(5, d))
    for cls in structures(d):
        check_nearest(cls(points), points, queries, 100)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    n=st.integers(1, 700),
    d=st.integers(1, 24),
    k=st.integers(1, 700),
    seed=st.integers(0, 2**32 - 1),
)
def test_radius(kind, n, d, k, seed):
    rng = np.random.default_rng(seed)
    points, queries = make_points(rng, kind, n, d), make_points(rng, kind, 5, d)
    distances = np.sqrt(reference.squares(points, queries))
    radius = np.sort(distances[0])[min(k, n) - 1]  # exactly at a point: the boundary belongs to the ball
    rows, columns = np.nonzero(distances <= radius)
    for cls in structures(d):
        found = cls(points).within(queries, radius)
        np.testing.assert_array_equal(np.diff(found.indptr), np.bincount(rows, minlength=5))
        order = np.lexsort((found.indices, np.repeat(np.arange(5), np.diff(found.indptr))))
        np.testing.assert_array_equal(found.indices[order], columns)
        np.testing.assert_array_equal(found.distances[order], distances[rows, columns])


@each_structure
def test_radius_of_many_rows(name):
    rng = np.random.default_rng(1)
    d = 1 if name == "line" else 4
    points, queries = rng.normal(size=(2000, d)), rng.normal(size=(600, d))
    found = STRUCTURES[name](points).within(queries, 0.5)
    np.testing.assert_array_equal(
        np.diff(found.indptr), (np.sqrt(reference.squares(points, queries)) <= 0.5).sum(axis=1)
    )


@pytest.mark.parametrize("eps", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("d", [1, 2, 5, 12])
def test_eps_bounds_every_rank(eps, d):
    rng = np.random.default_rng(2)
    points, queries = rng.normal(size=(20_000, d)), rng.normal(size=(20, d))
    exact = np.sqrt(np.sort(reference.squares(points, queries), axis=1)[:, :200])
    for cls in structures(d):
        found = cls(points).nearest(queries, 200, eps)
        distances = np.sort(found.distances.reshape(20, 200), axis=1)
        assert (distances <= (1 + eps) * exact).all()
        assert (distances >= exact).all()
        np.testing.assert_array_equal(found.radius, distances[:, -1])


@each_structure
@pytest.mark.parametrize("eps", [0.0, 1.0])
def test_a_row_does_not_depend_on_its_neighbours_in_the_chunk_or_on_threads(name, eps):
    rng = np.random.default_rng(3)
    d = 1 if name == "line" else 6
    structure, queries = STRUCTURES[name](rng.normal(size=(10_000, d))), rng.normal(size=(301, d))
    whole = structure.nearest(queries, 300, eps)
    for size in (1, 7, 300):
        starts = range(0, len(queries), size)
        with ThreadPoolExecutor(4) as pool:
            parts = list(pool.map(lambda i, size=size: structure.nearest(queries[i : i + size], 300, eps), starts))
        for field in ("indices", "distances", "radius"):
            np.testing.assert_array_equal(np.concatenate([getattr(p, field) for p in parts]), getattr(whole, field))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@each_structure
def test_a_query_that_is_no_number_gets_points_that_exist(name, bad):
    """Nobody can ask for it; still no kernel hands out what was never written."""
    rng = np.random.default_rng(4)
    n, d = 3000, 1 if name == "line" else 5
    structure, queries = STRUCTURES[name](rng.normal(size=(n, d))), rng.normal(size=(9, d))
    expected = structure.nearest(queries, 100, 0.0)
    bad_rows = [0, 4, 8]
    queries[bad_rows, rng.integers(d)] = bad
    for k in (1, 100, n):
        found = structure.nearest(queries, k, 0.0)
        indices = found.indices.reshape(9, k)
        assert all(len(set(row)) == k for row in indices.tolist())
        assert indices.min() >= 0
        assert indices.max() < n
        assert not np.isfinite(found.distances.reshape(9, k)[bad_rows]).any()
        assert not np.isfinite(found.radius[bad_rows]).any()
        if k == 100:
            others = np.setdiff1d(np.arange(9), bad_rows)
            np.testing.assert_array_equal(indices[others], expected.indices.reshape(9, k)[others])
    assert (np.diff(structure.within(queries, 1.0).indptr)[bad_rows] == 0).all()


@pytest.mark.parametrize("search", ["line", "boxes", "brute", "kdtree"])
@pytest.mark.parametrize("eps", [1e10, 1e200])
def test_however_loose_the_search_is_there_are_k_neighbours(search, eps):
    points = np.random.default_rng(2).normal(size=(3000, 1 if search == "line" else 4))
    found = build_index(points, "euclidean", search, 7).nearest(points[:20], 7, eps)
    np.testing.assert_array_equal(np.diff(found.indptr), 7)
    assert ((found.indices >= 0) & (found.indices < 3000)).all()
    exact = np.linalg.norm(points[found.indices] - np.repeat(points[:20], 7, axis=0), axis=1)
    np.testing.assert_allclose(found.distances, exact, rtol=1e-12, atol=1e-12)


def test_an_index_that_finds_none_of_its_points_is_told(monkeypatch):
    """As a damaged file may make it: then there must be an end to looking."""

    def find_nothing(blocks, queries, k, eps, guesses, rank, batch, rows, out):
        out.radius[rows] = -1.0

    points = np.random.default_rng(0).normal(size=(300, 30))
    index = BlockedBrute(points)
    monkeypatch.setattr(_exact, "query_blocks", find_nothing)
    with pytest.raises(nc.ArtefactError, match="must find k=10 of its 300 points for every row, got none for 5 rows"):
        index.nearest(points[:5], 10, 0.0)
