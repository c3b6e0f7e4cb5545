"""Tables to be drawn, against independent computations."""

import numpy as np
import pytest
from scipy import stats

import nearcal as nc
from nearcal.diagnostics._pit_tables import probability_inside
from nearcal.diagnostics.uniformity import cramer_von_mises_sf

D = nc.diagnostics


class WithoutDensity(nc.Samples):
    """Draws that have atoms and no density, as they say."""

    has_density = False

    def logpdf(self, y):
        raise nc.InvalidInputError("no density")


def test_histogram_counts_and_band():
    p = np.random.default_rng(1).uniform(size=300)
    table = D.pit_histogram(p, bins=8, band=0.9)
    assert table["count"].tolist() == [int(np.sum((p >= j / 8) & (p < (j + 1) / 8))) for j in range(8)]
    np.testing.assert_allclose(table["density"], table["count"] * 8 / 300)
    pmf = stats.binom.pmf(np.arange(301), 300, 1 / 8)
    low, high = round(table["lower"][0] * 300 / 8), round(table["upper"][0] * 300 / 8)
    assert pmf[low : high + 1].sum() >= 1 - 0.1 / 8 > pmf[low + 1 : high].sum()


def test_histogram_band_holds_all_bars():
    rng = np.random.default_rng(2)
    counts = rng.multinomial(500, np.full(10, 0.1), size=4000) * 10 / 500
    table = D.pit_histogram(rng.uniform(size=500), bins=10)
    inside = ((counts >= table["lower"]) & (counts <= table["upper"])).all(axis=1).mean()
    # Bonferroni on whole counts: at least 0.95, less three binomial standard errors, and not far above
    assert 0.95 - 3 * np.sqrt(0.05 * 0.95 / 4000) < inside < 0.98


def test_ones_and_zeros_are_counted():
    assert D.pit_histogram([0.0, 1.0], bins=2)["count"].tolist() == [1, 1]


def test_local_histograms_are_histograms_of_the_parts():
    p, x = np.random.default_rng(3).uniform(size=(2, 200))
    regions = D.nearest_regions(x, [0.1, 0.8], k=50)
    table = D.local_pit_histograms(p, regions, bins=5)
    for region, rows in enumerate(regions.rows):
        alone, chosen = D.pit_histogram(p[rows], bins=5), table["region"] == region
        for name in alone.columns:
            np.testing.assert_array_equal(table[name][chosen], alone[name])
    with pytest.raises(nc.InvalidInputError, match=r"use nearcal\.diagnostics\.kmeans_regions"):
        D.local_pit_histograms(p, 3)


def test_probability_inside_by_enumeration():
    # three uniform values, counts below 1/2 within [1, 2]: 3 · 2 / 8
    assert probability_inside(3, np.array([0, 1, 3]), np.array([0, 2, 3])) == pytest.approx(0.75, rel=1e-12)
    # four points: sum the multinomial law over all counts that stay inside
    n, low, high = 5, np.array([0, 0, 1, 3, 5]), np.array([0, 2, 4, 5, 5])
    total = 0.0
    for a in range(n + 1):
        for b in range(n + 1 - a):
            for c in range(n + 1 - a - b):
                counts = np.array([0, a, a + b, a + b + c, n])
                if (counts >= low).all() and (counts <= high).all():
                    total += stats.multinomial.pmf([a, b, c, n - a - b - c], n, [0.25] * 4)
    assert probability_inside(n, low, high) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("n", [40, 1000])
def test_ecdf_band_holds_the_whole(n):
    rng = np.random.default_rng(4)
    table = D.pit_ecdf(rng.uniform(size=n), points=50)
    counts = np.cumsum(rng.multinomial(n, np.full(50, 0.02), size=4000), axis=1) / n
    inside = ((counts >= table["lower"][1:] - 1e-9) & (counts <= table["upper"][1:] + 1e-9)).all(axis=1).mean()
    # three binomial standard errors below 0.95; counts of 40 values are coarse, so the band may hold up to 0.97
    assert 0.95 - 3 * np.sqrt(0.05 * 0.95 / 4000) < inside < 0.97
    assert table["lower"][0] == table["upper"][0] == 0.0
    assert table["lower"][-1] == table["upper"][-1] == 1.0


def test_ecdf_by_counting():
    p = np.random.default_rng(5).uniform(size=77)
    table = D.pit_ecdf(p, points=10)
    np.testing.assert_allclose(table["ecdf"], [(p <= u).mean() for u in np.arange(11) / 10])


def test_reliability_against_scipy():
    dist, y = nc.Normal(np.zeros(150), 1.5), np.random.default_rng(6).normal(size=150)
    p, levels = D.pit(dist, y), [0.05, 0.5, 0.9]
    table = D.reliability(p, levels)
    np.testing.assert_allclose(table["observed"], (y[:, np.newaxis] <= dist.ppf(levels)).mean(axis=0))
    for row in table:
        expected = stats.binomtest(round(row["observed"] * 150), 150).proportion_ci(0.95)
        assert (row["lower"], row["upper"]) == pytest.approx((expected.low, expected.high), rel=1e-10)
    inside = D.reliability(p, levels, kind="interval")["observed"]
    np.testing.assert_allclose(inside, D.coverage(dist, y, levels)["coverage"])


def test_reliability_limits_at_the_ends():
    table = D.reliability([0.5, 0.6, 0.7], [0.1, 0.9])
    assert table["lower"][0] == 0.0
    assert table["upper"][1] == 1.0
    with pytest.raises(nc.InvalidInputError, match="levels must be numbers strictly between 0 and 1"):
        D.reliability([0.5], [0.0])


def test_coverage_map_by_counting():
    rng = np.random.default_rng(7)
    space, y = rng.uniform(size=(2000, 2)), rng.normal(size=2000)
    scale = np.where(space[:, 1] < 0.5, 0.5, 1.0)
    table = D.coverage_map(nc.Normal(np.zeros(2000), scale), y, space, cells=4, coverage=0.9)
    assert len(table) == 16
    assert table["n"].sum() == 2000
    hit = np.abs(y) <= scale * stats.norm.ppf(0.95)
    for row in table:
        inside = (space[:, 0] >= row["left_0"]) & (space[:, 0] < row["right_0"])
        inside &= (space[:, 1] >= row["left_1"]) & (space[:, 1] < row["right_1"])
        assert row["coverage"] == pytest.approx(hit[inside].mean(), abs=0.02)  # the largest value is in the last cell
    low = table["left_1"] < 0.45
    assert set(table["finding"][low]) == {"under"}
    assert set(table["finding"][~low]) == {"ok"}


def test_coverage_map_leaves_thin_cells_out_and_wants_two_columns():
    space = np.column_stack([np.append(np.linspace(0, 1, 99), 9.0), np.zeros(100)])
    dist, y = nc.Normal(np.zeros(100), 1.0), np.zeros(100)
    assert D.coverage_map(dist, y, space, cells=3)["n"].tolist() == [99]
    with pytest.raises(nc.InvalidInputError, match="space must have 2 columns to be mapped, got 1"):
        D.coverage_map(dist, y, np.zeros(100))
    with pytest.raises(nc.InvalidInputError, match="no cell has 200 rows, the fullest has 99"):
        D.coverage_map(dist, y, space, cells=3, least=200)


def test_density_curves_are_densities_averaged_over_windows():
    dists = {"a": nc.Normal([0.0, 5.0], 1.0), "b": nc.Normal([0.0, 5.0], [2.0, 0.5])}
    table = D.density_curves(dists, 80, window=0.1)
    for name, dist in dists.items():
        for row in range(2):
            chosen = (table["method"] == name) & (table["row"] == row)
            y = table["y"][chosen]
            ends = y + 0.05 * np.array([[-1], [1]]) * np.ptp(y)
            mass = np.diff(stats.norm.cdf(ends, dist.mean()[row], dist.std()[row]), axis=0)[0]
            np.testing.assert_allclose(table["density"][chosen], mass / (0.1 * np.ptp(y)), rtol=1e-10, atol=1e-13)
    assert table["y"][table["row"] == 0].min() == pytest.approx(2 * stats.norm.ppf(0.001))
    # a narrow window is the density itself, up to h² f'' / 24 and what cancels
    fine = D.density_curves(dists, 80, window=1e-3)
    chosen = (fine["method"] == "a") & (fine["row"] == 0)
    np.testing.assert_allclose(fine["density"][chosen], stats.norm.pdf(fine["y"][chosen]), rtol=1e-3, atol=1e-12)
    with pytest.raises(nc.InvalidInputError, match="same rows"):
        D.density_curves({"a": dists["a"], "b": dists["b"][0]})
    with pytest.raises(nc.InvalidParameterError, match="window must lie strictly between 0 and 1, got 0"):
        D.density_curves(dists, window=0)


def test_density_curves_of_draws_need_no_density():
    rng = np.random.default_rng(3)
    draws = WithoutDensity(rng.normal(size=(1, 1000)), tails="empirical")
    table = D.density_curves({"draws": draws})
    # the mean of 1,000 draws in a window of 0.15: a standard error of 0.05 at the top; their sum is all probability
    np.testing.assert_allclose(table["density"], stats.norm.pdf(table["y"]), atol=0.25)
    assert np.trapezoid(table["density"], table["y"]) == pytest.approx(1.0, abs=0.03)
    same = D.density_curves({"point": WithoutDensity([[2.0, 2.0]], tails="empirical")}, 3)
    assert same["density"] == pytest.approx(1 / 0.025)


def test_intervals_are_sorted_and_judged():
    table = D.prediction_intervals(nc.Normal([3.0, 1.0, 2.0], 1.0), [3.0, 9.0, 2.0], [0.3, 0.1, 0.2], coverage=0.9)
    assert table["x"].tolist() == [0.1, 0.2, 0.3]
    assert table["covered"].tolist() == [False, True, True]
    np.testing.assert_allclose(table["upper"] - table["median"], stats.norm.ppf(0.95))


def test_cramer_von_mises_limit_against_scipy():
    # the limit's 10%, 5% and 1% points; python -c "from scipy.stats._hypotests import _cdf_cvm_inf as f;
    # print(1 - f(0.34730), 1 - f(0.46136), 1 - f(0.74346))" prints 0.100003 0.0500004 0.00999996 with scipy 1.17
    found = [cramer_von_mises_sf(x) for x in (0.34730, 0.46136, 0.74346)]
    np.testing.assert_allclose(found, [0.1, 0.05, 0.01], rtol=1e-4)
    assert cramer_von_mises_sf(0.001) == 1.0
