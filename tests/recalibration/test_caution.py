"""Caution: quantiles between those of the base and those of the recalibrated distribution."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.distributions.interpolation import Interpolated
from nearcal.recalibration.caution import LearntCaution
from nearcal.recalibration.curve import Curve
from tests.recalibration.cases import NEW, SPACE, SPACE_NEW, Y, assert_sound, local

POLISHED = {"k": 30, "quantile_rule": "predictive"}
LEVELS = np.array([0.01, 0.2, 0.5, 0.9])


@pytest.mark.parametrize("share", [0.2, 0.7])
@pytest.mark.parametrize("before", [(), (nc.LocalLinear(), nc.Polish())], ids=["plain", "polished"])
def test_scores_are_averaged(share, before):
    whole, cautious = (
        local(corrections=corrections, **POLISHED) for corrections in (before, (*before, nc.Caution(share)))
    )
    expected = (1 - share) * NEW._z(whole.ppf(LEVELS)) + share * NEW._z(NEW.ppf(LEVELS))
    np.testing.assert_allclose(NEW._z(cautious.ppf(LEVELS)), expected, rtol=1e-9, atol=1e-9)
    assert_sound(cautious)


KNOTS = np.linspace(-3, 3, 31)


def drawn_naively(values, tails, middle=0.0):
    """Draw parts of one row to the model's, knot by knot, as far as every step keeps half of its height."""
    outer = [min(max(abs(s) - 1, 0), 1) for s in KNOTS]
    parts = [tails * one + middle * (1 - one) for one in outer]
    way = [part * (s - q) for part, s, q in zip(parts, KNOTS, values, strict=True)]
    share = 1.0
    for left in range(len(values) - 1):
        height, lost = values[left + 1] - values[left], way[left] - way[left + 1]
        if lost > 0:
            share = min(share, 0.5 * height / lost)
    return share, values + share * np.array(way)


def test_tails_are_drawn_to_the_model_s():
    rng = np.random.default_rng(0)
    location, spread = rng.uniform(-0.4, 0.4, size=(20, 1)), rng.uniform(0.8, 1.3, size=(20, 1))
    values = location + spread * KNOTS
    out = LearntCaution(0.0, 0.5).bend(Curve(Interpolated(KNOTS[np.newaxis], values, normal_tails=True)))
    middle, ends = np.abs(KNOTS) <= 1, np.abs(KNOTS) >= 2
    np.testing.assert_array_equal(out.line.values[:, middle], values[:, middle])
    np.testing.assert_allclose(out.line.values[:, ends], 0.5 * values[:, ends] + 0.5 * KNOTS[ends])
    np.testing.assert_allclose(out.line.slope_above, 0.5 + 0.5 * spread, rtol=1e-6)
    for row, own in zip(out.line.values, values, strict=True):
        share, expected = drawn_naively(own, 0.5)
        assert share == 1.0
        np.testing.assert_allclose(row, expected, atol=1e-12)


def test_the_middle_is_drawn_to_the_model_s():
    rng = np.random.default_rng(0)
    values = rng.uniform(-0.2, 0.2, size=(20, 1)) + rng.uniform(0.9, 1.2, size=(20, 1)) * KNOTS
    out = LearntCaution(0.0, 0.1, 0.6).bend(Curve(Interpolated(KNOTS[np.newaxis], values, normal_tails=True)))
    inner = np.abs(KNOTS) <= 1
    np.testing.assert_allclose(out.line.values[:, inner], 0.4 * values[:, inner] + 0.6 * KNOTS[inner])
    np.testing.assert_allclose(out.line.slope_above, 0.9 * values[:, -1:] / 3 + 0.1, atol=0.3)
    for row, own in zip(out.line.values, values, strict=True):
        share, expected = drawn_naively(own, 0.1, 0.6)
        assert share == 1.0
        np.testing.assert_allclose(row, expected, atol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("far", [2.0, 50.0, 1e9])
def test_tails_of_rows_apart_from_the_model_keep_their_order(share, far):
    rng = np.random.default_rng(1)
    values = rng.choice([-far, far], size=(50, 1)) + np.cumsum(rng.exponential(size=(50, 31)) ** 2, axis=1)
    out = LearntCaution(share, 0.9).bend(Curve(Interpolated(KNOTS[np.newaxis], values, normal_tails=True)))
    before = (1 - share) * values + share * KNOTS
    assert (np.diff(out.line.values, axis=1) >= 0.49 * np.diff(before, axis=1) - 1e-15 * far).all()
    for row, own in zip(out.line.values, before, strict=True):
        limited, expected = drawn_naively(own, 0.9)
        assert limited < 1
        np.testing.assert_allclose(row, expected, rtol=1e-9)


@pytest.mark.parametrize("before", [(), (nc.LocalLinear(), nc.Polish())], ids=["plain", "polished"])
def test_a_result_with_cautious_tails_is_a_distribution(before):
    out = local(corrections=(*before, nc.Caution(0.1, 0.5)), **POLISHED)
    middle = local(corrections=(*before, nc.Caution(0.1)), **POLISHED)
    assert_sound(out)
    np.testing.assert_allclose(out.ppf(0.5), middle.ppf(0.5), rtol=1e-12)
    assert not np.allclose(out.ppf(0.99), middle.ppf(0.99))


def test_no_share_is_no_correction():
    rc = nc.LocalRecalibrator(**POLISHED, corrections=(nc.Caution(0.0),))
    assert rc.fit(nc.Normal(np.zeros(len(Y)), 1.0), Y, SPACE).corrections_ == ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: local(corrections=(nc.Caution(1.0),), **POLISHED), "share must be below 1, got 1.0; .* Identity"),
        (lambda: local(corrections=(nc.Caution(-0.1),), **POLISHED), "share must be"),
        (lambda: local(corrections=(nc.Caution(0.1, 1.0),), **POLISHED), "tails must be below 1, got 1.0"),
        (lambda: local(corrections=(nc.Caution(0.1, np.nan),), **POLISHED), "tails must be"),
        (lambda: local(k=30, corrections=(nc.Caution(0.5),)), "needs a continuous quantile_rule"),
        (
            lambda: nc.KNNRegressor(9, quantile_rule="predictive", corrections=(nc.Caution(0.5),)).fit(None, Y, SPACE),
            "without Caution for KNNRegressor",
        ),
    ],
)
def test_mistakes(make, message):
    with pytest.raises(nc.InvalidParameterError, match=message):
        make()


def test_a_row_is_asked_alone():
    out = local(corrections=(nc.Polish(), nc.Caution(0.4, 0.3)), **POLISHED)
    alone = local(corrections=(nc.Polish(), nc.Caution(0.4, 0.3)), new=NEW[3:4], space_new=SPACE_NEW[3:4], **POLISHED)
    np.testing.assert_array_equal(out.ppf(LEVELS)[3:4], alone.ppf(LEVELS))
