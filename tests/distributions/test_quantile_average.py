"""Averages of quantiles, against their definition."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

import nearcal as nc
from nearcal.distributions import AVERAGED_SCORES, concatenate

LOC, SCALE = np.array([0.0, 5.0, -3.0]), np.array([1.0, 0.1, 30.0])


def test_normal_distributions_average_to_normal_ones():
    average = nc.QuantileAverage([0.25, 0.75], [nc.Normal(LOC, SCALE), nc.Normal(-LOC, 2.0)])
    expected = nc.Normal(-0.5 * LOC, 0.25 * SCALE + 1.5)
    y = expected.ppf([1e-9, 0.1, 0.5, 0.77, 1 - 1e-9])
    np.testing.assert_allclose(average.z(y), expected.z(y), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(average.mean(), expected.mean(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(average.std(), expected.std(), rtol=1e-10)


def test_quantiles_are_averages_at_the_levels_of_the_knots():
    weights = np.array([[0.5, 0.5], [0.9, 0.1], [1.0, 0.0]])
    average = nc.QuantileAverage(weights, [nc.Gamma([2.0, 3.0, 4.0], 1.0), nc.Laplace([9.0, 5.0, 1.0], 2.0)])
    gamma, laplace = stats.gamma([[2.0], [3.0], [4.0]]), stats.laplace([[9.0], [5.0], [1.0]], 2.0)
    p = ndtr(AVERAGED_SCORES)
    expected = weights[:, :1] * gamma.ppf(p) + weights[:, 1:] * laplace.ppf(p)
    np.testing.assert_allclose(average.from_z(AVERAGED_SCORES[np.newaxis]), expected, rtol=1e-8)


def test_what_has_no_weight_may_be_infinite():
    huge = nc.LogNormal([700.0, 0.0], 30.0)
    average = nc.QuantileAverage([[0.0, 1.0], [0.0, 1.0]], [huge, nc.Normal([1.0, 2.0], 1.0)])
    np.testing.assert_allclose(average.mean(), [1.0, 2.0], rtol=1e-12)


def test_rows_and_batches():
    parts = [nc.Normal(LOC, SCALE), nc.Gamma([2.0, 3.0, 4.0], 1.0)]
    average = nc.QuantileAverage([[0.2, 0.8], [0.5, 0.5], [0.6, 0.4]], parts)
    some = average[[2, 0]]
    assert [len(part) for part in some.components] == [2, 2]
    np.testing.assert_array_equal(some.ppf([0.1, 0.7]), average.ppf([0.1, 0.7])[[2, 0]])
    alone = nc.QuantileAverage(average.weights[1:2], [part[1] for part in parts])
    np.testing.assert_array_equal(alone.values, average.values[1:2])
    joined = concatenate([average[:2], average[2:]])
    assert isinstance(joined, nc.QuantileAverage)
    np.testing.assert_array_equal(joined.values, average.values)


@pytest.mark.parametrize(
    ("weights", "components", "message"),
    [
        ([1.0], [], "components must be a non-empty sequence"),
        ([1.0], nc.Normal(0.0, 1.0), "components must be a non-empty sequence"),
        ([1.0, 1.0], [nc.Normal(0.0, 1.0), nc.Normal([0.0, 1.0], 1.0)], r"the same number of rows, got \[1, 2\]"),
        ([1.0, -1.0], [nc.Normal(0.0, 1.0)] * 2, "weights must be >= 0"),
        ([1.0, 1.0, 1.0], [nc.Normal(0.0, 1.0)] * 2, r"weights must have shape \(2,\)"),
        ([1.0, 1.0], [nc.LogNormal(700.0, 30.0)] * 2, "values must be finite"),
    ],
)
def test_mistakes(weights, components, message):
    with pytest.raises(nc.InvalidInputError, match=message):
        nc.QuantileAverage(weights, components)
