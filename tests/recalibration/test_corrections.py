"""Local-linear correction and shrinkage against slow twins, polish by what it brings, each in every corner.

That corrections learn from each point among the others is tested in test_leave_one_out.py.
"""

import tracemalloc

import numpy as np
import pytest
from scipy.special import ndtri

import nearcal as nc
from nearcal.recalibration import QUANTILE_RULES
from nearcal.recalibration.local_linear import _RIDGE
from tests import reference
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
    Y,
    assert_equals_its_weighted_sample,
    assert_sound,
    local,
    make_family,
)

SLOPED = Y + 2 * SPACE[:, 0]
LINEAR, SHRUNK, POLISHED = (nc.LocalLinear(),), (nc.Shrinkage(),), (nc.Polish(),)


def adjusted(y=SLOPED, corrections=LINEAR, **options):
    options = options if "radius" in options else {"k": 30, **options}
    return local(y=y, corrections=corrections, **options)


def learnt(y=SLOPED, dist=DIST, space=SPACE, **options):
    return nc.LocalRecalibrator(**options).fit(dist, y, space).corrections_


def place(correction, points):
    return (points - correction.center) @ correction.axes


# ---- local-linear ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"smoothing": "uniform"}, {"radius": nc.Radius(2.5, 20)}], ids=str)
def test_the_sample_is_that_of_weighted_least_squares(options):
    out = adjusted(**options)
    near, (values, _) = out.neighbors(slice(None)), out.weighted_sample(slice(None))
    (correction,) = learnt(corrections=LINEAR, **({"k": 30, **options} if "radius" not in options else options))
    np.testing.assert_allclose(correction.places, place(correction, SPACE), atol=1e-15)
    for row in range(M):
        own = near.weights[row] > 0
        indices = near.indices[row][own]
        moved = reference.local_linear(
            correction.places[indices],
            place(correction, SPACE_NEW[row]),
            near.weights[row][own],
            SLOPED[indices],
            _RIDGE,
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
    "tiny distances": {"space": SPACE * 1e-145, "space_new": SPACE_NEW * 1e-145},
    "large distances": {"space": SPACE * 1e140, "space_new": SPACE_NEW * 1e140},
    "wide": {"space": RNG.normal(size=(N, 100)), "space_new": RNG.normal(size=(M, 100))},
    "a line": {"space": SPACE[:, 0], "space_new": SPACE_NEW[:, 0]},
    "manhattan": {"metric": "manhattan"},
    "thin, nearest": {"radius": nc.Radius(1.0, 20, "nearest")},
    "thin, global": {"radius": nc.Radius(1.0, 20, "global")},
    "thin, base": {"radius": nc.Radius(1.0, 20, "base")},
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
        np.testing.assert_allclose(out[row].var(), expected.var(), rtol=1e-12)
        if out.has_density:
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
    "options",
    [
        {"quantile_rule": "step"},
        {"quantile_rule": "predictive", "corrections": (nc.LocalLinear(), nc.Shrinkage(), nc.Polish())},
    ],
    ids=str,
)
def test_threads_chunks_and_company_change_nothing(options, monkeypatch):
    monkeypatch.setattr("nearcal.recalibration.workers._LITTLE", 0)  # so that little work is shared out too
    alone = [adjusted(workers=nc.Workers(threads=1), **options)[row].ppf([0.1, 0.5])[0] for row in range(M)]
    whole = adjusted(workers=nc.Workers(threads=1), **options)
    parts = adjusted(workers=nc.Workers(threads=3, memory=2**20), **options)
    np.testing.assert_array_equal(whole.ppf([0.1, 0.5]), alone)
    np.testing.assert_array_equal(whole.ppf([0.1, 0.5]), parts.ppf([0.1, 0.5]))
    for ask in (lambda out: out.mean(), lambda out: out.var(), lambda out: out.cdf(0.3)):
        np.testing.assert_array_equal(ask(whole), ask(parts))
        np.testing.assert_array_equal(ask(whole), [ask(whole[row])[0] for row in range(M)])


def drifting(n, seed):
    """A model whose errors drift and whose spread changes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    y = rng.normal(2 * x[:, 0] + x[:, 1] ** 2, np.exp(0.3 * x[:, 2]))
    return nc.Normal(np.zeros(n), 1.0), y, x


@pytest.mark.parametrize("k", [30, 300])
def test_it_sharpens_without_losing_coverage(k):
    cal, (dist, y, x) = drifting(3000, 1), drifting(4000, 2)
    plain, moved = (
        nc.LocalRecalibrator(k=k, quantile_rule="predictive", corrections=corrections).fit(*cal).recalibrate(dist, x)
        for corrections in (POLISHED, LINEAR + POLISHED)
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
    rc = nc.LocalRecalibrator(k=25, smoothing="uniform", quantile_rule="predictive", corrections=LINEAR).fit(base, y, x)
    lower, upper = rc.recalibrate(base, new).interval(0.9)
    assert np.mean((lower <= y_new) & (y_new <= upper)) > 0.87


def test_one_neighbour_far_out_does_not_move_a_row_beside_it():
    """A slope that one point alone decides is that point's noise: 3 of its deviations, at a row as far out as it."""
    rng = np.random.default_rng(0)
    x = np.append(rng.normal(size=(99, 5)), [[0, 0, 0, 0, 40.0]], axis=0)
    z = np.append(rng.normal(x[:99, 0], 1.0), 3.0)
    rc = nc.LocalRecalibrator(k=100, smoothing="uniform", scaling="none", corrections=LINEAR)
    out = rc.fit(nc.Normal(np.zeros(100), 1.0), z, x).recalibrate(
        nc.Normal([0.0, 0.0], 1.0), [x[99], [1.0, 0, 0, 0, 0]]
    )
    assert abs(out.mean()[0]) < 1.0  # 2.1 with as much of the slope as elsewhere
    assert 0.6 < out.mean()[1] < 1.4  # where the slope is known, it is followed


def test_reliability_and_radius_are_those_of_the_neighbourhoods():
    moved, plain = adjusted(), local(k=30)
    np.testing.assert_array_equal(moved.radius, plain.radius)
    np.testing.assert_array_equal(moved.effective_size, plain.effective_size)
    np.testing.assert_array_equal(moved.reliability(0.1)["p_value"], plain.reliability(0.1)["p_value"])


def test_in_a_whitened_space_every_direction_takes_part_whatever_the_rounding():
    space = np.random.default_rng(3).normal(size=(200, 6)) * [6, 5, 4, 3, 2, 1]
    scores, base = np.zeros(200), nc.Normal(np.zeros(200), 1.0)
    rc = nc.LocalRecalibrator(k=20, scaling="whiten", corrections=LINEAR).fit(base, scores, space)
    white = rc.space_map_(space)
    (correction,) = rc.corrections_
    places = place(correction, white)
    assert places.shape == (200, 3)
    np.testing.assert_allclose(np.cov(places.T), np.eye(3) * np.var(places[:, 0], ddof=1), atol=1e-12)
    part = np.square(correction.axes).sum(axis=1)
    assert part.min() > 0.3 * part.mean()
    nudged = white + 1e-13 * np.random.default_rng(4).normal(size=white.shape)
    (other,) = learnt(scores, base, nudged, k=20, corrections=LINEAR)
    np.testing.assert_allclose(place(other, white), places, atol=1e-10)


# ---- shrinkage ------------------------------------------------------------------------------------------------------


def by_hand(scores, weights, learnt):
    """The scores of one neighbourhood, drawn to what was learnt."""
    mean = weights @ scores
    size = 1 / (weights @ weights)
    variance = weights @ (scores - mean) ** 2 * size / (size - 1)
    trust = learnt.mean_variance / (learnt.mean_variance + variance / size)
    spread_trust = learnt.log_spread_variance / (learnt.log_spread_variance + 1 / (2 * size))
    log_spread = spread_trust * np.log(variance) / 2 + (1 - spread_trust) * learnt.log_spread
    center = trust * mean + (1 - trust) * learnt.mean
    return center + np.exp(log_spread) / np.sqrt(variance) * (scores - mean)


@pytest.mark.parametrize("before", [(), LINEAR], ids=str)
def test_scores_are_drawn_by_the_rule(before):
    y = Y + SPACE[:, 0]
    rc = nc.LocalRecalibrator(k=20, corrections=before + SHRUNK).fit(DIST, y, SPACE)
    out = rc.recalibrate(NEW, SPACE_NEW)
    plain, weights = local(y=y, k=20, corrections=before).weighted_sample(slice(None))
    drawn, _ = out.weighted_sample(slice(None))
    for row in range(M):
        scores = (plain[row] - NEW.loc[row]) / NEW.scale[row]
        expected = by_hand(scores, weights[row], rc.corrections_[-1])
        np.testing.assert_allclose(drawn[row], NEW.loc[row] + NEW.scale[row] * expected, rtol=1e-10, atol=1e-12)
    assert_sound(out)
    assert_equals_its_weighted_sample(out)


def test_variances_are_learnt_from_points_among_the_others():
    (correction,) = learnt(Y, k=9, smoothing="uniform", corrections=SHRUNK)
    moments = []
    for i in range(N):
        nearest = np.argsort(np.linalg.norm(SPACE - SPACE[i], axis=1))[1:10]
        moments.append((Y[nearest].mean(), Y[nearest].var(ddof=1)))
    mean, variance = np.array(moments).T
    center = Y.mean() * max(1 - Y.var() / N / Y.mean() ** 2, 0)
    log_spread = np.log(Y.std()) * max(1 - 1 / (2 * N) / np.log(Y.std()) ** 2, 0)
    assert correction.mean == pytest.approx(center)
    assert correction.log_spread == pytest.approx(log_spread)
    assert correction.mean_variance == pytest.approx(max(np.mean((mean - center) ** 2) - np.mean(variance / 9), 0))
    expected = np.mean((np.log(variance) / 2 - log_spread) ** 2) - 1 / 18
    assert correction.log_spread_variance == pytest.approx(max(expected, 0))


def test_a_right_model_gets_nearly_its_own_distribution_back():
    """Neighbourhoods that differ by chance alone are drawn to location 0 and spread 1 altogether, or nearly."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4000, 3)), rng.normal(size=4000)
    base = nc.Normal(np.zeros(4000), 1.0)
    new, y_new = rng.normal(size=(2000, 3)), rng.normal(size=2000)
    crps = {}
    for corrections in ((), SHRUNK):
        rc = nc.LocalRecalibrator(k=30, quantile_rule="predictive", corrections=corrections).fit(base, y, x)
        crps[corrections] = nc.scores.crps(rc.recalibrate(base[:2000], new), y_new).mean()
    own = nc.scores.crps(base[:2000], y_new).mean()
    assert crps[SHRUNK] - own < 0.35 * (crps[()] - own)


def test_differences_that_are_real_are_kept():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, size=2000)
    rc = nc.LocalRecalibrator(k=50, corrections=SHRUNK).fit(nc.Normal(np.zeros(2000), 1.0), rng.normal(5 * x, 0.1), x)
    np.testing.assert_allclose(rc.recalibrate(nc.Normal([0.0, 0.0], 1.0), [-2.0, 2.0]).mean(), [-10, 10], rtol=0.01)


SHRINKAGE_CORNERS = {
    "equal scores": {"y": np.full(N, 0.3)},
    "k = 1": {"k": 1},
    "two points": {"y": Y[:2], "space": SPACE[:2], "dist": nc.Normal(np.zeros(2), 1.0), "k": 2},
    "one point": {"y": Y[:1], "space": SPACE[:1], "dist": nc.Normal([0.0], 1.0), "k": 1},
    "nobody near": {"radius": nc.Radius(1e-9, 5)},
    "thin, global": {"radius": nc.Radius(1.0, thin="global")},
    "thin, base": {"radius": nc.Radius(1.0, thin="base")},
    "relevance": {"scaling": "relevance"},
    "polished": {"corrections": SHRUNK + POLISHED, "quantile_rule": "predictive"},
}


@pytest.mark.parametrize("corner", SHRINKAGE_CORNERS)
def test_shrinkage_in_corners(corner):
    assert_sound(local(**{"corrections": SHRUNK, **SHRINKAGE_CORNERS[corner]}))


# ---- polish ---------------------------------------------------------------------------------------------------------


def curved(n, seed):
    """A model whose errors drift within neighbourhoods: few neighbours in five dimensions, a curved mean."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    y = rng.normal(x[:, 0] ** 2 + np.sin(2 * x[:, 1]), 0.3)
    return nc.Normal(np.zeros(n), 1.0), y, x


def coverage(out, y, levels):
    """Return how often central intervals of some levels hold y, from one pass over the rows."""
    levels = np.asarray(levels)
    quantiles = out.ppf(np.concatenate([0.5 - levels / 2, 0.5 + levels / 2]))
    lower, upper = np.split(quantiles, 2, axis=1)
    return np.mean((lower <= y[:, np.newaxis]) & (y[:, np.newaxis] <= upper), axis=0)


@pytest.mark.parametrize("rule", ["interpolated", "predictive"])
@pytest.mark.parametrize("k", [15, 400])
def test_polish_restores_marginal_coverage(rule, k):
    cal, (dist, y, x) = curved(3000, 1), curved(10_000, 2)
    plain, polished = (
        nc.LocalRecalibrator(k=k, quantile_rule=rule, corrections=corrections).fit(*cal).recalibrate(dist, x)
        for corrections in ((), POLISHED)
    )
    levels = np.array([0.5, 0.9, 0.98])
    error = np.abs(coverage(polished, y, levels) - levels)
    assert (error < 0.025).all()  # three standard errors of 3,000 calibration points
    assert error[1] < abs(coverage(plain, y, [0.9])[0] - 0.9) - 0.01


def test_polish_moves_quantiles_through_the_map():
    options = {"k": 9, "quantile_rule": "predictive", "smoothing": "uniform"}
    rc = nc.LocalRecalibrator(corrections=POLISHED, **options).fit(DIST, Y, SPACE)
    polished, plain = rc.recalibrate(NEW, SPACE_NEW), local(**options)
    values = plain.ppf(np.linspace(0.05, 0.95, 50))
    expected = rc.corrections_[0].map.after(plain.z(values))
    inside = np.abs(expected) <= ndtri(N / (N + 1))  # between the outermost knots: tails are continued anew
    assert inside.mean() > 0.9
    np.testing.assert_allclose(polished.z(values)[inside], expected[inside], rtol=1e-9, atol=1e-9)
    assert not np.allclose(polished.z(values), plain.z(values), atol=0.05)


def test_threads_and_chunks_learn_the_same():
    dist, y, x = curved(2000, 3)
    fits = [
        learnt(y, dist, x, k=50, quantile_rule="predictive", corrections=POLISHED, workers=workers)[0].map.line
        for workers in (nc.Workers(threads=1), nc.Workers(threads=3, memory=2**20))
    ]
    np.testing.assert_array_equal(fits[0].values, fits[1].values)
    np.testing.assert_array_equal(fits[0].scores, fits[1].scores)


def test_polish_needs_a_continuous_rule_and_comes_last():
    for rule in ("step", "conservative"):
        with pytest.raises(nc.InvalidParameterError, match="continuous quantile_rule"):
            local(quantile_rule=rule, corrections=POLISHED)
    with pytest.raises(nc.InvalidParameterError, match="must come last"):
        local(quantile_rule="predictive", corrections=POLISHED + LINEAR)
    with pytest.raises(nc.InvalidParameterError, match=r"corrections must be a sequence of .* got 'polish' among them"):
        local(corrections=("polish",))


def test_corrections_take_effect_at_fit():
    rc = nc.LocalRecalibrator(k=9, quantile_rule="predictive").fit(DIST, Y, SPACE)
    before = rc.recalibrate(NEW, SPACE_NEW).ppf([0.1, 0.9])
    rc.set_params(corrections=SHRUNK + POLISHED)
    np.testing.assert_array_equal(rc.recalibrate(NEW, SPACE_NEW).ppf([0.1, 0.9]), before)
    assert (rc.fit(DIST, Y, SPACE).recalibrate(NEW, SPACE_NEW).ppf([0.1, 0.9]) != before).all()


@pytest.mark.parametrize(
    ("rows", "options"), [(N, {"radius": 1e-9}), (1, {"k": 1})], ids=["nobody near", "one calibration point"]
)
def test_nothing_to_learn_moves_nothing(rows, options):
    outs = [
        local(Y[:rows], SPACE[:rows], dist=DIST[:rows], quantile_rule="predictive", corrections=chosen, **options)
        for chosen in ((), POLISHED)
    ]
    np.testing.assert_array_equal(outs[0].ppf([0.1, 0.9]), outs[1].ppf([0.1, 0.9]))


def test_ties_do_not_pull_upwards():
    """Counts, symmetric about zero, under a model that knows nothing: whatever polish does, the middle stays."""
    rng = np.random.default_rng(4)
    y = rng.integers(-2, 3, size=2000).astype(float)
    x = rng.normal(size=(2000, 2))
    base = nc.Normal(np.zeros(2000), 1.0)
    plain, polished = (
        nc.LocalRecalibrator(k=100, quantile_rule="predictive", corrections=chosen).fit(base, y, x).recalibrate(base, x)
        for chosen in ((), POLISHED)
    )
    assert abs(polished.median().mean()) < 0.1
    assert nc.scores.crps(polished, y).mean() < 1.01 * nc.scores.crps(plain, y).mean()


def test_a_radius_that_holds_everyone_learns_from_everyone():
    (correction,) = learnt(Y, radius=nc.Radius(100.0, N + 5), quantile_rule="interpolated", corrections=POLISHED)
    assert correction.map.line.values.shape == (1, N)


def test_the_map_of_polish_increases_where_all_responses_are_higher_than_their_neighbours_say():
    """What a score may move by at most was rounded, so that the same limit came out as different numbers."""
    rng = np.random.default_rng(0)
    rc = nc.LocalRecalibrator(k=20, quantile_rule="predictive", corrections=POLISHED)
    rc.fit(nc.Normal(np.zeros(200), 1.0), np.arange(200.0), rng.normal(size=(200, 2)), time=True)
    (learnt,) = rc.corrections_
    assert (learnt.map.line.values[0] == 1.0).sum() > 20
    assert (np.diff(learnt.map.line.values) >= 0).all()


def test_polish_keeps_to_the_memory_budget():
    dist, y, x = curved(3000, 5)
    budget = 2**22
    workers = nc.Workers(threads=1, memory=budget)
    rc = nc.LocalRecalibrator(k=10, quantile_rule="predictive", corrections=POLISHED, workers=workers).fit(dist, y, x)
    out = rc.recalibrate(dist, x)
    out[:10].ppf(0.5)  # compiled before memory is watched
    tracemalloc.start()
    out.ppf(0.5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < budget


def test_where_left_out_scores_agree_quantiles_keep_their_digits(monkeypatch):
    """The map of polish is then flat: knots lay at scores of 1e14, beside which those near 0 had no digits left."""
    p = np.array([1e-3, 0.05, 0.2, 0.5, 0.8, 0.95])
    settings = {"k": 2, "quantile_rule": "interpolated", "corrections": (nc.Polish(), nc.Caution(0.65))}
    rc = nc.LocalRecalibrator(**settings).fit(
        nc.Normal(np.zeros(2), 1.0), [1.0, np.nextafter(1.0, 2.0)], [0.0, 1.0], sample_weight=[3, 2]
    )
    out = rc.recalibrate(nc.Normal([0.0], 1.0), [0.5])
    np.testing.assert_allclose(out.cdf(out.ppf(p))[0], p, rtol=1e-9)
    monkeypatch.setattr("nearcal.recalibration.polish._FARTHEST", np.inf)
    out = rc.recalibrate(nc.Normal([0.0], 1.0), [0.5])
    assert np.abs(out.cdf(out.ppf(p))[0] - p).max() > 1e-3  # it is the case that it was
