"""Isotonic recalibration against scipy's and scikit-learn's isotonic regression."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression
from scipy.stats import kstest

import nearcal as nc


def skewed(n, seed):
    """Gamma responses, predicted by Normal distributions that are too wide and centred wrongly."""
    rng = np.random.default_rng(seed)
    location = rng.normal(size=n)
    return nc.Normal(location, 2.0), location + rng.gamma(2.0, 0.7, size=n)


def test_fit_equals_isotonic_regression_of_the_frequencies():
    """The paper's regression, by two other implementations; frequencies increase, so it changes none of them."""
    isotonic = pytest.importorskip("sklearn.isotonic")
    dist, y = skewed(300, 1)
    pit = dist.cdf(y)
    frequency = np.array([((pit < p).sum() + (pit <= p).sum()) / 2 for p in pit]) / len(pit)
    order = np.argsort(pit)
    fitted = isotonic_regression(frequency[order]).x
    np.testing.assert_array_equal(fitted, frequency[order])
    curve = isotonic.IsotonicRegression().fit(pit, frequency)
    out = nc.IsotonicRecalibrator().fit(dist, y).recalibrate(dist)
    np.testing.assert_allclose(out.cdf(y), curve.predict(pit), rtol=1e-10)
    np.testing.assert_allclose(out.cdf(y)[order], fitted, rtol=1e-10)


def test_between_the_points_it_stays_within_a_step():
    dist, y = skewed(300, 2)
    grid = np.linspace(dist.cdf(y).min(), dist.cdf(y).max(), 500)
    pit = np.sort(dist.cdf(y))
    out = nc.IsotonicRecalibrator().fit(dist, y).recalibrate(nc.Normal(0.0, 1.0))
    cdf = out.cdf(nc.Normal(0.0, 1.0).ppf(grid))[0]
    linear = np.interp(grid, pit, (np.arange(300) + 0.5) / 300)
    assert np.abs(cdf - linear).max() < 1 / 300


def test_ties_share_one_frequency():
    y = np.array([-1.0, 0.0, 0.0, 0.0, 2.0])
    out = nc.IsotonicRecalibrator().fit(nc.Normal(np.zeros(5), 1.0), y).recalibrate(nc.Normal(0.0, 1.0))
    assert out.is_continuous
    np.testing.assert_allclose(out.cdf([[-1.0, 0.0, 2.0]]), [[0.1, 0.5, 0.9]], rtol=1e-12)


def test_new_pit_values_are_uniform():
    """Both samples are of size 5,000: the distance of two such empirical distributions exceeds 0.04 with p < 6e-4."""
    rc = nc.IsotonicRecalibrator().fit(*skewed(5000, 3))
    dist, y = skewed(5000, 4)
    assert kstest(dist.cdf(y), "uniform").statistic > 0.2
    assert kstest(rc.recalibrate(dist).cdf(y), "uniform").statistic < 0.04


def test_density_is_the_derivative():
    out = nc.IsotonicRecalibrator().fit(*skewed(40, 5)).recalibrate(nc.Gamma(3.0, 1.0))
    y = out.ppf(np.linspace(0.02, 0.98, 41))
    slope = (out.cdf(y + 1e-7) - out.cdf(y - 1e-7)) / 2e-7
    np.testing.assert_allclose(out.pdf(y), slope, rtol=1e-5)
    np.testing.assert_array_equal(out.pdf(-1.0), 0.0)


def test_one_distinct_score_is_refused():
    with pytest.raises(nc.InvalidInputError, match="at least two different PIT values, got 3 rows"):
        nc.IsotonicRecalibrator().fit(nc.Normal([0.0, 1.0, 2.0], 1.0), [1.0, 2.0, 3.0])
