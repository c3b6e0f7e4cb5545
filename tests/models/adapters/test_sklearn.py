"""scikit-learn regressors: spaces and heads against hand-written forward passes and the estimators' own answers."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import ARDRegression, BayesianRidge, LinearRegression, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import nearcal as nc
from nearcal.models.adapters import SklearnModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 3))
Y = X[:, 0] + np.exp(0.3 * X[:, 1]) * RNG.normal(size=160) + 8
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
FIRST, LAST = slice(0, 100), slice(100, 160)
LEVELS = (0.1, 0.5, 0.9)


def fitted(estimator, X=X, y=Y):
    return estimator.fit(X[FIRST], y[FIRST])


MODELS = {
    "linear": (LinearRegression(), ("input", "output")),
    "mlp": (
        MLPRegressor(hidden_layer_sizes=(6, 5), max_iter=5000, random_state=0),
        ("input", "hidden1", "hidden2", "output"),
    ),
    "forest": (RandomForestRegressor(7, random_state=0), ("input", "leaves", "leaf_values", "output")),
    "extra": (ExtraTreesRegressor(7, random_state=0), ("input", "leaves", "leaf_values", "output")),
    "boosting": (GradientBoostingRegressor(n_estimators=7), ("input", "leaves", "leaf_values", "output")),
    "tree": (DecisionTreeRegressor(max_depth=3), ("input", "leaves", "leaf_values", "output")),
    "histogram": (HistGradientBoostingRegressor(max_iter=7), ("input", "leaf_values", "output")),
    "bayes": (BayesianRidge(), ("input", "output")),
    "pipeline": (make_pipeline(StandardScaler(), Ridge()), ("input", "transformed", "output")),
    "forest in a pipeline": (
        make_pipeline(StandardScaler(), RandomForestRegressor(5, random_state=0)),
        ("input", "transformed", "leaves", "leaf_values", "output"),
    ),
    "target": (
        TransformedTargetRegressor(RandomForestRegressor(5, random_state=0), func=np.log, inverse_func=np.exp),
        ("input", "leaves", "leaf_values", "output"),
    ),
    "search": (GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=2), ("input", "output")),
}


@pytest.mark.parametrize(("estimator", "layers"), MODELS.values(), ids=MODELS)
def test_every_layer_listed_has_positions_and_survives_pickling(estimator, layers):
    model = SklearnModel(fitted(estimator)).prepared(X[LAST], Y[LAST])
    assert model.layers() == layers
    again = pickle.loads(pickle.dumps(model))
    for layer in layers:
        positions = model.represent(X[LAST], layer)
        assert positions.ndim == 2
        assert len(positions) == 60
        assert positions.dtype == np.float64
        np.testing.assert_array_equal(again.represent(X[LAST], layer), positions)
        np.testing.assert_allclose(model.represent(X[110:115], layer), positions[10:15], rtol=1e-12)
    dist, spaces = model.run(X[LAST], layers)
    assert list(spaces) == list(layers)
    np.testing.assert_array_equal(again.distribution(X[LAST]).mean(), dist.mean())
    np.testing.assert_allclose(dist.mean(), estimator.predict(X[LAST]), rtol=1e-12)


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("identity", lambda v: v),
        ("logistic", lambda v: 1 / (1 + np.exp(-v))),
        ("tanh", np.tanh),
        ("relu", lambda v: v * (v > 0)),
    ],
)
def test_hidden_layers_equal_a_forward_pass_by_hand(activation, function):
    options = {"solver": "lbfgs", "max_iter": 20_000, "alpha": 1.0, "random_state": 0}
    mlp = fitted(MLPRegressor(hidden_layer_sizes=(6, 5), activation=activation, **options))
    model = SklearnModel(mlp)
    first = function(X @ mlp.coefs_[0] + mlp.intercepts_[0])
    second = function(first @ mlp.coefs_[1] + mlp.intercepts_[1])
    np.testing.assert_allclose(model.represent(X, "hidden1"), first, rtol=1e-12)
    np.testing.assert_allclose(model.represent(X, "hidden2"), second, rtol=1e-12)
    # what follows the last hidden layer is the prediction itself
    np.testing.assert_allclose(second @ mlp.coefs_[2][:, 0] + mlp.intercepts_[2], mlp.predict(X), rtol=1e-10)


def test_leaf_values_add_up_to_the_prediction():
    forest = fitted(RandomForestRegressor(9, random_state=0))
    np.testing.assert_allclose(SklearnModel(forest).represent(X, "leaf_values").mean(axis=1), forest.predict(X))
    boosted = fitted(GradientBoostingRegressor(n_estimators=9, learning_rate=0.3))
    total = Y[FIRST].mean() + 0.3 * SklearnModel(boosted).represent(X, "leaf_values").sum(axis=1)
    np.testing.assert_allclose(total, boosted.predict(X))
    histogram = fitted(HistGradientBoostingRegressor(max_iter=9, min_samples_leaf=5, loss="gamma"))
    values = SklearnModel(histogram).represent(X, "leaf_values")
    np.testing.assert_allclose(np.exp(values.sum(axis=1)), histogram.predict(X))
    assert len(np.unique(values[:, 3].round(10))) < 32  # a column holds the leaves of one tree


def test_leaves_lie_near_where_trees_agree():
    forest = fitted(RandomForestRegressor(200, min_samples_leaf=5, random_state=0))
    apart = (forest.apply(X)[:1] != forest.apply(X)).mean(axis=1)
    positions = SklearnModel(forest).represent(X, "leaves")
    found = ((positions - positions[0]) ** 2).sum(axis=1)
    assert found[0] == 0
    # relative standard deviation √(2/256), 159 pairs
    np.testing.assert_allclose(found[1:], apart[1:], rtol=4.5 * np.sqrt(2 / 256))


def test_pipeline_hands_on_what_reaches_the_last_step():
    pipeline = fitted(make_pipeline(StandardScaler(), RandomForestRegressor(5, random_state=0)))
    scaled = (X - X[FIRST].mean(axis=0)) / X[FIRST].std(axis=0)
    model = SklearnModel(pipeline)
    np.testing.assert_array_equal(model.represent(X, "input"), X)
    np.testing.assert_allclose(model.represent(X, "transformed"), scaled)
    inner = SklearnModel(pipeline[-1])
    np.testing.assert_array_equal(model.represent(X, "leaves"), inner.represent(scaled, "leaves"))
    alone = SklearnModel(make_pipeline(Ridge()).fit(X, Y))
    assert alone.layers() == ("input", "output")


def test_point_head_takes_its_scale_from_calibration_residuals():
    ridge = fitted(Ridge())
    dist = SklearnModel(ridge).prepared(X[LAST], Y[LAST]).distribution(X[:5])
    sigma = np.sqrt(np.mean((Y[LAST] - ridge.predict(X[LAST])) ** 2))
    np.testing.assert_allclose(dist.ppf(0.9), stats.norm.ppf(0.9, ridge.predict(X[:5]), sigma))
    log_dist = SklearnModel(Ridge().fit(X, np.log(Y)), response="log").prepared(X, Y).distribution(X[:5])
    assert isinstance(log_dist, nc.LogNormal)


def test_preparing_again_learns_again():
    model = SklearnModel(HistGradientBoostingRegressor(max_iter=3).fit(X, Y))
    gaps = np.where(X > 1, np.nan, X)
    once, again = model.prepared(X, Y), model.prepared(gaps, Y + 5).prepared(X, Y)
    assert again.layers() == once.layers() == ("input", "leaf_values", "output")
    np.testing.assert_array_equal(again.distribution(X).std(), once.distribution(X).std())


@pytest.mark.parametrize(
    "estimator", [GaussianProcessRegressor(RBF() + WhiteKernel()), BayesianRidge(), ARDRegression()], ids=repr
)
def test_models_that_know_their_standard_deviation(estimator):
    model = SklearnModel(fitted(estimator))
    mean, std = estimator.predict(X[LAST], return_std=True)
    dist = model.distribution(X[LAST])
    np.testing.assert_allclose(dist.ppf(0.8), stats.norm.ppf(0.8, mean, std), rtol=1e-12)
    assert model.represent(X[LAST], "output").shape == (60, 2)
    as_point = SklearnModel(estimator, head="point").prepared(X[LAST], Y[LAST])
    assert np.ptp(as_point.distribution(X[LAST]).std()) == 0


def test_quantile_models_by_mapping_and_by_list():
    models = {level: fitted(QuantileRegressor(quantile=level, alpha=0.0)) for level in LEVELS}
    expected = np.sort(np.column_stack([model.predict(X) for model in models.values()]), axis=1)
    for given in (models, list(models.values())[::-1]):
        np.testing.assert_allclose(SklearnModel(given).distribution(X).ppf(LEVELS), expected, rtol=1e-12)
    boosted = [fitted(GradientBoostingRegressor(loss="quantile", alpha=a, n_estimators=4)) for a in LEVELS]
    model = SklearnModel(boosted)
    np.testing.assert_array_equal(model.distribution(X).levels, LEVELS)
    assert model.represent(X, "leaves").shape == (160, 256)
    assert model.represent(X, "leaf_values").shape == (160, 12)
    np.testing.assert_array_equal(
        model.represent(X, "leaf_values")[:, 4:8], SklearnModel(boosted[1]).represent(X, "leaf_values")
    )
    histogram = [fitted(HistGradientBoostingRegressor(loss="quantile", quantile=a, max_iter=4)) for a in LEVELS]
    np.testing.assert_array_equal(nc.adapt(histogram).distribution(X).levels, LEVELS)
    piped = [fitted(make_pipeline(StandardScaler(), model)) for model in boosted]
    assert nc.adapt(piped).layers() == ("input", "transformed", "leaves", "leaf_values", "output")
    plain = nc.adapt([fitted(Ridge(alpha=alpha)) for alpha in (0.1, 1.0)], levels=[0.2, 0.7])
    np.testing.assert_array_equal(plain.distribution(X).levels, [0.2, 0.7])


def test_a_median_is_a_point_prediction_and_another_quantile_is_not():
    assert isinstance(SklearnModel(fitted(QuantileRegressor())).prepared(X, Y).distribution(X), nc.Normal)
    with pytest.raises(nc.InvalidParameterError, match=r"quantile of level 0.9 alone.*several levels"):
        SklearnModel(fitted(QuantileRegressor(quantile=0.9)))


def test_trees_as_draws():
    forest = fitted(RandomForestRegressor(30, random_state=0))
    dist = SklearnModel(forest, head="trees").distribution(X[LAST])
    draws = np.stack([tree.predict(X[LAST]) for tree in forest.estimators_], axis=1)
    np.testing.assert_allclose(dist.draws, np.sort(draws, axis=1), rtol=1e-12)
    with pytest.raises(nc.InvalidParameterError, match=r"head must be one of 'auto'.*got 'trees'"):
        SklearnModel(fitted(Ridge()), head="trees")
    with pytest.raises(nc.InvalidParameterError, match='response="log" goes with the heads'):
        SklearnModel(forest, head="trees", response="log")


def test_a_function_reads_the_prediction():
    model = SklearnModel(fitted(Ridge()), head=lambda mean: nc.Gamma(4.0, mean / 4))
    np.testing.assert_allclose(model.distribution(X).mean(), model.model.predict(X))


def test_data_frames_go_to_the_model_as_they_are():
    model = SklearnModel(Ridge().fit(FRAME, Y)).prepared(FRAME, Y)  # feature names would warn, and warnings are errors
    np.testing.assert_array_equal(model.represent(FRAME, "input"), X)
    np.testing.assert_array_equal(model.represent(FRAME, "output")[:, 0], model.model.predict(FRAME))


def test_inputs_that_are_no_numbers_offer_no_space():
    frame = FRAME.assign(kind=np.where(X[:, 2] > 0, "high", "low"))
    columns = ColumnTransformer([("kind", OneHotEncoder(), ["kind"])], remainder="passthrough", sparse_threshold=1.0)
    model = SklearnModel(make_pipeline(columns, Ridge()).fit(frame, Y)).prepared(frame, Y)
    assert model.layers() == ("transformed", "output")
    assert model.represent(frame, "transformed").shape == (160, 5)
    with pytest.raises(nc.InvalidParameterError, match=r"'input' must be numbers.*'kind' of object.*among transformed"):
        model.represent(frame, "input")
    gaps = X.copy()
    gaps[::7, 1] = np.nan
    histogram = SklearnModel(HistGradientBoostingRegressor(max_iter=3).fit(gaps, Y)).prepared(gaps, Y)
    assert histogram.layers() == ("leaf_values", "output")
    sparse_X = sparse.csr_array(X)
    np.testing.assert_array_equal(SklearnModel(Ridge().fit(sparse_X, Y)).represent(sparse_X, "input"), X)


def test_numbers_in_an_array_of_objects_are_positions():
    """Pipelines make such of truth values beside numbers; the space was left out in silence."""
    frame = FRAME.assign(kind=np.where(X[:, 2] > 0, "high", "low"), flag=X[:, 0] > 0)
    columns = ColumnTransformer([("kind", OneHotEncoder(sparse_output=False), ["kind"])], remainder="passthrough")
    pipeline = make_pipeline(columns, Ridge()).fit(frame, Y)
    assert pipeline[:-1].transform(frame).dtype == object
    model = SklearnModel(pipeline).prepared(frame, Y)
    assert model.layers() == ("transformed", "output")
    assert model.represent(frame, "transformed").dtype == np.float64
    ridge = SklearnModel(fitted(Ridge())).prepared(X.astype(object), Y)
    np.testing.assert_array_equal(ridge.represent(X.astype(object), "input"), X)
    texts = X.astype(object)
    texts[3, 1] = "1.5"  # which Ridge takes for a number
    assert SklearnModel(fitted(Ridge())).prepared(texts, Y).layers() == ("output",)


def test_nc_adapt_finds_the_adapter():
    class Foreign:
        def predict(self, X):
            return X[:, 0]

    assert isinstance(nc.adapt(fitted(Ridge())), SklearnModel)
    assert nc.adapt(Foreign()).layers() == ("input", "output")


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (Ridge(), {}, "model must be fitted, got an unfitted Ridge; call its fit first"),
        (
            fitted(RandomForestClassifier(2), y=(Y > 8).astype(int)),
            {},
            "must be a regressor, got RandomForestClassifier",
        ),
        (object(), {}, "must have a method predict, got object"),
        ([fitted(Ridge()), fitted(Ridge())], {}, "list of models must hold quantile regressors"),
        ([fitted(QuantileRegressor())], {}, "at least two with one quantile level each, got 1 models"),
        ({0.1: fitted(Ridge()), 0.9: fitted(Ridge())}, {"levels": [0.1, 0.9]}, "levels must not be given twice"),
        (fitted(Ridge()), {"response": "sqrt"}, "response must be one of 'identity', 'log', got 'sqrt'"),
    ],
)
def test_wrong_models_are_refused(model, options, message):
    with pytest.raises(nc.NearcalError, match=message):
        SklearnModel(model, **options)


def test_several_responses_are_refused():
    model = SklearnModel(Ridge().fit(X, np.column_stack([Y, Y])))
    with pytest.raises(nc.InvalidParameterError, match="the model puts out 2 columns"):
        model.prepared(X, Y)


def test_an_estimator_without_tags_is_taken_at_its_word():
    class Plain(BaseEstimator):
        def fit(self, X, y):
            self.mean_ = y.mean()
            return self

        def predict(self, X):
            return np.full(len(X), self.mean_)

    assert SklearnModel(Plain().fit(X, Y)).prepared(X, Y).distribution(X).mean()[0] == pytest.approx(Y.mean())
