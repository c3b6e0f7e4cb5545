"""Recalibrators that treat all rows alike: each against its formula, a naive count, another library or simulation."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression, minimize_scalar
from scipy.special import ndtr
from scipy.stats import binom, kstest, norm

import nearcal as nc
from nearcal.recalibration import QUANTILE_RULES
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.scores_of_rows import OneLaw
from tests.recalibration.cases import (
    DIST,
    FAMILIES,
    NEW,
    M,
    N,
    Y,
    assert_equals_weighted_sample,
    assert_sound,
    make_family,
)

# ---- none -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_predictions_stay_as_they_are_to_the_last_bit(family):
    dist_cal, y, base = make_family(family)
    out = nc.IdentityRecalibrator().fit(dist_cal, y).recalibrate(base)
    assert isinstance(out, nc.Recalibrated)
    at = base.median() + 0.1
    for ask in (
        lambda d: d.mean(),
        lambda d: d.var(),
        lambda d: d.ppf([0.01, 0.5, 0.9]),
        lambda d: d.cdf(at),
        lambda d: d.sf(at),
        lambda d: d.z(at),
        lambda d: nc.scores.crps(d, at),
        lambda d: d.logpdf(at) if d.has_density else d.cdf_left(at),
    ):
        np.testing.assert_array_equal(ask(out), ask(base))
    np.testing.assert_array_equal(out.effective_size, 0.0)
    assert (out.is_continuous, out.has_density) == (base.is_continuous, base.has_density)


# ---- global ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_every_statistic_is_that_of_all_scores_equally_weighted(family):
    dist_cal, y, dist_new = make_family(family)
    out = nc.GlobalRecalibrator().fit(dist_cal, y).recalibrate(dist_new)
    assert_sound(out, y=out.median() + 0.01 * out.std())
    values = dist_new.from_z(np.tile(dist_cal.z(y), (M, 1)))
    assert_equals_weighted_sample(out, values, np.full((M, N), 1 / N))


def test_one_calibration_point():
    out = nc.GlobalRecalibrator().fit(DIST[0], Y[:1]).recalibrate(NEW)
    assert_sound(out)
    np.testing.assert_allclose(out.ppf([0.1, 0.9]), np.tile(NEW.from_z(Y[0])[:, np.newaxis], 2), rtol=1e-14)


@pytest.mark.parametrize("rule", QUANTILE_RULES)
@pytest.mark.parametrize("n", [1, 7, 1000])
def test_quantiles_tails_and_moments_are_those_of_equal_weights(n, rule):
    """Global recalibration takes a short cut; k = n with uniform weights goes through the kernels."""
    rng = np.random.default_rng(n)
    dist, y = nc.Normal(np.zeros(n), 1.0), np.round(rng.normal(size=n), 2)
    new = nc.Gamma([1.0, 2.0, 3.0], 1.0)
    everywhere = nc.GlobalRecalibrator(quantile_rule=rule).fit(dist, y).recalibrate(new)
    options = {"k": n, "smoothing": "uniform", "quantile_rule": rule}
    local = nc.LocalRecalibrator(**options).fit(dist, y, np.zeros(n)).recalibrate(new, np.zeros(3))
    levels = np.concatenate(
        [[1e-15, 1 - 1e-15], np.arange(n + 1) / n, np.arange(n + 2) / (n + 1), rng.uniform(size=50)]
    )
    np.testing.assert_allclose(everywhere.ppf(levels), local.ppf(levels), rtol=1e-12)
    at = local.ppf(levels)[:, np.isfinite(local.ppf(levels)).all(axis=0)]
    np.testing.assert_allclose(everywhere.cdf(at), local.cdf(at), rtol=1e-11)
    np.testing.assert_allclose(everywhere.sf(at), local.sf(at), rtol=1e-9, atol=1e-13)
    # curves are integrated by different rules, to about 1e-8
    np.testing.assert_allclose(everywhere.mean(), local.mean(), rtol=1e-7 if local.has_density else 1e-12)
    np.testing.assert_allclose(everywhere.var(), local.var(), rtol=1e-6 if local.has_density else 1e-11)
    np.testing.assert_allclose(everywhere.effective_size, n, rtol=1e-12)
    if local.has_density:
        np.testing.assert_allclose(everywhere.logpdf(1.0), local.logpdf(1.0), rtol=1e-12)


def test_it_does_not_visit_every_point_for_every_row(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("walks over all points for each row")

    monkeypatch.setattr("nearcal.kernels.quantiles.weighted_quantiles", refuse)
    monkeypatch.setattr("nearcal.kernels.summary.weight_below", refuse)
    y = np.linspace(-1, 1, 9)
    out = nc.GlobalRecalibrator().fit(nc.Normal(np.zeros(9), 1.0), y).recalibrate(nc.Normal(0.0, 1.0))
    np.testing.assert_allclose(out.interval(0.8), [[-1.0], [1.0]], atol=1e-15)
    np.testing.assert_allclose(out.cdf(0.1), 5 / 9)


@pytest.mark.parametrize(
    "recalibrator",
    [
        nc.IdentityRecalibrator(),
        nc.GlobalRecalibrator(),
        nc.VarianceScaling(),
        nc.IsotonicRecalibrator(),
        nc.ConformalRecalibrator(),
    ],
    ids=repr,
)
def test_there_are_no_neighbours_to_ask_for(recalibrator):
    out = recalibrator.fit(DIST, Y).recalibrate(NEW)
    for ask in (out.neighbors, out.weighted_sample):
        with pytest.raises(nc.InvalidInputError, match="neighbours must come from local recalibration"):
            ask(0)
    assert np.isinf(out.radius).all()
    assert len(out[2:5]) == 3
    np.testing.assert_array_equal(out[2:5].ppf([0.1, 0.8]), out.ppf([0.1, 0.8])[2:5])


# ---- variance scaling -----------------------------------------------------------------------------------------------


def test_normal_predictions_get_the_formula_of_the_papers():
    rng = np.random.default_rng(1)
    mean, sigma = rng.normal(size=500), rng.uniform(0.5, 2.0, size=500)
    y = rng.normal(mean + 0.3, 1.7 * sigma)
    rc = nc.VarianceScaling().fit(nc.Normal(mean, sigma), y)
    assert rc.factor_ == pytest.approx(np.sqrt(np.mean((y - mean) ** 2 / sigma**2)), rel=1e-12)
    out = rc.recalibrate(nc.Normal(mean, sigma))
    expected = nc.Normal(mean, rc.factor_ * sigma)
    far = expected.from_z(np.tile([-30.0, -2.0, 0.5, 30.0], (500, 1)))
    np.testing.assert_allclose(out.logcdf(far), expected.logcdf(far), rtol=1e-10)
    np.testing.assert_allclose(out.logpdf(y), expected.logpdf(y), rtol=1e-10)
    np.testing.assert_allclose(out.mean(), mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(out.std(), rc.factor_ * sigma, rtol=1e-12)


def test_the_factor_has_the_greatest_likelihood_for_any_family():
    rng = np.random.default_rng(2)
    dist = nc.Gamma(rng.uniform(1.0, 5.0, size=200), 2.0)
    y = rng.gamma(1.0, 6.0, size=200)

    def loss(factor):
        curve = Curve.shared(np.array([-1.0, 1.0]), np.array([-factor, factor]))
        return -nc.Recalibrated(dist, OneLaw(curve, 200)).logpdf(y).sum()

    best = minimize_scalar(loss, bounds=(0.2, 5.0), method="bounded", options={"xatol": 1e-10})
    # a minimum is located to about the square root of the rounding of the loss
    assert nc.VarianceScaling().fit(dist, y).factor_ == pytest.approx(best.x, rel=1e-6)


def test_far_scores_do_not_overflow():
    assert nc.VarianceScaling().fit(nc.Normal([0.0, 0.0], 1e-99), [1.0, -1.0]).factor_ == pytest.approx(1e99)


def test_responses_at_the_median_are_refused():
    with pytest.raises(nc.InvalidInputError, match="must not equal the median"):
        nc.VarianceScaling().fit(nc.Normal([0.0, 1.0], 1.0), [0.0, 1.0])


# ---- isotonic -------------------------------------------------------------------------------------------------------


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


# ---- conformal ------------------------------------------------------------------------------------------------------

COVERAGES = [0.1, 0.5, 0.8, 0.9, 0.95, 0.99]


def fitted(y):
    """Fit to responses whose normal scores are the responses themselves."""
    return nc.ConformalRecalibrator().fit(nc.Normal(np.zeros(len(y)), 1.0), y)


def identity(m=1):
    return nc.Normal(np.zeros(m), 1.0)


@pytest.mark.parametrize("n", [2, 5, 19, 39, 100])
@pytest.mark.parametrize("ties", [False, True])
def test_coverage_over_all_orders_is_exact(n, ties):
    """Exchangeable points are equally likely to come last: let each of n + 1 be the new one in turn.

    The share covered is the exact coverage given the set of values, so it must reach the nominal one with no allowance;
    without ties it exceeds it by less than 2 / (n + 1), one rank at either end.
    """
    rng = np.random.default_rng(n)
    values = np.round(rng.normal(size=n + 1), 1) if ties else rng.normal(size=n + 1)
    for coverage in COVERAGES:
        covered = 0
        for new in range(n + 1):
            lower, upper = fitted(np.delete(values, new)).recalibrate(identity()).interval(coverage)
            covered += lower[0] <= values[new] <= upper[0]
        assert covered / (n + 1) >= coverage - 1e-12
        assert ties or covered / (n + 1) < coverage + 2 / (n + 1)


def test_one_sided_quantiles_over_all_orders():
    values = np.random.default_rng(3).gumbel(size=20)
    for p in (0.05, 0.3, 0.5, 0.77, 0.95):
        bounds = [fitted(np.delete(values, i)).recalibrate(identity()).quantile_bounds(p) for i in range(20)]
        lower, upper = np.array(bounds)[..., 0].T
        assert (values < lower).mean() <= p + 1e-12
        assert (values <= upper).mean() >= p - 1e-12


def test_coverage_in_simulation():
    """A wrong model, 30 calibration points, 90%.

    Ranks ⌊31 · 0.05⌋ = 1 and ⌈31 · 0.95⌉ = 30 leave 29 of the 31 gaps inside, coverage 29/31 = 0.935. Over 2,000
    independent replications the count is Binomial(2000, 29/31); the bounds hold with probability 1 - 2e-6.
    """
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(2000):
        x = rng.uniform(1.0, 3.0, size=31)
        y = rng.gamma(x, 2.0)
        rc = nc.ConformalRecalibrator().fit(nc.Normal(x[:-1], 1.0), y[:-1])
        lower, upper = rc.recalibrate(nc.Normal(x[-1:], 1.0)).interval(0.9)
        hits += lower[0] <= y[-1] <= upper[0]
    low, high = binom.ppf([1e-6, 1 - 1e-6], 2000, 29 / 31)
    assert low <= hits <= high


def test_order_statistics_and_infinite_ends():
    y = np.random.default_rng(5).normal(size=19)
    out = fitted(y).recalibrate(nc.Normal([0.0, 100.0], 1.0))
    lower, upper = out.quantile_bounds([0.0, 0.04, 0.05, 0.5, 0.52, 0.95, 0.96, 1.0])
    z = np.sort(y)
    np.testing.assert_array_equal(lower[0], [-np.inf, -np.inf, z[0], z[9], z[9], z[18], z[18], np.inf])
    np.testing.assert_array_equal(upper[0], [-np.inf, z[0], z[0], z[9], z[10], z[18], np.inf, np.inf])
    np.testing.assert_allclose(lower[1, 2:7], z[[0, 9, 9, 18, 18]] + 100.0, rtol=1e-15)
    np.testing.assert_array_equal(out.interval(0.95), [[-np.inf] * 2, [np.inf] * 2])


def test_an_unreachable_end_is_the_end_of_the_support():
    out = fitted(np.array([-1.0, 0.0, 1.0])).recalibrate(nc.Gamma(2.0, 1.0))
    lower, upper = out.interval(0.99)
    assert (lower, upper) == (0.0, np.inf)


@pytest.mark.parametrize("ties", [False, True])
def test_the_distribution_lies_inside_the_band(ties):
    rng = np.random.default_rng(6)
    y = np.round(rng.normal(size=60), 1) if ties else rng.normal(size=60)
    out = fitted(y).recalibrate(identity())
    grid = np.concatenate([np.linspace(-6, 6, 1001), y])[np.newaxis]
    lower, upper = out.cdf_bounds(grid)
    np.testing.assert_array_equal(lower[0], [(y < v).sum() / 61 for v in grid[0]])
    np.testing.assert_array_equal(upper[0], [((y <= v).sum() + 1) / 61 for v in grid[0]])
    cdf = out.cdf(grid)
    assert (lower - 1e-12 <= cdf).all()
    assert (cdf <= upper + 1e-12).all()
    assert out.is_continuous == (not ties)


def test_quantiles_lie_between_their_bounds_and_meet_them_at_whole_ranks():
    out = fitted(np.random.default_rng(7).normal(size=99)).recalibrate(identity())
    p = np.linspace(0.001, 0.999, 997)
    lower, upper = out.quantile_bounds(p)
    assert (lower <= out.ppf(p) + 1e-12).all()
    assert (out.ppf(p) <= upper + 1e-12).all()
    whole = np.arange(1, 100) / 100
    lower, upper = out.quantile_bounds(whole)
    np.testing.assert_array_equal(lower, upper)
    np.testing.assert_allclose(out.ppf(whole), lower, rtol=1e-9, atol=1e-12)


def test_the_interval_holds_the_one_between_quantiles():
    out = fitted(np.random.default_rng(8).normal(size=57)).recalibrate(identity(4))
    for coverage in COVERAGES:
        lower, upper = out.interval(coverage)
        assert (lower <= out.ppf(0.5 - coverage / 2)).all()
        assert (out.ppf(0.5 + coverage / 2) <= upper).all()


def test_the_summary_has_the_ends_of_the_guarantee():
    y = np.random.default_rng(9).normal(size=57)
    out = fitted(y).recalibrate(nc.Normal([0.0, 3.0], 1.0))
    assert isinstance(out, nc.Recalibrated)
    lower, upper = out.interval(0.9)
    z = np.sort(y)  # ranks ⌊58 · 0.05⌋ = 2 and ⌈58 · 0.95⌉ = 56
    np.testing.assert_allclose([lower, upper], [[z[1], z[1] + 3], [z[55], z[55] + 3]], rtol=1e-15)
    summary = out.summary(0.9, p=[0.2, 0.7], y=[0.1, 2.0])
    np.testing.assert_array_equal([summary.lower, summary.upper], [lower, upper])
    assert (lower < out.ppf(0.05)).all()
    assert (out.ppf(0.95) < upper).all()
    np.testing.assert_array_equal(summary.quantiles, out.ppf([0.2, 0.7]))
    np.testing.assert_array_equal(summary.cdf[:, 0], out.cdf([0.1, 2.0]))
    np.testing.assert_array_equal(summary.mean, out.mean())
    np.testing.assert_array_equal(summary.std, out.std())
    np.testing.assert_array_equal(fitted(y).recalibrate(identity()).summary(0.99).upper, np.inf)


def test_moments_are_those_of_the_distribution_inside_the_band():
    """Straight pieces of the quantile function, by the trapezoidal rule on a fine grid of normal scores."""
    out = fitted(np.random.default_rng(10).normal(1.0, 2.0, size=40)).recalibrate(nc.Normal(5.0, 0.5))
    t = np.linspace(-12, 12, 240_001)
    values = out.from_z(t[np.newaxis])[0]
    mean = np.trapezoid(values * norm.pdf(t), t)
    np.testing.assert_allclose(out.mean(), mean, rtol=1e-8)
    np.testing.assert_allclose(out.var(), np.trapezoid((values - mean) ** 2 * norm.pdf(t), t), rtol=1e-7)


def test_slices_keep_the_guarantee():
    out = fitted(np.arange(-9.0, 10.0)).recalibrate(nc.Normal([0.0, 10.0, 20.0], 1.0))[1:]
    assert isinstance(out, nc.ConformalDistribution)
    np.testing.assert_array_equal(out.interval(0.9), [[1.0, 11.0], [19.0, 29.0]])


def test_bad_levels_and_scores_are_refused():
    out = fitted(np.array([0.0, 1.0])).recalibrate(identity())
    with pytest.raises(nc.InvalidInputError, match=r"p must be a scalar or have shape \(q,\), got \(1, 1\)"):
        out.quantile_bounds([[0.5]])
    with pytest.raises(nc.InvalidInputError, match="at least two different scores, got 1 rows"):
        fitted(np.array([0.0]))


@pytest.mark.parametrize("caution", [nc.Caution(0.3), nc.Caution(0.0, 0.5), nc.Caution(0.2, 0.4)], ids=repr)
def test_global_recalibration_leaves_a_share_to_the_model(caution, tmp_path):
    y, new = np.random.default_rng(0).normal(0.2, 1.3, size=200), nc.Normal([0.0, 5.0, -3.0], [1.0, 2.0, 3.0])
    base = nc.Normal(np.zeros(200), 1.0)
    whole, cautious = (
        nc.GlobalRecalibrator(quantile_rule="predictive", caution=one).fit(base, y) for one in (None, caution)
    )
    levels = ndtr([-2.4, -0.8, 0.0, 2.4])
    keep = np.outer([1.0, 1.0, 1.0], (1 - caution.share) * (1 - caution.tails * np.array([1, 0, 0, 1])))
    out = cautious.recalibrate(new)
    expected = keep * new.z(whole.recalibrate(new).ppf(levels)) + (1 - keep) * new.z(new.ppf(levels))
    np.testing.assert_allclose(new.z(out.ppf(levels)), expected, atol=1e-9)
    nc.save(cautious, tmp_path / "one.nearcal")
    loaded = nc.load(tmp_path / "one.nearcal")
    assert loaded.caution == caution
    np.testing.assert_array_equal(loaded.recalibrate(new).ppf(levels), out.ppf(levels))
    more = nc.Normal(np.zeros(20), 1.0), np.linspace(-3, 3, 20)
    again = nc.GlobalRecalibrator(quantile_rule="predictive", caution=caution)
    again.fit(nc.Normal(np.zeros(220), 1.0), np.concatenate([y, more[1]]))
    updated = loaded.update(*more).recalibrate(new)
    np.testing.assert_array_equal(updated.ppf(levels), again.recalibrate(new).ppf(levels))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"caution": nc.Caution(0.1)}, "caution needs a continuous quantile_rule, .* got 'step'"),
        ({"quantile_rule": "predictive", "caution": 0.1}, r"caution must be a nearcal\.Caution or None, got 0\.1"),
        ({"quantile_rule": "predictive", "caution": nc.Caution(1.0)}, "share must be below 1"),
    ],
)
def test_caution_that_cannot_be_is_refused(options, message):
    with pytest.raises(nc.InvalidParameterError, match=message):
        nc.GlobalRecalibrator(**options).fit(nc.Normal([0.0, 0.0], 1.0), [0.1, 0.2])
