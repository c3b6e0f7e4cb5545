"""Calibration around every row equals a plain loop over its nearest rows."""

import numpy as np
import pytest

import nearcal as nc


@pytest.mark.parametrize("d", [1, 3, 12])
def test_equals_a_plain_loop(d):
    rng = np.random.default_rng(d)
    space = rng.normal(size=(2500, d)) * rng.uniform(0.1, 10, size=d)
    y = rng.normal(0.0, 2.0, size=2500)
    y[0] = 50.0
    dist = nc.Normal(np.zeros(2500), 1.0)
    table = nc.diagnostics.neighborhood_calibration(dist, y, space, k=40, coverage=0.8)
    scaled = (space - space.mean(axis=0)) / space.std(axis=0)
    for row in (0, 7, 2499):
        distance = np.linalg.norm(scaled - scaled[row], axis=1)
        near = np.argsort(distance)[:40]
        z = np.clip(y[near], -5, 5)
        assert table["mean_z"][row] == pytest.approx(z.mean())
        assert table["std_z"][row] == pytest.approx(z.std())
        assert table["coverage"][row] == pytest.approx((np.abs(y[near]) <= 1.2815515655446004).mean())
        assert table["radius"][row] == pytest.approx(np.sort(distance)[39])


def test_more_neighbors_than_rows():
    with pytest.raises(nc.InvalidParameterError, match="k must be at most the number of rows, 5, got 6"):
        nc.diagnostics.neighborhood_calibration(nc.Normal(np.zeros(5), 1.0), np.zeros(5), np.arange(5.0), k=6)
