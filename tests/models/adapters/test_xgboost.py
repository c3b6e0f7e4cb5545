"""XGBoost: predictions, quantiles and leaves against the booster's own answers."""

import pickle

import numpy as np
import pytest
import xgboost as xgb

import nearcal as nc
from nearcal.models.adapters import XGBoostModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = X[:, 0] + np.exp(0.3 * X[:, 1]) * RNG.normal(size=300) + 8
LEVELS = (0.1, 0.5, 0.9)
QUANTILES = {"objective": "reg:quantileerror", "quantile_alpha": list(LEVELS)}


def regressor(**options):
    return xgb.XGBRegressor(n_estimators=6, n_jobs=1, **options)


def booster(**options):
    return xgb.train({"nthread": 1, **options}, xgb.DMatrix(X, Y), num_boost_round=6)


def predict(model):
    return model.predict(xgb.DMatrix(X) if isinstance(model, xgb.Booster) else X)


POINT = {"regressor": regressor().fit(X, Y), "booster": booster(), "dart": booster(booster="dart")}


@pytest.mark.parametrize("model", POINT.values(), ids=POINT)
def test_point_predictions_and_leaves(model):
    adapter = XGBoostModel(model).prepared(X, Y)
    assert adapter.layers() == ("input", "leaves", "leaf_values", "output")
    np.testing.assert_allclose(adapter.distribution(X).mean(), predict(model))
    # the trees add up to the prediction but for a constant, in single precision
    constant = predict(model) - adapter.represent(X, "leaf_values").sum(axis=1)
    np.testing.assert_allclose(constant, constant[0], atol=1e-5)
    again = pickle.loads(pickle.dumps(adapter))
    for layer in adapter.layers():
        np.testing.assert_array_equal(again.represent(X, layer), adapter.represent(X, layer))


QUANTILE_MODELS = {"regressor": regressor(**QUANTILES).fit(X, Y), "booster": booster(**QUANTILES)}


@pytest.mark.parametrize("model", QUANTILE_MODELS.values(), ids=QUANTILE_MODELS)
def test_levels_are_read_from_the_model(model):
    adapter = nc.adapt(model)
    dist = adapter.distribution(X)
    np.testing.assert_array_equal(dist.levels, LEVELS)
    np.testing.assert_allclose(dist.ppf(LEVELS), np.sort(predict(model), axis=1), rtol=1e-6)
    values = adapter.represent(X, "leaf_values")
    assert values.shape == (300, 18)
    constant = predict(model) - values.reshape(300, 6, 3).sum(axis=1)  # round by round, one tree a level
    np.testing.assert_allclose(constant, np.broadcast_to(constant[0], (300, 3)), atol=1e-5)


def test_models_of_one_level_each():
    models = [regressor(objective="reg:quantileerror", quantile_alpha=level).fit(X, Y) for level in LEVELS]
    dist = nc.adapt(models).distribution(X)
    np.testing.assert_array_equal(dist.levels, LEVELS)
    with pytest.raises(nc.InvalidParameterError, match=r"quantile of level 0.1 alone"):
        nc.adapt(models[0])


def test_early_stopping_counts_the_trees_that_predict():
    model = xgb.XGBRegressor(n_estimators=100, n_jobs=1, early_stopping_rounds=3)
    model.fit(X[:200], Y[:200], eval_set=[(X[200:], Y[200:])], verbose=False)
    values = XGBoostModel(model).represent(X, "leaf_values")
    assert values.shape[1] == model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    constant = model.predict(X) - values.sum(axis=1)
    np.testing.assert_allclose(constant, constant[0], atol=1e-5)


def test_boosters_without_leaves_or_with_leaves_of_vectors():
    assert XGBoostModel(booster(booster="gblinear")).layers() == ("input", "output")
    vectors = regressor(multi_strategy="multi_output_tree", **QUANTILES).fit(X, Y)
    assert XGBoostModel(vectors).layers() == ("input", "leaves", "output")
    assert XGBoostModel(vectors).represent(X, "leaves").shape == (300, 256)


def test_wrong_models_are_refused():
    with pytest.raises(nc.InvalidInputError, match="unfitted XGBRegressor"):
        XGBoostModel(regressor())
    with pytest.raises(nc.InvalidInputError, match="must be a regressor, got XGBClassifier, a classifier"):
        XGBoostModel(xgb.XGBClassifier(n_estimators=2, n_jobs=1).fit(X, Y > 8))
