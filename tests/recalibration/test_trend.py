"""The trend of scores: a ridge regression against slow twins, and what neighbours are moved by."""

from dataclasses import replace

import numpy as np
import pytest

import nearcal as nc
from nearcal.recalibration import trend
from nearcal.recalibration.trend import SHAPES, LearntTrend
from tests import reference
from tests.recalibration.cases import DIST, NEW, SPACE, SPACE_NEW, D, M, N, Y, assert_sound, local

CURVED = Y + np.sin(2 * SPACE[:, 0]) * SPACE[:, 1]
WEIGHTS = np.random.default_rng(5).uniform(0.2, 3.0, size=N)


def learnt(y=CURVED, space=SPACE, dist=DIST, k=15, sample_weight=None, **options) -> LearntTrend:
    corrections = (nc.Trend(), *options.pop("corrections", ()))
    recalibrator = nc.LocalRecalibrator(k, corrections=corrections, **options)
    (first, *_) = recalibrator.fit(dist, y, space, sample_weight=sample_weight).corrections_
    assert isinstance(first, LearntTrend)
    return first


def only(monkeypatch, shape):
    """Let bumps have one shape."""
    tries = trend._tries
    monkeypatch.setattr(trend, "_tries", lambda data, centers, shapes: tries(data, centers, (shape,)))


@pytest.mark.parametrize("sample_weight", [None, WEIGHTS], ids=["equal", "weights"])
@pytest.mark.parametrize("centers", [400, 20])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_at_calibration_points_are_those_of_a_fit_without_each(monkeypatch, shape, centers, sample_weight):
    monkeypatch.setattr(trend, "_CENTERS", centers)
    monkeypatch.setattr(trend, "_CENTERS_TO_CHOOSE", 15)
    only(monkeypatch, shape)
    found = learnt(sample_weight=sample_weight)
    assert len(found.centers) == min(centers, N)
    assert found.settings.shape == shape
    points = (SPACE - found.origin) / found.settings.width
    weights = np.ones(N) if sample_weight is None else sample_weight / sample_weight.mean()
    deviations = CURVED - found.mean
    assert found.mean == pytest.approx(np.average(CURVED, weights=weights))

    def fitted(kept):
        ridge = found.settings.ridge
        return reference.kernel_ridge(points[kept], found.centers, deviations[kept], weights[kept], ridge, shape)

    everyone = np.arange(N)
    whole = found.mean + reference.bumps(points, found.centers, fitted(everyone), shape)
    np.testing.assert_allclose(found(SPACE), np.clip(whole, found.mean + found.low, found.mean + found.high), atol=1e-6)
    for row in range(0, N, 7):
        without = reference.bumps(points[[row]], found.centers, fitted(np.delete(everyone, row)), shape)[0]
        assert found.values[row] == pytest.approx(found.mean + without, abs=1e-6)


def test_neighbours_are_moved_along_the_function():
    found, plain, moved = learnt(), local(y=CURVED), local(y=CURVED, corrections=(nc.Trend(),))
    near, (values, _) = plain.neighbors(slice(None)), moved.weighted_sample(slice(None))
    expected = CURVED[near.indices] - found.values[near.indices] + found(SPACE_NEW)[:, np.newaxis]
    np.testing.assert_allclose(values, NEW.loc[:, np.newaxis] + NEW.scale[:, np.newaxis] * expected, rtol=1e-10)
    assert not np.allclose(found(SPACE_NEW), found.mean, atol=0.1)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_settings_are_those_of_the_least_error(monkeypatch, shape):
    only(monkeypatch, shape)
    best = learnt()
    width, ridge, error = best.settings.width, best.settings.ridge, np.mean((CURVED - best.values) ** 2)
    for factor, other in ((0.5, ridge), (2.0, ridge), (1.0, ridge * 10)):
        monkeypatch.setattr(trend, "_WIDTHS", (factor,))
        monkeypatch.setattr(trend, "_RIDGES", [other])
        monkeypatch.setattr(trend, "_typical_distance", lambda points, shape: width)
        assert np.mean((CURVED - learnt().values) ** 2) > error


def test_bumps_are_round_where_scores_are_smooth_and_pointed_where_they_step():
    """Of five columns, a wave across all of them needs round bumps, and a sum of steps pointed ones."""
    rng = np.random.default_rng(2)
    space = rng.uniform(-2, 2, size=(600, 5))
    smooth, steps = np.sin(0.7 * space.sum(axis=1)), (space > 0.3).sum(axis=1) - 2.0
    model = nc.Normal(np.zeros(600), 1.0)
    shapes = [learnt(f + 0.1 * rng.normal(size=600), space, model).settings.shape for f in (smooth, steps)]
    assert shapes == ["gaussian", "laplace"]


def test_it_is_not_extrapolated():
    found = learnt()
    values = found(np.random.default_rng(1).normal(size=(200, D)) * 5)
    least, greatest = found.values.min(), found.values.max()
    assert ((values >= least - 1e-12) & (values <= greatest + 1e-12)).all()


def test_it_makes_a_wrong_model_sharp():
    """y = sin(3 x) + noise under a model that says 0: what is left is the noise, of CRPS 0.1 / √π = 0.056."""
    rng = np.random.default_rng(4)
    x, new = rng.uniform(-2, 2, size=(800, 1)), rng.uniform(-1.9, 1.9, size=(500, 1))
    y, y_new = (np.sin(3 * at[:, 0]) + 0.1 * rng.normal(size=len(at)) for at in (x, new))
    model = nc.Normal(np.zeros(800), 0.7)

    def crps(*corrections):
        rc = nc.LocalRecalibrator(200, quantile_rule="predictive", corrections=corrections).fit(model, y, x)
        return nc.scores.crps(rc.recalibrate(model[:500], new), y_new).mean()

    assert crps(nc.Trend()) < 0.062  # 0.056, and 2% a standard error of a mean over 500 rows
    assert crps() > 0.1


def test_each_point_is_judged_by_the_function_without_it():
    """In leave-one-out, noise stays noise: scores of points among the others are no narrower than they are."""
    rng = np.random.default_rng(6)
    space, y = rng.normal(size=(300, 3)), rng.normal(size=300)
    y += np.sin(2 * space[:, 0])
    tuning = nc.tune(
        nc.Normal(np.zeros(300), 1.0), y, space, k=100, trend=True, linear=False, shrinkage=False, time=False
    )
    local_crps = tuning.table["crps"][tuning.table["kind"] == "local"].min()
    # 1 / √π is the CRPS of N(0, 1) noise known without error; the standard error is 0.02 of it
    assert 0.95 / np.sqrt(np.pi) < local_crps < 1.15 / np.sqrt(np.pi)


CORNERS = {
    "all in one place": {"space": np.ones((N, D)), "space_new": np.ones((M, D))},
    "few points": {"y": CURVED[:15], "space": SPACE[:15], "dist": DIST[:15]},
    "equal scores": {"y": np.ones(N)},
    "duplicated positions": {"space": np.repeat(SPACE[:6], 10, axis=0)},
    "far apart": {"space": SPACE * 1e140, "space_new": SPACE_NEW * 1e140},
    "close together": {"space": SPACE * 1e-140, "space_new": SPACE_NEW * 1e-140},
    "an outlier": {"y": np.append(CURVED[:-1], 1e6)},
    "within a radius": {"radius": nc.Radius(1.5, 5, "global")},
    "k = n": {"k": N},
}


@pytest.mark.parametrize("corner", CORNERS, ids=str)
def test_corners(corner):
    options = {"y": CURVED, "quantile_rule": "predictive", **CORNERS[corner]}
    if "radius" not in options and "k" not in options:
        options["k"] = 12
    assert_sound(local(corrections=(nc.Trend(), nc.LocalLinear(), nc.Polish()), **options))


@pytest.mark.parametrize("corner", ["all in one place", "few points", "equal scores"])
def test_where_there_is_nothing_to_learn_nothing_is(corner):
    options = {"y": CURVED, "dist": DIST, "space": SPACE, **CORNERS[corner]}
    rc = nc.LocalRecalibrator(12, corrections=(nc.Trend(),)).fit(options["dist"], options["y"], options["space"])
    assert rc.corrections_ == ()


def test_it_comes_first():
    with pytest.raises(nc.InvalidParameterError, match=r"must begin with Trend\(\), once"):
        local(corrections=(nc.LocalLinear(), nc.Trend()))


def test_points_that_come_later_get_the_function_as_it_was():
    rc = nc.LocalRecalibrator(15, corrections=(nc.Trend(),)).fit(DIST[:40], CURVED[:40], SPACE[:40])
    (first,) = rc.corrections_
    (updated,) = rc.update(DIST[40:], CURVED[40:], SPACE[40:]).corrections_
    np.testing.assert_array_equal(updated.values, np.concatenate([first.values, first(SPACE[40:])]))
    (left,) = rc.forget(keep_last=30).corrections_
    np.testing.assert_array_equal(left.values, updated.values[-30:])
    (again,) = rc.relearn().corrections_
    np.testing.assert_array_equal(again.values, learnt(CURVED[-30:], SPACE[-30:], DIST[-30:]).values)


def test_the_order_of_points_is_a_matter_of_rounding():
    order = np.random.default_rng(3).permutation(N)
    before, after = learnt(), learnt(CURVED[order], SPACE[order])
    assert after.settings.width == pytest.approx(before.settings.width, rel=1e-12)
    assert replace(after.settings, width=1.0) == replace(before.settings, width=1.0)
    np.testing.assert_allclose(after.values, before.values[order], atol=1e-7)  # directions of size 1e-9 are left out
