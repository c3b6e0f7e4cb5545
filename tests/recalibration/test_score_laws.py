"""Score maps against plain interpolation, and their quadrature against brute force, piece by piece."""

import numpy as np
import pytest
from nearcal.recalibration._score_map import ScoreMap
from scipy.special import ndtri
from scipy.stats import norm

import nearcal as nc

RNG = np.random.default_rng(5)
KNOTS = 30
AFTER = ndtri((np.arange(KNOTS) + 0.5) / KNOTS)
BEFORE = np.sort(RNG.normal(0.3, 1.3, size=KNOTS))
MAP = ScoreMap(AFTER, BEFORE)

SMOOTH = {
    "normal": nc.Normal(3.0, 2.0),
    "laplace": nc.Laplace(1.0, 2.0),
    "lognormals": nc.LogNormal([0.0, 1.0], [0.5, 0.7]),
    "gammas": nc.Gamma([0.3, 2.0, 50.0], [1.0, 3.0, 0.1]),
    "students": nc.StudentT([8.0, 30.0], 0.0, 1.0),
    "mixture": nc.Mixture([0.5, 0.5], [nc.Normal(-1.0, 0.5), nc.Normal(1.0, 0.5)]),
}
# the quantile function of the mixture is steep between its modes; the far tails of t are cut at scores of 10
TOLERANCE = {"mixture": 1e-7, "students": 1e-8}
KINKED = {
    "samples": nc.Samples(RNG.normal(5.0, 1.0, size=(2, 40))),
    "quantiles": nc.Quantiles([0.1, 0.3, 0.5, 0.9], [[0.0, 1.0, 2.0, 5.0]]),
    "separate mixture": nc.Mixture([0.3, 0.7], [nc.Normal(-3.0, 0.5), nc.Normal(3.0, 0.5)]),
}


def expectation(base, score_map, g):
    """E g(Y) of a one-row base by brute force: every piece of the map cut in 25, 20 Gauss-Legendre nodes in each."""
    edges = np.concatenate([[-10, -7, -5, -3.5], score_map.after_knots, [3.5, 5, 7, 10]])
    edges = np.interp(np.arange(0, len(edges) - 1 + 1e-9, 1 / 25), np.arange(len(edges)), edges)
    x, w = np.polynomial.legendre.leggauss(20)
    half = np.diff(edges)[:, None] / 2
    s = edges[:-1, None] + half * (1 + x)
    values = g(base._from_z(score_map.before(s.reshape(1, -1))))
    return (values * (half * w * norm.pdf(s)).ravel()).sum()


def test_inner_map_is_linear_interpolation():
    z = np.linspace(BEFORE[0], BEFORE[-1], 301).reshape(7, 43)
    np.testing.assert_allclose(MAP.after(z), np.interp(z, BEFORE, AFTER), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(MAP.before(MAP.after(z)), z, rtol=1e-12, atol=1e-14)


def test_tails_go_on_straight_with_finite_scores():
    z = np.array([BEFORE[0] - 30, BEFORE[0] - 20, BEFORE[0] - 10])
    after = MAP.after(z)
    assert np.isfinite(after).all()
    np.testing.assert_allclose(np.diff(after, 2), 0.0, atol=1e-12)
    np.testing.assert_allclose(MAP.before(after), z, rtol=1e-12)
    np.testing.assert_array_equal(MAP.after(np.array([-np.inf, np.inf])), [-np.inf, np.inf])


@pytest.mark.parametrize("name", SMOOTH)
def test_moments_of_smooth_families_are_exact(name):
    out = nc.MappedDistribution(SMOOTH[name], MAP)
    for row, base in enumerate(SMOOTH[name][[i]] for i in range(len(SMOOTH[name]))):
        mean = expectation(base, MAP, lambda y: y)
        var = expectation(base, MAP, lambda y, mean=mean: (y - mean) ** 2)
        # the mean of a symmetric row may vanish: errors are measured against the spread
        np.testing.assert_allclose(out.mean()[row], mean, rtol=1e-10, atol=TOLERANCE.get(name, 1e-10) * np.sqrt(var))
        np.testing.assert_allclose(out.var()[row], var, rtol=TOLERANCE.get(name, 1e-10))


@pytest.mark.parametrize("name", KINKED)
def test_moments_of_kinked_quantile_functions_are_close(name):
    out = nc.MappedDistribution(KINKED[name], MAP)
    base = KINKED[name][[0]]
    mean = expectation(base, MAP, lambda y: y)
    var = expectation(base, MAP, lambda y: (y - mean) ** 2)
    np.testing.assert_allclose(out.mean()[0], mean, rtol=0, atol=2e-3 * np.sqrt(var))
    np.testing.assert_allclose(out.var()[0], var, rtol=2e-3)


def test_identity_map_leaves_every_moment():
    identity = ScoreMap(np.array([-1.0, 1.0]), np.array([-1.0, 1.0]))
    for base in SMOOTH.values():
        out = nc.MappedDistribution(base, identity)
        np.testing.assert_allclose(out.mean(), base.mean(), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(out.var(), base.var(), rtol=1e-10)
        np.testing.assert_allclose(out.ppf([0.01, 0.5, 0.9]), base.ppf([0.01, 0.5, 0.9]), rtol=1e-12)


def test_atoms_keep_their_mass():
    """Half of the probability on one score: the mean is found by hand."""
    after, before = ndtri([0.2, 0.25, 0.75, 0.8]), np.array([-1.0, 0.0, 0.0, 1.0])
    out = nc.MappedDistribution(nc.Normal(7.0, 1.0), ScoreMap(after, before))
    assert not out.is_continuous
    np.testing.assert_allclose(out.cdf(7.0) - out.cdf(7.0 - 1e-12), 0.5, atol=1e-9)
    np.testing.assert_allclose(out.mean(), 7.0, rtol=1e-12)
    np.testing.assert_allclose(out.var(), expectation(out.base, out.score_map, lambda y: (y - 7.0) ** 2), rtol=1e-9)


def test_moments_do_not_depend_on_the_rows_beside(monkeypatch):
    base = nc.Gamma(np.linspace(0.5, 5.0, 40), 2.0)
    whole = nc.MappedDistribution(base, MAP)
    monkeypatch.setattr("nearcal.recalibration._mapped._QUANTILES_AT_ONCE", 1500)
    chunked = nc.MappedDistribution(base, MAP)
    np.testing.assert_array_equal(whole.mean(), chunked.mean())
    np.testing.assert_array_equal(whole.var(), chunked.var())


def test_no_moment_where_the_base_has_none():
    out = nc.MappedDistribution(nc.StudentT([1.0, 1.5, 5.0], 0.0, 1.0), MAP)
    assert np.isnan(out.mean()).tolist() == [True, False, False]
    assert np.isfinite(out.var()).tolist() == [False, False, True]
