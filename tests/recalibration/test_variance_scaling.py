"""Variance scaling against the papers' formula and against a numerical maximum of the likelihood."""

import numpy as np
import pytest
from nearcal.recalibration._score_map import ScoreMap
from scipy.optimize import minimize_scalar

import nearcal as nc


def test_normal_predictions_get_the_formula_of_the_papers():
    rng = np.random.default_rng(1)
    mean, sigma = rng.normal(size=500), rng.uniform(0.5, 2.0, size=500)
    y = rng.normal(mean + 0.3, 1.7 * sigma)
    rc = nc.VarianceScaling().fit(nc.Normal(mean, sigma), y)
    assert rc.factor_ == pytest.approx(np.sqrt(np.mean((y - mean) ** 2 / sigma**2)), rel=1e-12)
    out = rc.recalibrate(nc.Normal(mean, sigma))
    expected = nc.Normal(mean, rc.factor_ * sigma)
    far = expected.from_z(np.tile([-30.0, -2.0, 0.5, 30.0], (500, 1)))
    np.testing.assert_allclose(out.logcdf(far), expected.logcdf(far), rtol=1e-10)
    np.testing.assert_allclose(out.logpdf(y), expected.logpdf(y), rtol=1e-10)
    np.testing.assert_allclose(out.mean(), mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(out.std(), rc.factor_ * sigma, rtol=1e-12)


def test_the_factor_has_the_greatest_likelihood_for_any_family():
    rng = np.random.default_rng(2)
    dist = nc.Gamma(rng.uniform(1.0, 5.0, size=200), 2.0)
    y = rng.gamma(1.0, 6.0, size=200)

    def loss(factor):
        return (
            -nc.MappedDistribution(dist, ScoreMap(np.array([-1.0, 1.0]), np.array([-factor, factor]))).logpdf(y).sum()
        )

    best = minimize_scalar(loss, bounds=(0.2, 5.0), method="bounded", options={"xatol": 1e-10})
    # a minimum is located to about the square root of the rounding of the loss
    assert nc.VarianceScaling().fit(dist, y).factor_ == pytest.approx(best.x, rel=1e-6)


def test_far_scores_do_not_overflow():
    assert nc.VarianceScaling().fit(nc.Normal([0.0, 0.0], 1e-200), [1.0, -1.0]).factor_ == pytest.approx(1e200)


def test_responses_at_the_median_are_refused():
    with pytest.raises(nc.InvalidInputError, match="must not equal the median"):
        nc.VarianceScaling().fit(nc.Normal([0.0, 1.0], 1.0), [0.0, 1.0])
