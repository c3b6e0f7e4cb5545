"""Equal to the R package recalibratiNN 0.3.1 on the paper's Gaussian example (tests/data/README.md)."""

from pathlib import Path

import numpy as np
import pytest

import nearcal as nc
from nearcal.recalibration.algorithm import recalibrate_row, summarise

R = np.load(Path(__file__).parents[1] / "data" / "gaussian_recalibratinn.npz")
SIGMA = float(np.sqrt(R["mse"]))


def model(x):
    intercept, slope = R["coef"]
    return nc.Normal(intercept + slope * x, SIGMA)


@pytest.fixture(scope="module")
def local():
    rc = nc.LocalRecalibrator(k=int(R["k"])).fit(model(R["x_cal"]), R["y_cal"], R["x_cal"])
    return rc.recalibrate(model(R["x_new"]), R["x_new"])


@pytest.fixture(scope="module")
def everywhere():
    return nc.GlobalRecalibrator().fit(model(R["x_cal"]), R["y_cal"]).recalibrate(model(R["x_new"]))


def assert_equal_to_r(ours, theirs):
    # R pushes PIT values through double-precision probabilities, which costs it about 1e-9 σ in the upper tail: where
    # a mean passes through zero a relative bound alone would ask for more digits than R has
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8 * SIGMA)


def test_local_mean_and_quantiles(local):
    lower, upper = local.interval(0.95)
    assert_equal_to_r(local.mean(), R["local_mean"])
    assert_equal_to_r(lower, R["local_q025"])
    assert_equal_to_r(upper, R["local_q975"])


def test_local_variance_in_r_s_normalisation(local):
    distances = local.neighbors(slice(None)).distances
    total = (0.75 * (1 - (distances / distances[:, -1:]) ** 2)).sum(axis=1)
    np.testing.assert_allclose(local.var() * total / (total - 1), R["local_var_unnormalised"], rtol=1e-6)


def test_the_algorithm_in_plain_numpy():
    """What the engine is tested against is itself what R computes."""
    x, x_new, k = R["x_cal"][:, np.newaxis], R["x_new"][:, np.newaxis], int(R["k"])
    dist, new = model(R["x_cal"]), model(R["x_new"])
    for row in range(0, len(x_new), 7):
        values, weights = recalibrate_row(dist, R["y_cal"], x, new[row], x_new[row], k)
        mean, variance, (lower, upper) = summarise(values, weights, np.array([0.025, 0.975]))
        assert_equal_to_r(mean, R["local_mean"][row])
        assert_equal_to_r(lower, R["local_q025"][row])
        assert_equal_to_r(upper, R["local_q975"][row])
        distances = np.sort(np.abs(x[:, 0] - x_new[row]))[:k]
        total = (0.75 * (1 - (distances / distances[-1]) ** 2)).sum()
        np.testing.assert_allclose(variance * total / (total - 1), R["local_var_unnormalised"][row], rtol=1e-6)


def test_global(everywhere):
    lower, upper = everywhere.interval(0.95)
    n = len(R["y_cal"])
    assert_equal_to_r(everywhere.mean(), R["global_mean"])
    assert_equal_to_r(lower, R["global_q025"])
    assert_equal_to_r(upper, R["global_q975"])
    np.testing.assert_allclose(everywhere.var() * n / (n - 1), R["global_var"], rtol=1e-6)


def test_summary_is_what_the_single_questions_give(local):
    s = local.summary(0.95, p=[0.1, 0.5], y=R["y_new"])
    np.testing.assert_array_equal(s.mean, local.mean())
    np.testing.assert_array_equal(s.std, local.std())
    np.testing.assert_array_equal(np.array([s.lower, s.upper]), np.array(local.interval(0.95)))
    np.testing.assert_array_equal(s.quantiles, local.ppf([0.1, 0.5]))
    np.testing.assert_array_equal(s.cdf[:, 0], local.cdf(R["y_new"]))
    np.testing.assert_array_equal(s.effective_size, local.effective_size)
    np.testing.assert_array_equal(s.radius, local.radius)
