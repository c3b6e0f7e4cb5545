"""Every family as the base of a recalibration: sound, equal to its weighted sample, and finite 40 sigma out."""

import numpy as np
import pytest
from nearcal.recalibration._local_sample import QUANTILE_RULES

import nearcal as nc
from tests.recalibration.cases import (
    FAMILIES,
    NEW,
    RNG,
    M,
    N,
    P,
    assert_equals_its_weighted_sample,
    assert_sound,
    local,
    make_family,
)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return make_family(request.param)


@pytest.mark.parametrize("rule", QUANTILE_RULES)
def test_every_family_is_sound(family, rule):
    dist_cal, y, dist_new = family
    out = local(y, dist=dist_cal, new=dist_new, quantile_rule=rule)
    assert_sound(out, y=out.median() + 0.01 * out.std())


@pytest.mark.parametrize("options", [{"k": 15}, {"radius": 2.0, "min_neighbors": 5, "smoothing": "gaussian"}])
def test_every_statistic_is_that_of_the_weighted_sample(family, options):
    dist_cal, y, dist_new = family
    assert_equals_its_weighted_sample(local(y, dist=dist_cal, new=dist_new, **options))


def test_every_family_is_sound_under_global_recalibration(family):
    dist_cal, y, dist_new = family
    out = nc.GlobalRecalibrator().fit(dist_cal, y).recalibrate(dist_new)
    assert_sound(out, y=out.median() + 0.01 * out.std())
    assert_equals_its_weighted_sample(out)


@pytest.mark.parametrize("rule", ["step", "interpolated"])
def test_points_40_sigma_out_leave_everything_finite(family, rule):
    dist_cal, y, dist_new = family
    y = y.copy()
    y[[3, 7]] = dist_cal.from_z(np.tile([-40.0, 40.0], (N, 1)))[[3, 7], [0, 1]]
    out = local(y, dist=dist_cal, new=dist_new, quantile_rule=rule, k=N, smoothing="uniform")
    assert_sound(out, y=out.median() + 0.01 * out.std())
    at = out.ppf(P[1:-1])
    assert np.isfinite(out.ppf([0.0, 1.0]) if rule == "step" else at).all()
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
        assert local(new=NEW, quantile_rule=rule).is_continuous == (rule in ("interpolated", "predictive"))
        assert not local(new=ensemble, quantile_rule=rule).is_continuous


def test_tiny_weights_do_not_break_interpolation():
    draws = nc.Samples([[1.0, 2.0, 3.0, 4.0, 5.0]], weights=[1, 1e-20, 1e-20, 1e-20, 1])
    quantiles = draws.ppf(np.linspace(0.001, 0.999, 201))
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles) >= 0).all()
