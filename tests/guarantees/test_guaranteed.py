"""Recalibrators with a promise: rows set aside, folds, groups, changes, and what is refused."""

import pickle

import numpy as np
import pytest
from scipy import stats

import nearcal as nc

LOCAL = nc.LocalRecalibrator(k=40, quantile_rule="predictive", corrections=(nc.Polish(),))


def draw(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 3, size=n)
    return nc.Normal(np.zeros(n), 2.0), rng.normal(0, x), x


DIST, Y, X = draw(400)
NEW, Y_NEW, X_NEW = draw(300, 1)


def label(x):
    return np.where(x < 2, "low", "high")


def flags(x):
    return {"low": x < 2, "right": x > 1.5}


def fit(promise, inner=LOCAL, **known):
    return nc.GuaranteedRecalibrator(inner, promise).fit(DIST, Y, X, **known)


def test_nothing_is_learnt_from_rows_set_aside():
    rc = fit(nc.Marginal(share=100, seed=3))
    rest, held = nc.Marginal(share=100, seed=3).set_aside(400)
    alone = LOCAL.fit(DIST[rest], Y[rest], X[rest])
    np.testing.assert_array_equal(alone.calibration_.z, rc.inner_.calibration_.z)
    np.testing.assert_allclose(rc.scores_, alone.recalibrate(DIST[held], X[held]).z(Y[held]), atol=1e-12)
    assert rc.guarantee_.n == 100
    assert rc.n_cal_ == 300


def test_ends_are_quantiles_at_levels_of_rows_set_aside():
    rc = fit("marginal")
    out, inner = rc.recalibrate(NEW, X_NEW), rc.inner_.recalibrate(NEW, X_NEW)
    scores = np.sort(rc.scores_)
    lower, upper = out.interval(0.9)  # of 100 points: 91 gaps of 101, 5 left out on either side
    np.testing.assert_allclose(lower, inner.ppf(stats.norm.cdf(scores[4])), rtol=1e-6)
    np.testing.assert_allclose(upper, inner.ppf(stats.norm.cdf(scores[95])), rtol=1e-6)
    several = out.interval([0.5, 0.9])
    np.testing.assert_array_equal(several[0][:, 1], lower)
    low, high = out.cdf_bounds(Y_NEW)
    assert ((low <= high) & (high - low < 0.03)).all()
    assert (np.abs(out.cdf(Y_NEW) - low) < 0.15).all()  # three standard errors of a share of 100 points


def test_rows_of_a_group_have_that_groups_bounds():
    rc = fit(nc.Marginal(groups=label(X)))
    out = rc.recalibrate(NEW, X_NEW, groups=label(X_NEW))
    for name in ("low", "high"):
        own = rc.held_.flags[:, rc.names_.index(name)] > 0
        inner = rc.inner_.recalibrate(NEW, X_NEW)
        scores = np.sort(rc.scores_[own])
        below = np.floor((len(scores) + 1 - np.ceil((len(scores) + 1) * 0.9)) / 2)
        rows = label(X_NEW) == name
        expected = inner.ppf(stats.norm.cdf(scores[int(below) - 1]))[rows]
        np.testing.assert_allclose(out.interval(0.9)[0][rows], expected, rtol=1e-6)
    assert np.isinf(rc.recalibrate(NEW[:1], X_NEW[:1], groups=["unseen"]).interval(0.5)[1]).all()
    with pytest.raises(nc.InvalidInputError, match="groups of new rows must be given"):
        rc.recalibrate(NEW, X_NEW)


@pytest.mark.parametrize(
    ("promise", "groups"),
    [(nc.Marginal(groups=flags(X)), flags), (nc.PAC(groups=flags(X)), flags), (nc.PAC(groups=label(X)), label)],
)
def test_a_row_is_the_same_in_any_batch(promise, groups):
    rc = fit(promise)
    whole = rc.recalibrate(NEW, X_NEW, groups=groups(X_NEW))
    part = rc.recalibrate(NEW[7:9], X_NEW[7:9], groups=groups(X_NEW[7:9]))
    for statistic in (lambda d: d.interval(0.8)[0], lambda d: d.mean(), lambda d: d.ppf(0.3), lambda d: d.cdf(0.5)):
        np.testing.assert_array_equal(statistic(whole[7:9]), statistic(part))
        np.testing.assert_array_equal(statistic(whole)[7:9], statistic(part))
    assert ((whole.interval(0.8)[0] <= Y_NEW) & (whole.interval(0.8)[1] >= Y_NEW)).mean() > 0.7
    twin = pickle.loads(pickle.dumps(whole))
    np.testing.assert_array_equal(twin.interval(0.8), whole.interval(0.8))


def test_the_shape_stays():
    rc = nc.GuaranteedRecalibrator(LOCAL, nc.Marginal(share=0.25)).fit(*draw(1600, 2))
    out, inner = rc.recalibrate(NEW, X_NEW), LOCAL.fit(*draw(1600, 2)).recalibrate(NEW, X_NEW)
    assert nc.scores.crps(out, Y_NEW).mean() < 1.02 * nc.scores.crps(inner, Y_NEW).mean()
    assert np.corrcoef(out.std(), inner.std())[0, 1] > 0.9


def test_what_is_known_of_neighbours_stays():
    rc = fit("marginal")
    out, inner = rc.recalibrate(NEW, X_NEW), rc.inner_.recalibrate(NEW, X_NEW)
    for name in ("effective_size", "radius", "trust"):
        np.testing.assert_array_equal(getattr(out, name), getattr(inner, name))
    np.testing.assert_array_equal(out.reliability()["p_value"], inner.reliability()["p_value"])
    np.testing.assert_array_equal(out.neighbors(0).indices, inner.neighbors(0).indices)
    assert out.weighted_sample([0]).values.shape == (1, 40)
    assert type(out.faded(np.zeros(300))) is nc.Recalibrated
    summary = out.summary(0.9)
    np.testing.assert_array_equal(summary.lower, out.interval(0.9)[0])


def test_the_promise_stays_where_the_calibration_set_changes():
    rc = fit("marginal")
    held, scores = rc.held_, rc.scores_
    rc.update(*draw(100, 5)).forget(keep_last=250).relearn()
    assert rc.held_ is held
    assert rc.n_cal_ == 250
    assert not np.array_equal(rc.scores_, scores)
    again = rc.with_inner(rc.inner_)
    np.testing.assert_array_equal(again.scores_, rc.scores_)
    with pytest.raises(nc.InvalidParameterError, match="cannot be updated"):
        nc.CrossRecalibrator(LOCAL).fit(DIST, Y, X).update(DIST, Y, X)


def test_any_recalibrator_may_be_inside():
    for inner in (
        nc.IdentityRecalibrator(),
        nc.IsotonicRecalibrator(),
        nc.KNNRegressor(30, quantile_rule="predictive"),
    ):
        lower, upper = fit("marginal", inner).recalibrate(NEW, X_NEW).interval(0.9)
        assert 0.8 < ((lower <= Y_NEW) & (upper >= Y_NEW)).mean() < 0.98
    for inner in (nc.LocalRecalibrator(40), nc.GlobalRecalibrator()):
        with pytest.raises(nc.InvalidParameterError, match="quantile_rule must be"):
            fit("marginal", inner)
    with pytest.raises(nc.InvalidParameterError, match="inner must be a recalibrator"):
        nc.GuaranteedRecalibrator().fit(DIST, Y, X)
    with pytest.raises(nc.InvalidParameterError, match="CrossRecalibrator"):
        fit("cross")


def test_a_group_too_small_is_an_error_by_choice():
    small = np.where(np.arange(400) < 8, "few", "many")
    rc = fit(nc.Marginal(groups=small, small="error"))
    rc.recalibrate(NEW[:1], X_NEW[:1], groups=["many"]).interval(0.9)
    with pytest.raises(nc.InvalidInputError, match=r"got too few for few \(\d points\); a coverage of 0.9 takes 19"):
        rc.recalibrate(NEW[:1], X_NEW[:1], groups=["few"]).interval(0.9)


def test_weights_are_those_of_conformal_prediction_under_shift():
    weights = X / 2
    rc = fit("marginal", nc.IdentityRecalibrator(), sample_weight=weights)
    held = nc.Marginal().set_aside(400)[1]
    plain = nc.ConformalRecalibrator(new_weight=weights[held].max() / weights[held].mean())
    plain.fit(DIST[held], Y[held], sample_weight=weights[held])
    np.testing.assert_allclose(rc.recalibrate(NEW).interval(0.9), plain.recalibrate(NEW).interval(0.9), rtol=1e-6)


def test_rows_that_depend_on_each_other_count_by_their_groups():
    groups = np.arange(400) // 10
    rc = fit(nc.Marginal(share=0.25), groups=groups)
    assert rc.guarantee_.units == 10
    assert np.isinf(rc.recalibrate(NEW, X_NEW).interval(0.9)[1]).all()  # ten groups cannot tell of 90%
    assert np.isfinite(rc.recalibrate(NEW, X_NEW).interval(0.6)[1]).all()
    assert fit(nc.PAC(share=0.25), groups=groups).guarantee_.n == 10


def test_cross_is_the_order_statistic_of_where_rows_would_lie():
    rc = nc.CrossRecalibrator(LOCAL, nc.Cross(folds=4)).fit(DIST[:100], Y[:100], X[:100])
    out = rc.recalibrate(NEW, X_NEW)
    values = []
    for part in nc.Cross(folds=4).parts(100):
        rest = np.setdiff1d(np.arange(100), part)
        member = LOCAL.fit(DIST[rest], Y[rest], X[rest])
        levels = stats.norm.cdf(member.recalibrate(DIST[part], X[part]).z(Y[part]))
        values.append(member.recalibrate(NEW, X_NEW).ppf(levels))
    ordered = np.sort(np.concatenate(values, axis=1), axis=1)
    lower, upper = out.interval(0.9)
    np.testing.assert_allclose(lower, ordered[:, 4], rtol=1e-6)
    np.testing.assert_allclose(upper, ordered[:, 95], rtol=1e-6)
    low, high = out.cdf_bounds(Y_NEW)
    np.testing.assert_allclose(low, (ordered < Y_NEW[:, None]).sum(axis=1) / 101, atol=0.011)
    assert ((low < high) & (out.cdf(Y_NEW) > low - 0.1)).all()
    assert out.trust.min() == 1
    assert out.guarantee.kind == "cross"
    for known in ({"groups": np.arange(400) // 4}, {"sample_weight": X}, {"time": True}):
        with pytest.raises(nc.InvalidParameterError):
            nc.CrossRecalibrator(LOCAL).fit(DIST, Y, X, **known)


def test_coverage_with_and_without_rows_set_aside():
    """The study in seconds: 300 calibrations with 19 rows set aside, within 3 standard errors of [0.9, 0.95]."""
    rng, covered = np.random.default_rng(20), []
    for seed in range(300):
        x = rng.uniform(1, 3, size=38)
        rc = nc.GuaranteedRecalibrator(nc.LocalRecalibrator(8, quantile_rule="predictive"), nc.Marginal(19, seed))
        new = rng.uniform(1, 3, size=10)
        out = rc.fit(nc.Normal(np.zeros(38), 2.0), rng.normal(0, x), x).recalibrate(nc.Normal(np.zeros(10), 2.0), new)
        lower, upper = out.interval(0.9)
        covered.append((stats.norm.cdf(upper / new) - stats.norm.cdf(lower / new)).mean())
    error = np.std(covered) / np.sqrt(300)
    assert 0.9 - 3 * error < np.mean(covered) < 0.95 + 3 * error
