"""Scores along the rows: drifts are seen, chance and dependence are not taken for one, and then the latest count."""

import warnings

import numpy as np
import pytest
from scipy import stats

import nearcal as nc
from nearcal.recalibration.row_drift import FALSE_ALARM, average_ranks, correlation_with_order, latest_rows

N = 1200
RNG = np.random.default_rng(8)
NOISE, TIME = RNG.normal(size=N), np.linspace(0, 1, N)
DRIFTS = {"level": NOISE + TIME, "spread": NOISE * np.exp(0.8 * TIME), "less spread": NOISE * np.exp(-0.8 * TIME)}


def quietly(scores, order=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nc.DependenceWarning)
        return latest_rows(scores, np.arange(len(scores)) if order is None else order)


def test_the_correlation_is_pearsons():
    expected = np.corrcoef(NOISE, np.arange(N))[0, 1]
    assert correlation_with_order(NOISE)[0] == pytest.approx(expected, rel=1e-10)
    assert correlation_with_order(np.ones(5)) == correlation_with_order(np.ones(1)) == (0.0, 0.0)


@pytest.mark.parametrize("kind", DRIFTS)
def test_a_drift_leaves_the_latest_quarter_and_is_told(kind):
    with pytest.warns(nc.DependenceWarning, match=r"the 300 latest of 1200 rows"):
        rows = latest_rows(DRIFTS[kind], np.arange(N))
    np.testing.assert_array_equal(rows, np.arange(900, N))


def test_the_order_is_that_of_time():
    shuffled = RNG.permutation(N)
    rows = quietly(DRIFTS["level"][shuffled], np.argsort(shuffled))
    np.testing.assert_array_equal(np.sort(shuffled[rows]), np.arange(900, N))


def test_a_hundred_rows_are_left_at_least_and_few_tell_nothing():
    steep = np.arange(150) + NOISE[:150]
    assert len(quietly(steep)) == 100
    assert len(latest_rows(steep[:80], np.arange(80))) == 80  # and nothing is told
    assert len(latest_rows(steep[:15], np.arange(15))) == 15


def test_what_is_significant_but_small_is_no_drift():
    many = np.random.default_rng(1).normal(size=200_000) + 0.1 * np.linspace(0, 1, 200_000)
    correlation, in_errors = correlation_with_order(many)
    assert in_errors > 8 > 0.05 > correlation
    assert len(latest_rows(many, np.arange(len(many)))) == len(many)


@pytest.mark.parametrize("n", [120, 400])
@pytest.mark.parametrize("serial", [0.0, 0.6])
def test_false_alarms(n, serial):
    """Of 2,000 sets of rows without a drift at most 7 alarms: four standard deviations above 1 in 1,000.

    Of autoregressive rows the ranks follow each other less than rows do, and few of them tell their correlation badly:
    at n = 120 it is held to 1 in 100.
    """
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(2000, n + 50))
    for i in range(1, n + 50):
        scores[:, i] = serial * scores[:, i - 1] + np.sqrt(1 - serial**2) * scores[:, i]
    alarms = sum(len(quietly(row)) < n for row in scores[:, 50:])
    assert alarms <= 2000 * (FALSE_ALARM if serial == 0 or n > 120 else 0.01) + 4 * np.sqrt(2000 * FALSE_ALARM)


def drifting(n, seed, growth=1.0):
    """A model whose errors grow as time goes by, and with x."""
    rng = np.random.default_rng(seed)
    x, time = rng.uniform(size=n), np.arange(n) / n
    return nc.Normal(np.zeros(n), 1.0), rng.normal(0.0, np.exp(x + growth * time)), x


@pytest.mark.parametrize("kind", ["local", "global"])
def test_what_is_chosen_follows_the_drift(kind):
    """Predictions are as wide as the latest rows ask for, which is nearer to what comes than all rows are."""
    dist, y, x = drifting(4000, 3)
    cal = slice(0, 3000)
    options = {"k": 300, "scaling": "standard", "linear": False, "shrinkage": False, "trend": False, "fade": False}
    space = x if kind == "local" else np.random.default_rng(4).permutation(x)
    with pytest.warns(nc.DependenceWarning, match="change along its rows"):
        tuning = nc.tune(dist[cal], y[cal], space[cal], **options)
    assert tuning.chosen.kind == kind
    still = nc.tune(dist[cal], y[cal], space[cal], time=False, **options)
    scores = [one.recalibrator.recalibrate(dist[3000:], space[3000:]).z(y[3000:]).std() for one in (tuning, still)]
    assert 1 < scores[0] < scores[1] - 0.1


def test_the_drift_is_in_order_of_time_where_it_is_given():
    dist, y, x = drifting(2000, 4, growth=3.0)
    options = {"quantile_rule": "predictive", "corrections": (nc.Polish(drift=True),)}
    shuffled = np.random.default_rng(1).permutation(2000)
    with pytest.warns(nc.DependenceWarning, match="of 1[0-9]{3} rows"):  # those with two fifths of all before them
        by_time = nc.LocalRecalibrator(200, **options).fit(dist[shuffled], y[shuffled], x[shuffled], time=shuffled)
    in_order = nc.LocalRecalibrator(200, **options)
    with pytest.warns(nc.DependenceWarning):
        in_order.fit(dist, y, x, time=True)
    found, expected = (one.corrections_[0].map.line for one in (by_time, in_order))
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-9)
    untold = nc.LocalRecalibrator(200, **options).fit(dist[shuffled], y[shuffled], x[shuffled])  # and no warning
    assert np.ptp(untold.corrections_[0].map.line.values) < np.ptp(found.values)


def test_groups_alone_and_an_order_that_means_nothing_are_not_looked_at():
    dist, y, x = drifting(1000, 5)
    options = {"k": 100, "scaling": "standard", "linear": False, "shrinkage": False, "trend": False, "rule": "best"}
    for relations in ({"time": False}, {"groups": np.arange(1000) % 50}):
        tuning = nc.tune(dist, y, x, **options, **relations)  # warnings are errors
        assert tuning.recalibrator.corrections[0] == nc.Polish()


def test_the_parameter_is_checked():
    with pytest.raises(nc.InvalidParameterError, match="drift must be"):
        nc.LocalRecalibrator(5, quantile_rule="predictive", corrections=(nc.Polish(drift="yes"),)).fit(*drifting(20, 1))


def test_average_ranks_are_scipys():
    values = np.random.default_rng(5).integers(0, 40, 100).astype(float)
    np.testing.assert_array_equal(average_ranks(values), stats.rankdata(values))
