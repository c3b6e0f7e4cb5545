"""The adapter a model gets, told from where its class comes from."""

import subprocess
import sys
import types

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

import nearcal as nc
from nearcal.models.adapters import ModelAdapter, TorchModel, base


class Own(ModelAdapter):
    def layers(self):
        return ("input",)

    def distribution(self, X):
        return nc.Normal(X[:, 0], 1.0)

    def represent(self, X, layer):
        self._require_layer(layer)
        return X


def test_an_adapter_is_returned_as_it_is():
    own = Own()
    assert nc.adapt(own) is own
    with pytest.raises(nc.InvalidParameterError, match="got seed with a Own"):
        nc.adapt(own, seed=1)


def test_options_that_an_adapter_does_not_have():
    with pytest.raises(nc.InvalidParameterError, match=r"TorchModel.* are head, levels, .*, dtype; got heads: leave"):
        nc.adapt(torch.nn.Linear(2, 1), heads="point")
    with pytest.raises(nc.InvalidParameterError, match=r"SklearnModel.* response, output; got mc_drop"):
        nc.adapt(LinearRegression(), mc_dropout=10)


def test_torch_modules_alone_and_in_ensembles():
    net = torch.nn.Linear(2, 2)
    model = nc.adapt(net, head="normal")
    assert type(model) is TorchModel
    assert model.networks == (net,)
    assert nc.adapt([net, net], head="normal").networks == (net, net)
    assert nc.adapt((net,)).networks == (net,)


def test_keras_wins_over_torch():
    keras = pytest.importorskip("keras")
    net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    assert isinstance(net, torch.nn.Module)  # on this backend
    assert type(nc.adapt(net)) is nc.adapters.KerasModel
    assert type(nc.adapt([net, net])) is nc.adapters.KerasModel


def class_from(module, *bases):
    return type("Model", bases or (object,), {"__module__": module})


@pytest.mark.parametrize(
    ("model", "framework"),
    [
        (class_from("lightgbm.sklearn", class_from("sklearn.base"))(), "lightgbm"),
        (class_from("mine", class_from("xgboost.sklearn", class_from("sklearn.base")))(), "xgboost"),
        (class_from("ngboost.api", class_from("sklearn.base"))(), "ngboost"),
        (class_from("skpro.regression.base", class_from("sklearn.base"))(), "skpro"),
        (class_from("sklearn.linear_model._base")(), "sklearn"),
        (types.SimpleNamespace(predict=len), "sklearn"),
        (class_from("torchlike.nn")(), None),
        (types.SimpleNamespace(predict=3), None),
        (np.zeros(3), None),
    ],
)
def test_frameworks_by_the_modules_of_their_classes(model, framework):
    assert base.framework_of(model) == framework


@pytest.mark.parametrize("model", [None, 3.0, [], [torch.nn.Linear(1, 1), None], {0.1: torch.nn.Linear(1, 1)}])
def test_unknown_models(model):
    with pytest.raises(nc.InvalidInputError, match=r"model must be a torch\.nn\.Module.*subclass of .*ModelAdapter"):
        nc.adapt(model)


def test_adapters_load_when_asked_for():
    code = (
        "import sys, nearcal as nc; nc.adapters; nc.adapt; nc.datasets\n"
        "heavy = ('torch', 'keras', 'sklearn', 'numba', 'nearcal.models.adapters._torch')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert found == "[]"
    assert {"TorchModel", "KerasModel", "adapt"} <= set(dir(nc.adapters))
    with pytest.raises(AttributeError, match="no attribute 'TorchMdel'"):
        nc.adapters.TorchMdel  # noqa: B018


@pytest.mark.parametrize(("name", "package"), [("TorchModel", "torch"), ("KerasModel", "keras")])
def test_missing_package(monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(nc.MissingExtraError, match=rf'pip install "nearcal\[{package}\]"'):
        getattr(nc.adapters, name)
