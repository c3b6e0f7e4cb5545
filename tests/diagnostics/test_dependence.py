"""What dependent rows are worth: against known dependence."""

import numpy as np
import pytest
from scipy.special import ndtr

import nearcal as nc
from nearcal.diagnostics.dependence import effective_share

RNG = np.random.default_rng(6)


def test_copies_are_worth_one():
    p = RNG.uniform(size=200)
    units = np.repeat(np.arange(200), 10)
    # g / (g - 1) of 200 units, and nothing else, keeps it from a tenth
    np.testing.assert_allclose(effective_share(p[units], units), 0.1 * 199 / 200, rtol=1e-9)


def test_independent_rows_are_worth_all_of_them():
    shares = [effective_share(RNG.uniform(size=3000), np.arange(3000) // 100) for _ in range(50)]
    # the design effect of 30 units is 1 with a standard deviation of about a quarter, cut off at 1
    assert max(shares) == 1.0
    assert np.mean(shares) > 0.85


def test_without_units_and_with_one():
    p = RNG.uniform(size=50)
    assert effective_share(p, None) == 1.0
    assert effective_share(p, np.zeros(50, dtype=int)) == 1 / 50
    assert effective_share(np.full(50, 0.5), np.arange(50) // 5) == 1.0  # below no level or below all: no variance


def autoregressive(count, n, correlation):
    z = np.empty((count, n))
    z[:, 0] = RNG.normal(size=count)
    for i in range(1, n):
        z[:, i] = correlation * z[:, i - 1] + np.sqrt(1 - correlation**2) * RNG.normal(size=count)
    return z


@pytest.mark.parametrize("test", ["kolmogorov-smirnov", "cramer-von-mises", "anderson-darling", "frosini"])
def test_tests_keep_their_level_in_time(test):
    p = ndtr(autoregressive(300, 900, 0.7))
    rejected = np.mean([nc.diagnostics.uniformity_tests(row, [test], time=True)["p_value"][0] < 0.05 for row in p])
    naive = np.mean([nc.diagnostics.uniformity_tests(row, [test])["p_value"][0] < 0.05 for row in p])
    assert naive > 0.25
    # 5% of 300 has a standard deviation of 1.3 points; that the effect is estimated from 30 stretches may cost two more
    assert rejected < 0.05 + 3 * 0.013 + 0.02


def test_groups_and_methods_are_named():
    p = RNG.uniform(size=300)
    table = nc.diagnostics.uniformity_tests(p, ["frosini"], groups=np.arange(300) // 10)
    assert table["method"].tolist() == ["asymptotic, design effect"]
    table = nc.diagnostics.uniformity_tests(p, ["frosini"], time=True, n_cal=100)
    assert table["method"].tolist() == ["asymptotic, two samples, design effect"]
    with pytest.raises(nc.InvalidParameterError, match="give groups or time, got both"):
        nc.diagnostics.uniformity_tests(p, groups=np.arange(300), time=True)


def test_local_calibration_allows_for_it():
    z = autoregressive(1, 2000, 0.95)[0]
    dist, halves = nc.Normal(np.zeros(2000), 1.0), np.arange(2000) < 1000
    naive = nc.diagnostics.local_calibration(dist, z, regions=halves)["p_value"]
    allowed = nc.diagnostics.local_calibration(dist, z, regions=halves, time=True)["p_value"]
    assert (allowed > naive).all()
