"""From a model to a calibrated model, with an adapter written by hand."""

from typing import Any

import numpy as np
import pytest

import nearcal as nc
from nearcal.adapters import ModelAdapter


class TwoLayers(ModelAdapter):
    """Predicts the first input, with a spread learnt from calibration residuals; counts its passes."""

    def __init__(self, spread: float | None = None) -> None:
        self.spread = spread
        self.passes: list[tuple[str, ...]] = []

    def layers(self):
        return ("input", "hidden")

    def distribution(self, X: Any):
        return nc.Normal(np.asarray(X)[:, 0], self.spread)

    def represent(self, X, layer):
        self._require_layer(layer)
        X = np.asarray(X)
        return X if layer == "input" else np.tanh(X[:, [1]])

    def prepared(self, X_cal, y_cal):
        return TwoLayers(float(np.std(y_cal - np.asarray(X_cal)[:, 0])))

    def run(self, X, layers):
        self.passes.append(tuple(layers))
        return super().run(X, layers)

    def __repr__(self):
        return "TwoLayers()"


@pytest.fixture(scope="module")
def data():
    """The spread depends on the second of six columns."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(1200, 6))
    return X, rng.normal(X[:, 0], np.exp(1.5 * X[:, 1]))


@pytest.fixture(scope="module")
def calibrated(data):
    return nc.calibrate(TwoLayers(), *data)


def test_it_tunes_prepares_and_passes_the_inputs_once(data, calibrated):
    assert calibrated.model.spread == pytest.approx(np.std(data[1] - data[0][:, 0]))
    assert calibrated.model.passes == [("input", "hidden")]
    assert calibrated.layer in ("hidden", "input + hidden")  # relevance finds the column in both
    assert calibrated.tuning.chosen.space == calibrated.layer
    assert calibrated.reason == calibrated.tuning.reason
    chosen = calibrated.tuning.chosen
    assert (calibrated.k, calibrated.smoothing) == (chosen.k, chosen.smoothing)
    assert (calibrated.scaling, calibrated.components) == (chosen.scaling, chosen.components)


def test_predictions_are_those_of_the_parts(data, calibrated):
    new = data[0][:20] + 0.01
    base = calibrated.base(new)
    local = calibrated.tuning.recalibrator(quantile_rule="predictive", polish=True)
    model = calibrated.model
    cal, where = calibrated.represent(data[0]), calibrated.represent(new)
    expected = local.fit(model.distribution(data[0]), data[1], cal).recalibrate(base, where)
    out = calibrated.predict(new)
    assert isinstance(out, nc.Recalibrated)
    np.testing.assert_array_equal(out.mean(), expected.mean())
    np.testing.assert_array_equal(out.ppf([0.1, 0.9]), expected.ppf([0.1, 0.9]))
    np.testing.assert_array_equal(where[:, -1], np.tanh(new[:, 1]))
    np.testing.assert_array_equal(base.mean(), new[:, 0])


def test_it_helps(data, calibrated):
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(2000, 6))
    y = rng.normal(X[:, 0], np.exp(1.5 * X[:, 1]))
    # a Normal model with one σ pays about a tenth of its score for not knowing the spread of this problem
    assert nc.scores.crps(calibrated.predict(X), y).mean() < 0.96 * nc.scores.crps(calibrated.base(X), y).mean()


def test_all_settings_given_leave_nothing_to_tune(data):
    given = nc.calibrate(
        TwoLayers(), *data, layer="input", k=30, smoothing="uniform", scaling="whiten", components=1,
        quantile_rule="interpolated",
    )  # fmt: skip
    assert given.tuning is None
    assert given.reason == "All settings were given."
    assert given.model.passes == [("input",)]
    assert (given.layer, given.k, given.smoothing, given.scaling, given.components) == (
        "input", 30, "uniform", "whiten", 1,
    )  # fmt: skip
    assert given.predict(data[0][:3]).quantile_rule == "interpolated"


def test_what_is_given_narrows_the_choice(data):
    narrowed = nc.calibrate(
        TwoLayers(), *data, layer=["input"], k=(20, 60), smoothing="biweight", scaling="none", components=(None, 1),
        adjustment="none", shrinkage=False,
    )  # fmt: skip
    local = [row for row in narrowed.tuning.table if row["kind"] == "local"]
    assert {row["space"] for row in local} == {"input"}
    assert {row["k"] for row in local} == {20.0, 60.0}
    assert {row["smoothing"] for row in local} == {"biweight"}
    assert len(local) == 4


def test_a_good_model_is_left_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    left = nc.calibrate(TwoLayers(), X, rng.normal(X[:, 0], 1.0))
    assert left.layer is None
    assert left.k is None
    assert left.represent(X) is None
    np.testing.assert_array_equal(left.predict(X[:5]).mean(), X[:5, 0])
    table = left.reliability(X[:5])
    assert not table["out_of_distribution"].any()
    assert np.isnan(table["p_value"]).all()


@pytest.mark.parametrize("recalibrator", [nc.IsotonicRecalibrator(), nc.LocalRecalibrator(k=50)])
def test_any_recalibrator_can_be_given(data, recalibrator):
    given = nc.calibrate(TwoLayers(), *data, recalibrator=recalibrator, layer="hidden")
    assert type(given.recalibrator) is type(recalibrator)
    new = data[0][:7]
    expected = given.recalibrator.recalibrate(given.base(new), np.tanh(new[:, [1]]))
    np.testing.assert_array_equal(given.predict(new).median(), expected.median())
    assert nc.calibrate(TwoLayers(), *data, recalibrator=recalibrator).layer == "input"


def test_reliability_flags_strangers(data, calibrated):
    assert calibrated.reliability(data[0])["out_of_distribution"].mean() < 0.05
    given = nc.calibrate(TwoLayers(), *data, recalibrator=nc.LocalRecalibrator(k=20), layer="input")
    assert given.reliability(data[0][:4] + 50)["out_of_distribution"].all()


def test_it_says_what_was_used_and_why(calibrated):
    text = repr(calibrated)
    assert "TwoLayers()" in text
    assert f"layer {calibrated.layer!r}" in text
    assert f"k={calibrated.k}" in text
    assert calibrated.reason in text


def test_it_is_frozen(calibrated):
    with pytest.raises(AttributeError):
        calibrated.layer = "input"


ERRORS = {
    "layer": ({"layer": "hiden"}, "layer must be one of input, hidden, got 'hiden'"),
    "no layer": ({"layer": []}, "layer must name at least one layer"),
    "two layers": (
        {"layer": ["input", "hidden"], "recalibrator": nc.IsotonicRecalibrator()},
        "layer must be one name where a recalibrator is given",
    ),
    "k": ({"k": -1}, "k must be a whole number"),
    "rule": ({"quantile_rule": "steep"}, "quantile_rule must be one of"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(data, case):
    options, message = ERRORS[case]
    with pytest.raises(nc.InvalidParameterError, match=message):
        nc.calibrate(TwoLayers(), *data, **options)


def test_responses_must_match(data):
    with pytest.raises(nc.InvalidInputError, match="y_cal must have shape"):
        nc.calibrate(_Fixed(), data[0], data[1][:-1])


class _Fixed(TwoLayers):
    def prepared(self, X_cal, y_cal):
        return TwoLayers(1.0)


def test_polish_follows_the_quantile_rule(data):
    settings = {"layer": "input", "k": 30, "smoothing": "uniform", "scaling": "none", "components": None}
    assert nc.calibrate(TwoLayers(), *data, **settings).recalibrator.polish
    assert not nc.calibrate(TwoLayers(), *data, **settings, polish=False).recalibrator.polish
    assert not nc.calibrate(TwoLayers(), *data, **settings, quantile_rule="step").recalibrator.polish


def test_a_given_recalibrator_stays_as_it_was(data):
    given = nc.IsotonicRecalibrator()
    first = nc.calibrate(TwoLayers(), *data, recalibrator=given)
    before = first.predict(data[0][:5]).mean()
    nc.calibrate(TwoLayers(), data[0], data[1] + 1, recalibrator=given)
    np.testing.assert_array_equal(first.predict(data[0][:5]).mean(), before)
    with pytest.raises(nc.NotFittedError):
        given.recalibrate(first.base(data[0][:5]))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"quantile_rule": "foo"}, "quantile_rule must be one of"), ({"quantile_rule": "step", "polish": True}, "polish")],
)
def test_rules_are_checked_whatever_tuning_would_choose(data, options, message):
    with pytest.raises(nc.InvalidParameterError, match=message):
        nc.calibrate(TwoLayers(), *data, **options)


def test_layers_can_be_joined(data):
    joined = nc.calibrate(
        TwoLayers(), *data, layer="input + hidden", k=30, smoothing="uniform", scaling="none", components=None
    )
    new = data[0][:5]
    np.testing.assert_array_equal(joined.represent(new), np.column_stack([new, np.tanh(new[:, 1])]))
    local = nc.LocalRecalibrator(k=30, smoothing="uniform", quantile_rule="predictive", polish=True)
    cal = np.column_stack([data[0], np.tanh(data[0][:, 1])])
    expected = local.fit(joined.model.distribution(data[0]), data[1], cal).recalibrate(
        joined.base(new), joined.represent(new)
    )
    np.testing.assert_array_equal(joined.predict(new).median(), expected.median())
    assert (joined.adjustment, joined.shrinkage) == ("none", False)


def test_all_layers_are_tried_alone_and_joined(calibrated):
    assert set(calibrated.tuning.table["space"]) == {"", "input", "hidden", "input + hidden"}
    assert calibrated.adjustment == calibrated.tuning.chosen.adjustment
    assert calibrated.shrinkage == calibrated.tuning.chosen.shrinkage


def test_adjustment_and_shrinkage_can_be_given(data):
    given = nc.calibrate(
        TwoLayers(), data[0][:200], data[1][:200], layer="input", k=(50, 100), adjustment="linear", shrinkage=False
    )
    local = given.tuning.table["kind"] == "local"
    assert set(given.tuning.table["adjustment"][local]) == {"linear"}
    assert not given.tuning.table["shrinkage"].any()
