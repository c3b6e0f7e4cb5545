"""The kernels behind the local-linear correction equal their slow twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcal.kernels import adjust as kernels
from tests import reference

RIDGE = 1e-3


@st.composite
def neighborhoods(draw):
    """Neighbourhoods of several sizes, some with duplicated points, weights of zero and scores without a slope."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(30, 200)), draw(st.integers(1, 6))
    points, scores = rng.normal(size=(n, d)), rng.normal(size=n)
    if draw(st.booleans()):
        points = np.round(points)  # ties
    scores = scores + draw(st.sampled_from([0.0, 1.0, 30.0])) * points[:, 0]
    sizes = [draw(st.integers(1, n)) for _ in range(3)]
    indices = np.concatenate([rng.choice(n, size, replace=False) for size in sizes]).astype(np.int32)
    weights = np.concatenate([_weights(size, rng) for size in sizes])
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return indptr, indices, weights, points, rng.normal(size=(3, d)) * draw(st.sampled_from([0.3, 5.0])), scores


def _weights(size, rng):
    weights = rng.uniform(size=size) * (rng.uniform(size=size) > 0.2)
    return weights / weights.sum() if weights.sum() > 0 else np.full(size, 1 / size)


def adjust(indptr, indices, weights, points, queries, scores, owners=(0, 1, 2), least=10):
    room = kernels.make_workroom(indptr, points.shape[1])
    points.flags.writeable = False
    return kernels.adjust_linear(
        indptr, indices, weights, points, queries, np.array(owners), scores[indices], least, RIDGE, room
    )


@settings(deadline=None, max_examples=60)
@given(case=neighborhoods())
def test_adjusted_scores_equal_weighted_least_squares(case):
    indptr, indices, weights, points, queries, scores = case
    found = adjust(*case)
    for group in range(3):
        own = slice(indptr[group], indptr[group + 1])
        expected = scores[indices[own]]
        if own.stop - own.start >= 10:
            expected = reference.local_linear(points[indices[own]], queries[group], weights[own], expected, RIDGE)
        counts = weights[own] > 0
        scale = np.abs(expected).max() + 1
        np.testing.assert_allclose(found[own][counts], expected[counts], rtol=1e-10, atol=1e-10 * scale)


def test_without_a_slope_scores_stay_to_the_last_bit():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    design = np.column_stack([np.ones(200), x])
    scores = rng.normal(size=200)
    scores -= design @ np.linalg.lstsq(design, scores, rcond=None)[0]
    case = np.array([0, 200]), np.arange(200, dtype=np.int32), np.full(200, 1 / 200), x, np.ones((1, 3))
    np.testing.assert_array_equal(adjust(*case, scores, owners=[0]), scores)


def test_a_line_is_followed_exactly_never_beyond_the_neighbours_and_less_from_afar():
    x = np.linspace(0, 1, 101)[:, np.newaxis]
    scores = 5 * x[:, 0]
    args = np.array([0, 101]), np.arange(101, dtype=np.int32), np.full(101, 1 / 101), x
    inside = adjust(*args, np.array([[0.8]]), scores, owners=[0])
    np.testing.assert_allclose(inside, 4.0, atol=1e-2)  # the ridge takes a thousandth of the slope
    near = adjust(*args, np.array([[1.1]]), scores, owners=[0])
    np.testing.assert_allclose(near, 5.0, atol=1e-2)
    # leverages of the neighbours are at most 0.5² / var, that of the row 10.5² / var: 2 · 0.5² / 10.5² of the slope
    far = adjust(*args, np.array([[11.0]]), scores, owners=[0])
    share = 2 * 0.5**2 / 10.5**2
    np.testing.assert_allclose(far.mean(), 2.5 + share * 2.5, rtol=1e-3)
    np.testing.assert_allclose(adjust(*args, np.array([[1e9]]), scores, owners=[0]), scores, atol=1e-9)


@pytest.mark.parametrize("owner", [-1, 0])
def test_neighbourhoods_of_nobody_and_small_ones_are_left_as_they_are(owner):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 1))
    least = 10 if owner < 0 else 13
    args = np.array([0, 12]), np.arange(12, dtype=np.int32), np.full(12, 1 / 12), x, np.zeros((1, 1)), x[:, 0].copy()
    np.testing.assert_array_equal(adjust(*args, owners=[owner], least=least), x[:, 0])
    assert not np.array_equal(adjust(*args, owners=[0], least=10), x[:, 0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_stays_in_its_neighbourhood(bad):
    rng = np.random.default_rng(0)
    x, scores = rng.normal(size=(90, 2)), rng.normal(size=90)
    args = np.array([0, 30, 60, 90]), np.arange(90, dtype=np.int32), np.full(90, 1 / 30), x, np.zeros((3, 2))
    expected = adjust(*args, scores)
    spoilt = scores.copy()
    spoilt[40] = bad
    found = adjust(*args, spoilt)
    np.testing.assert_array_equal(np.delete(found, np.s_[30:60]), np.delete(expected, np.s_[30:60]))
