"""PIT values, coverage, and distances from uniform."""

import numpy as np
import pytest
from scipy import stats

import nearcal as nc

D = nc.diagnostics


def test_continuous_pit_is_the_cdf():
    dist = nc.Gamma([2.0, 3.0], 1.0)
    np.testing.assert_array_equal(D.pit(dist, [1.0, 2.0]), dist.cdf([1.0, 2.0]))


def test_cdf_left_stops_before_atoms():
    draws = nc.Samples([[1.0, 2.0, 2.0, 4.0]] * 3, tails="empirical")
    np.testing.assert_allclose(draws.cdf_left([1.0, 2.0, 3.0]), [0.0, 0.25, 0.75], atol=1e-15)
    np.testing.assert_allclose(draws.cdf([1.0, 2.0, 3.0]), [0.25, 0.75, 0.75])
    mixture = nc.Mixture([0.5, 0.5], [draws, nc.Normal([0.0] * 3, 1.0)])
    np.testing.assert_allclose(mixture.cdf_left(2.0), 0.125 + 0.5 * stats.norm.cdf(2.0), rtol=1e-12)
    atom = nc.Quantiles([0.2, 0.4, 0.6], [[0.0, 1.0, 1.0]])
    np.testing.assert_allclose([atom.cdf_left(1.0)[0], atom.cdf(1.0)[0]], [0.4, 0.6], rtol=1e-9)
    assert nc.Normal(0.0, 1.0).cdf_left(0.0) == 0.5


def test_pit_is_randomised_over_an_atom():
    atom = nc.Quantiles([0.2, 0.4, 0.6], [[0.0, 1.0, 1.0]] * 5000)
    values = D.pit(atom, np.ones(5000), rng=1)
    assert stats.kstest(values, "uniform", args=(0.4, 0.2)).pvalue > 0.01
    np.testing.assert_array_equal(values, D.pit(atom, np.ones(5000), rng=1))


@pytest.mark.parametrize("s", [1, 5, 20])
def test_pit_among_few_draws_is_uniform(s):
    # draws and response from one distribution: F(y) alone would be 0 or 1 in a share 2 / (s + 1) of cases
    rng = np.random.default_rng(2)
    draws, y = rng.normal(size=(3000, s)), rng.normal(size=3000)
    values = D.pit(nc.Samples(draws, tails="empirical"), y, rng=3)
    assert D.uniformity_tests(values)["p_value"].min() > 0.01


def test_pit_of_rows_left_to_the_base():
    x = np.array([0.0] * 40)
    rc = nc.LocalRecalibrator(radius=nc.Radius(1.0, thin="base")).fit(nc.Normal(x, 1.0), np.linspace(-2, 2, 40), x)
    out = rc.recalibrate(nc.Normal([0.0, 0.0], 1.0), [0.0, 100.0])
    assert D.pit(out, [0.5, 0.5], rng=1)[1] == pytest.approx(stats.norm.cdf(0.5), rel=1e-12)


def test_coverage_of_the_right_model_is_nominal():
    y = np.random.default_rng(4).normal(size=4000)
    table = D.coverage(nc.Normal(np.zeros(4000), 1.0), y)
    assert np.all(np.abs(table["coverage"] - table["level"]) < 3.3 * table["se"])
    np.testing.assert_allclose(table["width"], 2 * stats.norm.ppf(0.5 + table["level"] / 2))
    with pytest.raises(nc.InvalidInputError, match="levels must be numbers strictly between 0 and 1"):
        D.coverage(nc.Normal(0.0, 1.0), [0.0], [1.0])


def test_distances_by_numerical_integration():
    p = np.random.default_rng(5).beta(2, 1, size=30)
    u = (np.arange(200_000) + 0.5) / 200_000
    gap = np.searchsorted(np.sort(p), u, side="right") / 30 - u
    assert D.wasserstein(p) == pytest.approx(np.abs(gap).mean(), abs=1e-5)
    assert D.cramer_von_mises(p) == pytest.approx((gap**2).mean(), abs=1e-5)
    levels = np.arange(1, 100) / 100
    assert D.pce(p) == pytest.approx(np.mean([abs(np.mean(p <= t) - t) for t in levels]), rel=1e-12)


@pytest.mark.parametrize("n", [1, 10, 137])
def test_floors_are_the_means_under_uniformity(n):
    rng = np.random.default_rng(6)
    tables = [D.pit_distances(rng.uniform(size=n)) for _ in range(2000)]
    values = np.array([table["value"] for table in tables])
    error = values.std(axis=0) / np.sqrt(len(values))
    assert np.all(np.abs(values.mean(axis=0) - tables[0]["floor"]) < 4 * error + 1e-5)
    assert D.pce_floor(n) == tables[0]["floor"][2]
