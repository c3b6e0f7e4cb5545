"""Several recalibrated models as one, against averages made by hand and recalibrators fitted without a point."""

import copy

import numpy as np
import pytest
from scipy.special import ndtr

import nearcal as nc
from nearcal.distributions import AVERAGED_SCORES as SCORES
from nearcal.recalibration.pooling import POOLS, learn_weights, pool_tables, table_crps

LOCAL = nc.LocalRecalibrator(k=40, quantile_rule="predictive", scaling="standard")
POLISHED = nc.LocalRecalibrator(k=60, quantile_rule="predictive", corrections=(nc.LocalLinear(), nc.Polish()))
LEVELS = ndtr(SCORES)


def data(n=300, seed=0):
    """Two models, each of which sees one of two inputs; the second has the wrong spread."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    y = rng.normal(x[:, 0] + x[:, 1], np.exp(0.5 * x[:, 2]))
    return nc.QuantileAverage([1, 1], [nc.Normal(x[:, 0], 1.0), nc.Normal(x[:, 1], 3.0)]), y, x


def fitted(**options):
    return nc.CombinedRecalibrator([LOCAL, POLISHED], columns=[[0, 1], [2, 0]], **options).fit(*data())


def table(dist):
    return dist.from_z(SCORES[np.newaxis])


def test_the_average_of_members_recalibrated_for_all_rows():
    rc, (dist, _, x) = fitted(), data(40, seed=1)
    members = [rc.members_[0].recalibrate(dist.components[0], x[:, [0, 1]])]
    members += [rc.members_[1].recalibrate(dist.components[1], x[:, [2, 0]])]
    average = nc.Quantiles(LEVELS, sum(w * table(m) for w, m in zip(rc.weights_, members, strict=True)))
    expected = rc.after_.recalibrate(average)
    out = rc.recalibrate(dist, x)
    assert out.base is dist
    np.testing.assert_allclose(table(out), table(expected), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(out.mean(), expected.mean(), atol=0.02)  # straight lines between other knots


def test_left_out_values_are_those_of_a_fit_without_the_point():
    dist, y, x = data(60)
    rc = nc.LocalRecalibrator(k=20, quantile_rule="predictive").fit(dist.components[0], y, x)
    found = rc.left_out_values(dist.components[0], SCORES)
    for row in (0, 17, 59):
        others = np.delete(np.arange(60), row)
        without = nc.LocalRecalibrator(k=20, quantile_rule="predictive").fit(
            dist.components[0][others], y[others], x[others]
        )
        np.testing.assert_allclose(
            found[row], table(without.recalibrate(dist.components[0][row], x[[row]]))[0], rtol=1e-9, atol=1e-12
        )


def test_left_out_values_of_the_step_rule_and_of_folds():
    dist, y, x = data(60)
    rc = nc.LocalRecalibrator(k=10).fit(dist.components[0], y, x)
    scores = np.array([-0.5, 0.0, 1.0])
    others = np.arange(1, 60)
    without = nc.LocalRecalibrator(k=10).fit(dist.components[0][others], y[others], x[others])
    expected = without.recalibrate(dist.components[0][0], x[:1]).ppf(ndtr(scores))
    np.testing.assert_allclose(rc.left_out_values(dist.components[0], scores)[:1], expected)
    in_time = nc.CombinedRecalibrator([LOCAL, LOCAL]).fit(*data(), time=True)
    assert 0 < in_time.judged_.sum() < 300  # the first have no past to speak for them
    assert in_time.after_.n_cal_ == in_time.judged_.sum()


def test_weights_are_the_best_of_all():
    rng = np.random.default_rng(2)
    y = rng.normal(size=4000)
    tables = [np.outer(np.ones(4000), SCORES) + rng.normal(size=(4000, 1)) * noise for noise in (0.5, 1.0)]
    found = learn_weights(tables, y)
    grid = np.linspace(0, 1, 401)
    scores = [table_crps(w * tables[0] + (1 - w) * tables[1], y).mean() for w in grid]
    assert abs(found[0] - grid[np.argmin(scores)]) < 0.02
    assert found.sum() == pytest.approx(1)
    weighted = learn_weights(tables, y, np.where(np.arange(4000) < 500, 1.0, 1e-12))
    np.testing.assert_allclose(weighted, learn_weights([one[:500] for one in tables], y[:500]), atol=0.02)


def test_few_points_leave_weights_to_what_scores_suggest_and_a_bad_model_is_left_out():
    rng = np.random.default_rng(2)
    y = rng.normal(size=1000)
    good, bad = np.outer(np.ones(1000), SCORES), 50 + np.outer(np.ones(1000), SCORES)
    np.testing.assert_array_equal(learn_weights([good, bad], y), [1.0, 0.0])
    alike = learn_weights([good[:2], good[:2]], y[:2])
    np.testing.assert_allclose(alike, 0.5)
    models = [good[:2], good[:2] + 0.2]
    plain = np.array([table_crps(model, y[:2]).mean() for model in models]) ** -2.0
    assert abs(learn_weights(models, y[:2])[0] - plain[0] / plain.sum()) < 0.05
    gaps = np.where(np.arange(1000)[:, np.newaxis] < 10, np.nan, bad)
    np.testing.assert_array_equal(learn_weights([good, gaps], y), [1.0, 0.0])


def test_a_table_scores_as_its_distribution():
    dist, y, _ = data()
    exact = nc.scores.crps(dist.components[1], y)
    np.testing.assert_allclose(table_crps(table(dist.components[1]), y), exact, rtol=0.03)
    assert table_crps(table(dist.components[1]), y).mean() == pytest.approx(exact.mean(), rel=1e-3)


def test_a_pool_of_distribution_functions_is_the_mixture():
    parts = [nc.Normal([0.0, 1.0], [1.0, 2.0]), nc.Normal([3.0, 1.0], [0.5, 1.0])]
    pooled = pool_tables("mixture", np.array([0.3, 0.7]), [table(part) for part in parts])
    expected = nc.Mixture([0.3, 0.7], parts).ppf(LEVELS[5:-5])
    np.testing.assert_allclose(pooled[:, 5:-5], expected, atol=0.02)
    alone = pool_tables("mixture", np.array([1.0, 0.0]), [table(part) for part in parts])
    np.testing.assert_allclose(alone, table(parts[0]), rtol=1e-9, atol=1e-9)
    constant = pool_tables("mixture", np.array([0.5, 0.5]), [np.full((1, 41), 2.0), table(parts[0][0])])
    assert (np.diff(constant) >= 0).all()
    assert constant[0, [10, 30]] == pytest.approx(
        nc.Normal(0.0, 1.0).ppf([2 * ndtr(-2.0), 1 - 2 * ndtr(-2.0)])[0], abs=0.3
    )


@pytest.mark.parametrize("pool", ["quantiles", "mixture"])
def test_better_than_each_alone_and_calibrated(pool):
    rc, (dist, y, x) = fitted(pool=pool), data(2000, seed=3)
    out = rc.recalibrate(dist, x)
    alone = [
        nc.scores.crps(member.recalibrate(part, x[:, list(own)]), y).mean()
        for member, part, own in zip(rc.members_, dist.components, rc.columns_, strict=True)
    ]
    assert nc.scores.crps(out, y).mean() < min(alone)
    lower, upper = out.interval(0.8)
    # of 300 calibration points, and of 2,000 judged: three standard errors are 7 points and 3
    assert abs(((lower <= y) & (y <= upper)).mean() - 0.8) < 0.08


def test_a_row_depends_on_itself_alone():
    rc, (dist, _, x) = fitted(), data(50, seed=1)
    whole = rc.recalibrate(dist, x)
    np.testing.assert_array_equal(whole[7].ppf([0.1, 0.5]), whole.ppf([0.1, 0.5])[7:8])
    np.testing.assert_array_equal(rc.recalibrate(dist[7], x[[7]]).ppf([0.1, 0.5]), whole.ppf([0.1, 0.5])[7:8])


def test_reliability_is_that_of_the_loudest_member_and_trust_of_all():
    rc, (dist, _, x) = fitted(), data(30, seed=1)
    rc.members_[0].corrections_ = ()
    out = rc.recalibrate(dist, x)
    loud = int(np.argmax(rc.weights_))
    alone = rc.members_[loud].recalibrate(dist.components[loud], x[:, list(rc.columns_[loud])])
    np.testing.assert_array_equal(out.reliability()["p_value"], alone.reliability()["p_value"])
    np.testing.assert_array_equal(out.radius, alone.radius)
    faded = out.faded(np.full(30, 0.25))
    np.testing.assert_allclose(faded.trust, 0.25)
    before, after = dist.z(table(out)), dist.z(table(faded))
    leads_outwards = (np.sign(SCORES) * (before - SCORES) > 0) & (np.abs(SCORES) >= 1)
    leads_inwards = (np.sign(SCORES) * (before - SCORES) < 0) & (np.abs(SCORES) >= 1)
    mixed = 0.25 * before + 0.75 * SCORES
    np.testing.assert_allclose(after[leads_outwards], mixed[leads_outwards], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(after[leads_inwards], np.tile(SCORES, (30, 1))[leads_inwards], rtol=1e-6, atol=1e-6)
    assert leads_outwards.any()
    assert leads_inwards.any()


def test_points_of_no_weight_are_absent():
    dist, y, x = data()
    weights = np.where(np.arange(300) % 3 == 0, 0.0, 1.0 + np.arange(300))
    kept = np.flatnonzero(weights)
    groups = np.arange(300) // 5
    rc = nc.CombinedRecalibrator([LOCAL, LOCAL]).fit(dist, y, x, sample_weight=weights, groups=groups)
    same = nc.CombinedRecalibrator([LOCAL, LOCAL]).fit(
        dist[kept], y[kept], x[kept], sample_weight=weights[kept], groups=groups[kept]
    )
    assert rc.n_cal_ == len(kept)
    np.testing.assert_array_equal(rc.recalibrate(dist, x).std(), same.recalibrate(dist, x).std())


def test_updates():
    dist, y, x = data(400)
    first = nc.CombinedRecalibrator([LOCAL, nc.GlobalRecalibrator(quantile_rule="predictive")])
    rc = first.fit(dist[:300], y[:300], x[:300])
    before, weights = rc.recalibrate(dist[:5], x[:5]), rc.weights_
    average = before.median()
    rc.update(dist[300:], y[300:], x[300:])
    assert rc.n_cal_ == 400
    assert [member.n_cal_ for member in rc.members_] == [400, 400]
    assert rc.after_.n_cal_ == 400
    np.testing.assert_array_equal(before.median(), average)  # results made before stay as they were
    member = copy.deepcopy(LOCAL).fit(dist.components[0][:300], y[:300], x[:300])
    member.update(dist.components[0][300:], y[300:], x[300:])
    new = dist.components[0][:5]
    np.testing.assert_array_equal(rc.members_[0].recalibrate(new, x[:5]).std(), member.recalibrate(new, x[:5]).std())
    rc.forget(keep_last=250)
    assert (rc.n_cal_, rc.after_.n_cal_, rc.members_[1].n_cal_) == (250, 250, 250)
    rc.relearn()
    np.testing.assert_array_equal(rc.weights_, weights)
    fresh = copy.deepcopy(LOCAL).fit(dist.components[0][150:], y[150:], x[150:])
    np.testing.assert_array_equal(rc.members_[0].recalibrate(new, x[:5]).std(), fresh.recalibrate(new, x[:5]).std())
    assert rc.update(dist[:1], [], x[:1]) is rc


def test_an_update_that_fails_changes_nothing():
    rc, (dist, y, x) = fitted(), data(20, seed=5)
    with pytest.raises(nc.InvalidInputError):
        rc.update(dist, np.where(np.arange(20) == 3, np.nan, y), x)
    with pytest.raises(nc.InvalidParameterError, match="forget"):
        nc.CombinedRecalibrator([LOCAL, nc.QuantileNetRecalibrator(epochs=20, rng=0)]).fit(*data(120)).forget([0])
    assert [rc.n_cal_, *(member.n_cal_ for member in rc.members_), rc.after_.n_cal_] == [300] * 4


def test_forgetting_points_that_were_not_judged():
    rc = nc.CombinedRecalibrator([LOCAL, LOCAL]).fit(*data(), time=True)
    unjudged, judged = np.flatnonzero(~rc.judged_), int(rc.judged_.sum())
    rc.forget(unjudged[:20])
    assert (rc.n_cal_, rc.after_.n_cal_) == (280, judged)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": [LOCAL]}, "members must be at least two recalibrators"),
        ({"members": [LOCAL, "global"]}, "members must be at least two recalibrators"),
        ({"members": [LOCAL, LOCAL], "pool": "mean"}, "pool must be"),
        ({"members": [LOCAL, LOCAL], "columns": [[0]]}, "for each of the 2 members where it looks, got 1"),
        ({"members": [LOCAL, LOCAL], "columns": [[0], [3]]}, r"columns of the space, 0 to 2, got \[3\]"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(nc.InvalidParameterError, match=message):
        nc.CombinedRecalibrator(**options).fit(*data(80))


def test_wrong_predictions():
    dist, y, x = data(80)
    with pytest.raises(nc.InvalidInputError, match=r"dist_cal must be a QuantileAverage of 2 components.*got Normal"):
        nc.CombinedRecalibrator([LOCAL, LOCAL]).fit(dist.components[0], y, x)
    three = nc.QuantileAverage([1, 1, 1], [*dist.components, dist.components[0]])
    with pytest.raises(nc.InvalidInputError, match=r"dist_new must be a QuantileAverage of 2 components.*3 components"):
        fitted().recalibrate(three, x)
    with pytest.raises(nc.NotFittedError):
        nc.CombinedRecalibrator([LOCAL, LOCAL]).recalibrate(dist, x)


@pytest.mark.parametrize("pool", POOLS)
def test_quantiles_too_large_for_a_number_are_told(pool):
    table = np.sort(np.random.default_rng(0).normal(size=(5, len(LEVELS))), axis=1)
    endless = table.copy()
    endless[2, -1] = np.inf
    with pytest.raises(nc.InvalidInputError, match="to be combined must have finite quantiles"):
        pool_tables(pool, np.array([0.5, 0.5]), [table, endless])
    assert np.isfinite(pool_tables(pool, np.array([1.0, 0.0]), [table, endless])).all()
