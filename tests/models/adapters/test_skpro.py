"""skpro: its distributions against their own quantiles."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from skpro import distributions as sp
from skpro.regression.bootstrap import BootstrapRegressor
from skpro.regression.dummy import DummyProbaRegressor
from skpro.regression.residual import ResidualDouble

import nearcal as nc
from nearcal.models.adapters import SkproModel
from nearcal.models.adapters._skpro import from_skpro

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(120, 2)), columns=["a", "b"])
Y = pd.DataFrame({"y": X["a"] + np.exp(0.3 * X["b"]) * RNG.normal(size=120)})
MU = np.array([[0.5], [1.0], [-0.3]])
POSITIVE = np.array([[0.5], [1.0], [2.0]])
ROWS = pd.Index([7, 3, 5])
COLUMNS = pd.Index(["y"])
WHERE = {"index": ROWS, "columns": COLUMNS}

NATIVE = {
    nc.Normal: sp.Normal(MU, POSITIVE, **WHERE),
    nc.LogNormal: sp.LogNormal(MU, POSITIVE, **WHERE),
    nc.StudentT: sp.TDistribution(MU, POSITIVE, df=4, **WHERE),
    nc.Laplace: sp.Laplace(MU, POSITIVE, **WHERE),
    nc.Gamma: sp.Gamma(POSITIVE, 3.0, **WHERE),
    nc.Mixture: sp.Mixture([("a", sp.Normal(MU, POSITIVE, **WHERE)), ("b", sp.Normal(2.0, POSITIVE, **WHERE))], [1, 3]),
}
OTHERS = [sp.Exponential(POSITIVE, **WHERE)]
if hasattr(sp, "Cauchy"):  # skpro 2.12 has none yet
    OTHERS.append(sp.Cauchy(MU, POSITIVE, **WHERE))


@pytest.mark.parametrize(("expected", "theirs"), NATIVE.items(), ids=lambda value: type(value).__name__)
def test_native_families(expected, theirs):
    assert isinstance(from_skpro(theirs), expected)
    grid = np.array([[0.1], [0.4], [2.5]])
    np.testing.assert_allclose(from_skpro(theirs).cdf(grid[:, 0]), theirs.cdf(grid).to_numpy()[:, 0], rtol=1e-6)


@pytest.mark.parametrize("theirs", OTHERS, ids=lambda value: type(value).__name__)
def test_families_that_are_special_cases(theirs):
    np.testing.assert_allclose(from_skpro(theirs).ppf([0.1, 0.7]), theirs.quantile([0.1, 0.7]).to_numpy(), rtol=1e-9)


@pytest.mark.parametrize(
    "theirs",
    [sp.Logistic(MU, POSITIVE, **WHERE), sp.Weibull(POSITIVE, 1.5, **WHERE), sp.SkewNormal(MU, POSITIVE, 2.0, **WHERE)],
    ids=lambda value: type(value).__name__,
)
def test_any_continuous_distribution_by_its_quantiles(theirs):
    dist = from_skpro(theirs)
    levels = [0.001, 0.033, 0.4, 0.77, 0.995]
    # quantiles are joined by lines over an eighth of a normal score
    np.testing.assert_allclose(dist.ppf(levels), theirs.quantile(levels).to_numpy(), rtol=3e-3, atol=1e-3)


def test_samples_keep_their_rows_and_weights():
    draws = RNG.normal(size=(4, 3))
    index = pd.MultiIndex.from_product([range(4), ROWS])
    long = pd.DataFrame(draws.ravel(), index=index, columns=COLUMNS)
    weights = pd.Series(np.tile([1.0, 2.0, 3.0, 4.0], (3, 1)).T.ravel(), index=index)
    plain = from_skpro(sp.Empirical(long))
    np.testing.assert_array_equal(plain.draws, np.sort(draws.T, axis=1))
    weighted = from_skpro(sp.Empirical(long, weights=weights))
    np.testing.assert_allclose(weighted.mean(), (draws.T * [1, 2, 3, 4]).sum(axis=1) / 10)


def test_quantile_predictions():
    values = np.array([[0.0, 2.0, 3.0], [1.0, 2.5, 9.0], [-1.0, 0.0, 1.0]])
    index = pd.MultiIndex.from_product([[0.2, 0.5, 0.8], ROWS])
    theirs = sp.QPD_Empirical(pd.DataFrame(values.T.ravel(), index=index, columns=COLUMNS))
    np.testing.assert_allclose(from_skpro(theirs).ppf([0.2, 0.5, 0.8]), values, rtol=1e-12)


def test_a_regressor():
    model = ResidualDouble(LinearRegression()).fit(X, Y)
    adapter = nc.adapt(model)
    assert isinstance(adapter, SkproModel)
    assert adapter.layers() == ("input", "output")
    theirs = model.predict_quantiles(X, alpha=[0.1, 0.5, 0.9]).to_numpy()
    np.testing.assert_allclose(adapter.represent(X, "output"), theirs, rtol=1e-9)
    np.testing.assert_allclose(adapter.distribution(X).ppf([0.1, 0.5, 0.9]), theirs, rtol=1e-9)
    again = pickle.loads(pickle.dumps(adapter))
    np.testing.assert_array_equal(again.represent(X, "output"), adapter.represent(X, "output"))
    point = SkproModel(model, head="point").prepared(X, Y)
    np.testing.assert_allclose(point.distribution(X).mean(), model.predict(X).to_numpy()[:, 0])


def test_an_ensemble_of_draws():
    model = BootstrapRegressor(LinearRegression(), n_bootstrap_samples=7, random_state=0).fit(X, Y)
    dist = SkproModel(model).distribution(X)
    assert dist.draws.shape == (120, 7)
    np.testing.assert_allclose(dist.mean(), model.predict_proba(X).mean().to_numpy()[:, 0])


def test_wrong_models_are_refused():
    with pytest.raises(nc.InvalidInputError, match="continuous distributions, got skpro's Poisson"):
        from_skpro(sp.Poisson(POSITIVE, **WHERE))
    with pytest.raises(
        nc.InvalidInputError, match=r"one response, distributions of shape \(n, 1\), got shape \(2, 2\)"
    ):
        from_skpro(sp.Normal(np.zeros((2, 2)), 1.0))
    with pytest.raises(nc.InvalidInputError, match="unfitted DummyProbaRegressor"):
        SkproModel(DummyProbaRegressor())
