"""Quantiles by series are those that a family gives one by one, and a row's are its own."""

import numpy as np
import pytest
from scipy import stats

import nearcal as nc
from nearcal.distributions.quantile_series import quantile_values

RNG = np.random.default_rng(0)
ROWS, WIDTH = 12, 400
LOC = RNG.normal(size=ROWS)
BATCHES = {
    "gamma": nc.Gamma(RNG.uniform(0.5, 200, ROWS), RNG.uniform(0.1, 9, ROWS)),
    "gamma, one shape": nc.Gamma(5.37, RNG.uniform(0.1, 9, ROWS)),
    "gamma, extreme shapes": nc.Gamma(np.geomspace(0.05, 1e6, ROWS), 2.0),
    "student": nc.StudentT(RNG.uniform(1.1, 50, ROWS), LOC, 3.0),
    "student, extreme": nc.StudentT(np.geomspace(0.5, 1e6, ROWS), LOC, 1.0),
    "mixture": nc.Mixture([0.4, 0.6], [nc.Normal(LOC, 1.0), nc.Gamma(RNG.uniform(2, 5, ROWS), 1.0)]),
    "mixture far apart": nc.Mixture([0.4, 0.6], [nc.Normal(LOC, 0.1), nc.Normal(np.full(ROWS, 9.0), 0.1)]),
    "scipy": nc.from_scipy(stats.weibull_min(RNG.uniform(1, 4, ROWS), scale=3.0)),
    "scipy, bounded": nc.from_scipy(stats.uniform(LOC, RNG.uniform(1, 4, ROWS))),
    "normal": nc.Normal(LOC, 2.0),  # has a formula: asked directly
}
SCORES = {
    "usual": RNG.normal(size=(ROWS, WIDTH)),
    "heavy": RNG.standard_t(3, size=(ROWS, WIDTH)).clip(-30, 30),
    "one-sided": np.abs(RNG.normal(size=(ROWS, WIDTH))) + np.arange(ROWS)[:, None],
    "on the edges of panels": RNG.choice([-8.0, -5.0, -3.0, -1.5, 0.0, 1.5, 3.0, 5.0], size=(ROWS, WIDTH)),
}
each = pytest.mark.parametrize(("batch", "kind"), [(batch, kind) for batch in BATCHES for kind in SCORES])


@each
def test_equal_those_asked_for_one_by_one(batch, kind):
    dist, z = BATCHES[batch], SCORES[kind]
    direct = dist._from_z(z)
    found = quantile_values(dist, z)
    # series have come down to 1e-11 of a row's slope in a panel; a panel's values span a few times that
    width = np.abs(direct - dist.from_z(np.zeros(ROWS))[:, None])
    finite = np.isfinite(direct)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    error = np.abs(np.where(finite, found, 0.0) - np.where(finite, direct, 0.0))
    scale = np.where(finite, np.abs(direct) + width, 0.0) + np.ptp(dist.ppf([0.25, 0.75]), axis=1)[:, None]
    assert (error <= 1e-10 * scale).all()


@each
def test_a_row_does_not_depend_on_those_beside_it(batch, kind):
    dist, z = BATCHES[batch], SCORES[kind]
    whole = quantile_values(dist, z)
    for rows in ([0], [7], slice(2, 5), np.arange(ROWS)[::-1]):
        np.testing.assert_array_equal(quantile_values(dist[rows], z[rows]), whole[rows])


@pytest.mark.parametrize("edge", [0.0, 1.5, 3.0, 8.0, 55.0])
def test_a_score_on_an_edge_does_not_depend_on_whether_others_go_beyond(edge):
    z = np.sort(np.random.default_rng(3).uniform(-edge - 1, edge, size=(2, 150)), axis=1)
    z[0, -1], z[1, -1] = edge, edge + 2
    for dist in (nc.Gamma([5.37, 2.2], 1.3), nc.StudentT([40.3, 70.0], 0.0, 1.0)):
        whole = quantile_values(dist, z)
        for row in (0, 1):
            np.testing.assert_array_equal(quantile_values(dist[[row]], z[[row]])[0], whole[row])


@pytest.mark.parametrize("reach", [37.0, 54.9, 60.0, 200.0])
def test_far_tails(reach):
    z = np.tile(np.linspace(-reach, reach, 301), (2, 1))
    for dist in (nc.Gamma([40.0, 900.0], 1.3), nc.StudentT([300.0, 1e5], 0.0, 1.0), nc.Laplace([0.0, 1.0], 2.0)):
        np.testing.assert_allclose(quantile_values(dist, z), dist._from_z(z), rtol=1e-10, atol=1e-10)


def test_only_the_first_scores_of_a_row_count():
    """Rows of fewer than a hundred scores are asked directly, whatever they are filled up with."""
    dist, z = BATCHES["gamma"], SCORES["usual"]
    counts = np.where(np.arange(ROWS) % 2 == 0, 30, WIDTH)
    found = quantile_values(dist, z, counts)
    np.testing.assert_array_equal(found[::2], dist[::2]._from_z(z[::2]))
    np.testing.assert_array_equal(found[1::2], quantile_values(dist[1::2], z[1::2]))


def test_few_quantiles_are_inverted_where_the_family_is_smooth(monkeypatch):
    inverted = []
    original = nc.Gamma._from_z
    monkeypatch.setattr(nc.Gamma, "_from_z", lambda self, z: inverted.append(z.size) or original(self, z))
    many = np.random.default_rng(0).normal(size=(ROWS, 5000))
    quantile_values(BATCHES["gamma"], many)
    assert sum(inverted) <= ROWS * 20 * 40  # 20 nodes in each of at most 8 coarse panels, or 4 times as many fine ones
    inverted.clear()
    quantile_values(BATCHES["gamma, one shape"], many)
    assert sum(inverted) <= 20 * 40  # one series for all rows


@pytest.mark.parametrize("spread", ["usual", "outliers"])
@pytest.mark.parametrize("name", [name for name in BATCHES if "extreme" not in name])
def test_moments_of_a_sample_by_series_are_those_of_its_values(name, spread):
    rng = np.random.default_rng(1)
    base, x = BATCHES[name], rng.uniform(size=(3000, 1))
    z = rng.normal(size=3000) if spread == "usual" else rng.standard_t(3, size=3000).clip(-30, 30)
    rc = nc.LocalRecalibrator(k=500).fit(nc.Normal(np.zeros(3000), 1.0), z, x)
    out = rc.recalibrate(base, rng.uniform(size=(ROWS, 1)))
    values, weights = out.weighted_sample(slice(None))
    mean = (weights * values).sum(axis=1)
    variance = (weights * (values - mean[:, None]) ** 2).sum(axis=1)
    np.testing.assert_allclose(out.mean(), mean, rtol=1e-11)
    np.testing.assert_allclose(out.var(), variance, rtol=1e-10)


@pytest.mark.parametrize("z", [-1e100, -60.0, 55.0, 60.0, 1e100])
@pytest.mark.parametrize("name", ["mixture", "student_t"])
def test_scores_that_all_lie_beyond_the_panels(name, z):
    normal = nc.Mixture([1.0], [nc.Normal([2.0], 3.0)])
    dist = {"mixture": normal, "student_t": nc.StudentT([1.5], 2.0, 3.0)}[name]
    found = quantile_values(dist, np.full((1, 150), z))
    np.testing.assert_allclose(found, dist.from_z(np.full((1, 150), z)), rtol=1e-10)
    if name == "mixture":
        np.testing.assert_allclose(found, 2 + 3 * z, rtol=1e-10)


def test_values_that_overflow_are_infinite():
    z = np.linspace(-50.0, 50.0, 200)[np.newaxis]
    found = quantile_values(nc.StudentT([1.5], 0.0, 1e300), z)
    standard = quantile_values(nc.StudentT([1.5], 0.0, 1.0), z)
    np.testing.assert_array_equal(np.isinf(found), np.abs(standard) > 1.7976931348623157e8)
    np.testing.assert_array_equal(np.sign(found), np.sign(z))
