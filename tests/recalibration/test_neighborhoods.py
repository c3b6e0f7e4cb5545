"""Neighbourhoods: weights, a radius, and what rows get that have few neighbours within it."""

import re

import numpy as np
import pytest

import nearcal as nc
from nearcal.recalibration import QUANTILE_RULES, SMOOTHINGS, THINS
from tests.recalibration.cases import (
    DIST,
    NEW,
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
)
from tests.reference import kernel_weights


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_weights_are_those_of_the_kernel(smoothing):
    for options in ({"k": 15}, {"radius": nc.Radius(2.0, 3)}):
        out = local(smoothing=smoothing, **options)
        near, radius = out.neighbors(slice(None)), out.radius
        for row in range(M):
            own = near.indices[row] >= 0
            expected = kernel_weights(near.distances[row][own], radius[row], smoothing)
            np.testing.assert_allclose(near.weights[row][own], expected, rtol=1e-9, atol=1e-14)
            np.testing.assert_allclose(out.effective_size[row], 1 / (expected**2).sum(), rtol=1e-9)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_one_neighbour_or_none_nearer_than_another_weigh_equally(smoothing):
    for options in ({"k": 1}, {"space": np.ones((N, D)), "k": 15}):
        nearest = local(smoothing=smoothing, **options).neighbors(slice(None))
        np.testing.assert_allclose(nearest.weights, 1 / nearest.weights.shape[1], rtol=1e-15)


@pytest.mark.parametrize("smoothing", ["epanechnikov", "triangular", "biweight"])
def test_the_kth_neighbour_weighs_exactly_zero(smoothing):
    # 49 * (1 / 49) < 1 in double precision
    out = local(space=np.arange(float(N)), space_new=np.zeros(M), k=50, smoothing=smoothing)
    assert (out.neighbors(slice(None)).weights[:, -1] == 0).all()


# ---- radius ---------------------------------------------------------------------------------------------------------

FAR = np.where(np.arange(M)[:, np.newaxis] % 3 == 0, SPACE_NEW + 50.0, SPACE_NEW)  # every third row sees nobody


def test_the_error_names_a_row_that_is_thin(monkeypatch):
    monkeypatch.setattr("nearcal.recalibration.workers._LITTLE", 0)  # so that little work is shared out too
    for threads in (1, 3):  # three chunks, of rows that are near each other
        out = local(space_new=FAR, radius=nc.Radius(1.5, 8, "raise"), workers=nc.Workers(threads=threads))
        with pytest.raises(nc.ThinNeighborhoodError) as caught:
            out.mean()
        row, count = map(int, re.search(r"row (\d+) has (\d+)", str(caught.value)).groups())
        assert count == (np.linalg.norm(SPACE - FAR[row], axis=1) <= 1.5).sum() < 8


def statistics(out):
    quantiles = out.ppf(P)
    density = {"logpdf": out.logpdf(0.3)} if out.has_density else {}
    return {"mean": out.mean(), "var": out.var(), "cdf": out.cdf(0.3), "ppf": quantiles, **density}


@pytest.mark.parametrize("rule", QUANTILE_RULES)
@pytest.mark.parametrize("thin", [policy for policy in THINS if policy != "raise"])
@pytest.mark.parametrize("space_new", [SPACE_NEW, FAR, SPACE_NEW + 50.0], ids=["none thin", "some thin", "all thin"])
def test_thin_rows(space_new, thin, rule):
    out = local(space_new=space_new, radius=nc.Radius(2.5, 2, thin), quantile_rule=rule)
    assert_sound(out)
    if rule == "step" and thin != "base":
        assert_equals_its_weighted_sample(out)
    is_far = space_new[:, 0] > 30
    nearest = local(space_new=space_new, k=2, quantile_rule=rule)
    instead, size, radius = {
        "base": (NEW, np.zeros(M), np.full(M, np.nan)),
        "global": (
            nc.GlobalRecalibrator(quantile_rule=rule).fit(DIST, Y).recalibrate(NEW),
            np.full(M, float(N)),
            np.full(M, np.inf),
        ),
        "nearest": (nearest, nearest.effective_size, nearest.radius),
    }[thin]
    expected = statistics(instead)
    for name, answer in statistics(out).items():
        # curves that all rows share are integrated by another rule, to about 1e-8
        rtol = 1e-6 if thin == "global" and name in ("mean", "var") else 1e-12
        np.testing.assert_allclose(answer[is_far], expected[name][is_far], rtol=rtol)
    np.testing.assert_allclose(out.effective_size[is_far], size[is_far], rtol=1e-12)
    np.testing.assert_allclose(out.radius[is_far], radius[is_far], rtol=1e-12)
    others = local(space_new=SPACE_NEW, radius=nc.Radius(2.5, 2), quantile_rule=rule)
    np.testing.assert_array_equal(out.ppf(P)[~is_far], others.ppf(P)[~is_far])
    np.testing.assert_array_equal(out.effective_size[~is_far], others.effective_size[~is_far])
    np.testing.assert_array_equal(out.radius[~is_far], 2.5)


def test_a_row_left_to_its_base_is_described_by_its_quantiles():
    out = local(space_new=FAR, radius=nc.Radius(2.5, 2, "base"))
    values, weights = out.weighted_sample(slice(None))
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
    thin = out.effective_size == 0
    # the mean of 100 mid-quantiles of a Normal is its mean, by symmetry
    np.testing.assert_allclose((values * weights).sum(axis=1)[thin], NEW.mean()[thin], rtol=1e-12)
    nearest = out.neighbors(slice(None))
    assert (nearest.indices[thin] == -1).all()
    assert np.isinf(nearest.distances[thin]).all()


def test_more_neighbours_asked_for_than_there_are():
    out = local(Y[:5], SPACE[:5], dist=DIST[:5], radius=nc.Radius(1e-6, 30))
    assert_sound(out)
    assert out.neighbors(slice(None)).indices.shape == (M, 5)


def test_global_neighbours_have_no_distances():
    thin = local(space_new=FAR, radius=nc.Radius(2.5, 2, "global")).neighbors(0)
    np.testing.assert_array_equal(thin.indices[0], np.arange(N))
    np.testing.assert_array_equal(thin.weights[0], 1 / N)
    assert np.isnan(thin.distances).all()
