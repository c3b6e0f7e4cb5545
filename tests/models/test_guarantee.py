"""guarantee= on calibrate, tune and the estimator: whose rows are set aside, who is promised what, files."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import nearcal as nc

LOCAL = nc.LocalRecalibrator(k=40, quantile_rule="predictive")


def draw(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(1, 3, size=(n, 2))
    return X, rng.normal(X[:, 0] ** 2, X[:, 1])


X, Y = draw(400, 0)
X_NEW, Y_NEW = draw(500, 1)
LINE = LinearRegression().fit(*draw(300, 2))


def label(X):
    return np.where(np.asarray(X)[:, 0] < 2, "low", "high")


def coverage(dist, c=0.9):
    lower, upper = dist.interval(c)
    return ((lower <= Y_NEW) & (upper >= Y_NEW)).mean()


def saved(model, tmp_path):
    nc.save(model, tmp_path / "model.nearcal")
    return nc.load(tmp_path / "model.nearcal")


@pytest.mark.parametrize("guarantee", ["marginal", "pac", "cross", nc.Marginal(groups=label)])
def test_calibrate(guarantee, tmp_path):
    model = nc.calibrate(LINE, X, Y, recalibrator=LOCAL, guarantee=guarantee)
    dist = model.predict(X_NEW)
    assert 0.83 < coverage(dist) < 0.99
    assert "Promised" in repr(model)
    joined = saved(model, tmp_path).attach(LINE)
    assert joined.guarantee == model.guarantee
    known = {"groups": label(X_NEW)} if isinstance(guarantee, nc.Marginal) else {}  # a function has no place in a file
    np.testing.assert_array_equal(joined.predict(X_NEW, **known).interval(0.9), dist.interval(0.9))
    if known:
        with pytest.raises(nc.InvalidInputError, match="groups of new rows must be given"):
            joined.predict(X_NEW)


def test_what_the_model_learns_it_learns_without_rows_set_aside():
    promise = nc.Marginal(share=0.3, seed=5)
    rest = promise.set_aside(400)[0]
    model = nc.calibrate(LINE, X, Y, recalibrator=LOCAL, guarantee=promise)
    alone = nc.calibrate(LINE, X[rest], Y[rest], recalibrator=LOCAL)
    assert model.model.learnt() == alone.model.learnt()
    np.testing.assert_array_equal(model.base(X_NEW).std(), alone.base(X_NEW).std())


def test_rows_fade_before_the_promise():
    tuning = {"k": 40, "scaling": "standard", "linear": False, "trend": False, "shrinkage": False, "effort": "quick"}
    spaces = {"layer": ["space", "output"], "tuning": tuning}
    model = nc.calibrate(
        lambda X: (X[:, 0] ** 2, 5 + 0 * X[:, 0]), X, Y, space=lambda X: X[:, :1], guarantee="marginal", **spaces
    )
    held, recalibrator = model.recalibrator.held_, model.recalibrator
    assert (held.trust is None) == (model.look is None)
    again = recalibrator.with_inner(recalibrator.inner_)
    np.testing.assert_allclose(again.scores_, recalibrator.scores_)
    far = model.predict(np.array([[100.0, 50.0]]))
    assert np.isfinite(far.interval(0.9)).all()
    assert model.fade is not None


def test_groups_by_columns_and_labels():
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(kind=label(X), low=X[:, 0] < 2, right=X[:, 0] > 1.5)
    new = pd.DataFrame(X_NEW, columns=["a", "b"]).assign(
        kind=label(X_NEW), low=X_NEW[:, 0] < 2, right=X_NEW[:, 0] > 1.5
    )
    options = {"recalibrator": LOCAL, "space": lambda X: X[["a", "b"]].to_numpy()}

    def model(X):
        return X["a"].to_numpy() ** 2, np.full(len(X), 2.0)

    by_name = nc.calibrate(model, frame, Y, guarantee=nc.Marginal(groups="kind"), **options)
    by_label = nc.calibrate(model, frame, Y, guarantee=nc.Marginal(groups=label(X)), **options)
    first = by_name.predict(new).interval(0.9)
    np.testing.assert_array_equal(first, by_label.predict(new, groups=label(X_NEW)).interval(0.9))
    flags = nc.calibrate(model, frame, Y, guarantee=nc.Marginal(groups=["low", "right"]), **options)
    assert flags.guarantee.overlap
    assert coverage(flags.predict(new)) > 0.85
    with pytest.raises(nc.InvalidInputError, match="X must have the columns"):
        by_name.predict(new.drop(columns="kind"))
    with pytest.raises(nc.InvalidParameterError, match="groups are for a promise"):
        nc.calibrate(model, frame, Y, **options).predict(new, groups=label(X_NEW))


@pytest.mark.parametrize("calibration", ["cross", "split"])
@pytest.mark.parametrize("guarantee", [nc.Marginal(share=0.3), nc.Cross(folds=3), nc.PAC(groups=label)])
def test_estimator(calibration, guarantee, tmp_path):
    model = nc.RecalibratedRegressor(
        calibration=calibration, calibration_size=0.6, recalibrator=LOCAL, guarantee=guarantee, random_state=0
    )
    model.fit(X, Y)
    assert 0.8 < coverage(model.predict_dist(X_NEW)) <= 1
    assert model.predict(X_NEW).shape == (500,)
    assert model.n_features_in_ == 2
    joined = saved(model, tmp_path).attach(model.estimator_)
    known = {"groups": label(X_NEW)} if isinstance(guarantee, nc.PAC) else {}
    np.testing.assert_array_equal(joined.predict(X_NEW, **known).interval(0.9), model.predict_interval(X_NEW, 0.9))


def test_estimator_fits_nothing_to_rows_set_aside():
    promise = nc.Marginal(share=100, seed=1)
    model = nc.RecalibratedRegressor(recalibrator=LOCAL, guarantee=promise, random_state=0).fit(X, Y)
    rest = promise.set_aside(400)[0]
    np.testing.assert_array_equal(model.estimator_.coef_, LinearRegression().fit(X[rest], Y[rest]).coef_)
    assert model.calibrated_.guarantee.n == 100


def test_labels_are_cut_with_the_rows():
    model = nc.RecalibratedRegressor(
        calibration="split",
        calibration_size=0.5,
        recalibrator=LOCAL,
        random_state=0,
        guarantee=nc.Marginal(groups=label(X)),
    )
    lower, upper = model.fit(X, Y).predict_interval(X_NEW, 0.9, groups=label(X_NEW))
    assert ((lower <= Y_NEW) & (upper >= Y_NEW)).mean() > 0.8


@pytest.mark.parametrize(
    "guarantee", ["marginal", nc.Cross(folds=2), nc.PAC(groups={"a": X[:, 0] < 2, "b": X[:, 0] > 1})]
)
def test_tune(guarantee):
    dist, options = nc.Normal(X[:, 0] ** 2, 2.0), {"k": 40, "scaling": "standard", "effort": "quick"}
    spaces = {"both": X, "one": X[:, 1:]}
    found = nc.tune(dist, Y, spaces, guarantee=guarantee, **options)
    assert found.recalibrator.guarantee_.kind in ("marginal", "cross", "pac")
    parts = [] if found.chosen.space is None else found.chosen.space.split(" + ")
    at = np.hstack([{"both": X_NEW, "one": X_NEW[:, 1:]}[part] for part in parts]) if parts else None
    known = {"groups": {"a": X_NEW[:, 0] < 2, "b": X_NEW[:, 0] > 1}} if isinstance(guarantee, nc.PAC) else {}
    assert coverage(found.recalibrator.recalibrate(nc.Normal(X_NEW[:, 0] ** 2, 2.0), at, **known)) > 0.8


def test_several_models():
    models = {"line": LINE, "square": lambda X: (X[:, 0] ** 2, 1 + 0 * X[:, 0])}
    for guarantee in ("marginal", nc.Cross(folds=2)):
        model = nc.calibrate(models, X, Y, layer="input", recalibrator=LOCAL, guarantee=guarantee)
        assert 0.83 < coverage(model.predict(X_NEW)) < 0.99
    with pytest.raises(nc.InvalidParameterError, match="cannot be updated"):
        nc.calibrate(models, X, Y, layer="input", recalibrator=LOCAL, guarantee="marginal").update(X_NEW, Y_NEW)


def test_what_cannot_be_promised():
    for known, words in (
        ({"time": True}, "any order"),
        ({"guarantee": "certain"}, "guarantee must be one of"),
        ({"guarantee": "cross", "sample_weight": X[:, 0]}, "count alike"),
        ({"guarantee": "pac", "sample_weight": X[:, 0]}, "sample_weight must be left out"),
        ({"recalibrator": nc.LocalRecalibrator(40)}, "quantile_rule must be"),
    ):
        with pytest.raises(nc.InvalidParameterError, match=words):
            nc.calibrate(LINE, X, Y, **{"guarantee": "marginal", "recalibrator": LOCAL, **known})
