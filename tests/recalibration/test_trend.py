"""The trend of scores: what neighbours are moved by."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.recalibration.trend import LearntTrend
from tests.recalibration.cases import DIST, NEW, SPACE, SPACE_NEW, D, M, N, Y, assert_sound, local

CURVED = Y + np.sin(2 * SPACE[:, 0]) * SPACE[:, 1]


def learnt(y=CURVED, space=SPACE, dist=DIST, k=15, sample_weight=None, **options) -> LearntTrend:
    corrections = (nc.Trend(), *options.pop("corrections", ()))
    recalibrator = nc.LocalRecalibrator(k, corrections=corrections, **options)
    (first, *_) = recalibrator.fit(dist, y, space, sample_weight=sample_weight).corrections_
    assert isinstance(first, LearntTrend)
    return first


def test_neighbours_are_moved_along_the_function():
    found, plain, moved = learnt(), local(y=CURVED), local(y=CURVED, corrections=(nc.Trend(),))
    near, (values, _) = plain.neighbors(slice(None)), moved.weighted_sample(slice(None))
    here = found.location(SPACE_NEW)
    assert found.spread is None
    expected = CURVED[near.indices] - found.location.values[near.indices] + here[:, np.newaxis]
    np.testing.assert_allclose(values, NEW.loc[:, np.newaxis] + NEW.scale[:, np.newaxis] * expected, rtol=1e-10)
    assert not np.allclose(here, found.location.mean, atol=0.1)


def test_neighbours_spread_as_scores_do_where_the_row_is():
    """The spread of scores grows tenfold from one end to the other; all of them are everybody's neighbours."""
    rng = np.random.default_rng(8)
    x = rng.uniform(-1, 1, size=(800, 1))
    true = np.exp(1.15 * x[:, 0])
    model = nc.Normal(np.zeros(800), 1.0)
    rc = nc.LocalRecalibrator(800, corrections=(nc.Trend(),)).fit(
        model, np.sin(3 * x[:, 0]) + true * rng.normal(size=800), x
    )
    (found,) = rc.corrections_
    new = np.array([[-0.8], [0.0], [0.8]])
    result = rc.recalibrate(model[:3], new)
    values, _ = result.weighted_sample(slice(None))
    near = result.neighbors(slice(None)).indices
    residuals = rc.calibration_.z[near] - found.location.values[near]
    stretched = residuals * np.exp(found.spread(new)[:, np.newaxis] - found.spread.values[near])
    np.testing.assert_allclose(values, found.location(new)[:, np.newaxis] + stretched, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(result.std(), np.exp(1.15 * new[:, 0]), rtol=0.15)


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
    first, updated = first.location, updated.location
    np.testing.assert_array_equal(updated.values, np.concatenate([first.values, first(SPACE[40:])]))
    (left,) = rc.forget(keep_last=30).corrections_
    np.testing.assert_array_equal(left.location.values, updated.values[-30:])
    (again,) = rc.relearn().corrections_
    expected = learnt(CURVED[-30:], SPACE[-30:], DIST[-30:]).location.values
    np.testing.assert_array_equal(again.location.values, expected)


def test_the_settings_are_those_that_points_are_judged_with():
    recalibrator = nc.LocalRecalibrator(k=30, scaling="relevance", corrections=(nc.Trend(),)).fit(DIST, CURVED, SPACE)
    left_out = recalibrator.left_out()
    judged = nc.Trend().learn(left_out, left_out.widest)
    assert left_out.widest.points.tolist() != recalibrator.index_.points.tolist()
    assert recalibrator.corrections_[0].location.settings == judged.location.settings
