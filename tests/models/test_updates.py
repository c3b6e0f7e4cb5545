"""Calibrated models whose calibration set changes: as their recalibrators do, from inputs and responses."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import nearcal as nc

RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, size=(500, 2))
Y = RNG.normal(X[:, 0], np.exp(X[:, 1]))
LINE = LinearRegression().fit(RNG.uniform(-1, 1, size=(50, 2)), np.arange(50.0) / 25 - 1)
NEW = RNG.uniform(-1, 1, size=(20, 2))
SETTINGS = {"k": 30, "scaling": "standard", "corrections": [nc.Polish()], "quantile_rule": "predictive"}


def said(calibrated):
    out = calibrated.predict(NEW)
    return np.column_stack([out.mean(), out.std(), out.ppf([0.1, 0.9]), out.radius])


def test_it_is_what_the_recalibrator_does():
    calibrated = nc.calibrate(LINE, X[:300], Y[:300], recalibrator=nc.LocalRecalibrator(**SETTINGS))
    held, before = calibrated.predict(NEW), said(calibrated)
    rc = nc.LocalRecalibrator(**SETTINGS).fit(calibrated.base(X[:300]), Y[:300], calibrated.represent(X[:300]))
    rc.update(calibrated.base(X[300:]), Y[300:], calibrated.represent(X[300:])).forget(keep_last=400)
    assert calibrated.update(X[300:], Y[300:]).forget(keep_last=400) is calibrated
    new = calibrated.base(NEW), calibrated.represent(NEW)
    np.testing.assert_array_equal(calibrated.predict(NEW).ppf([0.1, 0.9]), rc.recalibrate(*new).ppf([0.1, 0.9]))
    np.testing.assert_array_equal(calibrated.relearn().predict(NEW).std(), rc.relearn().recalibrate(*new).std())
    np.testing.assert_array_equal(held.mean(), before[:, 0])
    assert calibrated.recalibrator.n_cal_ == 400


@pytest.mark.parametrize("tuned", [True, False])
def test_saved_and_joined_in_the_middle(tuned, tmp_path):
    options = {"tuning": {"k": (20, 40)}} if tuned else {"recalibrator": nc.GlobalRecalibrator()}
    calibrated = nc.calibrate(LINE, X[:300], Y[:300], **options).update(X[300:400], Y[300:400])
    nc.save(calibrated, tmp_path / "it")
    joined = nc.load(tmp_path / "it").attach(LINE)
    np.testing.assert_array_equal(said(joined), said(calibrated))
    for it in (joined, calibrated):
        it.update(X[400:], Y[400:]).forget(slice(0, 50))
    np.testing.assert_array_equal(said(joined), said(calibrated))
    assert joined.recalibrator.n_cal_ == 450


def test_columns_of_a_frame_in_any_order():
    frame = pd.DataFrame(X, columns=["a", "b"])
    line = LinearRegression().fit(frame[:50], Y[:50])
    one, other = (nc.calibrate(line, frame[:300], Y[:300], recalibrator=nc.LocalRecalibrator(k=30)) for _ in range(2))
    one.update(frame[300:], Y[300:])
    other.update(frame[["b", "a"]][300:], Y[300:])
    new = pd.DataFrame(NEW, columns=["a", "b"])
    np.testing.assert_array_equal(one.predict(new).std(), other.predict(new).std())
    with pytest.raises(nc.InvalidInputError, match="rename or add b"):
        one.update(frame[["a"]][:5], Y[:5])


def test_what_fails_changes_nothing():
    calibrated = nc.calibrate(LINE, X[:300], Y[:300], recalibrator=nc.LocalRecalibrator(k=30))
    before = said(calibrated)
    for change, message in (
        (lambda: calibrated.update(X[:5], Y[:4]), "y_cal must have shape"),
        (lambda: calibrated.update(X[:5], np.ones((5, 2))), "y must be one response a row"),
        (lambda: calibrated.update(X[:2], [np.nan, 1.0]), "y_cal must be finite"),
        (lambda: calibrated.forget(keep_last=20), "at least k=30"),
        (lambda: calibrated.forget(), "exactly one of"),
    ):
        with pytest.raises((nc.InvalidInputError, nc.InvalidParameterError), match=message):
            change()
        np.testing.assert_array_equal(said(calibrated), before)
    np.testing.assert_array_equal(said(calibrated.update(X[:0], [])), before)


def test_a_recalibrator_of_another_make_need_not_be_able_to():
    class Other:
        n_cal_ = 3

        def fit(self, dist_cal, y_cal, space_cal):
            return self

        def recalibrate(self, dist_new, space_new):
            raise NotImplementedError

    calibrated = nc.calibrate(LINE, X[:300], Y[:300], recalibrator=Other())
    with pytest.raises(nc.InvalidParameterError, match="must have the method update, got Other; calibrate anew"):
        calibrated.update(X[:5], Y[:5])
    with pytest.raises(nc.InvalidParameterError, match="must have the method forget"):
        calibrated.forget([0])
