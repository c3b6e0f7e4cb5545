"""Weights of neighbours equal their slow twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcal.kernels import weights as kernels
from nearcal.recalibration import SMOOTHINGS
from nearcal.recalibration.neighborhoods import smoothing_code
from tests import reference


@settings(deadline=None)
@given(
    distances=st.lists(st.floats(0, 10), min_size=1, max_size=30),
    smoothing=st.sampled_from(sorted(reference.KERNELS)),
    reach=st.sampled_from(["farthest", "radius"]),
)
def test_weights(distances, smoothing, reach):
    distances = np.array(distances)
    indptr = np.array([0, 0, len(distances)])  # an empty neighbourhood first
    u = np.full(2, distances.max() if reach == "farthest" else 10.0)
    weights, effective, own = kernels.weigh(indptr, distances, u, smoothing_code(smoothing))
    expected = reference.kernel_weights(distances, u[1], smoothing)
    np.testing.assert_allclose(weights, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(effective, [0.0, 1 / (expected**2).sum()], rtol=1e-12)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = reference.KERNELS[smoothing](distances / u[1]).sum() if u[1] > 0 else len(distances)
    np.testing.assert_allclose(own, [0.0, 1 / total if total > 0 else 1 / len(distances)], rtol=1e-9)


def test_every_smoothing_has_a_kernel_and_a_twin():
    assert set(SMOOTHINGS) == set(reference.KERNELS)
    assert sorted(map(smoothing_code, SMOOTHINGS)) == list(range(len(SMOOTHINGS)))


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_distances_that_are_no_numbers_leave_neighbours_equal(smoothing):
    """Nothing tells them apart: the weights still sum to 1, and none is NaN."""
    weights, effective, _ = kernels.weigh(np.array([0, 4]), np.full(4, np.nan), np.ones(1), smoothing_code(smoothing))
    np.testing.assert_array_equal(weights, 0.25)
    np.testing.assert_array_equal(effective, 4.0)


@settings(deadline=None)
@given(
    neighbours=st.lists(st.tuples(st.floats(0, 10), st.floats(0.01, 5)), min_size=1, max_size=30),
    smoothing=st.sampled_from(sorted(reference.KERNELS)),
)
def test_weights_of_points_that_have_weights(neighbours, smoothing):
    distances, shares = np.array(neighbours).T.copy()
    indptr = np.array([0, 0, len(distances)])  # an empty neighbourhood first
    u = np.full(2, distances.max())
    weights, effective, own = kernels.weigh_points(indptr, distances, shares, u, smoothing_code(smoothing))
    expected, expected_own = reference.point_weights(distances, shares, u[1], smoothing)
    np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(effective, [0.0, 1 / (expected**2).sum()], rtol=1e-9)
    np.testing.assert_allclose(own, [0.0, expected_own], rtol=1e-9)
