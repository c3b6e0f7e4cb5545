"""A calibrated model looks at its inputs as well: rows beyond their ranges fade, wherever neighbours are looked for."""

import functools
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import nearcal as nc

pytestmark = pytest.mark.usefixtures("little_choice")
N = 600


class Line(nc.adapters.ModelAdapter):
    """A model of eight inputs that looks at one of them."""

    def layers(self):
        return ("input", "output")

    def distribution(self, X):
        return nc.Normal(X[:, 0], 1.0)

    def represent(self, X, layer):
        return X if layer == "input" else X[:, :1]


def data(kind="local", n=N):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(n, 8))
    return X, rng.normal(X[:, 0], np.exp(2 * X[:, 0]) if kind == "local" else 2.0)


@functools.cache  # choosing takes its time, and no test changes what it gets
def calibrated(kind="local", layer=("input", "output"), **tuning):
    # eight inputs say less than the one that matters
    return nc.calibrate(
        Line(), *data(kind), layer=list(layer), tuning={"scaling": "standard", "linear": False, **tuning}
    )


def new_rows():
    X = np.random.default_rng(4).uniform(-0.8, 0.8, size=(6, 8))
    X[0, 5], X[1, 5] = 1.01, 9.0
    return X


@pytest.mark.parametrize("kind", ["local", "global"])
def test_a_row_beyond_the_inputs_keeps_its_base_though_the_choice_does_not_see_it(kind):
    model = calibrated(kind)
    assert (model.tuning.chosen.kind, model.layer) == (kind, "output" if kind == "local" else None)
    assert model.look.layer == "input"
    X = new_rows()
    out = model.predict(X)
    np.testing.assert_array_equal(out.trust[[1, 2, 3, 4, 5]], [0, 1, 1, 1, 1])
    assert 0 < out.trust[0] < 1
    np.testing.assert_array_equal(out.ppf([0.1, 0.7])[1], model.base(X).ppf([0.1, 0.7])[1])
    plain = calibrated(kind, fade=False)
    assert plain.look is None
    assert plain.fade is None
    np.testing.assert_array_equal(out.ppf([0.1, 0.7])[2:], plain.predict(X).ppf([0.1, 0.7])[2:])
    between = np.abs(out.std() - model.base(X).std())[0]
    assert 0 < between < np.abs(plain.predict(X).std() - model.base(X).std())[0]
    np.testing.assert_array_equal(model.reliability(X)["trust"], out.trust)


def test_a_choice_that_sees_the_inputs_needs_no_second_look():
    model = calibrated(layer=("input",), rule="best")
    assert model.layer == "input"
    assert model.look is None
    assert model.fade == model.tuning.fade
    assert model.predict(new_rows()).trust[1] == 0
    untouched = nc.calibrate(Line(), *(lambda X: (X, np.random.default_rng(0).normal(X[:, 0])))(data()[0]))
    assert untouched.tuning.chosen.kind == "none"
    assert untouched.look is None


def test_inputs_joined_to_others_are_looked_at_by_themselves():
    model = calibrated(layer=("input", "input + output"), k=50)
    assert model.look is None if model.layer == "input" else model.look.layer == "input"
    joined = nc.calibrate(Line(), *data(), layer=["output", "input + output"], tuning={"k": 50, "scaling": "standard"})
    assert joined.look is None if joined.layer == "output" else joined.look.layer == "output"


def test_the_rate_is_that_of_the_choice():
    assert calibrated(fade=0.1).look.false_alarm == 0.1
    assert calibrated("global", fade=0.1).fade == nc.Fade(0.1)


def test_it_is_saved_and_attached(tmp_path):
    X, y = data()
    line = LinearRegression().fit(X, y)
    model = nc.calibrate(line, X, y, layer=["input", "output"], tuning={"scaling": "standard", "linear": False})
    assert model.look is not None
    nc.save(model, tmp_path / "it")
    again = nc.load(tmp_path / "it").attach(line)
    np.testing.assert_array_equal(again.predict(new_rows()).trust, model.predict(new_rows()).trust)
    assert again.predict(new_rows()).trust[1] == 0


@pytest.mark.parametrize("kind", ["local", "global"])
def test_many_rows_beyond_are_told_once_a_result(kind):
    model = calibrated(kind)
    X = np.random.default_rng(4).uniform(-0.8, 0.8, size=(50, 8))
    X[:20, 3] = 5.0
    out = model.predict(X)
    with pytest.warns(nc.OutOfDistributionWarning, match="20 of 50 new rows"):
        out.mean()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (out.trust < 1).sum() == 20


def test_an_estimator_fades_too():
    X, y = data()
    model = nc.RecalibratedRegressor(LinearRegression(), random_state=0).fit(X, y)
    assert model.calibrated_.fade == model.calibrated_.tuning.fade
    assert model.predict_dist(new_rows()).trust[1] == 0
