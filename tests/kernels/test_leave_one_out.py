"""Leave-one-out kernels equal their slow twins."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcal.kernels import _leave_one_out, _panels, _select, _weights
from tests import reference

SMOOTHINGS = ("epanechnikov", "uniform", "gaussian")
KINDS = np.array([getattr(_weights, name.upper()) for name in SMOOTHINGS])


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


def order(points, k, found, distances, ranks):
    n = len(points)
    indices, ordered = np.empty((n, k), np.int32), np.empty((n, k))
    _leave_one_out.order_others(found, distances, np.arange(n), ranks, indices, ordered)
    return indices, ordered


@settings(deadline=None)
@given(case=searches())
def test_others_are_the_nearest_without_the_point(case):
    points, k, found, distances, ranks, _ = case
    indices, ordered = order(points, k, found, distances, ranks)
    for row in range(len(points)):
        others = np.delete(np.arange(len(points)), row)
        nearest, near = reference.nearest(points[others], points[row], k)
        by_rank = np.argsort(ranks[others[nearest]])
        np.testing.assert_array_equal(indices[row], others[nearest][by_rank])
        np.testing.assert_array_equal(ordered[row], near[by_rank])


@settings(deadline=None, max_examples=40)
@given(case=searches(), data=st.data())
def test_crps_of_smaller_neighbourhoods(case, data):
    points, k, found, distances, ranks, rng = case
    n = len(points)
    indices, ordered = order(points, k, found, distances, ranks)
    standard = rng.normal(size=n) if data.draw(st.booleans()) else np.round(rng.normal(size=n))
    values = np.sort(standard)[ranks]
    y = rng.normal(size=n) * 3
    sizes = np.array(sorted(data.draw(st.sets(st.integers(1, k), min_size=1, max_size=4)), reverse=True))
    crps = np.empty((n, len(sizes), len(KINDS)))
    _leave_one_out.prefix_crps(indices, ordered, values[indices], y, sizes, KINDS, _select.make_scratch(k), crps)
    for row in range(n):
        others = np.delete(np.arange(n), row)
        for a, size in enumerate(sizes):
            nearest, near = reference.nearest(points[others], points[row], size)
            for b, smoothing in enumerate(SMOOTHINGS):
                weights = reference.kernel_weights(near, near.max(), smoothing)
                expected = reference.sample_crps(values[others[nearest]], weights, y[row])
                np.testing.assert_allclose(crps[row, a, b], expected, rtol=1e-10, atol=1e-13)


def test_panels_sum_the_series_of_each_scores_panel():
    rng = np.random.default_rng(0)
    series, panels, polynomials = rng.normal(size=(3, 2, 20)), rng.integers(0, 2, size=9), rng.normal(size=(9, 20))
    indices = rng.integers(0, 9, size=(3, 5)).astype(np.int32)
    values = np.empty((3, 5))
    _panels.evaluate_panels(series, panels, polynomials, indices, values)
    expected = [[series[r, panels[i]] @ polynomials[i] for i in indices[r]] for r in range(3)]
    np.testing.assert_allclose(values, expected, rtol=1e-12)
