"""Parametric families against 50-digit arithmetic, in the body and far into both tails."""

import mpmath as mp
import numpy as np
import pytest
from scipy import special, stats

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


# ---- many degrees of freedom, large shapes --------------------------------------------------------------------------


def log_tail_by_quadrature(log_density, end, direction, scale):
    """Integrate a density outwards from ``end``, in pieces over which it falls by some powers of e."""
    at_end = log_density(end)
    pieces = [end + direction * 3 * k * scale for k in range(25)]
    return at_end + mp.log(abs(mp.quad(lambda y: mp.exp(log_density(y) - at_end), pieces)))


def log_gamma_density(shape):
    shape = mp.mpf(shape)
    constant = mp.loggamma(shape)
    return lambda x: (shape - 1) * mp.log(x) - x - constant


def log_student_density(df):
    df = mp.mpf(df)
    constant = mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - mp.log(df * mp.pi) / 2
    return lambda t: constant - (df + 1) / 2 * mp.log1p(t * t / df)


@pytest.mark.parametrize("shape", [9e4, 1e5, 5e6, 1e8, 1e12])
@pytest.mark.parametrize("z", [-36.0, -5.0, -0.2, 3.0, 20.0])
def test_gamma_of_large_shape(shape, z):
    d = nc.Gamma(shape, 1.0)
    x = d.from_z(z)[0]
    density = log_gamma_density(shape)
    exact = log_tail_by_quadrature(density, mp.mpf(x), np.sign(z), mp.sqrt(shape) / (1 + abs(z)))
    found = d.logsf(x)[0] if z > 0 else d.logcdf(x)[0]
    np.testing.assert_allclose(found, float(exact), rtol=1e-13)
    np.testing.assert_allclose(d.logpdf(x)[0], float(density(mp.mpf(x))), rtol=1e-13)
    rounding = 2 * np.spacing(x) / np.sqrt(shape)  # of the quantile, in standard deviations
    assert abs(d.z(x)[0] - z) < rounding + 1e-14 * abs(z)


@pytest.mark.parametrize("df", [9e4, 1e5, 1e7, 1e10])
@pytest.mark.parametrize("z", [0.2, 5.0, 36.0, 200.0])
def test_student_of_many_degrees_of_freedom(df, z):
    d = nc.StudentT(df, 0.0, 1.0)
    t = d.from_z(z)[0]
    density = log_student_density(df)
    exact = log_tail_by_quadrature(density, mp.mpf(t), 1, 1 / (1 + mp.mpf(t)))
    np.testing.assert_allclose(d.logsf(t)[0], float(exact), rtol=1e-13)
    np.testing.assert_allclose(d.logcdf(-t)[0], float(exact), rtol=1e-13)
    np.testing.assert_allclose(d.logpdf(t)[0], float(density(mp.mpf(t))), rtol=1e-13)
    np.testing.assert_allclose(d.z(t)[0], z, rtol=1e-13)


def test_student_quantiles_where_a_standard_one_is_no_number():
    d = nc.StudentT(106.65, 0.0, 2.25e-132)
    y = d.from_z([-430.0])[0]
    assert np.isfinite(y)
    tail = student_tails(y, mp.mpf(106.65), 0, mp.mpf(2.25e-132))[0]
    np.testing.assert_allclose(float(mp.log(tail)), special.log_ndtr(-430.0), rtol=1e-12)
    assert d.from_z([-1e4])[0] == -np.inf


@pytest.mark.parametrize(("df", "t"), [(7e4, 1e160), (1e6, 1e160), (1e10, 1e290), (3e5, 2e3)])
def test_student_tails_far_beyond_their_near_normal_part(df, t):
    """P(T > t) = x^a / (2 a B(a, ½)) · 2F1(a, ½; a + 1; x), with a = df/2 and x = 1 / (1 + t²/df)."""
    a, x = mp.mpf(df) / 2, 1 / (1 + mp.mpf(t) ** 2 / df)
    log_beta = mp.loggamma(a) + mp.loggamma(mp.mpf(1) / 2) - mp.loggamma(a + mp.mpf(1) / 2)
    exact = a * mp.log(x) - mp.log(2 * a) - log_beta + mp.log(mp.hyp2f1(a, mp.mpf(1) / 2, a + 1, x))
    d = nc.StudentT(df, 0.0, 1.0)
    np.testing.assert_allclose(d.logsf(t)[0], float(exact), rtol=1e-12)
    np.testing.assert_allclose(d.z(t)[0], np.sqrt(-2 * float(exact)), rtol=1e-4)  # z = √(-2 log P) up to logarithms
    np.testing.assert_allclose(d.z(d.from_z(d.z(t)))[0], d.z(t)[0], rtol=1e-12)


def test_gamma_scores_of_responses_far_beyond_the_mean():
    d = nc.Gamma([0.3, 2.0, 1e4, 1e7], 1.0)
    for factor in (1e10, 1e100, 1e250):
        y = factor * d.mean()
        z = d.z(y)
        np.testing.assert_allclose(z, np.sqrt(2 * y), rtol=1e-2)  # the tail is exp(-y), up to powers
        np.testing.assert_allclose(d.from_z(z), y, rtol=1e-10)


def test_gamma_quantiles_too_small_for_the_standard_one_but_not_for_its_scale():
    """P(a, x) = xᵃ / Γ(a + 1) as x -> 0."""
    shape, scale = 0.01, 1e300
    d = nc.Gamma(shape, scale)
    for p in (1e-5, 1e-4, 1e-3):
        exact = (mp.mpf(p) * mp.gamma(mp.mpf(shape) + 1)) ** (1 / mp.mpf(shape)) * mp.mpf(scale)
        np.testing.assert_allclose(d.ppf(p)[0], float(exact), rtol=1e-10)
        np.testing.assert_allclose(d.cdf(d.ppf(p))[0], p, rtol=1e-12)
    assert nc.Gamma(18.0, 1e-267).logpdf(1e300)[0] == -np.inf


# ---- moments at the ends of floating-point numbers ------------------------------------------------------------------

SCALES = np.array([1e-170, 1e-300, 1e170, 1e299])
DRAWS = np.array([-1.0, 0.5, 0.5, 3.0])


@pytest.mark.parametrize(
    ("d", "standard"),
    [
        (nc.Normal(0.0, SCALES), nc.Normal(0.0, 1.0)),
        (nc.Laplace(0.0, SCALES), nc.Laplace(0.0, 1.0)),
        (nc.Gamma(3.0, SCALES), nc.Gamma(3.0, 1.0)),
        (nc.LogNormal(np.log(SCALES), 0.5), nc.LogNormal(0.0, 0.5)),
        (nc.StudentT(5.0, 0.0, SCALES), nc.StudentT(5.0, 0.0, 1.0)),
        (
            nc.Mixture([0.2, 0.8], [nc.Normal(SCALES, SCALES), nc.Gamma(2.0, SCALES)]),
            nc.Mixture([0.2, 0.8], [nc.Normal(1.0, 1.0), nc.Gamma(2.0, 1.0)]),
        ),
        (nc.Samples(DRAWS * SCALES[:, None]), nc.Samples([DRAWS])),
        (nc.Samples(DRAWS * SCALES[:, None], tails="empirical"), nc.Samples([DRAWS], tails="empirical")),
        (nc.Quantiles([0.1, 0.2, 0.5, 0.9], DRAWS * SCALES[:, None]), nc.Quantiles([0.1, 0.2, 0.5, 0.9], [DRAWS])),
        (nc.from_scipy(stats.gumbel_r(0.0, SCALES)), nc.from_scipy(stats.gumbel_r(0.0, 1.0))),
    ],
    ids=lambda d: type(d).__name__,
)
def test_standard_deviations_scale_like_responses(d, standard):
    np.testing.assert_allclose(d.std() / SCALES, standard.std()[0], rtol=1e-12)
    np.testing.assert_allclose(d.mean() / SCALES, standard.mean()[0], rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(d.var(), [0.0, 0.0, np.inf, np.inf])


def test_lognormal_moments_whose_factors_overflow_and_vanish():
    """E Y = exp(mu + sigma²/2), sd Y = E Y √(exp(sigma²) - 1)."""
    for mu, sigma in ((-1000.0, 30.0), (-400.0, 25.0), (0.0, 1e-200), (3.0, 1e-6), (1.0, 0.7)):
        mean = mp.exp(mp.mpf(mu) + mp.mpf(sigma) ** 2 / 2)
        d = nc.LogNormal(mu, sigma)
        np.testing.assert_allclose(d.mean()[0], float(mean), rtol=1e-12)
        np.testing.assert_allclose(d.std()[0], float(mean * mp.sqrt(mp.expm1(mp.mpf(sigma) ** 2))), rtol=1e-12)
    assert nc.LogNormal(0.0, 1e3).std()[0] == np.inf
