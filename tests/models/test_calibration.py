"""From a model to a calibrated model, with an adapter written by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

import nearcal as nc
from nearcal.models.adapters import ModelAdapter
from nearcal.space import calibration_space

PLAIN = {"linear": False, "shrinkage": False, "trend": False}


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
    X = rng.uniform(-1, 1, size=(700, 6))
    return X, rng.normal(X[:, 0], np.exp(1.5 * X[:, 1]))


@pytest.fixture(scope="module")
def calibrated(data):
    return nc.calibrate(TwoLayers(), *data)


def test_it_tunes_prepares_and_passes_the_inputs_once(data, calibrated):
    assert calibrated.model.spread == pytest.approx(np.std(data[1] - data[0][:, 0]))
    # the calibration set once, and a few rows of it, to know the model again
    assert calibrated.model.passes == [("input", "hidden"), tuple(calibrated.layer.split(" + "))]
    assert calibrated.layer in ("hidden", "input + hidden")  # relevance finds the column in both
    assert calibrated.tuning.chosen.space == calibrated.layer
    assert calibrated.reason == calibrated.tuning.reason
    assert calibrated.recalibrator is calibrated.tuning.recalibrator
    assert calibrated.recalibrator.n_cal_ == 700


def test_predictions_are_those_of_the_parts(data, calibrated):
    new = 0.9 * data[0][:20]  # within the range of every column: the model looks at the inputs as well
    base = calibrated.base(new)
    local = nc.LocalRecalibrator(**calibrated.recalibrator.get_params())
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


def test_a_given_recalibrator_leaves_nothing_to_tune(data):
    recalibrator = nc.LocalRecalibrator(
        k=30, smoothing="uniform", scaling=nc.Scaling("whiten", 1), quantile_rule="interpolated"
    )
    given = nc.calibrate(TwoLayers(), *data, layer="input", recalibrator=recalibrator)
    assert given.tuning is None
    assert given.reason == f"{recalibrator!r} was given in the space 'input': nothing was compared or chosen."
    assert given.model.passes == [("input",), ("input",)]
    assert given.layer == "input"
    assert given.recalibrator.get_params() == recalibrator.get_params()
    assert given.predict(data[0][:3]).has_density  # not so by steps


def test_what_is_given_narrows_the_choice(data):
    narrowed = nc.calibrate(
        TwoLayers(),
        *data,
        layer=["input"],
        tuning={
            "k": (20, 60),
            "smoothing": "biweight",
            "scaling": "none",
            "components": (None, 1),
            "linear": False,
            "shrinkage": False,
            "trend": False,
        },
    )
    local = [row for row in narrowed.tuning.table if row["kind"] == "local"]
    assert {row["space"] for row in local} == {"input"}
    assert {row["k"] for row in local} == {20.0, 60.0}
    assert {row["smoothing"] for row in local} == {"biweight"}
    assert len(local) == 4


def test_a_good_model_is_left_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    left = nc.calibrate(TwoLayers(), X, rng.normal(X[:, 0], 1.0))
    assert left.layer is None
    assert isinstance(left.recalibrator, nc.IdentityRecalibrator)
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


def test_a_model_without_layers(data):
    model = nc.adapters.ColumnsModel("normal", {"loc": "mu", "scale": 1.0})
    table = {"mu": data[0][:, 0]}
    given = nc.calibrate(model, table, data[1], recalibrator=nc.IsotonicRecalibrator())
    expected = nc.IsotonicRecalibrator().fit(model.distribution(table), data[1]).recalibrate(model.distribution(table))
    assert given.layer is None
    np.testing.assert_array_equal(given.predict(table).median(), expected.median())
    with pytest.raises(nc.InvalidInputError, match="spaces must name at least one space"):
        nc.calibrate(model, table, data[1])


def test_reliability_flags_strangers(data, calibrated):
    assert calibrated.reliability(data[0])["out_of_distribution"].mean() < 0.05
    given = nc.calibrate(TwoLayers(), *data, recalibrator=nc.LocalRecalibrator(k=20), layer="input")
    assert given.reliability(data[0][:4] + 50)["out_of_distribution"].all()


def test_it_says_what_was_used_and_why(calibrated):
    text = repr(calibrated)
    assert "TwoLayers()" in text
    assert f"layer {calibrated.layer!r}" in text
    assert f"k={calibrated.recalibrator.k}" in text
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
    "k": ({"tuning": {"k": -1}}, "k must be a whole number"),
    "rule": ({"tuning": {"rule": "worst"}}, "rule must be one of"),
    "an option that tune does not have": (
        {"tuning": {"kk": 3}},
        r"options of nearcal\.tune, k, .*rule, members, distilled, effort, seconds, got {'kk': 3}",
    ),
    "what belongs to workers": (
        {"tuning": {"threads": 1}},
        r"options of nearcal\.tune, k, .*rule, members, distilled, effort, seconds, got {'threads': 1}",
    ),
    "no mapping": ({"tuning": 30}, r"tuning must be a mapping of options of nearcal\.tune"),
    "both": ({"tuning": {}, "recalibrator": nc.IsotonicRecalibrator()}, "give tuning or recalibrator, got both"),
    "the name of a recalibrator": (
        {"recalibrator": "local"},
        r"recalibrator must be a recalibrator of nearcal, such as nc\.LocalRecalibrator\(k=100\), got 'local'",
    ),
    "the class of a recalibrator": ({"recalibrator": nc.LocalRecalibrator}, "got the class LocalRecalibrator"),
    "workers": ({"workers": 4}, r"workers must be nearcal\.Workers\(.* got 4"),
    "an option of the choice": (
        {"k": 30},
        r"options of the choice go into tuning={'k': \.\.\.}, or give recalibrator=nc\.LocalRecalibrator\(k=\.\.\.\)",
    ),
    "an option of a recalibrator": (
        {"smoothing": "uniform"},
        r"nc\.LocalRecalibrator\(smoothing=\.\.\.\)",
    ),
    "an option of workers": ({"threads": 2}, r"give workers=nc\.Workers\(threads=\.\.\.\), got threads=2"),
    "an option of both": (
        {"quantile_rule": "step"},
        r"tuning={'quantile_rule': \.\.\.}, or give recalibrator=nc\.LocalRecalibrator\(quantile_rule=\.\.\.\)",
    ),
    "an option of nobody": ({"heads": "point"}, "got heads with a TwoLayers"),
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


def test_what_tuning_chooses_is_read_by_the_predictive_rule_and_polished(data):
    tuned = nc.calibrate(TwoLayers(), *data, layer="input", tuning={"k": 30, **PLAIN, "members": 1})
    assert tuned.tuning.chosen.kind == "local"
    assert tuned.recalibrator.corrections[-2:] == (nc.Polish(drift=True), tuned.tuning.fade)
    assert tuned.recalibrator.quantile_rule == "predictive"


def test_so_is_an_average_and_each_of_its_members(data):
    tuned = nc.calibrate(TwoLayers(), *data, layer="input", tuning={"k": (30, 60), **PLAIN})
    assert isinstance(tuned.recalibrator, nc.AveragedRecalibrator)
    assert tuned.recalibrator.corrections[0] == nc.Polish(drift=True)
    for member in tuned.recalibrator.members:
        assert member.corrections[-2:] == (nc.Polish(), tuned.tuning.fade)  # of drift the average is asked
        assert member.quantile_rule == "predictive"
    assert tuned.fade == tuned.tuning.fade


def test_the_rule_can_be_given(data):
    tuning = {"k": 30, "quantile_rule": "step", **PLAIN, "fade": False}
    tuned = nc.calibrate(TwoLayers(), *data, layer="input", tuning=tuning)
    assert tuned.tuning.chosen.kind == "local"
    assert (tuned.recalibrator.quantile_rule, tuned.recalibrator.corrections) == ("step", ())


def test_workers_are_handed_on(data):
    told = []
    workers = nc.Workers(threads=1, memory=2**24, progress=lambda done, total: told.append((done, total)))
    tuned = nc.calibrate(TwoLayers(), *data, tuning={"k": (30, 60), **PLAIN}, workers=workers)
    assert told[-1][0] == told[-1][1]
    for member in tuned.recalibrator.members_:
        assert member.workers == nc.Workers(threads=1, memory=2**24)


def test_a_given_recalibrator_has_workers_of_its_own(data):
    told = []
    workers = nc.Workers(threads=1, progress=lambda done, total: told.append(done))
    given = nc.calibrate(TwoLayers(), *data, recalibrator=nc.LocalRecalibrator(k=30), workers=workers)
    assert given.recalibrator.workers is None
    assert told == []


def test_nothing_is_built_again_once_it_is_chosen(data, monkeypatch):
    learnt, indexes = [], []
    learn, build = nc.Scaling.learn, calibration_space.build_index
    monkeypatch.setattr(nc.Scaling, "learn", lambda self, *given: learnt.append(self.name) or learn(self, *given))
    monkeypatch.setattr(calibration_space, "build_index", lambda *given: indexes.append(build(*given)) or indexes[-1])
    tuning = {"k": (30, 60), "scaling": ("standard", "relevance"), "trend": False}
    tuned = nc.calibrate(TwoLayers(), *data, layer=["input", "input + hidden"], tuning=tuning)
    assert tuned.tuning.chosen.kind == "local"
    # the views of the choice among others: five of relevance and one more to predict by, one of standard scaling
    chosen = [row for row in tuned.tuning.table if row["weight"] > 0 and row["scaling"] == "relevance"]
    of_relevance = len({row["space"] for row in chosen})
    assert (learnt.count("standard"), learnt.count("relevance")) == (2, 10 + of_relevance)
    assert len(indexes) == 12 + of_relevance
    assert len(tuned.recalibrator.members_) > 1
    for member in tuned.recalibrator.members_:
        assert any(member.index_ is index for index in indexes)


def test_a_given_recalibrator_stays_as_it_was(data):
    given = nc.IsotonicRecalibrator()
    first = nc.calibrate(TwoLayers(), *data, recalibrator=given)
    before = first.predict(data[0][:5]).mean()
    nc.calibrate(TwoLayers(), data[0], data[1] + 1, recalibrator=given)
    np.testing.assert_array_equal(first.predict(data[0][:5]).mean(), before)
    with pytest.raises(nc.NotFittedError):
        given.recalibrate(first.base(data[0][:5]))


def test_layers_can_be_joined(data):
    local = nc.LocalRecalibrator(k=30, smoothing="uniform", quantile_rule="predictive", corrections=(nc.Polish(),))
    joined = nc.calibrate(TwoLayers(), *data, layer="input + hidden", recalibrator=local)
    new = data[0][:5]
    np.testing.assert_array_equal(joined.represent(new), np.column_stack([new, np.tanh(new[:, 1])]))
    cal = np.column_stack([data[0], np.tanh(data[0][:, 1])])
    expected = local.fit(joined.model.distribution(data[0]), data[1], cal).recalibrate(
        joined.base(new), joined.represent(new)
    )
    np.testing.assert_array_equal(joined.predict(new).median(), expected.median())


def test_all_layers_are_tried_alone_and_joined(calibrated):
    assert set(calibrated.tuning.table["space"]) == {"", "input", "hidden", "input + hidden"}


def test_corrections_can_be_given(data):
    tuning = {"k": (50, 100), "linear": True, "shrinkage": False, "trend": False}
    given = nc.calibrate(TwoLayers(), data[0][:200], data[1][:200], layer="input", tuning=tuning)
    local = given.tuning.table["kind"] == "local"
    assert local.sum() > 0
    assert given.tuning.table["linear"][local].all()
    assert not given.tuning.table["shrinkage"].any()


# ---- messages -------------------------------------------------------------------------------------------------------

FRAME = pd.DataFrame({"age": [1.0, 2.0, np.nan, 4.0] * 10, "size": np.arange(40.0), "city": ["Rome", "Oslo"] * 20})
RESPONSES = np.random.default_rng(0).normal(size=40)


def test_why_a_space_is_not_offered():
    histogram = HistGradientBoostingRegressor(max_iter=2, categorical_features="from_dtype")
    frame = FRAME.astype({"city": "category"})
    model = histogram.fit(frame, RESPONSES)
    message = (
        r"layer 'input' must be numbers without gaps.*10 in column 'age' that are missing.*column 'city' of category; "
        r"encode and impute them, or choose among leaf_values, output"
    )
    for layer in ("input", "input + output"):
        with pytest.raises(nc.InvalidParameterError, match=message):
            nc.calibrate(model, frame, RESPONSES, layer=layer)
    gaps = frame[["age", "size"]].to_numpy()
    with pytest.raises(nc.InvalidParameterError, match=r"10 in column 0 that are missing or infinite"):
        nc.calibrate(HistGradientBoostingRegressor(max_iter=2).fit(gaps, RESPONSES), gaps, RESPONSES, layer="input")


def test_an_argument_that_is_nearly_one_of_calibrate(data):
    for options, message in (
        ({"layers": "input"}, r"layers is no argument of calibrate: did you mean layer\? got layers='input'"),
        ({"recalibrater": 1}, r"did you mean recalibrator\?"),
        ({"worker": 1}, r"did you mean workers\?"),
    ):
        with pytest.raises(nc.InvalidParameterError, match=message):
            nc.calibrate(torch.nn.Linear(6, 1), *data, **options)
    with pytest.raises(nc.InvalidParameterError, match=r"colour is no option of this model, which is read by"):
        nc.calibrate(torch.nn.Linear(6, 1), *data, colour="red")


@pytest.mark.parametrize("names", [None, ["age", "size"]])
@pytest.mark.parametrize("model", [torch.nn.Linear(2, 1), lambda X: np.asarray(X).sum(axis=1)])
def test_a_row_with_a_gap_is_blamed_on_its_column(model, names):
    X = FRAME[["age", "size"]].to_numpy(copy=True)
    X[:, 0] = np.arange(40.0)
    calibrated = nc.calibrate(model, X, RESPONSES, recalibrator=nc.VarianceScaling())
    X[7, 1], X[9, 0] = np.nan, np.inf
    given = X if names is None else pd.DataFrame(X, columns=names)
    column = "column 1" if names is None else "column 'size'"
    message = rf"2 rows of 40 for which it does not, the first row 7, whose inputs are not finite in {column}: drop or"
    with pytest.raises(nc.InvalidInputError, match=message):
        calibrated.predict(given)
    with pytest.raises(nc.InvalidInputError, match=message):
        nc.calibrate(model, given, RESPONSES)


@pytest.mark.parametrize("names", [None, ["age", "size"]])
def test_a_model_that_refuses_gaps_is_told_their_column(names):
    """scikit-learn says that there are some, and not where."""
    X = np.arange(80.0).reshape(40, 2)
    frame = X if names is None else pd.DataFrame(X, columns=names)
    calibrated = nc.calibrate(
        LinearRegression().fit(frame, RESPONSES), frame, RESPONSES, recalibrator=nc.VarianceScaling()
    )
    X = X.copy()
    X[[3, 7], 1] = np.nan
    column = "column 1" if names is None else "column 'size'"
    message = (
        rf"that LinearRegression can predict \(X has 2 in {column} that are missing or infinite; drop or impute such "
        r"rows\), which raised ValueError: Input X contains NaN"
    )
    with pytest.raises(nc.InvalidInputError, match=message):
        calibrated.predict(X if names is None else pd.DataFrame(X, columns=names))


def test_a_model_that_predicts_no_number_is_blamed_itself():
    with pytest.raises(nc.InvalidInputError, match="the first row 0, whose inputs are finite: look at the model"):
        nc.calibrate(lambda X: X[:, 0] * np.nan, np.ones((20, 1)), np.arange(20.0))


def test_the_reason_of_what_was_given(data):
    def reason(**options):
        return nc.calibrate(lambda X: X[:, 0], *data, **options).reason

    given = "VarianceScaling() was given in the space 'input'"
    assert reason(recalibrator=nc.VarianceScaling()) == (
        f"{given}, the first layer of the model: nothing was compared or chosen."
    )
    assert reason(recalibrator=nc.VarianceScaling(), layer="input") == f"{given}: nothing was compared or chosen."


def test_weights_reach_the_choice_and_a_recalibrator_given():
    rng = np.random.default_rng(0)
    X, weights = rng.uniform(1, 3, size=(300, 1)), rng.gamma(1.0, size=300)
    y = rng.normal(X[:, 0], X[:, 0])
    line = nc.adapt(lambda X: X[:, 0], space=lambda X: X)
    options = {"k": 50, "scaling": "none", "rule": "best"}
    found = nc.calibrate(line, X, y, layer="space", tuning=options, sample_weight=weights)
    dist = found.model.distribution(X)
    expected = nc.tune(dist, y, {"space": X}, sample_weight=weights, **options)
    np.testing.assert_array_equal(found.tuning.table["crps"], expected.table["crps"])
    given = nc.calibrate(line, X, y, layer="space", recalibrator=nc.LocalRecalibrator(k=50), sample_weight=weights)
    by_hand = nc.LocalRecalibrator(k=50).fit(dist, y, X, sample_weight=weights)
    np.testing.assert_array_equal(given.predict(X).mean(), by_hand.recalibrate(dist, X).mean())


def test_weights_are_no_option_of_tuning():
    with pytest.raises(nc.InvalidParameterError, match="tuning must be a mapping of options"):
        nc.calibrate(lambda X: X[:, 0], np.zeros((9, 1)), np.zeros(9), tuning={"sample_weight": np.ones(9)})


# ---- groups and time ------------------------------------------------------------------------------------------------

RELATIONS = {
    "groups": {"groups": np.arange(700) % 30},
    "time": {"time": np.arange(700)[::-1], "gap": 10},
    "both": {"groups": np.arange(700) % 30, "time": True},
}


@pytest.mark.parametrize("case", RELATIONS)
def test_the_choice_is_that_of_tune(data, case):
    X, y = data
    options = {"k": (20, 100), "scaling": "standard", **PLAIN}
    calibrated = nc.calibrate(TwoLayers(), X, y, layer="hidden", tuning=options, **RELATIONS[case])
    adapter = TwoLayers().prepared(X, y)
    expected = nc.tune(adapter.distribution(X), y, {"hidden": np.tanh(X[:, [1]])}, **options, **RELATIONS[case])
    assert calibrated.reason == expected.reason
    np.testing.assert_array_equal(calibrated.tuning.table["crps"], expected.table["crps"])


@pytest.mark.parametrize("case", RELATIONS)
def test_a_given_recalibrator_learns_by_them(data, case):
    X, y = data
    given = nc.LocalRecalibrator(50, quantile_rule="predictive", corrections=(nc.Shrinkage(), nc.Polish()))
    calibrated = nc.calibrate(TwoLayers(), X, y, layer="input", recalibrator=given, **RELATIONS[case])
    adapter = TwoLayers().prepared(X, y)
    expected = given.fit(adapter.distribution(X), y, X, **RELATIONS[case])
    new = np.random.default_rng(3).uniform(-1, 1, size=(20, 6))
    by_hand = expected.recalibrate(adapter.distribution(new), new).ppf([0.1, 0.9])
    np.testing.assert_array_equal(calibrated.predict(new).ppf([0.1, 0.9]), by_hand)


def test_recalibrators_of_all_rows_have_no_use_for_them(data):
    plain, related = (
        nc.calibrate(TwoLayers(), *data, recalibrator=nc.IsotonicRecalibrator(), **relations)
        for relations in ({}, RELATIONS["groups"])
    )
    np.testing.assert_array_equal(plain.predict(data[0][:5]).ppf(0.9), related.predict(data[0][:5]).ppf(0.9))
    with pytest.raises(nc.InvalidInputError, match=r"groups must have shape \(700,\)"):
        nc.calibrate(TwoLayers(), *data, recalibrator=nc.IsotonicRecalibrator(), groups=[1, 2])


def test_they_are_no_options_of_the_choice(data):
    with pytest.raises(nc.InvalidParameterError, match="tuning must be a mapping of options"):
        nc.calibrate(TwoLayers(), *data, tuning={"groups": np.arange(700)})
