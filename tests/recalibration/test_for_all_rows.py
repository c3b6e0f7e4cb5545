"""The conformal predictive system: ranks against naive counts, and the guarantee, exactly and by simulation."""

import numpy as np
import pytest
from scipy.stats import binom

import nearcal as nc

COVERAGES = [0.1, 0.5, 0.8, 0.9, 0.95, 0.99]


def fitted(y):
    """Fit to responses whose normal scores are the responses themselves."""
    return nc.ConformalRecalibrator().fit(nc.Normal(np.zeros(len(y)), 1.0), y)


def identity(m=1):
    return nc.Normal(np.zeros(m), 1.0)


@pytest.mark.parametrize("n", [2, 5, 19, 39, 100])
@pytest.mark.parametrize("ties", [False, True])
def test_coverage_over_all_orders_is_exact(n, ties):
    """Exchangeable points are equally likely to come last: let each of n + 1 be the new one in turn.

    The share covered is the exact coverage given the set of values, so it must reach the nominal one with no allowance;
    without ties it exceeds it by less than 2 / (n + 1), one rank at either end.
    """
    rng = np.random.default_rng(n)
    values = np.round(rng.normal(size=n + 1), 1) if ties else rng.normal(size=n + 1)
    for coverage in COVERAGES:
        covered = 0
        for new in range(n + 1):
            lower, upper = fitted(np.delete(values, new)).recalibrate(identity()).interval(coverage)
            covered += lower[0] <= values[new] <= upper[0]
        assert covered / (n + 1) >= coverage - 1e-12
        assert ties or covered / (n + 1) < coverage + 2 / (n + 1)


def test_one_sided_quantiles_over_all_orders():
    values = np.random.default_rng(3).gumbel(size=20)
    for p in (0.05, 0.3, 0.5, 0.77, 0.95):
        bounds = [fitted(np.delete(values, i)).recalibrate(identity()).quantile_bounds(p) for i in range(20)]
        lower, upper = np.array(bounds)[..., 0].T
        assert (values < lower).mean() <= p + 1e-12
        assert (values <= upper).mean() >= p - 1e-12


def test_coverage_in_simulation():
    """A wrong model, 30 calibration points, 90%.

    Ranks ⌊31 · 0.05⌋ = 1 and ⌈31 · 0.95⌉ = 30 leave 29 of the 31 gaps inside, coverage 29/31 = 0.935. Over 2,000
    independent replications the count is Binomial(2000, 29/31); the bounds hold with probability 1 - 2e-6.
    """
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(2000):
        x = rng.uniform(1.0, 3.0, size=31)
        y = rng.gamma(x, 2.0)
        rc = nc.ConformalRecalibrator().fit(nc.Normal(x[:-1], 1.0), y[:-1])
        lower, upper = rc.recalibrate(nc.Normal(x[-1:], 1.0)).interval(0.9)
        hits += lower[0] <= y[-1] <= upper[0]
    low, high = binom.ppf([1e-6, 1 - 1e-6], 2000, 29 / 31)
    assert low <= hits <= high


def test_order_statistics_and_infinite_ends():
    y = np.random.default_rng(5).normal(size=19)
    out = fitted(y).recalibrate(nc.Normal([0.0, 100.0], 1.0))
    lower, upper = out.quantile_bounds([0.0, 0.04, 0.05, 0.5, 0.52, 0.95, 0.96, 1.0])
    z = np.sort(y)
    np.testing.assert_array_equal(lower[0], [-np.inf, -np.inf, z[0], z[9], z[9], z[18], z[18], np.inf])
    np.testing.assert_array_equal(upper[0], [-np.inf, z[0], z[0], z[9], z[10], z[18], np.inf, np.inf])
    np.testing.assert_allclose(lower[1, 2:7], z[[0, 9, 9, 18, 18]] + 100.0, rtol=1e-15)
    np.testing.assert_array_equal(out.interval(0.95), [[-np.inf] * 2, [np.inf] * 2])


def test_an_unreachable_end_is_the_end_of_the_support():
    out = fitted(np.array([-1.0, 0.0, 1.0])).recalibrate(nc.Gamma(2.0, 1.0))
    lower, upper = out.interval(0.99)
    assert (lower, upper) == (0.0, np.inf)


@pytest.mark.parametrize("ties", [False, True])
def test_the_distribution_lies_inside_the_band(ties):
    rng = np.random.default_rng(6)
    y = np.round(rng.normal(size=60), 1) if ties else rng.normal(size=60)
    out = fitted(y).recalibrate(identity())
    grid = np.concatenate([np.linspace(-6, 6, 1001), y])[np.newaxis]
    lower, upper = out.cdf_bounds(grid)
    np.testing.assert_array_equal(lower[0], [(y < v).sum() / 61 for v in grid[0]])
    np.testing.assert_array_equal(upper[0], [((y <= v).sum() + 1) / 61 for v in grid[0]])
    cdf = out.cdf(grid)
    assert (lower - 1e-12 <= cdf).all()
    assert (cdf <= upper + 1e-12).all()
    assert out.is_continuous == (not ties)


def test_quantiles_lie_between_their_bounds_and_meet_them_at_whole_ranks():
    out = fitted(np.random.default_rng(7).normal(size=99)).recalibrate(identity())
    p = np.linspace(0.001, 0.999, 997)
    lower, upper = out.quantile_bounds(p)
    assert (lower <= out.ppf(p) + 1e-12).all()
    assert (out.ppf(p) <= upper + 1e-12).all()
    whole = np.arange(1, 100) / 100
    lower, upper = out.quantile_bounds(whole)
    np.testing.assert_array_equal(lower, upper)
    np.testing.assert_allclose(out.ppf(whole), lower, rtol=1e-9, atol=1e-12)


def test_the_interval_holds_the_one_between_quantiles():
    out = fitted(np.random.default_rng(8).normal(size=57)).recalibrate(identity(4))
    for coverage in COVERAGES:
        lower, upper = out.interval(coverage)
        assert (lower <= out.ppf(0.5 - coverage / 2)).all()
        assert (out.ppf(0.5 + coverage / 2) <= upper).all()


def test_slices_keep_the_guarantee():
    out = fitted(np.arange(-9.0, 10.0)).recalibrate(nc.Normal([0.0, 10.0, 20.0], 1.0))[1:]
    assert isinstance(out, nc.ConformalDistribution)
    np.testing.assert_array_equal(out.interval(0.9), [[1.0, 11.0], [19.0, 29.0]])


def test_bad_levels_and_scores_are_refused():
    out = fitted(np.array([0.0, 1.0])).recalibrate(identity())
    with pytest.raises(nc.InvalidInputError, match=r"p must be a scalar or have shape \(q,\), got \(1, 1\)"):
        out.quantile_bounds([[0.5]])
    with pytest.raises(nc.InvalidInputError, match="at least two different scores, got 1 rows"):
        fitted(np.array([0.0]))
