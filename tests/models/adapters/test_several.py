"""Several models as one adapter: whose layers, one pass each, and mistakes that say which model is meant."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor

import nearcal as nc
from nearcal.models.adapters.several import SeveralModels

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = X[:, 0] + RNG.normal(size=80)
LINE = LinearRegression().fit(X, Y)
FOREST = ExtraTreesRegressor(5, max_depth=2, random_state=0).fit(X, Y)


class Bare(nc.adapters.ModelAdapter):
    """A model with inputs alone, which counts its passes."""

    passes = 0

    def layers(self):
        return ("input",)

    def distribution(self, X):
        self.passes += 1
        return nc.Normal(X[:, 0], 2.0)

    def represent(self, X, layer):
        return np.asarray(X)


def test_distribution_and_layers():
    network = MLPRegressor(hidden_layer_sizes=(4,), max_iter=5, random_state=0)
    with pytest.warns(ConvergenceWarning):
        network.fit(X, Y)
    model = nc.adapt({"line": LINE, "a.b": network, "bare": Bare()}).prepared(X, Y)
    assert isinstance(model, SeveralModels)
    assert model.layers() == ("input", "line.output", "a.b.hidden1", "a.b.output", "outputs")
    assert model.layers_of("a.b") == ["input", "a.b.hidden1", "a.b.output"]
    dist, layers = model.run(X, ["outputs", "a.b.hidden1", "input"])
    alone = [nc.adapt(LINE).prepared(X, Y), nc.adapt(network).prepared(X, Y), Bare()]
    expected = np.mean([one.distribution(X).ppf([0.1, 0.5, 0.9]) for one in alone], axis=0)
    np.testing.assert_allclose(dist.ppf([0.1, 0.5, 0.9]), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(layers["a.b.hidden1"], alone[1].represent(X, "hidden1"))
    deciles = nc.Normal(X[:, 0], 2.0).ppf([0.1, 0.5, 0.9])  # of the model without an output
    np.testing.assert_array_equal(layers["outputs"], np.column_stack([LINE.predict(X), network.predict(X), deciles]))
    for name in model.layers():
        np.testing.assert_array_equal(model.represent(X, name), model.run(X, [name])[1][name])


def test_every_model_is_asked_once():
    bare = Bare()
    nc.adapt({"line": LINE, "bare": bare}).prepared(X, Y).run(X, ["input", "outputs", "line.output"])
    assert bare.passes == 1


def test_what_models_learn_is_kept_by_name_and_in_their_order():
    model = nc.adapt({"line": LINE, "forest": FOREST}).prepared(X, Y)
    again = nc.adapt({"forest": FOREST, "line": LINE}).with_learnt(model.learnt())
    assert list(again.models) == ["line", "forest"]
    np.testing.assert_array_equal(again.distribution(X).std(), model.distribution(X).std())
    np.testing.assert_array_equal(again.represent(X, "outputs"), model.represent(X, "outputs"))


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({}, "several models must be at least two, got none"),
        ({"line": LINE}, "several models must be at least two, got 'line'; give one model itself"),
        ({"a + b": LINE, "c": LINE}, r"names of models must be texts, not empty and without ' \+ '"),
        ({"": LINE, "c": LINE}, "names of models must be texts"),
        ({"line": LINE, "other": 3}, "model 'other': model must be"),
        ({"line": LINE, "other": LinearRegression()}, "model 'other': model must be fitted"),
        ({"line": LINE, "pair": lambda X: np.zeros((len(X), 2))}, "model 'pair': "),
        ({"line": LINE, "gaps": lambda X: np.full(len(X), np.nan)}, "model 'gaps': "),
    ],
)
def test_mistakes_name_the_model(models, message):
    with pytest.raises(nc.NearcalError, match=message):
        nc.calibrate(models, X, Y)


def test_models_of_other_rows():
    class Short(Bare):
        def distribution(self, X):
            return nc.Normal(X[1:, 0], 2.0)

    with pytest.raises(nc.InvalidInputError, match="same rows, got as many as 'line' 80, 'short' 79"):
        nc.adapt({"line": LINE, "short": Short()}).prepared(X, Y).distribution(X)


def test_options_go_with_one_of_them():
    with pytest.raises(nc.InvalidParameterError, match=r"options go with one of several models, got head; .*nc.adapt"):
        nc.adapt({"line": LINE, "forest": FOREST}, head="point")
    with pytest.raises(nc.InvalidParameterError, match=r"layer must be one of input, .*outputs, got 'tree.output'"):
        nc.adapt({"line": LINE, "forest": FOREST}).represent(X, "tree.output")
