"""Each plot draws the numbers of its table, on the axes it was given."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

import nearcal as nc
from nearcal.reporting.plots._drawing import PALETTE, style

D, P = nc.diagnostics, nc.plots
RNG = np.random.default_rng(1)
N = 400
X, Y = RNG.uniform(size=(N, 2)), RNG.normal(size=N)
WIDE, RIGHT = nc.Normal(np.zeros(N), 2.0), nc.Normal(np.zeros(N), 1.0)
PIT = {"wide": D.pit(WIDE, Y), "right": D.pit(RIGHT, Y)}


def each(make):
    return {name: make(p) for name, p in PIT.items()}


def make_local(p):
    return D.local_pit_histograms(p, X[:, 0] < 0.5, bins=5)


def make_intervals(dist):
    return D.prediction_intervals(dist[:20], Y[:20], X[:20, 0])


EVALUATION = nc.evaluate({"wide": WIDE, "right": RIGHT}, Y, metrics=["width", "pce", "crps"], bootstrap=20)
DENSITIES = D.density_curves({"wide": WIDE[:2], "right": RIGHT[:2]}, 50)
INTERVALS = {"wide": make_intervals(WIDE), "right": make_intervals(RIGHT)}
CASES = {
    "pit_histogram": (P.pit_histogram, D.pit_histogram(PIT["wide"])),
    "pit_histogram, several": (P.pit_histogram, each(D.pit_histogram)),
    "local_pit_histograms": (P.local_pit_histograms, make_local(PIT["wide"])),
    "local_pit_histograms, several": (P.local_pit_histograms, each(make_local)),
    "pit_ecdf": (P.pit_ecdf, D.pit_ecdf(PIT["wide"])),
    "pit_ecdf, several": (P.pit_ecdf, each(D.pit_ecdf)),
    "reliability": (P.reliability, D.reliability(PIT["wide"])),
    "reliability, several": (P.reliability, each(D.reliability)),
    "coverage_map": (P.coverage_map, D.coverage_map(WIDE, Y, X, cells=3)),
    "predictive_density": (P.predictive_density, DENSITIES),
    "prediction_intervals": (P.prediction_intervals, INTERVALS["wide"]),
    "prediction_intervals, several": (P.prediction_intervals, INTERVALS),
    "sharpness": (P.sharpness, EVALUATION),
}


@pytest.mark.parametrize("name", CASES)
def test_draws_on_the_given_axes_and_labels_them(name):
    draw, table = CASES[name]
    figure, ax = plt.subplots()
    assert draw(table, ax) is ax
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    figure.canvas.draw()
    assert draw(table).figure is not figure


@pytest.mark.parametrize("name", [name for name in CASES if "several" in name] + ["predictive_density", "sharpness"])
def test_legend_names_the_methods(name):
    draw, table = CASES[name]
    labels = [text.get_text() for text in draw(table).get_legend().get_texts()]
    assert {"wide", "right"} <= set(labels)


def test_every_plot_is_tested():
    assert {name.partition(",")[0] for name in CASES} == set(P.__all__)


def outlines(ax):
    """Return the (heights, edges) of the drawn outlines, without fills."""
    return [patch.get_data()[:2] for patch in ax.patches if not patch.get_fill()]


def test_histogram_draws_counts_and_band():
    tables = each(D.pit_histogram)
    ax = P.pit_histogram(tables)
    for (heights, edges), table in zip(outlines(ax), tables.values(), strict=True):
        np.testing.assert_array_equal(heights, table["density"])
        np.testing.assert_array_equal(edges, [*table["left"], 1.0])
    (band,) = ax.collections  # both tables have the same
    assert np.ptp(band.get_paths()[0].vertices[:, 1]) == pytest.approx(table["upper"][0] - table["lower"][0])


def test_histograms_of_different_sizes_have_their_own_bands():
    tables = {"all": D.pit_histogram(PIT["wide"]), "few": D.pit_histogram(PIT["wide"][:50])}
    assert len(P.pit_histogram(tables).collections) == 2


def test_local_histograms_stand_side_by_side():
    table = make_local(PIT["wide"])
    ax = P.local_pit_histograms(table, labels=["east", "west"])
    found = outlines(ax)
    np.testing.assert_array_equal(np.concatenate([heights for heights, _ in found]), table["density"])
    assert found[0][1][-1] < found[1][1][0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["east", "west"]


@pytest.mark.parametrize("difference", [True, False])
def test_ecdf_draws_the_table(difference):
    table = D.pit_ecdf(PIT["wide"])
    ax = P.pit_ecdf(table, difference=difference)
    base = table["u"] * difference
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), table["ecdf"] - base)
    corners = ax.collections[0].get_paths()[0].vertices
    assert corners[:, 1].max() == pytest.approx((table["upper"] - base).max())
    assert corners[:, 1].min() == pytest.approx((table["lower"] - base).min())


def test_reliability_draws_shares_and_limits():
    table = D.reliability(PIT["wide"], kind="interval")
    ax = P.reliability(table, kind="interval")
    line, _, (bars,) = ax.containers[0]
    np.testing.assert_array_equal(line.get_xydata(), np.column_stack([table["level"], table["observed"]]))
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, np.column_stack([table["lower"], table["upper"]]))
    assert ax.get_xlabel() == "Nominal coverage"


def test_map_draws_cells_and_marks():
    table = D.coverage_map(nc.Normal(np.zeros(N), np.where(X[:, 0] < 0.5, 9.0, 0.5)), Y, X, cells=3)
    ax = P.coverage_map(table, limits=(0.5, 1.0), colorbar=False)
    cells = ax.collections[0]
    np.testing.assert_array_equal(cells.get_array(), table["coverage"])
    assert cells.get_clim() == (0.5, 1.0)
    corners = np.array([path.vertices.min(axis=0) for path in cells.get_paths()])
    np.testing.assert_array_equal(corners, np.column_stack([table["left_0"], table["left_1"]]))
    assert [len(line.get_xdata()) for line in ax.lines] == [
        np.sum(table["finding"] == word) for word in ("under", "over")
    ]
    assert np.sum(table["finding"] == "under") > 0
    assert len(ax.figure.axes) == 1


def test_densities_are_those_of_the_row():
    ax = P.predictive_density(DENSITIES, row=1, observed=0.7)
    wide, right, observed = ax.lines
    for line, name, dist in ((wide, "wide", WIDE), (right, "right", RIGHT)):
        chosen = (DENSITIES["method"] == name) & (DENSITIES["row"] == 1)
        np.testing.assert_array_equal(line.get_ydata(), DENSITIES["density"][chosen])
        # averaged over a window h = 0.31, which is off by h² f'' / 24 at most
        np.testing.assert_allclose(line.get_ydata(), dist[1].pdf(line.get_xdata()[np.newaxis])[0], atol=2e-3)
    assert observed.get_xdata()[0] == 0.7
    with pytest.raises(nc.InvalidInputError, match="row must be one of the table's, 0 to 1, got 5"):
        P.predictive_density(DENSITIES, row=5)


def test_interval_bars_and_observations():
    ax = P.prediction_intervals(INTERVALS)
    for bars, table in zip(ax.collections, INTERVALS.values(), strict=True):
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        np.testing.assert_array_equal(ends, np.column_stack([table["lower"], table["upper"]]))
    drawn = {line.get_label(): line.get_ydata() for line in ax.lines}
    table = INTERVALS["right"]
    np.testing.assert_array_equal(drawn["missed"], table["y"][~table["covered"]])
    np.testing.assert_array_equal(drawn["covered"], table["y"][table["covered"]])
    low, high = ax.get_ylim()  # moving the bars aside must not hide them
    assert low < INTERVALS["wide"]["lower"].min() < INTERVALS["wide"]["upper"].max() < high


def test_interval_band():
    ax = P.prediction_intervals(INTERVALS, kind="band")
    for index, table in enumerate(INTERVALS.values()):
        np.testing.assert_array_equal(ax.lines[2 * index].get_ydata(), table["lower"])
        np.testing.assert_array_equal(ax.lines[2 * index + 1].get_ydata(), table["upper"])
    assert ax.lines[-1].get_label() == "observed"
    with pytest.raises(nc.InvalidParameterError, match="kind must be one of"):
        P.prediction_intervals(INTERVALS, kind="ribbon")


def test_sharpness_draws_metrics_and_floor():
    ax = P.sharpness(EVALUATION, y="crps", floor=0.1)
    rows = {(row["metric"], row["method"]): row["value"] for row in EVALUATION}
    for container, method in zip(ax.containers, ("wide", "right"), strict=True):
        (x,), (y,) = container[0].get_data()
        assert (x, y) == (rows["width", method], rows["crps", method])
    assert ax.lines[-1].get_label() == "perfect forecast"
    assert ax.lines[-1].get_ydata()[0] == 0.1
    with pytest.raises(nc.InvalidInputError, match="must hold the metric 'rmse', it has width, pce, crps"):
        P.sharpness(EVALUATION, x="rmse")


def test_wrong_tables_name_their_source():
    with pytest.raises(nc.InvalidInputError, match=r"made by nearcal.diagnostics.pit_ecdf: the column 'u' is missing"):
        P.pit_ecdf(D.pit_histogram(PIT["wide"]))
    with pytest.raises(nc.InvalidInputError, match="non-empty mapping"):
        P.reliability({})
    with pytest.raises(nc.InvalidInputError, match=r"nearcal.diagnostics.coverage_map, got dict"):
        P.coverage_map({"a": 1})


@pytest.mark.parametrize("name", CASES)
def test_missing_matplotlib_names_the_extra(name, monkeypatch):
    draw, table = CASES[name]
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(nc.MissingExtraError, match=r"nearcal\[plots\]"):
        draw(table)


def test_methods_differ_without_colour():
    looks = [style(index) for index in range(len(PALETTE))]
    assert len({look.line for look in looks}) == len({look.marker for look in looks}) == len(PALETTE)
    assert style(len(PALETTE)) == style(0)
