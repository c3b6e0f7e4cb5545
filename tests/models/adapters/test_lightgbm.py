"""LightGBM: predictions, quantiles and leaves against the booster's own answers."""

import pickle

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearcal as nc
from nearcal.models.adapters import LightGBMModel, SklearnModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = X[:, 0] + np.exp(0.3 * X[:, 1]) * RNG.normal(size=300) + 8
LEVELS = (0.1, 0.5, 0.9)
QUIET = {"verbose": -1, "num_threads": 1}


def regressor(**options):
    return lgb.LGBMRegressor(n_estimators=6, n_jobs=1, verbose=-1, **options)


def booster(**options):
    return lgb.train({**QUIET, **options}, lgb.Dataset(X, Y), num_boost_round=6)


POINT = {"regressor": regressor().fit(X, Y), "booster": booster(objective="regression")}


@pytest.mark.parametrize("model", POINT.values(), ids=POINT)
def test_point_predictions_and_leaves(model):
    adapter = LightGBMModel(model).prepared(X, Y)
    assert adapter.layers() == ("input", "leaves", "leaf_values", "output")
    np.testing.assert_array_equal(adapter.distribution(X).mean(), model.predict(X))
    np.testing.assert_allclose(adapter.represent(X, "leaf_values").sum(axis=1), model.predict(X), rtol=1e-12)
    again = pickle.loads(pickle.dumps(adapter))
    for layer in adapter.layers():
        np.testing.assert_array_equal(again.represent(X, layer), adapter.represent(X, layer))
    # rows in the same leaves of all trees lie in the same place, and no others
    leaves = model.predict(X, pred_leaf=True)
    same = (leaves == leaves[0]).all(axis=1)
    np.testing.assert_array_equal(
        (adapter.represent(X, "leaves") == adapter.represent(X, "leaves")[0]).all(axis=1), same
    )


def test_a_run_says_what_single_questions_do_and_asks_for_outputs_and_leaves_once(monkeypatch):
    asked, predict = [], lgb.Booster.predict

    def telling(self, X, **options):
        asked.append("leaves" if options.get("pred_leaf") else "output")
        return predict(self, X, **options)

    monkeypatch.setattr(lgb.Booster, "predict", telling)
    adapter = LightGBMModel(POINT["booster"]).prepared(X, Y)
    asked.clear()
    dist, places = adapter.run(X, adapter.layers())
    assert sorted(asked) == ["leaves", "output"]
    np.testing.assert_array_equal(dist.mean(), adapter.distribution(X).mean())
    for layer in adapter.layers():
        np.testing.assert_array_equal(places[layer], adapter.represent(X, layer))


def test_quantile_models():
    by_level = {level: regressor(objective="quantile", alpha=level).fit(X, Y) for level in LEVELS}
    boosters = [booster(objective="quantile", alpha=level) for level in LEVELS]
    loaded = [lgb.Booster(model_str=model.model_to_string()) for model in boosters]
    expected = np.sort(np.column_stack([model.predict(X) for model in boosters]), axis=1)
    for models in (by_level, list(by_level.values()), boosters, loaded):
        dist = nc.adapt(models).distribution(X)
        np.testing.assert_array_equal(dist.levels, LEVELS)
        np.testing.assert_allclose(dist.ppf(LEVELS), expected, rtol=1e-12)
    assert LightGBMModel(boosters).represent(X, "leaves").shape == (300, 256)
    with pytest.raises(nc.InvalidParameterError, match=r"quantile of level 0.9 alone"):
        LightGBMModel(regressor(objective="quantile").fit(X, Y))  # LightGBM's default level


def test_early_stopping_counts_the_trees_that_predict():
    train = lgb.Dataset(X[:200], Y[:200])
    stop = lgb.early_stopping(3, verbose=False)
    judge = lgb.Dataset(X[200:], Y[200:], reference=train)
    model = lgb.train({**QUIET, "learning_rate": 0.5}, train, 200, valid_sets=[judge], callbacks=[stop])
    values = LightGBMModel(model).represent(X, "leaf_values")
    assert values.shape[1] == model.best_iteration < 200
    np.testing.assert_allclose(values.sum(axis=1), model.predict(X), rtol=1e-12)


def test_frames_with_categories_and_gaps():
    frame = pd.DataFrame({"a": X[:, 0], "kind": pd.Categorical(np.where(X[:, 1] > 0, "x", "y"))})
    model = LightGBMModel(regressor().fit(frame, Y)).prepared(frame, Y)
    assert model.layers() == ("leaves", "leaf_values", "output")
    assert model.represent(frame, "leaf_values").shape == (300, 6)


def test_in_a_pipeline_its_leaves_follow_the_transformation():
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), regressor()).fit(X, Y)
    model = nc.adapt(pipeline)
    assert isinstance(model, SklearnModel)
    assert model.layers() == ("input", "transformed", "leaves", "leaf_values", "output")
    np.testing.assert_allclose(model.represent(X, "leaf_values").sum(axis=1), pipeline.predict(X), rtol=1e-12)


def test_wrong_models_are_refused():
    with pytest.raises(nc.InvalidInputError, match="unfitted LGBMRegressor"):
        LightGBMModel(regressor())
    with pytest.raises(nc.InvalidInputError, match="must be a regressor, got LGBMClassifier, a classifier"):
        LightGBMModel(lgb.LGBMClassifier(n_estimators=2, verbose=-1, n_jobs=1).fit(X, Y > 8))
