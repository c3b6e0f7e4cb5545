"""Distributions of scipy where scipy itself fails."""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import nearcal as nc


def log_inverse_gaussian_cdf(x, mu):
    """Φ(√(1/x) (x/μ - 1)) + exp(2/μ) Φ(-√(1/x) (x/μ + 1)), with fifty digits."""
    with mp.workdps(50):
        x, mu = mp.mpf(x), mp.mpf(mu)
        return float(mp.log(mp.ncdf((x / mu - 1) / mp.sqrt(x)) + mp.exp(2 / mu) * mp.ncdf(-(x / mu + 1) / mp.sqrt(x))))


def test_quantiles_that_scipy_does_not_find_are_searched():
    assert stats.norm.logcdf(-20) == pytest.approx(-203.9, rel=1e-3)
    d = nc.from_scipy(stats.invgauss(0.12))  # scipy: 1e248 at a score of -20, with a warning
    for z in (-30.0, -20.0, -5.0):
        exact = log_inverse_gaussian_cdf(d.from_z(z)[0], 0.12)
        np.testing.assert_allclose(exact, stats.norm.logcdf(z), rtol=1e-7)
    quantiles = d.from_z(np.linspace(-36, 36, 145)[np.newaxis])[0]
    assert (np.diff(quantiles) > 0).all()


@pytest.mark.parametrize(
    "frozen",
    [stats.wald(), stats.invgauss([0.02, 1.0, 5.0]), stats.ncf(27, 27, 0.416), stats.mielke(10.4, 4.6)],
    ids=lambda frozen: frozen.dist.name,
)
def test_quantiles_increase_however_far_out(frozen):
    d = nc.from_scipy(frozen)
    quantiles = d.from_z(np.linspace(-36, 36, 73)[np.newaxis])
    assert (np.diff(quantiles, axis=1) >= 0).all()
    body = np.linspace(-5, 5, 21)[np.newaxis]
    np.testing.assert_allclose(d.z(d.from_z(body)), np.tile(body, (len(d), 1)), rtol=1e-7, atol=1e-9)


class NoMedian(stats.rv_continuous):
    def _cdf(self, x, a):
        return np.where(a > 1, np.nan, np.clip(x, 0, 1))

    def _ppf(self, p, a):
        return np.where(a > 1, np.nan, p)


def test_an_error_names_the_row_that_scipy_cannot_tell():
    d = nc.from_scipy(NoMedian(name="no_median")(np.array([1.0, 2.0])))
    with pytest.raises(
        nc.InvalidInputError, match=r"no_median must tell .* got NaN as the median of row 1; use another"
    ):
        d.ppf(0.3)
    np.testing.assert_allclose(d[0].ppf(0.3), 0.3)


def test_an_error_of_scipy_is_passed_on_as_one_of_input():
    class Strange(stats.rv_continuous):
        def _logcdf(self, x):
            raise IndexError("of no use")

    d = nc.from_scipy(Strange(name="strange")())
    with pytest.raises(nc.InvalidInputError, match=r"scipy\.stats\.strange\.logcdf must take .* IndexError: of no use"):
        d.logcdf(0.0)
