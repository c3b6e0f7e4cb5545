"""What the scores of rows are distributed like: each quantile rule by its definition, and one coherent distribution."""

from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from scipy.stats import norm

import nearcal as nc
from nearcal.distributions.interpolation import Interpolated
from nearcal.recalibration import CONTINUOUS_RULES, QUANTILE_RULES
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.scores_of_rows import CurveOfEachRow, OneLaw
from tests import reference
from tests.recalibration.cases import DIST, FAMILIES, NEW, SPACE, SPACE_NEW, M, N, Y, local, make_family

# ---- curves ---------------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
KNOTS = 30
AFTER = ndtri((np.arange(KNOTS) + 0.5) / KNOTS)
BEFORE = np.sort(RNG.normal(0.3, 1.3, size=KNOTS))
MAP = Curve.shared(AFTER, BEFORE)


def mapped(base, curve=MAP):
    return nc.Recalibrated(base, OneLaw(curve, KNOTS))


SMOOTH = {
    "normal": nc.Normal(3.0, 2.0),
    "laplace": nc.Laplace(1.0, 2.0),
    "lognormals": nc.LogNormal([0.0, 1.0], [0.5, 0.7]),
    "gammas": nc.Gamma([0.3, 2.0, 50.0], [1.0, 3.0, 0.1]),
    "students": nc.StudentT([8.0, 30.0], 0.0, 1.0),
    "mixture": nc.Mixture([0.5, 0.5], [nc.Normal(-1.0, 0.5), nc.Normal(1.0, 0.5)]),
}
TOLERANCE = {"mixture": 1e-7}  # its quantile function is steep between the modes
KINKED = {
    "samples": nc.Samples(RNG.normal(5.0, 1.0, size=(2, 40))),
    "quantiles": nc.Quantiles([0.1, 0.3, 0.5, 0.9], [[0.0, 1.0, 2.0, 5.0]]),
    "separate mixture": nc.Mixture([0.3, 0.7], [nc.Normal(-3.0, 0.5), nc.Normal(3.0, 0.5)]),
}


def expectation(base, score_map, g):
    """E g(Y) of a one-row base by brute force: every piece of the map cut in 25, 20 Gauss-Legendre nodes in each."""
    far = np.array([3.5, 5, 7, 10, 14, 20, 28, 37])
    edges = np.concatenate([-far[::-1], score_map.line.scores[0], far])
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
    out = mapped(SMOOTH[name])
    for row, base in enumerate(SMOOTH[name][[i]] for i in range(len(SMOOTH[name]))):
        mean = expectation(base, MAP, lambda y: y)
        var = expectation(base, MAP, lambda y, mean=mean: (y - mean) ** 2)
        # the mean of a symmetric row may vanish: errors are measured against the spread
        np.testing.assert_allclose(out.mean()[row], mean, rtol=1e-10, atol=TOLERANCE.get(name, 1e-10) * np.sqrt(var))
        np.testing.assert_allclose(out.var()[row], var, rtol=TOLERANCE.get(name, 1e-10))


@pytest.mark.parametrize("name", KINKED)
def test_moments_of_kinked_quantile_functions_are_close(name):
    out = mapped(KINKED[name])
    base = KINKED[name][[0]]
    mean = expectation(base, MAP, lambda y: y)
    var = expectation(base, MAP, lambda y: (y - mean) ** 2)
    np.testing.assert_allclose(out.mean()[0], mean, rtol=0, atol=2e-3 * np.sqrt(var))
    np.testing.assert_allclose(out.var()[0], var, rtol=2e-3)


def test_identity_map_leaves_every_moment():
    identity = Curve.shared(np.array([-1.0, 1.0]), np.array([-1.0, 1.0]))
    for base in SMOOTH.values():
        out = mapped(base, identity)
        np.testing.assert_allclose(out.mean(), base.mean(), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(out.var(), base.var(), rtol=1e-10)
        np.testing.assert_allclose(out.ppf([0.01, 0.5, 0.9]), base.ppf([0.01, 0.5, 0.9]), rtol=1e-12)


def test_atoms_keep_their_mass():
    """Half of the probability on one score: the mean is found by hand."""
    after, before = ndtri([0.2, 0.25, 0.75, 0.8]), np.array([-1.0, 0.0, 0.0, 1.0])
    out = mapped(nc.Normal(7.0, 1.0), Curve.shared(after, before))
    assert not out.is_continuous
    np.testing.assert_allclose(out.cdf(7.0) - out.cdf(7.0 - 1e-12), 0.5, atol=1e-9)
    np.testing.assert_allclose(out.mean(), 7.0, rtol=1e-12)
    np.testing.assert_allclose(out.var(), expectation(out.base, out.scores.law, lambda y: (y - 7.0) ** 2), rtol=1e-9)


def test_moments_do_not_depend_on_the_rows_beside(monkeypatch):
    base = nc.Gamma(np.linspace(0.5, 5.0, 40), 2.0)
    whole = mapped(base)
    mean, var = whole.mean(), whole.var()
    monkeypatch.setattr("nearcal.recalibration.scores_of_rows._CHUNK", 1500)
    np.testing.assert_array_equal(mapped(base).mean(), mean)
    np.testing.assert_array_equal(mapped(base).var(), var)
    np.testing.assert_array_equal([mapped(base[row]).var()[0] for row in range(40)], var)


def test_no_moment_where_the_base_has_none():
    out = mapped(nc.StudentT([1.0, 1.5, 5.0], 0.0, 1.0))
    assert np.isnan(out.mean()).tolist() == [True, False, False]
    assert np.isfinite(out.var()).tolist() == [False, False, True]


# ---- heavy tails ----------------------------------------------------------------------------------------------------

DF = 5.0


def stretched(base, factors):
    """Return N(0, s²) as scores, once with one law for all rows and once with a curve for each row."""
    knots = np.array([-1.0, 1.0])
    for factor in factors:
        law = Curve.shared(knots, factor * knots)
        own = Curve(Interpolated(knots[np.newaxis], np.tile(factor * knots, (len(base), 1)), normal_tails=True))
        yield factor, (nc.Recalibrated(base, OneLaw(law, 9)), nc.Recalibrated(base, CurveOfEachRow(own)))


def test_moments_of_stretched_heavy_tails_exist_where_the_tail_index_says_so():
    """P(|Y| > y) of scores N(0, s²) read by Student's t falls like y^(-df / s²) up to logarithms.

    P(Z > z) is about exp(-z² / 2s²), and the t tail y^(-df) is exp(-z² / 2) at the score z of y. So E |Y|^m exists
    where m s² < df.
    """
    base = nc.StudentT(DF, [0.0, 3.0], 1.0)
    for order, ask in ((1, lambda out: np.isfinite(out.mean())), (2, lambda out: np.isfinite(out.var()))):
        for share, outs in stretched(base, np.sqrt(DF / order * np.array([0.3, 0.8, 0.97, 1.03, 1.2, 3.0]))):
            for out in outs:
                np.testing.assert_array_equal(ask(out), order * share**2 < DF)
    for _, outs in stretched(base, [2.0, 3.0]):
        for out in outs:
            assert np.isposinf(out.var()).all()
            assert np.isposinf(out.std()).all()


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.95])
def test_variances_of_stretched_heavy_tails_are_integrals_of_the_tail(share):
    """E Y² = ∫ 2 y P(|Y| > y) dy over log y, far beyond where a probability would round to one."""
    factor = np.sqrt(share * DF / 2)
    standard = nc.StudentT(DF, 0.0, 1.0)

    def tail(u):
        return 4 * np.exp(2 * u) * ndtr(standard.z(-np.exp(u))[0] / factor)

    expected = quad(tail, -30, 300, limit=1000, epsabs=0, epsrel=1e-9, points=[0, 5, 20, 60])[0]
    for _, outs in stretched(nc.StudentT(DF, [0.0, 3.0], [1.0, 2.0]), [factor]):
        for out in outs:
            np.testing.assert_allclose(out.mean(), [0.0, 3.0], atol=1e-9)
            np.testing.assert_allclose(out.var(), expected * np.array([1.0, 4.0]), rtol=1e-7)


def test_heavy_bases_under_a_predictive_rule_have_moments_by_the_slope_of_their_tails():
    """Scores twice as wide somewhere: there the variance of t with five degrees of freedom does not exist."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, size=400)
    base = nc.StudentT(np.full(400, DF), 0.0, 1.0)
    y = base.from_z(np.where(x > 0, 3.0, 0.7) * rng.normal(size=400))
    out = nc.LocalRecalibrator(k=60, quantile_rule="predictive").fit(base, y, x).recalibrate(base[:80], x[:80])
    law = out.scores.law(out.scores.find(slice(0, 80)))
    slope = np.maximum(law.line.slope_below, law.line.slope_above)[:, 0]
    clear = np.abs(2 * slope**2 / DF - 1) > 0.03
    np.testing.assert_array_equal(np.isfinite(out.var())[clear], (2 * slope**2 < DF)[clear])
    clear = np.abs(slope**2 / DF - 1) > 0.03
    np.testing.assert_array_equal(np.isnan(out.mean())[clear], (slope**2 > DF)[clear])
    assert set(np.isfinite(out.var())) == set(np.isnan(out.mean())) == {True, False}
    assert np.isposinf(out.var()[~np.isfinite(out.var())]).all()
    np.testing.assert_array_equal(np.isinf(nc.scores.crps(out, y[:80])), np.isnan(out.mean()))


@pytest.mark.parametrize("rule", CONTINUOUS_RULES)
def test_quantiles_that_overflow_have_no_moments(rule):
    """One score of 1e90 makes a tail that no floating-point number describes."""
    y = Y.copy()
    y[5] = 1e90
    out = local(y=y, k=N, smoothing="uniform", quantile_rule=rule, new=nc.StudentT(np.full(M, 5.0), 0.0, 1.0))
    assert np.isnan(out.mean()).all()
    assert np.isposinf(out.var()).all()
    assert np.isposinf(nc.scores.crps(out, np.zeros(M))).all()
    assert np.isfinite(out.cdf(0.3)).all()


# ---- interpolated and predictive ------------------------------------------------------------------------------------


@cache
def next_scores(k, m, smoothing="uniform", rule="predictive", seed=0):
    """Return m results, each from its own k Normal scores of unknown mean and spread, and what came next."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.5, 2.0, size=(m, k + 1))
    # neighbourhoods far apart, their points at distances 1, 2, ...: each row has its own k
    space = (1e4 * np.arange(m)[:, np.newaxis] + np.arange(k)).ravel()
    rc = nc.LocalRecalibrator(k=k, smoothing=smoothing, quantile_rule=rule)
    rc.fit(nc.Normal(np.zeros(m * k), 1.0), z[:, :k].ravel(), space)
    return rc.recalibrate(nc.Normal(np.zeros(m), 1.0), 1e4 * np.arange(m) - 1), z[:, k]


@pytest.mark.parametrize("smoothing", ["uniform", "epanechnikov"])
@pytest.mark.parametrize(("k", "coverage"), [(8, 0.5), (8, 0.75), (20, 0.5), (20, 0.9), (60, 0.9), (60, 0.95)])
def test_predictive_intervals_cover_the_next_draw_as_often_as_they_say(k, coverage, smoothing):
    out, y = next_scores(k, 20_000, smoothing)
    lower, upper = out.interval(coverage)
    assert abs(np.mean((lower <= y) & (y <= upper)) - coverage) < 0.012  # 3 standard errors, and the interpolation


@pytest.mark.parametrize("rule", ["step", "interpolated"])
def test_without_it_intervals_of_few_points_are_too_narrow(rule):
    out, y = next_scores(8, 20_000, rule=rule)
    lower, upper = out.interval(0.9)
    assert np.mean((lower <= y) & (y <= upper)) < 0.83


def naive_knots(k, n_of_draw):
    """Return which of k equally weighted scores are knots, and their probabilities: see Recalibrated."""
    p = (np.arange(1, k + 1) - 0.5) / k if n_of_draw is None else np.arange(1, k + 1) / (n_of_draw + 1)
    count = 2 * int(np.ceil(np.sqrt(k)))  # an even number: alike on either side
    wanted = np.linspace(ndtri(p[0]), ndtri(p[-1]), count)
    return np.array([np.argmin(np.abs(ndtr(w) - p)) for w in wanted]), p


@pytest.mark.parametrize("rule", CONTINUOUS_RULES)
@pytest.mark.parametrize("k", [2, 3, 10, 101])
def test_the_curve_goes_straight_through_two_roots_of_n_scores(k, rule):
    """Between them, on the scale of normal scores, it is a straight line."""
    out, _ = next_scores(k, 1, rule=rule)
    values = np.sort(out.weighted_sample(0).values[0])
    chosen, p = naive_knots(k, k if rule == "predictive" else None)
    np.testing.assert_allclose(out.cdf(values[chosen][np.newaxis])[0], p[chosen], rtol=1e-12)
    inside = np.linspace(values[0], values[-1], 400)
    expected = np.interp(inside, values[chosen], ndtri(p[chosen]))
    np.testing.assert_allclose(out.z(inside[np.newaxis])[0], expected, atol=1e-10)
    assert len(set(chosen)) <= 2 * np.sqrt(k) + 2


def test_predictive_tends_to_interpolated():
    predictive, interpolated = (next_scores(20_000, 1, rule=rule)[0] for rule in ("predictive", "interpolated"))
    p = [0.001, 0.1, 0.5, 0.9, 0.999]
    np.testing.assert_allclose(predictive.ppf(p), interpolated.ppf(p), rtol=1e-3, atol=1e-3)


def test_predictive_is_wider():
    out, plain = (next_scores(15, 5, "epanechnikov", rule)[0] for rule in ("predictive", "interpolated"))
    lower, upper = out.interval(0.95)
    inner_lower, inner_upper = plain.interval(0.95)
    assert (lower < inner_lower).all()
    assert (upper > inner_upper).all()
    assert (out.std() > plain.std()).all()


# ---- conservative ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 9, 40])
def test_conservative_quantiles_of_equal_weights_are_conformal_order_statistics(k):
    """The ⌈(k + 1) p⌉-th smallest above the median, its mirror image below, bounded by the outermost."""
    out, _ = next_scores(k, 3, rule="conservative")
    values = np.sort(out.weighted_sample(slice(None)).values, axis=1)
    p = np.random.default_rng(1).uniform(0.501, 0.999, size=60)
    rank = np.minimum(np.ceil((k + 1) * p), k).astype(int)
    np.testing.assert_array_equal(out.ppf(p), values[:, rank - 1])
    np.testing.assert_array_equal(out.ppf(1 - p), values[:, k - rank])


CONSERVATIVE = {
    "weights": {"k": 15},
    "equal weights": {"k": 15, "smoothing": "uniform"},
    "ties": {"y": np.round(Y), "k": 20},
    "k = n": {"k": N},
    "radius": {"radius": nc.Radius(2.0, 5)},
    "Gamma": {"new": nc.Gamma(np.linspace(0.5, 5.0, M), 2.0)},
    "corrected": {"k": 30, "corrections": (nc.LocalLinear(), nc.Shrinkage())},
}


@pytest.mark.parametrize("options", CONSERVATIVE.values(), ids=CONSERVATIVE)
def test_the_conservative_rule_is_one_distribution(options):
    """Quantiles by the naive rule; cdf their inverse; moments and CRPS those of the quantile function."""
    out = local(**{"quantile_rule": "conservative", **options})
    values, weights = out.weighted_sample(slice(None))
    own = out.scores.find(slice(0, M))
    own = own.per_row(own.self_weight, np.nan)
    p = (np.arange(4000) + 0.5) / 4000
    quantiles = out.ppf(p)
    naive = [
        [reference.conservative_quantile(v, w, o, level) for level in p[::40]]
        for v, w, o in zip(values, weights, own, strict=True)
    ]
    np.testing.assert_allclose(quantiles[:, ::40], naive, rtol=1e-12)
    # Galois: cdf(y) >= p just where y >= ppf(p)
    assert (out.cdf(quantiles) >= p - 1e-12).all()
    assert (out.cdf_left(quantiles) <= p + 1e-12).all()
    # back again, but at one half: between what is pushed down and what is pushed up any value is a median
    reached = out.cdf(quantiles)
    there = np.abs(reached - 0.5) > 1e-9
    assert there.mean() > 0.8
    np.testing.assert_array_equal(out.ppf(np.minimum(reached, 1.0))[there], quantiles[there])
    # midpoints of 4,000 levels: each of at most 60 steps of a sample may be off by an eighth of a thousandth
    reach = 60 / 8000 * np.ptp(values, axis=1)
    assert (np.abs(out.mean() - quantiles.mean(axis=1)) < reach).all()
    second = ((quantiles - out.mean()[:, np.newaxis]) ** 2).mean(axis=1)
    assert (np.abs(out.var() - second) < 2 * reach * np.ptp(values, axis=1)).all()
    steps = [np.unique(row, return_counts=True) for row in quantiles]
    expected = [reference.sample_crps(row, counts / 4000, 0.3) for row, counts in steps]
    assert (np.abs(nc.scores.crps(out, np.full(M, 0.3)) - expected) < reach).all()
    assert not out.has_density


def test_the_conservative_rule_only_widens():
    step, wide = local(), local(quantile_rule="conservative")
    p = np.array([0.001, 0.05, 0.25])
    assert (wide.ppf(p) <= step.ppf(p)).all()
    assert (wide.ppf(1 - p) >= step.ppf(1 - p)).all()
    assert (wide.var() >= step.var()).all()
    assert (wide.var() > step.var()).any()


def test_conservative_moments_of_equal_weights_by_hand():
    """Five scores: cumulated weights i / 5 become (i + 1) / 6 below the median and i / 6 above it."""
    rc = nc.LocalRecalibrator(k=5, smoothing="uniform", quantile_rule="conservative")
    y = np.array([0.0, 1.0, 2.0, 3.0, 10.0])
    out = rc.fit(nc.Normal(np.zeros(5), 1.0), y, np.zeros(5)).recalibrate(nc.Normal(0.0, 1.0), np.zeros(1))
    weights = np.array([2, 1, 0, 1, 2]) / 6
    np.testing.assert_allclose(out.cdf(y[np.newaxis])[0], np.cumsum(weights), rtol=1e-12)
    mean = weights @ y
    np.testing.assert_allclose(out.mean(), mean, rtol=1e-12)
    np.testing.assert_allclose(out.var(), weights @ (y - mean) ** 2, rtol=1e-12)


# ---- one coherent distribution --------------------------------------------------------------------------------------

TIED_BASES = {
    "Normal": lambda n: nc.Normal(np.zeros(n), 1.0),
    "Gamma": lambda n: nc.Gamma(np.full(n, 2.0), 1.5),
    "StudentT": lambda n: nc.StudentT(np.full(n, 5.0), 1.0, 2.0),
}
OTHER_BASES = {
    "Normal": nc.Normal(np.linspace(-1, 1, 30), np.linspace(0.3, 2, 30)),
    "Gamma": nc.Gamma(np.linspace(0.4, 9, 30), 1.0),
    "StudentT": nc.StudentT(np.linspace(3, 30, 30), np.linspace(-1, 1, 30), 1.0),
}
LEVELS = np.concatenate([[1e-9, 1e-6], np.linspace(0.001, 0.999, 99), [1 - 1e-6, 1 - 1e-9]])


def tied_responses(base, kind, rng):
    n = len(base)
    y = base.from_z(1.3 * rng.normal(size=n))
    if kind == "75% one value":
        return np.where(rng.uniform(size=n) < 0.75, base.median(), y)
    return np.maximum(np.round(y), 1.0) if isinstance(base, nc.Gamma) else np.round(y)


@pytest.mark.parametrize("rule", QUANTILE_RULES)
@pytest.mark.parametrize("kind", ["75% one value", "rounded"])
@pytest.mark.parametrize("family", TIED_BASES)
def test_tied_scores_are_atoms_that_quantiles_do_not_step_over(family, kind, rule):
    """The score of an atom may come back from its own response rounded down, and miss it."""
    rng = np.random.default_rng(4)
    dist, x = TIED_BASES[family](400), rng.normal(size=(400, 2))
    y = tied_responses(dist, kind, rng)
    recalibrators = [nc.LocalRecalibrator(k=40, quantile_rule=rule), nc.GlobalRecalibrator(quantile_rule=rule)]
    if rule in CONTINUOUS_RULES:
        recalibrators.append(nc.LocalRecalibrator(k=40, quantile_rule=rule, corrections=(nc.Shrinkage(), nc.Polish())))
    for rc in recalibrators:
        rc.fit(dist, y, x)
        for new in (dist[:30], OTHER_BASES[family]):
            out = rc.recalibrate(new, x[:30])
            assert not out.is_continuous
            quantiles = out.ppf(LEVELS)
            assert (out.cdf(quantiles) >= LEVELS - 1e-9).all()
            assert (out.cdf_left(quantiles) <= LEVELS + 1e-9).all()
            cdf = out.cdf(np.sort(np.concatenate([quantiles, np.nextafter(quantiles, -np.inf)], axis=1), axis=1))
            assert (np.diff(cdf, axis=1) >= -1e-12).all()  # values side by side: what is less is rounding


COHERENT = {
    "interpolated": {"quantile_rule": "interpolated"},
    "predictive": {"quantile_rule": "predictive"},
    "corrected": {"quantile_rule": "predictive", "corrections": (nc.LocalLinear(), nc.Shrinkage(), nc.Polish())},
}


KINKED_FAMILIES = {
    name for name in FAMILIES if name.startswith(("Laplace", "Mixture", "Samples", "Quantiles", "Recalibrated"))
}


@pytest.mark.parametrize("options", COHERENT.values(), ids=COHERENT)
@pytest.mark.parametrize("family", FAMILIES)
def test_density_moments_and_draws_are_of_the_distribution_function(family, options):
    dist, y, new = make_family(family)
    rc = nc.LocalRecalibrator(k=25, **options).fit(dist, y, SPACE)
    out = rc.recalibrate(new, SPACE_NEW)
    far = np.geomspace(8, 37, 400)[1:]
    t = np.concatenate([-far[::-1], np.linspace(-8, 8, 4_001), far])
    values = out.from_z(np.tile(t, (M, 1)))
    center = out.median()
    about = values - center[:, np.newaxis]  # so as to keep the digits of what is far from zero
    known = np.isfinite(out.var())
    assert known.mean() > 0.5
    about = about[known]
    mean = np.trapezoid(about * norm.pdf(t), t)
    spread = np.sqrt(np.trapezoid((about - mean[:, np.newaxis]) ** 2 * norm.pdf(t), t))
    # the quadrature has few nodes a piece: kinks of the base's quantile function cost it digits, and jumps more
    tolerance = 0.04 if not new.is_continuous else 5e-3 if family in KINKED_FAMILIES else 1e-5
    error = np.abs((out.mean() - center)[known] - mean)
    assert (error < tolerance * spread + np.spacing(np.abs(center[known]))).all()
    np.testing.assert_allclose(out.std()[known], spread, rtol=2 * tolerance)
    np.testing.assert_array_equal(out.sample(4, rng=3), out.from_z(np.random.default_rng(3).normal(size=(M, 4))))
    if not out.is_continuous or family == "Normal far from zero":  # where numbers are too sparse for narrow steps
        return
    # the probability between two values is the integral of the density: many narrow steps, the median of their errors
    values = out.from_z(np.tile(np.linspace(-4, 4, 1601), (M, 1)))
    low, high = values[:, :-1], values[:, 1:]
    probability = out.cdf(high) - out.cdf(low)
    wide = high - low > 1e-9 * np.abs(high)
    ratio = out.pdf((low + high) / 2) * (high - low) / np.where(wide, probability, 1.0)
    assert wide.mean() > 0.9
    assert np.median(np.abs(ratio - 1)[wide]) < 1e-4
    assert np.mean(np.abs(ratio - 1)[wide] < 1e-3) > 0.9  # the rest have a knot inside


@pytest.mark.parametrize("rule", ["step", "conservative"])
def test_weighted_samples_have_no_density(rule):
    for out in (local(quantile_rule=rule), nc.GlobalRecalibrator(quantile_rule=rule).fit(DIST, Y).recalibrate(NEW)):
        assert not out.has_density
        for ask in (out.pdf, out.logpdf):
            with pytest.raises(nc.InvalidInputError, match=r'has no density.* quantile_rule="predictive"'):
                ask(0.3)


def test_conservative_probabilities_of_weights_that_round_away():
    """The new point lies on a neighbour, the others have the least weight there is: its quantiles still reach them."""
    x = np.array([0.0, 1 - 1e-15, 1 - 1e-15, 1.0])[:, np.newaxis]
    rc = nc.LocalRecalibrator(k=4, smoothing="biweight", quantile_rule="conservative")
    out = rc.fit(nc.Normal(np.zeros(4), 1.0), [0.0, 1.0, 2.0, 9.0], x).recalibrate(nc.Normal([0.0], 1.0), [[0.0]])
    weights = out.weighted_sample(slice(None)).weights[0]
    assert weights[0] == 1
    assert 0 < weights[1] < 1e-15
    # C / (1 + 1) just below one half: the median is the next value, and half of all lies below that
    median = out.median()
    assert out.cdf(median) >= 0.5
    assert out.cdf_left(median) <= 0.5
    np.testing.assert_allclose(out.cdf([0.0]) + out.sf([0.0]), 1)


@pytest.mark.parametrize("knots", [[1.0, 1.0 + 2.3e-16], [3.0, 3.0 + 9e-16]])
def test_a_curve_whose_knots_rounding_has_all_but_joined_has_a_mean(knots):
    nodes, masses = Curve.shared(np.array(knots), np.array([-1.0, 1.0])).rule
    assert np.isfinite(nodes).all()
    assert masses.sum() == pytest.approx(1.0)
