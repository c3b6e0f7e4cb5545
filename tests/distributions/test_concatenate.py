"""Batches joined one below the other."""

import numpy as np
import pytest
from scipy import stats

import nearcal as nc
from nearcal.distributions._concatenate import concatenate

Y = np.linspace(-2, 3, 5)


def test_every_kind_joins_its_own_rows():
    gamma = nc.Gamma([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 0.5, 2.0, 1.0, 3.0])
    normal = nc.Normal(Y, 2.0)
    mixture = nc.Mixture([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7], [0.4, 0.6], [0.5, 0.5]], [normal, gamma])
    draws = np.arange(15.0).reshape(5, 3) ** 1.5
    samples = nc.Samples(draws)
    weighted = nc.Samples(draws, np.arange(1.0, 16.0).reshape(5, 3), tails="empirical")
    quantiles = nc.Quantiles([0.1, 0.5, 0.9], draws, tails="empirical")
    gumbel = nc.from_scipy(stats.gumbel_r(Y, 2.0))
    for whole in (gamma, normal, mixture, samples, weighted, quantiles, gumbel):
        joined = concatenate([whole[:2], whole[2:3], whole[3:]])
        assert type(joined) is type(whole)
        np.testing.assert_array_equal(joined.cdf(Y), whole.cdf(Y))
        assert concatenate([whole]) is whole


def test_what_does_not_join():
    normal, laplace = nc.Normal([0.0], 1.0), nc.Laplace([0.0], 1.0)
    two, three = (nc.Mixture(np.ones(c), [normal] * c) for c in (2, 3))
    samples = [nc.Samples([[1.0, 2.0]]), nc.Samples([[1.0, 2.0, 3.0]])]
    tails = [nc.Samples([[1.0, 2.0]]), nc.Samples([[1.0, 2.0]], tails="empirical")]
    quantiles = [nc.Quantiles([0.1, level], [[1.0, 2.0]]) for level in (0.8, 0.9)]
    families = [nc.from_scipy(family(0.0)) for family in (stats.gumbel_r, stats.gumbel_l)]
    recalibrated = [nc.GlobalRecalibrator().fit(normal, [1.0]).recalibrate(normal)] * 2
    for parts in ([normal, laplace], [two, three], samples, tails, quantiles, families, recalibrated):
        with pytest.raises(nc.InvalidInputError, match="parts must be batches of one kind"):
            concatenate(parts)
