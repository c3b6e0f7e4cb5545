"""Weighted quantiles equal their slow twin, for ties, zero weights, one neighbour and all; by rank or by value."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcal.kernels.quantiles import weighted_quantiles
from tests import reference
from tests.kernels.neighborhoods import each, neighborhoods, rank

LEVELS = np.array([0.0, 1e-15, 0.025, 0.3, 0.5, 0.731, 0.975, 1 - 1e-15, 1.0])


@settings(deadline=None)
@given(case=neighborhoods())
def test_the_least_key_whose_weight_reaches_the_level(case):
    scores, ranks, indptr, indices, weights = case
    which = np.arange(len(indptr) - 1)
    levels = np.tile(LEVELS, (len(which), 1))
    by_rank = weighted_quantiles(indptr, indices, weights, ranks, which, levels)
    by_value = weighted_quantiles(indptr, indices, weights, scores, which, levels)
    for row, part in each(indptr):
        expected = [reference.weighted_quantile(scores[indices[part]], weights[part], p) for p in LEVELS]
        np.testing.assert_array_equal(np.sort(scores)[by_rank[row]], expected)
        np.testing.assert_array_equal(by_value[row], expected)


@settings(deadline=None)
@given(case=neighborhoods(), own=st.floats(0, 1))
def test_levels_moved_outwards_are_conservative_quantiles(case, own):
    scores, ranks, indptr, indices, weights = case
    which = np.arange(len(indptr) - 1)
    p = np.tile([0.01, 0.05, 0.31, 0.5, 0.77, 0.95, 0.999], (len(which), 1))
    levels = np.where(p < 0.5, p - (1 - p) * own, p * (1 + own))
    found = weighted_quantiles(indptr, indices, weights, ranks, which, levels)
    for row, part in each(indptr):
        sample = scores[indices[part]], weights[part]
        expected = [reference.conservative_quantile(*sample, own, level) for level in p[row]]
        np.testing.assert_array_equal(np.sort(scores)[found[row]], expected)


@pytest.mark.parametrize("keys", [np.array([3.0, 1.0, 2.0]), rank([3.0, 1.0, 2.0])], ids=["scores", "ranks"])
def test_rows_without_and_rows_that_share_a_neighbourhood(keys):
    indptr, indices, weights = np.array([0, 3]), np.arange(3, dtype=np.int32), np.full(3, 1 / 3)
    levels = np.array([[0.1], [0.5], [0.9]])
    found = weighted_quantiles(indptr, indices, weights, keys, np.array([0, -1, 0]), levels)
    np.testing.assert_array_equal(found, [[keys.min()], [0], [keys.max()]])
    assert found.dtype == keys.dtype


@settings(deadline=None, max_examples=40)
@given(case=neighborhoods(), bad=st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e308]), share=st.floats(0.05, 1))
def test_keys_that_are_no_numbers_become_no_index(case, bad, share):
    scores, _, indptr, indices, weights = case
    rng = np.random.default_rng(0)
    spoilt = np.where(rng.uniform(size=len(scores)) < share, bad, scores)
    which = np.arange(len(indptr) - 1)
    found = weighted_quantiles(indptr, indices, weights, spoilt, which, np.tile(LEVELS, (len(which), 1)))
    for row, part in each(indptr):
        keys = spoilt[indices[part]][weights[part] > 0]
        if np.isnan(keys).any():  # a NaN has no place among numbers, but what is found is a neighbour's
            assert np.isin(found[row][~np.isnan(found[row])], keys).all()
        else:
            expected = [reference.weighted_quantile(spoilt[indices[part]], weights[part], p) for p in LEVELS]
            np.testing.assert_array_equal(found[row], expected)


@pytest.mark.parametrize("tiny", [1e-16, 1e-18, 1e-300, 5e-324])
def test_the_greatest_is_the_last_however_light(tiny):
    """A weight that the sum before it swallows."""
    scores = np.array([5.0, 1.0, 9.0])
    weights = np.array([0.5, 0.5, tiny])
    for keys in (scores, rank(scores)):
        found = weighted_quantiles(
            np.array([0, 3]), np.arange(3, dtype=np.int32), weights, keys, np.zeros(1, int), np.array([[0.5, 0.9, 1.0]])
        )
        np.testing.assert_array_equal(found[0], keys[[1, 0, 2]])


def test_neighbourhoods_without_neighbours_or_weights_are_none():
    indptr, indices, weights = np.array([0, 0, 2]), np.arange(2, dtype=np.int32), np.zeros(2)
    for keys in (np.array([3.0, 4.0]), np.array([1, 2], dtype=np.int32)):
        found = weighted_quantiles(indptr, indices, weights, keys, np.array([0, 1]), np.array([[0.3, 1.0]] * 2))
        np.testing.assert_array_equal(found, 0)
