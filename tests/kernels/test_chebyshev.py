"""Interpolated moments equal those of the whole sample, or are left to it."""

import numpy as np
import pytest
from scipy import stats

import nearcal as nc

RNG = np.random.default_rng(0)
BASES = {
    "gamma": nc.Gamma(RNG.uniform(0.5, 200, 40), 2.0),
    "student": nc.StudentT(RNG.uniform(2.1, 50, 40), 1.0, 3.0),
    "mixture": nc.Mixture([0.4, 0.6], [nc.Normal(RNG.normal(size=40), 1.0), nc.Gamma(RNG.uniform(2, 5, 40), 1.0)]),
    "separated mixture": nc.Mixture(
        [0.4, 0.6], [nc.Normal(RNG.normal(size=40), 0.1), nc.Normal(9.0 + np.zeros(40), 0.1)]
    ),
    "scipy": nc.from_scipy(stats.weibull_min(RNG.uniform(1, 4, 40), scale=3.0)),
}


@pytest.mark.parametrize("spread", ["usual", "outliers"])
@pytest.mark.parametrize("name", BASES)
def test_moments_of_costly_families(name, spread):
    base, x = BASES[name], RNG.uniform(size=(3000, 1))
    z = RNG.normal(size=3000) if spread == "usual" else RNG.standard_t(3, size=3000).clip(-30, 30)
    rc = nc.LocalRecalibrator(k=500).fit(nc.Normal(np.zeros(3000), 1.0), z, x)
    out = rc.recalibrate(base, RNG.uniform(size=(40, 1)))
    values, weights = out.weighted_sample(slice(None))
    mean = (weights * values).sum(axis=1)
    variance = (weights * (values - mean[:, None]) ** 2).sum(axis=1)
    np.testing.assert_allclose(out.mean(), mean, rtol=1e-11)
    np.testing.assert_allclose(out.var(), variance, rtol=1e-10)


def test_few_quantiles_are_inverted_where_the_family_is_smooth(monkeypatch):
    inverted = []
    original = nc.Gamma._from_z
    monkeypatch.setattr(nc.Gamma, "_from_z", lambda self, z: inverted.append(z.size) or original(self, z))
    x = RNG.uniform(size=(3000, 1))
    rc = nc.LocalRecalibrator(k=1000).fit(nc.Normal(np.zeros(3000), 1.0), RNG.normal(size=3000), x)
    rc.recalibrate(BASES["gamma"], RNG.uniform(size=(40, 1))).mean()
    assert sum(inverted) <= 40 * 64
