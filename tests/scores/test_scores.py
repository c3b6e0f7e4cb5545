"""Log score, squared error, pinball, interval scores and divergences."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import nearcal as nc

RNG = np.random.default_rng(2)
Y = RNG.normal(size=40)
DIST = nc.Normal(RNG.normal(size=40), RNG.uniform(0.5, 2.0, size=40))


def test_log_score_and_squared_error(scoringrules):
    np.testing.assert_allclose(
        nc.scores.log_score(DIST, Y), scoringrules.logs_normal(Y, DIST.loc, DIST.scale), rtol=1e-12
    )
    np.testing.assert_allclose(nc.scores.squared_error(DIST, Y[:, np.newaxis]), (Y - DIST.loc) ** 2)
    assert nc.scores.log_score(nc.Gamma(2.0, 1.0), [-1.0]) == np.inf


def test_crps_is_twice_the_mean_pinball_loss():
    # midpoint rule over levels; the loss is bounded by |q - y| p (1 - p), so 1e5 levels give about 1e-4
    p = (np.arange(20_000) + 0.5) / 20_000
    np.testing.assert_allclose(2 * nc.scores.pinball(DIST, Y, p).mean(axis=1), nc.scores.crps(DIST, Y), rtol=1e-4)
    np.testing.assert_array_equal(nc.scores.pinball(DIST, Y, 0.3), nc.scores.pinball(DIST, Y, [0.3])[:, 0])


def test_interval_score(scoringrules):
    lower, upper = DIST.interval(0.8)
    expected = scoringrules.interval_score(Y, lower, upper, 0.2)
    np.testing.assert_allclose(nc.scores.interval_score(DIST, Y, 0.8), expected, rtol=1e-12)
    pinballs = nc.scores.pinball(DIST, Y, [0.1, 0.9]).sum(axis=1) * 2 / 0.2
    np.testing.assert_allclose(nc.scores.interval_score(DIST, Y, 0.8), pinballs, rtol=1e-12)


def test_smis_is_standardised_by_the_calibration_responses():
    y_cal = np.array([[2.0], [-4.0]])
    np.testing.assert_allclose(nc.scores.smis(DIST, Y, y_cal), nc.scores.interval_score(DIST, Y) / 3.0, rtol=1e-14)
    with pytest.raises(nc.InvalidInputError, match="y_cal must not be all zeros"):
        nc.scores.smis(DIST, Y, [0.0])
    with pytest.raises(nc.InvalidInputError, match=r"y_cal must have shape \(m,\)"):
        nc.scores.smis(DIST, Y, np.ones((2, 2)))


@pytest.mark.parametrize("reverse", [False, True])
def test_kl_between_normals(reverse):
    true, dist = nc.Normal([0.0, 1.0, 5.0], [1.0, 2.0, 0.1]), nc.Normal([1.0, 1.0, 5.1], [1.0, 3.0, 0.3])
    p, q = (dist, true) if reverse else (true, dist)
    expected = np.log(q.scale / p.scale) + (p.scale**2 + (p.loc - q.loc) ** 2) / (2 * q.scale**2) - 0.5
    np.testing.assert_allclose(nc.scores.kl_divergence(true, dist, reverse=reverse), expected, rtol=1e-10)


def test_kl_between_gammas():
    from scipy.special import digamma, gammaln

    # closed form: (a - b) ψ(a) - log Γ(a) + log Γ(b) + b (log t - log s) + a (s - t) / t, for scales s and t
    a, s, b, t = 3.0, 2.0, 4.0, 1.5
    expected = (a - b) * digamma(a) - gammaln(a) + gammaln(b) + b * (np.log(t) - np.log(s)) + a * (s - t) / t
    np.testing.assert_allclose(nc.scores.kl_divergence(nc.Gamma(a, s), nc.Gamma(b, t)), expected, rtol=1e-10)


def test_kl_at_its_limits():
    uniform = nc.Quantiles([0.4, 0.6], [[-1.0, 1.0]], tails="empirical")
    assert nc.scores.kl_divergence(nc.Normal(0.0, 1.0), uniform) == np.inf
    far = nc.scores.kl_divergence(nc.Normal(0.0, 1.0), nc.Normal(100.0, 1.0), reverse=True)
    np.testing.assert_allclose(far, 5000.0, rtol=1e-12)  # the one that weighs may lie anywhere
    with pytest.raises(nc.InvalidInputError, match="dist must be continuous for reverse=True"):
        nc.scores.kl_divergence(nc.Normal(0.0, 1.0), uniform, reverse=True)
    with pytest.raises(nc.InvalidInputError, match="true must be a continuous distribution with the 40 rows"):
        nc.scores.kl_divergence(nc.Normal(0.0, 1.0), DIST)


@pytest.mark.parametrize("size", [5, 10, 60, 300])
@pytest.mark.parametrize("reverse", [False, True])
def test_kl_of_a_density_with_steps_by_adaptive_quadrature(size, reverse):
    draws = np.random.default_rng(7).normal(size=(1, size))
    rough, true = nc.Samples(draws, tails="normal"), nc.Normal(0.3, 1.2)
    f, g = (rough, true) if reverse else (true, rough)

    def integrand(y):
        log_f = f.logpdf(np.array([y]))[0]
        return np.exp(log_f) * (log_f - g.logpdf(np.array([y]))[0])

    knots = np.unique(rough.curve.values)
    edges = np.concatenate([[knots[0] - 15.0], knots, [knots[-1] + 15.0]])
    expected = sum(quad(integrand, low, high, limit=200)[0] for low, high in itertools.pairwise(edges))
    # where the ratio jumps the rule was off by some 1/64 of the jump times φ, now by a thousandth of that, but for
    # knots in the same cell
    np.testing.assert_allclose(nc.scores.kl_divergence(true, rough, reverse=reverse), expected, rtol=1e-3)


def test_kl_of_a_row_with_jumps_is_the_same_alone():
    rng = np.random.default_rng(3)
    rough = nc.Samples(np.stack([rng.normal(size=40), np.tile(np.linspace(-1, 1, 4), 10)]))
    true = nc.Normal([0.0, 0.2], [1.0, 1.3])
    whole = nc.scores.kl_divergence(true, rough, reverse=False)
    for row in range(2):
        np.testing.assert_array_equal(nc.scores.kl_divergence(true[row], rough[row]), whole[row])


def test_kl_of_a_recalibrated_distribution():
    rng = np.random.default_rng(4)
    y = rng.normal(size=4000)
    rc = nc.GlobalRecalibrator(quantile_rule="predictive").fit(nc.Normal(np.zeros(4000), 2.0), y)
    out = rc.recalibrate(nc.Normal([0.0], 2.0))
    before = nc.scores.kl_divergence(nc.Normal(0.0, 1.0), out.base)
    after = nc.scores.kl_divergence(nc.Normal(0.0, 1.0), out)
    # some 126 pieces of a density, each of 32 scores or so: twice 126 / (2 · 4000) nats; the base is off by 0.318,
    # which is log 2 - 3/8
    assert before == pytest.approx(0.318, abs=1e-3)
    assert 0 < after[0] < 0.032


def test_scores_of_a_density_need_one():
    y = np.linspace(-1, 1, 40)
    out = nc.GlobalRecalibrator().fit(DIST, y).recalibrate(DIST)
    for ask in (lambda: nc.scores.log_score(out, y), lambda: nc.scores.kl_divergence(DIST, out)):
        with pytest.raises(nc.InvalidInputError, match="has no density"):
            ask()


def test_the_log_score_is_that_of_the_slope_of_the_cdf():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 2))
    y = rng.gamma(2.0, np.exp(0.3 * x[:, 0]))
    base = nc.Gamma(np.full(400, 2.0), 1.0)
    out = nc.LocalRecalibrator(k=60, quantile_rule="predictive").fit(base, y, x).recalibrate(base[:50], x[:50])
    at = rng.gamma(2.0, size=50)  # no response that was learnt from, where the slope changes
    slope = (out.cdf(at * (1 + 1e-6)) - out.cdf(at * (1 - 1e-6))) / (2e-6 * at)
    np.testing.assert_allclose(nc.scores.log_score(out, at), -np.log(slope), atol=1e-6)


def test_levels_are_checked():
    with pytest.raises(nc.InvalidInputError, match="p must be a scalar or have shape"):
        nc.scores.pinball(DIST, Y, [[0.5]])
    with pytest.raises(nc.InvalidParameterError, match="coverage must be one number strictly between 0 and 1"):
        nc.scores.interval_score(DIST, Y, 95)


HUGE = {
    "Normal": lambda n: nc.Normal(np.linspace(-1e300, 1e300, n), 1e300),
    "Laplace": lambda n: nc.Laplace(np.linspace(-1e300, 1e300, n), 1e300),
    "StudentT": lambda n: nc.StudentT(1.1, np.linspace(-1e300, 1e300, n), 1e300),
    "Gamma": lambda n: nc.Gamma(np.geomspace(0.1, 1e12, n), 1e300),
    "LogNormal": lambda n: nc.LogNormal(690.0, np.linspace(0.1, 60, n)),
    "Samples": lambda n: nc.Samples(np.linspace(-1e300, 1e300, 3 * n).reshape(n, 3)),
    "Mixture": lambda n: nc.Mixture([0.5, 0.5], [nc.Gamma(2.0, np.full(n, 1e300)), nc.Laplace(np.zeros(n), 1e300)]),
    "scipy": lambda n: nc.from_scipy(stats.gumbel_r(np.linspace(-1e300, 1e300, n), 1e300)),
    "recalibrated": lambda n: (
        nc.LocalRecalibrator(k=3).fit(nc.Normal(np.zeros(9), 1e-80), np.arange(9.0), np.arange(9.0))
    ).recalibrate(nc.Normal(np.zeros(n), 1e300), np.arange(float(n))),
}


@pytest.mark.parametrize("family", HUGE)
@pytest.mark.parametrize("y", [-1e300, 1e-300, 1e300])
def test_scores_too_large_for_a_number_are_infinite_without_a_warning(family, y):
    dist, response = HUGE[family](7), np.full(7, y)
    scores = nc.scores
    for score in (
        scores.crps(dist, response),
        scores.squared_error(dist, response),
        scores.pinball(dist, response, [0.0, 1e-300, 0.5, 1.0]),
        scores.interval_score(dist, response, 1 - 1e-12),
        scores.smis(dist, response, response),
    ):
        assert not np.isnan(score).any()
        assert (score >= 0).all()


def test_a_square_too_large_for_a_number_is_infinite():
    np.testing.assert_array_equal(nc.scores.squared_error(nc.Normal([0.0, 1.0], 1.0), [1e300, 3.0]), [np.inf, 4.0])


def test_an_interval_beyond_all_numbers_is_infinitely_far_and_of_no_width():
    beyond = nc.LogNormal(1000.0, 1.0)
    assert beyond.interval(0.5)[0] == np.inf
    assert nc.scores.interval_score(beyond, [1.0], 0.5) == np.inf


def test_nothing_is_lost_at_the_ends_of_the_support():
    np.testing.assert_array_equal(nc.scores.pinball(nc.Normal(0.0, 1.0), [3.0], [0.0, 1.0]), [[0.0, 0.0]])
