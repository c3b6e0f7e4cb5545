"""Scores from log-probabilities against scipy's log_ndtr, which keeps all digits, and mpmath."""

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr

from nearcal._normal_scores import log_tails_from_z, quantile_of_log, z_from_log_tails

Z = np.array([0.0, 0.3, 5.0, 37.0, 59.9, 60.1, 137.0, 500.0, 2345.0, 1e4, 1e8, 1e100])


def test_scores_come_back_from_both_tails():
    """They were off by 3e-13 of themselves beyond 60."""
    for z in (Z, -Z):
        back, far = z_from_log_tails(*log_tails_from_z(z)), np.abs(z) > 60
        np.testing.assert_allclose(back[far], z[far], rtol=5e-16)
        np.testing.assert_allclose(back, z, rtol=1e-14)
    np.testing.assert_array_equal(quantile_of_log(np.array([-np.inf])), -np.inf)


@pytest.mark.parametrize("z", [61.0, 500.0])
def test_log_probabilities_are_those_of_the_normal_distribution(z):
    with mpmath.workdps(40):
        log_p = float(mpmath.log(mpmath.erfc(mpmath.mpf(z) / mpmath.sqrt(2)) / 2))
    assert log_ndtr(-z) == pytest.approx(log_p, rel=1e-15)
    assert quantile_of_log(np.array([log_p]))[0] == pytest.approx(-z, rel=5e-16)
