"""GP-Beta: what netcal computes comes through unchanged. Needs netcal, which the extra "test" does not install."""

import sys
import warnings

import numpy as np
import pytest

import nearcal as nc

RNG = np.random.default_rng(1)
DIST = nc.Normal(RNG.normal(size=60), RNG.uniform(0.5, 2.0, size=60))
Y = RNG.normal(DIST.loc + 50.0, 3.0)
QUICK = {"n_inducing_points": 5, "n_random_samples": 16, "epochs": 3, "rng": 1}


@pytest.fixture(scope="module")
def fitted():
    pytest.importorskip("netcal", exc_type=ImportError)
    return nc.GPBetaRecalibrator(**QUICK).fit(DIST, Y)


def test_distribution_function_is_that_of_netcal(fitted):
    """Draws of the process differ by seed alone, and quantiles are read from a grid: 2e-3 of probability."""
    import torch

    new = nc.Normal([0.0, 1.0], [1.0, 0.7])
    out = fitted.recalibrate(new)
    y = new.from_z(np.array([[-2.0, 0.0, 0.5, 2.0], [-1.0, 0.1, 1.0, 1.5]]))
    mean, points, scale = *map(fitted.response_map_, (new.loc, y)), new.scale / fitted.response_map_.scale
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(fitted.seed_)
        cdf = fitted.model_.transform((mean, scale), points.T)[2][:, :, 0].T
    np.testing.assert_allclose(out.cdf(y), cdf, atol=2e-3)


def test_seeds_decide_and_the_process_is_left_as_found(fitted):
    import torch

    state, filters = torch.get_rng_state(), list(warnings.filters)
    again = nc.GPBetaRecalibrator(**QUICK).fit(DIST, Y)
    levels = [0.01, 0.3, 0.9]
    np.testing.assert_array_equal(again.recalibrate(DIST).ppf(levels), fitted.recalibrate(DIST).ppf(levels))
    assert torch.equal(torch.get_rng_state(), state)
    assert list(warnings.filters) == filters


def test_bad_input_is_refused(monkeypatch):
    with pytest.raises(nc.InvalidInputError, match=r"dist_cal must be a nearcal.Normal.* got Gamma"):
        nc.GPBetaRecalibrator().fit(nc.Gamma(np.ones(60), 1.0), Y)
    with pytest.raises(nc.InvalidInputError, match="at least 12 responses that are not all equal, got 5"):
        nc.GPBetaRecalibrator().fit(DIST[:5], Y[:5])
    with pytest.raises(nc.InvalidParameterError, match="epochs must be a whole number >= 1, got 0"):
        nc.GPBetaRecalibrator(epochs=0).fit(DIST, Y)
    with pytest.raises(nc.NotFittedError, match="GPBetaRecalibrator is not fitted"):
        nc.GPBetaRecalibrator().recalibrate(DIST)
    monkeypatch.setitem(sys.modules, "netcal", None)
    monkeypatch.setitem(sys.modules, "netcal.regression", None)
    with pytest.raises(nc.MissingExtraError, match=r"nearcal\[netcal\]"):
        nc.GPBetaRecalibrator().fit(DIST, Y)
