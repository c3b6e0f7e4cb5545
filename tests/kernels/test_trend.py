"""Bumps against their slow twin."""

import numpy as np
import pytest

from nearcal.kernels import trend
from tests import reference


@pytest.mark.parametrize("shape", ["gaussian", "laplace"])
@pytest.mark.parametrize(("rows", "centers", "columns"), [(7, 5, 3), (1, 1, 1), (0, 4, 2), (3, 90, 20)])
def test_bumps_add_up(rows, centers, columns, shape):
    rng = np.random.default_rng(0)
    points, around, heights = (
        rng.normal(size=(rows, columns)),
        rng.normal(size=(centers, columns)),
        rng.normal(size=centers),
    )
    found = np.empty(rows)
    trend.add_bumps(points, around, heights, shape == "gaussian", found)
    np.testing.assert_allclose(found, reference.bumps(points, around, heights, shape), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("is_round", [True, False])
def test_a_row_is_the_same_alone(is_round):
    rng = np.random.default_rng(1)
    points, around, heights = rng.normal(size=(9, 4)), rng.normal(size=(30, 4)), rng.normal(size=30)
    together, alone = np.empty(9), np.empty(1)
    trend.add_bumps(points, around, heights, is_round, together)
    trend.add_bumps(points[4:5].copy(), around, heights, is_round, alone)
    assert alone[0] == together[4]
