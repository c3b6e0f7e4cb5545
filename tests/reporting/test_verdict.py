"""The words follow from the truth: calibrated, wrong everywhere, wrong in places, mended, spoilt, too few rows."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import nearcal as nc
from nearcal.diagnostics import Regions
from nearcal.reporting._judgement import Grade, Observed, all_rows, detectable_gap, grade, judge
from nearcal.reporting._verdict import Change, Method, decide
from tests.reporting.cases import make

N = 4000


def questions(report):
    return {answer.question: answer for answer in report.verdict.answers}


def after(kind):
    """The distributions of another kind of the same rows."""
    return make(N, 1, kind)[0]


def test_calibrated():
    dist, y, features = make(N, 2, "right")
    found = nc.report(dist, y, features=features)
    assert found.verdict.headline == "No sign of miscalibration"
    assert questions(found)["Calibrated overall?"].mood == "good"
    assert questions(found)["Calibrated everywhere?"].mood == "good"
    assert "Mended?" not in questions(found)


def test_wrong_everywhere():
    dist, y, features = make(N, 1, "wide")
    found = nc.report(dist, y, features=features)
    assert found.verdict.headline == "Not calibrated"
    assert "too wide" in questions(found)["Calibrated overall?"].text
    # 2 Φ(1.6 · 1.645) - 1 = 99.2%
    assert found.evaluation["value"][found.evaluation["metric"] == "coverage"] == pytest.approx(0.992, abs=0.006)
    assert "what holds overall holds everywhere" in questions(found)["Calibrated everywhere?"].text


def test_wrong_in_places_is_found_and_named():
    dist, y, features = make(N, 1, "places")
    found = nc.report(dist, y, features=features)
    regions = {row["region"]: row for row in found.regions}
    assert set(regions) == {"x ≤ 0.7", "x > 0.7"}
    assert regions["x > 0.7"]["first_finding"] == "too narrow"
    assert regions["x ≤ 0.7"]["first_finding"] == "too wide"
    # 2 Φ(1.645 · 1.5 / 3) - 1 = 58.9%
    assert regions["x > 0.7"]["first_lower"] < 0.589 < regions["x > 0.7"]["first_upper"]
    assert found.verdict.lead.startswith("Where x > 0.7, 90% intervals of “predictions” cover ")


def test_mended():
    dist, y, features = make(N, 1, "places")
    found = nc.report({"base": dist, "better": after("right")}, y, features=features)
    assert found.verdict.headline.endswith(", mended by recalibration")
    assert questions(found)["Mended?"].text.startswith("Yes: nothing is clearly off any more.")
    assert "(CRPS) falls by" in questions(found)["Mended?"].text
    assert set(found.regions["last_grade"]) == {"fine"}


def test_not_mended_and_spoilt():
    dist, y, features = make(N, 1, "places")
    same = nc.report({"base": dist, "same": dist}, y, features=features)
    assert same.verdict.headline == "Recalibration did not mend it"
    assert "does not change measurably" in questions(same)["Mended?"].text
    spoilt = nc.report({"base": after("right"), "worse": dist}, y, features=features)
    assert spoilt.verdict.headline.startswith("Worse after recalibration: the error of the predictions (CRPS) rose")


def test_a_lower_coverage_is_never_called_better():
    # regions get right one by one while the rest gets worse: coverage falls from 88% to 26% and the error rises
    rng = np.random.default_rng(1)
    x, y = rng.uniform(size=(N, 2)), rng.normal(size=N)
    g = x[:, 0] < 0.25
    before, after = nc.Normal(np.full(N, 0.4), 1.0), nc.Normal(np.where(g, 0.0, 2.0), np.where(g, 1.0, 0.2))
    found = nc.report({"before": before, "after": after}, y, x)
    assert found.verdict.headline == (
        "Worse after recalibration: the error of the predictions (CRPS) rose and the overall coverage moved away from "
        "90%"
    )
    assert found.verdict.mood == "bad"
    assert questions(found)["Mended?"].text.startswith("No.")
    # the other way round the score and the coverage get better, and the region that was right gets wrong
    back = nc.report({"before": after, "after": before}, y, x)
    assert back.verdict.headline.startswith("Not mended by recalibration: the error of the predictions (CRPS) fell")
    assert ", but more regions are clearly off" in back.verdict.headline


def test_a_region_that_is_harmed_is_told_whatever_else_got_better():
    """The error fell, the overall coverage rose and one of two regions got right, while the other covers 6%."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(N, 2)), rng.normal(size=N)
    is_narrow = x[:, 0] > 0.85
    before, after = nc.Normal(np.full(N, 1.5), 1.0), nc.Normal(np.zeros(N), np.where(is_narrow, 0.05, 1.0))
    found = nc.report({"before": before, "after": after}, y, x)
    figures = {row["metric"]: row["difference"] for row in found.evaluation if row["method"] == "after"}
    assert figures["worst_region_coverage"] < -0.4  # what no word may contradict
    assert found.verdict.headline == (
        "Not mended by recalibration: the error of the predictions (CRPS) fell, the overall coverage came nearer to "
        "90% and fewer regions are clearly off, but the coverage of a region moved away from 90%"
    )
    assert found.verdict.lead.startswith("Where x0 > 0.85")
    assert questions(found)["Mended?"].text.startswith("In part. Where x0 > 0.85, 90% intervals covered 59.9% before")
    assert "1 of 2 regions is clearly off" in questions(found)["Calibrated everywhere, “after”?"].text


def test_a_coverage_that_moves_away_alone_is_worse():
    # a spread where the density is: the score hardly changes, the coverage does
    rng = np.random.default_rng(2)
    y = rng.normal(size=20_000)
    right, narrow = nc.Normal(np.zeros(len(y)), 1.0), nc.Normal(np.zeros(len(y)), 0.95)
    found = nc.report({"right": right, "narrow": narrow}, y)
    assert found.verdict.headline.startswith("Worse after recalibration: ")
    assert "the overall coverage moved away from 90%" in found.verdict.headline
    assert nc.report({"narrow": narrow, "right": right}, y).verdict.mood == "good"


@pytest.mark.parametrize(
    ("score", "regions", "expected"),
    [
        ((-0.1, 0.01), (2, 1), "Better after recalibration, but not mended"),
        ((0.0, 0.01), (2, 1), "Better after recalibration, but not mended"),
        ((0.0, 0.01), (2, 2), "Recalibration did not mend it"),
        ((0.1, 0.01), (2, 1), "Worse after recalibration: the error of the predictions (CRPS) rose"),
        ((0.1, 0.01), (2, 0), "(CRPS) rose, though nothing is clearly off any more"),
        ((np.inf, np.nan), (2, 2), "Worse after recalibration: the error of the predictions (CRPS) rose"),
        ((0.0, 0.01), (1, 2), "Worse after recalibration: more regions are clearly off"),
        (
            (-0.1, 0.01),
            (1, 2),
            "Not mended by recalibration: the error of the predictions (CRPS) fell, but more regions",
        ),
        ((0.1, 0.01), (0, 0), "Worse after recalibration: the error of the predictions (CRPS) rose"),
        ((-0.1, 0.01), (2, 0), "Right on average but wrong in places, mended by recalibration"),
    ],
)
def test_the_headline_weighs_score_and_regions(score, regions, expected):
    dist, y, _ = make(N, 2, "right")
    observed = Observed.of(dist, y, 0.9, None, 0)
    overall = replace(judge(observed, all_rows(N))[0], grade=Grade.FINE)
    methods = []
    for name, clear in zip(("before", "after"), regions, strict=True):
        grades = [Grade.CLEAR] * clear + [Grade.FINE] * (2 - clear)
        judged = [replace(overall, region=str(j), grade=one) for j, one in enumerate(grades)]
        methods.append(Method(name, observed, overall, judged))
    verdict = decide(methods, Change(*score))
    assert expected in verdict.headline
    assert ("Worse" in verdict.headline) == (verdict.headline.startswith("Worse"))


def test_words_about_width_follow_the_coverage():
    # a few outliers make the scores spread by more than 1 while 90% intervals cover more than 90%
    y = 1.1 * np.random.default_rng(3).standard_t(2.5, size=N)
    dist = nc.Normal(np.zeros(N), 2.2)
    assert dist.z(y).std() > 1.0
    found = nc.report(dist, y)
    assert found.evaluation["value"][found.evaluation["metric"] == "coverage"][0] > 0.93
    assert "Predictions are too wide." in questions(found)["Calibrated overall?"].text
    table = nc.diagnostics.local_calibration(dist, y, regions=np.zeros(N, dtype=int), coverage=0.9)
    assert table["finding"].tolist() == ["too wide"]


@pytest.mark.parametrize("seed", range(20))
def test_no_word_contradicts_the_coverage_beside_it(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(50, 2000))
    y = rng.standard_t(rng.uniform(1.5, 10), size=n) * rng.uniform(0.5, 2) + rng.normal(0, 0.5)
    observed = Observed.of(nc.Normal(np.zeros(n), 1.0), y, 0.9, None, 0)
    one = judge(observed, all_rows(n))[0]
    assert not ("too narrow" in one.finding and one.coverage >= 0.9)
    assert not ("too wide" in one.finding and one.coverage <= 0.9)


def test_a_feature_of_unique_texts_describes_nothing():
    dist, y, features = make(N, 1, "places")
    names = [f"person {j}" for j in range(N)]
    found = nc.report(dist, y, features={"name": names})
    assert found.regions["region"].tolist() == ["all rows"]
    both = nc.report(dist, y, features={**features, "name": names})
    assert both.regions["region"].tolist() == nc.report(dist, y, features=features).regions["region"].tolist()


def test_few_rows_are_not_enough_to_acquit():
    dist, y, features = make(60, 3, "right")
    found = nc.report(dist, y, features=features)
    assert found.verdict.headline == "No sign of miscalibration, though there are too few rows to rule it out"
    assert "percentage points" in questions(found)["How sure is this?"].text


def test_without_features_nothing_is_said_of_regions():
    dist, y, _ = make(500, 1, "right")
    found = nc.report(dist, y)
    assert questions(found)["Calibrated everywhere?"].text.startswith("Not looked at")
    assert len(found.regions) == 0


def test_grades_need_evidence_and_size():
    assert grade(0.2, 0.5, 0.5) == Grade.FINE
    assert grade(0.01, 0.04, 0.02) == Grade.SLIGHT
    assert grade(0.01, 0.06, 0.0) == Grade.CLEAR
    assert grade(0.01, 0.0, -0.04) == Grade.CLEAR


def test_regions_are_judged_by_two_tests_and_holm():
    rng = np.random.default_rng(4)
    dist, y = nc.Normal(np.zeros(600), 1.0), rng.normal(0.0, 1.15, size=600)
    observed = Observed.of(dist, y, 0.8, None, 0)
    rows = (np.arange(200), np.arange(200, 600))
    found = judge(observed, Regions(np.array(["a", "b"]), rows))
    raw = []
    for members in rows:
        frosini = nc.diagnostics.uniformity_tests(observed.pit[members], ["frosini"])["p_value"][0]
        binomial = stats.binomtest(int(observed.covered[members].sum()), len(members), 0.8).pvalue
        raw.append(min(1.0, 2 * min(frosini, binomial)))
    small, large = sorted(raw)
    expected = {small: min(1.0, 2 * small), large: min(1.0, max(2 * small, large))}
    assert [one.p_value for one in found] == pytest.approx([expected[p] for p in raw])
    interval = stats.binomtest(int(observed.covered[:200].sum()), 200).proportion_ci()
    assert (found[0].lower, found[0].upper) == pytest.approx((interval.low, interval.high))


def test_the_sampling_error_of_calibration_rows_is_allowed_for():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 3000))
    dist = nc.Normal(np.zeros(1500), 1.0)
    out = nc.LocalRecalibrator(k=100).fit(dist, y[:1500], x[:1500]).recalibrate(dist, x[1500:])
    assert Observed.of(out, y[1500:], 0.9, None, 0).n_cal == 1500
    assert Observed.of(dist, y[1500:], 0.9, None, 0).n_cal is None
    found = nc.report({"base": dist, "local": out}, y[1500:], x[1500:])
    assert "sampling error of 1,500 calibration rows" in questions(found)["How sure is this?"].text


def test_the_detectable_gap_is_detected_four_times_in_five():
    observed = Observed.of(*make(10, 1, "right")[:2], 0.9, None, 0)
    gap = detectable_gap(observed, 2000)
    critical = stats.norm.isf(0.0125)
    power = stats.norm.cdf(gap / np.sqrt(0.09 / 2000) - critical)
    assert power == pytest.approx(0.8)


@pytest.mark.slow
def test_a_calibrated_model_is_rarely_accused():
    # one family of tests overall and one over regions, each at 5% and discrete tests conservative: at most 10%
    accused = 0
    for seed in range(200):
        dist, y, features = make(1000, seed, "right")
        observed = Observed.of(dist, y, 0.9, None, 0)
        regions = nc.diagnostics.described_regions(dist, y, features, rng=seed)
        everything = Regions(np.array(["all"]), (np.arange(1000),))
        judged = [*judge(observed, regions), *judge(observed, everything)]
        accused += any(one.grade != Grade.FINE for one in judged)
    assert accused <= stats.binom.ppf(0.9995, 200, 0.1)


@pytest.mark.parametrize(("coverage", "is_sure"), [(0.9, True), (0.86, True), (0.84, False), (0.97, False)])
def test_mended_is_not_said_of_a_region_that_looks_off(coverage, is_sure):
    """ "Mended" stood above a region of 89.7% for 95% intervals, whose few rows prove nothing."""
    dist, y, _ = make(N, 2, "right")
    observed = Observed.of(dist, y, 0.9, None, 0)
    overall = replace(judge(observed, all_rows(N))[0], grade=Grade.FINE)
    small = replace(overall, region="x > 1", n=50, coverage=coverage, grade=Grade.FINE)
    bad = replace(small, coverage=0.5, grade=Grade.CLEAR)
    methods = [Method("before", observed, overall, [bad]), Method("after", observed, overall, [small])]
    verdict = decide(methods, Change(-0.1, 0.01))
    assert verdict.headline.endswith("mended by recalibration" + ("" if is_sure else " as far as can be told"))
    (answer,) = [answer for answer in verdict.answers if answer.question == "Mended?"]
    assert answer.mood == verdict.mood == ("good" if is_sure else "fair")
    assert (f"where x > 1, 90% intervals still cover {100 * coverage:.0f}%" in answer.text) != is_sure


def test_an_error_of_rounding_is_none():
    """Widths that are equal in all rows had a standard error of 1e-15 in print."""
    found = nc.evaluate(nc.Normal(np.zeros(300), 1.0), make(300, 1, "right")[1], metrics=["width"])
    assert str(found).endswith("3.92 ± 0")


@pytest.mark.parametrize("far", [0, 100, 2000])
def test_rows_unlike_the_calibration_set_are_told(far):
    dist, y, features = make(N, 2, "right")
    out = nc.GlobalRecalibrator(quantile_rule="predictive").fit(dist, y, None).recalibrate(dist, None)
    out = out.faded(np.where(np.arange(N) < far, 0.0, 1.0))
    with pytest.warns(nc.OutOfDistributionWarning) if far == 2000 else nullcontext():
        found = nc.report({"base": dist, "after": out}, y, features=features)
    answer = questions(found)["Are these rows like the calibration set?"]
    assert answer.mood == ("bad" if far == 2000 else "good")
    assert f"{far:,} of 4,000 rows" in answer.text
    assert answer.text.startswith("No: " if far == 2000 else "Yes")
    assert ("many rows are unlike the calibration set" in found.verdict.headline) == (far == 2000)
    assert answer.text in found.text
    assert "Are these rows" not in str(nc.report(dist, y, features=features).verdict)


def test_rows_in_time_are_worth_fewer():
    rng = np.random.default_rng(5)
    n = 1500
    z = np.cumsum(rng.normal(size=n)) / 20
    z = (z - z.mean()) / z.std()  # right on average, and slow: a few swings in all
    dist = nc.Normal(np.zeros(n), 1.2)
    naive, allowed = nc.report(dist, z), nc.report(dist, z, time=True)
    assert "Worth as many independent rows" in allowed.html
    assert "Worth as many independent rows" not in naive.html
    rows = {name: {row["metric"]: row for row in page.evaluation} for name, page in (("n", naive), ("a", allowed))}
    assert rows["a"]["crps"]["value"] == rows["n"]["crps"]["value"]
    assert rows["a"]["crps"]["se"] > 2 * rows["n"]["crps"]["se"]
    assert naive.verdict.headline == "Not calibrated"
    assert allowed.verdict.headline != "Not calibrated"
