"""Averages of candidates: which are drawn, with what weights, and how new rows are given to them."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.distributions import AVERAGED_SCORES as SCORES
from nearcal.recalibration.pooling import average_crps, table_crps
from nearcal.tuning.averaging import Average, average_tables, cross_fitted, draw_members, folds_by_score
from nearcal.tuning.finals import decide
from nearcal.tuning.fitting import columns_of, spaces_of
from tests.tuning.test_finals import made_up

QUICK = {
    "smoothing": "biweight",
    "scaling": "standard",
    "shrinkage": False,
    "linear": False,
    "trend": False,
    "time": False,
}


def tables(noise, n=3000, seed=0, spread=1.0):
    """Return responses around a known mean, and candidates that know it up to noise of their own."""
    rng = np.random.default_rng(seed)
    mean = 3 * rng.normal(size=n)
    values = np.array([(mean + own * rng.normal(size=n))[:, np.newaxis] + spread * SCORES for own in noise])
    return values, rng.normal(mean, 1.0)


def brute_force(values, y):
    """Return the best weights of two candidates, in twentieths."""
    shares = np.arange(21) / 20
    means = [table_crps(share * values[0] + (1 - share) * values[1], y).mean() for share in shares]
    return shares[int(np.argmin(means))]


def test_the_score_of_an_average_is_that_of_its_table():
    values, y = tables((0.5, 1.0, 2.0), n=200)
    total = values[0] + values[1]
    np.testing.assert_allclose(average_crps(total, values[2], 3, y), table_crps(values.mean(axis=0), y), rtol=1e-12)


# ---- drawing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [(1.0, 1.0), (0.7, 1.0), (0.5, 1.5)])
def test_the_best_mixture_is_found(noise):
    values, y = tables(noise)
    weights = draw_members(values, y, 3)
    assert weights.sum() == pytest.approx(1)
    assert abs(weights[0] - brute_force(values, y)) <= 0.05 + 1e-12  # one draw of twenty
    np.testing.assert_allclose(weights * 20, np.round(weights * 20))


@pytest.mark.parametrize("most", [1, 2, 3])
def test_never_more_than_so_many_are_drawn(most):
    values, y = tables((1.0, 1.0, 1.0, 1.0, 1.0), n=500)
    weights = draw_members(values, y, most)
    assert np.count_nonzero(weights) == most
    scores = [table_crps(table, y).mean() for table in values]
    assert weights[int(np.argmin(scores))] > 0  # the best alone comes first


def test_what_is_worse_everywhere_is_not_drawn_nor_what_is_infinite():
    values, y = tables((0.5, 0.5))
    worse = values[:1] + 50.0
    np.testing.assert_array_equal(draw_members(np.concatenate([values, worse]), y, 3)[2], 0.0)
    endless = np.where(np.arange(len(y))[:, np.newaxis] == 7, np.inf, values[0])
    with np.errstate(invalid="ignore"):
        assert draw_members(np.array([endless, *values]), y, 3)[0] == 0.0


def test_rows_count_by_their_weights():
    values, y = tables((0.7, 0.7), n=400)
    values[0, :200] += 5.0  # each is wrong in one half
    values[1, 200:] += 5.0
    first = draw_members(values, y, 2, np.where(np.arange(400) < 200, 1.0, 1e-9))
    np.testing.assert_array_equal(first, draw_members(values[:, :200], y[:200], 2))
    assert first[1] > 0.9


def test_weights_of_a_row_are_drawn_without_its_fold():
    values, y = tables((0.7, 1.0), n=200)
    folds = folds_by_score(y, None)
    found = cross_fitted(values, values, y, 2, folds)
    for fold in range(5):
        weights = draw_members(values[:, folds != fold], y[folds != fold], 2)
        np.testing.assert_array_equal(found[folds == fold], average_tables(weights, values[:, folds == fold]))
    alone = cross_fitted(values, values, y, 2, np.zeros(200))  # one unit: nobody else speaks
    np.testing.assert_array_equal(alone, average_tables(draw_members(values, y, 2), values))


def test_folds_do_not_depend_on_the_order_of_rows_and_keep_units_whole():
    rng = np.random.default_rng(0)
    z, order = rng.normal(size=103), rng.permutation(103)
    folds = folds_by_score(z, None)
    np.testing.assert_array_equal(folds_by_score(z[order], None), folds[order])
    assert sorted(np.bincount(folds)) == [20, 20, 21, 21, 21]
    units = rng.integers(40, 60, size=103)
    by_units = folds_by_score(z, units)
    assert all(len(set(by_units[units == unit])) == 1 for unit in np.unique(units))


# ---- deciding --------------------------------------------------------------------------------------------------------


def with_average(crps, local=(9.0, 9.0), noise=0.5, **options):
    """Return finals of which an average of the local ones has some mean CRPS, with noise of its own."""
    finals = made_up(list(local), noise=noise, **options)
    scores = crps + 0.1 * np.random.default_rng(0).permutation(finals.crps[2] - finals.crps[2].mean())
    return finals._replace(average=Average(np.array([0.0, 0.0, 0.35, 0.65]), scores, np.zeros_like(scores)))


def test_an_average_is_taken_unless_one_is_clearly_better():
    chosen = decide(with_average(8.5), 1.0, None)
    assert (chosen.weights, chosen.place) == ({2: 0.35, 3: 0.65}, 3)
    assert decide(with_average(9.3), 1.0, None).weights == {2: 0.35, 3: 0.65}  # not by two errors
    assert len(decide(with_average(12.0), 1.0, None).weights) == 1
    # an average that cannot bring half a percent is not worth its searches
    assert len(decide(with_average(9.0, noise=1e-4), 1.0, None).weights) == 1


def test_half_as_much_of_an_average_is_left_to_the_model():
    finals = with_average(9.0, noise=3.5)
    total = finals.total[0] - finals.average.crps
    error, gain = total.std(ddof=1) / 10, total.mean()
    expected = 0.75 * (error / gain) ** 2
    assert 0.05 < expected < 1
    assert decide(finals, 1.0, None).caution == nc.Caution(pytest.approx(expected, abs=0.005))


# ---- what tune makes of it -------------------------------------------------------------------------------------------


def problem(n=600, seed=0):
    """Errors that follow one space in their mean, and another in their spread."""
    rng = np.random.default_rng(seed)
    spaces = {"mean": rng.uniform(-2, 2, size=(n, 1)), "spread": rng.uniform(-1, 1, size=(n, 2))}
    y = rng.normal(np.sin(2 * spaces["mean"][:, 0]), np.exp(spaces["spread"][:, 0]))
    return nc.Normal(np.zeros(n), 1.5), y, spaces


@pytest.fixture(scope="module")
def tuning():
    return nc.tune(*problem(), k=(20, 100), **QUICK)


def test_an_average_is_better_than_the_best_of_its_members(tuning):
    assert isinstance(tuning.recalibrator, nc.AveragedRecalibrator)
    dist, y, spaces = problem(3000, seed=1)
    whole = nc.scores.crps(tuning.recalibrator.recalibrate(dist, tuning.positions(spaces)), y).mean()
    rc, places = tuning.recalibrator, tuning.positions(spaces)
    alone = [
        nc.scores.crps(member.recalibrate(dist, places[:, list(own)]), y).mean()
        for member, own in zip(rc.members_, rc.columns_, strict=True)
    ]
    assert whole < min(alone)


def test_it_tells_what_it_averages(tuning):
    weights = tuning.table["weight"]
    assert 2 <= np.count_nonzero(weights) <= 3
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_array_equal(tuning.table["chosen"], weights > 0)
    rows = list(tuning.table)
    assert nc.Candidate.of_row(rows[int(np.argmax(weights))]) == tuning.chosen
    np.testing.assert_allclose(sorted(tuning.recalibrator.weights_), sorted(weights[weights > 0]))
    assert tuning.reason.startswith("Chose an average of")
    assert f"{weights.max():.2f} × ({tuning.chosen})" in tuning.reason
    assert "together CRPS" in tuning.reason


def test_members_look_at_their_own_spaces(tuning):
    assert set(tuning.spaces) == {"mean", "spread"}
    _, _, spaces = problem(7, seed=2)
    places = tuning.positions(spaces)
    np.testing.assert_array_equal(places, np.hstack([spaces[name] for name in tuning.spaces]))
    chosen = [row for row in tuning.table if row["chosen"]]
    looked_at = [places[:, list(own)] for own in tuning.recalibrator.columns_]
    assert sorted(one.shape[1] for one in looked_at) == sorted(spaces[row["space"]].shape[1] for row in chosen)


def test_one_member_is_one_candidate_and_other_rules_have_one():
    dist, y, spaces = problem(300)
    one = nc.tune(dist, y, spaces, k=30, members=1, **QUICK)
    assert isinstance(one.recalibrator, nc.LocalRecalibrator)
    assert np.count_nonzero(one.table["weight"]) == 1
    assert one.spaces == (one.chosen.space,)
    best = nc.tune(dist, y, spaces, k=30, rule="best", **QUICK)
    assert isinstance(best.recalibrator, nc.LocalRecalibrator)
    with pytest.raises(nc.InvalidParameterError, match="members must be"):
        nc.tune(dist, y, spaces, members=0)


def test_the_order_of_rows_does_not_matter():
    dist, y, spaces = problem(300)
    order = np.random.default_rng(5).permutation(300)
    first = nc.tune(dist, y, spaces, k=(20, 60), **QUICK)
    second = nc.tune(dist[order], y[order], {name: one[order] for name, one in spaces.items()}, k=(20, 60), **QUICK)
    np.testing.assert_allclose(first.table["weight"], second.table["weight"])


def test_groups_time_and_weights_go_with_it():
    dist, y, spaces = problem(400)
    known = [{"groups": np.arange(400) // 4}, {"time": True}, {"sample_weight": np.linspace(0.1, 2.0, 400)}]
    for relation in known:
        options = {**QUICK, "time": None} | relation
        found = nc.tune(dist, y, spaces, k=(20, 60), **options)
        assert isinstance(found.recalibrator, nc.AveragedRecalibrator)
        out = found.recalibrator.recalibrate(dist, found.positions(spaces))
        assert nc.scores.crps(out, y).mean() < nc.scores.crps(dist, y).mean()


def test_a_promise_is_made_around_an_average():
    dist, y, spaces = problem(500)
    found = nc.tune(dist, y, spaces, k=(20, 60), guarantee="marginal", **QUICK)
    assert isinstance(found.recalibrator.inner_, nc.AveragedRecalibrator)
    out = found.recalibrator.recalibrate(dist, found.positions(spaces))
    lower, upper = out.interval(0.8)
    assert abs(((lower <= y) & (y <= upper)).mean() - 0.8) < 0.1


# ---- where new rows are ----------------------------------------------------------------------------------------------


def test_positions_of_one_array_and_of_none():
    dist, y, spaces = problem()
    found = nc.tune(dist, y, spaces["mean"], k=30, **QUICK)
    assert found.spaces == ("space",)
    np.testing.assert_array_equal(found.positions(spaces["mean"][:5]), spaces["mean"][:5])
    rng = np.random.default_rng(0)
    good = nc.tune(nc.Normal(np.zeros(200), 1.0), rng.normal(size=200), rng.normal(size=(200, 2)))
    assert good.spaces == ()
    assert good.positions(rng.normal(size=(5, 2))) is None


def test_wrong_positions(tuning):
    _, _, spaces = problem(5)
    with pytest.raises(
        nc.InvalidInputError, match=r"spaces must have 'mean', 'spread'|'spread', 'mean'.*got \['mean'\]"
    ):
        tuning.positions({"mean": spaces["mean"]})
    with pytest.raises(nc.InvalidInputError, match=r"got \['space'\]"):
        tuning.positions(spaces["mean"])
    with pytest.raises(nc.InvalidInputError, match=r"spaces\['spread'\]"):
        tuning.positions(spaces | {"spread": [[np.nan, 1.0]] * 5})
    for wrong in (spaces["spread"][:3], spaces["spread"][:, :1]):
        with pytest.raises(
            nc.InvalidInputError, match=r"spaces\['(spread|mean)'\] must have . rows.* columns, as in tune"
        ):
            tuning.positions(spaces | {"spread": wrong})


def local(space, k=10):
    return nc.Candidate("local", space, "none", None, k, "uniform")


def test_joined_spaces_stand_there_once():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(9, 1)), rng.normal(size=(9, 2))
    positions = {"a": one, "b": other, "a + b": np.hstack([one, other]), "b + a": np.hstack([one, other])}
    assert spaces_of({local("a + b"): 1.0}, positions) == {"a + b": 3}
    assert spaces_of({local("a + b"): 0.5, local("b"): 0.5}, positions) == {"a": 1, "b": 2}
    assert spaces_of({local("b"): 0.5, local("b", 20): 0.5}, positions) == {"b": 2}
    # what has such a name only, is itself
    assert spaces_of({local("b + a"): 0.5, local("b"): 0.5}, positions) == {"b + a": 3, "b": 2}
    assert spaces_of({local("a + c"): 0.5, local("b"): 0.5}, positions | {"a + c": one}) == {"a + c": 1, "b": 2}
    assert columns_of(["b"], {"a": 1, "b": 2}) == [1, 2]
    assert columns_of(["b", "a"], {"a": 1, "b": 2}) == [1, 2, 0]
