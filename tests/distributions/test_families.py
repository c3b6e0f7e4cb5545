"""What is particular to a family."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

import nearcal as nc


def test_parameters_broadcast_and_are_copied():
    loc = np.zeros(4)
    d = nc.Normal(loc, 2.0)
    loc[:] = 9.0
    np.testing.assert_array_equal(d.mean(), np.zeros(4))
    assert len(nc.Normal(0.0, [[1.0], [2.0]])) == 2
    with pytest.raises(ValueError, match="read-only"):
        d.loc[0] = 1.0


def test_student_moments_where_they_do_not_exist():
    d = nc.StudentT([0.5, 1.5, 3.0], 7.0, 1.0)
    np.testing.assert_array_equal(d.mean(), [np.nan, 7.0, 7.0])
    np.testing.assert_allclose(d.var(), [np.nan, np.inf, 3.0], rtol=1e-15)


def test_support_ends():
    d = nc.Gamma(2.0, 3.0)
    np.testing.assert_array_equal(d.ppf([0.0, 1.0]), [[0.0, np.inf]])
    np.testing.assert_array_equal(d.pdf([[-1.0, 0.0]]), [[0.0, 0.0]])
    np.testing.assert_array_equal(nc.LogNormal(0.0, 1.0).cdf([[-1.0, 0.0]]), [[0.0, 0.0]])
    np.testing.assert_array_equal(nc.LogNormal(0.0, 1.0).pdf([[-1.0, 0.0]]), [[0.0, 0.0]])


def test_crossing_quantiles_are_repaired_and_levels_may_come_in_any_order():
    tidy = nc.Quantiles([0.1, 0.5, 0.9], [[0.0, 1.0, 2.0]])
    messy = nc.Quantiles([0.9, 0.1, 0.5], [[1.0, 0.0, 2.0]])
    np.testing.assert_array_equal(messy.values, tidy.values)


def test_quantiles_of_a_normal_give_the_normal_back():
    levels = np.array([0.05, 0.3, 0.5, 0.9])
    d = nc.Quantiles(levels, 3 + 2 * ndtri(levels)[None])
    normal = nc.Normal(3.0, 2.0)
    p = np.array([1e-9, 0.01, 0.2, 0.6, 0.999])
    np.testing.assert_allclose(d.ppf(p), normal.ppf(p), rtol=1e-12)
    np.testing.assert_allclose(d.mean(), 3.0, rtol=1e-12)
    np.testing.assert_allclose(d.var(), 4.0, rtol=1e-12)
    np.testing.assert_allclose(d.logpdf([[-9.0, 3.3, 15.0]]), normal.logpdf([[-9.0, 3.3, 15.0]]), rtol=1e-12)


@pytest.mark.parametrize("tails", ["normal", "empirical"])
def test_quantile_moments_against_a_grid(tails):
    d = nc.Quantiles([0.1, 0.2, 0.7, 0.95], [[0.0, 2.0, 2.0, 30.0]], tails=tails)
    draws = d.ppf((np.arange(200_000) + 0.5) / 200_000)[0]
    np.testing.assert_allclose(d.mean(), draws.mean(), rtol=1e-5)
    np.testing.assert_allclose(d.var(), draws.var(), rtol=1e-3)


def test_tail_slope_keeps_skewness_and_survives_a_flat_half():
    d = nc.Quantiles([0.1, 0.5, 0.9], [[0.0, 1.0, 5.0], [0.0, 0.0, 5.0]])
    z = ndtri(0.9)
    np.testing.assert_allclose(d.from_z(np.full((2, 1), z + 1)) - 5.0, [[4 / z], [5 / z]])
    np.testing.assert_allclose(d.from_z(np.full((2, 1), -z - 1)), [[-1 / z], [-5 / (2 * z)]])


def test_empirical_samples_are_the_paper_s():
    d = nc.Samples([[3.0, 1.0, 2.0, 2.0]], tails="empirical")
    np.testing.assert_array_equal(d.cdf([[0.0, 1.0, 2.0, 2.5, 3.0]]), [[0.0, 0.25, 0.75, 0.75, 1.0]])
    np.testing.assert_array_equal(d.ppf([0.0, 0.25, 0.26, 0.75, 0.76, 1.0]), [[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]])
    # outside the draws: half a draw from the ends
    np.testing.assert_allclose(d.z([[-9.0, 99.0]]), [[ndtri(1 / 8), ndtri(7 / 8)]])


def test_weighted_samples_equal_repeated_draws():
    weighted = nc.Samples([[1.0, 2.0, 5.0, 7.0]], [3.0, 1.0, 2.0, 0.0], tails="empirical")
    repeated = nc.Samples([[1.0, 1.0, 1.0, 2.0, 5.0, 5.0]], tails="empirical")
    p = np.linspace(0, 1, 41)
    np.testing.assert_array_equal(weighted.ppf(p), repeated.ppf(p))
    np.testing.assert_allclose(weighted.mean(), repeated.mean())
    np.testing.assert_allclose(weighted.var(), repeated.var())


def test_zero_weight_draws_do_not_matter():
    draws, weights = np.array([[-50.0, 1.0, 2.0, 3.0, 99.0, 4.0]]), np.array([0.0, 1.0, 2.0, 0.0, 0.0, 1.0])
    kept = weights > 0
    with_zeros, without = nc.Samples(draws, weights), nc.Samples(draws[:, kept], weights[kept])
    z = np.linspace(-6, 6, 49)[None]
    np.testing.assert_allclose(with_zeros.from_z(z), without.from_z(z), rtol=1e-12)
    np.testing.assert_allclose(with_zeros.z(z), without.z(z), rtol=1e-12)
    np.testing.assert_allclose(with_zeros.logpdf(z), without.logpdf(z), rtol=1e-12)


def test_mixture_of_equal_components_is_the_component():
    component = nc.Gamma([2.0, 5.0], 1.5)
    d = nc.Mixture([0.2, 0.8], [component, component])
    p = [1e-12, 0.1, 0.5, 0.999]
    np.testing.assert_allclose(d.ppf(p), component.ppf(p), rtol=1e-12)
    np.testing.assert_allclose(d.var(), component.var(), rtol=1e-12)


def test_mixture_quantile_spans_orders_of_magnitude():
    d = nc.Mixture([0.3, 0.7], [nc.Gamma(2.0, 1.0), nc.Normal(10.0, 0.1)])
    z = np.array([[-37.0, -30.0, 0.0]])
    assert d.from_z(z)[0, 0] < 1e-100
    np.testing.assert_allclose(d.z(d.from_z(z)), z, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("frozen", "native"),
    [
        (stats.norm([0.0, 1.0], 2.0), nc.Normal),
        (stats.gamma([2.0, 3.0], scale=2.0), nc.Gamma),
        (stats.lognorm(0.5, scale=[1.0, 2.0]), nc.LogNormal),
        (stats.t(5, loc=[0.0, 1.0]), nc.StudentT),
        (stats.laplace(scale=[1.0, 2.0]), nc.Laplace),
        (stats.gamma(2.0, loc=[1.0, 2.0]), nc.ScipyDistribution),
        (stats.weibull_min([1.5, 2.0], scale=3.0), nc.ScipyDistribution),
        (stats.beta(2.0, [3.0, 4.0]), nc.ScipyDistribution),
    ],
)
def test_from_scipy(frozen, native):
    d = nc.from_scipy(frozen)
    assert type(d) is native
    p = np.array([[0.001, 0.3, 0.99]] * 2)
    np.testing.assert_allclose(d.ppf(p), frozen.ppf(p.T).T, rtol=1e-10)
    np.testing.assert_allclose(d.mean(), frozen.mean(), rtol=1e-10)
    np.testing.assert_allclose(d.std(), frozen.std(), rtol=1e-10)
    np.testing.assert_allclose(d.logpdf(d.ppf(p)), frozen.logpdf(d.ppf(p).T).T, rtol=1e-10)


@pytest.mark.parametrize("wrong", [stats.poisson(3.0), 3.0, stats.norm])
def test_from_scipy_refuses(wrong):
    with pytest.raises(nc.InvalidInputError, match="frozen continuous scipy"):
        nc.from_scipy(wrong)


def test_from_torch():
    torch = pytest.importorskip("torch")
    t = torch.distributions
    loc, scale = torch.tensor([0.0, 1.0], requires_grad=True), torch.tensor([1.0, 2.0])
    pairs = [
        (t.Normal(loc, scale), nc.Normal([0.0, 1.0], [1.0, 2.0])),
        (t.LogNormal(loc, scale), nc.LogNormal([0.0, 1.0], [1.0, 2.0])),
        (t.Laplace(loc, scale), nc.Laplace([0.0, 1.0], [1.0, 2.0])),
        (t.StudentT(5.0, loc, scale), nc.StudentT(5.0, [0.0, 1.0], [1.0, 2.0])),
        (t.Cauchy(loc, scale), nc.StudentT(1.0, [0.0, 1.0], [1.0, 2.0])),
        (t.Gamma(scale, scale), nc.Gamma([1.0, 2.0], [1.0, 0.5])),
        (t.Chi2(scale), nc.Gamma([0.5, 1.0], 2.0)),
        (t.Exponential(scale), nc.Gamma(1.0, [1.0, 0.5])),
        (t.Independent(t.Normal(loc, scale), 1), nc.Normal([0.0, 1.0], [1.0, 2.0])),
        (
            t.MixtureSameFamily(t.Categorical(torch.tensor([0.25, 0.75])), t.Normal(torch.zeros(2, 2), torch.ones(2))),
            nc.Mixture([0.25, 0.75], [nc.Normal([0.0, 0.0], 1.0), nc.Normal([0.0, 0.0], 1.0)]),
        ),
    ]
    for theirs, ours in pairs:
        d = nc.from_torch(theirs)
        assert type(d) is type(ours)
        np.testing.assert_allclose(d.ppf([0.1, 0.5, 0.9]), ours.ppf([0.1, 0.5, 0.9]), rtol=1e-6)
    with pytest.raises(nc.InvalidInputError, match=r"nearcal\.Samples"):
        nc.from_torch(t.Uniform(loc, scale + 5))
    with pytest.raises(nc.InvalidInputError, match=r"torch\.distributions"):
        nc.from_torch(3.0)


@pytest.mark.parametrize("weights", [None, [0.1, 0.3, 0.2, 0.4]])
def test_equal_draws_are_an_atom(weights):
    d = nc.Samples([[1.0, 1.0, 2.0, 3.0]], weights)
    assert not d.is_continuous
    np.testing.assert_array_equal(d.cdf_left(1.0), d.cdf(np.nextafter(1.0, 0.0)))
    assert d.cdf_left(1.0) < d.cdf(1.0)


def test_a_copy_of_weight_zero_is_no_atom():
    d = nc.Samples([[1.0, 1.0, 2.0, 3.0]], [0.0, 0.3, 0.3, 0.4])
    assert d.is_continuous


def test_torch_mixture_of_events_of_one_number():
    torch = pytest.importorskip("torch")
    t = torch.distributions
    loc, scale = torch.tensor([[[0.0], [1.0]], [[2.0], [3.0]]]), torch.ones(2, 2, 1)
    parts = t.Independent(t.Normal(loc, scale), 1)
    d = nc.from_torch(t.MixtureSameFamily(t.Categorical(torch.tensor([0.25, 0.75])), parts))
    np.testing.assert_allclose(d.mean(), [0.75, 2.75], rtol=1e-12)
    wide = t.Independent(t.Normal(torch.zeros(2, 2, 3), 1.0), 1)
    with pytest.raises(nc.InvalidInputError, match=r"events of shape \(1,\), got \(3,\)"):
        nc.from_torch(t.MixtureSameFamily(t.Categorical(torch.tensor([0.25, 0.75])), wide))


def test_the_greatest_draw_is_the_last_quantile_however_light():
    d = nc.Samples([[1.0, 2.0, 3.0]], [1.0, 1.0, 1e-16], tails="empirical")
    np.testing.assert_array_equal(d.ppf([0.5, 1 - 1e-9, 1.0]), [[1.0, 2.0, 3.0]])
    light = nc.Samples([[1.0, 2.0, 3.0]], [1e-16, 1.0, 1.0], tails="empirical")
    np.testing.assert_array_equal(light.ppf([0.0, 1e-17, 1e-15, 0.4]), [[1.0, 1.0, 2.0, 2.0]])
    np.testing.assert_array_equal(light.from_z([[-9.0, -8.0]]), [[1.0, 2.0]])  # Φ is 1e-19 and 6e-16


def test_both_tails_of_draws_are_sums_of_their_own():
    """1 - cdf would lose what is lighter than 1e-16."""
    d = nc.Samples([[0.0, 1.0, 2.0]], [1e-30, 1.0, 1e-25], tails="empirical")
    np.testing.assert_allclose([d.cdf(0.5)[0], d.sf(1.5)[0]], [1e-30, 1e-25], rtol=1e-12)
    np.testing.assert_allclose([d.logcdf(0.5)[0], d.logsf(1.5)[0]], np.log([1e-30, 1e-25]), rtol=1e-12)


def test_levels_that_sums_of_weights_meet_up_to_rounding():
    for s in (3, 7, 10, 49, 1000):
        d = nc.Samples([np.arange(s)], tails="empirical")
        np.testing.assert_array_equal(d.ppf(np.arange(1, s + 1) / s)[0], np.arange(s))


@pytest.mark.parametrize("family", [nc.Normal, nc.Laplace, lambda loc, scale: nc.StudentT(3.0, loc, scale)])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_differences_that_overflow_are_still_so_many_scales(family, sign):
    far, standard = family(-sign * 1e300, 1e300), family(0.0, 1.0)
    y = sign * np.finfo(np.float64).max
    for name in ("z", "cdf", "sf", "logcdf", "logsf"):
        np.testing.assert_allclose(getattr(far, name)(y), getattr(standard, name)(y / 1e300 + sign), rtol=1e-12)
    np.testing.assert_allclose(far.logpdf(y), standard.logpdf(y / 1e300 + sign) - np.log(1e300), rtol=1e-12)


@pytest.mark.parametrize(
    "dist", [nc.Normal(-1e300, 1e-9), nc.Laplace(-1e300, 1e-9), nc.StudentT(3.0, -1e300, 1e-9), nc.Gamma(2.0, 1e-9)]
)
def test_scores_too_large_for_a_number_need_no_context(dist):
    """Code within the library, and other threads, evaluate families without the context of the public functions."""
    y = np.full((1, 1), 1e308)
    assert dist._logcdf(y) == 0.0
    assert dist._z(y) > 30


@pytest.mark.parametrize("family", [nc.Normal, nc.Laplace])
def test_a_scale_so_small_that_all_else_is_infinitely_far(family):
    np.testing.assert_array_equal(family([0.3, 0.3], 1e-320).cdf([1.6, 0.1]), [1.0, 0.0])


TOO_LARGE = {
    "Normal": lambda: nc.Normal([0.0, -1.1e300], 1.0),
    "LogNormal": lambda: nc.LogNormal(0.0, 1e305),
    "Gamma": lambda: nc.Gamma(2.0, [1.0, 1e308]),
    "StudentT": lambda: nc.StudentT(3.0, 0.0, 1e308),
    "Laplace": lambda: nc.Laplace(0.0, 1.1e300),
    "Samples": lambda: nc.Samples([[0.0, 1e308]]),
    "Quantiles": lambda: nc.Quantiles([0.1, 0.9], [[-1e308, 1e308]]),
    "scipy": lambda: nc.from_scipy(stats.gumbel_r(1e308, 1.0)),
}


@pytest.mark.parametrize("family", TOO_LARGE)
def test_parameters_so_large_that_their_sums_are_no_numbers_are_refused(family):
    with pytest.raises(nc.InvalidInputError, match=r"must lie between -1e\+300 and 1e\+300, got .* in a larger unit"):
        TOO_LARGE[family]()


SHAPES = {
    "Gamma": (lambda a: nc.Gamma([1.0, a], 1.0), 1e-50, 1e30),
    "StudentT": (lambda df: nc.StudentT([1.0, df], 0.0, 1.0), 1e-50, 1e200),
    "LogNormal": (lambda sigma: nc.LogNormal([0.0, 0.0], [1.0, sigma]), 1e-300, 1e100),
}


@pytest.mark.parametrize("family", SHAPES)
def test_shapes_that_no_formula_holds_for_are_refused(family):
    """Quantiles, densities and scores beyond were NaN, in silence or with a warning of numpy's."""
    make, least, most = SHAPES[family]
    for shape in [most * 1.1] + [least / 1.1] * (family != "LogNormal"):
        with pytest.raises(nc.InvalidInputError, match=r"must lie between .* at index 1: .*; bound it in the model"):
            make(shape)
    for shape in (least, most):
        d = make(shape)
        y = np.array([[-np.inf, -1e300, 0.0, 1e-320, 1e-300, 1e-10, 1.0, 1e10, 1e300, np.inf]])
        for ask in (d.cdf, d.sf, d.logcdf, d.logsf, d.z, d.logpdf):
            assert not np.isnan(ask(y)).any(), ask
        for q in (d.ppf([1e-300, 1e-9, 0.5, 0.9, 1 - 1e-9]), d.from_z([[-40.0, -3.0, 0.0, 3.0, 37.0, 40.0]])):
            assert (q[:, 1:] >= q[:, :-1]).all()  # which may be infinite


def test_the_density_of_a_large_shape_vanishes_at_zero():
    np.testing.assert_array_equal(nc.Gamma([99.0, 100.0, 1e3, 1e8], 1.0).logpdf(0.0), -np.inf)


def test_levels_too_close_for_values_so_large_are_refused():
    levels = [0.5, np.nextafter(0.5, 1.0)]
    with pytest.raises(nc.InvalidInputError, match=r"levels must be farther apart .* in row 1 .* change the unit"):
        nc.Quantiles(levels, [[0.0, 1.0], [-1e299, 1e299]])
    assert np.isfinite(nc.Quantiles(levels, [[0.0, 1.0]]).std()).all()
