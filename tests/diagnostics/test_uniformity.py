"""Uniformity tests: statistics, null distributions, size and power."""

import numpy as np
import pytest
from scipy import stats

import nearcal as nc
from nearcal.diagnostics.uniformity import (
    UNIFORMITY_TESTS,
    anderson_darling_sf,
    cramer_von_mises_sf,
    frosini_sf,
    run_test,
)

TESTS = list(UNIFORMITY_TESTS)


def test_statistics_by_their_definitions():
    p = np.random.default_rng(1).uniform(size=50)
    u, i, n = np.sort(p), np.arange(1, 51), 50
    expected = [
        max((i / n - u).max(), (u - (i - 1) / n).max()),
        1 / (12 * n) + ((u - (i - 0.5) / n) ** 2).sum(),
        -n - ((2 * i - 1) * (np.log(u) + np.log(1 - u[::-1]))).sum() / n,
        np.abs(u - (i - 0.5) / n).sum() / np.sqrt(n),
    ]
    table = nc.diagnostics.uniformity_tests(p)
    np.testing.assert_allclose(table["statistic"], expected, rtol=1e-12)
    assert table["p_value"][0] == pytest.approx(stats.kstest(p, "uniform").pvalue, rel=1e-9)
    assert table["p_value"][1] == pytest.approx(stats.cramervonmises(p, "uniform").pvalue, rel=1e-9)
    assert table["method"][0] == "exact"


def test_anderson_darling_critical_values():
    # P. A. W. Lewis (1961), Ann. Math. Stat. 32: limiting points 1.9330, 2.4924 and 3.8781
    found = [anderson_darling_sf(x) for x in (1.9330, 2.4924, 3.8781)]
    np.testing.assert_allclose(found, [0.1, 0.05, 0.01], rtol=2e-3)
    assert anderson_darling_sf(np.inf) == 0.0
    assert anderson_darling_sf(0.01) == 1.0
    # far out the largest eigenvalue ½ rules: sf ~ c e^(-x) / √x
    assert np.log(anderson_darling_sf(60.0) / anderson_darling_sf(61.0)) == pytest.approx(1.0, abs=0.02)


def test_frosini_null_distribution_against_simulation():
    # 20,000 Brownian bridges as uniform samples of n = 400; three binomial standard errors at each quantile, plus
    # 0.3/√n · density for the finite n
    rng = np.random.default_rng(2)
    n, replications = 400, 20_000
    middle = (np.arange(n) + 0.5) / n
    statistics = np.concatenate(
        [np.abs(np.sort(rng.uniform(size=(2000, n)), axis=1) - middle).sum(axis=1) / np.sqrt(n) for _ in range(10)]
    )
    for level in (0.5, 0.9, 0.95, 0.99):
        bound = 3 * np.sqrt(level * (1 - level) / replications) + 0.002
        assert frosini_sf(np.quantile(statistics, level)) == pytest.approx(1 - level, abs=bound)


def test_frosini_mean_and_far_tail():
    # E ∫ |bridge| = √(2/π) π/8, by integrating the survival function
    b = np.linspace(0.0, 3.0, 3001)
    mean = np.trapezoid([frosini_sf(x) for x in b], b)
    assert mean == pytest.approx(np.sqrt(2 / np.pi) * np.pi / 8, rel=1e-6)
    assert 0 < frosini_sf(5.0) < 1e-60
    assert np.all(np.diff([frosini_sf(x) for x in np.linspace(0.05, 4, 100)]) <= 0)


@pytest.mark.parametrize("name", TESTS)
def test_power_against_shift_and_dispersion(name):
    rng = np.random.default_rng(3)
    z = rng.normal(size=(100, 200))
    shifted, spread = stats.norm.cdf(z + 0.4), stats.norm.cdf(1.5 * z)
    assert np.mean([run_test(name, np.sort(row)).p_value < 0.05 for row in shifted]) > 0.95
    assert np.mean([run_test(name, np.sort(row)).p_value < 0.05 for row in spread]) > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 300])
@pytest.mark.parametrize("name", TESTS)
def test_size_under_the_null(name, n):
    rng = np.random.default_rng(4)
    rejected = [run_test(name, np.sort(rng.uniform(size=n))).p_value < 0.05 for _ in range(2000)]
    # central 99.9% range of a binomial(2000, 0.05) count
    low, high = stats.binom.interval(0.999, 2000, 0.05)
    assert low <= np.sum(rejected) <= high


def ranks_among(cal, new, rng):
    """Return PIT values after global recalibration on cal: new ranked among cal and itself, ties broken at random."""
    return np.sort((np.searchsorted(np.sort(cal), new) + rng.uniform(size=len(new))) / (len(cal) + 1))


def test_ranks_are_what_global_recalibration_gives():
    rng = np.random.default_rng(5)
    cal, new = rng.normal(size=30), rng.normal(size=20)
    out = nc.GlobalRecalibrator().fit(nc.Normal(np.zeros(30), 1.0), cal).recalibrate(nc.Normal(np.zeros(20), 1.0))
    low, high = np.searchsorted(np.sort(cal), new) / 31, (np.searchsorted(np.sort(cal), new) + 1) / 31
    p = nc.diagnostics.pit(out, new, rng=1)
    assert ((low - 1e-9 <= p) & (p <= high + 1e-9)).all()


@pytest.mark.parametrize("name", TESTS)
def test_calibration_sample_is_allowed_for(name):
    rng = np.random.default_rng(6)
    samples = [ranks_among(rng.uniform(size=300), rng.uniform(size=300), rng) for _ in range(600)]
    naive = np.mean([run_test(name, p).p_value < 0.05 for p in samples])
    honest = np.mean([run_test(name, p, 0.5).p_value < 0.05 for p in samples])
    assert naive > 0.12
    # three and a half binomial standard errors; the statistics move in steps of 1/300, which makes them a bit cautious
    assert 0.02 < honest < 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / 600)


def test_n_cal_shrinks_what_the_sample_is_worth():
    p = np.random.default_rng(7).uniform(size=90) ** 1.3
    table = nc.diagnostics.uniformity_tests(p, n_cal=30)  # worth 90 · 30 / 120 = 22.5, so a quarter
    plain = nc.diagnostics.uniformity_tests(p)
    np.testing.assert_array_equal(table["statistic"], plain["statistic"])
    assert (table["p_value"] > plain["p_value"]).all()
    statistic = dict(zip(plain["test"], plain["statistic"], strict=True))
    expected = [
        stats.kstwo.sf(statistic["kolmogorov-smirnov"], 22),
        cramer_von_mises_sf(statistic["cramer-von-mises"] / 4),
        anderson_darling_sf(statistic["anderson-darling"] / 4),
        frosini_sf(statistic["frosini"] / 2),
    ]
    np.testing.assert_allclose(table["p_value"], expected, rtol=1e-12)
    assert set(table["method"]) == {"asymptotic, two samples"}
    with pytest.raises(nc.InvalidParameterError, match="n_cal must be a whole number >= 1, got 0"):
        nc.diagnostics.uniformity_tests(p, n_cal=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTS)
def test_size_after_local_recalibration(name):
    rejected = []
    for seed in range(500):
        rng = np.random.default_rng(seed)
        (x_cal, x), (y_cal, y) = rng.uniform(size=(2, 400)), rng.normal(size=(2, 400))
        right = nc.Normal(np.zeros(400), 1.0)
        out = nc.LocalRecalibrator(k=50).fit(right, y_cal, x_cal).recalibrate(right, x)
        p = nc.diagnostics.pit(out, y, rng=seed)
        near = np.sort(p[x < 0.25])  # the region's share of the calibration set is its share of the rows
        rejected.append([run_test(name, np.sort(p), 0.5).p_value < 0.05, run_test(name, near, 0.5).p_value < 0.05])
    overall, region = np.mean(rejected, axis=0)
    bound = 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / 500)
    assert overall < bound
    assert region < bound


def test_extremes_and_bad_values():
    certain = nc.diagnostics.uniformity_tests([0.0, 0.5, 1.0], ["anderson-darling"])
    assert np.isinf(certain["statistic"][0])
    assert certain["p_value"][0] == 0.0
    assert len(nc.diagnostics.uniformity_tests([0.3])) == 4
    with pytest.raises(nc.InvalidInputError, match=r"p must hold PIT values in \[0, 1\], got"):
        nc.diagnostics.uniformity_tests([0.5, 1.5])
    with pytest.raises(nc.InvalidParameterError, match="tests must be one of"):
        nc.diagnostics.uniformity_tests([0.5], ["watson"])
