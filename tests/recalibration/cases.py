"""What the tests of recalibration share: a small problem, every family, and the checks a result must pass."""

import numpy as np
from scipy import stats

import nearcal as nc
from tests import reference

RNG = np.random.default_rng(2)
N, M, D = 60, 12, 3
SPACE = RNG.normal(size=(N, D)) + 2.0
SPACE_NEW = RNG.normal(size=(M, D)) + 2.0
Y = RNG.normal(size=N)
DIST = nc.Normal(np.zeros(N), 1.0)
NEW = nc.Normal(RNG.normal(size=M), RNG.uniform(0.5, 2.0, size=M))
P = np.array([0.0, 1e-3, 0.05, 0.25, 0.5, 0.75, 0.95, 0.999, 1.0])


def local(y=Y, space=SPACE, space_new=SPACE_NEW, dist=DIST, new=NEW, **options):
    options = options if "radius" in options else {"k": 15, **options}
    return nc.LocalRecalibrator(**options).fit(dist, y, space).recalibrate(new, space_new)


def assert_sound(out, y=0.7, *, heavy=False):
    """Every statistic is finite, and quantiles, distribution function, density and summary go together.

    Rows of heavy tails may lack a variance, and those of them a mean.
    """
    n, levels = len(out), P[1:-1]
    quantiles = out.ppf(levels)
    density = [out.logpdf(y)] if out.has_density else []
    for values in (out.median(), *out.interval(0.9), out.z(y), out.sample(3, rng=1), *density):
        assert np.isfinite(values).all()
        assert len(values) == n
    assert not np.isnan(out.std()).any()
    assert (np.isfinite(out.mean()) | np.isinf(out.std())).all()
    assert heavy or np.isfinite(out.std()).all()
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=1) >= 0).all()
    # a quantile is off by its own rounding; where it is an atom there is none
    above, below = (np.nextafter(quantiles, to) if out.is_continuous else quantiles for to in (np.inf, -np.inf))
    assert (out.cdf(above) >= levels - 1e-9).all()
    assert (out.cdf_left(below) <= levels + 1e-9).all()
    cdf = out.cdf(quantiles)
    assert (cdf <= 1).all()
    np.testing.assert_allclose(cdf + out.sf(quantiles), 1, rtol=1e-12)
    summary = out.summary(coverage=0.9, p=levels, y=quantiles)
    np.testing.assert_array_equal(summary.quantiles, quantiles)
    np.testing.assert_array_equal(summary.cdf, cdf)
    np.testing.assert_array_equal(summary.mean, out.mean())
    np.testing.assert_array_equal(summary.std, out.std())
    np.testing.assert_array_equal([summary.lower, summary.upper], out.interval(0.9))


def assert_equals_its_weighted_sample(out, rtol=1e-10):
    assert_equals_weighted_sample(out, *out.weighted_sample(slice(None)), rtol)


def assert_equals_weighted_sample(out, values, weights, rtol=1e-10):
    """Every statistic is that of values and weights, (rows, k) each."""
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
    mean = (weights * values).sum(axis=1)
    variance = (weights * (values - mean[:, np.newaxis]) ** 2).sum(axis=1)
    np.testing.assert_allclose(out.mean(), mean, rtol=rtol, atol=rtol * np.abs(values).max())
    np.testing.assert_allclose(out.var(), variance, rtol=rtol, atol=1e-14 * np.abs(values).max() ** 2)
    quantiles = [[reference.weighted_quantile(v, w, p) for p in P] for v, w in zip(values, weights, strict=True)]
    np.testing.assert_allclose(out.ppf(P), quantiles, rtol=rtol)
    # beside the sample's values and exactly on them
    between = np.sort(values, axis=1)[:, ::4] + 1e-6 * np.ptp(values)
    for y in (between, values, out.ppf(P)):
        naive = ((values[:, np.newaxis] <= y[:, :, np.newaxis]) * weights[:, np.newaxis]).sum(axis=2)
        np.testing.assert_allclose(out.cdf(y), naive, rtol=rtol, atol=1e-12)
        np.testing.assert_allclose(out.sf(y), 1 - naive, rtol=rtol, atol=1e-12)


def normal_mixture(n, rng):
    return nc.Mixture(rng.dirichlet([1, 1], n), [nc.Normal(rng.normal(size=n), 0.5), nc.Normal(2.0 + np.zeros(n), 1.5)])


def recalibrated(n, rng, rule):
    rc = nc.LocalRecalibrator(k=20, quantile_rule=rule).fit(DIST, Y, SPACE)
    return rc.recalibrate(nc.Normal(rng.normal(size=n), 1.0), rng.normal(size=(n, D)))


FAMILIES = {
    "Normal": lambda n, rng: nc.Normal(rng.normal(size=n), rng.uniform(0.5, 2, n)),
    "Normal far from zero": lambda n, rng: nc.Normal(1e9 + rng.normal(size=n), rng.uniform(1e-3, 2e-3, n)),
    "LogNormal": lambda n, rng: nc.LogNormal(rng.normal(size=n), 0.5),
    "LogNormal, several sigmas": lambda n, rng: nc.LogNormal(rng.normal(size=n), rng.uniform(0.3, 1, n)),
    "Gamma": lambda n, rng: nc.Gamma(2.5, rng.uniform(0.5, 2, n)),
    "Gamma, several shapes": lambda n, rng: nc.Gamma(rng.uniform(0.5, 20, n), rng.uniform(0.5, 2, n)),
    "StudentT": lambda n, rng: nc.StudentT(5.0, rng.normal(size=n), rng.uniform(0.5, 2, n)),
    "StudentT, several df": lambda n, rng: nc.StudentT(rng.uniform(3, 30, n), rng.normal(size=n), 1.0),
    "Laplace": lambda n, rng: nc.Laplace(rng.normal(size=n), rng.uniform(0.5, 2, n)),
    "Mixture": normal_mixture,
    "Samples": lambda n, rng: nc.Samples(rng.normal(size=(n, 25))),
    "Samples, weighted": lambda n, rng: nc.Samples(rng.normal(size=(n, 25)), rng.dirichlet(np.ones(25), n)),
    "Samples, empirical": lambda n, rng: nc.Samples(rng.normal(size=(n, 25)), tails="empirical"),
    "Samples, empirical, weighted": lambda n, rng: nc.Samples(
        rng.normal(size=(n, 25)), rng.dirichlet(np.ones(25), n), tails="empirical"
    ),
    "Quantiles": lambda n, rng: nc.Quantiles([0.05, 0.25, 0.5, 0.75, 0.95], rng.normal(size=(n, 5))),
    "Quantiles, empirical": lambda n, rng: nc.Quantiles([0.1, 0.5, 0.9], rng.normal(size=(n, 3)), tails="empirical"),
    "scipy gumbel": lambda n, rng: nc.from_scipy(stats.gumbel_r(rng.normal(size=n), rng.uniform(0.5, 2, n))),
    "scipy weibull, several shapes": lambda n, rng: nc.from_scipy(stats.weibull_min(rng.uniform(1, 3, n))),
    "Recalibrated": lambda n, rng: recalibrated(n, rng, "step"),
    "Recalibrated, predictive": lambda n, rng: recalibrated(n, rng, "predictive"),
    "Recalibrated, interpolated": lambda n, rng: recalibrated(n, rng, "interpolated"),
}  # fmt: skip


def make_family(name):
    """Return calibration distributions, responses a little over-dispersed, and new distributions of one family."""
    rng = np.random.default_rng(7)
    dist_cal, dist_new = FAMILIES[name](N, rng), FAMILIES[name](M, rng)
    return dist_cal, dist_cal.from_z(3 * np.tanh((1.3 * rng.normal(size=N) + 0.2) / 3)), dist_new
