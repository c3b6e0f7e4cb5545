"""Parametric families against 50-digit arithmetic, in the body and far into both tails."""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import nearcal as nc

mp.mp.dps = 50
SCORES = [-37.0, -20.0, -8.0, -2.0, -0.3, 0.0, 0.4, 1.5, 7.0, 20.0, 37.0]


def normal_tails(y, loc, scale):
    x = (mp.mpf(y) - loc) / scale / mp.sqrt(2)
    return mp.erfc(-x) / 2, mp.erfc(x) / 2


def lognormal_tails(y, mu, sigma):
    return normal_tails(mp.log(mp.mpf(y)), mu, sigma)


def laplace_tails(y, loc, scale):
    x = (mp.mpf(y) - loc) / scale
    tail = mp.exp(-abs(x)) / 2
    return (tail, 1 - tail) if x < 0 else (1 - tail, tail)


def gamma_tails(y, shape, scale):
    x = mp.mpf(y) / scale
    return mp.gammainc(shape, 0, x, regularized=True), mp.gammainc(shape, x, mp.inf, regularized=True)


def student_tails(y, df, loc, scale):
    t = (mp.mpf(y) - loc) / scale
    a, b, x = mp.mpf(df) / 2, mp.mpf(1) / 2, 1 / (1 + t * t / df)
    tail = x**a * mp.sqrt(1 - x) / (a * mp.beta(a, b)) * mp.hyp2f1(a + b, 1, a + 1, x) / 2 if t else mp.mpf(1) / 2
    return (tail, 1 - tail) if t < 0 else (1 - tail, tail)


# (family, parameters, exact tails, scipy twin)
CASES = [
    (nc.Normal, (1.5, 0.7), normal_tails, lambda m, s: stats.norm(m, s)),
    (nc.LogNormal, (0.5, 0.9), lognormal_tails, lambda m, s: stats.lognorm(s, scale=np.exp(m))),
    (nc.Laplace, (-1.0, 2.0), laplace_tails, lambda m, s: stats.laplace(m, s)),
    (nc.Gamma, (1.0, 3.0), gamma_tails, lambda a, s: stats.gamma(a, scale=s)),
    (nc.Gamma, (3.7, 0.5), gamma_tails, lambda a, s: stats.gamma(a, scale=s)),
    (nc.Gamma, (100.0, 2.0), gamma_tails, lambda a, s: stats.gamma(a, scale=s)),
    (nc.Gamma, (1e4, 1.0), gamma_tails, lambda a, s: stats.gamma(a, scale=s)),
    (nc.StudentT, (2.5, 1.0, 2.0), student_tails, lambda v, m, s: stats.t(v, m, s)),
    (nc.StudentT, (5.0, 0.0, 1.0), student_tails, lambda v, m, s: stats.t(v, m, s)),
    (nc.StudentT, (300.0, 0.0, 1.0), student_tails, lambda v, m, s: stats.t(v, m, s)),
    (nc.StudentT, (1e5, 0.0, 1.0), student_tails, lambda v, m, s: stats.t(v, m, s)),
]
cases = pytest.mark.parametrize(
    ("family", "parameters", "tails", "twin"), CASES, ids=[f"{c[0].__name__}{c[1]}" for c in CASES]
)


@cases
def test_log_probabilities_and_quantiles(family, parameters, tails, twin):
    d = family(*parameters)
    exact = [mp.mpf(p) for p in parameters]
    for score in SCORES:
        y = float(d.from_z(score)[0])
        lower, upper = tails(y, *exact)
        np.testing.assert_allclose(d.logcdf(y)[0], float(mp.log(lower)), rtol=1e-10, atol=1e-15)
        np.testing.assert_allclose(d.logsf(y)[0], float(mp.log(upper)), rtol=1e-10, atol=1e-15)
        # the quantile is right if the exact probability there is that of the score, to what one ulp of y allows
        lighter = float(mp.log(min(lower, upper)))
        wanted = float(mp.log(mp.erfc(abs(mp.mpf(score)) / mp.sqrt(2)) / 2))
        np.testing.assert_allclose(lighter, wanted, rtol=1e-10)


@cases
def test_body_against_scipy(family, parameters, tails, twin):
    d, other = family(*parameters), twin(*parameters)
    y = d.ppf([0.001, 0.1, 0.5, 0.9, 0.999])
    np.testing.assert_allclose(d.cdf(y), other.cdf(y), rtol=1e-10)
    np.testing.assert_allclose(d.sf(y), other.sf(y), rtol=1e-10)
    np.testing.assert_allclose(d.logpdf(y), other.logpdf(y), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(y[0], other.ppf([0.001, 0.1, 0.5, 0.9, 0.999]), rtol=1e-10)
    np.testing.assert_allclose(d.mean(), other.mean(), rtol=1e-10)
    np.testing.assert_allclose(d.var(), other.var(), rtol=1e-10)


@pytest.mark.parametrize(
    ("d", "y", "log_tail"),
    [
        # mp.log(mp.gammainc(2, 2000, mp.inf, regularized=True)), and so on, with mp.dps = 50
        (nc.Gamma(2.0, 1.0), 2000.0, mp.log(mp.gammainc(2, 2000, mp.inf, regularized=True))),
        (nc.Gamma(1e4, 1.0), 15000.0, mp.log(mp.gammainc(1e4, 15000, mp.inf, regularized=True))),
        (nc.StudentT(400.0, 0.0, 1.0), 300.0, mp.log(student_tails(300, 400, 0, 1)[1])),
        (nc.StudentT(1.0, 0.0, 1.0), 1e200, mp.log(student_tails(mp.mpf(10) ** 200, 1, 0, 1)[1])),
        (nc.StudentT(2e4, 0.0, 1.0), 60.0, mp.log(student_tails(60, mp.mpf(20000), 0, 1)[1])),
        (nc.Normal(0.0, 1.0), 100.0, mp.log(normal_tails(100, 0, 1)[1])),
        (nc.Laplace(0.0, 1.0), 5000.0, mp.log(laplace_tails(5000, 0, 1)[1])),
    ],
)
def test_log_survival_beyond_underflow(d, y, log_tail):
    np.testing.assert_allclose(d.logsf(y)[0], float(log_tail), rtol=1e-10)
    np.testing.assert_allclose(d.from_z(d.z(y)), y, rtol=1e-10)


def test_gamma_lower_tail_beyond_underflow():
    exact = mp.log(mp.gammainc(500, 0, 10, regularized=True))
    np.testing.assert_allclose(nc.Gamma(500.0, 1.0).logcdf(10.0)[0], float(exact), rtol=1e-10)
    np.testing.assert_allclose(nc.Gamma(500.0, 1.0).from_z(nc.Gamma(500.0, 1.0).z(10.0)), 10.0, rtol=1e-10)
