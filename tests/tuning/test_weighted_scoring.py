"""Leave-one-out scores of points with weights: those of repeated rows without any copy of the row."""

import numpy as np
import pytest
from scipy import stats

import nearcal as nc
from nearcal._sample_weights import PointWeights
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.space import CalibrationSpace, as_folds
from nearcal.tuning import weighted_scoring
from nearcal.tuning.choice import Comparison, mean_and_error
from nearcal.tuning.row_order import is_normal
from nearcal.tuning.weighted_scoring import WeightedScorer
from tests.tuning.test_scoring import FAMILIES, SMOOTHINGS, N, calibration_set

COPIES = np.where(np.arange(N) % 2 == 0, 1, 3)[np.random.default_rng(0).permutation(N)]  # of mean 2
REPEATED = np.repeat(np.arange(N), COPIES)


def score(dist, y, space, k, weights=COPIES, folds=None, **options):
    """Return the scores of global recalibration, (n,), and of local, (k, smoothings, n)."""
    z, how, points = dist.z(y), nc.Scaling("none"), PointWeights(np.asarray(weights, dtype=np.float64))
    places = {("space", how): CalibrationSpace(space, z, how, k[0] + 1, folds=folds, weights=points)}
    scorer = WeightedScorer(dist, y, CalibrationScores(z, points), places, nc.Workers(**options), folds=folds)
    everyone, local = scorer.score_plain(k, SMOOTHINGS)
    return everyone, np.array(list(local.values())).reshape(len(k), len(SMOOTHINGS), len(y))


def refitted(dist, y, space, make, speakers=None):
    """Return the CRPS of every row under a recalibrator of the repeated rows that may speak for it."""
    scores = []
    for row in range(len(y)):
        others = REPEATED[row != REPEATED]
        if speakers is not None:
            others = others[np.isin(others, speakers[row])]
        fitted = make(len(others)).fit(dist[others], y[others], space[others])
        scores.append(nc.scores.crps(fitted.recalibrate(dist[[row]], space[[row]]), y[[row]])[0])
    return np.array(scores)


@pytest.mark.parametrize("family", [name for name in FAMILIES if "Mixture" not in name])
def test_equal_refitting_on_repeated_rows_without_the_row(family):
    dist, y, space = calibration_set(family)
    everyone, local = score(dist, y, space, (N - 1, 7))
    for i, k in enumerate((N - 1, 7)):
        for j, smoothing in enumerate(SMOOTHINGS):
            expected = refitted(
                dist,
                y,
                space,
                lambda n, k=k, smoothing=smoothing: nc.LocalRecalibrator(min(2 * k, n), smoothing=smoothing),
            )
            np.testing.assert_allclose(local[i, j], expected, rtol=1e-9, err_msg=f"{k} {smoothing}")
    np.testing.assert_allclose(everyone, refitted(dist, y, space, lambda n: nc.GlobalRecalibrator()), rtol=1e-9)


@pytest.mark.parametrize("family", ["Normal", "Gamma, several shapes"])
def test_with_groups_those_who_may_speak_do(family):
    dist, y, space = calibration_set(family)
    groups = np.argsort(np.argsort(COPIES, kind="stable")) % 5  # of the same weight each
    folds = as_folds(groups, None, None, N)
    everyone, local = score(dist, y, space, (10,), folds=folds)
    speakers = {row: fold.speakers for fold in folds.folds for row in fold.rows}
    # as large a share of the weight of four groups as 10 average points, 20 copies, are of that of five
    expected = refitted(dist, y, space, lambda n: nc.LocalRecalibrator(16), speakers)
    np.testing.assert_allclose(local[0, 0], expected, rtol=1e-9)
    expected = refitted(dist, y, space, lambda n: nc.GlobalRecalibrator(), speakers)
    np.testing.assert_allclose(everyone, expected, rtol=1e-9)


@pytest.mark.parametrize("family", ["Normal", "Samples"])
def test_results_do_not_depend_on_threads_or_chunks(family):
    dist, y, space = calibration_set(family, n=105)
    weights = np.where(np.arange(105) % 20 == 0, 8.0, 0.05)
    whole = score(dist, y, space, (100, 10), weights, threads=1)
    parts = score(dist, y, space, (100, 10), weights, threads=2, memory=2**20)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_evenly_spaced_weights_stand_for_all(monkeypatch):
    dist, y, space = calibration_set("Gamma, several shapes", n=900)
    weights = np.random.default_rng(0).gamma(2.0, size=900)
    exact = score(dist, y, space, (5,), weights)[0]
    monkeypatch.setattr(weighted_scoring, "MOST_GLOBAL", 400)
    found = score(dist, y, space, (5,), weights)[0]
    np.testing.assert_allclose(np.average(found, weights=weights), np.average(exact, weights=weights), rtol=3e-4)


# ---- means, errors, tests -------------------------------------------------------------------------------------------


def test_means_and_errors_by_weight():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(3.0, 2.0, size=50), rng.gamma(1.0, size=50)
    shares = weights / weights.sum()
    mean, error = mean_and_error(values, weights=weights)
    size = 1 / (shares**2).sum()
    np.testing.assert_allclose(mean, shares @ values)
    np.testing.assert_allclose(error**2, size / (size - 1) * (shares**2 * (values - mean) ** 2).sum())
    np.testing.assert_allclose(mean_and_error(values, weights=np.full(50, 3.0)), mean_and_error(values), rtol=1e-12)


def test_the_error_is_that_of_drawn_sets():
    """Weights that go with the scores, as those of a shift do: the spread of the mean over many sets is its error."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(3000):
        x = rng.normal(size=200)
        found.append(mean_and_error(np.abs(x) + x, weights=np.exp(0.5 * x)))
    means, errors = np.array(found).T
    # the spread of 3,000 means is known to 1 / √6000 = 1.3%; the error of a ratio of sums is off by a few hundredths
    np.testing.assert_allclose(errors.mean(), means.std(), rtol=0.06)


def test_errors_of_units_by_weight():
    rng = np.random.default_rng(2)
    values, weights, units = rng.normal(size=40), rng.gamma(1.0, size=40), np.arange(40) // 4
    shares = weights / weights.sum()
    mean, error = mean_and_error(values, units, weights)
    of_units = np.array([shares[units == u].sum() for u in range(10)])
    sums = np.array([(shares * (values - mean))[units == u].sum() for u in range(10)])
    size = 1 / (of_units**2).sum()
    np.testing.assert_allclose(error**2, size / (size - 1) * (sums**2).sum())
    np.testing.assert_allclose(mean_and_error(values, np.arange(40), weights), mean_and_error(values, weights=weights))


def test_comparison_by_weight():
    scores, weights = np.array([[1.0, 5.0, 1.0], [2.0, 2.0, 2.0]]), np.array([1.0, 8.0, 1.0])
    assert Comparison.of(scores).best == 1  # 7/3 against 2
    assert Comparison.of(scores, weights=np.array([8.0, 1.0, 8.0])).best == 0
    np.testing.assert_allclose(Comparison.of(scores, weights=weights).mean, [4.2, 2.0])


def test_kolmogorov_smirnov_by_weight():
    rng = np.random.default_rng(3)
    x = rng.normal(size=2000)
    weights = np.exp(x - 0.5)  # makes it N(1, 1)
    assert is_normal(x - 1, None, weights / weights.mean(), 0.05)
    assert not is_normal(x - 1, None, None, 1e-6)
    assert not is_normal(x, None, weights / weights.mean(), 1e-6)
    p = stats.kstest(x, "norm").pvalue
    assert is_normal(x, None, np.full(2000, 1.0), p * (1 - 1e-6))
    assert not is_normal(x, None, np.full(2000, 1.0), p * (1 + 1e-6))


# ---- the choice -----------------------------------------------------------------------------------------------------


def two_populations(n=400):
    """Errors of rows of one kind depend on the first column, those of the other on nothing."""
    rng = np.random.default_rng(4)
    x, kind = rng.uniform(-2, 2, size=(n, 2)), rng.random(n) < 0.5
    y = rng.normal(0, np.where(kind, np.exp(1.5 * x[:, 0]), 1.0))
    return nc.Normal(np.zeros(n), 1.0), y, x, kind


@pytest.mark.parametrize(
    "relation", [{"time": False}, {"groups": np.arange(400) // 4}, {"time": True}], ids=["none", "groups", "time"]
)
def test_the_choice_is_made_for_what_counts(relation):
    dist, y, x, kind = two_populations()
    options = {"k": (20, 60), "scaling": "standard", "smoothing": "epanechnikov", "trend": False, **relation}
    mostly = [nc.tune(dist, y, x, sample_weight=np.where(kind == own, 1.0, 1e-4), **options) for own in (True, False)]
    assert mostly[0].chosen.kind == "local"
    assert mostly[1].chosen.kind == "none"


def test_rows_without_a_weight_are_out_of_groups_and_time_too():
    dist, y, x, kind = two_populations(n := 200)
    kept, weights = np.flatnonzero(kind), np.where(kind, 1.0 + np.arange(n) % 3, 0.0)
    groups, days = np.arange(n) // 7, np.arange(n) * np.timedelta64(1, "D") + np.datetime64("2020-01-01")
    for whole, part in (
        ({"groups": groups}, {"groups": groups[kept]}),
        ({"time": days}, {"time": days[kept]}),
        ({"time": True}, {"time": kept}),
    ):
        options = {"k": 20, "scaling": "standard", "smoothing": "epanechnikov"}
        found = nc.tune(dist, y, x, sample_weight=weights, **options, **whole)
        expected = nc.tune(dist[kept], y[kept], x[kept], sample_weight=weights[kept], **options, **part)
        assert found.chosen == expected.chosen
        np.testing.assert_array_equal(found.table["crps"], expected.table["crps"])


def test_tuned_table_is_the_weighted_mean():
    """The table against refits of the repeated rows."""
    dist, y, space = calibration_set()
    tuning = nc.tune(
        dist, y, space, k=7, smoothing="uniform", scaling="none", linear=False, shrinkage=False, trend=False,
        time=False, sample_weight=COPIES,
    )  # fmt: skip
    table = dict(zip(tuning.table["kind"], tuning.table["crps"], strict=True))
    local = refitted(dist, y, space, lambda n: nc.LocalRecalibrator(14, smoothing="uniform"))
    np.testing.assert_allclose(table["local"], np.average(local, weights=COPIES), rtol=1e-9)
    np.testing.assert_allclose(table["none"], np.average(nc.scores.crps(dist, y), weights=COPIES), rtol=1e-12)
