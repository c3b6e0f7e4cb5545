"""Degenerate calibration sets, every combination of options, and neighbourhoods that are thin or empty."""

import itertools
import re

import numpy as np
import pytest
from nearcal.neighbors import METRICS
from nearcal.recalibration._local_sample import QUANTILE_RULES
from nearcal.recalibration._neighborhoods import THINS
from nearcal.scaling import SCALINGS
from nearcal.smoothing import SMOOTHINGS

import nearcal as nc
from tests.recalibration.cases import (
    DIST,
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
    "tiny distances": lambda: local(space=SPACE * 1e-160, space_new=SPACE_NEW * 1e-160),
    "large distances": lambda: local(space=SPACE * 1e140, space_new=SPACE_NEW * 1e140),
    "constant column": lambda: local(space=SPACE * [1, 1, 0] + 0.1, space_new=SPACE_NEW, scaling="standard"),
    "all columns constant": lambda: local(space=np.full((N, D), 0.1), scaling="standard"),
    "whitened constant column": lambda: local(space=SPACE * [1, 1, 0] + 0.1, scaling="whiten"),
    "whitened plane": lambda: local(space=SPACE @ [[1, 0, 1], [0, 1, 1], [0, 0, 0]], scaling="whiten"),
    "whitened n < d": lambda: local(
        Y[:5], RNG.normal(size=(5, 9)), RNG.normal(size=(M, 9)), DIST[:5], k=3, scaling="whiten"
    ),
    "eps": lambda: local(eps=0.5),
    "one thread": lambda: local(threads=1),
    "least memory": lambda: local(memory=2**20),
    "global": lambda: nc.GlobalRecalibrator().fit(DIST, Y).recalibrate(NEW),
    "global, one calibration point": lambda: nc.GlobalRecalibrator().fit(DIST[0], Y[:1]).recalibrate(NEW),
}


@pytest.mark.parametrize("build", DEGENERATE.values(), ids=DEGENERATE)
def test_degenerate_sets(build):
    out = build()
    assert_sound(out)
    assert_equals_its_weighted_sample(out)


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
    assert_sound(local(radius=1.5, min_neighbors=8, smoothing=smoothing, quantile_rule=rule))


def test_the_conservative_rule_only_widens():
    step, conservative = local(), local(quantile_rule="conservative")
    assert (conservative.ppf(P[:4]) <= step.ppf(P[:4])).all()
    assert (conservative.ppf(P[5:]) >= step.ppf(P[5:])).all()


# ---- radius ---------------------------------------------------------------------------------------------------------

FAR = np.where(np.arange(M)[:, np.newaxis] % 3 == 0, SPACE_NEW + 50.0, SPACE_NEW)  # every third row sees nobody


def test_the_error_names_a_row_that_is_thin():
    for threads in (1, 3):  # three chunks, of rows that are near each other
        out = local(space_new=FAR, radius=1.5, min_neighbors=8, thin="raise", threads=threads)
        with pytest.raises(nc.ThinNeighborhoodError) as caught:
            out.mean()
        row, count = map(int, re.search(r"row (\d+) has (\d+)", str(caught.value)).groups())
        assert count == (np.linalg.norm(SPACE - FAR[row], axis=1) <= 1.5).sum() < 8


@pytest.mark.parametrize("rule", QUANTILE_RULES)
@pytest.mark.parametrize("thin", [policy for policy in THINS if policy != "raise"])
@pytest.mark.parametrize("space_new", [SPACE_NEW, FAR, SPACE_NEW + 50.0], ids=["none thin", "some thin", "all thin"])
def test_thin_rows(space_new, thin, rule):
    options = {"radius": 2.5, "min_neighbors": 2, "quantile_rule": rule}
    out = local(space_new=space_new, thin=thin, **options)
    assert_sound(out)
    if rule == "step" and thin != "base":
        assert_equals_its_weighted_sample(out)
    is_far = space_new[:, 0] > 30
    instead = {
        "base": NEW,
        "global": nc.GlobalRecalibrator(quantile_rule=rule).fit(DIST, Y).recalibrate(NEW),
        "nearest": local(space_new=space_new, k=2, quantile_rule=rule),
    }[thin]
    for ask in (
        lambda d: d.mean(),
        lambda d: d.var(),
        lambda d: d.cdf(0.3),
        lambda d: d.logpdf(0.3),
        lambda d: d.ppf(P),
    ):
        np.testing.assert_allclose(ask(out)[is_far], ask(instead)[is_far], rtol=1e-12)
    others = local(space_new=SPACE_NEW, **options)
    np.testing.assert_array_equal(out.ppf(P)[~is_far], others.ppf(P)[~is_far])
    assert (out.effective_size[is_far] == {"base": 0.0, "global": N}.get(thin, out.effective_size[is_far])).all()


def test_a_row_left_to_its_base_is_described_by_its_quantiles():
    out = local(space_new=FAR, radius=2.5, min_neighbors=2, thin="base")
    values, weights = out.weighted_sample(slice(None))
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
    thin = out.effective_size == 0
    # the mean of 100 mid-quantiles of a Normal is its mean, by symmetry
    np.testing.assert_allclose((values * weights).sum(axis=1)[thin], NEW.mean()[thin], rtol=1e-12)
    nearest = out.neighbors(slice(None))
    assert (nearest.indices[thin] == -1).all()
    assert np.isinf(nearest.distances[thin]).all()


def test_more_neighbours_asked_for_than_there_are():
    out = local(Y[:5], SPACE[:5], dist=DIST[:5], radius=1e-6, min_neighbors=30)
    assert_sound(out)
    assert out.neighbors(slice(None)).indices.shape == (M, 5)


def test_global_neighbours_have_no_distances():
    everyone = nc.GlobalRecalibrator().fit(DIST, Y).recalibrate(NEW).neighbors(slice(None))
    thin = local(space_new=FAR, radius=2.5, min_neighbors=2, thin="global").neighbors(0)
    for found in (everyone, thin):
        np.testing.assert_array_equal(found.indices[0], np.arange(N))
        assert np.isnan(found.distances).all()


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
    options = {"smoothing": "uniform", "min_neighbors": 1, "quantile_rule": "interpolated", "threads": 1}
    rc = nc.LocalRecalibrator(radius=1.0, **options).fit(
        nc.Normal(np.zeros(4), 1.0), [1.0, 0.3, 0.2, 2.0], [0, 9, 9, 9]
    )
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


@pytest.mark.parametrize("rule", QUANTILE_RULES)
@pytest.mark.parametrize("n", [1, 7, 1000])
def test_global_quantiles_and_tails_are_those_of_equal_weights(n, rule):
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


def test_global_recalibration_does_not_visit_every_point_for_every_row(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("walks over all points for each row")

    monkeypatch.setattr("nearcal.kernels.quantiles.quantile_ranks", refuse)
    monkeypatch.setattr("nearcal.kernels.summary.weight_below", refuse)
    y = np.linspace(-1, 1, 9)
    out = nc.GlobalRecalibrator().fit(nc.Normal(np.zeros(9), 1.0), y).recalibrate(nc.Normal(0.0, 1.0))
    np.testing.assert_allclose(out.interval(0.8), [[-1.0], [1.0]], atol=1e-15)
    np.testing.assert_allclose(out.cdf(0.1), 5 / 9)
