"""Local recalibration of every family, with every combination of options, of degenerate calibration sets."""

import itertools

import numpy as np
import pytest

import nearcal as nc
from nearcal.recalibration import CONTINUOUS_RULES, QUANTILE_RULES, SMOOTHINGS
from nearcal.space import METRICS, SCALINGS
from tests.recalibration.cases import (
    DIST,
    FAMILIES,
    NEW,
    RNG,
    SPACE,
    SPACE_NEW,
    D,
    M,
    N,
    P,
    Y,
    assert_equals_its_weighted_sample,
    assert_sound,
    local,
    make_family,
)

DEGENERATE = {
    "duplicated points": lambda: local(np.repeat(Y[:30], 2), np.repeat(SPACE[:30], 2, axis=0), k=5),
    "duplicated positions": lambda: local(space=np.repeat(SPACE[:6], 10, axis=0), k=10),
    "k = 1": lambda: local(k=1),
    "k = n": lambda: local(k=N),
    "all distances zero": lambda: local(space=np.ones((N, D)), space_new=np.ones((M, D))),
    "all distances equal": lambda: local(space=np.ones((N, D)), space_new=np.zeros((M, D))),
    "equal scores": lambda: local(y=np.full(N, 0.3)),
    "scores of two values": lambda: local(y=np.where(Y > 0, 0.3, -0.3)),
    "one calibration point": lambda: local(Y[:1], SPACE[:1], dist=DIST[:1], k=1),
    "two calibration points": lambda: local(Y[:2], SPACE[:2], dist=DIST[:2], k=2),
    "one new point": lambda: local(new=NEW[0], space_new=SPACE_NEW[:1]),
    "new points are calibration points": lambda: local(space_new=SPACE[:M]),
    "d = 1": lambda: local(space=SPACE[:, 0], space_new=SPACE_NEW[:, 0]),
    "d = 300": lambda: local(space=RNG.normal(size=(N, 300)), space_new=RNG.normal(size=(M, 300))),
    "far new points": lambda: local(space_new=SPACE_NEW + 1e9),
    "tiny distances": lambda: local(space=SPACE * 1e-145, space_new=SPACE_NEW * 1e-145),
    "large distances": lambda: local(space=SPACE * 1e140, space_new=SPACE_NEW * 1e140),
    "constant column": lambda: local(space=SPACE * [1, 1, 0] + 0.1, space_new=SPACE_NEW, scaling="standard"),
    "all columns constant": lambda: local(space=np.full((N, D), 0.1), scaling="standard"),
    "whitened constant column": lambda: local(space=SPACE * [1, 1, 0] + 0.1, scaling="whiten"),
    "whitened plane": lambda: local(space=SPACE @ [[1, 0, 1], [0, 1, 1], [0, 0, 0]], scaling="whiten"),
    "whitened n < d": lambda: local(
        Y[:5], RNG.normal(size=(5, 9)), RNG.normal(size=(M, 9)), DIST[:5], k=3, scaling="whiten"
    ),
    "eps": lambda: local(eps=0.5),
    "one thread": lambda: local(workers=nc.Workers(threads=1)),
    "least memory": lambda: local(workers=nc.Workers(memory=2**20)),
}


@pytest.mark.parametrize("build", DEGENERATE.values(), ids=DEGENERATE)
def test_degenerate_sets(build):
    out = build()
    assert_sound(out)
    assert_equals_its_weighted_sample(out)


def test_k_equal_n_with_uniform_weights_is_global():
    everyone = nc.GlobalRecalibrator().fit(DIST, Y).recalibrate(NEW)
    out = local(k=N, smoothing="uniform")
    np.testing.assert_allclose(out.mean(), everyone.mean(), rtol=1e-12)
    np.testing.assert_array_equal(out.ppf(P), everyone.ppf(P))


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("rule", QUANTILE_RULES)
def test_every_combination_of_options_is_sound(smoothing, rule):
    for metric, scaling in itertools.product(METRICS, SCALINGS):
        chosen = {"smoothing": smoothing, "quantile_rule": rule, "metric": metric, "scaling": scaling}
        assert_sound(local(**chosen))
    assert_sound(local(radius=nc.Radius(1.5, 8), smoothing=smoothing, quantile_rule=rule))


@pytest.mark.parametrize("df", [1.0, 2.0])
def test_a_far_kth_neighbour_of_weight_zero_does_not_count(df):
    """At 40 σ a t quantile or its square overflows."""
    z = np.random.default_rng(0).normal(size=200)
    z[0] = 40.0
    rc = nc.LocalRecalibrator(k=11).fit(nc.Normal(np.zeros(200), 1.0), z, np.arange(200.0))
    one_family = rc.recalibrate(nc.StudentT(df, 0.0, 1.0), [5.0])  # point 0 is at the edge of this neighbourhood
    families = rc.recalibrate(nc.StudentT([df, 9.0], np.zeros(2), 1.0), [5.0, 5.0])
    np.testing.assert_allclose(one_family.mean(), families.mean()[:1], rtol=1e-12)
    np.testing.assert_allclose(one_family.var(), families.var()[:1], rtol=1e-12)


def test_a_single_neighbour_is_interpolated_alike_whatever_stands_beside_it():
    options = {"smoothing": "uniform", "quantile_rule": "interpolated", "workers": nc.Workers(threads=1)}
    rc = nc.LocalRecalibrator(radius=nc.Radius(1.0, 1), **options)
    rc.fit(nc.Normal(np.zeros(4), 1.0), [1.0, 0.3, 0.2, 2.0], [0, 9, 9, 9])
    new = nc.Normal(np.zeros(2), 1.0)
    levels = [0.01, 0.4, 0.6, 0.99]
    together = rc.recalibrate(new, [0.0, 9.0]).ppf(levels)
    alone = rc.recalibrate(new[:1], [0.0]).ppf(levels)
    np.testing.assert_array_equal(alone[0], together[0])
    nearest = nc.LocalRecalibrator(k=1, **options).fit(nc.Normal(0.0, 1.0), [1.0], [0.0])
    np.testing.assert_array_equal(nearest.recalibrate(new[:1], [0.0]).ppf(levels), alone)


def test_equal_calibration_scores_are_an_atom_of_an_interpolated_result():
    rc = nc.LocalRecalibrator(k=4, smoothing="uniform", quantile_rule="interpolated")
    out = rc.fit(nc.Normal(np.zeros(4), 1.0), [0.0, 0.0, 1.0, 2.0], np.zeros(4)).recalibrate(nc.Normal(0.0, 1.0), [0.0])
    assert not out.is_continuous
    np.testing.assert_array_equal(out.cdf_left(0.0), out.cdf(np.nextafter(0.0, -1.0)))
    assert out.cdf_left(0.0) < out.cdf(0.0)


# ---- every family ---------------------------------------------------------------------------------------------------


def beside_the_median(out):
    lower, upper = out.interval(0.5)
    return out.median() + 0.01 * (upper - lower)


def is_heavy(base):
    return isinstance(base, nc.StudentT)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return make_family(request.param)


@pytest.mark.parametrize("rule", QUANTILE_RULES)
def test_every_family_is_sound(family, rule):
    dist_cal, y, dist_new = family
    out = local(y, dist=dist_cal, new=dist_new, quantile_rule=rule)
    assert_sound(out, y=beside_the_median(out), heavy=is_heavy(dist_new))


@pytest.mark.parametrize("options", [{"k": 15}, {"radius": nc.Radius(2.0, 5), "smoothing": "gaussian"}])
def test_every_statistic_is_that_of_the_weighted_sample(family, options):
    dist_cal, y, dist_new = family
    assert_equals_its_weighted_sample(local(y, dist=dist_cal, new=dist_new, **options))


@pytest.mark.parametrize("rule", QUANTILE_RULES)
def test_points_40_sigma_out_leave_everything_finite(family, rule):
    dist_cal, y, dist_new = family
    y = y.copy()
    reach = 20.0 if isinstance(dist_new, nc.ScipyDistribution) else 40.0  # scipy's quantiles end at scores of 37
    y[[3, 7]] = dist_cal.from_z(np.tile([-reach, reach], (N, 1)))[[3, 7], [0, 1]]
    out = local(y, dist=dist_cal, new=dist_new, quantile_rule=rule, k=N, smoothing="uniform")
    heavy = rule in CONTINUOUS_RULES and isinstance(dist_new, nc.StudentT | nc.LogNormal)
    assert_sound(out, y=beside_the_median(out), heavy=heavy)
    at = out.ppf(P[1:-1])
    assert np.isfinite(at if rule in CONTINUOUS_RULES else out.ppf([0.0, 1.0])).all()
    if not out.has_density:
        return
    assert np.isfinite(out.pdf(at)).all()
    inside = np.isfinite(dist_new.logpdf(at))  # flat tails have no density, and a Gamma quantile may underflow to 0
    assert np.isfinite(out.logpdf(at)[inside]).all()


def test_a_normal_point_40_sigma_out_moves_the_mean_by_its_weight():
    y = np.zeros(N)
    y[3] = 40.0
    out = local(y, k=N, smoothing="uniform", new=nc.Normal(np.zeros(M), 1.0))
    np.testing.assert_allclose(out.mean(), 40 / N, rtol=1e-14)
    np.testing.assert_array_equal(out.ppf(1.0), 40.0)


def test_normal_scores_of_the_step_rule_invert_its_quantiles(family):
    dist_cal, y, dist_new = family
    out = local(y, dist=dist_cal, new=dist_new)
    p = np.random.default_rng(3).uniform(size=(M, 40))
    assert (out.cdf(out.ppf(p)) >= p - 1e-12).all()
    np.testing.assert_array_equal(out.ppf(np.minimum(out.cdf(out.ppf(p)), 1.0)), out.ppf(p))


def test_atoms_of_the_base_stay_atoms():
    ensemble = nc.Samples(RNG.normal(size=(M, 6)), tails="empirical")
    for rule in QUANTILE_RULES:
        assert local(new=NEW, quantile_rule=rule).is_continuous == (rule in CONTINUOUS_RULES)
        assert not local(new=ensemble, quantile_rule=rule).is_continuous


# ---- options --------------------------------------------------------------------------------------------------------


def test_the_defaults_are_the_papers():
    rc = nc.LocalRecalibrator(k=15)
    assert (rc.smoothing, rc.eps, rc.scaling, rc.metric) == ("epanechnikov", 0.0, "none", "euclidean")
    assert (rc.quantile_rule, rc.corrections) == ("step", ())
    given = nc.LocalRecalibrator(
        k=15, smoothing="epanechnikov", eps=0.0, scaling=nc.Scaling("none"), quantile_rule="step", corrections=()
    )
    outs = [one.fit(DIST, Y, SPACE).recalibrate(NEW, SPACE_NEW) for one in (rc, given)]
    np.testing.assert_array_equal(outs[0].ppf([0.1, 0.9]), outs[1].ppf([0.1, 0.9]))


@pytest.mark.parametrize("options", [{}, {"k": 15, "radius": 1.0}], ids=str)
@pytest.mark.parametrize("recalibrator", [nc.LocalRecalibrator, nc.KNNRegressor])
def test_exactly_one_of_k_and_radius(recalibrator, options):
    with pytest.raises(nc.InvalidParameterError, match=r"give exactly one of k and radius.*nearcal.tune"):
        recalibrator(**options).fit(DIST, Y, SPACE)


def test_workers_take_effect_at_once():
    rc = nc.LocalRecalibrator(k=15).fit(DIST, Y, SPACE)
    seen = []
    expected = rc.recalibrate(NEW, SPACE_NEW).mean()
    rc.set_params(workers=nc.Workers(threads=1, progress=lambda done, total: seen.append((done, total))))
    np.testing.assert_array_equal(rc.recalibrate(NEW, SPACE_NEW).mean(), expected)
    assert seen[-1] == (M, M)


# ---- scores near the limit ------------------------------------------------------------------------------------------

CORRECTIONS = {
    "none": (),
    "shrinkage": (nc.Shrinkage(),),
    "linear": (nc.LocalLinear(),),
    "polish": (nc.Polish(),),
    "all": (nc.LocalLinear(), nc.Shrinkage(), nc.Polish()),
}


def _huge(many, score):
    rng = np.random.default_rng(0)
    y, x = rng.normal(size=120), rng.normal(size=(120, 2))
    y[:many] = score * (rng.normal(size=many) if many > 1 else 1.0)
    return nc.Normal(np.zeros(120), 1.0), y, x


@pytest.mark.parametrize("rule", QUANTILE_RULES)
@pytest.mark.parametrize("corrections", CORRECTIONS.values(), ids=CORRECTIONS)
def test_scores_up_to_the_limit_make_right_numbers_and_beyond_it_an_error(rule, corrections):
    """A variance that overflowed once became a NaN score, and that an index."""
    if rule not in CONTINUOUS_RULES and nc.Polish() in corrections:
        pytest.skip("needs a continuous rule")
    recalibrator = nc.LocalRecalibrator(k=50, quantile_rule=rule, corrections=corrections)
    for many in (1, 60, 120):
        for score in (1e99, 1e80, 1e60):
            model, y, x = _huge(many, score)
            out = recalibrator.fit(model, np.clip(y, -1e100, 1e100), x).recalibrate(model[:20], x[:20])
            quantiles = out.ppf([1e-9, 0.1, 0.5, 0.9, 1 - 1e-9])
            assert np.isfinite(quantiles).all()
            assert (np.diff(quantiles, axis=1) >= 0).all()
            for values in (out.mean(), out.std(), out.cdf(0.3), nc.scores.crps(out, np.zeros(20))):
                assert np.isfinite(values).all()
            if rule == "step" and not corrections:
                sample = out.weighted_sample(slice(None))
                np.testing.assert_allclose(out.mean(), (sample.values * sample.weights).sum(axis=1), rtol=1e-10)
        model, y, x = _huge(many, 1e155)
        with pytest.raises(nc.InvalidInputError, match=r"y_cal must have normal scores below 1e\+100"):
            recalibrator.fit(model, y, x)


@pytest.mark.parametrize("many", [1, 60])
def test_tuning_with_scores_up_to_the_limit(many):
    for score in (1e99, 1e60):
        model, y, x = _huge(many, score)
        out = nc.tune(model, np.clip(y, -1e100, 1e100), x, time=False).recalibrator.recalibrate(model[:20], x[:20])
        assert np.isfinite(out.ppf([0.01, 0.5, 0.99])).all()
        assert np.isfinite([out.mean(), out.std()]).all()
    model, y, x = _huge(many, 1e155)
    with pytest.raises(nc.InvalidInputError, match="y_cal must have normal scores"):
        nc.tune(model, y, x)


@pytest.mark.parametrize("rule", QUANTILE_RULES)
@pytest.mark.parametrize("cls", [nc.LocalRecalibrator, nc.GlobalRecalibrator])
def test_variances_of_normal_rows_overflow_no_sooner_than_they_must(cls, rule):
    model, y, x = _huge(0, 1.0)
    scores = 1e-30 * y
    recalibrator = cls(quantile_rule=rule, **({"k": 50} if cls is nc.LocalRecalibrator else {}))
    recalibrator.fit(model, scores, x)
    moderate = recalibrator.recalibrate(model[:5], x[:5]).var()
    wide = recalibrator.recalibrate(nc.Normal(np.zeros(5), 1e160), x[:5]).var()
    np.testing.assert_allclose(wide, 1e160 * (1e160 * moderate), rtol=1e-9)
    assert np.isinf(recalibrator.recalibrate(nc.Normal(np.zeros(5), 1e250), x[:5]).var()).all()
