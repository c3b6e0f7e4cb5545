"""Gamma tails far beyond underflow, against mpmath."""

import mpmath as mp
import numpy as np
import pytest
from scipy.special import log_ndtr

import nearcal as nc
from nearcal.kernels import gamma_tails

SHAPES = [0.3, 1.0, 5.4, 100.0, 1e4]


def exact_log_tails(shape, x):
    """Return log P and log Q; the series or the fraction behind them is mpmath's, with forty digits."""
    with mp.workdps(40):
        return tuple(float(mp.log(mp.gammainc(shape, *ends, regularized=True))) for ends in ((0, x), (x, mp.inf)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("z", [36.5, 60.0, 200.0])
def test_upper_tail(shape, z):
    x = nc.Gamma(shape, 1.0).from_z(z)[0]
    assert exact_log_tails(shape, x)[1] == pytest.approx(log_ndtr(-z), rel=1e-12)
    assert gamma_tails.log_upper(np.array([shape]), np.array([x]))[0] == pytest.approx(log_ndtr(-z), rel=1e-12)


@pytest.mark.parametrize("shape", SHAPES[2:])
@pytest.mark.parametrize("z", [-36.5, -38.0])
def test_lower_tail(shape, z):
    x = nc.Gamma(shape, 1.0).from_z(z)[0]
    assert exact_log_tails(shape, x)[0] == pytest.approx(log_ndtr(z), rel=1e-12)
    assert gamma_tails.log_lower(np.array([shape]), np.array([x]))[0] == pytest.approx(log_ndtr(z), rel=1e-12)


def test_quantiles_too_small_for_a_float_are_zero():
    np.testing.assert_array_equal(nc.Gamma(SHAPES[:3], 1.0).from_z(-200.0), 0.0)
    assert nc.Gamma(100.0, 1.0).from_z(-200.0)[0] > 0


def test_quantiles_increase_across_the_seam():
    for shape in SHAPES:
        z = np.concatenate([np.linspace(-36.2, -35.8, 41), np.linspace(35.8, 36.2, 41)])
        values = nc.Gamma(np.full(82, shape), 1.0).from_z(z)
        steps = np.diff(values)
        assert (steps[values[1:] > 0] > 0).all()
