"""What every distribution promises, checked on every family, recalibrated ones included."""

import copy
import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

import nearcal as nc

RNG = np.random.default_rng(7)
DRAWS = RNG.normal([[0.0], [5.0], [-3.0]], [[1.0], [0.1], [30.0]], size=(3, 40))
LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]
QUANTILES = [[-2.0, -1.0, 0.0, 3.0, 9.0], [1.0, 1.1, 1.2, 1.3, 1.4], [0.0, 5.0, 6.0, 50.0, 400.0]]


def recalibrated(rule, **options):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 2))
    y = rng.standard_t(5, size=400) * np.exp(x[:, 0])
    rc = nc.LocalRecalibrator(quantile_rule=rule, **options).fit(nc.Normal(np.zeros(400), 3.0), y, x)
    return rc.recalibrate(nc.Gamma([2.0, 3.0, 50.0], [1.0, 2.0, 0.1]), [[0.0, 0.0], [1.0, 1.0], [9.0, 9.0]])


def mapped(recalibrator, y):
    rc = recalibrator.fit(nc.Normal(np.zeros(len(y)), 3.0), y)
    return rc.recalibrate(nc.Gamma([2.0, 3.0, 50.0], [1.0, 2.0, 0.1]))


# evenly spread, since two responses that nearly agree make a spike of density that no grid would find
HEAVY = stats.t(5).ppf((np.arange(40) + 0.5) / 40)
PARAMETRIC = {
    "normal": nc.Normal([0.0, 5.0, -1e6], [1.0, 0.1, 1e3]),
    "lognormal": nc.LogNormal([0.0, 5.0, -2.0], [1.0, 0.1, 2.0]),
    "gamma": nc.Gamma([3.0, 100.0, 1e4], [1.0, 0.01, 5.0]),
    "exponential": nc.Gamma(1.0, [1.0, 1e-3, 1e3]),
    "student": nc.StudentT([2.5, 5.0, 300.0], [0.0, 1.0, -2.0], [1.0, 0.1, 3.0]),
    "near-normal student": nc.StudentT(1e6, [0.0, 1.0, -2.0], [1.0, 0.1, 3.0]),
    "laplace": nc.Laplace([0.0, 5.0, -1.0], [1.0, 0.1, 3.0]),
    "mixture": nc.Mixture([0.3, 0.7], [nc.Normal([0.0, 5.0, -1.0], 1.0), nc.Normal([9.0, 5.0, 1.0], [0.1, 2.0, 1.0])]),
    "mixed families": nc.Mixture(
        [[0.5, 0.5], [0.9, 0.1], [1.0, 0.0]], [nc.Gamma([2.0, 3.0, 4.0], 1.0), nc.Laplace([9.0, 5.0, 1.0], 2.0)]
    ),
}
CONTINUOUS = {
    **PARAMETRIC,
    "samples": nc.Samples(DRAWS),
    "weighted samples": nc.Samples(DRAWS, RNG.uniform(size=(3, 40)) * (RNG.uniform(size=(3, 40)) < 0.8)),
    "quantiles": nc.Quantiles(LEVELS, QUANTILES),
    "scipy": nc.from_scipy(stats.gumbel_r([0.0, 1.0, -5.0], [1.0, 0.1, 10.0])),
    "recalibrated, interpolated": recalibrated("interpolated", k=60),
    "recalibrated, predictive": recalibrated("predictive", k=12),
    "isotonic": mapped(nc.IsotonicRecalibrator(), HEAVY),
    "variance scaling": mapped(nc.VarianceScaling(), HEAVY),
    "conformal": mapped(nc.ConformalRecalibrator(), HEAVY),
}
ATOMIC = {
    "nearest neighbours": nc.KNNRegressor(k=9).fit(None, HEAVY, np.arange(40.0)).recalibrate(None, [0.0, 20.0, 99.0]),
    "empirical samples": nc.Samples(DRAWS, tails="empirical"),
    "empirical weighted samples": nc.Samples(DRAWS, RNG.uniform(size=40), tails="empirical"),
    "empirical quantiles": nc.Quantiles(LEVELS, QUANTILES, tails="empirical"),
    "recalibrated": recalibrated("step", k=60),
    "recalibrated, conservative": recalibrated("conservative", k=60),
    "recalibrated, radius and base": recalibrated("step", radius=0.5, thin="base"),
    "recalibrated, radius and global": recalibrated("step", radius=0.5, thin="global"),
    "recalibrated twice": nc.GlobalRecalibrator()
    .fit(nc.Normal(np.zeros(50), 1.0), np.random.default_rng(1).normal(size=50))
    .recalibrate(recalibrated("step", k=60)),
}
ALL = {**CONTINUOUS, **ATOMIC}
P = np.array([1e-6, 0.01, 0.2, 0.5, 0.7, 0.99, 1 - 1e-6])


def over(cases):
    return pytest.mark.parametrize("d", cases.values(), ids=cases.keys())


@over(ALL)
def test_cdf_is_monotone_between_zero_and_one(d):
    y = np.sort(np.concatenate([d.ppf(P), d.ppf(P) + d.std()[:, None], d.ppf(P) - d.std()[:, None]], axis=1), axis=1)
    cdf = d.cdf(y)
    assert (np.diff(cdf, axis=1) >= 0).all()
    assert (cdf >= 0).all()
    assert (cdf <= 1).all()
    np.testing.assert_array_equal(d.cdf(np.inf), 1.0)
    np.testing.assert_array_equal(d.cdf(-np.inf), 0.0)


@over(ALL)
def test_tails_agree(d):
    y = d.ppf(P)
    np.testing.assert_allclose(d.cdf(y) + d.sf(y), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.exp(d.logcdf(y)), d.cdf(y), rtol=1e-12)
    np.testing.assert_allclose(np.exp(d.logsf(y)), d.sf(y), rtol=1e-12)


@over(CONTINUOUS)
def test_cdf_inverts_ppf(d):
    np.testing.assert_allclose(d.cdf(d.ppf(P)), np.tile(P, (3, 1)), rtol=1e-9)


@over(ATOMIC)
def test_ppf_is_the_galois_inverse_of_an_atomic_cdf(d):
    if getattr(d, "quantile_rule", "") == "conservative":
        pytest.skip("moves quantiles outwards on purpose; tested in test_quantile_rules")
    quantiles = d.ppf(P)
    assert (d.cdf(quantiles) >= P - 1e-9).all()
    below = quantiles - 1e-6 * d.std()[:, None]
    assert (d.cdf(below) <= P + 1e-9).all()


@pytest.mark.parametrize("reach", [9.0, 37.0])
@over(PARAMETRIC)
def test_scores_round_trip_far_into_both_tails(d, reach):
    z = np.tile(np.linspace(-reach, reach, 75), (3, 1))
    # where a value crosses zero only its absolute error is bounded, hence the score's through the density there
    np.testing.assert_allclose(d.z(d.from_z(z)), z, rtol=1e-10, atol=1e-9)


@over(CONTINUOUS)
def test_scores_round_trip(d):
    z = np.tile(np.linspace(-9, 9, 37), (3, 1))
    np.testing.assert_allclose(d.z(d.from_z(z)), z, rtol=1e-9, atol=1e-9)


@over(ALL)
def test_scores_are_finite_for_any_finite_response_inside_the_support(d):
    low = d.ppf(1e-6)
    assert np.isfinite(d.z(d.ppf(0.999) + 1000 * d.std())).all()
    assert np.isfinite(d.z(np.where(low > 0, low / 2, low - 1000 * d.std()))).all()
    assert np.isfinite(d.from_z(np.array([-36.0, 36.0, 30.0]))).all()


def ruler(d):
    """Return a continuous batch that spans the same range as d, to lay a fine grid along it."""
    while isinstance(d, nc.Recalibrated | nc.MappedDistribution):
        d = d.base
    return nc.Normal(d.mean(), 2 * d.std()) if isinstance(d, nc.Samples | nc.Mixture) else d


@over(ALL)
def test_density_integrates_to_the_continuous_mass(d):
    y = ruler(d).from_z(np.tile(np.linspace(-20, 20, 20001), (3, 1)))
    density = d.pdf(y)
    total = (0.5 * (density[:, 1:] + density[:, :-1]) * np.diff(y, axis=1)).sum(axis=1)
    # the outermost levels of the empirical quantiles carry atoms of 5% each
    np.testing.assert_allclose(total, 0.9 if d is ATOMIC["empirical quantiles"] else 1.0, atol=2e-3)


@over(CONTINUOUS)
def test_density_is_the_slope_of_the_cdf(d):
    if isinstance(d, nc.Samples | nc.Recalibrated):
        pytest.skip("the density of a sample is a kernel estimate")
    y = d.ppf([0.1, 0.3, 0.6, 0.9])
    step = 1e-6 * d.std()[:, None] if np.isfinite(d.std()).all() else 1e-6
    slope = (d.cdf(y + step) - d.cdf(y - step)) / (2 * step)
    np.testing.assert_allclose(d.pdf(y), slope, rtol=1e-4, atol=1e-9)


@over(ALL)
def test_moments_agree_with_draws(d):
    n = 4000
    draws = d.sample(n, rng=5)
    assert draws.shape == (3, n)
    # six standard errors of the mean; Student t with 2.5 degrees of freedom is why the bound uses the draws' own spread
    error = np.maximum(draws.std(axis=1), d.std()) / np.sqrt(n)
    # a Samples or interpolated batch draws from its interpolation, which differs from its draws by a spacing or so
    spacing = 0.1 * d.std() if isinstance(d, nc.Samples | nc.Recalibrated) and d.is_continuous else 0.0
    assert (np.abs(draws.mean(axis=1) - d.mean()) < 6 * error + spacing).all()


@over(ALL)
def test_sampling_is_reproducible(d):
    np.testing.assert_array_equal(d.sample(5, rng=1), d.sample(5, rng=np.random.default_rng(1)))
    assert (d.sample(5, rng=1) != d.sample(5, rng=2)).any()


@over(ALL)
def test_sampling_follows_the_cdf(d):
    uniform = d.cdf(d.sample(2000, rng=11)) if d.is_continuous else None
    if uniform is None:
        pytest.skip("an atomic cdf of its own draws is not uniform")
    # Kolmogorov-Smirnov at 2,000 draws: P(D > 0.05) < 2 exp(-2 · 2000 · 0.05²) = 9e-5 a row
    distance = np.abs(np.sort(uniform, axis=1) - (np.arange(2000) + 0.5) / 2000).max(axis=1)
    assert (distance < 0.05).all()


@over(ALL)
def test_shapes_of_questions_and_answers(d):
    y = d.median()
    assert d.cdf(0.5).shape == (3,)
    assert d.cdf(y).shape == (3,)
    assert d.cdf(y[:, None]).shape == (3, 1)
    assert d.cdf(np.tile(y[:, None], 4)).shape == (3, 4)
    assert d.ppf(0.5).shape == (3,)
    assert d.ppf([0.5]).shape == (3, 1)
    assert d.ppf([0.1, 0.5, 0.9, 0.99]).shape == (3, 4)
    assert d.ppf(np.full((3, 4), 0.5)).shape == (3, 4)
    assert all(part.shape == (3,) for part in d.interval(0.9))
    np.testing.assert_array_equal(d.median(), d.ppf(0.5))
    if isinstance(d, nc.ConformalDistribution):
        return  # its intervals move outwards on purpose; tested in test_conformal
    np.testing.assert_array_equal(np.array(d.interval(0.9)), d.ppf([0.05, 0.95]).T)


@over(ALL)
@pytest.mark.parametrize("rows", [1, -1, slice(1, 3), np.array([True, False, True]), np.array([2, 0, 0]), [1]], ids=str)
def test_slicing_equals_slicing_the_results(d, rows):
    part = d[rows]
    expected = np.atleast_1d(np.arange(3)[rows])
    assert len(part) == len(expected)
    np.testing.assert_array_equal(part.ppf(P), d.ppf(P)[expected])
    # a single row is always of one shape parameter, and takes the shorter way to its mean
    np.testing.assert_allclose(part.mean(), d.mean()[expected], rtol=1e-13)
    np.testing.assert_array_equal(part.logpdf(1.0), d.logpdf(1.0)[expected])


@over(ALL)
def test_batches_are_frozen_and_copy(d):
    with pytest.raises(AttributeError, match="frozen"):
        d.loc = 3.0
    for twin in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        np.testing.assert_array_equal(twin.ppf(P), d.ppf(P))
    assert "n=3" in repr(d)


def test_levels_are_scores():
    d = nc.Quantiles(LEVELS, QUANTILES)
    np.testing.assert_allclose(d.z(QUANTILES), np.tile(ndtri(LEVELS), (3, 1)), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(nc.Samples(DRAWS).cdf(np.sort(DRAWS)), np.tile((np.arange(40) + 0.5) / 40, (3, 1)))


def test_far_normal_observation_keeps_its_score():
    assert nc.Normal(0.0, 1.0).z(40.0) == 40.0
    assert nc.Normal(0.0, 1.0).from_z(-40.0) == -40.0
    assert ndtr(40.0) == 1.0  # what a probability would have kept
