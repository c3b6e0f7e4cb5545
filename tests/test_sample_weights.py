"""Weights at the boundary: what is taken, what is refused, what they are worth."""

import numpy as np
import pandas as pd
import pytest

import nearcal as nc
from nearcal._sample_weights import PointWeights, as_point_weights

N = 12
RNG = np.random.default_rng(0)
Y, SPACE, DIST = RNG.normal(size=N), RNG.normal(size=(N, 2)), nc.Normal(np.zeros(N), 1.0)

BAD = {
    "too short": (np.ones(N - 1), r"sample_weight must have shape \(12,\) or \(12, 1\), .* got \(11,\)"),
    "a table": (np.ones((N, 2)), r"sample_weight must have shape"),
    "a number": (1.0, r"sample_weight must have shape .* got \(\)"),
    "negative": (np.append(np.ones(N - 1), -2.0), r"not be negative, got 1 negative of 12 .* index 11: -2\.0"),
    "NaN": (np.append(np.ones(N - 1), np.nan), r"sample_weight must be finite, got 1 bad .* weight 0"),
    "infinite": (np.append(np.ones(N - 1), np.inf), r"sample_weight must be finite"),
    "zeros alone": (np.zeros(N), r"positive for at least one row, got zeros alone"),
    "text": (["a"] * N, r"sample_weight must hold real numbers"),
}
RECALIBRATORS = [
    nc.LocalRecalibrator(k=3), nc.KNNRegressor(k=3), nc.GlobalRecalibrator(), nc.IsotonicRecalibrator(),
    nc.VarianceScaling(), nc.ConformalRecalibrator(), nc.IdentityRecalibrator(), nc.QuantileNetRecalibrator(epochs=1),
    nc.GPBetaRecalibrator(),
]  # fmt: skip


@pytest.mark.parametrize(("weights", "message"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("recalibrator", RECALIBRATORS, ids=lambda one: type(one).__name__)
def test_what_are_no_weights_is_refused_everywhere(recalibrator, weights, message):
    with pytest.raises(nc.InvalidInputError, match=f"(?s){message}"):
        recalibrator.fit(DIST, Y, SPACE, sample_weight=weights)


@pytest.mark.parametrize(("weights", "message"), BAD.values(), ids=BAD)
def test_what_are_no_weights_is_refused_in_tuning(weights, message):
    with pytest.raises(nc.InvalidInputError, match=f"(?s){message}"):
        nc.tune(DIST, Y, SPACE, sample_weight=weights)


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, lambda w: np.array(w)[:, np.newaxis], np.float32])
def test_anything_like_an_array_is_taken(kind):
    rows, weights = as_point_weights(kind([1.0, 0.0, 3.0]), 3)
    np.testing.assert_array_equal(rows, [0, 2])
    np.testing.assert_array_equal(weights.given, [1.0, 3.0])


@pytest.mark.parametrize("constant", [1.0, 7, 1e-300, 1e300])
def test_equal_weights_are_none(constant):
    assert as_point_weights(np.full(5, constant), 5) == (None, None)
    rows, weights = as_point_weights(np.array([constant, 0.0, constant]), 3)
    np.testing.assert_array_equal(rows, [0, 2])
    assert weights is None


def test_what_is_a_billion_times_lighter_is_absent():
    rows, weights = as_point_weights([1.0, 2.0, 1e-12], 3)
    np.testing.assert_array_equal(rows, [0, 1])
    assert len(weights) == 2


@pytest.mark.parametrize("unit", [1.0, 1e-300, 1e290])
def test_relative_weights_and_effective_size(unit):
    given = np.array([1.0, 2.0, 5.0, 8.0])
    weights = PointWeights(unit * given)
    np.testing.assert_allclose(weights.relative, given / 4, rtol=1e-14)
    np.testing.assert_allclose(weights.effective_size, given.sum() ** 2 / (given**2).sum(), rtol=1e-14)
    np.testing.assert_array_equal(weights.take(np.array([2, 0])).given, unit * given[[2, 0]])


def test_responses_and_places_of_rows_without_a_weight_may_be_anything():
    weights = np.where(np.arange(N) == 4, 0.0, RNG.uniform(1, 2, N))
    y, space = Y.copy(), SPACE.copy()
    y[4], space[4] = np.nan, np.inf
    for recalibrator in (nc.LocalRecalibrator(k=3), nc.KNNRegressor(k=3), nc.IsotonicRecalibrator()):
        assert recalibrator.fit(DIST, y, space, sample_weight=weights).n_cal_ == N - 1


def test_rows_without_a_weight_must_be_there():
    weights = np.append(np.ones(N - 1), 0.0)
    with pytest.raises(nc.InvalidInputError, match=r"space_cal must have 12 rows, .* got shape \(11, 2\)"):
        nc.LocalRecalibrator(k=3).fit(DIST, Y, SPACE[1:], sample_weight=weights)
    with pytest.raises(nc.InvalidInputError, match=r"y_cal must have 12 rows, .* got shape \(11,\)"):
        nc.GlobalRecalibrator().fit(DIST, Y[1:], sample_weight=weights)


def test_k_counts_rows_that_have_a_weight():
    with pytest.raises(nc.InvalidParameterError, match="k must be at most the number of calibration points, 3"):
        nc.LocalRecalibrator(k=4).fit(DIST, Y, SPACE, sample_weight=np.arange(N) < 3)


def test_gp_beta_says_why_not():
    with pytest.raises(nc.InvalidInputError, match="netcal's GPBeta takes no weights"):
        nc.GPBetaRecalibrator().fit(DIST, Y, sample_weight=np.arange(N) + 1.0)
