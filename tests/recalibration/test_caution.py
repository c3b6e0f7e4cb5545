"""Caution: quantiles between those of the base and those of the recalibrated distribution."""

import numpy as np
import pytest

import nearcal as nc
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


def test_no_share_is_no_correction():
    rc = nc.LocalRecalibrator(**POLISHED, corrections=(nc.Caution(0.0),))
    assert rc.fit(nc.Normal(np.zeros(len(Y)), 1.0), Y, SPACE).corrections_ == ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: local(corrections=(nc.Caution(1.0),), **POLISHED), "share must be below 1, got 1.0; .* Identity"),
        (lambda: local(corrections=(nc.Caution(-0.1),), **POLISHED), "share must be"),
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
    out = local(corrections=(nc.Polish(), nc.Caution(0.4)), **POLISHED)
    alone = local(corrections=(nc.Polish(), nc.Caution(0.4)), new=NEW[3:4], space_new=SPACE_NEW[3:4], **POLISHED)
    np.testing.assert_array_equal(out.ppf(LEVELS)[3:4], alone.ppf(LEVELS))
