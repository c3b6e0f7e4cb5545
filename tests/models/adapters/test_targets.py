"""Models of several targets: one is picked, in every framework that has such models."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearcal as nc

RNG = np.random.default_rng(11)
X = RNG.normal(size=(200, 3))
Y = np.column_stack([X[:, 0], 100 + X[:, 1]]) + 0.1 * RNG.normal(size=(200, 2))
LOCAL = nc.LocalRecalibrator(k=20)

REGRESSORS = {
    "linear": LinearRegression(),
    "pipeline": make_pipeline(StandardScaler(), Ridge()),
    "forest": RandomForestRegressor(5, random_state=0),
    "one each": MultiOutputRegressor(Ridge()),
    "network": MLPRegressor(hidden_layer_sizes=4, solver="lbfgs", tol=10.0, random_state=0),
}


@pytest.mark.filterwarnings("ignore::nearcal.TiesWarning")  # on its own training rows a forest is often exact
@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("target", [0, 1])
def test_a_target_of_a_regressor(name, target):
    model = REGRESSORS[name].fit(X, Y)
    calibrated = nc.calibrate(model, X, Y[:, target], recalibrator=LOCAL, layer="output", output=target)
    np.testing.assert_array_equal(calibrated.base(X[:5]).mean(), model.predict(X[:5])[:, target])
    np.testing.assert_array_equal(calibrated.represent(X[:5])[:, 0], model.predict(X[:5])[:, target])


@pytest.mark.parametrize("target", [0, 1])
def test_trees_are_those_of_the_target(target):
    forest = RandomForestRegressor(5, random_state=0).fit(X, Y)
    model = nc.adapt(forest, head="trees", output=target)
    draws = np.stack([tree.predict(X[:7])[:, target] for tree in forest.estimators_], axis=1)
    np.testing.assert_allclose(model.distribution(X[:7]).mean(), draws.mean(axis=1))
    np.testing.assert_array_equal(model.represent(X[:7], "leaf_values"), draws)
    assert "leaf_values" not in nc.adapt(forest).layers()
    with pytest.raises(nc.InvalidParameterError, match=r'head="trees" needs one target.*pick one by output'):
        nc.adapt(forest, head="trees").distribution(X)


def test_a_gaussian_process_of_two_targets():
    process = GaussianProcessRegressor(alpha=0.1).fit(X[:50], Y[:50] - [0, 100])
    mean, std = process.predict(X[:5], return_std=True)
    dist = nc.adapt(process, output=1).distribution(X[:5])
    np.testing.assert_allclose(dist.mean(), mean[:, 1])
    np.testing.assert_allclose(dist.std(), std[:, 1])
    with pytest.raises(nc.InvalidInputError, match=r"2 columns of means.*output=0"):
        nc.adapt(process).distribution(X)


def test_xgboost():
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBRegressor(n_estimators=3).fit(X, Y)
    dist = nc.adapt(model, output=1).prepared(X, Y[:, 1]).distribution(X[:5])
    np.testing.assert_allclose(dist.mean(), model.predict(X[:5])[:, 1])
    with pytest.raises(nc.InvalidParameterError, match="trained on 2 targets"):
        nc.adapt(model, head="normal")


def test_skpro_targets_have_names():
    pytest.importorskip("skpro")
    from skpro.regression.dummy import DummyProbaRegressor

    frame, targets = pd.DataFrame(X, columns=list("abc")), pd.DataFrame(Y, columns=["size", "price"])
    model = DummyProbaRegressor("normal").fit(frame, targets[["price"]])
    dist = nc.adapt(model, output="price").distribution(frame[:4])
    np.testing.assert_array_equal(dist.mean(), nc.adapt(model).distribution(frame[:4]).mean())
    with pytest.raises(nc.InvalidParameterError, match="output must be one of the targets"):
        nc.adapt(model, output="weight").distribution(frame[:4])


@pytest.mark.parametrize("package", ["lightgbm", "ngboost"])
def test_models_of_one_target_alone(package):
    module = pytest.importorskip(package)
    models = {
        "lightgbm": lambda: module.LGBMRegressor(n_estimators=2, verbose=-1),
        "ngboost": lambda: module.NGBRegressor(n_estimators=2, verbose=False),
    }
    model = models[package]().fit(X, Y[:, 0])
    assert nc.adapt(model, output=0).prepared(X, Y[:, 0]).distribution(X[:3])
    with pytest.raises(nc.InvalidParameterError, match="predicts one alone; leave out output=1"):
        nc.adapt(model, output=1)


class Dictionary(torch.nn.Linear):
    def forward(self, x):
        out = super().forward(x)
        return {"size": out[:, 0], "price": out[:, 1]}


class Pair(torch.nn.Linear):
    def forward(self, x):
        out = super().forward(x)
        return out[:, :1], out[:, 1:]


@pytest.mark.parametrize(
    ("network", "output"), [(torch.nn.Linear, 1), (Dictionary, "price"), (Pair, 1)], ids=["columns", "named", "tuple"]
)
def test_a_target_of_a_network(network, output):
    torch.manual_seed(0)
    net = network(3, 2)
    expected = torch.nn.Linear.forward(net, torch.tensor(X[:5], dtype=torch.float32))[:, 1].detach().numpy()
    calibrated = nc.calibrate([net, net], X, Y[:, 1], recalibrator=LOCAL, layer="output", output=output)
    np.testing.assert_allclose(calibrated.base(X[:5]).mean(), expected, rtol=1e-6)
    assert calibrated.represent(X[:5]).shape == (5, 3)  # of two members, and their spread


def test_a_target_of_a_keras_model():
    keras = pytest.importorskip("keras")
    inputs = keras.Input((3,))
    dense = keras.layers.Dense(4)(inputs)
    outputs = {"size": keras.layers.Dense(1)(dense), "price": keras.layers.Dense(1)(dense)}
    net = keras.Model(inputs, outputs)
    expected = net(X[:5].astype("float32"))["price"].detach().numpy()[:, 0]  # on this backend
    model = nc.adapt(net, output="price").prepared(X, Y[:, 1])
    np.testing.assert_allclose(model.distribution(X[:5]).mean(), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (2, "output must be one of the targets of the model, 0, 1, got 2"),
        ("price", "output must be one of the targets of the model, 0, 1, got 'price'"),
        (-1, "output must be the number of a target.*got -1"),
        (True, "got True"),
        (1.0, r"got 1\.0"),
    ],
)
@pytest.mark.parametrize("model", [LinearRegression().fit(X, Y), torch.nn.Linear(3, 2)], ids=["regressor", "network"])
def test_targets_that_there_are_not(model, output, message):
    with pytest.raises(nc.InvalidParameterError, match=message):
        nc.calibrate(model, X, Y[:, 0], output=output)


def test_two_targets_are_told_from_a_distribution():
    line = LinearRegression().fit(X, Y)
    with pytest.raises(nc.InvalidParameterError, match=r"2 columns: if they are several targets.*output=0"):
        nc.calibrate(line, X, Y[:, 0])
    with pytest.raises(nc.InvalidParameterError, match=r"log σ of one target.*trained on 2 targets.*output=0"):
        nc.calibrate(line, X, Y[:, 0], head="normal")
    for y in (Y, pd.DataFrame(Y), Y.tolist()):
        with pytest.raises(nc.InvalidInputError, match=r"y_cal must be one response a row.*\(200, 2\).*output=1"):
            nc.calibrate(line, X, y)
    with pytest.raises(nc.InvalidInputError, match=r"y must be one response a row.*\(200, 2\)"):
        nc.RecalibratedRegressor(Ridge()).fit(X, Y)


def test_the_estimator_picks_one_of_a_fitted_model():
    line = LinearRegression().fit(X, Y)
    model = nc.RecalibratedRegressor(line, calibration="prefit", output=1, recalibrator=nc.VarianceScaling())
    np.testing.assert_allclose(model.fit(X, Y[:, 1]).predict(X), line.predict(X)[:, 1])
