"""Everything tuned in fit: what is chosen, what is kept of it, and that given settings are the paper's."""

import numpy as np
import pytest

import nearcal as nc
from tests.recalibration.cases import DIST, NEW, SPACE, SPACE_NEW, Y, assert_sound


@pytest.fixture(scope="module")
def problem():
    """A mean that drifts and a spread that changes, with columns of noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1200, 8))
    return nc.Normal(np.zeros(1200), 1.5), rng.normal(x[:, 0] + np.sin(2 * x[:, 1]), np.exp(0.5 * x[:, 2])), x


@pytest.fixture(scope="module")
def tuned(problem):
    dist, y, x = problem
    return nc.LocalRecalibrator().fit(dist[:600], y[:600], x[:600])


def test_it_is_the_choice_of_tuning(problem, tuned):
    dist, y, x = problem
    tuning = nc.tune(dist[:600], y[:600], x[:600])
    assert tuned.tuning_.chosen == tuning.chosen
    np.testing.assert_array_equal(tuned.tuning_.table["crps"], tuning.table["crps"])
    given = tuning.recalibrator(quantile_rule="predictive", polish=True).fit(dist[:600], y[:600], x[:600])
    assert tuned.settings_ == given.settings_
    outs = [rc.recalibrate(dist[600:], x[600:]) for rc in (tuned, given)]
    np.testing.assert_array_equal(outs[0].ppf([0.1, 0.9]), outs[1].ppf([0.1, 0.9]))


def test_it_beats_the_papers_setting_and_keeps_coverage(problem, tuned):
    dist, y, x = problem
    out = tuned.recalibrate(dist[600:], x[600:])
    paper = nc.LocalRecalibrator(k=60).fit(dist[:600], y[:600], x[:600]).recalibrate(dist[600:], x[600:])
    assert tuned.settings_.kind == "local"
    assert nc.scores.crps(out, y[600:]).mean() < 0.95 * nc.scores.crps(paper, y[600:]).mean()
    lower, upper = out.interval(0.9)
    assert abs(np.mean((lower <= y[600:]) & (y[600:] <= upper)) - 0.9) < 0.05  # three errors of 600 and 600 rows


def test_it_says_what_was_chosen(tuned):
    assert repr(tuned) == f"LocalRecalibrator() tuned to {tuned.tuning_.chosen}"
    assert tuned.settings_.k == tuned.tuning_.chosen.k
    assert repr(nc.LocalRecalibrator()) == "LocalRecalibrator()"


def test_what_is_given_is_not_tuned(problem):
    dist, y, x = problem
    rc = nc.LocalRecalibrator(
        smoothing="uniform", scaling="standard", adjustment="none", shrinkage=False, quantile_rule="step"
    ).fit(dist[:300], y[:300], x[:300])
    local = [row for row in rc.tuning_.table if row["kind"] == "local"]
    assert {row["smoothing"] for row in local} == {"uniform"}
    assert {row["scaling"] for row in local} == {"standard"}
    assert {row["adjustment"] for row in local} == {"none"}
    assert not any(row["shrinkage"] for row in local)
    assert (rc.settings_.quantile_rule, rc.settings_.polish) == ("step", False)


@pytest.mark.parametrize("kind", ["none", "global"])
def test_a_choice_that_is_not_local(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 3))
    base = nc.Normal(x[:, 0], 1.0) if kind == "none" else nc.Normal(x[:, 0] + 1, 3.0)
    rc = nc.LocalRecalibrator().fit(base, rng.normal(x[:, 0], 1.0), x)
    assert rc.settings_.kind == kind
    out = rc.recalibrate(base[:9], x[:9])
    assert_sound(out)
    if kind == "none":
        np.testing.assert_array_equal(out.ppf([0.1, 0.7]), base[:9].ppf([0.1, 0.7]))
        np.testing.assert_allclose(out.logpdf(0.3), base[:9].logpdf(0.3))
        np.testing.assert_allclose(nc.scores.crps(out, x[:9, 1]), nc.scores.crps(base[:9], x[:9, 1]))
        values, weights = out.weighted_sample(slice(None))
        np.testing.assert_allclose((values * weights).sum(axis=1), base[:9].mean(), atol=1e-12)
    else:
        expected = nc.GlobalRecalibrator(quantile_rule="predictive").fit(base, base.from_z(rc.calibration_.z))
        np.testing.assert_allclose(out.ppf([0.1, 0.7]), expected.recalibrate(base[:9]).ppf([0.1, 0.7]), rtol=1e-9)
    assert np.isnan(out.reliability()["p_value"]).all()
    with pytest.raises(nc.InvalidParameterError, match="call fit again"):
        rc.set_params(k=20).recalibrate(base[:9], x[:9])


def test_given_neighbourhoods_are_the_papers():
    settings = nc.LocalRecalibrator(k=15).fit(DIST, Y, SPACE).settings_
    assert (settings.smoothing, settings.scaling, settings.quantile_rule) == ("epanechnikov", "none", "step")
    assert (settings.adjustment, settings.shrinkage, settings.polish) == ("none", False, False)
    given = nc.LocalRecalibrator(
        k=15, smoothing="epanechnikov", scaling="none", components=None, adjustment="none", shrinkage=False,
        quantile_rule="step", polish=False,
    )  # fmt: skip
    outs = [rc.fit(DIST, Y, SPACE).recalibrate(NEW, SPACE_NEW) for rc in (nc.LocalRecalibrator(k=15), given)]
    np.testing.assert_array_equal(outs[0].ppf([0.1, 0.9]), outs[1].ppf([0.1, 0.9]))
    assert nc.LocalRecalibrator(radius=1.0).fit(DIST, Y, SPACE).settings_.k is None


def test_auto_must_be_tuned_by_fit():
    rc = nc.LocalRecalibrator(k=15).fit(DIST, Y, SPACE)
    with pytest.raises(nc.InvalidParameterError, match="must be tuned by fit"):
        rc.set_params(k="auto").recalibrate(NEW, SPACE_NEW)


@pytest.mark.parametrize("options", [{"metric": "manhattan"}, {"search": "brute"}, {"eps": 0.5}], ids=str)
def test_tuning_is_euclidean_and_exact(options):
    with pytest.raises(nc.InvalidParameterError, match='k="auto" tunes with'):
        nc.LocalRecalibrator(**options).fit(DIST, Y, SPACE)


def test_neighbour_regression_is_not_tuned():
    with pytest.raises(nc.InvalidParameterError, match="give exactly one of k and radius"):
        nc.KNNRegressor().fit(None, Y, SPACE)
