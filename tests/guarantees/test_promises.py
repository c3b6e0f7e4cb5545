"""Bounds of scores, promises and what they say of themselves."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

import nearcal as nc
from nearcal.guarantees.conditional_quantiles import ConditionalQuantiles, solve
from nearcal.guarantees.promises import as_promise, cross_bound
from nearcal.guarantees.set_aside import Aside, Members
from nearcal.recalibration.order_statistics import (
    ConfidentOrderStatistics,
    Masses,
    OrderStatistics,
    WidestOf,
    gaps_needed,
)

C = np.array([0.5, 0.8, 0.9, 0.95])


@pytest.mark.parametrize("n", [1, 9, 19, 50, 200])
def test_central_intervals_hold_the_least_number_of_gaps(n):
    low, high = OrderStatistics(np.arange(1.0, n + 1)).central(C)
    gaps = np.where(np.isinf(high), n + 1, high) - np.where(np.isinf(low), 0, low)
    assert (gaps / (n + 1) >= C - 1e-12).all()
    assert (gaps / (n + 1) < C + 1 / (n + 1)).all()


def test_nineteen_points_are_just_enough_for_90_per_cent():
    few, enough = OrderStatistics(np.arange(18.0)), OrderStatistics(np.arange(19.0))
    assert np.isinf(few.central(np.array(0.9))).any()
    assert [float(end) for end in enough.central(np.array(0.9))] == [0.0, 18.0]
    assert nc.Guarantee("marginal", 18).needed(0.9) == 19
    assert OrderStatistics(np.empty(0)).central(np.array(0.1)) == (-np.inf, np.inf)


@pytest.mark.parametrize("n", [10, 50, 333])
def test_ranks_of_pac_are_those_of_scipys_beta(n):
    delta = 0.1
    needed = gaps_needed(n, C, delta)
    for gaps, coverage in zip(needed, C, strict=True):
        below = [stats.beta(r, n + 1 - r).cdf(coverage) for r in range(1, n + 1)]
        assert gaps == next((r for r, share in enumerate(below, 1) if share <= delta), n + 1)


def test_pac_falls_short_as_often_as_it_may():
    rng, n, delta = np.random.default_rng(0), 200, 0.1
    low, high = ConfidentOrderStatistics(np.arange(1.0, n + 1), delta).central(np.array(0.9))
    z = np.sort(rng.uniform(size=(4000, n)), axis=1)
    short = (z[:, int(high) - 1] - z[:, int(low) - 1] < 0.9).mean()
    assert delta / 3 < short < delta + 3 * np.sqrt(delta * (1 - delta) / 4000)


def test_pac_needs_as_many_points_as_it_says():
    promised = nc.Guarantee("pac", 10, delta=0.1)
    n = promised.needed(0.9)
    for size, is_finite in ((n, True), (n - 1, False)):
        ends = ConfidentOrderStatistics(np.arange(float(size)), 0.1).central(np.array(0.9))
        assert np.isfinite(ends).all() == is_finite


def test_edges_of_pac_are_clopper_pearson_limits():
    bounds = ConfidentOrderStatistics(np.arange(1.0, 21.0), 0.1)
    low, high = bounds.cdf_bounds(np.array([[7.5]]))
    limits = stats.binomtest(7, 20).proportion_ci(0.9, method="exact")
    np.testing.assert_allclose([low.item(), high.item()], [limits.low, limits.high])


def test_of_several_groups_the_widest_counts():
    parts = [OrderStatistics(np.linspace(-1, 1, 50)), OrderStatistics(np.linspace(-2, 0.5, 50))]
    low, high = WidestOf(parts).central(np.array(0.9))
    assert low == parts[1].central(np.array(0.9))[0]
    assert high == parts[0].central(np.array(0.9))[1]


# ---- groups that overlap --------------------------------------------------------------------------------------------


def naive_threshold(scores, members, combination, level):
    """Search the greatest S that conforms: S <= fit at the new point of the quantile regression that includes it."""

    def conforms(score):
        phi, s = np.vstack([members, combination]), np.append(scores, score)
        n, g = phi.shape
        costs = np.concatenate([np.zeros(g), np.full(n, level), np.full(n, 1 - level)])
        bounds = [(None, None)] * g + [(0, None)] * (2 * n)
        fit = linprog(costs, A_eq=np.hstack([phi, np.eye(n), -np.eye(n)]), b_eq=s, bounds=bounds)
        eta = fit.eqlin.marginals[-1]
        return eta < level - 1e-6

    low, high = scores.min() - 50, scores.max() + 50
    if conforms(high):
        return np.inf
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if conforms(middle) else (low, middle)
    return low


@pytest.mark.parametrize("seed", range(4))
def test_thresholds_of_overlapping_groups_are_those_of_the_naive_search(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(12, 40))
    members = np.column_stack([np.ones(n), rng.uniform(size=(n, 2)) < 0.5]).astype(float)
    scores = rng.normal(size=n) * (1 + members[:, 1])
    for level in (0.7, 0.83):
        combination = np.append(1.0, rng.integers(0, 2, size=2))
        expected = naive_threshold(scores, members, combination, level)
        np.testing.assert_allclose(solve(scores, members, combination, level), expected, atol=1e-6)


def test_one_group_of_all_is_the_order_statistic():
    scores = np.random.default_rng(1).normal(size=99)
    bounds = ConditionalQuantiles(scores, np.ones((99, 1)), np.ones(1))
    for mine, plain in zip(bounds.quantile_bounds(C), OrderStatistics(np.sort(scores)).quantile_bounds(C), strict=True):
        np.testing.assert_allclose(mine, plain, atol=1e-9)
    low, high = bounds.cdf_bounds(np.array([[0.3]]))
    assert low < (scores < 0.3).mean() + 0.02 < high + 0.04


@pytest.mark.parametrize(("n", "groups", "aside"), [(400, 1, 100), (10_000, 1, 500), (10_000, 4, 1000), (40, 1, 20)])
def test_rows_set_aside_by_default(n, groups, aside):
    """5√n of them, more for groups, and half at most."""
    rest, held = nc.Marginal().set_aside(n, groups=groups)
    assert (len(held), len(rest)) == (aside, n - aside)


def test_groups_that_share_no_rows_have_their_own_order_statistics():
    rng = np.random.default_rng(2)
    scores, label = rng.normal(size=120), rng.integers(0, 2, size=120)
    members = np.column_stack([np.ones(120), label])
    for group in (0, 1):
        mine = ConditionalQuantiles(scores, members, np.array([1.0, group])).quantile_bounds(C)[1]
        np.testing.assert_allclose(
            mine, OrderStatistics(np.sort(scores[label == group])).quantile_bounds(C)[1], atol=1e-9
        )


def test_a_group_too_small_is_infinite():
    members = np.column_stack([np.ones(100), np.arange(100) < 5]).astype(float)
    bounds = ConditionalQuantiles(np.arange(100.0), members, np.array([1.0, 1.0]))
    assert np.isinf(bounds.central(np.array(0.9))).all()
    assert np.isfinite(
        ConditionalQuantiles(np.arange(100.0), members, np.array([1.0, 0.0])).central(np.array(0.9))
    ).all()


# ---- what is asked for, and what is said ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "guarantee", ["marginally", 0.9, nc.Marginal(share=1.0), nc.PAC(delta=1.0), nc.Marginal(small="no")]
)
def test_promises_that_are_none(guarantee):
    with pytest.raises(nc.InvalidParameterError, match="must"):
        as_promise(guarantee)


def test_rows_set_aside_are_whole_groups():
    units = np.arange(100) // 10
    rest, held = nc.Marginal(share=0.3).set_aside(100, units)
    assert len(held) == 30
    assert not set(units[rest]) & set(units[held])
    with pytest.raises(nc.InvalidInputError, match="leave rows to learn from"):
        nc.Marginal(share=5).set_aside(5)


def test_bound_of_cross():
    assert cross_bound(0.9, (1,) * 1000) == pytest.approx(0.8)  # jackknife+: exactly 2c - 1
    assert 0.7 < cross_bound(0.9, (40,) * 5) < 0.8
    assert cross_bound(0.9, (20,) * 10) < cross_bound(0.9, (40,) * 5)  # the fewer the folds, or the more, the better
    assert cross_bound(0.9, (3, 4)) >= 0


def test_what_a_guarantee_says():
    text = str(nc.Guarantee("marginal", 39, {"a": 20, "b": 19}))
    assert "each group: a (20 points), b (19 points)" in text
    assert nc.Guarantee("marginal", 39).most(0.9) == 0.9 + 1 / 40
    assert nc.Guarantee("marginal", 39, {"a": 20, "b": 18}).most(0.9, "b") == 0.9 + 1 / 19
    assert nc.Guarantee("pac", 39, delta=0.1).most(0.9) == 1
    assert "exchangeable" in text
    assert "one distribution" in str(nc.Guarantee("pac", 39, delta=0.1))
    assert "ratio of the two densities" in str(nc.Guarantee("marginal", 39, weighted=True))
    assert "new group" in str(nc.Guarantee("marginal", 39, units=7))
    assert "2c - 1" in str(nc.Guarantee("cross", 40, folds=(20, 20)))


def test_members():
    labels = Members.of(np.array([1.0, 2.0, 1.0]), 3)
    assert labels.counts() == {"1": 2, "2": 1}
    assert Members.of([2, 3], 2, labels.names, overlap=False).flags.tolist() == [[0.0, 1.0], [0.0, 0.0]]
    flags = Members.of({"a": [True, False], "b": [True, True]}, 2)
    assert flags.overlap
    assert Members.of({"b": [1], "a": [0]}, 1, flags.names, overlap=True).flags.tolist() == [[0.0, 1.0]]
    for wrong in ({"a": [0.5, 1.0]}, [1, 2, 3], [np.nan, 1.0]):
        with pytest.raises(nc.InvalidInputError, match="must"):
            Members.of(wrong, 2)
    with pytest.raises(nc.InvalidInputError, match="groups must be one label a row"):
        Members.of({"a": [1]}, 1, labels.names, overlap=False)


def test_weights_and_dependence_are_refused_where_no_theorem_knows_them():
    known = {"groups": None, "time": None, "sample_weight": np.arange(1, 41), "labels": None}
    flags = {"a": np.arange(40) < 20, "b": np.arange(40) > 10}
    for promise, changes in (
        (nc.PAC(), {}),
        (nc.Marginal(), {"labels": flags}),
        (nc.Marginal(), {"groups": np.arange(40) // 4}),
        (nc.Marginal(), {"labels": flags, "groups": np.arange(40) // 4, "sample_weight": None}),
        (nc.Marginal(), {"time": True}),
    ):
        with pytest.raises(nc.InvalidParameterError):
            Aside.of(promise, 40, **known | changes)


def test_masses_of_groups_of_rows_give_each_group_one_share():
    scores, sizes = np.arange(6.0), np.array([1, 2, 2, 3, 3, 3])
    bounds = OrderStatistics(scores, Masses(6 / (3 * sizes), 2.0))
    np.testing.assert_allclose(bounds.masses.first, [0, 1 / 4, 3 / 8, 1 / 2, 7 / 12, 8 / 12, 3 / 4])
