"""Leaves as a space: distances of the embedding against counting trees."""

import numpy as np
import pytest

from nearcal.models.adapters.anatomy import DIMENSIONS, Trees, embed_leaves

RNG = np.random.default_rng(0)
NUMBERS = RNG.integers(0, 4, size=(60, 80))
NUMBERS[30:] = np.where(RNG.random((30, 80)) < 0.8, NUMBERS[:30], NUMBERS[30:])  # pairs at all distances


def squared_distances(positions):
    return ((positions[:, np.newaxis] - positions[np.newaxis]) ** 2).sum(axis=2)


def test_squared_distances_estimate_the_share_of_trees_that_part_two_rows():
    share = (NUMBERS[:, np.newaxis] != NUMBERS[np.newaxis]).mean(axis=2)
    found = squared_distances(embed_leaves(NUMBERS))
    assert found.shape == (60, 60)
    # a sum of squares of 256 nearly normal coordinates: relative standard deviation √(2/256) = 0.088; the largest of
    # 1770 pairs stays within 4.5 of them
    pairs = np.triu_indices(60, 1)
    np.testing.assert_allclose(found[pairs], share[pairs], rtol=4.5 * np.sqrt(2 / DIMENSIONS))
    assert np.mean(found[pairs] / share[pairs]) == pytest.approx(1, abs=0.02)
    assert np.ptp(share[pairs]) > 0.4  # the estimate had something to follow


def test_rows_in_the_same_leaves_lie_in_the_same_place():
    again = embed_leaves(NUMBERS[[3, 3, 5]])
    np.testing.assert_array_equal(again[0], again[1])
    np.testing.assert_array_equal(again, embed_leaves(NUMBERS)[[3, 3, 5]])


def test_trees_and_leaves_have_signs_of_their_own():
    one_leaf_each = embed_leaves(np.arange(100)[:, np.newaxis])
    assert len(np.unique(one_leaf_each, axis=0)) == 100
    swapped = embed_leaves(np.array([[1, 2], [2, 1]]))
    assert np.any(swapped[0] != swapped[1])


def test_leaf_values_look_up_the_value_of_each_leaf():
    values = [RNG.normal(size=4) for _ in range(80)]
    found = Trees(lambda X: NUMBERS[X], values).leaf_values([0, 7])
    np.testing.assert_array_equal(found, [[values[t][NUMBERS[row, t]] for t in range(80)] for row in (0, 7)])
