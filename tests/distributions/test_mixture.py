"""Mixtures: quantiles that are settled wherever they lie, scores at the ends of atoms."""

import numpy as np
import pytest
from scipy import stats

import nearcal as nc

P = np.array([1e-12, 0.01, 0.3, 0.49, 0.5, 0.51, 0.75, 0.99, 1 - 1e-12])


def test_quantiles_beside_a_singular_density():
    d = nc.Mixture([0.5, 0.5], [nc.Gamma(0.01, 1.0), nc.Normal(0.0, 1.0)])
    np.testing.assert_allclose(d.cdf(d.ppf(P)), P[np.newaxis], rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-65, 1e-20, 1e100])
def test_quantiles_of_components_of_scales_far_apart(scale):
    d = nc.Mixture([0.5, 0.5], [nc.Normal(0.0, scale), nc.Normal(0.0, 1.0)])
    quantiles = d.ppf(P)[0]
    assert (np.diff(quantiles) >= 0).all()
    expected = 0.5 * stats.norm.cdf(quantiles / scale) + 0.5 * stats.norm.cdf(quantiles)
    np.testing.assert_allclose(expected, P, rtol=1e-12)
    for coverage in (0.1, 0.5, 0.9):
        lower, upper = d.interval(coverage)
        assert lower < upper


def test_quantiles_come_to_lie_on_atoms():
    draws, weight = np.array([[0.0, 1.0, 1.0, 2.0]]), 0.3
    d = nc.Mixture([weight, 1 - weight], [nc.Samples(draws, tails="empirical"), nc.Normal(0.5, 1.0)])
    normal = stats.norm(0.5, 1.0)
    for value, count in ((0.0, 1), (1.0, 3), (2.0, 4)):
        own = (draws == value).sum()
        top = weight * count / 4 + (1 - weight) * normal.cdf(value)
        inside = np.linspace(top - weight * own / 4, top, 9)[1:]
        np.testing.assert_array_equal(d.ppf(inside), value)
        below, above = d.ppf([inside[0] - weight * own / 4, top + 1e-6])[0]
        assert below < value < above


def test_mixed_draws_are_the_sample_of_all_draws():
    rng = np.random.default_rng(2)
    parts, weights = [rng.normal(size=(3, 8)), rng.normal(size=(3, 5))], np.array([0.4, 0.6])
    d = nc.Mixture(weights, [nc.Samples(draws, tails="empirical") for draws in parts])
    pooled = nc.Samples(np.hstack(parts), np.repeat(weights / [8, 5], [8, 5]), tails="empirical")
    p = np.linspace(0, 1, 101)
    np.testing.assert_array_equal(d.ppf(p), pooled.ppf(p))
    y = pooled.ppf(np.linspace(0.2, 0.8, 9))
    np.testing.assert_allclose(d.z(y), pooled.z(y), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(d.resolution(), pooled.resolution(), rtol=1e-12)


def test_scores_beyond_the_last_draw_are_finite():
    d = nc.Mixture([0.4, 0.6], [nc.Samples([[0.0, 1.0]], tails="empirical")] * 2)
    np.testing.assert_allclose(d.z([[-9.0, 99.0]]), stats.norm.ppf([[0.25, 0.75]]))  # half a draw from the ends
    assert np.isfinite(d.z(np.array([-1e300, 1e300])[:, np.newaxis][:1])).all()


def test_a_component_of_weight_zero_has_no_say():
    d = nc.Mixture([0.0, 1.0], [nc.Gamma(0.5, 1.0), nc.Normal(0.0, 1.0)])
    np.testing.assert_allclose(d.logpdf(0.0), stats.norm.logpdf(0.0), rtol=1e-14)  # where the Gamma density is infinite
    np.testing.assert_allclose(d.ppf(P)[0], stats.norm.ppf(P), rtol=1e-12, atol=1e-15)
