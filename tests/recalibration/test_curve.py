"""Moments of curves, against sums piece by piece, closed forms, and the powers of heavy tails."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

import nearcal as nc
from nearcal.distributions.interpolation import Interpolated
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.scores_of_rows import CurveOfEachRow, OneLaw

RNG = np.random.default_rng(8)
AFTER, BEFORE = ndtri(np.linspace(0.02, 0.98, 25)), np.sort(RNG.normal(0.2, 1.4, size=25))
BEFORE[10:13] = BEFORE[11]  # an atom


def read(base, after=AFTER, before=BEFORE):
    """Return the base at scores of one curve, once as the law of all rows and once as that of each row."""
    own = Interpolated(after[np.newaxis], np.tile(before, (len(base), 1)), normal_tails=True)
    shared = nc.Recalibrated(base, OneLaw(Curve.shared(after, before), 9))
    return shared, nc.Recalibrated(base, CurveOfEachRow(Curve(own)))


def moments_piece_by_piece(base, cuts, after=AFTER, before=BEFORE):
    """Integrate the quantile function of a one-row base between all knots, the curve's and the base's (``cuts``)."""
    curve = Curve.shared(after, before)
    knots = np.union1d(after, curve.after(np.asarray(cuts, dtype=float)))
    edges = np.concatenate([[-38, -20, -12, -8, -6, -4.5], knots, [4.5, 6, 8, 12, 20, 38]])
    x, w = np.polynomial.legendre.leggauss(40)
    half = np.diff(edges)[:, None] / 2
    t = (edges[:-1, None] + half * (1 + x)).ravel()
    weights = (half * w).ravel() * stats.norm.pdf(t)
    values = base.from_z(curve.before(t)[np.newaxis])[0]
    mean = (weights * values).sum()
    return mean, np.sqrt((weights * (values - mean) ** 2).sum())


LEVELS, VALUES = [0.1, 0.3, 0.5, 0.9], [[0.0, 1.0, 2.0, 5.0]]
DRAWS = RNG.normal(5.0, 1.0, size=(1, 40))
PIECEWISE = {
    "laplace": (nc.Laplace(3.0, 2.0), [0.0]),
    "quantiles": (nc.Quantiles(LEVELS, VALUES), ndtri(LEVELS)),
    "empirical quantiles": (nc.Quantiles(LEVELS, VALUES, tails="empirical"), ndtri(LEVELS)),
    "samples": (nc.Samples(DRAWS), nc.Samples(DRAWS).curve.scores[0]),
}


@pytest.mark.parametrize("name", PIECEWISE)
def test_kinks_of_the_base_cost_nothing(name):
    base, cuts = PIECEWISE[name]
    mean, std = moments_piece_by_piece(base, cuts)
    for out in read(base):
        np.testing.assert_allclose(out.mean(), mean, rtol=1e-9)
        np.testing.assert_allclose(out.std(), std, rtol=1e-9)


@pytest.mark.parametrize("weights", [None, RNG.uniform(size=40)])
def test_atoms_of_the_base_cost_nothing(weights):
    """P(Y <= draw) is P(Z <= its score): the draws get new weights."""
    base = nc.Samples(DRAWS, weights, tails="empirical")
    share = np.full(40, 1 / 40) if weights is None else (weights / weights.sum())[np.argsort(DRAWS[0])]
    below = np.append(Curve.shared(AFTER, BEFORE).after(ndtri(np.cumsum(share)[:-1])), np.inf)
    mass = np.diff(ndtr(below), prepend=0.0)
    draws = np.sort(DRAWS[0])
    mean = mass @ draws
    for out in read(base):
        np.testing.assert_allclose(out.mean(), mean, rtol=1e-12)
        np.testing.assert_allclose(out.std(), np.sqrt(mass @ (draws - mean) ** 2), rtol=1e-12)


@pytest.mark.parametrize("sigma", [1e-8, 1e-3, 0.02, 0.5, 3.0, 8.0])
def test_lognormal_moments(sigma):
    base = nc.LogNormal([0.7], sigma)
    mean, std = moments_piece_by_piece(base, [0.0])
    for out in read(base):
        np.testing.assert_allclose(out.mean(), mean, rtol=1e-10)
        np.testing.assert_allclose(out.std(), std, rtol=1e-7 if sigma < 1e-6 else 1e-9)  # digits of values near 2


@pytest.mark.parametrize("sigma", [15.0, 25.0, 30.0])
def test_lognormal_moments_exist_however_wide(sigma):
    """N(0, s²) as scores: exp(mu + σ s N)."""
    slope = 1.3
    base = nc.LogNormal([-0.75 * (sigma * slope) ** 2], sigma)
    expected = nc.LogNormal(base.mu, sigma * slope)
    for out in read(base, np.array([-1.0, 1.0]), slope * np.array([-1.0, 1.0])):
        np.testing.assert_allclose(np.log(out.mean()), np.log(expected.mean()), rtol=1e-12)
        np.testing.assert_allclose(np.log(out.std()), np.log(expected.std()), rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_moments_exist_up_to_the_very_power(order):
    """Scores N(0, s²) read by Student's t: E |Y|^m exists where m s² < df."""
    df = 5.0
    for factor in (1 - 1e-9, 1 - 1e-3, 1 + 1e-9, 1.1):
        slope = np.sqrt(df / order * factor)
        curve = Curve.shared(np.array([-1.0, 1.0]), np.array([-slope, slope]))
        assert curve.has_moment(nc.StudentT(df, 0.0, 1.0), order)[0] == (factor < 1)
        mixed = nc.Mixture([1e-9, 1.0, 0.0], [nc.StudentT(nu, 0.0, 1.0) for nu in (df, 50.0, 0.1)])
        assert curve.has_moment(mixed, order)[0] == (factor < 1)


def test_tail_powers_of_scipy_families():
    for frozen, expected in (
        (stats.cauchy(), [1.0, 1.0]),
        (stats.pareto(3.0), [np.inf, 3.0]),
        (stats.lognorm(20.0, loc=1.0), [np.inf, np.inf]),
        (stats.gumbel_r(), [np.inf, np.inf]),
        (stats.uniform(), [np.inf, np.inf]),
        (stats.nct(4.0, 0.5), [4.0, 4.0]),
    ):
        np.testing.assert_allclose(nc.from_scipy(frozen)._tail_powers()[0], expected, rtol=0.05)


def test_a_recalibrated_base_keeps_the_power_of_its_tails():
    base = nc.StudentT(6.0, [0.0, 1.0], 1.0)
    once = read(base, np.array([-1.0, 1.0]), np.array([-1.5, 1.5]))[0]
    np.testing.assert_allclose(once._tail_powers(), 6.0 / 1.5**2)
    twice = read(once, np.array([-1.0, 1.0]), np.array([-1.1, 1.1]))[0]
    np.testing.assert_array_equal(np.isposinf(twice.std()), 6.0 / (1.5 * 1.1) ** 2 <= 2)
    step = nc.GlobalRecalibrator().fit(nc.Normal(np.zeros(20), 1.0), np.arange(20.0)).recalibrate(base)
    assert np.isposinf(step._tail_powers()).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e170, 1e300])
@pytest.mark.parametrize("rule", ["step", "interpolated", "predictive", "conservative"])
def test_results_scale_like_responses(scale, rule):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(90, 1)), rng.gamma(2.0, size=90)
    rc = nc.LocalRecalibrator(k=30, quantile_rule=rule).fit(nc.Gamma(np.full(90, 2.0), 1.0), y, x)
    for family in (
        lambda s: nc.Gamma([2.0, 9.0], s),
        lambda s: nc.Normal([s, 0.0], s),
        lambda s: nc.Laplace(0.0, [s, s]),
    ):
        small, usual = rc.recalibrate(family(scale), x[:2]), rc.recalibrate(family(1.0), x[:2])
        np.testing.assert_allclose(small.std() / scale, usual.std(), rtol=1e-10)
        np.testing.assert_allclose(small.mean() / scale, usual.mean(), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(small.summary().std, small.std(), rtol=1e-12)


@pytest.mark.parametrize("rule", ["step", "interpolated", "predictive", "conservative"])
def test_an_observation_far_beyond_the_mean_leaves_numbers(rule):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(90, 1)), rng.gamma(2.0, size=90)
    y[5] = 2e10
    dist = nc.Gamma(np.full(90, 2.0), 1.0)
    out = nc.LocalRecalibrator(k=30, quantile_rule=rule).fit(dist, y, x).recalibrate(dist, x)
    for answer in (out.mean(), out.std(), out.ppf([0.0, 0.5, 0.99, 1.0]), out.cdf(y), out.sample(5, rng=1)):
        assert not np.isnan(answer).any()
    assert not np.isnan(out.z(y)).any()


@pytest.mark.parametrize("ulps", [-1, 0, 1])
def test_scores_that_stand_where_an_atom_of_the_base_ends(ulps):
    """A fifth of the base at each of five values, and all scores where the second ends, give or take an ulp."""
    base = nc.Samples([[1.0, 2.0, 3.0, 4.0, 5.0]], tails="empirical")
    end = ndtri(0.4)
    law = Curve.shared(np.array([-1.0, 1.0]), np.full(2, end + ulps * np.spacing(end)))
    out = nc.Recalibrated(base, OneLaw(law, 10))
    np.testing.assert_array_equal(out.ppf([0.2, 0.5, 0.8]), [[2.0, 2.0, 2.0]])
    assert out.cdf([2.0]) >= 0.8
    assert out.cdf([1.9]) <= 0.2


def test_atoms_of_scores_over_a_base_whose_responses_are_finer_than_its_scores():
    """A base with atoms at its ends, and so steep between that many responses have one score."""
    base = nc.Quantiles([0.1, 0.5, 0.9], [[-1e6, 1e6 - 0.25, 3e6]], tails="empirical")
    rc = nc.LocalRecalibrator(k=6, smoothing="uniform", quantile_rule="predictive")
    z = np.array([-1.0, -0.5, -0.5, -0.5, 0.5, 1.0])
    out = rc.fit(nc.Normal(np.zeros(6), 1.0), z, np.zeros(6)).recalibrate(base, [0.0])
    atom = base.from_z([-0.5])[0]
    below, at = (out.cdf([y])[0] for y in (np.nextafter(atom, -np.inf), atom))
    assert at - below > 0.2
    np.testing.assert_allclose(out.ppf([[below - 1e-6, (below + at) / 2]])[0, 1], atom, rtol=1e-15)
