"""Leave-one-out scores equal those of recalibrators fitted on the other rows."""

import copy
import itertools

import numpy as np
import pytest
from scipy import stats

import nearcal as nc
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.space import CalibrationSpace
from nearcal.tuning import racing, scoring
from nearcal.tuning.racing import Clock, Effort
from nearcal.tuning.scoring import Scorer

N = 30
SMOOTHINGS = ("epanechnikov", "uniform")


def mixture(n, rng, apart):
    components = [nc.Normal(apart * rng.normal(size=n), 0.5), nc.Normal(np.full(n, 2.0), 1.5)]
    return nc.Mixture(rng.dirichlet([1, 1], n), components)


FAMILIES = {
    "Normal": lambda n, rng: nc.Normal(rng.normal(size=n), rng.uniform(0.5, 2, n)),
    "Gamma": lambda n, rng: nc.Gamma(2.5, rng.uniform(0.5, 2, n)),
    "Gamma, several shapes": lambda n, rng: nc.Gamma(rng.uniform(0.5, 20, n), rng.uniform(0.5, 2, n)),
    "LogNormal": lambda n, rng: nc.LogNormal(rng.normal(size=n), 0.5),
    "LogNormal, several sigmas": lambda n, rng: nc.LogNormal(rng.normal(size=n), rng.uniform(0.3, 1, n)),
    "StudentT, several df": lambda n, rng: nc.StudentT(rng.uniform(3, 30, n), rng.normal(size=n), 1.0),
    "Mixture": lambda n, rng: mixture(n, rng, 1.0),
    "Mixture of separate parts": lambda n, rng: mixture(n, rng, 8.0),
    "Samples": lambda n, rng: nc.Samples(rng.normal(size=(n, 25))),
    "Samples, empirical": lambda n, rng: nc.Samples(rng.normal(size=(n, 25)), tails="empirical"),
    "Quantiles": lambda n, rng: nc.Quantiles([0.05, 0.25, 0.5, 0.75, 0.95], rng.normal(size=(n, 5))),
    "scipy gumbel": lambda n, rng: nc.from_scipy(stats.gumbel_r(rng.normal(size=n), rng.uniform(0.5, 2, n))),
}


def calibration_set(family="Normal", n=N, d=3):
    """Return distributions, responses that are over-dispersed, more so far out, and positions."""
    rng = np.random.default_rng(3)
    space = rng.normal(size=(n, d))
    dist = FAMILIES[family](n, rng)
    y = dist.from_z(np.clip(rng.normal(size=n) * (1 + 0.5 * np.tanh(space[:, 0])) + 0.2, -6, 6))
    return dist, y, space


def scorer_of(dist, y, spaces, k, **options):
    """Return a scorer in spaces as they are, named by their number."""
    z, how = dist.z(y), nc.Scaling("none")
    places = {(str(i), how): CalibrationSpace(space, z, how, k + 1) for i, space in enumerate(spaces)}
    return Scorer(dist, y, CalibrationScores(z), places, nc.Workers(**options))


def local_crps(dist, y, spaces, k, smoothings=("epanechnikov",), **options):
    """Return leave-one-out CRPS of shape (spaces, k, smoothings, n)."""
    scores = scorer_of(dist, y, spaces, k[0], **options).score_plain(k, smoothings)[1]
    for candidate, (place, size, smoothing) in zip(
        scores, itertools.product(range(len(spaces)), k, smoothings), strict=True
    ):
        assert candidate == nc.Candidate("local", str(place), "none", None, size, smoothing)
    return np.array(list(scores.values())).reshape(len(spaces), len(k), len(smoothings), len(y))


def global_crps(dist, y):
    return scorer_of(dist, y, [], 1).score_plain([1], ["uniform"])[0]


def refitted(dist, y, space, recalibrator):
    """Return the CRPS of every row under a recalibrator fitted on all others."""
    scores = []
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        fitted = recalibrator.fit(dist[others], y[others], space[others])
        scores.append(nc.scores.crps(fitted.recalibrate(dist[i], space[[i]]), y[[i]])[0])
    return np.array(scores)


@pytest.mark.parametrize("family", FAMILIES)
def test_equals_refitting_without_the_row(family):
    dist, y, space = calibration_set(family, n=12 if "Mixture" in family else N)  # inverting a mixture takes time
    sizes = (7,) if "Mixture" in family else (len(y) - 1, 7)
    found = local_crps(dist, y, [space], sizes, SMOOTHINGS)[0]
    for a, k in enumerate(sizes):
        for b, smoothing in enumerate(SMOOTHINGS):
            expected = refitted(dist, y, space, nc.LocalRecalibrator(k, smoothing=smoothing))
            np.testing.assert_allclose(found[a, b], expected, rtol=1e-10, err_msg=f"{k} {smoothing}")
    expected = refitted(dist, y, space, nc.GlobalRecalibrator())
    np.testing.assert_allclose(global_crps(dist, y), expected, rtol=1e-10)


POSITIONS = {
    "duplicates": lambda rng: np.repeat(rng.normal(size=(3, 2)), 10, axis=0),
    "all in one place": lambda rng: np.zeros((N, 2)),
    "a grid, full of ties": lambda rng: rng.integers(0, 4, size=(N, 2)).astype(float),
    "a line": lambda rng: np.round(rng.normal(size=(N, 1)), 1),
    "wide": lambda rng: rng.normal(size=(N, 40)),
}


@pytest.mark.parametrize("case", POSITIONS)
def test_equals_refitting_whatever_the_positions(case):
    rng = np.random.default_rng(5)
    dist, y, _ = calibration_set()
    space = POSITIONS[case](rng)[rng.permutation(N)]
    k = (20, 8, 1)
    found = local_crps(dist, y, [space], k, SMOOTHINGS)[0]
    for a, size in enumerate(k):
        for b, smoothing in enumerate(SMOOTHINGS):
            expected = refitted(dist, y, space, nc.LocalRecalibrator(size, smoothing=smoothing))
            np.testing.assert_allclose(found[a, b], expected, rtol=1e-10, err_msg=f"{size} {smoothing}")


def test_smaller_neighbourhoods_are_parts_of_larger_ones():
    dist, y, space = calibration_set("Gamma, several shapes", n=500, d=20)
    everything = local_crps(dist, y, [space], (300, 100, 30, 5))
    for place, k in enumerate((300, 100, 30, 5)):
        alone = local_crps(dist, y, [space], (k,))
        np.testing.assert_allclose(everything[:, [place]], alone, rtol=1e-13)


@pytest.mark.parametrize("family", ["Normal", "Mixture", "Samples"])
def test_results_do_not_depend_on_threads_or_chunks(family):
    dist, y, space = calibration_set(family, n=105)
    whole = local_crps(dist, y, [space, space[:, :1]], (100, 10), threads=1)
    parts = local_crps(dist, y, [space, space[:, :1]], (100, 10), threads=2, memory=2**20)
    np.testing.assert_array_equal(whole, parts)


@pytest.mark.parametrize("family", ["Gamma, several shapes", "LogNormal, several sigmas", "Samples"])
def test_evenly_spaced_scores_stand_for_all_in_global_recalibration(family, monkeypatch):
    dist, y, _ = calibration_set(family, n=1500)
    exact = global_crps(dist, y)
    monkeypatch.setattr(scoring, "MOST_GLOBAL", 500)
    np.testing.assert_allclose(global_crps(dist, y).mean(), exact.mean(), rtol=1e-4)


def test_global_scores_keep_their_digits_with_an_outlier_and_far_from_zero():
    rng = np.random.default_rng(0)
    y = 1e6 + rng.normal(size=50)
    y[3] = 1e6 + 1e4
    dist = nc.Normal(np.full(50, 1e6), 1.0)
    expected = refitted(dist, y, np.zeros((50, 1)), nc.GlobalRecalibrator())
    np.testing.assert_allclose(global_crps(dist, y), expected, rtol=1e-10)


def local(k, smoothing="epanechnikov", **corrections):
    return nc.Candidate("local", "0", "none", None, k, smoothing, **corrections)


@pytest.mark.parametrize("family", ["Normal", "Gamma", "LogNormal, several sigmas", "Samples"])
def test_local_linear_scores_equal_refitting_without_the_row(family):
    dist, y, space = calibration_set(family)
    scorer = scorer_of(dist, y, [space], 22)
    scores = scorer.score_linear(scorer.score_plain([22, 8], ["epanechnikov"])[1], [22, 8])
    # 8 neighbours are too few for a slope; the widest components of all points, which differ from those of the others
    # a little, are not needed here
    assert list(scores) == [local(22, linear=True)]
    expected = refitted(dist, y, space, nc.LocalRecalibrator(22, corrections=(nc.LocalLinear(),)))
    np.testing.assert_allclose(scores[local(22, linear=True)], expected, rtol=1e-8)


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 1.5, 105)])
def test_corrected_scores_do_not_depend_on_threads_or_chunks(weights):
    dist, y, space = calibration_set(n=105)
    found = []
    for workers in (nc.Workers(threads=1), nc.Workers(threads=3, memory=2**20)):
        told = []
        options = {"scaling": ("standard", "relevance"), "k": (60, 30), "effort": "thorough", "distilled": False}
        workers = nc.Workers(workers.threads, workers.memory, lambda done, total, told=told: told.append(done / total))
        table = nc.tune(dist, y, space, sample_weight=weights, workers=workers, **options).table
        assert table["linear"].any()
        assert table["trend"].any()
        assert table["shrinkage"].any()
        assert told[-1] == 1
        assert (np.diff(told) >= 0).all()
        found.append(table["crps"])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("candidates", "rows", "least"), [(3, 10, 8), (18, 250, 8), (1, 3, 8), (0, 10, 8), (2, 0, 4)])
def test_pieces_are_rows_of_one_candidate_and_cover_all(candidates, rows, least):
    pieces = scoring._pieces(candidates, rows, least)
    covered = [place for piece in pieces for place in range(piece.start, piece.stop)]
    assert covered == list(range(candidates * rows))
    assert all(piece.start // rows == (piece.stop - 1) // rows for piece in pieces)
    assert len(pieces) >= min(least, candidates * rows)


@pytest.mark.parametrize("linear", [False, True])
def test_shrunk_scores_equal_the_rule_applied_to_the_others(linear):
    dist, y, space = calibration_set()
    candidate = local(22, "uniform", linear=linear)
    scores = scorer_of(dist, y, [space], 22).score_shrunk({candidate: np.zeros(N)})
    ((shrunk, found),) = scores.items()
    assert shrunk == local(22, "uniform", linear=linear, shrinkage=True)
    rc = nc.LocalRecalibrator(22, smoothing="uniform", corrections=shrunk.corrections)
    learnt = copy.copy(rc).fit(dist, y, space).corrections_[-1]
    for row in (3, 11, 20):
        others = np.arange(N) != row
        fitted = rc.fit(dist[others], y[others], space[others])
        fitted.corrections_ = (*fitted.corrections_[:-1], learnt)  # its variances are learnt from all rows
        expected = nc.scores.crps(fitted.recalibrate(dist[row], space[[row]]), y[[row]])
        np.testing.assert_allclose(found[row], expected, rtol=1e-8)


def test_quantiles_stand_for_costly_samples(monkeypatch):
    dist, y, space = calibration_set("Gamma, several shapes", n=150)

    def score():
        scorer = scorer_of(dist, y, [space], 120)
        return scorer.score_linear({local(120): np.zeros(150)}, [120])[local(120, linear=True)]

    some = score()
    monkeypatch.setattr(scoring, "_MOST_COSTLY", 1000)
    every = score()
    assert not np.array_equal(some, every)
    np.testing.assert_allclose(some.mean(), every.mean(), rtol=2e-3)


def race_of(effort, spaces, sizes, clock=None, n=300):
    """Return the scores of plain candidates in a race, and the scorer."""
    dist, y, _ = calibration_set(n=n)
    z, how = dist.z(y), nc.Scaling("none")
    places = {(str(i), how): CalibrationSpace(space, z, how, sizes[0] + 1) for i, space in enumerate(spaces)}
    scorer = Scorer(dist, y, CalibrationScores(z), places, nc.Workers(threads=1), effort=effort, clock=clock)
    return scorer.score_plain(sizes, SMOOTHINGS)[1], scorer


@pytest.fixture(scope="module")
def spaces():
    rng = np.random.default_rng(7)
    space = calibration_set(n=300)[2]
    return [space, space[:, 1:], space + 0.1 * rng.normal(size=space.shape), *rng.normal(size=(4, 300, 2))]


def test_who_is_behind_after_a_heat_is_scored_no_more(spaces, monkeypatch):
    monkeypatch.setattr(racing, "_BEHIND", 1.0)
    sizes, dist, y = (60, 20), *calibration_set(n=300)[:2]
    every = local_crps(dist, y, spaces, sizes, SMOOTHINGS)
    scores, scorer = race_of(Effort((100,), None, 3), spaces, sizes)
    # the same by hand: rows are drawn by the rank of their score
    order = np.argsort(dist.z(y))[np.random.default_rng(0).permutation(300)]
    first = order[:100]
    at = {one: every[int(one.space), sizes.index(one.k), SMOOTHINGS.index(one.smoothing)] for one in scores}
    best = min((own[first] for own in at.values()), key=np.mean)
    left = 0
    for one, own in at.items():
        gap = own[first] - best
        stays = gap.mean() <= gap.std(ddof=1) / 10
        left += not stays
        seen = np.isin(np.arange(300), order if stays else first)
        np.testing.assert_array_equal(scores[one], np.where(seen, own, np.nan))
    assert 0 < left < len(scores)
    np.testing.assert_array_equal(scorer.race.rows, np.arange(300))


def test_corrections_keep_up_with_the_best_plain_candidate_and_three_reach_the_final(spaces):
    sizes = (80, 40, 20, 10)
    plain, scorer = race_of(Effort((), None, 3), spaces[:2], sizes)
    every = scorer.score_linear(plain, sizes)
    assert len(every) == 8
    assert not any(np.isnan(own).any() for own in every.values())
    plain, scorer = race_of(Effort((100,), None, 3), spaces[:2], sizes)
    some = scorer.score_linear(plain, sizes, plain)
    assert set(some) == set(every)
    complete = [one for one, own in some.items() if not np.isnan(own).any()]
    first = scorer.race.heats[0]
    assert 1 <= len(complete) <= 3
    assert set(complete) <= set(sorted(every, key=lambda one: every[one][first].mean())[:3])
    for one, own in some.items():
        seen = ~np.isnan(own)
        np.testing.assert_array_equal(own[seen], every[one][seen])
        assert seen[first].all()


def test_a_rival_far_ahead_ends_the_race_of_corrections_after_a_heat(spaces):
    sizes = (80, 40)
    plain, scorer = race_of(Effort((100,), None, 3), spaces[:1], sizes)
    ahead = {one: own - 1e3 for one, own in plain.items()}
    assert all((~np.isnan(own)).sum() == 100 for own in scorer.score_linear(plain, sizes, ahead).values())


def test_when_time_is_up_spaces_that_cost_more_are_not_tried(spaces):
    wide = np.concatenate([spaces[0]] * 5, axis=1)
    scores, scorer = race_of(Effort((100,), None, 3), [wide, spaces[1], spaces[0]], (60, 20), Clock(1e-9))
    assert {one.space for one in scores} == {"1"}  # the narrowest
    assert scorer.not_tried == ["'2' with scaling 'none'", "'0' with scaling 'none'"]
    np.testing.assert_array_equal(scorer.race.rows, np.sort(scorer.race.heats[0]))
    assert len(scorer.race.rows) == 100
    assert scorer.score_linear(scores, (60, 20)) == scorer.score_shrunk(scores) == {}
    assert [("local-linear" in what, "shrinkage" in what) for what in scorer.not_tried[2:]] == [
        (True, False), (True, False), (False, True), (False, True),
    ]  # fmt: skip
