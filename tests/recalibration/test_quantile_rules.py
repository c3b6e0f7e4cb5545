"""What sets the rules apart by which quantiles are read from a neighbourhood."""

import numpy as np
import pytest

import nearcal as nc


def next_scores(k, m, smoothing="uniform", rule="predictive", seed=0):
    """Return m results, each from its own k Normal scores of unknown mean and spread, and what came next."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.5, 2.0, size=(m, k + 1))
    # neighbourhoods far apart, their points at distances 1, 2, ...: each row has its own k
    space = (1e4 * np.arange(m)[:, np.newaxis] + np.arange(k)).ravel()
    rc = nc.LocalRecalibrator(k=k, smoothing=smoothing, quantile_rule=rule)
    rc.fit(nc.Normal(np.zeros(m * k), 1.0), z[:, :k].ravel(), space)
    return rc.recalibrate(nc.Normal(np.zeros(m), 1.0), 1e4 * np.arange(m) - 1), z[:, k]


@pytest.mark.parametrize("smoothing", ["uniform", "epanechnikov"])
@pytest.mark.parametrize(("k", "coverage"), [(8, 0.5), (8, 0.75), (20, 0.5), (20, 0.9), (60, 0.9), (60, 0.95)])
def test_predictive_intervals_cover_the_next_draw_as_often_as_they_say(k, coverage, smoothing):
    out, y = next_scores(k, 20_000, smoothing)
    lower, upper = out.interval(coverage)
    assert abs(np.mean((lower <= y) & (y <= upper)) - coverage) < 0.012  # 3 standard errors, and the interpolation


@pytest.mark.parametrize("rule", ["step", "interpolated"])
def test_without_it_intervals_of_few_points_are_too_narrow(rule):
    out, y = next_scores(8, 20_000, rule=rule)
    lower, upper = out.interval(0.9)
    assert np.mean((lower <= y) & (y <= upper)) < 0.83


def test_the_ith_of_n_scores_stands_at_i_of_n_plus_one():
    for k in (2, 3, 10, 100):
        out, _ = next_scores(k, 1)
        values = np.sort(out.weighted_sample(0).values[0])
        np.testing.assert_allclose(out.cdf(values[np.newaxis])[0], np.arange(1, k + 1) / (k + 1), rtol=1e-12)


def test_predictive_tends_to_interpolated():
    predictive, interpolated = (next_scores(20_000, 1, rule=rule)[0] for rule in ("predictive", "interpolated"))
    p = [0.001, 0.1, 0.5, 0.9, 0.999]
    np.testing.assert_allclose(predictive.ppf(p), interpolated.ppf(p), rtol=1e-3, atol=1e-3)


def test_predictive_shares_moments_and_the_middle():
    out, plain = (next_scores(15, 5, "epanechnikov", rule)[0] for rule in ("predictive", "interpolated"))
    np.testing.assert_array_equal(out.mean(), plain.mean())
    lower, upper = out.interval(0.95)
    inner_lower, inner_upper = plain.interval(0.95)
    assert (lower < inner_lower).all()
    assert (upper > inner_upper).all()
