"""Polish: marginal calibration on top of local."""

import tracemalloc

import numpy as np
import pytest
from scipy.special import ndtri

import nearcal as nc
from tests.recalibration.cases import DIST, NEW, SPACE, SPACE_NEW, M, N, Y, local


def curved(n, seed):
    """A model whose errors drift within neighbourhoods: few neighbours in five dimensions, a curved mean."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    y = rng.normal(x[:, 0] ** 2 + np.sin(2 * x[:, 1]), 0.3)
    return nc.Normal(np.zeros(n), 1.0), y, x


def coverage(out, y, level=0.9):
    lower, upper = out.interval(level)
    return np.mean((lower <= y) & (y <= upper))


@pytest.mark.parametrize("rule", ["interpolated", "predictive"])
@pytest.mark.parametrize("k", [15, 400])
def test_polish_restores_marginal_coverage(rule, k):
    cal, (dist, y, x) = curved(3000, 1), curved(20_000, 2)
    plain, polished = (
        nc.LocalRecalibrator(k=k, quantile_rule=rule, polish=polish).fit(*cal).recalibrate(dist, x)
        for polish in (False, True)
    )
    for level in (0.5, 0.9, 0.98):
        assert abs(coverage(polished, y, level) - level) < 0.025  # three standard errors of 3,000 calibration points
    assert abs(coverage(polished, y) - 0.9) < abs(coverage(plain, y) - 0.9) - 0.01


def assert_learnt(learnt, scores):
    """The i-th score belongs to probability i / (n + 1), within bounds."""
    n = len(scores)
    worth = ndtri(np.arange(1, n + 1) / (n + 1))
    assert len(set(scores)) == n
    expected = [min(max(z, s - 1 - abs(s)), s + 1 + abs(s)) for z, s in zip(sorted(scores), worth, strict=True)]
    np.testing.assert_allclose(learnt.before_knots, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(learnt.after_knots, worth, rtol=1e-12)


@pytest.mark.parametrize("rule", ["interpolated", "predictive"])
@pytest.mark.parametrize("options", [{"k": 9}, {"k": N}, {"radius": 1.5, "min_neighbors": 4}], ids=str)
def test_the_map_is_learnt_from_refits_without_each_point(rule, options):
    rc = nc.LocalRecalibrator(quantile_rule=rule, polish=True, **options).fit(DIST, Y, SPACE)
    scores = []
    for i in range(N):
        others = np.arange(N) != i
        if "radius" in options and (np.linalg.norm(SPACE[others] - SPACE[i], axis=1) <= 1.5).sum() < 4:
            continue
        k = {"k": min(options["k"], N - 1)} if "k" in options else {}
        one = nc.LocalRecalibrator(quantile_rule=rule, **{**options, **k}).fit(DIST[others], Y[others], SPACE[others])
        scores.append(one.recalibrate(DIST[[i]], SPACE[[i]]).z(Y[[i]])[0])
    assert_learnt(rc.polish_.score_map, scores)


def test_polish_moves_quantiles_through_the_map():
    options = {"k": 9, "quantile_rule": "predictive", "smoothing": "uniform"}
    rc = nc.LocalRecalibrator(polish=True, **options).fit(DIST, Y, SPACE)
    polished, plain = rc.recalibrate(NEW, SPACE_NEW), local(**options)
    values = plain.ppf(np.linspace(0.05, 0.95, 50))  # inside: tails are continued anew
    expected = rc.polish_.score_map.after(plain.z(values))
    np.testing.assert_allclose(polished.z(values), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(polished.mean(), plain.mean())


def test_equal_points_crowd_one_another_out():
    """Ten copies of each position: k + 1 nearest of one copy need not hold the copy itself."""
    space = np.repeat(SPACE[:6], 10, axis=0)
    rc = nc.LocalRecalibrator(k=3, quantile_rule="predictive", polish=True).fit(DIST, Y, space)
    scores = []
    for i in range(N):
        others = np.arange(N) != i
        one = nc.LocalRecalibrator(k=3, quantile_rule="predictive").fit(DIST[others], Y[others], space[others])
        scores.append(one.recalibrate(DIST[[i]], space[[i]]).z(Y[[i]])[0])
    assert np.abs(scores).max() > 100  # the others of a position can agree by chance
    assert_learnt(rc.polish_.score_map, scores)


def test_threads_and_chunks_learn_the_same():
    dist, y, x = curved(2000, 3)
    fits = [
        nc.LocalRecalibrator(k=50, quantile_rule="predictive", polish=True, **extra).fit(dist, y, x).polish_.score_map
        for extra in ({"threads": 1}, {"threads": 3, "memory": 2**20})
    ]
    np.testing.assert_array_equal(fits[0].before_knots, fits[1].before_knots)


def test_polish_needs_a_continuous_rule():
    with pytest.raises(nc.InvalidParameterError, match="continuous quantile_rule"):
        local(polish=True)


def test_polish_must_be_learnt_for_the_settings_in_use():
    rc = nc.LocalRecalibrator(k=9, quantile_rule="predictive").fit(DIST, Y, SPACE)
    with pytest.raises(nc.InvalidParameterError, match="call fit again"):
        rc.set_params(polish=True).recalibrate(NEW, SPACE_NEW)
    rc.fit(DIST, Y, SPACE)
    assert len(rc.recalibrate(NEW, SPACE_NEW)) == M
    with pytest.raises(nc.InvalidParameterError, match="call fit again"):
        rc.set_params(k=10).recalibrate(NEW, SPACE_NEW)
    assert len(rc.set_params(polish=False).recalibrate(NEW, SPACE_NEW)) == M


@pytest.mark.parametrize(
    ("rows", "options"), [(N, {"radius": 1e-9}), (1, {"k": 1})], ids=["nobody near", "one calibration point"]
)
def test_nothing_to_learn_moves_nothing(rows, options):
    outs = [
        local(Y[:rows], SPACE[:rows], dist=DIST[:rows], quantile_rule="predictive", polish=polish, **options)
        for polish in (False, True)
    ]
    np.testing.assert_array_equal(outs[0].ppf([0.1, 0.9]), outs[1].ppf([0.1, 0.9]))


def test_ties_do_not_pull_upwards():
    """Counts, symmetric about zero, under a model that knows nothing: whatever polish does, the middle stays."""
    rng = np.random.default_rng(4)
    y = rng.integers(-2, 3, size=2000).astype(float)
    x = rng.normal(size=(2000, 2))
    base = nc.Normal(np.zeros(2000), 1.0)
    plain, polished = (
        nc.LocalRecalibrator(k=100, quantile_rule="predictive", polish=polish).fit(base, y, x).recalibrate(base, x)
        for polish in (False, True)
    )
    assert abs(polished.median().mean()) < 0.1
    assert nc.scores.crps(polished, y).mean() < 1.01 * nc.scores.crps(plain, y).mean()


def test_a_radius_that_holds_everyone_learns_from_everyone():
    options = {"radius": 100.0, "min_neighbors": N + 5, "quantile_rule": "interpolated"}
    rc = nc.LocalRecalibrator(polish=True, **options).fit(DIST, Y, SPACE)
    assert len(rc.polish_.score_map.before_knots) == N


def test_polish_keeps_to_the_memory_budget():
    dist, y, x = curved(3000, 5)
    budget = 2**22
    options = {"k": 10, "quantile_rule": "predictive", "polish": True, "threads": 1}
    out = nc.LocalRecalibrator(memory=budget, **options).fit(dist, y, x).recalibrate(dist, x)
    out[:10].ppf(0.5)  # compiled before memory is watched
    tracemalloc.start()
    out.ppf(0.5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < budget
