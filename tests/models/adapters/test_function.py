"""A plain function as a model."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.models.adapters import FunctionModel

RNG = np.random.default_rng(7)
X = RNG.uniform(1, 3, size=(400, 2))
Y = RNG.normal(X[:, 0], X[:, 1])
NEW = RNG.uniform(1, 3, size=(9, 2))
LOCAL = nc.LocalRecalibrator(k=50)


def point(X):
    return np.asarray(X)[:, 0]


ANSWERS = {
    "points": (point, {}),
    "a column of points": (lambda X: X[:, :1], {}),
    "a list": (lambda X: X[:, 0].tolist(), {}),
    "a pair": (lambda X: (X[:, 0], X[:, 1]), {}),
    "a distribution": (lambda X: nc.Laplace(X[:, 0], 1.0), {}),
    "quantiles": (lambda X: X[:, :1] + [-1.0, 0.0, 1.0], {"levels": [0.2, 0.5, 0.8]}),
    "one of two targets": (lambda X: X[:, ::-1], {"output": 1}),
    "a named target": (lambda X: {"price": X[:, 0], "size": X[:, 1]}, {"output": "price"}),
}


@pytest.mark.parametrize(("function", "options"), ANSWERS.values(), ids=ANSWERS)
def test_what_a_function_may_return(function, options, tmp_path):
    calibrated = nc.calibrate(function, X, Y, recalibrator=LOCAL, **options)
    assert calibrated.layer == "input"
    assert calibrated.model.layers() == ("input", "output")
    np.testing.assert_allclose(calibrated.base(NEW).median(), NEW[:, 0], rtol=1e-12)
    np.testing.assert_array_equal(calibrated.represent(NEW), NEW)
    nc.save(calibrated, tmp_path / "it")
    joined = nc.load(tmp_path / "it").attach(function, **options)
    np.testing.assert_array_equal(joined.predict(NEW).std(), calibrated.predict(NEW).std())


def test_mean_and_std():
    base = nc.calibrate(lambda X: (X[:, 0], X[:, 1]), X, Y, recalibrator=LOCAL).base(NEW)
    np.testing.assert_array_equal(base.std(), NEW[:, 1])
    points = nc.calibrate(point, X, Y, recalibrator=LOCAL).base(NEW)
    np.testing.assert_allclose(points.std(), np.sqrt(np.mean((Y - X[:, 0]) ** 2)))


def test_a_space_of_your_own():
    own = nc.adapt(point, space=lambda X: X[:, 1]).prepared(X, Y)
    assert own.layers() == ("space", "output")
    np.testing.assert_array_equal(own.represent(NEW, "space"), NEW[:, 1:])
    named = nc.adapt(point, space={"age": lambda X: X[:, 1], "both": lambda X: X})
    assert named.layers() == ("age", "both", "output")
    calibrated = nc.calibrate(point, X, Y, layer="age", recalibrator=LOCAL, space={"age": lambda X: X[:, 1]})
    by_hand = nc.LocalRecalibrator(k=50).fit(calibrated.base(X), Y, X[:, 1])
    expected = by_hand.recalibrate(calibrated.base(NEW), NEW[:, 1])
    np.testing.assert_array_equal(calibrated.predict(NEW).mean(), expected.mean())


def test_quantile_functions_by_level():
    model = nc.adapt({level: lambda X, shift=level: X[:, 0] + shift for level in (0.1, 0.5, 0.9)})
    assert type(model) is FunctionModel
    np.testing.assert_allclose(model.distribution(NEW).ppf(0.9), NEW[:, 0] + 0.9)


def fails(X):
    raise ZeroDivisionError("by nothing")


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (fails, {}, r"X must be inputs that fails can predict, which raised ZeroDivisionError: by nothing"),
        (lambda X: X, {}, r"2 columns: if they are several targets.*output=0"),
        (lambda X: None, {}, "real numbers, got None|must put out"),
        (lambda X: "text", {}, "must"),
        (lambda X: X[:-1, 0], {}, "predicts one a row, got 399 for 400"),
        (lambda X: 1.0, {}, "must"),
        (point, {"space": np.zeros((400, 2))}, "space must be a function of X.*got ndarray.*nearcal.tune"),
        (point, {"space": {}}, "at least one space"),
        (point, {"space": {"output": point}}, 'none "output"'),
        (point, {"space": lambda X: X[:-1]}, "space 'space' must have 400 rows"),
        (point, {"layer": point}, r"layer must be the name.*got function.*space=function"),
        (lambda X: nc.Normal(X[:, 0], 1.0), {"output": 1}, "output picks one of several targets"),
        (FunctionModel, {}, "the class FunctionModel, not an object of it"),
    ],
)
def test_functions_that_say_too_little(function, options, message):
    with pytest.raises(nc.NearcalError, match=message):
        nc.calibrate(function, X, Y, recalibrator=LOCAL, **options)
