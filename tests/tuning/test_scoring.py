"""Leave-one-out scores equal those of recalibrators fitted on the other rows."""

import copy
import itertools

import numpy as np
import pytest
from scipy import stats

import nearcal as nc
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.space import CalibrationSpace
from nearcal.tuning import scoring
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


def test_of_many_rows_the_best_on_some_are_scored_on_all(monkeypatch):
    dist, y, space = calibration_set(n=105)
    scorer = scorer_of(dist, y, [space, space[:, 1:]], 80)
    sizes = (80, 40, 20, 10)
    plain = scorer.score_plain(sizes, ["uniform"])[1]
    every = scorer.score_linear(plain, sizes)
    assert len(every) == 8
    monkeypatch.setattr(scoring, "_HEAT_ROWS", 100)
    finalists = scorer.score_linear(plain, sizes)
    rows = np.random.default_rng(0).permutation(105)[:100]
    assert list(finalists) == sorted(every, key=lambda candidate: every[candidate][rows].mean())[:3]
    for candidate, scores in finalists.items():
        np.testing.assert_array_equal(scores, every[candidate])


def test_of_many_rows_spaces_race(monkeypatch):
    rng = np.random.default_rng(7)
    dist, y, space = calibration_set(n=300)
    spaces = [space, space[:, 1:], space + 0.1 * rng.normal(size=space.shape), *rng.normal(size=(4, 300, 2))]
    sizes = (60, 20)
    every = local_crps(dist, y, spaces, sizes, SMOOTHINGS)
    monkeypatch.setattr(scoring, "_RACE_FROM", 250)
    monkeypatch.setattr(scoring, "_RACE_ROWS", 150)
    monkeypatch.setattr(scoring, "_BEHIND", 1.0)
    everyone, scores = scorer_of(dist, y, spaces, 60).score_plain(sizes, SMOOTHINGS)
    np.testing.assert_array_equal(everyone, global_crps(dist, y))
    # the same by hand: the best candidate of each space on the first rows, against the best of all there
    rows = np.random.default_rng(0).permutation(300)[:150]
    best = [min(own.reshape(-1, 300)[:, rows], key=np.mean) for own in every]
    ranking = np.argsort([own.mean() for own in best])
    behind = [own - best[ranking[0]] for own in best]
    stay = {place for place, own in enumerate(behind) if own.mean() <= own.std() / np.sqrt(150)} | {
        *ranking[:3].tolist()
    }
    assert 3 <= len(stay) < 7
    assert {candidate.space for candidate in scores} == {str(place) for place in stay}
    for candidate, own in scores.items():
        a, b = sizes.index(candidate.k), SMOOTHINGS.index(candidate.smoothing)
        np.testing.assert_array_equal(own, every[int(candidate.space), a, b])


def test_three_spaces_do_not_race(monkeypatch):
    monkeypatch.setattr(scoring, "_RACE_FROM", 20)
    monkeypatch.setattr(scoring, "_RACE_ROWS", 10)
    monkeypatch.setattr(scoring, "_BEHIND", -1e9)  # nobody stays by merit
    dist, y, space = calibration_set()
    assert len(local_crps(dist, y, [space, space[:, :1], space[:, 1:]], (10,))) == 3
    four = scorer_of(dist, y, [space, space[:, :1], space[:, 1:], space[:, 2:]], 10).score_plain([10], ["uniform"])[1]
    assert len(four) == 3
