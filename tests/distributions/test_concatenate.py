"""Batches joined one below the other."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.distributions._concatenate import concatenate

Y = np.linspace(-2, 3, 5)


def test_parametric_families_and_mixtures():
    gamma = nc.Gamma([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 0.5, 2.0, 1.0, 3.0])
    normal = nc.Normal(Y, 2.0)
    mixture = nc.Mixture([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7], [0.4, 0.6], [0.5, 0.5]], [normal, gamma])
    for whole in (gamma, normal, mixture):
        joined = concatenate([whole[:2], whole[2:3], whole[3:]])
        assert type(joined) is type(whole)
        np.testing.assert_array_equal(joined.cdf(Y), whole.cdf(Y))
        assert concatenate([whole]) is whole


def test_what_does_not_join():
    normal, laplace = nc.Normal([0.0], 1.0), nc.Laplace([0.0], 1.0)
    two, three = (nc.Mixture(np.ones(c), [normal] * c) for c in (2, 3))
    for parts in ([normal, laplace], [two, three], [nc.Samples([[1.0, 2.0]])] * 2):
        with pytest.raises(nc.InvalidInputError, match="parts must be batches of one parametric family"):
            concatenate(parts)
