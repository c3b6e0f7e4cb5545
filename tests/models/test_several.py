"""Several models calibrated together: better than each, and everything that one of them alone can do."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import nearcal as nc

pytestmark = pytest.mark.usefixtures("little_choice")
N = 240
FAST = {"k": (20, 50), "scaling": "standard", "smoothing": "biweight", "shrinkage": False}


def data(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, rng.normal(X[:, 0] + np.abs(X[:, 1]), 0.1 + 0.3 * (X[:, 0] > 0))


MODELS = {"line": LinearRegression().fit(*data(seed=1)), "tree": DecisionTreeRegressor(max_depth=4).fit(*data(seed=1))}


@pytest.fixture(scope="module")
def calibrated():
    return nc.calibrate(MODELS, *data(), tuning=FAST)


def test_better_than_the_best_alone(calibrated):
    X, y = data(1000, seed=2)
    alone = [nc.scores.crps(nc.calibrate(model, *data(), tuning=FAST).predict(X), y) for model in MODELS.values()]
    assert nc.scores.crps(calibrated.predict(X), y).mean() < min(scores.mean() for scores in alone)
    lower, upper = calibrated.predict(X).interval(0.9)
    # three standard errors of 240 calibration rows and of 1,000 judged ones: 7 points
    assert abs(((lower <= y) & (y <= upper)).mean() - 0.9) < 0.07


def test_evidence(calibrated):
    found = calibrated.tuning
    assert isinstance(found, nc.Combination)
    evidence = found.evidence
    assert list(evidence["kind"]) == ["line alone", "tree alone", "quantile average", "mixture"]
    assert evidence["chosen"].sum() == 1
    assert evidence["tried"][0] == len(found.members["line"].table)
    place = int(np.argmax(evidence["chosen"]))
    assert sum(found.weights.values()) == pytest.approx(1)
    if place > 1:
        assert f"{found.weights['line']:.2f} line" in evidence["best"][place]
    assert set(found.table["model"]) == {"line", "tree"}
    assert len(found.table) == sum(len(tuning.table) for tuning in found.members.values())
    assert calibrated.reason in str(found)
    spaces = {space for tuning in found.members.values() for space in tuning.table["space"]}
    assert {"input", "outputs", "input + outputs", "line.output", "tree.output"} <= spaces


def test_a_model_that_is_clearly_the_best_stands_alone():
    X, y = data()
    wrong = {"right": lambda X: X[:, 0] + np.abs(X[:, 1]), "wrong": lambda X: 1e3 * np.sin(1e4 * X[:, 0])}
    calibrated = nc.calibrate(wrong, X, y, layer="input", tuning={**FAST, "linear": False})
    assert calibrated.tuning.weights["wrong"] == 0
    assert calibrated.predict(X[:3]).std().max() < 1


def test_saved_and_attached(calibrated, tmp_path):
    X, _ = data(50, seed=3)
    nc.save(calibrated, tmp_path / "several.nearcal")
    loaded = nc.load(tmp_path / "several.nearcal")
    joined = loaded.attach(dict(reversed(MODELS.items())))
    np.testing.assert_array_equal(joined.predict(X).ppf([0.1, 0.6]), calibrated.predict(X).ppf([0.1, 0.6]))
    assert str(loaded.tuning) == str(calibrated.tuning)
    with pytest.raises(nc.InvalidInputError, match="the same names, line, tree, got line, other"):
        loaded.attach({"line": MODELS["line"], "other": MODELS["tree"]})
    other = DecisionTreeRegressor(max_depth=4, random_state=1).fit(*data(seed=9))
    for models in ({**MODELS, "tree": other}, {"line": MODELS["tree"], "tree": MODELS["line"]}):
        with pytest.raises(nc.InvalidInputError, match="must be the one that was calibrated"):
            loaded.attach(models)


def test_reliability_report_and_a_calibration_set_that_changes(calibrated, tmp_path):
    X, y = data(150, seed=4)
    known = calibrated.reliability(np.vstack([X[:20], [[50.0, 50.0]]]))
    assert known["out_of_distribution"][-1]
    assert not known["out_of_distribution"][:20].all()
    assert known["trust"][-1] < known["trust"][:20].mean()
    text = str(nc.report(calibrated.predict(X), y, path=tmp_path / "report.html", tuning=calibrated.tuning))
    assert text
    assert "tree alone" in (tmp_path / "report.html").read_text()
    changed = nc.calibrate(MODELS, *data(), tuning=FAST)
    changed.update(X, y)
    assert changed.recalibrator.n_cal_ == N + 150
    assert changed.forget(keep_last=300).relearn().recalibrator.n_cal_ == 300
    assert not np.array_equal(changed.predict(X).std(), calibrated.predict(X).std())


def test_groups_time_and_weights():
    X, y = data()
    order = np.random.default_rng(0).permutation(N)
    groups, weights = np.arange(N) // 4, np.where(np.arange(N) < 40, 0.0, 1.0 + np.arange(N) % 3)
    by_group = nc.calibrate(MODELS, X, y, tuning=FAST, groups=groups, sample_weight=weights)
    assert by_group.recalibrator.n_cal_ == 200
    same = nc.calibrate(MODELS, X[40:], y[40:], tuning=FAST, groups=groups[40:], sample_weight=weights[40:], probes=0)
    close = {"rtol": 1e-6}  # the spread of point predictions is learnt from all rows, and nearly recalibrated away
    assert by_group.recalibrator.weights_ == pytest.approx(same.recalibrator.weights_, abs=0.1)
    in_time = nc.calibrate(MODELS, X, y, tuning=FAST, time=order)
    assert 0 < in_time.recalibrator.judged_.sum() < N
    np.testing.assert_allclose(in_time.predict(X[:5])[2].std(), in_time.predict(X[2:3]).std(), **close)


def test_rows_that_err_alike_are_told_once():
    X, y = data()
    drift = np.repeat(np.random.default_rng(0).normal(size=12), 20)
    with pytest.warns(nc.DependenceWarning) as told:
        nc.calibrate(MODELS, X, y + drift, tuning=FAST)
    assert len([one for one in told if one.category is nc.DependenceWarning]) == 1


def test_a_recalibrator_that_is_given():
    X, y = data()
    local = nc.LocalRecalibrator(k=40, quantile_rule="predictive")
    calibrated = nc.calibrate(MODELS, X, y, recalibrator=local, layer="outputs", groups=np.arange(N) // 2)
    assert [member.k for member in calibrated.recalibrator.members_] == [40, 40]
    assert calibrated.tuning is None
    pooled = nc.CombinedRecalibrator([local, nc.GlobalRecalibrator(quantile_rule="predictive")], pool="mixture")
    mixed = nc.calibrate(MODELS, X, y, recalibrator=pooled, layer="input")
    assert isinstance(mixed.recalibrator.members_[1], nc.GlobalRecalibrator)
    assert np.isfinite(mixed.predict(X).std()).all()


@pytest.mark.parametrize("calibration", ["cross", "split", "prefit"])
def test_several_estimators_of_a_regressor(calibration):
    X, y = data()
    pairs = [("line", LinearRegression()), ("forest", ExtraTreesRegressor(10, min_samples_leaf=5, random_state=0))]
    if calibration == "prefit":
        pairs = [(name, one.fit(*data(seed=1))) for name, one in pairs]
    model = nc.RecalibratedRegressor(pairs, calibration=calibration, tuning=FAST, cv=3, random_state=0).fit(X, y)
    assert list(model.estimator_) == ["line", "forest"]
    assert model.n_features_in_ == 2
    assert model.predict(X[:4]).shape == (4,)
    assert set(model.calibrated_.tuning.weights) == {"line", "forest"}
    if calibration != "prefit":
        same = clone(nc.RecalibratedRegressor(dict(pairs), calibration=calibration, tuning=FAST, cv=3, random_state=0))
        np.testing.assert_array_equal(same.fit(X, y).predict(X[:4]), model.predict(X[:4]))
