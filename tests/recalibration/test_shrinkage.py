"""Shrinkage: the empirical-Bayes rule by hand, what it learns, and what it brings."""

import numpy as np
import pytest

import nearcal as nc
from tests.recalibration.cases import (
    NEW,
    SPACE,
    SPACE_NEW,
    M,
    N,
    Y,
    assert_equals_its_weighted_sample,
    assert_sound,
    local,
)


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


@pytest.mark.parametrize("adjustment", ["none", "linear"])
def test_scores_are_drawn_by_the_rule(adjustment):
    y = Y + SPACE[:, 0]
    options = {"k": 20, "adjustment": adjustment}
    rc = nc.LocalRecalibrator(shrinkage=True, **options).fit(nc.Normal(np.zeros(N), 1.0), y, SPACE)
    out = rc.recalibrate(NEW, SPACE_NEW)
    plain, weights = local(y=y, **options).weighted_sample(slice(None))
    drawn, _ = out.weighted_sample(slice(None))
    for row in range(M):
        scores = (plain[row] - NEW.loc[row]) / NEW.scale[row]
        expected = by_hand(scores, weights[row], rc.shrinkage_)
        np.testing.assert_allclose(drawn[row], NEW.loc[row] + NEW.scale[row] * expected, rtol=1e-10, atol=1e-12)
    assert_sound(out)
    assert_equals_its_weighted_sample(out)


def test_variances_are_learnt_from_points_among_the_others():
    rc = nc.LocalRecalibrator(k=9, smoothing="uniform", shrinkage=True).fit(nc.Normal(np.zeros(N), 1.0), Y, SPACE)
    moments = []
    for i in range(N):
        nearest = np.argsort(np.linalg.norm(SPACE - SPACE[i], axis=1))[1:10]
        moments.append((Y[nearest].mean(), Y[nearest].var(ddof=1)))
    mean, variance = np.array(moments).T
    center = Y.mean() * max(1 - Y.var() / N / Y.mean() ** 2, 0)
    log_spread = np.log(Y.std()) * max(1 - 1 / (2 * N) / np.log(Y.std()) ** 2, 0)
    learnt = rc.shrinkage_
    assert learnt.mean == pytest.approx(center)
    assert learnt.log_spread == pytest.approx(log_spread)
    assert learnt.mean_variance == pytest.approx(max(np.mean((mean - center) ** 2) - np.mean(variance / 9), 0))
    expected = np.mean((np.log(variance) / 2 - log_spread) ** 2) - 1 / 18
    assert learnt.log_spread_variance == pytest.approx(max(expected, 0))


def test_a_right_model_gets_nearly_its_own_distribution_back():
    """Neighbourhoods that differ by chance alone are drawn to location 0 and spread 1 altogether, or nearly."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4000, 3)), rng.normal(size=4000)
    base = nc.Normal(np.zeros(4000), 1.0)
    new, y_new = rng.normal(size=(2000, 3)), rng.normal(size=2000)
    crps = {}
    for shrinkage in (False, True):
        rc = nc.LocalRecalibrator(k=30, quantile_rule="predictive", shrinkage=shrinkage).fit(base, y, x)
        crps[shrinkage] = nc.scores.crps(rc.recalibrate(base[:2000], new), y_new).mean()
    own = nc.scores.crps(base[:2000], y_new).mean()
    assert crps[True] - own < 0.35 * (crps[False] - own)


def test_differences_that_are_real_are_kept():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, size=2000)
    rc = nc.LocalRecalibrator(k=50, shrinkage=True).fit(nc.Normal(np.zeros(2000), 1.0), rng.normal(5 * x, 0.1), x)
    np.testing.assert_allclose(rc.recalibrate(nc.Normal([0.0, 0.0], 1.0), [-2.0, 2.0]).mean(), [-10, 10], rtol=0.01)


CORNERS = {
    "equal scores": {"y": np.full(N, 0.3)},
    "k = 1": {"k": 1},
    "two points": {"y": Y[:2], "space": SPACE[:2], "dist": nc.Normal(np.zeros(2), 1.0), "k": 2},
    "one point": {"y": Y[:1], "space": SPACE[:1], "dist": nc.Normal([0.0], 1.0), "k": 1},
    "nobody near": {"radius": 1e-9, "min_neighbors": 5},
    "thin, global": {"radius": 1.0, "thin": "global"},
    "thin, base": {"radius": 1.0, "thin": "base"},
    "relevance": {"scaling": "relevance"},
    "polished": {"polish": True, "quantile_rule": "predictive"},
}


@pytest.mark.parametrize("corner", CORNERS)
def test_corners(corner):
    assert_sound(local(shrinkage=True, **CORNERS[corner]))


def test_it_must_be_learnt_by_fit():
    rc = nc.LocalRecalibrator(k=9).fit(nc.Normal(np.zeros(N), 1.0), Y, SPACE)
    with pytest.raises(nc.InvalidParameterError, match="shrinkage=True must be learnt"):
        rc.set_params(shrinkage=True).recalibrate(NEW, SPACE_NEW)
    with pytest.raises(nc.InvalidParameterError, match="adjustment='linear' must be learnt"):
        rc.set_params(shrinkage=False, adjustment="linear", k=20).recalibrate(NEW, SPACE_NEW)
    with pytest.raises(nc.InvalidParameterError, match='shrinkage must be True, False or "auto"'):
        rc.set_params(shrinkage=0.5).recalibrate(NEW, SPACE_NEW)
