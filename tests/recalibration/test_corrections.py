"""Local-linear adjustment: against a slow twin, in every statistic, in every corner."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.recalibration._adjustment import RIDGE, learn_adjustment
from nearcal.recalibration._local_sample import QUANTILE_RULES
from nearcal.scaling import learn_scaling
from tests import reference
from tests.recalibration.cases import (
    FAMILIES,
    NEW,
    RNG,
    SPACE,
    SPACE_NEW,
    D,
    M,
    N,
    Y,
    assert_equals_its_weighted_sample,
    assert_sound,
    local,
    make_family,
)

SLOPED = Y + 2 * SPACE[:, 0]


def adjusted(y=SLOPED, **options):
    options = options if "radius" in options else {"k": 30, **options}
    return local(y=y, adjustment="linear", **options)


@pytest.mark.parametrize("options", [{}, {"smoothing": "uniform"}, {"radius": 2.5, "min_neighbors": 20}], ids=str)
def test_the_sample_is_that_of_weighted_least_squares(options):
    out = adjusted(**options)
    near, (values, _) = out.neighbors(slice(None)), out.weighted_sample(slice(None))
    place = learn_adjustment("linear", SPACE, options.get("min_neighbors", 30)).place
    for row in range(M):
        own = near.weights[row] > 0
        indices = near.indices[row][own]
        moved = reference.local_linear(
            place(SPACE)[indices], place(SPACE_NEW)[row], near.weights[row][own], SLOPED[indices], RIDGE
        )
        np.testing.assert_allclose(values[row][own], NEW.loc[row] + NEW.scale[row] * moved, rtol=1e-10)
        assert not np.allclose(moved, SLOPED[indices])


CORNERS = {
    "plain": {},
    "as many neighbours as dimensions ask for": {"k": 20},
    "fewer dimensions": {"k": 15},
    "one dimension": {"k": 10},
    "k = n": {"k": N},
    "duplicated positions": {"space": np.repeat(SPACE[:6], 10, axis=0)},
    "all in one place": {"space": np.ones((N, D)), "space_new": np.ones((M, D))},
    "all distances equal": {"space": np.ones((N, D)), "space_new": np.zeros((M, D))},
    "equal scores": {"y": np.full(N, 0.3)},
    "exactly linear scores": {"y": SPACE @ [1.0, -2.0, 0.5]},
    "far new points": {"space_new": SPACE_NEW + 1e9},
    "tiny distances": {"space": SPACE * 1e-160, "space_new": SPACE_NEW * 1e-160},
    "large distances": {"space": SPACE * 1e140, "space_new": SPACE_NEW * 1e140},
    "wide": {"space": RNG.normal(size=(N, 100)), "space_new": RNG.normal(size=(M, 100))},
    "a line": {"space": SPACE[:, 0], "space_new": SPACE_NEW[:, 0]},
    "manhattan": {"metric": "manhattan"},
    "thin, nearest": {"radius": 1.0, "min_neighbors": 20},
    "thin, global": {"radius": 1.0, "min_neighbors": 20, "thin": "global"},
    "thin, base": {"radius": 1.0, "min_neighbors": 20, "thin": "base"},
    "relevance": {"scaling": "relevance"},
    "whitened": {"scaling": "whiten"},
}


@pytest.mark.parametrize("corner", CORNERS)
def test_every_statistic_is_sound(corner):
    out = adjusted(**CORNERS[corner])
    assert_sound(out)
    if "base" not in corner:  # rows left to their base are no weighted sample
        assert_equals_its_weighted_sample(out)


@pytest.mark.parametrize("rule", QUANTILE_RULES)
def test_every_rule_is_that_of_the_adjusted_scores(rule):
    """Rows one by one, as calibration sets of adjusted scores of which every point counts as it does here."""
    out = adjusted(quantile_rule=rule, smoothing="uniform")
    values, _ = out.weighted_sample(slice(None))
    p = [0.05, 0.3, 0.8]
    for row in range(3):
        scores = (values[row] - NEW.loc[row]) / NEW.scale[row]
        own = nc.LocalRecalibrator(k=30, smoothing="uniform", quantile_rule=rule)
        own.fit(nc.Normal(np.zeros(30), 1.0), scores, np.zeros(30))
        expected = own.recalibrate(NEW[row], np.zeros(1))
        np.testing.assert_allclose(out[row].ppf(p), expected.ppf(p), rtol=1e-12)
        np.testing.assert_allclose(out[row].mean(), expected.mean(), rtol=1e-12)
        np.testing.assert_allclose(out[row].logpdf(1.0), expected.logpdf(1.0), rtol=1e-10)
        np.testing.assert_allclose(out[row].cdf(1.0), expected.cdf(1.0), rtol=1e-10)
        np.testing.assert_allclose(nc.scores.crps(out[row], [0.7]), nc.scores.crps(expected, [0.7]), rtol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family(family):
    dist, y, new = make_family(family)
    out = adjusted(y=y, dist=dist, new=new)
    values, weights = out.weighted_sample(slice(None))
    mean = (weights * values).sum(axis=1)
    np.testing.assert_allclose(out.mean(), mean, rtol=1e-8)
    np.testing.assert_allclose(
        nc.scores.crps(out, values[:, 0]),
        [reference.sample_crps(v, w, v[0]) for v, w in zip(values, weights, strict=True)],
        rtol=1e-7, atol=1e-10,
    )  # fmt: skip


def test_too_few_neighbours_leave_the_scores_alone():
    np.testing.assert_array_equal(adjusted(k=9).ppf([0.1, 0.9]), local(y=SLOPED, k=9).ppf([0.1, 0.9]))


def test_scores_without_a_slope_are_left_alone():
    """James and Stein's factor is zero where position explains less than noise would."""
    design = np.column_stack([np.ones(N), SPACE])
    flat = Y - design @ np.linalg.lstsq(design, Y, rcond=None)[0]
    options = {"k": N, "smoothing": "uniform"}
    np.testing.assert_array_equal(adjusted(y=flat, **options).ppf([0.1, 0.9]), local(y=flat, **options).ppf([0.1, 0.9]))


@pytest.mark.parametrize(
    "options", [{"quantile_rule": "step"}, {"quantile_rule": "predictive", "polish": True}], ids=str
)
def test_threads_chunks_and_company_change_nothing(options):
    alone = [adjusted(threads=1, **options)[row].ppf([0.1, 0.5])[0] for row in range(M)]
    whole = adjusted(threads=1, **options)
    parts = adjusted(threads=3, memory=2**20, **options)
    np.testing.assert_array_equal(whole.ppf([0.1, 0.5]), alone)
    np.testing.assert_array_equal(whole.ppf([0.1, 0.5]), parts.ppf([0.1, 0.5]))
    np.testing.assert_array_equal(whole.mean(), parts.mean())


def curved(n, seed):
    """A model whose errors drift and whose spread changes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    y = rng.normal(2 * x[:, 0] + x[:, 1] ** 2, np.exp(0.3 * x[:, 2]))
    return nc.Normal(np.zeros(n), 1.0), y, x


@pytest.mark.parametrize("k", [30, 300])
def test_it_sharpens_without_losing_coverage(k):
    cal, (dist, y, x) = curved(3000, 1), curved(4000, 2)
    options = {"k": k, "quantile_rule": "predictive", "polish": True}
    plain, moved = (
        nc.LocalRecalibrator(adjustment=adjustment, **options).fit(*cal).recalibrate(dist, x)
        for adjustment in ("none", "linear")
    )
    assert nc.scores.crps(moved, y).mean() < 0.95 * nc.scores.crps(plain, y).mean()
    lower, upper = moved.interval(0.95)
    assert abs(np.mean((lower <= y) & (y <= upper)) - 0.95) < 0.015  # three errors of 4,000 new and 3,000 old rows


def test_leverage_is_made_up_for():
    """Pure noise and a steep slope, few neighbours a dimension: residuals alone would be too small by a third."""
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(2000, 4)), rng.normal(size=(2000, 4))
    y, y_new = rng.normal(5 * x.sum(axis=1)), rng.normal(5 * new.sum(axis=1))
    base = nc.Normal(np.zeros(2000), 1.0)
    rc = nc.LocalRecalibrator(k=25, smoothing="uniform", quantile_rule="predictive", adjustment="linear").fit(
        base, y, x
    )
    lower, upper = rc.recalibrate(base, new).interval(0.9)
    assert np.mean((lower <= y_new) & (y_new <= upper)) > 0.87


def test_reliability_and_radius_are_those_of_the_neighbourhoods():
    moved, plain = adjusted(), local(k=30)
    np.testing.assert_array_equal(moved.radius, plain.radius)
    np.testing.assert_array_equal(moved.effective_size, plain.effective_size)
    np.testing.assert_array_equal(moved.reliability(0.1)["p_value"], plain.reliability(0.1)["p_value"])


def test_an_unknown_adjustment_is_refused():
    with pytest.raises(nc.InvalidParameterError, match="adjustment must be one of"):
        local(adjustment="quadratic")


def test_in_a_whitened_space_every_direction_takes_part_whatever_the_rounding():
    space = np.random.default_rng(3).normal(size=(200, 6)) * [6, 5, 4, 3, 2, 1]
    white = learn_scaling("whiten", space)(space)
    place = learn_adjustment("linear", white, 20).place
    assert place(white).shape == (200, 3)
    np.testing.assert_allclose(np.cov(place(white).T), np.eye(3) * np.var(place(white)[:, 0], ddof=1), atol=1e-12)
    mixtures = place(np.eye(6)) - place(np.zeros((6, 6)))
    part = np.square(mixtures).sum(axis=1)
    assert part.min() > 0.3 * part.mean()
    nudged = white + 1e-13 * np.random.default_rng(4).normal(size=white.shape)
    np.testing.assert_allclose(learn_adjustment("linear", nudged, 20).place(white), place(white), atol=1e-10)
