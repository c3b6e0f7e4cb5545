"""NGBoost: its distributions and parameters against its own answers."""

import pickle

import numpy as np
import pytest
from ngboost import NGBClassifier, NGBRegressor
from ngboost.distns import Exponential, Gamma, Laplace, LogNormal, Normal, Poisson, T, Weibull
from sklearn.linear_model import Ridge

import nearcal as nc
from nearcal.models.adapters import NGBoostModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = np.exp(0.3 * X[:, 0] + np.exp(0.3 * X[:, 1]) * 0.2 * RNG.normal(size=200))
FAMILIES = {
    Normal: nc.Normal,
    LogNormal: nc.LogNormal,
    Laplace: nc.Laplace,
    Exponential: nc.ScipyDistribution,
    Gamma: nc.Gamma,
    T: nc.StudentT,
    Weibull: nc.ScipyDistribution,
}


def fitted(family=Normal, y=Y, **options):
    return NGBRegressor(Dist=family, n_estimators=8, verbose=False, random_state=0, **options).fit(X, y)


@pytest.mark.parametrize(("family", "expected"), FAMILIES.items(), ids=lambda cls: cls.__name__)
def test_distributions_are_its_own(family, expected):
    model = fitted(family)
    dist = nc.adapt(model).distribution(X[:50])
    own = model.pred_dist(X[:50])
    assert isinstance(dist, expected)
    for p in (0.05, 0.5, 0.9):
        np.testing.assert_allclose(dist.ppf(p), own.dist.ppf(p), rtol=1e-9)
    np.testing.assert_allclose(dist.logpdf(Y[:50]), own.dist.logpdf(Y[:50]), rtol=1e-9)


def test_output_is_the_parameters_and_leaf_values_add_up_to_them():
    model = fitted(col_sample=0.7)
    adapter = NGBoostModel(model)
    assert adapter.layers() == ("input", "leaves", "leaf_values", "output")
    parameters = adapter.represent(X, "output")
    np.testing.assert_allclose(parameters[:, 0], model.pred_dist(X).loc)
    np.testing.assert_allclose(np.exp(parameters[:, 1]), model.pred_dist(X).scale)
    values = adapter.represent(X, "leaf_values").reshape(200, 8, 2)
    np.testing.assert_allclose(values.sum(axis=1) + model.init_params, parameters)
    again = pickle.loads(pickle.dumps(adapter))
    np.testing.assert_array_equal(again.represent(X, "leaves"), adapter.represent(X, "leaves"))


def test_base_learners_that_are_no_trees_have_no_leaves():
    assert NGBoostModel(fitted(Base=Ridge())).layers() == ("input", "output")


def test_head_point_reads_the_mean():
    model = fitted(LogNormal)
    dist = NGBoostModel(model, head="point").prepared(X, Y).distribution(X)
    np.testing.assert_allclose(dist.mean(), model.predict(X))


def test_wrong_models_are_refused():
    with pytest.raises(nc.InvalidInputError, match=r"must predict a continuous distribution .* NGBoost's Poisson"):
        NGBoostModel(fitted(Poisson, y=Y.round())).distribution(X)
    with pytest.raises(nc.InvalidInputError, match="unfitted NGBRegressor"):
        NGBoostModel(NGBRegressor())
    with pytest.raises(nc.InvalidInputError, match="must be a regressor, got NGBClassifier"):
        NGBoostModel(NGBClassifier(n_estimators=2, verbose=False).fit(X, (Y > 1).astype(int)))
