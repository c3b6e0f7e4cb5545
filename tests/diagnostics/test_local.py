"""Regions and the local diagnostics."""

from functools import cache

import numpy as np
import pytest
from scipy import stats

import nearcal as nc
from nearcal.diagnostics._conditional_coverage import densest_window
from nearcal.diagnostics.groups import adjust

D = nc.diagnostics


def heteroscedastic(n, seed, d=2):
    """Right on average: too narrow where the first coordinate is low, too wide elsewhere."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, d))
    return nc.Normal(np.zeros(n), 1.5), rng.normal(0.0, np.where(x[:, 0] < 0.3, 3.0, 1.0)), x


def calibrated(n, seed, d=2):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, d))
    scale = 0.5 + x[:, 0]
    return nc.Normal(np.zeros(n), scale), rng.normal(0.0, scale), x


# ---- regions ----------------------------------------------------------------------------------------------------


def test_kmeans_partitions_the_rows():
    x = np.random.default_rng(1).normal(size=(300, 3)) * [1.0, 100.0, 0.01]
    regions = D.kmeans_regions(x, 7, rng=2)
    assert sorted(np.concatenate(regions.rows)) == list(range(300))
    np.testing.assert_array_equal(regions.rows[0], D.kmeans_regions(x, 7, rng=2).rows[0])
    np.testing.assert_allclose(regions.centers[2], x[regions.rows[2]].mean(axis=0))


def test_kmeans_with_fewer_places_than_clusters():
    regions = D.kmeans_regions(np.repeat([0.0, 1.0], 10), 5)
    assert len(regions.rows) == 2


def test_nearest_rows():
    x = np.random.default_rng(1).normal(size=(200, 2))
    regions = D.nearest_regions(x, x[:3], k=20)
    distance = np.linalg.norm((x - x[1]) / x.std(axis=0), axis=1)
    np.testing.assert_array_equal(regions.rows[1], np.sort(np.argsort(distance)[:20]))


def test_bad_regions():
    dist, y, x = calibrated(50, 1)
    with pytest.raises(nc.InvalidInputError, match="space must be given"):
        D.local_calibration(dist, y)
    with pytest.raises(nc.InvalidParameterError, match="regions must be at most the number of rows, 50, got 51"):
        D.local_calibration(dist, y, x, regions=51)
    with pytest.raises(nc.InvalidInputError, match="one label for each of the 50 rows"):
        D.local_calibration(dist, y, regions=["a"] * 49)
    with pytest.raises(nc.InvalidInputError, match="cut a number into classes first"):
        D.group_coverage(dist, y, x[:, 0])
    with pytest.raises(nc.InvalidInputError, match="refer to rows below 50"):
        D.local_calibration(dist, y, regions=D.kmeans_regions(np.arange(60.0), 3))


# ---- corrections ------------------------------------------------------------------------------------------------


def test_corrections():
    p = np.array([0.01, 0.04, 0.03, 0.5])
    np.testing.assert_allclose(adjust(p, "fdr"), stats.false_discovery_control(p))
    np.testing.assert_allclose(adjust(p, "holm"), [0.04, 0.09, 0.09, 0.5])
    np.testing.assert_array_equal(adjust(p, "none"), p)


# ---- tables -----------------------------------------------------------------------------------------------------


def test_local_calibration_says_where_and_how():
    dist, y, x = heteroscedastic(3000, 1, d=1)
    found = D.local_calibration(dist, y, x, regions=np.where(x[:, 0] < 0.3, "low", "high"), correction="holm")
    assert found["finding"].tolist() == ["too wide", "too narrow"]
    biased = D.local_calibration(nc.Normal(np.full(3000, 2.0), 1.5), y, x, regions=3)
    assert all("too high" in finding for finding in biased["finding"])
    right = D.local_calibration(*calibrated(3000, 2), regions=10)
    assert set(right["finding"]) == {"ok"}


def test_group_coverage_and_gap():
    dist, y, x = heteroscedastic(4000, 3)
    groups = np.where(x[:, 0] < 0.3, "low", "high")
    table = D.group_coverage(dist, y, groups)
    expected = [stats.norm.cdf(1.96 * 1.5 / s) * 2 - 1 for s in (1.0, 3.0)]
    assert np.all((table["lower"] < expected) & (expected < table["upper"]))
    assert table["p_adjusted"].max() < 1e-6
    gap = D.coverage_gap(dist, y, groups)
    assert gap["worst"][0] == "low"
    assert gap["mean_gap"][0] == pytest.approx(np.abs(table["gap"]).mean())
    right = D.coverage_gap(*calibrated(4000, 4)[:2], 10, calibrated(4000, 4)[2])
    assert right["mean_gap"][0] < 2 * right["floor"][0]


def test_densest_window_by_brute_force():
    rng = np.random.default_rng(5)
    for least in (1, 3, 10, 40):
        hits = rng.uniform(size=40) < 0.3
        windows = [(hits[a:b].mean(), a, b) for a in range(40) for b in range(a + least, 41)]
        share, start, stop = densest_window(hits, least)
        assert share == pytest.approx(max(windows)[0], abs=1e-12)
        assert hits[start:stop].mean() == pytest.approx(share)
        assert stop - start >= least


def test_worst_slab():
    bad = D.worst_slab_coverage(*heteroscedastic(4000, 6))
    # the slab x < 0.3 has coverage 2 Φ(0.98) - 1 = 0.67
    assert bad["coverage"][0] == pytest.approx(0.67, abs=0.08)
    assert bad["p_value"][0] < 1e-6
    right = D.worst_slab_coverage(*calibrated(4000, 7))
    # an honest split: within 3.3 standard errors of nominal, though the searched slab looks worse
    assert right["coverage"][0] > 0.95 - 3.3 * np.sqrt(0.95 * 0.05 / right["n"][0])
    assert right["searched"][0] < right["coverage"][0]
    with pytest.raises(nc.InvalidParameterError, match="mass must lie strictly between 0 and 1"):
        D.worst_slab_coverage(*calibrated(50, 7), mass=1.0)


def test_width_dependence():
    rng = np.random.default_rng(8)
    scale = rng.uniform(1, 3, size=1500)
    wrong = D.width_dependence(nc.Normal(np.zeros(1500), scale), rng.normal(size=1500) * 1.5)
    assert wrong["value"][0] < 0
    assert wrong["p_value"].max() < 0.01
    dist, y, _ = calibrated(1500, 9)
    assert D.width_dependence(dist, y)["p_value"].min() > 0.01
    flat = D.width_dependence(nc.Normal(np.zeros(1500), 1.0), y)
    assert flat["value"].tolist() == [0.0, 0.0]
    assert flat["p_value"].tolist() == [1.0, 1.0]


def test_hsic_by_its_definition():
    from nearcal.diagnostics._conditional_coverage import _hsic

    rng = np.random.default_rng(10)
    width, miss = rng.uniform(size=30), (rng.uniform(size=30) < 0.4).astype(float)
    rank = np.argsort(np.argsort(width)) / 30
    squared = np.subtract.outer(rank, rank) ** 2
    k = np.exp(-squared / (2 * np.median(squared[squared > 0])))
    same = np.equal.outer(miss, miss).astype(float)
    h = np.eye(30) - 1 / 30
    assert _hsic(width, miss, 9, rng)[0] == pytest.approx(np.trace(k @ h @ same @ h) / 30**2, rel=1e-10)


def test_excess_risk():
    sklearn = pytest.importorskip("sklearn.linear_model")
    dist, y, x = heteroscedastic(2000, 11)
    logistic = sklearn.LogisticRegression()
    assert D.excess_risk(dist, y, x, classifier=logistic)["p_value"].max() < 1e-3
    assert D.excess_risk(*calibrated(2000, 12), classifier=logistic)["p_value"].min() > 0.01
    always = D.excess_risk(nc.Normal(np.zeros(2000), 100.0), y, x, classifier=logistic)
    assert np.all(np.isfinite(always["excess_risk"]))


@cache
def attainable_size(n, coverage, level, alternative):
    """Return how often an exact binomial test of n rows rejects at the level: less than it, as counts are discrete."""
    hits = np.arange(n + 1)
    p_values = [stats.binomtest(h, n, coverage, alternative=alternative).pvalue for h in hits]
    return stats.binom.pmf(hits, n, coverage)[np.array(p_values) < level].sum()


def assert_as_often_as(expected, rejected):
    """Check a count of rejections against the probability of each: the central 99.9% of its distribution."""
    expected = np.broadcast_to(expected, len(rejected))
    bound = stats.norm.isf(0.0005) * np.sqrt((expected * (1 - expected)).sum())
    assert abs(np.sum(rejected) - expected.sum()) <= bound, (np.sum(rejected), expected.sum(), bound)


@pytest.mark.slow
def test_sizes_of_local_tests():
    rng = np.random.default_rng(13)
    rejected = {"local": [], "group": [], "pearson": [], "hsic": [], "slab": []}
    group_sizes, slab_sizes = [], []
    for _ in range(2000):
        x = rng.uniform(size=200)
        dist, y = nc.Normal(np.zeros(200), 0.5 + x), rng.normal(0.0, 0.5 + x)
        regions = np.minimum((4 * x).astype(int), 3)
        local = D.local_calibration(dist, y, regions=regions, correction="holm")
        rejected["local"].append(local["p_adjusted"].min() < 0.05)
        groups = D.group_coverage(dist, y, regions, coverage=0.8, correction="holm")
        rejected["group"].append(groups["p_adjusted"].min() < 0.05)
        sizes = [attainable_size(n, 0.8, 0.05 / 4, "two-sided") for n in groups["n"].tolist()]
        group_sizes.append(1 - np.prod(1 - np.array(sizes)))
        pearson, hsic = D.width_dependence(dist, y, permutations=99, rng=rng, coverage=0.8)["p_value"] <= 0.05
        rejected["pearson"].append(pearson)
        rejected["hsic"].append(hsic)
        slab = D.worst_slab_coverage(dist, y, x, rng=rng, coverage=0.8, mass=0.3)
        rejected["slab"].append(slab["p_value"][0] < 0.05)
        slab_sizes.append(attainable_size(int(slab["n"][0]), 0.8, 0.05, "less"))
    # permutation tests are exact; Holm rejects something when the least of four independent p-values is below 1.25%;
    # binomial tests have the size that whole numbers of misses allow
    assert_as_often_as(0.05, rejected["pearson"])
    assert_as_often_as(0.05, rejected["hsic"])
    assert_as_often_as(1 - (1 - 0.05 / 4) ** 4, rejected["local"])
    assert_as_often_as(np.array(group_sizes), rejected["group"])
    assert_as_often_as(np.array(slab_sizes), rejected["slab"])


@pytest.mark.slow
def test_size_of_excess_risk():
    logistic = pytest.importorskip("sklearn.linear_model").LogisticRegression()
    tables = [D.excess_risk(*calibrated(300, seed), coverage=0.8, classifier=logistic, folds=3) for seed in range(2000)]
    for loss in range(2):
        assert_as_often_as(0.05, [table["p_value"][loss] < 0.05 for table in tables])


def test_centers_of_regions_of_huge_numbers():
    regions = nc.diagnostics.kmeans_regions([1e308, 1.2e308, -1e308, -1.2e308], 2)
    np.testing.assert_allclose(regions.centers[:, 0], [-1.1e308, 1.1e308], rtol=1e-15)


def test_excess_risk_in_l1_is_that_of_covmetrics():
    covmetrics, losses = (pytest.importorskip(f"covmetrics.{name}") for name in ("ERT", "losses"))
    logistic = pytest.importorskip("sklearn.linear_model").LogisticRegression
    dist, y, x = heteroscedastic(3000, 11)
    lower, upper = dist.interval(0.9)
    covered = (lower <= y) & (y <= upper)
    table = D.excess_risk(dist, y, x, coverage=0.9, classifier=logistic())
    theirs = covmetrics.ERT(logistic).evaluate_multiple_losses(
        x, covered.astype(float), 0.1, all_losses=[losses.brier_score, losses.L1_miscoverage]
    )
    # other folds, and so a difference of the size of the sampling error of what a fold learns
    np.testing.assert_allclose(table["excess_risk"][2], theirs["ERT_L1_miscoverage"], rtol=0.1)
    np.testing.assert_allclose(table["excess_risk"][0], theirs["ERT_brier_score"], rtol=0.1)


def test_conditional_measures_in_the_table():
    dist, y, x = heteroscedastic(3000, 6)
    table = nc.evaluate({"bad": dist}, y, x, 0.9, metrics=["worst_slab_coverage", "excess_risk"])
    found = dict(zip(table["metric"].tolist(), table["value"].tolist(), strict=True))
    slab = D.worst_slab_coverage(dist, y, x, coverage=0.9, directions=200)["coverage"][0]
    assert abs(found["worst_slab_coverage"] - slab) < 0.1
    assert found["excess_risk"] > 0.03
    assert (table["se"] > 0).all()
    with pytest.raises(nc.InvalidInputError, match="space must be given"):
        nc.evaluate(dist, y, metrics=["excess_risk"])
