"""The before and after table."""

import numpy as np
import pandas as pd
import pytest

import nearcal as nc

RNG = np.random.default_rng(1)
N = 800
X = RNG.uniform(size=(N, 2))
Y = RNG.normal(size=N)
DISTS = {"wide": nc.Normal(np.zeros(N), 2.0), "right": nc.Normal(np.zeros(N), 1.0)}


def rows(table):
    return {(row["metric"], row["method"]): row for row in table}


def test_values_are_those_of_the_scores():
    found = rows(nc.evaluate(DISTS, Y, X, coverage=0.9))
    dist = DISTS["right"]
    expected = {
        "crps": nc.scores.crps(dist, Y).mean(),
        "log_score": nc.scores.log_score(dist, Y).mean(),
        "rmse": np.sqrt(nc.scores.squared_error(dist, Y).mean()),
        "interval_score": nc.scores.interval_score(dist, Y, 0.9).mean(),
        "coverage": nc.diagnostics.coverage(dist, Y, [0.9])["coverage"][0],
        "pce": nc.diagnostics.pce(nc.diagnostics.pit(dist, Y)),
        "ks_p_value": nc.diagnostics.uniformity_tests(nc.diagnostics.pit(dist, Y))["p_value"][0],
    }
    for metric, value in expected.items():
        assert found[metric, "right"]["value"] == pytest.approx(value, rel=1e-12)
    assert len(found) == 20


def test_standard_errors_are_paired():
    found = rows(nc.evaluate(DISTS, Y, bootstrap=2000))
    first, second = (nc.scores.crps(dist, Y) for dist in DISTS.values())
    # a bootstrap of 2,000 has a relative error of 1.6% in a standard error
    assert found["crps", "right"]["se"] == pytest.approx(second.std() / np.sqrt(N), rel=0.08)
    assert found["crps", "right"]["difference"] == pytest.approx((second - first).mean(), rel=1e-12)
    assert found["crps", "right"]["difference_se"] == pytest.approx((second - first).std() / np.sqrt(N), rel=0.08)
    assert np.isnan(found["crps", "wide"]["difference"])
    assert found["rmse", "right"]["difference"] == 0.0
    assert found["rmse", "right"]["difference_se"] == 0.0


def test_standard_errors_count_groups():
    groups = np.repeat(np.arange(80), 10)
    y, dists = Y[:80][groups], {"wide": nc.Normal(np.zeros(800), 2.0), "right": nc.Normal(np.zeros(800), 1.0)}
    found = rows(nc.evaluate(dists, y, bootstrap=2000, groups=groups))
    once = nc.scores.crps(dists["right"][:80], Y[:80])
    # 80 numbers, each ten times; a bootstrap of 2,000 has a relative error of 1.6% in a standard error
    assert found["crps", "right"]["se"] == pytest.approx(once.std() / np.sqrt(80), rel=0.08)
    naive = rows(nc.evaluate(dists, y, bootstrap=2000))
    assert found["crps", "right"]["value"] == naive["crps", "right"]["value"]
    assert found["crps", "right"]["se"] > 2 * naive["crps", "right"]["se"]
    assert found["ks_p_value", "right"]["value"] > naive["ks_p_value", "right"]["value"]


def test_standard_errors_count_stretches_of_time():
    rng = np.random.default_rng(2)
    count, n = 200, 1200
    spread, errors, naive = [], [], []
    for _ in range(count):
        z = rng.normal(size=n)
        for i in range(1, n):  # neighbours correlate with 0.8: the mean has 9 times the variance of independent rows'
            z[i] = 0.8 * z[i - 1] + 0.6 * z[i]
        covered = rows(nc.evaluate(nc.Normal(np.zeros(n), 1.0), z, metrics=["coverage"], time=True, bootstrap=100))
        plain = rows(nc.evaluate(nc.Normal(np.zeros(n), 1.0), z, metrics=["coverage"], bootstrap=100))
        spread.append(covered["coverage", "predictions"]["value"])
        errors.append(covered["coverage", "predictions"]["se"])
        naive.append(plain["coverage", "predictions"]["se"])
    # the spread of 200 values is known to 5%, and stretches of 40 rows lose a little of the correlation
    assert np.mean(errors) == pytest.approx(np.std(spread), rel=0.2)
    assert np.mean(naive) < 0.75 * np.std(spread)


def test_time_in_any_order_is_the_same_and_not_both():
    when = np.random.default_rng(3).permutation(N)
    sorted_rows = np.argsort(when)
    found = nc.evaluate(DISTS, Y, time=when)
    same = nc.evaluate({name: dist[sorted_rows] for name, dist in DISTS.items()}, Y[sorted_rows], time=True)
    np.testing.assert_allclose(found["se"], same["se"], rtol=1e-9)
    with pytest.raises(nc.InvalidParameterError, match="give groups or time, got both"):
        nc.evaluate(DISTS, Y, time=when, groups=when)


def test_regions_need_a_space_or_labels():
    without = nc.evaluate(DISTS, Y)
    assert "worst_region_coverage" not in without["metric"]
    by_label = rows(nc.evaluate(DISTS, Y, regions=np.where(X[:, 0] < 0.5, "a", "b")))
    groups = nc.diagnostics.group_coverage(DISTS["right"], Y, np.where(X[:, 0] < 0.5, "a", "b"))
    assert by_label["worst_region_coverage", "right"]["value"] == pytest.approx(groups["coverage"].min())
    with pytest.raises(nc.InvalidInputError, match="space must be given for the metric"):
        nc.evaluate(DISTS, Y, metrics=["worst_region_coverage"])


@pytest.mark.parametrize("n", [1, 3])
def test_fewer_rows_than_regions_are_regions_each(n):
    """Nobody who leaves the number open is told that there are too many."""
    dists = {name: dist[:n] for name, dist in DISTS.items()}
    regional = ["worst_region_coverage", "regional_coverage_error"]
    found = nc.evaluate(dists, Y[:n], X[:n], metrics=regional)
    by_row = nc.evaluate(dists, Y[:n], regions=np.arange(n), metrics=regional)
    np.testing.assert_array_equal(found["value"], by_row["value"])
    with pytest.raises(nc.InvalidParameterError, match=f"regions must be at most the number of rows, {n}, got 10"):
        nc.evaluate(dists, Y[:n], X[:n], regions=10)


def test_infinite_scores_are_shown_without_errors():
    cauchy = {"heavy": nc.StudentT(1.0, np.zeros(N), 1.0), "right": DISTS["right"]}
    table = nc.evaluate(cauchy, Y, metrics=["crps", "log_score"])
    assert np.isinf(table["value"][0])
    assert np.isnan(table["se"][0])
    assert "inf" in str(table)


class WithoutDensity(nc.Normal):
    """A distribution that says it has no density."""

    has_density = False

    def logpdf(self, y):
        raise nc.InvalidInputError("this distribution has no density")


def test_the_log_score_is_left_out_where_there_is_no_density():
    dists = {"right": DISTS["right"], "atoms": WithoutDensity(np.zeros(N), 1.0)}
    found = nc.evaluate(dists, Y)
    values = rows(found)
    assert np.isfinite(values["log_score", "right"]["value"])
    assert all(np.isnan(values["log_score", "atoms"][name]) for name in ("value", "se", "difference", "difference_se"))
    assert values["crps", "atoms"]["value"] == values["crps", "right"]["value"]
    assert str(found).endswith("log_score is blank where a distribution has atoms and no density")
    assert "blank" not in str(nc.evaluate(DISTS, Y))
    with pytest.raises(nc.InvalidInputError, match="this distribution has no density"):
        nc.scores.log_score(dists["atoms"], Y)
    with pytest.raises(nc.InvalidInputError, match="this distribution has no density"):
        nc.scores.kl_divergence(dists["right"], dists["atoms"])


def test_prints_and_converts():
    table = nc.evaluate(DISTS, Y, X, metrics=["crps", "pce"], bootstrap=20)
    assert str(table).splitlines()[0].split() == ["metric", "wide", "right", "right", "-", "wide"]
    assert table.to_pandas().shape == (4, 6)
    assert str(nc.evaluate(DISTS, Y, rng=3)) == str(nc.evaluate(DISTS, Y, rng=3))


@pytest.mark.parametrize(
    ("dists", "message"),
    [
        ({}, "dists must be a distribution or a non-empty mapping"),
        ([DISTS["right"]], "dists must be a distribution or a non-empty mapping"),
        ({1: DISTS["right"], "1": DISTS["right"]}, "dists must have names that differ as text, got 1, '1'"),
        ({"a": DISTS["right"], "a\0": DISTS["right"]}, "dists must have names that differ as text, got 'a', 'a"),
        ({"a": DISTS["right"], "b": nc.Normal(0.0, 1.0)}, "dists must all have 800 rows"),
        ({"a": 3.0}, "must be a nearcal distribution"),
    ],
)
def test_bad_input(dists, message):
    with pytest.raises(nc.InvalidInputError, match=message):
        nc.evaluate(dists, Y)


def test_categories_are_regions():
    town = np.where(X[:, 0] < 0.3, "a", "b")
    for space in (town, town.astype(object), pd.Series(town, dtype="category"), pd.DataFrame({"town": town})):
        assert str(nc.evaluate(DISTS, Y, space)) == str(nc.evaluate(DISTS, Y, regions=town))
    with pytest.raises(nc.InvalidInputError, match="one column of categories, got 2 columns, some of them text"):
        nc.evaluate(DISTS, Y, pd.DataFrame({"town": town, "x": X[:, 0]}))
    with pytest.raises(nc.InvalidInputError, match="at most 1000 categories, each a region, got 1500"):
        nc.evaluate(nc.Normal(np.zeros(1500), 1.0), np.zeros(1500), [f"row {j}" for j in range(1500)])


def test_one_distribution_and_names_that_are_numbers():
    assert set(nc.evaluate(DISTS["right"], Y)["method"]) == {"predictions"}
    assert "2 - 1" in str(nc.evaluate({1: DISTS["wide"], 2: DISTS["right"]}, Y))


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_errors_whose_squares_are_no_numbers(size):
    usual = rows(nc.evaluate(DISTS["wide"], Y, metrics=["rmse", "crps", "width"]))
    found = rows(nc.evaluate(nc.Normal(np.zeros(N), 2 * size), Y * size, metrics=["rmse", "crps", "width"]))
    for key, row in usual.items():
        assert found[key]["value"] == pytest.approx(row["value"] * size, rel=1e-9)
        assert found[key]["se"] == pytest.approx(row["se"] * size, rel=1e-9, abs=1e-12 * size)


def test_methods_of_any_name_are_printed():
    dist = nc.Normal(np.zeros(50), 1.0)
    y = np.random.default_rng(0).normal(size=50)
    table = nc.evaluate({"metric": dist, "b": dist, "b - metric": dist}, y, metrics=["crps", "coverage"])
    first, *lines = str(table).splitlines()
    assert first.split() == [
        "metric",
        "metric",
        "b",
        "b",
        "-",
        "metric",
        "b",
        "-",
        "metric",
        "b",
        "-",
        "metric",
        "-",
        "metric",
    ]
    assert len(lines) == 2


def test_faded_rows_are_counted_where_a_method_fades():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=400)
    y = rng.normal(size=400)
    base = nc.Normal(np.zeros(400), 1.0)
    local = nc.LocalRecalibrator(k=50, corrections=(nc.Fade(),)).fit(base, y, x)
    out = local.recalibrate(base[:100], np.append(x[:95] * 0.9 + 0.05, np.full(5, 9.0)))
    faded = nc.evaluate({"base": base[:100], "local": out}, y[:100], bootstrap=10)
    (row,) = [row for row in faded if row["metric"] == "faded" and row["method"] == "local"]
    assert row["value"] == (out.trust < 1).mean() >= 0.05
    assert np.isnan([row["value"] for row in faded if row["metric"] == "faded" and row["method"] == "base"]).all()
    assert "faded is the share of rows unlike the calibration set" in str(faded)
    plain = nc.evaluate(
        {"base": base[:100], "local": local.recalibrate(base[:100], x[:100]).base}, y[:100], bootstrap=10
    )
    assert "faded" not in plain["metric"]
