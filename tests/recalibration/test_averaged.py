"""Several neighbourhoods as one, against averages made by hand and fits on the same points."""

import copy
import tracemalloc

import numpy as np
import pytest

import nearcal as nc
from nearcal.distributions import AVERAGED_SCORES as SCORES
from nearcal.recalibration.averaged_scores import as_curve
from nearcal.recalibration.fade import fade_curve
from nearcal.recalibration.polish import polish_of
from nearcal.space import as_folds

LEVELS = np.array([0.003, 0.05, 0.3, 0.5, 0.9, 0.999])
SMALL = nc.LocalRecalibrator(k=15, quantile_rule="predictive", scaling="standard")
LARGE = nc.LocalRecalibrator(k=60, quantile_rule="interpolated", corrections=(nc.LocalLinear(), nc.Polish()))
FADING = nc.LocalRecalibrator(5, quantile_rule="predictive", corrections=(nc.Fade(to="global"),))
COLUMNS = ((0, 1), (2, 0))


def data(n=200, seed=0):
    """A model that sees one of three inputs, and has the wrong spread."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return nc.Normal(x[:, 0], 1.5), rng.normal(x[:, 0] + np.sin(2 * x[:, 1]), np.exp(0.5 * x[:, 2])), x


def average(**options):
    return nc.AveragedRecalibrator([SMALL, LARGE], **{"columns": COLUMNS, "weights": (0.6, 0.2)} | options)


def member_tables(rc, dist, x):
    """Return the quantiles of scores that each member has for rows: a twin of what is averaged."""
    base = nc.Normal(np.zeros(len(dist)), 1.0)  # under which scores are responses
    return [
        one.recalibrate(base, x[:, own]).from_z(SCORES[np.newaxis])
        for one, own in zip(rc.members_, [[0, 1], [2, 0]], strict=True)
    ]


def interpolate(table, scores):
    """Return what tables of quantiles at SCORES have at others: straight lines, and Normal tails through the outer."""
    return np.array([np.interp(scores, SCORES, row) for row in table])


def answers(out):
    return np.column_stack(
        [out.mean(), out.std(), out.ppf(LEVELS), out.cdf(0.3), out.trust, out.effective_size, out.radius]
    )


# ---- what it is ------------------------------------------------------------------------------------------------------


def test_scores_are_the_average_of_those_of_members():
    rc, (dist, _, x) = average().fit(*data()), data(40, seed=1)
    np.testing.assert_allclose(rc.weights_, [0.75, 0.25])
    small, large = member_tables(rc, dist, x)
    out = rc.recalibrate(dist, x)
    np.testing.assert_allclose(dist.z(out.from_z(SCORES[np.newaxis])), 0.75 * small + 0.25 * large, atol=1e-9)
    between = (SCORES[1:] + SCORES[:-1]) / 2
    expected = interpolate(0.75 * small + 0.25 * large, between)
    np.testing.assert_allclose(dist.z(out.from_z(between[np.newaxis])), expected, atol=1e-9)
    np.testing.assert_allclose(out.cdf(out.ppf(LEVELS)), np.tile(LEVELS, (40, 1)), rtol=1e-9)
    equal = average(weights=None).fit(*data()).recalibrate(dist, x)
    np.testing.assert_allclose(dist.z(equal.from_z(SCORES[np.newaxis])), (small + large) / 2, atol=1e-9)


def test_polish_is_learnt_from_each_point_among_the_others_and_caution_draws_back():
    (dist, y, x), (new, _, places) = data(), data(30, seed=1)
    plain, polished = average().fit(dist, y, x), average(corrections=[nc.Polish()]).fit(dist, y, x)
    left_out = plain.left_out_values(dist, SCORES)  # at levels of SCORES, what each has of the others
    z = np.array([np.interp(value, row, SCORES) for value, row in zip(y, left_out, strict=True)])
    learnt = polish_of(z, None)
    (found,) = polished.corrections_
    np.testing.assert_allclose(found.map.line.values, learnt.map.line.values, atol=1e-6)
    at = np.array([-1.5, 0.0, 0.7])
    expected = plain.recalibrate(new, places).from_z(learnt.map.before(at)[np.newaxis])
    out = polished.recalibrate(new, places)
    np.testing.assert_allclose(out.from_z(at[np.newaxis]), expected, atol=1e-5)
    careful = average(corrections=[nc.Polish(), nc.Caution(0.25)]).fit(dist, y, x).recalibrate(new, places)
    knots = out.scores.corrections[0].map.line.scores[0]  # where curves are bent, and mixed
    knots = knots[np.abs(knots) < 3]
    mixed = 0.75 * new.z(out.from_z(knots[np.newaxis])) + 0.25 * knots
    np.testing.assert_allclose(new.z(careful.from_z(knots[np.newaxis])), mixed, atol=1e-9)
    assert average(corrections=[nc.Caution(0.0)]).fit(dist, y, x).corrections_ == ()


def test_left_out_values_are_those_of_fits_without_a_point():
    dist, y, x = data(60)
    members = [nc.LocalRecalibrator(k, quantile_rule="predictive") for k in (10, 30)]
    found = nc.AveragedRecalibrator(members).fit(dist, y, x).left_out_values(dist, SCORES)
    for row in (0, 17, 59):
        others = np.delete(np.arange(60), row)
        without = nc.AveragedRecalibrator(members).fit(dist[others], y[others], x[others])
        expected = without.recalibrate(dist[[row]], x[[row]]).from_z(SCORES[np.newaxis])
        np.testing.assert_allclose(found[[row]], expected, rtol=1e-9, atol=1e-9)


def test_in_order_of_time_the_first_are_known_by_nobody():
    dist, y, x = data()
    rc = average(corrections=[nc.Polish()]).fit(dist, y, x, time=True)
    values = rc.left_out_values(dist, SCORES, as_folds(None, True, None, 200))
    known = ~np.isnan(values[:, 0])
    assert 0 < known.sum() < 200
    assert not known[:10].any()
    groups = average(corrections=[nc.Polish()]).fit(dist, y, x, groups=np.arange(200) // 20)
    learnt = [one.corrections_[0].map.line.values for one in (rc, groups)]
    assert not np.array_equal(*learnt)


def test_points_of_no_weight_are_absent_and_weights_count():
    dist, y, x = data()
    weights = np.where(np.arange(200) % 3 == 0, 0.0, 1.0 + np.arange(200))
    kept, groups = np.flatnonzero(weights), np.arange(200) // 5
    rc = average(corrections=[nc.Polish()]).fit(dist, y, x, sample_weight=weights, groups=groups)
    same = average(corrections=[nc.Polish()]).fit(
        dist[kept], y[kept], x[kept], sample_weight=weights[kept], groups=groups[kept]
    )
    assert rc.n_cal_ == len(kept)
    np.testing.assert_array_equal(answers(rc.recalibrate(dist, x)), answers(same.recalibrate(dist, x)))
    alike = average(corrections=[nc.Polish()]).fit(dist[kept], y[kept], x[kept])
    assert not np.array_equal(alike.recalibrate(dist, x).std(), rc.recalibrate(dist, x).std())


# ---- rows unlike the calibration set ---------------------------------------------------------------------------------


def fading(*rates, **options):
    members = [
        nc.LocalRecalibrator(k, quantile_rule="predictive", corrections=() if rate is None else (nc.Fade(rate),))
        for k, rate in zip((15, 60, 40), rates, strict=False)
    ]
    return nc.AveragedRecalibrator(members, **options).fit(*data())


@pytest.mark.filterwarnings("ignore::nearcal.OutOfDistributionWarning")
@pytest.mark.parametrize("rates", [(0.02, 0.02), (0.02, None), (None, 0.02)])
def test_rows_fade_by_the_mean_trust_of_members(rates):
    rc, (dist, _, x) = fading(*rates, weights=(0.75, 0.25)), data(40, seed=1)
    x[:25] *= np.linspace(1, 20, 25)[:, np.newaxis]
    with pytest.warns(nc.OutOfDistributionWarning, match="are unlike the calibration set"):
        out = rc.recalibrate(dist, x)  # told once, of the average
    plain = fading(None, None, weights=(0.75, 0.25)).recalibrate(dist, x)
    trust = sum(w * one.recalibrate(dist, x).trust for w, one in zip((0.75, 0.25), rc.members_, strict=True))
    np.testing.assert_allclose(out.trust, trust)
    whole = np.flatnonzero(trust == 1)
    assert 0 < len(whole) < 40
    np.testing.assert_array_equal(out.ppf(LEVELS)[whole], plain.ppf(LEVELS)[whole])
    base = dist.ppf(LEVELS)
    np.testing.assert_array_equal(out.ppf(LEVELS)[trust == 0], base[trust == 0])  # to the last bit
    expected = fade_curve(as_curve(out.scores.table), out.trust, None).values(dist, np.tile(SCORES, (40, 1)))
    np.testing.assert_allclose(out.from_z(SCORES[np.newaxis]), expected, rtol=1e-9)
    np.testing.assert_array_equal(out.faded(np.ones(40)).ppf(LEVELS), out.ppf(LEVELS))


def test_weights_whose_sum_rounds_leave_trust_whole():
    rc, (dist, _, x) = fading(0.01, 0.01, 0.01, weights=(0.35, 0.35, 0.3)), data()
    near = x * 0.5
    assert (rc.recalibrate(dist, near).trust == 1).all()


def test_reliability_and_neighbours_are_those_of_the_heaviest_member():
    rc, (dist, _, x) = average().fit(*data()), data(30, seed=1)
    out, alone = rc.recalibrate(dist, x), rc.members_[0].recalibrate(dist, x[:, [0, 1]])
    for name in ("p_value", "isolation", "radius"):
        np.testing.assert_array_equal(out.reliability()[name], alone.reliability()[name])
    for mine, theirs in zip(out.neighbors([3, 7]), alone.neighbors([3, 7]), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    other = rc.members_[1].recalibrate(dist, x[:, [2, 0]])
    np.testing.assert_allclose(out.effective_size, 0.75 * alone.effective_size + 0.25 * other.effective_size)
    with pytest.raises(nc.InvalidInputError, match="members=1"):
        out.weighted_sample(0)


# ---- rows by themselves ----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::nearcal.OutOfDistributionWarning")
def test_a_row_depends_on_itself_alone_whatever_the_threads_and_the_memory():
    dist, y, x = data()
    new, _, places = data(700, seed=1)
    results = []
    for workers in (nc.Workers(threads=1), nc.Workers(threads=3, memory=2**20)):
        members = [copy.deepcopy(one) for one in (SMALL, LARGE)]
        for member in members:
            member.workers, member.corrections = workers, (*member.corrections, nc.Fade(0.2))
        rc = nc.AveragedRecalibrator(members, columns=COLUMNS, corrections=[nc.Polish()])
        results.append(answers(rc.fit(dist, y, x).recalibrate(new, places)))
    np.testing.assert_array_equal(*results)
    for row in (0, 13, 699):
        alone = rc.recalibrate(new[[row]], places[[row]])
        np.testing.assert_array_equal(answers(alone), results[0][[row]])
        np.testing.assert_array_equal(answers(rc.recalibrate(new, places)[[row]]), results[0][[row]])


def test_many_rows_are_held_as_tables_of_quantiles_alone():
    rc = average(corrections=[nc.Polish()]).fit(*data())
    for member in rc.members_:
        member.workers = nc.Workers(threads=1, memory=2**20)
    new, _, places = data(8_000, seed=1)
    rc.recalibrate(new[:10], places[:10]).mean()  # compiles
    tracemalloc.start()
    rc.recalibrate(new, places).mean()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # four tables of 41 numbers a row: the average, and of a member chunks, joined and put back in order; curves of all
    # rows would be six more, since polish adds 63 knots
    assert most < 8_000 * 4 * 41 * 8 + 2**23


# ---- a calibration set that changes ----------------------------------------------------------------------------------


def test_updates_are_those_of_members_and_relearn_is_a_fit():
    dist, y, x = data(260)
    rc = average(corrections=[nc.Polish(), nc.Caution(0.1)]).fit(dist[:200], y[:200], x[:200])
    before = rc.recalibrate(dist[:5], x[:5])
    said = answers(before)
    members = [copy.deepcopy(one) for one in rc.members_]
    assert rc.update(dist[200:], y[200:], x[200:]) is rc
    np.testing.assert_array_equal(answers(before), said)  # results made before stay as they were
    for member, own, mine in zip(members, COLUMNS, rc.members_, strict=True):
        member.update(dist[200:], y[200:], x[200:][:, own])
        found = mine.recalibrate(dist[:5], x[:5][:, own])
        np.testing.assert_array_equal(answers(found), answers(member.recalibrate(dist[:5], x[:5][:, own])))
    rc.forget([0, 3, -1])
    assert (rc.n_cal_, *(one.n_cal_ for one in rc.members_)) == (257, 257, 257)
    kept = np.delete(np.arange(260), [0, 3, -1])
    fresh = average(corrections=[nc.Polish(), nc.Caution(0.1)]).fit(dist[kept], y[kept], x[kept])
    np.testing.assert_array_equal(
        answers(rc.relearn().recalibrate(dist[:5], x[:5])), answers(fresh.recalibrate(dist[:5], x[:5]))
    )
    assert rc.update(dist[:1], [], x[:1]) is rc
    assert rc.n_cal_ == 257


def test_without_anything_learnt_from_all_an_update_is_a_fit():
    dist, y, x = data(260)
    weights = np.random.default_rng(3).uniform(0.5, 2.0, size=260)
    members = [nc.LocalRecalibrator(k, quantile_rule="predictive") for k in (10, 30)]
    for given in (None, weights):
        first, rest = (None, None) if given is None else (given[:200], given[200:])
        rc = nc.AveragedRecalibrator(members).fit(dist[:200], y[:200], x[:200], sample_weight=first)
        rc.update(dist[200:], y[200:], x[200:], sample_weight=rest).forget(keep_last=150)
        last = slice(110, 260)
        fresh = nc.AveragedRecalibrator(members).fit(
            dist[110:], y[last], x[last], sample_weight=None if given is None else given[last]
        )
        np.testing.assert_array_equal(answers(rc.recalibrate(dist, x)), answers(fresh.recalibrate(dist, x)))


def test_an_update_that_fails_changes_nothing():
    rc, (dist, y, x) = average().fit(*data()), data(20, seed=5)
    said = answers(rc.recalibrate(dist, x))
    with pytest.raises(nc.InvalidInputError):
        rc.update(dist, np.where(np.arange(20) == 3, np.nan, y), x)
    with pytest.raises(nc.InvalidInputError, match="at least 3 columns"):
        rc.update(dist, y, x[:, :2])
    with pytest.raises(nc.InvalidInputError, match="must leave at least k=60"):
        rc.forget(keep_last=50)
    np.testing.assert_array_equal(answers(rc.recalibrate(dist, x)), said)


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": [SMALL]}, "members must be at least two recalibrators"),
        ({"members": [SMALL, nc.LocalRecalibrator(k=5)]}, r"continuous quantile_rule, one of .* got LocalRecalibrator"),
        ({"members": [SMALL, nc.GlobalRecalibrator()]}, r"members must be LocalRecalibrator .* got GlobalRecalibrator"),
        ({"members": [SMALL, nc.KNNRegressor(5, quantile_rule="predictive")]}, r"must be LocalRecalibrator .* got KNN"),
        ({"members": [SMALL, nc.LocalRecalibrator(k=0, quantile_rule="predictive")]}, "k must be"),
        ({"members": [SMALL, FADING]}, r"members must fade to their base, Fade\(to='base'\), got"),
        ({"corrections": [nc.LocalLinear()]}, r"Polish or Caution.* got LocalLinear\(\); give others to the members"),
        ({"corrections": [nc.Fade()]}, "corrections must be Polish or Caution"),
        ({"corrections": [nc.Caution(2.0)]}, "share must"),
        ({"weights": [1.0]}, r"weights must be 2 numbers, one a member.* got \[1.0\]"),
        ({"weights": [1.0, -0.1]}, "not negative and not all zero"),
        ({"weights": [0.0, 0.0]}, "not negative and not all zero"),
        ({"weights": [1.0, np.nan]}, "weights must be"),
        ({"weights": [1.0, np.inf]}, "weights must be"),
        ({"columns": [[0]]}, "for each of the 2 members where it looks, got 1"),
        ({"columns": [[0], [3]]}, r"columns of the space, 0 to 2, got \[3\]"),
    ],
)  # fmt: skip
def test_wrong_options(options, message):
    with pytest.raises(nc.NearcalError, match=message):
        nc.AveragedRecalibrator(**{"members": [SMALL, LARGE]} | options).fit(*data(80))


def test_wrong_places():
    rc, (dist, _, x) = average().fit(*data()), data(5)
    with pytest.raises(nc.InvalidInputError, match="at least 3 columns as in fit, got 2"):
        rc.recalibrate(dist, x[:, :2])
    with pytest.raises(nc.NotFittedError):
        average().recalibrate(dist, x)
    with pytest.raises(nc.InvalidInputError):
        average().fit(*data(5)[:2], None)


def test_it_says_what_it_is():
    assert repr(average()).startswith("AveragedRecalibrator([LocalRecalibrator(k=15")
    assert "weights=(0.6, 0.2)" in repr(average())
