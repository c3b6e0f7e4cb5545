"""What all recalibrators share: the scores they refuse, and scikit-learn's manners."""

import warnings

import numpy as np
import pytest

import nearcal as nc
from nearcal.recalibration import CONTINUOUS_RULES, QUANTILE_RULES, calibration_scores

N = 300
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, 2)), RNG.normal(size=N)
BASE = nc.Normal(np.zeros(N), 1)
ALL = (nc.LocalLinear(), nc.Shrinkage(), nc.Polish())
RECALIBRATORS = {
    "local": nc.LocalRecalibrator(k=50),
    "shrunk": nc.LocalRecalibrator(k=50, corrections=(nc.Shrinkage(),)),
    "linear": nc.LocalRecalibrator(k=50, corrections=(nc.LocalLinear(),)),
    "all": nc.LocalRecalibrator(k=50, quantile_rule="predictive", corrections=ALL),
    "radius": nc.LocalRecalibrator(radius=1.0),
    **{f"global, {rule}": nc.GlobalRecalibrator(quantile_rule=rule) for rule in QUANTILE_RULES},
    "identity": nc.IdentityRecalibrator(),
    "variance scaling": nc.VarianceScaling(),
    "isotonic": nc.IsotonicRecalibrator(),
    "conformal": nc.ConformalRecalibrator(),
}


def with_far(value):
    y = Y.copy()
    y[5] = value
    return y


@pytest.mark.parametrize("rc", RECALIBRATORS.values(), ids=RECALIBRATORS)
@pytest.mark.parametrize("value", [1e155, -1e155, 1.01e100, 1e300])
def test_scores_too_large_to_be_squared_are_refused(rc, value):
    """A square of them overflowed, and a bin of a histogram numbered by it crashed the process."""
    with pytest.raises(nc.InvalidInputError, match=r"y_cal must have normal scores below 1e\+100 .* index 5: response"):
        rc.fit(BASE, with_far(value), X)


@pytest.mark.parametrize("rc", RECALIBRATORS.values(), ids=RECALIBRATORS)
@pytest.mark.parametrize("value", [1e90, -1e90])
def test_every_statistic_of_scores_that_are_large_is_finite(rc, value):
    base = BASE[:40]
    out = rc.fit(BASE, with_far(value), X).recalibrate(base, X[:40])
    at = np.linspace(-2, 2, 40)
    for answer in (out.mean(), out.var(), out.ppf([0.001, 0.5, 0.999]), out.sample(3, rng=1), nc.scores.crps(out, at)):
        assert np.isfinite(answer).all()
    for answer in (out.cdf(at), out.sf(at), out.z(at)):
        assert np.isfinite(answer).all()
    if out.has_density:
        assert np.isfinite(out.logpdf(at)).all()
    assert (np.abs(out.cdf(at) + out.sf(at) - 1) < 1e-12).all()


@pytest.mark.parametrize("rule", QUANTILE_RULES)
@pytest.mark.parametrize("new", [nc.Gamma(np.full(40, 2.0), 1.0), nc.StudentT(np.full(40, 5.0), 0.0, 1.0)], ids=repr)
def test_values_that_overflow_are_infinite_and_never_no_numbers(new, rule):
    """Read by heavier tails, a score of 1e90 is beyond all numbers: what does not depend on it stays finite."""
    rc = nc.LocalRecalibrator(k=50, quantile_rule=rule).fit(BASE, with_far(1e90), X)
    out = rc.recalibrate(new, X[:40])
    assert np.isfinite(out.cdf(0.3)).all()
    assert np.isfinite(out.median()).all()
    assert not np.isnan(out.ppf([0.001, 0.999])).any()
    assert not np.isnan(out.var()).any()
    assert not np.isnan(nc.scores.crps(out, np.zeros(40))).any()
    alone = nc.LocalRecalibrator(k=50, quantile_rule=rule).fit(BASE, Y, X).recalibrate(new, X[:40])
    spared = np.flatnonzero((out.neighbors(slice(None)).indices != 5).all(axis=1))
    assert 0 < len(spared) < 40
    np.testing.assert_array_equal(out.mean()[spared], alone.mean()[spared])


def test_what_is_outside_the_support_is_refused():
    with pytest.raises(nc.InvalidInputError, match=r"y_cal must lie inside the support .* 1 of 3 .* index 1: -1\.0"):
        calibration_scores(nc.Gamma([1.0, 1.0, 1.0], 1.0), [1.0, -1.0, 2.0])


@pytest.mark.parametrize("rc", RECALIBRATORS.values(), ids=RECALIBRATORS)
def test_parameters_are_stored_and_shown(rc):
    twin = type(rc)(**rc.get_params())
    assert twin.get_params() == rc.get_params()
    assert repr(twin) == repr(rc)
    with pytest.raises(nc.InvalidParameterError, match=f"{type(rc).__name__} has no parameter 'n_neighbors'"):
        rc.set_params(n_neighbors=3)
    with pytest.raises(nc.NotFittedError, match=f"this {type(rc).__name__} is not fitted"):
        twin.recalibrate(BASE, X)


def test_a_fit_that_fails_leaves_an_earlier_one_in_place():
    for rule in CONTINUOUS_RULES:
        rc = nc.LocalRecalibrator(k=50, quantile_rule=rule, corrections=ALL).fit(BASE, Y, X)
        expected = rc.recalibrate(BASE[:9], X[:9]).ppf([0.1, 0.9])
        with pytest.raises(nc.InvalidInputError):
            rc.fit(BASE, with_far(1e155), X)
        np.testing.assert_array_equal(rc.recalibrate(BASE[:9], X[:9]).ppf([0.1, 0.9]), expected)


# ---- ties -----------------------------------------------------------------------------------------------------------

ZEROS = {
    "local": nc.LocalRecalibrator(k=20),
    "global": nc.GlobalRecalibrator(),
    "none": nc.IdentityRecalibrator(),
    "isotonic": nc.IsotonicRecalibrator(),
    "conformal": nc.ConformalRecalibrator(),
    "variance scaling": nc.VarianceScaling(),
    "network": nc.QuantileNetRecalibrator(epochs=1, rng=1),
}


def zero_inflated(n, share, rng):
    """Responses of which a share is zero, whatever the prediction; and the predictions."""
    x = rng.uniform(-1, 1, size=n)
    y = np.where(rng.random(n) < share, 0.0, rng.gamma(2.0, 1.0, size=n))
    return nc.Normal(0.5 + 0.5 * x, 1.2), y, x


@pytest.mark.parametrize("name", ZEROS)
def test_every_fit_warns_once_of_many_equal_responses(name):
    dist, y, x = zero_inflated(400, 0.75, np.random.default_rng(0))
    with pytest.warns(nc.TiesWarning, match=r"\(7\d%\) responses equal to 0: .*KNNRegressor.*\"step\"") as caught:
        ZEROS[name].fit(dist, y, x)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_tune_and_calibrate_warn_once():
    dist, y, x = zero_inflated(300, 0.75, np.random.default_rng(0))
    with pytest.warns(nc.TiesWarning) as caught:
        nc.tune(dist, y, x, k=20, scaling="standard", trend=False)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(nc.TiesWarning) as caught:
        nc.calibrate(lambda x: x, x, y, tuning={"k": 20, "scaling": "standard", "trend": False})
    assert [warning.filename for warning in caught] == [__file__]


def test_what_the_warning_says_is_so():
    rng = np.random.default_rng(1)
    dist, y, x = zero_inflated(4000, 0.75, rng)
    new, _, x_new = zero_inflated(200, 0.75, rng)
    with pytest.warns(nc.TiesWarning):
        spread = nc.LocalRecalibrator(k=400).fit(dist, y, x).recalibrate(new, x_new)
    kept = nc.KNNRegressor(k=400, quantile_rule="step").fit(None, y, x).recalibrate(None, x_new)
    # binomial: four standard errors of 400 rows are 0.087
    assert np.abs(kept.cdf(0.0) - 0.75).max() < 0.1
    assert spread.cdf(0.0).mean() < 0.6


@pytest.mark.parametrize(("equal", "n", "warns"), [(20, 400, True), (19, 400, False), (9, 20, False), (10, 20, True)])
def test_from_a_twentieth_of_the_rows_on(equal, n, warns):
    rng = np.random.default_rng(2)
    y = np.concatenate([np.zeros(equal), rng.normal(size=n - equal)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nc.GlobalRecalibrator().fit(nc.Normal(rng.normal(size=n), 1.0), y)
    assert [warning.category for warning in caught] == [nc.TiesWarning] * warns


def test_rounded_prices_are_no_ties_to_speak_of():
    price = nc.datasets.load_diamonds().y
    nc.GlobalRecalibrator().fit(nc.Normal(np.linspace(1, 2, len(price)), 1.0), price)


def test_equal_responses_of_one_score_are_an_atom_that_is_kept():
    y = np.concatenate([np.zeros(300), np.random.default_rng(3).normal(size=100)])
    out = nc.GlobalRecalibrator().fit(nc.Normal(np.zeros(400), 1.0), y).recalibrate(nc.Normal([0.0], 1.0))
    assert out.cdf(0.0)[0] - out.cdf_left(0.0)[0] == pytest.approx(0.75)


def test_responses_that_are_their_predictions():
    rng = np.random.default_rng(4)
    y = rng.normal(size=200)
    loc = np.where(np.arange(200) < 50, y, y + rng.normal(size=200))
    with pytest.warns(nc.TiesWarning, match=r"50 of 200 \(25%\) .* same normal score, 0,.*not trained on"):
        nc.GlobalRecalibrator().fit(nc.Normal(loc, 1.0), y)
