"""A recalibration knows its model again, and refuses others."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import nearcal as nc
from nearcal.models.kept_rows import MOST_BYTES, keep_rows

RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, size=(300, 3))
Y = np.exp(X[:, 0] + 0.3 * RNG.normal(size=300)) + 5.0
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
GIVEN = {"recalibrator": nc.LocalRecalibrator(k=30), "layer": "output"}


def saved(model, X=X, y=Y, path=None, **options):
    nc.save(nc.calibrate(model, X, y, **{**GIVEN, **options}), path)
    return nc.load(path)


def network(seed=0, width=4):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Tanh(), torch.nn.Linear(width, 1))


def lightgbm(y=Y, frame=X):
    module = pytest.importorskip("lightgbm")
    return module.LGBMRegressor(n_estimators=5, verbose=-1, min_child_samples=2).fit(frame, y)


def xgboost(y=Y):
    return pytest.importorskip("xgboost").XGBRegressor(n_estimators=5).fit(X, y)


def ngboost(y=Y):
    module = pytest.importorskip("ngboost")
    return module.NGBRegressor(n_estimators=5, verbose=False, random_state=0).fit(X, y)


def skpro(y=Y):
    pytest.importorskip("skpro")
    from skpro.regression.residual import ResidualDouble

    return ResidualDouble(LinearRegression()).fit(FRAME, pd.DataFrame({"y": y}))


def keras(seed=0):
    module = pytest.importorskip("keras")
    module.utils.set_random_seed(seed)
    return module.Sequential([module.Input((3,)), module.layers.Dense(4, "tanh"), module.layers.Dense(1)])


def function(shift=0.0):
    return lambda X: X[:, 0] + shift


# a model, and one that must not take its place
PAIRS = {
    "another class": lambda: (LinearRegression().fit(X, Y), DecisionTreeRegressor(random_state=0).fit(X, Y)),
    "trained on log y": lambda: (LinearRegression().fit(X, Y), LinearRegression().fit(X, np.log(Y))),
    "other steps": lambda: (make_pipeline(StandardScaler(), Ridge()).fit(X, Y), Ridge(100.0).fit(X, Y)),
    "fewer rows": lambda: (LinearRegression().fit(X, Y), LinearRegression().fit(X[:200], Y[:200])),
    "lightgbm": lambda: (lightgbm(), lightgbm(np.log(Y))),
    "xgboost": lambda: (xgboost(), xgboost(np.log(Y))),
    "ngboost": lambda: (ngboost(), ngboost(np.log(Y))),
    "torch": lambda: (network(), network(1)),
    "torch, another width": lambda: (network(), network(0, 7)),
    "keras": lambda: (keras(), keras(1)),
    "function": lambda: (function(), function(0.1)),
    "a network for a regressor": lambda: (LinearRegression().fit(X, Y), network()),
    "a regressor for a network": lambda: (network(), LinearRegression().fit(X, Y)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_another_model_is_refused(name, tmp_path):
    model, other = PAIRS[name]()
    loaded = saved(model, path=tmp_path / "it")
    expected = loaded.attach(model).predict(X[:5]).mean()
    with pytest.raises(nc.InvalidInputError, match="model must be the one that was calibrated") as refusal:
        loaded.attach(other)
    assert "anew" in str(refusal.value)
    if "for a" not in name:
        assert "check=False" in str(refusal.value)
        assert np.isfinite(loaded.attach(other, check=False).predict(X[:5]).mean()).all()
    np.testing.assert_array_equal(loaded.attach(model).predict(X[:5]).mean(), expected)


def test_skpro(tmp_path):
    loaded = saved(skpro(), FRAME, path=tmp_path / "it")
    loaded.attach(skpro())
    with pytest.raises(nc.InvalidInputError, match="predicted the quantiles"):
        loaded.attach(skpro(np.log(Y)))


def test_the_message_says_what_differs(tmp_path):
    loaded = saved(LinearRegression().fit(X, Y), path=tmp_path / "it")
    with pytest.raises(nc.InvalidInputError) as refusal:
        loaded.attach(DecisionTreeRegressor(random_state=0).fit(X, np.log(Y)))
    said = str(refusal.value)
    assert "it was a LinearRegression, and is a DecisionTreeRegressor" in said
    assert "its layers were input, output, and are input, leaves, leaf_values, output" in said
    assert "it predicted the quantiles 6." in said
    assert "in the space of the calibration column 0 of an input was" in said


def test_options_of_the_adapter_count(tmp_path):
    loaded = saved(network(), y=np.exp(Y / 10), path=tmp_path / "it", response="log")
    loaded.attach(network(), response="log")
    loaded = saved(network(), path=tmp_path / "it", head=lambda output: nc.Laplace(output[:, 0], 2.0))
    with pytest.raises(nc.InvalidInputError, match="the same options of its adapter"):
        loaded.attach(network(), head=lambda output: nc.Laplace(output[:, 0], 3.0))


@pytest.mark.parametrize(("noise", "passes"), [(1e-6, True), (1e-2, False)])
def test_rounding_on_another_machine_passes(noise, passes, tmp_path):
    def model(X, noise=0.0):
        return 1000 * (1 + noise * np.sin(99 * X[:, 0])) + X[:, 0]

    loaded = saved(model, y=Y + 1000, path=tmp_path / "it")
    if passes:
        loaded.attach(lambda X: model(X, noise))
    else:
        with pytest.raises(nc.InvalidInputError):
            loaded.attach(lambda X: model(X, noise))


def test_the_same_model_may_come_back_as_another_class(tmp_path):
    model = lightgbm()
    loaded = saved(model, path=tmp_path / "it")
    booster = loaded.attach(model.booster_)
    np.testing.assert_array_equal(booster.predict(X).mean(), loaded.attach(model).predict(X).mean())


def test_without_rows_class_and_layers_decide(tmp_path):
    loaded = saved(LinearRegression().fit(X, Y), path=tmp_path / "it", probes=0)
    assert loaded.fingerprint.rows is None
    loaded.attach(LinearRegression().fit(X, np.log(Y)))  # nobody can tell
    with pytest.raises(nc.InvalidInputError, match="it was a LinearRegression, and is a Ridge"):
        loaded.attach(Ridge().fit(X, Y))
    loaded = saved(network(), path=tmp_path / "it", probes=0)
    with pytest.raises(nc.InvalidInputError, match=r"its layers were input, 0, 1, 2, output, and are input, 0, 1, "):
        loaded.attach(torch.nn.Sequential(*network(), torch.nn.Tanh()))
    for probes in (-1, 1.5, None):
        with pytest.raises(nc.InvalidParameterError, match="probes must be a whole number"):
            nc.calibrate(network(), X, Y, **GIVEN, probes=probes)


# ---- the rows that are kept -----------------------------------------------------------------------------------------

MIXED = FRAME.assign(
    kind=pd.Categorical(np.where(X[:, 0] > 0, "high", "low"), ["low", "mid", "high"], ordered=True),
    city=pd.Series(np.where(X[:, 1] > 0, "Rome", "Oslo"), dtype=object).where(X[:, 2] > 0),
    count=np.arange(300),
    flag=X[:, 2] > 0,
    gaps=pd.array([None, *range(299)], dtype="Int64"),
    small=X[:, 0].astype(np.float32),
)
INPUTS = {
    "array": X,
    "float32": X.astype(np.float32),
    "float16": X.astype(np.float16),
    "integers": (10 * X).astype(int),
    "flags": X > 0,
    "images": X.reshape(300, 1, 3, 1),
    "list": X.tolist(),
    "tensor": torch.tensor(X),
    "integer tensor": torch.arange(300),
    "sparse": sparse.csr_matrix(X * (X > 0)),
    "frame": FRAME,
    "frame of all kinds": MIXED,
    "tuple": (X, torch.arange(300)),
    "mapping": {"x": X, "rest": FRAME},
}


def flat(rows):
    if isinstance(rows, tuple):
        return [part for each in rows for part in flat(each)]
    if isinstance(rows, dict):
        return [part for each in rows.values() for part in flat(each)]
    if isinstance(rows, pd.DataFrame):
        return [rows]
    if isinstance(rows, torch.Tensor):
        return [rows.numpy()]
    return [np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)]


@pytest.mark.parametrize("name", INPUTS)
def test_rows_come_back_as_they_were(name):
    given = INPUTS[name]
    kept = keep_rows(given, 300)
    back = kept.restore()
    assert isinstance(back, type(given)) or sparse.issparse(back)
    for one, other in zip(flat(given), flat(back), strict=True):
        if isinstance(one, pd.DataFrame):
            pd.testing.assert_frame_equal(one, other)
        else:
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
    assert len(flat(keep_rows(given, 4).restore())[0]) == 4


def test_what_no_file_can_hold_is_not_kept():
    dates = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=9)})
    for given in (dates, X.astype(object), np.array(["a", "b"]), "text", None, 3.0, X[:0], (X, X[:5]), {1: X}):
        assert keep_rows(given, 4) is None
    assert keep_rows(pd.DataFrame({"a": [1, "x", None]}), 3) is None
    assert keep_rows(pd.DataFrame({0: [1.0]}), 3) is None


def test_large_rows_are_few_or_none():
    assert len(keep_rows(np.zeros((100, 2**13)), 8).restore()) == 4
    assert keep_rows(np.zeros((3, 2**16)), 8) is None
    assert MOST_BYTES == 4 * 8 * 2**13


def test_frames_keep_their_columns_in_order(tmp_path):
    model = Ridge().fit(FRAME.to_numpy(), Y)  # one that does not look at names
    calibrated = nc.calibrate(lambda X: model.predict(np.asarray(X)), FRAME, Y, recalibrator=nc.LocalRecalibrator(k=9))
    expected = calibrated.predict(FRAME).mean()
    for other in (FRAME[["c", "a", "b"]], FRAME.assign(more=1.0)[["more", "b", "c", "a"]], FRAME.to_numpy()):
        # the model's own product depends on how its table lies in memory, in the last digit
        np.testing.assert_allclose(calibrated.predict(other).mean(), expected, rtol=1e-12)
        np.testing.assert_array_equal(calibrated.represent(other), X)
    polars = pytest.importorskip("polars")
    np.testing.assert_allclose(
        calibrated.predict(polars.DataFrame(FRAME[["c", "a", "b"]])).mean(), expected, rtol=1e-12
    )
    message = r"X must have the columns of the calibration inputs, each once, a, b, c, got a, b, z: rename or add c"
    with pytest.raises(nc.InvalidInputError, match=message):
        calibrated.predict(FRAME.rename(columns={"c": "z"}))
    nc.save(calibrated, tmp_path / "it")
    assert nc.load(tmp_path / "it").columns == ("a", "b", "c")
