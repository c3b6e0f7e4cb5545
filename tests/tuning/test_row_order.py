"""Tuning where rows depend on each other: against refits to those who may speak, and known dependence."""

import warnings

import numpy as np
import pytest
from scipy import stats

import nearcal as nc
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.space import CalibrationSpace, as_folds
from nearcal.tuning.choice import mean_and_error
from nearcal.tuning.row_order import is_dependent, is_normal, serial_correlation, unevenness
from nearcal.tuning.scoring import Scorer
from tests.tuning.test_scoring import FAMILIES, calibration_set

N = 60
RNG = np.random.default_rng(8)
GROUPS, TIMES = RNG.integers(0, 13, size=N), RNG.permutation(N) // 2
RELATIONS = {
    "groups": {"groups": GROUPS, "time": None, "gap": None},
    "time": {"groups": None, "time": TIMES, "gap": None},
    "time with a gap": {"groups": None, "time": TIMES, "gap": 3},
    "both": {"groups": GROUPS, "time": TIMES, "gap": None},
}
K = (50, 20, 10)


def share(k, speakers):
    """The number of neighbours that are as large a share of speakers as k of all."""
    return int(np.ceil(k * speakers / N))


def scorer_of(dist, y, space, folds, scaling="none"):
    z, how = dist.z(y), nc.Scaling(scaling)
    places = {("0", how): CalibrationSpace(space, z, how, K[0], folds=folds)}
    return Scorer(dist, y, CalibrationScores(z), places, nc.Workers(), folds=folds)


def refitted(dist, y, space, folds, recalibrator_of):
    """Return the CRPS of every row under a recalibrator fitted on those who may speak for it; NaN if nobody may."""
    scores = np.full(len(y), np.nan)
    for fold in folds.folds:
        own, rows = fold.speakers, fold.rows
        fitted = recalibrator_of(len(own)).fit(dist[own], y[own], space[own])
        scores[rows] = nc.scores.crps(fitted.recalibrate(dist[rows], space[rows]), y[rows])
    return scores


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("relation", ["time", "both"])
def test_scores_are_those_of_refits_to_those_who_may_speak(family, relation):
    dist, y, space = calibration_set(family, N)
    folds = as_folds(**RELATIONS[relation], n=N)
    everyone, local = scorer_of(dist, y, space, folds).score_plain(K, ["epanechnikov", "uniform"])
    expected = refitted(dist, y, space, folds, lambda _: nc.GlobalRecalibrator())
    np.testing.assert_allclose(everyone, expected, rtol=1e-7, atol=1e-9)
    for candidate, scores in local.items():
        expected = refitted(
            dist,
            y,
            space,
            folds,
            lambda speakers, one=candidate: nc.LocalRecalibrator(share(one.k, speakers), smoothing=one.smoothing),
        )
        np.testing.assert_allclose(scores, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("scaling", ["standard", "whiten", "relevance"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_scaling_is_learnt_from_those_who_may_speak(relation, scaling):
    dist, y, space = calibration_set("Normal", N)
    folds = as_folds(**RELATIONS[relation], n=N)
    _, local = scorer_of(dist, y, space, folds, scaling).score_plain(K, ["biweight"])
    for candidate, scores in local.items():
        expected = refitted(
            dist,
            y,
            space,
            folds,
            lambda speakers, one=candidate: nc.LocalRecalibrator(
                share(one.k, speakers), smoothing="biweight", scaling=scaling
            ),
        )
        np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("k", [20, 40])
@pytest.mark.parametrize("relation", RELATIONS)
def test_local_linear_scores_are_those_of_refits(relation, k):
    # of fewer neighbours fewer slopes are afforded, down to none
    dist, y, space = calibration_set("Normal", N)
    folds = as_folds(**RELATIONS[relation], n=N)
    scorer = scorer_of(dist, y, space, folds)
    plain = scorer.score_plain((k,), ["biweight"])[1]
    (scores,) = scorer.score_linear(plain, (k,)).values()
    expected = refitted(
        dist,
        y,
        space,
        folds,
        lambda speakers: nc.LocalRecalibrator(
            share(k, speakers), smoothing="biweight", corrections=(nc.LocalLinear(),)
        ),
    )
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_table_holds_means_over_rows_that_were_looked_up(relation):
    dist, y, space = calibration_set("Normal", N)
    folds = as_folds(**RELATIONS[relation], n=N)
    tuning = nc.tune(dist, y, space, k=(10, 20), scaling="standard", **RELATIONS[relation])
    rows = {row["kind"]: row for row in tuning.table if row["kind"] != "local"}
    untouched = nc.scores.crps(dist, y)[folds.rows]
    np.testing.assert_allclose(rows["none"]["crps"], untouched.mean(), rtol=1e-12)
    everyone = refitted(dist, y, space, folds, lambda _: nc.GlobalRecalibrator())[folds.rows]
    np.testing.assert_allclose(rows["global"]["crps"], everyone.mean(), rtol=1e-9)
    assert "judged by" in tuning.reason


def test_what_is_fitted_holds_all_rows():
    dist, y, space = calibration_set("Normal", N)
    tuning = nc.tune(dist, y, space, k=10, rule="best", time=TIMES)
    assert tuning.recalibrator.n_cal_ == N


@pytest.mark.parametrize("relation", RELATIONS)
def test_corrections_of_a_fit_are_learnt_among_those_who_may_speak(relation):
    dist, y, space = calibration_set("Normal", N)
    folds = as_folds(**RELATIONS[relation], n=N)
    rc = nc.LocalRecalibrator(10, quantile_rule="predictive", corrections=(nc.Polish(),))
    rc.fit(dist, y, space, **RELATIONS[relation])
    scores = []
    for fold in folds.folds:
        own = fold.speakers
        plain = nc.LocalRecalibrator(share(10, len(own)), quantile_rule="predictive").fit(dist[own], y[own], space[own])
        scores.append(plain.recalibrate(dist[fold.rows], space[fold.rows]).z(y[fold.rows]))
    (polish,) = rc.corrections_
    knots = polish.map.line.values[0]
    # of at most 63 scores all are knots, but for those moved by more than 1 + |s|
    known = np.sort(np.concatenate(scores))
    assert len(knots) == len(known)
    moved = ~np.isclose(knots, known, rtol=1e-9, atol=1e-9)
    worth = polish.map.line.scores[0]
    np.testing.assert_allclose(np.abs(knots - worth)[moved], (1 + np.abs(worth))[moved])
    assert moved.mean() < 0.2


def test_errors_of_means_count_units():
    units = np.repeat(np.arange(40), 25)
    values = RNG.normal(size=40)[units]  # 40 numbers, each 25 times
    mean, error = mean_and_error(values, units)
    _, expected = mean_and_error(values[::25])
    np.testing.assert_allclose([mean, error], [values.mean(), expected], rtol=1e-12)
    assert mean_and_error(values)[1] < error / 4
    # every row a unit of its own is no dependence at all
    np.testing.assert_allclose(mean_and_error(values, np.arange(1000)), mean_and_error(values), rtol=1e-9)


# ---- when nothing is said -------------------------------------------------------------------------------------------


def test_serial_correlation_is_that_of_ranks():
    z = np.cumsum(RNG.normal(size=400)) + RNG.normal(size=400)
    # scipy ranks the two series apart, and has their own means: the same but for the ends
    np.testing.assert_allclose(serial_correlation(z), stats.spearmanr(z[:-1], z[1:]).statistic, atol=0.01)
    assert serial_correlation(np.zeros(50)) == 0.0
    assert serial_correlation(np.zeros(2)) == 0.0


@pytest.mark.parametrize("n", [20, 60, 150])
def test_false_alarms_of_exchangeable_rows(n):
    rng = np.random.default_rng(n)
    draws = 20_000
    z = np.where(rng.random((draws, n)) < 0.5, rng.normal(size=(draws, n)), 3.0)  # with many ties
    ranks = stats.rankdata(z, axis=1) - (n + 1) / 2  # of all rows at once, in a tenth of the time
    correlations = (ranks[:, 1:] * ranks[:, :-1]).sum(axis=1) / (ranks**2).sum(axis=1)
    np.testing.assert_allclose(correlations[:200], [serial_correlation(row) for row in z[:200]], atol=1e-12)
    alarms = sum(is_dependent(correlation, n) for correlation in correlations)
    # a rate of 1 in 1000 has 20 ± 4.5 alarms in 20,000; the Normal approximation is cautious for few rows
    assert alarms <= 20 + 3 * 4.5


def autoregressive(n, rng, correlation=0.9):
    noise = np.empty(n)
    noise[0] = rng.normal()
    for i in range(1, n):
        noise[i] = correlation * noise[i - 1] + np.sqrt(1 - correlation**2) * rng.normal()
    return noise


def test_rows_in_a_row_that_err_alike_are_told_and_kept_apart():
    rng = np.random.default_rng(2)
    n = 600
    hour = np.arange(n, dtype=float)
    y, dist = 2 * autoregressive(n, rng), nc.Normal(np.zeros(n), 2.0)
    # the hours beside it, many, or all but all of them
    options = {"k": (10, 200, 500), "scaling": "standard", "linear": False, "shrinkage": False, "trend": False}
    with pytest.warns(
        nc.DependenceWarning, match=r"correlation of their scores is 0\.[89].*time=\.\.\..*groups"
    ) as told:
        tuning = nc.tune(dist, y, hour, **options)
    assert [warning.filename for warning in told] == [__file__]
    assert "not near in order" in tuning.reason
    assert tuning.chosen.k is None or tuning.chosen.k >= 200  # what an hour tells of others far away is little
    relations = {"none": {"time": False}, "time": {"time": True}, "groups": {"groups": np.arange(n) // 50}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        k = {said: nc.tune(dist, y, hour, **options, **given).chosen.k for said, given in relations.items()}
    assert k.pop("none") <= 20  # the hours beside it
    assert all(size is None or size >= 100 for size in k.values()), k


def test_shuffled_rows_are_quiet_and_scored_as_ever():
    dist, y, space = calibration_set("Normal", 300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = {"k": (20, 100), "scaling": "standard", "trend": False}
        said, unsaid = (nc.tune(dist, y, space, time=time, **options) for time in (False, None))
    np.testing.assert_array_equal(said.table["crps"], unsaid.table["crps"])


def test_uniformity_allows_for_dependence():
    rng = np.random.default_rng(3)
    rejected = {"rows": 0, "units": 0}
    for _ in range(200):
        z = autoregressive(1000, rng, 0.8)
        rejected["rows"] += not is_normal(z, None, None, 0.05)
        rejected["units"] += not is_normal(z, np.arange(1000) * 30 // 1000, None, 0.05)
    assert rejected["rows"] > 80  # of 200, of a model that is right
    assert rejected["units"] <= 24  # 5% of 200 are 10, with a standard deviation of 3; 30 units estimate the effect


def test_without_units_the_test_is_scipys():
    rng = np.random.default_rng(4)
    for shift in (0.0, 0.08, 0.15, 0.4):  # p-values from 0.9 to 1e-8
        z = rng.normal(shift, size=300)
        p = stats.kstest(z, "norm").pvalue
        for level in (p / 3, p * (1 - 1e-9)):
            assert is_normal(z, None, None, level)
        for level in (p * (1 + 1e-9), 3 * p):
            assert not is_normal(z, None, None, level)


def test_unevenness_is_the_statistic_of_cramer_and_von_mises():
    rng = np.random.default_rng(0)
    z = rng.normal(0.2, 1.2, size=300)
    plain = unevenness(z, None, None)
    assert plain == pytest.approx(stats.cramervonmises(z, "norm").statistic)
    assert unevenness(z, None, np.full(300, 0.7)) == pytest.approx(plain)
    assert unevenness(np.repeat(z, 10), np.repeat(np.arange(300), 10), None) < 2 * plain  # copies tell nothing more


def test_of_even_scores_the_mean_unevenness_is_a_sixth():
    rng = np.random.default_rng(0)
    assert np.mean([unevenness(rng.normal(size=50), None, None) for _ in range(2000)]) == pytest.approx(1 / 6, rel=0.06)
