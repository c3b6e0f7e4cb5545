"""The CRPS of every distribution against numerical integration, brute force and scoringrules."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from tests import reference

import nearcal as nc
from nearcal.scores._crps import crps_rows, integrate
from nearcal.scores.arrays import sorted_sample_crps

Y = np.array([-3.0, 0.01, 0.7, 2.0, 30.0])
CUTS = [1e-10, 1e-6, 1e-3, 0.05, 0.25, 0.5, 0.75, 0.95, 0.999, 1 - 1e-6]


def integrated_crps(dist, y):
    """∫ F² below y and ∫ (1 - F)² above it, by scipy's quad between quantiles."""
    cuts = dist.ppf(CUTS)[0]
    ends = min(cuts[0], y) - 1, max(cuts[-1], y) + 1

    def total(f, a, b):
        edges = [a, *(c for c in sorted(set(cuts)) if a < c < b), b]
        pieces = itertools.pairwise(edges)
        return sum(quad(f, u, v, epsabs=1e-12, epsrel=1e-10, limit=200)[0] for u, v in pieces)

    def below(x):
        return dist.cdf(x)[0] ** 2

    def above(x):
        return dist.sf(x)[0] ** 2

    tails = quad(below, -np.inf, ends[0], epsabs=1e-14)[0] + quad(above, ends[1], np.inf, epsabs=1e-14)[0]
    return tails + total(below, ends[0], y) + total(above, y, ends[1])


SCALES = np.array([0.1, 1.0, 2.0, 3.0, 4.0])
DISTRIBUTIONS = {
    "normal": nc.Normal(0.3, SCALES),
    "lognormal": nc.LogNormal(0.3, [0.1, 1.0, 0.5, 2.0, 1.0]),
    "gamma": nc.Gamma([0.3, 1.0, 5.0, 100.0, 1000.0], [1.0, 1.0, 1.0, 0.1, 0.01]),
    "student_t": nc.StudentT([1.3, 2.0, 3.0, 5.0, 1e5], 0.2, 2.0),
    "laplace": nc.Laplace(0.3, SCALES),
    "normal mixture": nc.Mixture([0.3, 0.7], [nc.Normal(0.0, SCALES), nc.Normal(5.0, 1.0 + SCALES)]),
    "mixture": nc.Mixture([0.3, 0.7], [nc.Gamma(2.0, SCALES), nc.StudentT(3.0, 5.0, SCALES)]),
    "scipy": nc.from_scipy(stats.gumbel_r(loc=np.arange(5.0))),
    "scipy with kinks": nc.from_scipy(stats.triang(c=np.full(5, 0.3), scale=4.0)),
    "quantiles": nc.Quantiles([0.1, 0.3, 0.5, 0.6, 0.9], np.sort(np.random.default_rng(0).normal(size=(5, 5)), axis=1)),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_equals_numerical_integration(name):
    dist = DISTRIBUTIONS[name]
    expected = [integrated_crps(dist[i], y) for i, y in enumerate(Y)]
    np.testing.assert_allclose(nc.scores.crps(dist, Y), expected, rtol=1e-8)


def test_quantiles_with_atoms_and_flat_tails():
    levels, values = [0.1, 0.3, 0.5, 0.9], [[0.0, 1.0, 1.0, 2.5]] * 4
    y = np.array([-1.0, 0.4, 1.0, 3.0])
    for tails in ("normal", "empirical"):
        dist = nc.Quantiles(levels, values, tails=tails)
        x = np.linspace(-20.0, 20.0, 400_001)
        for i, response in enumerate(y):
            gap = (dist[i].cdf(x[np.newaxis])[0] - (x >= response)) ** 2
            # a Riemann sum of a function with a few steps: accurate to the step 1e-4
            assert nc.scores.crps(dist, y)[i] == pytest.approx(np.sum(gap) * (x[1] - x[0]), abs=2e-4)


def test_agrees_with_scoringrules(scoringrules):
    rng = np.random.default_rng(3)
    y, loc, scale = rng.normal(size=50), rng.normal(size=50), rng.uniform(0.5, 2.0, size=50)
    shape, positive = rng.uniform(0.5, 20.0, size=50), rng.gamma(2.0, size=50)
    crps = nc.scores.crps
    np.testing.assert_allclose(crps(nc.Normal(loc, scale), y), scoringrules.crps_normal(y, loc, scale), rtol=1e-10)
    np.testing.assert_allclose(crps(nc.Laplace(loc, scale), y), scoringrules.crps_laplace(y, loc, scale), rtol=1e-10)
    np.testing.assert_allclose(
        crps(nc.LogNormal(loc, scale), positive), scoringrules.crps_lognormal(positive, loc, scale), rtol=1e-9
    )
    np.testing.assert_allclose(
        crps(nc.Gamma(shape, scale), positive), scoringrules.crps_gamma(positive, shape, scale=scale), rtol=1e-9
    )
    np.testing.assert_allclose(
        crps(nc.StudentT(shape + 2, loc, scale), y), scoringrules.crps_t(y, shape + 2, loc, scale), rtol=1e-9
    )


@pytest.mark.parametrize(("df", "t"), [(1.05, 0.3), (1.3, -2.0), (2.5, 1e3), (1e6, 0.1)])
def test_student_t_against_mpmath(df, t):
    with mpmath.workdps(40):
        nu, x = mpmath.mpf(df), mpmath.mpf(t)
        density = mpmath.gamma((nu + 1) / 2) / (mpmath.gamma(nu / 2) * mpmath.sqrt(nu * mpmath.pi))
        density *= (1 + x**2 / nu) ** (-(nu + 1) / 2)
        tail = mpmath.betainc(nu / 2, mpmath.mpf(1) / 2, 0, nu / (nu + x**2), regularized=True)
        balance = mpmath.sign(x) * (1 - tail)
        spread = mpmath.beta(0.5, nu - 0.5) / mpmath.beta(0.5, nu / 2) ** 2
        exact = x * balance + 2 * density * (nu + x**2) / (nu - 1) - 2 * mpmath.sqrt(nu) / (nu - 1) * spread
    np.testing.assert_allclose(nc.scores.crps(nc.StudentT(df, 0.0, 1.0), [t]), float(exact), rtol=1e-9)


def test_far_observations_cost_their_distance():
    y = np.array([1e6, -1e6])
    for dist in (nc.Normal(0.0, [1.0, 1.0]), nc.StudentT(3.0, [0.0, 0.0], 1.0), nc.Laplace([0.0, 0.0], 1.0)):
        np.testing.assert_allclose(nc.scores.crps(dist, y), 1e6, rtol=2e-6)


def test_infinite_without_a_mean():
    dist = nc.StudentT([0.5, 1.0, 1.1], 0.0, 1.0)
    np.testing.assert_array_equal(np.isinf(nc.scores.crps(dist, [0.0] * 3)), [True, True, False])
    mixture = nc.Mixture([[0.0, 1.0], [0.5, 0.5]], [nc.StudentT([1.0, 1.0], 0.0, 1.0), nc.Normal([0.0, 0.0], 1.0)])
    np.testing.assert_array_equal(np.isinf(nc.scores.crps(mixture, [0.0, 0.0])), [False, True])


# ---- weighted samples -------------------------------------------------------------------------------------------


def double_sum(values, weights, y):
    pairs = np.abs(values[:, :, np.newaxis] - values[:, np.newaxis])
    distance = (weights * np.abs(values - y[:, np.newaxis])).sum(axis=1)
    return distance - 0.5 * np.einsum("ni,nj,nij->n", weights, weights, pairs)


def test_weighted_draws_equal_double_sum_and_scoringrules(scoringrules):
    rng = np.random.default_rng(5)
    draws, y = rng.normal(size=(30, 40)).round(1), rng.normal(size=30) * 2
    weights = rng.uniform(size=(30, 40))
    weights[:, :5] = 0.0
    normalised = weights / weights.sum(axis=1, keepdims=True)
    found = nc.scores.crps(nc.Samples(draws, weights, tails="empirical"), y)
    np.testing.assert_allclose(found, double_sum(draws, normalised, y), rtol=1e-12)
    theirs = scoringrules.crps_ensemble(y, draws, ens_w=normalised, estimator="nrg")
    np.testing.assert_allclose(found, theirs, rtol=1e-12)


def test_draws_with_normal_tails_are_scored_by_their_curve(scoringrules):
    """∫ (F(x) - 1{x >= y})² dx of the distribution function itself; with many draws it tends to the double sum."""
    rng = np.random.default_rng(5)
    draws, y, weights = rng.normal(size=(4, 40)).round(1), rng.normal(size=4) * 2, rng.uniform(size=(4, 40))
    dist = nc.Samples(draws, weights)
    x = np.linspace(-30.0, 30.0, 600_001)
    gap = (dist.cdf(np.tile(x, (4, 1))) - (x >= y[:, np.newaxis])) ** 2
    # a Riemann sum: of two steps at most, the response and ties, each off by a step of 1e-4 at the most
    np.testing.assert_allclose(nc.scores.crps(dist, y), gap.sum(axis=1) * (x[1] - x[0]), atol=2e-4)
    many = rng.normal(size=(3, 20_000))
    by_draws = scoringrules.crps_ensemble(y[:3], many, estimator="pwm")
    np.testing.assert_allclose(nc.scores.crps(nc.Samples(many), y[:3]), by_draws, rtol=5e-3)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-10, 10), min_size=1, max_size=12),
    st.lists(st.integers(0, 3), min_size=12, max_size=12),
    st.floats(-20, 20),
)
def test_draws_with_ties_and_zero_weights(draws, weights, y):
    weights = np.array(weights[: len(draws)], dtype=float)
    if not weights.any():
        weights[0] = 1.0
    found = nc.scores.crps(nc.Samples([draws], weights, tails="empirical"), [y])
    expected = double_sum(np.array([draws]), (weights / weights.sum())[np.newaxis], np.array([y]))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


# ---- recalibrated distributions ---------------------------------------------------------------------------------


def recalibrated(base, y, x, **options):
    rc = nc.LocalRecalibrator(**options).fit(base(x[:-20]), y[:-20], x[:-20])
    return rc.recalibrate(base(x[-20:]), x[-20:]), y[-20:]


def data(seed=7):
    rng = np.random.default_rng(seed)
    x = rng.uniform(2, 20, size=1020)
    return x, rng.gamma(6.0, (10 + 5 * x) / 6)


BASES = {
    "normal": lambda x: nc.Normal(10 + 5 * x, 20.0),
    "gamma": lambda x: nc.Gamma(5 + x, (10 + 5 * x) / (5 + x)),
    "gamma, one shape": lambda x: nc.Gamma(5.0, (10 + 5 * x) / 5),
}


NEIGHBORHOODS = [{"k": 60}, {"k": 1}, {"radius": nc.Radius(0.3, 30, "base")}]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("options", NEIGHBORHOODS, ids=str)
def test_recalibrated_equals_double_sum(base, options):
    x, y = data()
    out, response = recalibrated(BASES[base], y, x, **options)
    found = nc.scores.crps(out, response)
    touched = out.effective_size > 0
    assert touched.any()
    values, weights = out.weighted_sample(slice(None))
    np.testing.assert_allclose(found[touched], double_sum(values, weights, response)[touched], rtol=1e-12)
    np.testing.assert_array_equal(found[~touched], nc.scores.crps(out.base, response)[~touched])


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("options", NEIGHBORHOODS, ids=str)
def test_the_conservative_rule_is_scored_by_its_quantiles(base, options):
    """Twice the mean pinball loss over 20,000 levels: each step of the sample is off by at most half a level."""
    x, y = data()
    out, response = recalibrated(BASES[base], y, x, quantile_rule="conservative", **options)
    p = (np.arange(20_000) + 0.5) / 20_000
    error = response[:5, np.newaxis] - out[:5].ppf(p)
    expected = 2 * np.maximum(p * error, (p - 1) * error).mean(axis=1)
    np.testing.assert_allclose(nc.scores.crps(out, response)[:5], expected, rtol=1e-3)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(
    ("rule", "k"), [("interpolated", 1), ("interpolated", 7), ("interpolated", 150), ("predictive", 7)]
)
def test_continuous_rules_equal_the_integral_of_the_pinball_loss(base, rule, k):
    x, y = data()
    out, response = recalibrated(BASES[base], y, x, quantile_rule=rule, k=k)
    # trapezoidal rule over normal scores; its error at the kinks is of order step² = 2e-9
    t = np.linspace(-9.0, 9.0, 400_001)
    rows = slice(0, 1)
    quantiles = out[rows].from_z(t[np.newaxis])
    excess = quantiles - response[rows, np.newaxis]
    loss = 2 * np.where(excess > 0, stats.norm.sf(t), stats.norm.cdf(t)) * np.abs(excess)
    expected = np.trapezoid(loss * stats.norm.pdf(t), t, axis=1)
    np.testing.assert_allclose(nc.scores.crps(out, response)[rows], expected, rtol=1e-8)


def test_quadrature_finds_kinks_wherever_they_are():
    # 200 rows with kinks at random places, some just inside the end of a panel, where Gauss's nodes would miss them
    rng = np.random.default_rng(8)
    dist = nc.Quantiles([0.05, 0.25, 0.45, 0.5, 0.8, 0.95], np.sort(rng.normal(size=(200, 6)), axis=1))
    y = rng.normal(size=200)
    by_quadrature = crps_rows.dispatch(nc.Distribution)(dist, y)
    np.testing.assert_allclose(by_quadrature, nc.scores.crps(dist, y), rtol=1e-9)


def test_recalibrated_row_as_a_mixture_of_one():
    x, y = data()
    out, response = recalibrated(BASES["normal"], y, x, quantile_rule="interpolated", k=7)
    np.testing.assert_allclose(
        nc.scores.crps(nc.Mixture([1.0], [out]), response), nc.scores.crps(out, response), rtol=1e-10
    )


def test_interpolated_scores_steeper_than_a_heavy_base_have_no_mean():
    # scores spread twice as wide as the base says turn tails of t with 2 degrees of freedom into tails of t with ½
    rng = np.random.default_rng(9)
    base = nc.StudentT(np.full(400, 2.0), 0.0, 1.0)
    y = base.from_z(2 * rng.normal(size=400))
    rc = nc.GlobalRecalibrator(quantile_rule="interpolated").fit(base, y)
    assert np.isinf(nc.scores.crps(rc.recalibrate(base[:2]), [0.0, 1.0])).all()


@pytest.mark.parametrize("rule", ["step", "conservative", "interpolated", "predictive"])
def test_chunks_threads_and_company_change_nothing(rule):
    x, y = data()
    one, many = nc.Workers(threads=1), nc.Workers(threads=2, memory=2**20)
    whole, response = recalibrated(BASES["gamma"], y, x, k=500, quantile_rule=rule, workers=one)
    parts, _ = recalibrated(BASES["gamma"], y, x, k=500, quantile_rule=rule, workers=many)
    assert len(many.chunks(20, 500)) > 1
    score = nc.scores.crps(whole, response)
    np.testing.assert_array_equal(score, nc.scores.crps(parts, response))
    np.testing.assert_array_equal(score[3:5], nc.scores.crps(whole[3:5], response[3:5]))


@pytest.mark.parametrize("base", BASES)
def test_global_equals_double_sum(base):
    x, y = data()
    dist, new, response = BASES[base](x[:500]), BASES[base](x[-20:]), y[-20:]
    out = nc.GlobalRecalibrator().fit(dist, y[:500]).recalibrate(new)
    values = new.from_z(np.tile(dist.z(y[:500]), (20, 1)))
    np.testing.assert_allclose(
        nc.scores.crps(out, response), double_sum(values, np.full((20, 500), 1 / 500), response), rtol=1e-11
    )


def test_samples_that_overflow_score_infinity():
    """One score of 1e90, read by heavy tails: no number, and no warning."""
    rng = np.random.default_rng(2)
    x, z = rng.normal(size=(60, 2)), rng.normal(size=60)
    z[[5, 6]] = 1e90, -1e90
    rc = nc.LocalRecalibrator(k=60, smoothing="uniform").fit(nc.Normal(np.zeros(60), 1.0), z, x)
    out = rc.recalibrate(nc.StudentT(np.full(3, 5.0), 0.0, 1.0), x[:3])
    np.testing.assert_array_equal(nc.scores.crps(out, [0.0, 1.0, 2.0]), np.inf)


@pytest.mark.parametrize("bad", [[0.0], [0.0, np.nan], [[0.0, 1.0]]])
def test_bad_responses_are_refused(bad):
    with pytest.raises(nc.InvalidInputError, match="y must"):
        nc.scores.crps(nc.Normal([0.0, 1.0], 1.0), bad)


def test_not_a_distribution():
    with pytest.raises(nc.InvalidInputError, match="dist must be a nearcal distribution, got float"):
        nc.scores.crps(1.0, [1.0])


@pytest.mark.parametrize("method", [nc.IsotonicRecalibrator, nc.ConformalRecalibrator, nc.VarianceScaling])
@pytest.mark.parametrize(("base", "rows"), [("normal", 300), ("gamma", 30)])
def test_one_law_for_all_rows(base, rows, method):
    """A map of a thousand knots: the general quadrature once took all memory in search of them."""
    rng = np.random.default_rng(4)
    families = {"normal": lambda n: nc.Normal(np.full(n, 9.0), 2.0), "gamma": lambda n: nc.Gamma(np.full(n, 3.0), 3.0)}
    predict = families[base]
    out = method().fit(predict(1000), rng.gamma(4.0, 2.0, size=1000)).recalibrate(predict(rows))
    y = rng.gamma(4.0, 2.0, size=rows)
    score = nc.scores.crps(out, y)
    assert np.isfinite(score).all()
    # twice the mean pinball loss over 4,000 levels; the outermost of them cost it about 1e-4
    p = (np.arange(4000) + 0.5) / 4000
    error = y[:5, np.newaxis] - out[:5].ppf(p)
    expected = 2 * np.maximum(p * error, (p - 1) * error).mean(axis=1)
    np.testing.assert_allclose(score[:5], expected, rtol=2e-3)


def test_atoms_at_the_response_do_not_halve_panels_for_ever():
    """Most quantiles of these rows are the response itself: all distances are rounding."""
    rng = np.random.default_rng(0)
    n = 60
    values = np.sort(rng.integers(4, 7, size=(n, 7)), axis=1) / 3
    dist = nc.Quantiles([0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95], values)
    y = values[np.arange(n), rng.integers(0, 7, size=n)]
    rc = nc.LocalRecalibrator(k=20, quantile_rule="predictive").fit(dist, y, rng.normal(size=(n, 2)))
    out = rc.recalibrate(dist[:12], rng.normal(size=(12, 2)))
    quantiles = out.ppf((np.arange(2000) + 0.5) / 2000)
    expected = [reference.sample_crps(row, np.full(2000, 1 / 2000), at) for row, at in zip(quantiles, y, strict=False)]
    np.testing.assert_allclose(nc.scores.crps(out, y[:12]), expected, rtol=2e-2, atol=1e-3)


# mu, and the factor by which log-scales of 1 are stretched: the last rows' standard deviations overflow, and their
# quantiles do before their losses vanish
STRETCHED = [(0.0, 2.0), (-40.0, 12.0), (-42.0, 16.3), (0.0, 20.0), (0.0, 36.0), (-700.0, 52.0)]


@pytest.mark.parametrize(("mu", "factor"), STRETCHED)
@pytest.mark.parametrize("y", [1e-20, 1.0, 1e30])
def test_lognormal_tails_as_heavy_as_they_come(mu, factor, y):
    """Stretched about its median, a LogNormal distribution is one again, whose score has a formula."""
    rc = nc.VarianceScaling().fit(nc.Normal(np.zeros(2), 1.0), [-factor, factor])
    out = rc.recalibrate(nc.LogNormal(mu, 1.0))
    np.testing.assert_allclose(nc.scores.crps(out, [y]), lognormal_crps(mu, factor, y), rtol=1e-10)


def lognormal_crps(mu, sigma, y):
    """Return y (2 F(y) - 1) - 2 exp(mu + sigma²/2) (Φ(z - sigma) - Φ(-sigma / √2)), z the score of y, by mpmath."""
    with mpmath.workdps(500):
        mu, sigma, y = mpmath.mpf(mu), mpmath.mpf(sigma), mpmath.mpf(y)
        z = (mpmath.log(y) - mu) / sigma
        beyond = mpmath.ncdf(z - sigma) - mpmath.ncdf(-sigma / mpmath.sqrt(2))
        return float(y * (2 * mpmath.ncdf(z) - 1) - 2 * mpmath.exp(mu + sigma**2 / 2) * beyond)


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e299])
def test_quantiles_that_are_all_but_zero_do_not_halve_panels_for_ever(scale):
    """Of a shape of 1e-20, which is at 0 but for a probability of 1e-18: panels of less than the smallest numbers."""
    z = np.random.default_rng(0).standard_t(3, size=60)
    rc = nc.LocalRecalibrator(k=60, quantile_rule="predictive").fit(nc.Normal(np.zeros(60), 1.0), z, np.zeros(60))
    out = rc.recalibrate(nc.Gamma([1e-20], scale), [0.0])
    assert 0 <= nc.scores.crps(out, [0.0])[0] < 1e-9 * scale


def test_lognormal_tails_without_a_mean_in_floating_point_numbers():
    rc = nc.VarianceScaling().fit(nc.Normal(np.zeros(2), 1.0), [-50.0, 50.0])
    out = rc.recalibrate(nc.LogNormal(0.0, [0.01, 1.0]))
    assert np.isinf(out.mean()).tolist() == [False, True]
    assert np.isinf(nc.scores.crps(out, [1.0, 1.0])).tolist() == [False, True]


def test_quantiles_of_other_families_count_as_far_out():
    """Any family without a formula goes through the same quadrature."""
    stretched = nc.LogNormal(np.full(2, -40.0), [12.0, 16.3])
    by_quadrature = crps_rows.dispatch(nc.Distribution)(stretched, np.ones(2))
    expected = [lognormal_crps(-40.0, sigma, 1.0) for sigma in stretched.sigma]
    np.testing.assert_allclose(by_quadrature, expected, rtol=1e-10)


def test_an_infinite_loss_is_an_infinite_integral():
    """Quantiles that overflow warned of a difference of infinities."""
    steep = integrate(
        lambda origin, x: np.where(x > 0.5, np.inf, 1.0), np.zeros(2), np.array([0.4, 1.0]), np.full(2, 1e-9), 3
    )
    np.testing.assert_allclose(steep, [0.4, np.inf])


def test_a_draw_counts_by_its_weight_even_if_it_is_infinite():
    draws = np.array([[-np.inf, 0.0, 1.0], [0.0, 1.0, np.inf], [0.0, 1.0, np.inf], [-1.7e308, 0.0, 1.7e308]])
    weights = np.array([[0.0, 0.5, 0.5], [0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
    y = np.full(4, 2.0)
    expected = [reference.sample_crps(np.array([0.0, 1.0]), np.array([0.5, 0.5]), 2.0)] * 2
    np.testing.assert_allclose(sorted_sample_crps(draws, weights, y), [*expected, np.inf, 2.0], rtol=1e-12)
