"""What all recalibrators share: the scores they refuse, and scikit-learn's manners."""

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
@pytest.mark.parametrize("value", [1e155, -1e155, 1.01e100, 1e308])
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
