"""Smooth functions of position: a ridge regression against slow twins."""

from dataclasses import replace

import numpy as np
import pytest

from nearcal.recalibration import smooth
from nearcal.recalibration.smooth import SHAPES, SmoothFunction
from nearcal.space import View
from tests import reference
from tests.recalibration.cases import SPACE, D, N, Y

CURVED = Y + np.sin(2 * SPACE[:, 0]) * SPACE[:, 1]
WEIGHTS = np.random.default_rng(5).uniform(0.2, 3.0, size=N)


def learnt(y=CURVED, space=SPACE, sample_weight=None, settings=None, most_centers=700) -> SmoothFunction:
    """Return the function that is nearest to y."""
    view = View(space, None, np.arange(len(space)), space)
    weights = None if sample_weight is None else sample_weight / sample_weight.mean()
    return smooth.learn_smooth(view, y, weights, settings, smooth.Choice(most_centers=most_centers))


def choose(monkeypatch, **choice):
    """Let there be little to choose from."""
    tries = smooth._tries
    monkeypatch.setattr(smooth, "_tries", lambda data, centers, given: tries(data, centers, given._replace(**choice)))


@pytest.mark.parametrize("sample_weight", [None, WEIGHTS], ids=["equal", "weights"])
@pytest.mark.parametrize("centers", [400, 20])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_at_calibration_points_are_those_of_a_fit_without_each(monkeypatch, shape, centers, sample_weight):
    monkeypatch.setattr(smooth, "_CENTERS_TO_CHOOSE", 15)
    choose(monkeypatch, shapes=(shape,))
    found = learnt(sample_weight=sample_weight, most_centers=centers)
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


@pytest.mark.parametrize("sample_weight", [None, WEIGHTS], ids=["equal", "weights"])
def test_given_settings_make_the_function_that_they_were_chosen_for(sample_weight):
    best = learnt(sample_weight=sample_weight)
    again = learnt(sample_weight=sample_weight, settings=best.settings)
    np.testing.assert_allclose(again.values, best.values, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(again(SPACE + 0.1), best(SPACE + 0.1), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_settings_are_those_of_the_least_error(monkeypatch, shape):
    choose(monkeypatch, shapes=(shape,))
    best = learnt()
    width, ridge, error = best.settings.width, best.settings.ridge, np.mean((CURVED - best.values) ** 2)
    for factor, other in ((0.5, ridge), (2.0, ridge), (1.0, ridge * 10)):
        choose(monkeypatch, widths=(factor,))
        monkeypatch.setattr(smooth, "_RIDGES", [other])
        monkeypatch.setattr(smooth, "_typical_distance", lambda points, shape: width)
        assert np.mean((CURVED - learnt().values) ** 2) > error


def test_bumps_are_round_where_scores_are_smooth_and_pointed_where_they_step():
    """Of five columns, a wave across all of them needs round bumps, and a sum of steps pointed ones."""
    rng = np.random.default_rng(2)
    space = rng.uniform(-2, 2, size=(600, 5))
    smooth, steps = np.sin(0.7 * space.sum(axis=1)), (space > 0.3).sum(axis=1) - 2.0
    shapes = [learnt(f + 0.1 * rng.normal(size=600), space).settings.shape for f in (smooth, steps)]
    assert shapes == ["gaussian", "laplace"]


def test_it_is_not_extrapolated():
    found = learnt()
    values = found(np.random.default_rng(1).normal(size=(200, D)) * 5)
    least, greatest = found.values.min(), found.values.max()
    assert ((values >= least - 1e-12) & (values <= greatest + 1e-12)).all()


def test_the_order_of_points_is_a_matter_of_rounding():
    order = np.random.default_rng(3).permutation(N)
    before, after = learnt(), learnt(CURVED[order], SPACE[order])
    assert after.settings.width == pytest.approx(before.settings.width, rel=1e-12)
    assert replace(after.settings, width=1.0) == replace(before.settings, width=1.0)
    np.testing.assert_allclose(after.values, before.values[order], atol=1e-7)  # directions of size 1e-9 are left out
