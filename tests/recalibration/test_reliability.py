"""Reliability: false alarms at the stated rate, alarms far away, and a naive twin of the p-value."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.recalibration import reliability
from tests.recalibration.cases import DIST, NEW, SPACE, SPACE_NEW, M, N, Y, local


def fitted(space, **options):
    n = len(space)
    return nc.LocalRecalibrator(**options).fit(nc.Normal(np.zeros(n), 1.0), np.zeros(n), space)


def judged(recalibrator, space, **options):
    return recalibrator.recalibrate(nc.Normal(np.zeros(len(space)), 1.0), space).reliability(**options)


@pytest.mark.parametrize("options", [{"k": 50}, {"k": 50, "scaling": "whiten"}, {"radius": nc.Radius(0.7, 1)}])
def test_false_alarms_come_at_the_stated_rate_and_strangers_are_found(options):
    rng = np.random.default_rng(0)

    def draw(n):
        return rng.normal(size=(n, 3)) @ [[1, 0.5, 0], [0, 1, 0], [0, 0, 1]]

    rc = fitted(draw(4000), **options)
    # 8,000 rows: the standard deviation of the rate is 0.0011 for the rows and 0.0016 for the calibration set.
    # Few neighbours are tied with few neighbours, so counts flag at most at the stated rate.
    rate = judged(rc, draw(8000))["out_of_distribution"].mean()
    assert rate < 0.016
    assert rate > (0.005 if "k" in options else 0.0)
    assert judged(rc, draw(200) + 20)["out_of_distribution"].all()


def test_k_nearest_equals_its_naive_twin():
    table = local(k=15).reliability(false_alarm=0.2)
    within = np.sort(np.linalg.norm(SPACE[:, np.newaxis] - SPACE, axis=2), axis=1)[:, 15]  # the first is the point
    radius = np.sort(np.linalg.norm(SPACE_NEW[:, np.newaxis] - SPACE, axis=2), axis=1)[:, 14]
    np.testing.assert_allclose(table["radius"], radius)
    np.testing.assert_allclose(table["isolation"], [(within < r).mean() for r in radius])
    p_value = np.array([(1 + (within >= r).sum()) / (N + 1) for r in radius])
    np.testing.assert_allclose(table["p_value"], p_value)
    np.testing.assert_array_equal(table["out_of_distribution"], p_value <= 0.2)
    np.testing.assert_array_equal(table["effective_size"], local(k=15).effective_size)


@pytest.mark.parametrize("thin", ["nearest", "global", "base"])
def test_a_fixed_radius_counts_neighbours_before_any_policy(thin):
    table = local(radius=nc.Radius(1.5, 20, thin)).reliability()
    count = (np.linalg.norm(SPACE_NEW[:, np.newaxis] - SPACE, axis=2) <= 1.5).sum(axis=1)
    own = (np.linalg.norm(SPACE[:, np.newaxis] - SPACE, axis=2) <= 1.5).sum(axis=1) - 1
    np.testing.assert_allclose(table["p_value"], [(1 + (own <= c).sum()) / (N + 1) for c in count])


def test_k_may_be_all_points():
    table = local(k=N).reliability()
    assert np.isfinite(table["p_value"]).all()


def test_a_subset_of_the_calibration_points_stands_for_all(monkeypatch):
    monkeypatch.setattr(reliability, "_MOST_POINTS", 30)
    few = local(k=5).reliability()["p_value"]
    assert (few >= 1 / 31).all()
    monkeypatch.undo()
    np.testing.assert_allclose(few, local(k=5).reliability()["p_value"], atol=0.25)


def test_without_neighbourhoods_nothing_is_known_and_nothing_flagged():
    table = nc.GlobalRecalibrator().fit(DIST, Y).recalibrate(NEW).reliability()
    np.testing.assert_array_equal(table["effective_size"], N)
    assert np.isnan(table["isolation"]).all()
    assert np.isnan(table["p_value"]).all()
    assert not table["out_of_distribution"].any()


def test_rows_can_be_sliced_and_own_radii_are_searched_once():
    out = local(k=7)
    whole = out.reliability()
    calls = []
    index = out.scores.own_isolation.index
    original = index.nearest
    index.nearest = lambda *args: calls.append(args) or original(*args)
    part = out[3:9].reliability()
    np.testing.assert_array_equal(part["p_value"], whole["p_value"][3:9])
    assert sum(len(points) for points, _, _ in calls) == 6


def test_printed_it_says_how_many_are_flagged():
    text = str(local(k=15).reliability(false_alarm=0.999))
    names = ["effective_size", "radius", "isolation", "p_value", "out_of_distribution", "trust"]
    assert text.splitlines()[0].split() == names
    assert f"of {M} rows out of distribution, 0 faded" in text
    assert "..." in text


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, "1%", np.nan])
def test_a_rate_of_false_alarms_lies_between_0_and_1(rate):
    with pytest.raises(nc.InvalidParameterError, match="false_alarm must be"):
        local(k=5).reliability(false_alarm=rate)
