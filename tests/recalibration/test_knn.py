"""Nearest-neighbour regression against scikit-learn and against the naive versions."""

import warnings

import numpy as np
import pytest

import nearcal as nc
from nearcal.recalibration import QUANTILE_RULES
from tests.reference import kernel_weights, nearest, weighted_moments, weighted_quantile

RNG = np.random.default_rng(1)
SPACE = RNG.normal(size=(300, 3))
Y = np.exp(SPACE[:, 0]) + RNG.standard_t(4, size=300)
NEW = RNG.normal(size=(20, 3))
LEVELS = np.array([0.05, 0.3, 0.5, 0.95])


@pytest.mark.parametrize("smoothing", ["epanechnikov", "uniform", "gaussian"])
def test_mean_equals_scikit_learn(smoothing):
    neighbors = pytest.importorskip("sklearn.neighbors")
    twin = neighbors.KNeighborsRegressor(
        25, weights=lambda d: np.array([kernel_weights(row, row.max(), smoothing) for row in d])
    ).fit(SPACE, Y)
    out = nc.KNNRegressor(k=25, smoothing=smoothing).fit(None, Y, SPACE).recalibrate(None, NEW)
    np.testing.assert_allclose(out.mean(), twin.predict(NEW), rtol=1e-12)


def test_distribution_equals_the_naive_weighted_sample():
    out = nc.KNNRegressor(k=25).fit(None, Y, SPACE).recalibrate(None, NEW)
    moments, quantiles, cdf = np.array([out.mean(), out.var()]).T, out.ppf(LEVELS), out.cdf(0.7)
    for row, query in enumerate(NEW):
        index, distance = nearest(SPACE, query, 25)
        weights = kernel_weights(distance, distance.max(), "epanechnikov")
        np.testing.assert_allclose(moments[row], weighted_moments(Y[index], weights), rtol=1e-12)
        # quantiles are responses, to the last digit
        assert quantiles[row].tolist() == [weighted_quantile(Y[index], weights, p) for p in LEVELS]
        np.testing.assert_allclose(cdf[row], weights[Y[index] <= 0.7].sum(), rtol=1e-12, atol=1e-15)
        sample = out.weighted_sample(row)
        np.testing.assert_array_equal(np.sort(sample.values[0]), np.sort(Y[index]))


def test_radius_takes_all_within():
    out = nc.KNNRegressor(radius=nc.Radius(1.2, 1, "raise")).fit(None, Y, SPACE).recalibrate(None, SPACE[:5])
    for row in range(5):
        distance = np.linalg.norm(SPACE - SPACE[row], axis=1)
        inside = distance <= 1.2
        weights = kernel_weights(distance[inside], 1.2, "epanechnikov")
        np.testing.assert_allclose(out.mean()[row], (weights * Y[inside]).sum(), rtol=1e-12)


def test_distributions_are_ignored():
    dist = nc.Gamma(np.full(300, 3.0), 1.0)
    plain = nc.KNNRegressor(k=10).fit(None, Y, SPACE).recalibrate(None, NEW)
    given = nc.KNNRegressor(k=10).fit(dist, Y, SPACE).recalibrate(dist[:20], NEW)
    np.testing.assert_array_equal(plain.ppf(LEVELS), given.ppf(LEVELS))


@pytest.mark.parametrize("rule", QUANTILE_RULES)
def test_units_of_the_response_do_not_matter(rule):
    """Powers of two change no digit, down to densities and tails; one row has agreeing neighbours only."""
    y = np.where(SPACE[:, 0] > 1, 3.0, Y)
    space_new = np.concatenate([NEW, [[9.0, 0.0, 0.0]]])
    small, large = (
        nc.KNNRegressor(k=8, quantile_rule=rule).fit(None, unit * y, SPACE).recalibrate(None, space_new)
        for unit in (1.0, 2.0**20)
    )
    np.testing.assert_array_equal(large.ppf(LEVELS), 2.0**20 * small.ppf(LEVELS))
    np.testing.assert_array_equal(large.var(), 2.0**40 * small.var())
    np.testing.assert_array_equal(large.cdf(2.0**20), small.cdf(1.0))
    if small.has_density:
        np.testing.assert_allclose(large.pdf(2.0**20), small.pdf(1.0) / 2.0**20, rtol=1e-12)


def test_equal_responses_are_predicted_as_such():
    out = nc.KNNRegressor(k=5).fit(None, np.full(300, 7.0), SPACE).recalibrate(None, NEW)
    np.testing.assert_array_equal(out.ppf(0.3), 7.0)
    np.testing.assert_allclose(out.var(), 0.0, atol=1e-25)


def test_there_is_no_base_to_fall_back_on():
    with pytest.raises(nc.InvalidParameterError, match="has no base distribution, got 'base'"):
        nc.KNNRegressor(radius=nc.Radius(1.0, thin="base")).fit(None, Y, SPACE)
    with pytest.raises(nc.NotFittedError, match="KNNRegressor is not fitted"):
        nc.KNNRegressor(k=3).recalibrate(None, NEW)
    with pytest.raises(nc.InvalidInputError, match=r"y_cal must have shape \(300,\)"):
        nc.KNNRegressor(k=3).fit(None, Y[:-1], SPACE)


@pytest.mark.parametrize("values", [(1e300, -1e300), (1e155, 1e155), (-1e300, -1e300), (0.0, 1e300)])
def test_responses_of_any_size(values):
    """There is no prediction whose scale or scores could be blamed for them."""
    y, x = np.repeat(values, 20), np.arange(40.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nc.TiesWarning)
        out = nc.KNNRegressor(k=10).fit(None, y, x).recalibrate(None, [0.0, 39.0])
    np.testing.assert_array_equal(out.ppf([0.1, 0.9]), np.repeat(np.reshape(values, (2, 1)), 2, axis=1))
    np.testing.assert_allclose(out.mean(), values, rtol=1e-12)
