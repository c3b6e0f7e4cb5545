"""RecalibratedRegressor: scikit-learn's own checks, its company, and what it computes against the steps by hand."""

import copy
import pickle
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

import nearcal as nc
from nearcal import RecalibratedRegressor

pytestmark = pytest.mark.usefixtures("least_choice")
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(400, 2))
Y = RNG.normal(X[:, 0] ** 2, np.exp(X[:, 1]))
NEW = RNG.uniform(-1, 1, size=(30, 2))
ONE_THREAD = nc.Workers(threads=1)
FIXED = {"layer": "input", "recalibrator": nc.LocalRecalibrator(k=40, scaling="standard")}
# a choice all the same, among few: what scikit-learn asks of an estimator does not hang on what there is to choose from
FEW = {"scaling": "standard", "linear": False, "shrinkage": False, "polish": False, "trend": False}


@pytest.mark.filterwarnings("ignore::nearcal.TiesWarning")  # responses of many checks are labels
@pytest.mark.filterwarnings("ignore::nearcal.DependenceWarning")  # in order, at that
@pytest.mark.filterwarnings("ignore::nearcal.OutOfDistributionWarning")  # ten rows drawn at random calibrate others
@parametrize_with_checks(
    [
        RecalibratedRegressor(workers=ONE_THREAD),
        RecalibratedRegressor(Ridge(), calibration="split", tuning=FEW, workers=ONE_THREAD),
        RecalibratedRegressor(make_pipeline(StandardScaler(), Ridge()), cv=3, tuning=FEW, workers=ONE_THREAD),
        RecalibratedRegressor(HistGradientBoostingRegressor(max_iter=3), tuning=FEW, workers=ONE_THREAD),
        RecalibratedRegressor(
            RandomForestRegressor(n_estimators=5, random_state=0),
            calibration="split",
            head="trees",
            tuning=FEW,
            workers=ONE_THREAD,
        ),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_split_by_hand():
    model = RecalibratedRegressor(Ridge(), calibration="split", calibration_size=0.3, random_state=3, **FIXED).fit(X, Y)
    train, held_out = train_test_split(np.arange(400), test_size=0.3, random_state=3)
    ridge = Ridge().fit(X[train], Y[train])
    sigma = np.sqrt(np.mean((Y[held_out] - ridge.predict(X[held_out])) ** 2))
    rc = nc.LocalRecalibrator(k=40, scaling="standard")
    rc.fit(nc.Normal(ridge.predict(X[held_out]), sigma), Y[held_out], X[held_out])
    out = rc.recalibrate(nc.Normal(ridge.predict(NEW), sigma), NEW)
    np.testing.assert_allclose(model.predict(NEW), out.mean(), rtol=1e-12)
    np.testing.assert_allclose(model.predict_quantiles(NEW, [0.1, 0.6]), out.ppf([0.1, 0.6]), rtol=1e-12)
    np.testing.assert_allclose(model.predict_quantiles(NEW, 0.3), out.ppf(0.3), rtol=1e-12)
    for ours, by_hand in zip(model.predict_interval(NEW, coverage=0.8), out.interval(0.8), strict=True):
        np.testing.assert_allclose(ours, by_hand, rtol=1e-12)
    assert isinstance(model.predict_dist(NEW), nc.Recalibrated)


@pytest.mark.parametrize("layer", ["input", "output"])
def test_cross_by_hand(layer):
    options = {**FIXED, "layer": layer}
    model = RecalibratedRegressor(Ridge(), cv=4, random_state=3, **options).fit(X, Y)
    predicted = cross_val_predict(Ridge(), X, Y, cv=KFold(4, shuffle=True, random_state=3))
    sigma = np.sqrt(np.mean((Y - predicted) ** 2))
    ridge = Ridge().fit(X, Y)
    space_cal, space_new = (X, NEW) if layer == "input" else (predicted, ridge.predict(NEW))
    rc = nc.LocalRecalibrator(k=40, scaling="standard").fit(nc.Normal(predicted, sigma), Y, space_cal)
    out = rc.recalibrate(nc.Normal(ridge.predict(NEW), sigma), space_new)
    np.testing.assert_allclose(model.predict_quantiles(NEW, [0.1, 0.6]), out.ppf([0.1, 0.6]), rtol=1e-10)
    np.testing.assert_array_equal(model.estimator_.coef_, ridge.coef_)


def test_prefit_takes_the_model_as_it_is():
    ridge = Ridge().fit(X[:200], Y[:200])
    model = RecalibratedRegressor(ridge, calibration="prefit", **FIXED).fit(X[200:], Y[200:])
    assert model.estimator_ is ridge
    calibrated = nc.calibrate(ridge, X[200:], Y[200:], **copy.deepcopy(FIXED))
    np.testing.assert_array_equal(model.predict(NEW), calibrated.predict(NEW).mean())
    frozen = clone(RecalibratedRegressor(FrozenEstimator(ridge), calibration="prefit", **FIXED)).fit(X[200:], Y[200:])
    np.testing.assert_array_equal(frozen.predict(NEW), model.predict(NEW))
    with pytest.raises(nc.InvalidInputError, match="nothing is fitted, got fit parameters sample_weight"):
        RecalibratedRegressor(ridge, calibration="prefit").fit(X, Y, sample_weight=np.ones(400))
    with pytest.raises(nc.InvalidInputError, match="must be fitted, got an unfitted Ridge"):
        RecalibratedRegressor(Ridge(), calibration="prefit").fit(X, Y)


def test_intervals_widen_with_the_spread():
    """The truth is σ = exp(x₁); a line has one σ for all."""
    X = RNG.uniform(-1, 1, size=(4000, 1))
    model = RecalibratedRegressor(tuning=FEW, random_state=0).fit(X, RNG.normal(0, np.exp(X[:, 0])))
    lower, upper = model.predict_interval([[-0.8], [0.8]], coverage=0.9)
    expected = 2 * 1.645 * np.exp([-0.8, 0.8])
    # an estimate of a 5% and a 95% quantile from some 100 points errs by about 15%; smoothing adds some bias
    np.testing.assert_allclose(upper - lower, expected, rtol=0.4)


def test_company_of_scikit_learn():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    inner = make_pipeline(StandardScaler(), Ridge())
    search = GridSearchCV(
        make_pipeline(
            StandardScaler(), RecalibratedRegressor(inner, cv=3, tuning=FEW, random_state=0, workers=ONE_THREAD)
        ),
        {
            "recalibratedregressor__estimator__ridge__alpha": [0.1, 10.0],
            "recalibratedregressor__calibration": ["split", "cross"],
        },
        cv=2,
    ).fit(X, y)
    assert search.best_score_ > 0.3
    plain = RecalibratedRegressor(Ridge(), tuning=FEW, random_state=0, workers=ONE_THREAD)
    frames = make_pipeline(StandardScaler(), plain).set_output(transform="pandas")
    assert cross_val_score(frames, X, y, cv=2).min() > 0.3
    model = clone(plain).fit(X, y)
    assert list(model.feature_names_in_) == list(X.columns)
    assert model.n_features_in_ == 10
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_quantiles(X[:9], 0.2), model.predict_quantiles(X[:9], 0.2))
    assert "Ridge" in repr(model)


@pytest.mark.parametrize("calibration", ["cross", "split"])
def test_frames_with_words_go_through_a_pipeline(calibration):
    frame = pd.DataFrame({"x": X[:, 0], "kind": np.where(X[:, 1] > 0, "wide", "narrow")})
    columns = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    model = RecalibratedRegressor(make_pipeline(columns, Ridge()), calibration=calibration, random_state=0)
    model.fit(frame, pd.Series(Y))
    assert model.calibrated_.model.layers() == ("transformed", "output")
    assert model.predict(frame[:5]).shape == (5,)


def test_cross_fitting_offers_only_what_training_rows_share_with_new_ones():
    forest = RandomForestRegressor(n_estimators=5, random_state=0)
    model = RecalibratedRegressor(forest, random_state=0).fit(X, Y)
    assert model.calibrated_.model.layers() == ("input", "output")
    with pytest.raises(nc.InvalidParameterError, match="layer must be one of input, output, got 'leaves'"):
        RecalibratedRegressor(forest, layer="leaves").fit(X, Y)
    split = RecalibratedRegressor(forest, calibration="split", layer="leaves", tuning={"k": 20}, random_state=0).fit(
        X, Y
    )
    assert split.predict(NEW).shape == (30,)


@pytest.mark.parametrize("head", ["auto", "trees"])
def test_models_that_put_out_distributions_are_cross_fitted_too(head):
    forest = RandomForestRegressor(n_estimators=20, min_samples_leaf=5, random_state=0)
    model = RecalibratedRegressor(forest, head=head, random_state=0, **FIXED).fit(X, Y)
    assert isinstance(model.calibrated_.base(NEW), nc.Samples if head == "trees" else nc.Normal)
    assert np.isfinite(model.predict(NEW)).all()


def test_fit_parameters_are_cut_with_the_rows():
    weights = np.where(X[:, 0] > 0, 1.0, 0.0)
    model = RecalibratedRegressor(LinearRegression(), random_state=0, **FIXED).fit(X, Y, sample_weight=weights)
    by_hand = LinearRegression().fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(model.estimator_.coef_, by_hand.coef_)
    split = RecalibratedRegressor(LinearRegression(), calibration="split", random_state=0, **FIXED)
    split.fit(X, Y, sample_weight=weights)
    train, _ = train_test_split(np.arange(400), test_size=0.25, random_state=0)
    by_hand = LinearRegression().fit(X[train], Y[train], sample_weight=weights[train])
    np.testing.assert_allclose(split.estimator_.coef_, by_hand.coef_)


def test_folds_of_any_kind_that_leave_out_every_row_once():
    groups = np.arange(400) % 7
    folds = list(GroupKFold(7).split(X, Y, groups))
    model = RecalibratedRegressor(cv=folds, **FIXED).fit(X, Y)
    predicted = cross_val_predict(LinearRegression(), X, Y, cv=folds)
    np.testing.assert_allclose(model.calibrated_.model._positions[:, 0], predicted)
    with pytest.raises(nc.InvalidInputError, match="cv must leave out each of the 400 rows exactly once, got 58 rows"):
        RecalibratedRegressor(cv=folds[:1]).fit(X, Y)


def test_parameters_stay_as_they_are_given():
    model = RecalibratedRegressor(Ridge(), random_state=0, **FIXED).fit(X, Y)
    assert not hasattr(model.recalibrator, "n_cal_")
    assert not hasattr(model.estimator, "coef_")


def test_sparse_inputs():
    dense = RecalibratedRegressor(Ridge(), random_state=0, **FIXED).fit(X, Y)
    for kind in (sparse.csr_array, sparse.coo_array):
        model = RecalibratedRegressor(Ridge(), random_state=0, **FIXED).fit(kind(X), Y)
        np.testing.assert_allclose(model.predict(sparse.csr_array(NEW)), dense.predict(NEW), rtol=1e-5)


def test_wrong_use_is_refused():
    with pytest.raises(
        nc.InvalidParameterError, match="calibration must be one of 'cross', 'split', 'prefit', got 'cv'"
    ):
        RecalibratedRegressor(calibration="cv").fit(X, Y)
    with pytest.raises(nc.InvalidParameterError, match="cv must be at most the number of rows, n_samples=3, got 5"):
        RecalibratedRegressor().fit(X[:3], Y[:3])
    with pytest.raises(nc.InvalidParameterError, match=r"must be an object, got the class Ridge; give Ridge\(\)"):
        RecalibratedRegressor(Ridge).fit(X, Y)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        RecalibratedRegressor().predict(X)
    with pytest.warns(DataConversionWarning, match="column-vector"):
        RecalibratedRegressor(random_state=0, **FIXED).fit(X, Y[:, np.newaxis])


def test_hidden_layers_by_a_split():
    network = MLPRegressor(hidden_layer_sizes=(5,), solver="lbfgs", max_iter=5000, random_state=0)
    model = RecalibratedRegressor(network, calibration="split", layer="hidden1", random_state=0).fit(X, Y)
    assert model.predict(NEW).shape == (30,)


def test_cross_fitting_offers_no_space_that_knows_the_responses():
    """Categories encoded by the mean response of their rows: of calibration rows, their own."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 100, size=(300, 1)), rng.normal(size=300)
    encoded = make_pipeline(TargetEncoder(smooth=0.01), Ridge())
    nested = make_pipeline(make_column_transformer((TargetEncoder(), [0])), Ridge())
    plain = make_pipeline(StandardScaler(), Ridge())
    for model, offered in ((encoded, False), (nested, False), (plain, True)):
        fitted = nc.RecalibratedRegressor(model, random_state=0).fit(X, y)
        assert ("transformed" in fitted.calibrated_.model.layers()) == offered


def test_groups_stay_together():
    rng = np.random.default_rng(0)
    X, y, groups = rng.normal(size=(60, 2)), rng.normal(size=60), np.repeat(np.arange(6), 10)
    model = nc.RecalibratedRegressor(Ridge(), cv=GroupKFold(3)).fit(X, y, groups=groups)
    by_hand = nc.RecalibratedRegressor(Ridge(), cv=list(GroupKFold(3).split(X, y, groups))).fit(X, y, groups=groups)
    np.testing.assert_array_equal(model.predict(X), by_hand.predict(X))
    by_number = nc.RecalibratedRegressor(Ridge(), cv=3).fit(X, y, groups=groups)
    np.testing.assert_array_equal(model.predict(X), by_number.predict(X))
    assert "other groups" in model.calibrated_.reason


class Recording(Ridge):
    """Remembers the first column of all rows that any copy was fitted to."""

    seen: ClassVar[list[np.ndarray]] = []

    def fit(self, X, y):
        Recording.seen.append(X[:, 0])
        return super().fit(X, y)


ORDER = np.random.default_rng(2).permutation(200)  # when each row was observed


def fit_recorded(calibration, **relations):
    rng = np.random.default_rng(1)
    X = np.column_stack([np.arange(200.0), rng.normal(size=200)])
    Recording.seen.clear()
    model = nc.RecalibratedRegressor(Recording(), calibration=calibration, random_state=0)
    model.fit(X, rng.normal(X[:, 1], np.exp(X[:, 1])), **relations)
    return model, [rows.astype(int) for rows in Recording.seen]


def test_the_latest_rows_are_held_out():
    model, (train,) = fit_recorded("split", time=ORDER)
    assert sorted(ORDER[train]) == list(range(150))
    assert "earlier rows alone" in model.calibrated_.reason
    assert model.calibrated_.recalibrator.n_cal_ == 50


def test_whole_groups_are_held_out():
    groups = ORDER // 10
    _, (train,) = fit_recorded("split", groups=groups)
    held_out = np.setdiff1d(np.arange(200), train)
    assert not set(groups[train]) & set(groups[held_out])
    assert len(held_out) == 50


def test_stretches_of_time_are_left_out():
    model, fits = fit_recorded("cross", time=ORDER)
    for fold, train in enumerate(fits[:-1]):
        left_out = np.sort(ORDER[np.setdiff1d(np.arange(200), train)])
        np.testing.assert_array_equal(left_out, np.arange(40 * fold, 40 * fold + 40))
    assert "earlier rows alone" in model.calibrated_.reason


def test_what_is_wrong_with_groups_is_told_before_anything_is_fitted():
    with pytest.raises(nc.InvalidInputError, match="groups must be at least two"):
        fit_recorded("cross", groups=np.zeros(200))
    assert Recording.seen == []


def test_rows_in_order_are_seen_to_be_whatever_the_split():
    rng = np.random.default_rng(1)
    y = np.repeat(rng.normal(size=40), 25)
    for calibration in ("cross", "split"):
        with pytest.warns(nc.DependenceWarning, match="follow each other err alike"):
            nc.RecalibratedRegressor(Ridge(), calibration=calibration, tuning=FEW, random_state=0).fit(
                rng.normal(size=(1000, 2)), y
            )


@pytest.mark.parametrize("calibration", ["cross", "split", "prefit"])
@pytest.mark.parametrize("layer", ["input", "output"])
def test_what_is_nearcals_is_saved_and_joins_the_estimator_again(calibration, layer, tmp_path):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 2))
    y = rng.normal(X[:, 0], np.exp(X[:, 1]))
    ridge = Ridge().fit(X[:100], y[:100])
    model = nc.RecalibratedRegressor(
        ridge, calibration=calibration, layer=layer, random_state=0, recalibrator=nc.LocalRecalibrator(k=20)
    ).fit(X, y)
    nc.save(model, tmp_path / "it")
    (tmp_path / "estimator").write_bytes(pickle.dumps(model.estimator_))
    loaded = nc.load(tmp_path / "it")
    assert type(loaded) is nc.Recalibration
    joined = loaded.attach(pickle.loads((tmp_path / "estimator").read_bytes()))
    new = rng.normal(size=(20, 2))
    np.testing.assert_array_equal(joined.predict(new).mean(), model.predict(new))
    np.testing.assert_array_equal(joined.predict(new).ppf([0.1, 0.9]), model.predict_quantiles(new, [0.1, 0.9]))
    with pytest.raises(nc.InvalidInputError, match="model must be the one that was calibrated"):
        loaded.attach(Ridge().fit(X, -y))


def test_an_unfitted_regressor_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        nc.save(nc.RecalibratedRegressor(), tmp_path / "it")


# ---- weights --------------------------------------------------------------------------------------------------------


def test_weights_of_the_calibration_are_not_those_of_the_fit():
    """Each goes to its own: the same estimator with and without, and the calibration of calibrate by hand."""
    weights = np.random.default_rng(0).gamma(1.0, size=len(Y))
    fixed = {"random_state": 0, "recalibrator": nc.GlobalRecalibrator()}
    plain = RecalibratedRegressor(LinearRegression(), **fixed).fit(X, Y)
    weighted = RecalibratedRegressor(LinearRegression(), **fixed).fit(X, Y, calibration_weight=weights)
    np.testing.assert_array_equal(weighted.estimator_.coef_, plain.estimator_.coef_)
    assert (weighted.predict(X[:5]) != plain.predict(X[:5])).all()
    both = RecalibratedRegressor(LinearRegression(), **fixed)
    both.fit(X, Y, sample_weight=weights, calibration_weight=weights)
    by_hand = LinearRegression().fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(both.estimator_.coef_, by_hand.coef_)


def test_weights_are_cut_with_the_rows_held_out():
    weights = np.random.default_rng(0).gamma(1.0, size=len(Y))
    fixed = {"recalibrator": nc.GlobalRecalibrator(), "layer": "input"}
    split = RecalibratedRegressor(LinearRegression(), calibration="split", random_state=0, **fixed)
    split.fit(X, Y, calibration_weight=weights)
    held_out = np.sort(train_test_split(np.arange(len(Y)), test_size=0.25, random_state=0)[1])
    by_hand = nc.calibrate(split.estimator_, X[held_out], Y[held_out], sample_weight=weights[held_out], **fixed)
    np.testing.assert_array_equal(split.predict(X[:9]), by_hand.predict(X[:9]).mean())
    prefit = RecalibratedRegressor(split.estimator_, calibration="prefit", **fixed)
    prefit.fit(X[held_out], Y[held_out], calibration_weight=weights[held_out])
    np.testing.assert_array_equal(prefit.predict(X[:9]), split.predict(X[:9]))


def test_wrong_weights_are_told_before_anything_is_fitted():
    class Never(LinearRegression):
        def fit(self, X, y):
            raise AssertionError("fitted")

    for weights, message in ((-np.ones(len(Y)), "must not be negative"), (np.ones(3), "must have shape")):
        with pytest.raises(nc.InvalidInputError, match=f"calibration_weight {message}"):
            RecalibratedRegressor(Never()).fit(X, Y, calibration_weight=weights)
