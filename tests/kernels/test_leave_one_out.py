"""Leave-one-out kernels equal their slow twins."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcal.kernels import leave_one_out, select, weights
from tests import reference

SMOOTHINGS = ("epanechnikov", "uniform", "gaussian")
KINDS = np.array([getattr(weights, name.upper()) for name in SMOOTHINGS])


@st.composite
def searches(draw):
    """The k + 1 nearest of each point among themselves, in any order, and ranks of their scores."""
    n = draw(st.integers(2, 70))
    k = draw(st.integers(1, n - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    points = rng.normal(size=(n, 2))
    if draw(st.booleans()):
        points = rng.integers(0, 2, size=(n, 2)).astype(float)  # ties and duplicates
    found = np.empty((n, k + 1), np.int32)
    distances = np.empty((n, k + 1))
    for row in range(n):
        nearest = reference.nearest(points, points[row], k + 1)
        shuffled = rng.permutation(k + 1)
        found[row], distances[row] = nearest[0][shuffled], nearest[1][shuffled]
    return points, k, found, distances, rng.permutation(n).astype(np.int32), rng


def drop(k, found, distances, own):
    indices, kept = np.empty((len(own), k), np.int32), np.empty((len(own), k))
    leave_one_out.drop_own(found, distances, own, indices, kept)
    return indices, kept


def order(k, found, distances, ranks):
    indices, kept = drop(k, found, distances, np.arange(len(found)))
    by_rank = np.argsort(ranks[indices], axis=1)
    return np.take_along_axis(indices, by_rank, axis=1), np.take_along_axis(kept, by_rank, axis=1)


@settings(deadline=None)
@given(case=searches())
def test_others_are_the_nearest_without_the_point(case):
    points, k, found, distances, _, _ = case
    indices, kept = drop(k, found, distances, np.arange(len(points)))
    for row in range(len(points)):
        others = np.delete(np.arange(len(points)), row)
        nearest, near = reference.nearest(points[others], points[row], k)
        by_index = np.argsort(indices[row])
        np.testing.assert_array_equal(indices[row][by_index], np.sort(others[nearest]))
        np.testing.assert_array_equal(kept[row][by_index], near[np.argsort(others[nearest])])


@settings(deadline=None)
@given(case=searches())
def test_the_rest_keeps_its_order_and_leaves_out_the_point_or_the_last_of_the_farthest(case):
    _, k, found, distances, _, _ = case
    own = np.arange(len(found))
    indices, kept = drop(k, found, distances, own)
    for row in own:
        expected = reference.without_own(found[row], distances[row], row)
        np.testing.assert_array_equal(indices[row], expected[0])
        np.testing.assert_array_equal(kept[row], expected[1])


def test_distances_that_are_no_numbers_still_drop_one():
    found, own = np.array([[4, 7, 2], [1, 0, 3]], dtype=np.int32), np.array([9, 0])
    indices, _ = drop(2, found, np.full((2, 3), np.nan), own)
    assert set(indices[0]) < {4, 7, 2}
    np.testing.assert_array_equal(indices[1], [1, 3])


@settings(deadline=None, max_examples=40)
@given(case=searches(), data=st.data())
def test_crps_of_smaller_neighbourhoods(case, data):
    points, k, found, distances, ranks, rng = case
    n = len(points)
    indices, ordered = order(k, found, distances, ranks)
    standard = rng.normal(size=n) if data.draw(st.booleans()) else np.round(rng.normal(size=n))
    values = np.sort(standard)[ranks]
    y = rng.normal(size=n) * 3
    sizes = np.array(sorted(data.draw(st.sets(st.integers(1, k), min_size=1, max_size=4)), reverse=True))
    crps = np.empty((n, len(sizes), len(KINDS)))
    leave_one_out.prefix_crps(indices, ordered, values[indices], y, sizes, KINDS, select.make_scratch(k), crps)
    for row in range(n):
        others = np.delete(np.arange(n), row)
        for a, size in enumerate(sizes):
            nearest, near = reference.nearest(points[others], points[row], size)
            for b, smoothing in enumerate(SMOOTHINGS):
                own = reference.kernel_weights(near, near.max(), smoothing)
                expected = reference.sample_crps(values[others[nearest]], own, y[row])
                np.testing.assert_allclose(crps[row, a, b], expected, rtol=1e-10, atol=1e-13)


def test_nobody_is_nearest_where_distances_are_no_numbers():
    """The nearest of a row without distances are none: once the scores of none were read."""
    indices, values = np.tile(np.arange(30, dtype=np.int32), (2, 1)), np.tile(np.arange(30.0), (2, 1))
    distances = np.stack([np.full(30, np.nan), np.arange(30.0)])
    crps = np.empty((2, 2, 1))
    sizes, kinds = np.array([30, 2]), np.array([weights.UNIFORM])
    leave_one_out.prefix_crps(indices, distances, values, np.zeros(2), sizes, kinds, select.make_scratch(30), crps)
    assert np.isnan(crps[0, 1]).all()
    everyone, nearest = np.full(30, 1 / 30), np.full(2, 0.5)
    np.testing.assert_allclose(crps[:, 0, 0], reference.sample_crps(np.arange(30.0), everyone, 0.0), rtol=1e-12)
    np.testing.assert_allclose(crps[1, 1, 0], reference.sample_crps(np.arange(2.0), nearest, 0.0), rtol=1e-12)


def test_values_too_large_for_a_number_have_an_infinite_score():
    """Differences of infinite values were no numbers, and a mean that is none was taken for the smallest."""
    indices, distances = np.tile(np.arange(4, dtype=np.int32), (3, 1)), np.tile([0.0, 1.0, 2.0, 3.0], (3, 1))
    values = np.array([[0.0, 1.0, np.inf, np.inf], [-1.7e308, 0.0, 1.0, 1.7e308], [0.0, 1.0, 2.0, np.inf]])
    crps, kinds = np.empty((3, 2, 1)), np.array([weights.EPANECHNIKOV])
    sizes = np.array([4, 2])
    leave_one_out.prefix_crps(indices, distances, values, np.zeros(3), sizes, kinds, select.make_scratch(4), crps)
    nearest = reference.sample_crps(np.arange(3.0), reference.kernel_weights(np.arange(3.0), 3.0, "epanechnikov"), 0.0)
    # the last neighbour lies at the radius and has no weight; of two the second
    np.testing.assert_allclose(crps[:, :, 0], [[np.inf, 0.0], [np.inf, np.inf], [nearest, 0.0]], rtol=1e-12)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    width=st.integers(1, 300),
    kind=st.sampled_from(["smooth", "tied", "outlier", "one"]),
)
def test_the_crps_of_a_sample_in_any_order_is_that_of_its_twin(seed, width, kind):
    rng = np.random.default_rng(seed)
    values, own = rng.normal(size=(3, width)), rng.uniform(size=(3, width)) * (rng.random((3, width)) < 0.8)
    own[:, 0] += 0.1
    values = {"smooth": values, "tied": np.round(values), "outlier": values, "one": np.zeros((3, width))}[kind]
    values[:, -1] *= 1e9 if kind == "outlier" else 1.0
    own /= own.sum(axis=1, keepdims=True)
    y, crps = rng.normal(size=3), np.empty(3)
    leave_one_out.sample_crps(values, own, y, crps)
    expected = [reference.sample_crps(*row) for row in zip(values, own, y, strict=True)]
    np.testing.assert_allclose(crps, expected, rtol=1e-8, atol=1e-10 * np.abs(values).max())
