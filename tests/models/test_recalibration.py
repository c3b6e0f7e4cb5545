"""What a calibrated model has learnt, saved without the model and joined with it again."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearcal as nc
from nearcal.models.adapters import ColumnsModel, Head, ModelAdapter, TorchModel
from nearcal.persistence import read

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, size=(600, 2))
Y = RNG.normal(X[:, 0], np.exp(1.5 * X[:, 1]))
NEW = RNG.uniform(-1, 1, size=(20, 2))
GIVEN = {
    "recalibrator": nc.LocalRecalibrator(
        k=40, smoothing="biweight", quantile_rule="predictive", corrections=(nc.Polish(),)
    )
}


def network(outputs=1, dropout=0.0):
    torch.manual_seed(outputs)
    layers = [torch.nn.Linear(2, 5), torch.nn.Tanh(), torch.nn.Dropout(dropout), torch.nn.Linear(5, outputs)]
    return torch.nn.Sequential(*layers)


# model, options of its adapter
MODELS = {
    "a network of points": (network(), {}),
    "of log y": (network(), {"response": "log"}),
    "(mu, log sigma)": (network(2), {"head": "normal"}),
    "quantiles": (network(3), {"levels": [0.1, 0.5, 0.9]}),
    "dropout": (network(dropout=0.5), {"mc_dropout": 10}),
    "an ensemble": ([network(), network()], {}),
    "a regressor": (make_pipeline(StandardScaler(), LinearRegression()).fit(X, Y), {}),
    "a regressor, function as head": (
        LinearRegression().fit(X, Y),
        {"head": lambda output: nc.Laplace(output, 2.0)},
    ),
}


def answers(calibrated, new=NEW):
    out = calibrated.predict(new)
    said = [out.mean(), out.std(), out.ppf([0.01, 0.5, 0.9]), *out.interval(0.9), out.logpdf(0.1), *out.neighbors(0)]
    return b"".join(np.asarray(value).tobytes() for value in said)


@pytest.mark.parametrize("name", MODELS)
def test_joined_again_it_predicts_the_same_to_the_last_bit(name, tmp_path):
    model, options = MODELS[name]
    y = np.exp(Y / 4) if name == "of log y" else Y
    calibrated = nc.calibrate(model, X, y, **GIVEN, layer="output", **options)
    nc.save(calibrated, tmp_path / "it.nearcal")
    loaded = nc.load(tmp_path / "it.nearcal")
    assert type(loaded) is nc.Recalibration
    assert (loaded.layer, loaded.reason, loaded.tuning) == ("output", calibrated.reason, None)
    assert loaded.model == repr(calibrated.model)
    joined = loaded.attach(model, **options)
    assert joined.model.layers() == calibrated.model.layers()
    assert answers(joined) == answers(calibrated)
    # what was joined again is as good as what was calibrated
    nc.save(joined, tmp_path / "again.nearcal")
    assert (tmp_path / "again.nearcal").read_bytes() == (tmp_path / "it.nearcal").read_bytes()


def test_tuning_and_its_evidence_come_along(tmp_path):
    calibrated = nc.calibrate(network(), X, Y, tuning={"k": (20, 50)})
    nc.save(calibrated, tmp_path / "it")
    loaded = nc.load(tmp_path / "it")
    assert str(loaded.tuning) == str(read(tmp_path / "it").tuning) == str(calibrated.tuning)
    assert loaded.reason == calibrated.reason
    assert loaded.layer == calibrated.layer
    assert "Recalibration for TorchModel" in repr(loaded)
    assert loaded.reason in repr(loaded)
    assert answers(loaded.attach(network())) == answers(calibrated)


def test_a_model_of_columns_is_saved_as_a_whole(tmp_path):
    table = {"a": X[:, 0], "b": X[:, 1]}
    model = ColumnsModel("normal", {"loc": "a", "scale": 1.5}, {"inputs": ("a", "b")}, "price")
    calibrated = nc.calibrate(model, table, Y, tuning={"k": (20, 50)})
    nc.save(calibrated, tmp_path / "it")
    loaded = nc.load(tmp_path / "it")
    assert type(loaded) is nc.CalibratedModel
    assert loaded.model == model
    new = {"a": NEW[:, 0], "b": NEW[:, 1]}
    assert answers(loaded, new) == answers(calibrated, new)
    assert read(tmp_path / "it").version == nc.__version__


class Spread(ModelAdapter):
    """Predicts the first input, with a spread taken from the calibration set, and does not say that it did."""

    def __init__(self, spread=None):
        self.spread = spread

    def layers(self):
        return ("input",)

    def distribution(self, X):
        return nc.Normal(X[:, 0], self.spread)

    def represent(self, X, layer):
        return X

    def prepared(self, X_cal, y_cal):
        return type(self)(float(np.std(y_cal)))


class Saying(Spread):
    def learnt(self):
        return {"spread": self.spread}

    def with_learnt(self, learnt):
        return Saying(learnt["spread"])


def test_an_adapter_of_your_own_says_what_it_has_learnt(tmp_path):
    calibrated = nc.calibrate(Saying(), X, Y, **GIVEN)
    nc.save(calibrated, tmp_path / "it")
    assert answers(nc.load(tmp_path / "it").attach(Saying())) == answers(calibrated)


def test_what_is_not_told_cannot_be_saved(tmp_path):
    with pytest.raises(nc.InvalidInputError, match=r"Spread must say what prepared\(\) has learnt.*Spread.with_learnt"):
        nc.save(nc.calibrate(Spread(), X, Y, **GIVEN), tmp_path / "it")

    class Learning(Head):
        def fit(self, output, y):
            return Learning()

        def __call__(self, output):
            return nc.Normal(output[:, 0], 1.0)

    with pytest.raises(nc.InvalidInputError, match=r"head must be one of nearcal.* got Learning"):
        nc.save(nc.calibrate(network(), X, Y, **GIVEN, layer="input", head=Learning()), tmp_path / "it")
    assert not list(tmp_path.iterdir())


def test_an_ensemble_of_another_size_is_refused(tmp_path):
    nc.save(nc.calibrate([network(), network()], X, Y, **GIVEN, layer="output"), tmp_path / "it")
    with pytest.raises(nc.InvalidInputError, match="an ensemble of 2 networks as when it was saved, got 1"):
        nc.load(tmp_path / "it").attach(network())


def test_an_adapter_that_was_not_prepared_has_learnt_nothing():
    plain = TorchModel(network())
    assert plain.with_learnt(plain.learnt()).layers() == plain.layers()
