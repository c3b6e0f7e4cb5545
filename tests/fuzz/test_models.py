"""Models of every framework, given inputs and responses of every kind: a right prediction, or an error."""

import contextlib
import functools
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LinearRegression

import nearcal as nc

N, D = 60, 3
NAMES = ["a", "b", "c"]


def _training(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, D))
    return X, 3 * X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=200)


def _network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(D, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def _keras():
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((D,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])


def _lightgbm():
    module = pytest.importorskip("lightgbm")
    return module.LGBMRegressor(n_estimators=5, verbose=-1).fit(*_training())


def _xgboost():
    return pytest.importorskip("xgboost").XGBRegressor(n_estimators=5, n_jobs=1).fit(*_training())


def _ngboost():
    return pytest.importorskip("ngboost").NGBRegressor(n_estimators=3, verbose=False).fit(*_training())


def _skpro():
    pytest.importorskip("skpro")
    from skpro.regression.residual import ResidualDouble

    X, y = _training()
    return ResidualDouble(LinearRegression()).fit(pd.DataFrame(X, columns=NAMES), pd.DataFrame({"y": y}))


def _function(X):
    return np.asarray(X.todense() if sparse.issparse(X) else X, dtype=float) @ [3.0, -1.0, 0.0]


# adapter: the model it reads
MODELS = {
    "TorchModel": _network,
    "KerasModel": _keras,
    "SklearnModel": lambda: LinearRegression().fit(*_training()),
    "LightGBMModel": _lightgbm,
    "XGBoostModel": _xgboost,
    "NGBoostModel": _ngboost,
    "SkproModel": _skpro,
    "FunctionModel": lambda: _function,
    "ColumnsModel": lambda: nc.adapters.ColumnsModel(
        "normal", {"loc": "a", "scale": 1.0}, {"inputs": tuple(NAMES)}, "y"
    ),
}


def test_every_adapter_is_attacked():
    public = {name for name in nc.adapters.__all__ if name.endswith("Model")} - {"ModelAdapter"}
    assert set(MODELS) == public


@functools.cache
def model_of(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MODELS[name]()


# ---- inputs: what is given, and the plain numbers that it stands for, None if it stands for none --------------------


def _with(X, value, rng):
    X = X.copy()
    X[rng.integers(len(X)), rng.integers(D)] = value
    return X


def _frame(X):
    return pd.DataFrame(X, columns=NAMES)


def _masked(X, rng):
    mask = rng.random(X.shape) < 0.1
    mask[rng.integers(len(X)), 0] = True
    return np.ma.MaskedArray(X, mask)


RIGHT = {
    "as they are": lambda X, rng: (X, X),
    "fortran": lambda X, rng: (np.asfortranarray(X), X),
    "strided": lambda X, rng: (np.repeat(X, 2, axis=0)[::2], X),
    "read-only": lambda X, rng: (np.broadcast_to(X, X.shape), X),
    "float32": lambda X, rng: (X.astype(np.float32), X.astype(np.float32).astype(float)),
    "float16": lambda X, rng: (X.astype(np.float16), X.astype(np.float16).astype(float)),
    "integers": lambda X, rng: ((9 * X).astype(np.int32), (9 * X).astype(np.int32).astype(float)),
    "flags": lambda X, rng: (X > 0, (X > 0).astype(float)),
    "list": lambda X, rng: (X.tolist(), X),
    "frame": lambda X, rng: (_frame(X), X),
    "frame of several types": lambda X, rng: (_frame(X).astype({"a": "float32"}), np.c_[np.float32(X[:, 0]), X[:, 1:]]),
    "frame, other index": lambda X, rng: (_frame(X).set_index(rng.permutation(len(X)) + 5), X),
    "tensor": lambda X, rng: (torch.tensor(X), X),
    "sparse": lambda X, rng: (sparse.csr_matrix(X), X),
    "masked nowhere": lambda X, rng: (np.ma.MaskedArray(X), X),
    "a mapping": lambda X, rng: (dict(zip(NAMES, X.T, strict=True)), X),
    "one row": lambda X, rng: (X[:1], X[:1]),
}
REORDERED = {
    "other order": lambda X, rng: (_frame(X)[["c", "a", "b"]], X),
    "more columns": lambda X, rng: (_frame(X).assign(d=1.0)[["d", "c", "b", "a"]], X),
    "other names": lambda X, rng: (_frame(X).rename(columns={"a": "z"}), None),
    "twice the same name": lambda X, rng: (_frame(X)[["a", "a", "b"]], None),
    "fewer columns": lambda X, rng: (_frame(X)[["a", "b"]], None),
}
WRONG = {
    "nan": lambda X, rng: _with(X, np.nan, rng),
    "infinite": lambda X, rng: _with(X, rng.choice([np.inf, -np.inf]), rng),
    "huge": lambda X, rng: _with(X, rng.choice([1e300, -1e200, 1e39]), rng),
    "texts": lambda X, rng: X.astype(str),
    "words": lambda X, rng: np.full(X.shape, "word"),
    "objects": lambda X, rng: _with(X.astype(object), None, rng),
    "dictionaries": lambda X, rng: _with(X.astype(object), {"a": 1}, rng),
    "complex": lambda X, rng: X + 1j,
    "dates": lambda X, rng: np.full(X.shape, np.datetime64("2020-01-01")),
    "frame of dates": lambda X, rng: _frame(X).assign(a=pd.Timestamp("2020-01-01")),
    "frame of categories": lambda X, rng: _frame(X).assign(b=pd.Categorical(np.where(X[:, 1] > 0, "x", "y"))),
    "frame with gaps": lambda X, rng: _frame(_with(X, np.nan, rng)),
    "frame of nullable integers": lambda X, rng: _frame(X).assign(c=pd.array([None] * len(X), dtype="Int64")),
    "masked": _masked,
    "wider": lambda X, rng: np.hstack([X, X]),
    "narrower": lambda X, rng: X[:, : rng.integers(D)],
    "one column": lambda X, rng: X[:, 0],
    "three axes": lambda X, rng: X[:, :, np.newaxis],
    "empty": lambda X, rng: X[:0],
    "ragged": lambda X, rng: [[1.0], *X[1:].tolist()],
    "a number": lambda X, rng: 3.0,
    "None": lambda X, rng: None,
    "a text": lambda X, rng: "text",
    "a mapping of words": lambda X, rng: {"a": ["x"] * len(X)},
    "a tuple": lambda X, rng: tuple(X.T),
    "a set": lambda X, rng: {1.0, 2.0},
    "narrow sparse": lambda X, rng: sparse.csr_matrix(X[:, :2]),
    "transposed": lambda X, rng: X.T,
}
# what no model can take, and what some take not
NEVER = ("wider", "narrower", "one column", "empty", "ragged", "a number", "None", "a text", "masked", "transposed")
ARRAYS = tuple(name for name in RIGHT if not name.startswith("frame") and name != "a mapping")
NOT_TAKEN = {
    **dict.fromkeys(MODELS, ("a mapping",)),
    **dict.fromkeys(["TorchModel", "KerasModel", "NGBoostModel"], ("a mapping", "sparse")),
    "SkproModel": (*ARRAYS, "a mapping"),
    "ColumnsModel": ARRAYS,
}
RESPONSES = {
    "as they are": (lambda y, rng: y, True),
    "a column": (lambda y, rng: y[:, np.newaxis], True),
    "list": (lambda y, rng: y.tolist(), True),
    "series": (lambda y, rng: pd.Series(y, index=rng.permutation(len(y))), True),
    "tensor": (lambda y, rng: torch.tensor(y), True),
    "frame": (lambda y, rng: pd.DataFrame({"y": y}), True),
    "nan": (lambda y, rng: np.where(np.arange(len(y)) == 3, np.nan, y), False),
    "infinite": (lambda y, rng: np.where(np.arange(len(y)) == 3, np.inf, y), False),
    "huge": (lambda y, rng: np.where(np.arange(len(y)) == 3, 1e200, y), None),
    "constant": (lambda y, rng: np.zeros(len(y)), None),
    "texts": (lambda y, rng: y.astype(str), False),
    "objects": (lambda y, rng: np.array([None] * len(y)), False),
    "complex": (lambda y, rng: y + 1j, False),
    "dates": (lambda y, rng: np.full(len(y), np.datetime64("2020-01-01")), False),
    "masked": (lambda y, rng: np.ma.MaskedArray(y, np.arange(len(y)) < 2), False),
    "shorter": (lambda y, rng: y[:-1], False),
    "empty": (lambda y, rng: y[:0], False),
    "two targets": (lambda y, rng: np.column_stack([y, y]), False),
    "a row": (lambda y, rng: y[np.newaxis], False),
    "a number": (lambda y, rng: 1.0, False),
    "None": (lambda y, rng: None, False),
    "a text": (lambda y, rng: "text", False),
    "categories": (lambda y, rng: pd.Series(np.where(y > 0, "x", "y"), dtype="category"), False),
}


def pick(table, rng):
    """Return one entry, and its name."""
    name = list(table)[rng.integers(len(table))]
    return table[name], name


def usual(name, X):
    """Return inputs in the form that a framework asks for."""
    return _frame(X) if name in ("SkproModel", "ColumnsModel") else X


def calibrate(name, X, y, rng):
    layer = "auto" if name == "ColumnsModel" else str(rng.choice(["auto", "input", "output"]))
    return nc.calibrate(model_of(name), X, y, layer=layer, recalibrator=nc.LocalRecalibrator(k=5))


def expected_means(name, X):
    """Return what the model predicts for plain numbers, asked without nearcal."""
    model = model_of(name)
    if name == "ColumnsModel":
        return X[:, 0]
    if name == "TorchModel":
        return model(torch.tensor(X, dtype=torch.float32)).detach().numpy()[:, 0]
    if name == "KerasModel":
        return model(X.astype(np.float32)).detach().numpy()[:, 0]
    if name == "FunctionModel":
        return model(X)
    return np.ravel(model.predict(usual(name, X)))


def assert_right(name, calibrated, X, plain):
    """Predictions are finite, one a row, and those of the numbers that the inputs stand for."""
    out = calibrated.predict(X)
    assert np.isfinite(out.mean()).all()
    assert np.isfinite(out.ppf([0.1, 0.9])).all()
    if plain is not None:
        assert len(out) == len(plain)
        expected = expected_means(name, plain)
        np.testing.assert_allclose(calibrated.base(X).mean(), expected, rtol=1e-4, atol=1e-4)
        if calibrated.layer in ("input", "inputs"):
            np.testing.assert_allclose(calibrated.represent(X), plain, rtol=1e-3, atol=1e-3)


def attack(name, rng):
    X, new = rng.normal(size=(N, D)), rng.normal(size=(7, D))
    y = expected_means(name, X) + rng.normal(size=N)
    given, response = usual(name, X), y
    kind = rng.choice(["X", "wrong X", "y", "new", "wrong new", "reordered", "attach"])
    what, must_fail, may_fail = "", False, False
    if kind == "X":
        make, what = pick(RIGHT, rng)
        given, new = make(X, rng)
        response, may_fail = y[: len(new)], what in (*NOT_TAKEN[name], "one row")
        new = new[:7]
    elif kind == "wrong X":
        make, what = pick(WRONG, rng)
        given, must_fail, may_fail = make(X, rng), what in NEVER, True
    elif kind == "y":
        (make, is_right), what = pick(RESPONSES, rng)
        response, must_fail, may_fail = make(y, rng), is_right is False, is_right is not True
    elif kind == "reordered":
        given = _frame(X)
    with keeping(f"{kind}: {what}", must_fail, may_fail):
        calibrated = calibrate(name, given, response, rng)
        if kind == "wrong X":
            return
        if kind in ("X", "y"):
            assert_right(name, calibrated, usual(name, new), new)
        elif kind == "attach":
            assert_attaches(name, calibrated, usual(name, new))
        else:
            attack_prediction(name, calibrated, kind, new, rng)


def attack_prediction(name, calibrated, kind, new, rng):
    make, what = pick({"new": RIGHT, "wrong new": WRONG, "reordered": REORDERED}[kind], rng)
    given, plain = (make(new, rng), None) if kind == "wrong new" else make(new, rng)
    must_fail = what in NEVER or (kind == "reordered" and plain is None and name != "ColumnsModel")
    with keeping(f"{kind}: {what}", must_fail, plain is None or what in NOT_TAKEN[name]):
        assert_right(name, calibrated, given, plain)


@contextlib.contextmanager
def keeping(what, must_fail, may_fail):
    """Let an error of nearcal pass where there is a reason for one, and ask for it where nothing else is right."""
    try:
        yield
    except nc.NearcalError as error:
        if not (must_fail or may_fail):
            raise AssertionError(f"{what} was refused") from error
        return
    assert not must_fail, f"{what} was taken"


def assert_attaches(name, calibrated, new):
    expected = calibrated.predict(new).ppf([0.1, 0.9])
    if name == "ColumnsModel":
        again = pickle.loads(pickle.dumps(calibrated))
    else:
        again = calibrated.recalibration.attach(model_of(name))
        with pytest.raises(nc.NearcalError):
            calibrated.recalibration.attach(lambda X: np.full(len(X), 77.0))
    np.testing.assert_array_equal(again.predict(new).ppf([0.1, 0.9]), expected)


@pytest.mark.filterwarnings("ignore")  # of the frameworks, about inputs that are odd on purpose
@pytest.mark.parametrize("name", MODELS)
def test_inputs_and_responses_of_every_kind(name, fuzz):
    model_of(name)
    fuzz.run(name, functools.partial(attack, name), cases=8)
