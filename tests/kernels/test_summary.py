"""Moments and tail weights equal their slow twins."""

import numpy as np
from hypothesis import given, settings

from nearcal.kernels import summary
from tests import reference
from tests.kernels.neighborhoods import each, neighborhoods


@settings(deadline=None)
@given(case=neighborhoods())
def test_moments_and_tail_weights(case):
    scores, ranks, indptr, indices, weights = case
    which = np.arange(len(indptr) - 1)
    mean, variance = summary.weighted_moments(indptr, indices, weights, scores)
    threshold = len(scores) // 3
    below, above = summary.weight_below(
        indptr, indices, weights, ranks, which, np.full((len(which), 1), threshold, dtype=np.int64)
    )
    for row, part in each(indptr):
        s, w = scores[indices[part]], weights[part]
        np.testing.assert_allclose((mean[row], variance[row]), reference.weighted_moments(s, w), rtol=1e-12, atol=1e-13)
        expected = reference.weight_below(ranks[indices[part]], w, threshold)
        np.testing.assert_allclose((below[row, 0], above[row, 0]), expected, rtol=1e-12, atol=1e-15)


def test_rows_without_and_rows_that_share_a_neighbourhood():
    indptr, indices, weights = np.array([0, 3]), np.arange(3, dtype=np.int32), np.full(3, 1 / 3)
    ranks, thresholds = np.array([2, 0, 1], dtype=np.int32), np.array([[1], [1], [3]])
    below, above = summary.weight_below(indptr, indices, weights, ranks, np.array([0, -1, 0]), thresholds)
    np.testing.assert_allclose(below, [[1 / 3], [0], [1]])
    np.testing.assert_allclose(above, [[2 / 3], [0], [0]])


def test_row_moments_equal_their_twin_and_ignore_padding_to_the_last_bit():
    rng = np.random.default_rng(1)
    values, weights = rng.normal(size=(5, 333)), rng.uniform(size=(5, 333))
    weights /= weights.sum(axis=1, keepdims=True)
    plain = summary.row_moments(values, weights)
    expected = [reference.weighted_moments(*row) for row in zip(values, weights, strict=True)]
    np.testing.assert_allclose(np.transpose(plain), expected, rtol=1e-12)
    for places in (np.r_[:333, [0] * 100], np.repeat(np.arange(333), 2)):
        padded = weights[:, places] * (np.diff(places, prepend=-1) > 0)
        for other, own in zip(summary.row_moments(values[:, places], padded), plain, strict=True):
            np.testing.assert_array_equal(other, own)


def test_moments_ignore_what_has_weight_zero_however_large():
    scores, weights = np.array([1.0, np.inf, 3.0, np.nan, 1e300]), np.array([0.5, 0.0, 0.5, 0.0, 0.0])
    mean, variance = summary.weighted_moments(np.array([0, 5]), np.arange(5, dtype=np.int32), weights, scores)
    assert (mean[0], variance[0]) == (2.0, 1.0)
    mean, variance = summary.row_moments(scores[np.newaxis], weights[np.newaxis])
    assert (mean[0], variance[0]) == (2.0, 1.0)


def test_keys_that_are_no_numbers_lie_below_no_threshold():
    keys, weights = np.array([1.0, np.nan, 3.0]), np.array([0.2, 0.3, 0.5])
    args = np.array([0, 3]), np.arange(3, dtype=np.int32), weights, keys, np.array([0])
    below, above = summary.weight_below(*args, np.array([[2.0, np.nan, np.inf]]))
    np.testing.assert_allclose(below, [[0.2, 0.0, 0.7]])
    np.testing.assert_allclose(above, [[0.8, 1.0, 0.3]])
