"""Tuning: what it chooses on problems of known truth, what it returns and builds, the table, options and errors."""

import numpy as np
import pytest
import threadpoolctl

import nearcal as nc
from nearcal.space import calibration_space, scaling, search
from nearcal.tuning.choosing import Menu

PLAIN = {"linear": False, "shrinkage": False, "trend": False}
N = 400


@pytest.fixture(scope="module")
def problem():
    """A model with one σ for data whose spread depends on the first of two columns."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, size=(N, 2))
    y = rng.normal(x.sum(axis=1), np.exp(2 * x[:, 0]))
    return nc.Normal(x.sum(axis=1), y.std()), y, {"right": x[:, :1], "both": x, "wrong": x[:, 1:]}


def test_the_informative_space_is_found(problem):
    dist, y, spaces = problem
    tuning = nc.tune(dist, y, spaces, scaling="none", rule="best")
    assert tuning.chosen.kind == "local"
    assert tuning.chosen.space == "right"
    others = tuning.table["crps"][tuning.table["space"] != "right"]
    assert tuning.table["crps"].min() < others.min()


def test_linear_algebra_has_one_thread_meanwhile_and_then_as_many_as_before(problem):
    def threads():
        return {one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"}

    dist, y, spaces = problem
    seen = set()
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        workers = nc.Workers(progress=lambda done, total: seen.update(threads()))
        nc.tune(dist[:50], y[:50], spaces["both"][:50], k=20, **PLAIN, workers=workers)
        assert threads() == {2}
    assert seen == {1}


def test_the_table_holds_what_refitting_gives(problem):
    dist, y, spaces = problem
    few = slice(0, 40)
    space = spaces["both"][few]
    table = nc.tune(dist[few], y[few], space, k=[5, 20], smoothing="triangular", scaling="none", **PLAIN).table
    assert len(table) == 4
    for row in table:
        scores = []
        for i in range(40):
            others = np.arange(40) != i
            recalibrator = {
                "none": nc.IdentityRecalibrator(),
                "global": nc.GlobalRecalibrator(),
                "local": nc.LocalRecalibrator(int(np.nan_to_num(row["k"])), smoothing="triangular"),
            }[row["kind"]]
            fitted = recalibrator.fit(dist[few][others], y[few][others], space[others])
            scores.append(nc.scores.crps(fitted.recalibrate(dist[i], space[[i]]), y[[i]])[0])
        assert row["crps"] == pytest.approx(np.mean(scores), rel=1e-10)
        assert row["std_error"] == pytest.approx(np.std(scores, ddof=1) / np.sqrt(40), rel=1e-10)


def test_a_perfect_model_is_left_alone():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 3))
    tuning = nc.tune(nc.Normal(x[:, 0], 1.0), rng.normal(x[:, 0], 1.0), x)
    assert tuning.chosen == nc.Candidate("none")
    assert "no recalibration" in tuning.reason
    assert isinstance(tuning.recalibrator, nc.IdentityRecalibrator)
    assert tuning.recalibrator.n_cal_ == 500
    base = nc.Normal([3.0], 1.0)
    out = tuning.recalibrator.recalibrate(base, [[0.0, 0.0, 0.0]])
    for statistic in (lambda d: d.ppf([0.1, 0.9]), lambda d: d.logpdf(1.0), lambda d: d.z(1.0), lambda d: d.std()):
        np.testing.assert_array_equal(statistic(out), statistic(base))


def test_a_model_wrong_everywhere_alike_is_mended_globally():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 3))
    dist, y = nc.Normal(x[:, 0] + 1, 3.0), rng.normal(x[:, 0], 1.0)
    for rule in ("predictive", "step"):
        tuning = nc.tune(dist, y, x, k=(50, 200), scaling="standard", quantile_rule=rule)
        assert tuning.chosen == nc.Candidate("global")
        assert repr(tuning.recalibrator) == repr(nc.GlobalRecalibrator(quantile_rule=rule))
        by_hand = nc.GlobalRecalibrator(quantile_rule=rule).fit(dist, y)
        p = [0.01, 0.5, 0.9]
        np.testing.assert_array_equal(tuning.recalibrator.recalibrate(dist).ppf(p), by_hand.recalibrate(dist).ppf(p))


def test_a_base_without_a_mean_has_an_infinite_score_and_is_never_chosen():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1))
    tuning = nc.tune(nc.StudentT(0.9, x[:, 0], 1.0), rng.normal(x[:, 0], 1.0), x)
    assert tuning.table["crps"][0] == np.inf
    assert np.isnan(tuning.table["difference_std_error"][0])
    assert tuning.chosen.kind != "none"


def test_neighbourhoods_larger_than_the_set_are_left_out():
    rng = np.random.default_rng(0)
    dist, y, x = nc.Normal(np.zeros(12), 1.0), rng.normal(size=12), rng.normal(size=(12, 2))
    table = nc.tune(dist, y, x, k=(3, 11, 12, 500)).table
    assert set(table["k"][~np.isnan(table["k"])]) == {3.0, 11.0}
    assert nc.tune(dist[:9], y[:9], x[:9]).table["kind"].tolist() == ["none", "global"]  # the usual k begin at 10
    assert len(nc.tune(dist[:2], y[:2], x[:2], k=1, scaling="none", **PLAIN).table) == 4


def test_components_are_offered_where_a_space_is_wider(problem):
    dist, y, spaces = problem
    wide = {"wide": np.hstack([spaces["both"], 0.1 * np.random.default_rng(0).normal(size=(N, 8))]), **spaces}
    table = nc.tune(dist, y, wide, k=50, smoothing="uniform", scaling="none", components=(None, 2, 20), **PLAIN).table
    offered = {(row["space"], row["components"]) for row in table if row["components"] == row["components"]}
    assert offered == {("wide", 2.0)}


def test_the_first_components_of_a_space_with_two_wide_directions_do_as_well_as_those_two(problem):
    dist, y, spaces = problem
    noise = 0.01 * np.random.default_rng(0).normal(size=(N, 8))
    wide = {"two": spaces["both"], "ten": np.hstack([spaces["both"], noise])}
    table = nc.tune(dist, y, wide, k=50, smoothing="uniform", scaling="none", components=(None, 2), **PLAIN).table
    two, _, reduced = table["crps"][2:]
    assert reduced == pytest.approx(two, rel=1e-3)


def test_whitening_is_left_out_where_it_is_impossible_or_standard_scaling():
    rng = np.random.default_rng(0)
    spaces = {"line": rng.normal(size=30), "dead": np.full((30, 4), 0.1), "plane": rng.normal(size=(30, 2))}
    dist, y = nc.Normal(np.zeros(30), 1.0), rng.normal(size=30)
    table = nc.tune(dist, y, spaces, k=5, smoothing="uniform", scaling=("standard", "whiten"), **PLAIN).table
    tried = list(zip(table["space"].tolist(), table["scaling"].tolist(), strict=True))[2:]
    assert tried == [("line", "standard"), ("dead", "standard"), ("plane", "standard"), ("plane", "whiten")]
    assert len(nc.tune(dist, y, spaces, k=5, smoothing="uniform", scaling="whiten", **PLAIN).table) == 4


def test_whitening_needs_five_points_a_column_unless_it_is_all_there_is():
    rng = np.random.default_rng(0)
    spaces = {"six": rng.normal(size=(34, 6)), "seven": rng.normal(size=(34, 7))}
    dist, y = nc.Normal(np.zeros(34), 1.0), rng.normal(size=34)
    options = {"k": 5, "smoothing": "uniform", **PLAIN}

    def tried(**more):
        table = nc.tune(dist, y, spaces, **options, **more).table
        return [row["space"] for row in table if row["scaling"] == "whiten"]

    assert tried(scaling=("standard", "whiten")) == ["six"]
    assert tried(scaling=("standard", "whiten"), components=6) == ["six", "seven"]
    assert tried(scaling="whiten") == ["six", "seven"]


def test_progress(problem, capsys):
    pytest.importorskip("rich")
    dist, y, spaces = problem
    calls = []
    workers = nc.Workers(progress=lambda done, total: calls.append((done, total)))
    tuning = nc.tune(dist, y, spaces["both"], k=10, workers=workers)
    # all rows once, those of three local-linear, three with a trend, three with both and two shrunk candidates again
    assert calls[-1] == (12 * N, 12 * N)
    assert {total for _, total in calls} == {12 * N}
    assert all(done > 0 for done, _ in calls)  # what is tried next is no news to a function of numbers
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    calls.clear()
    tuning.recalibrator.recalibrate(dist[:5], spaces["both"][:5]).mean()
    assert not calls  # what was chosen is not followed any more
    nc.tune(dist, y, spaces["both"], k=10, scaling="none", trend=False, workers=nc.Workers(progress=True))
    shown = " ".join(capsys.readouterr().err.split())
    assert "choosing how to recalibrate" in shown
    assert "k=10" in shown


def test_progress_of_a_race_is_one_count():
    rng = np.random.default_rng(8)
    x, calls = rng.normal(size=(500, 3)), []
    spaces = {str(i): np.roll(x, i, axis=1) ** (i % 2 + 1) for i in range(5)}
    workers = nc.Workers(progress=lambda done, total: calls.append((done, total)))
    nc.tune(nc.Normal(x[:, 0], 1.0), rng.normal(size=500), spaces, k=20, **PLAIN, workers=workers)
    assert [total for _, total in calls] == [500] * len(calls)
    done = [done for done, _ in calls]
    assert done == sorted(done)
    assert 250 in done
    assert done[-1] == 500


ERRORS = {
    "k": ({"k": 0}, "k must be a whole number >= 1, got 0"),
    "k of several": ({"k": (10, 2.5)}, "k must be a whole number >= 1, got 2.5"),
    "k in words": ({"k": "many"}, "k must be a whole number >= 1, got 'many'"),
    "no k": ({"k": ()}, "k must hold at least one option, got none"),
    "no smoothing": ({"smoothing": []}, "smoothing must hold at least one option, got none"),
    "k of nobody": (
        {"k": [5, 5000]},
        "k must be below the number of calibration points, 5, to leave one out, got 5 at least",
    ),
    "smoothing": ({"smoothing": "box"}, "smoothing must be one of 'epanechnikov', .*, got 'box'"),
    "scaling": ({"scaling": ("none", "minmax")}, "scaling must be one of 'none', .*, got 'minmax'"),
    "auto among others": ({"scaling": ("none", "auto")}, "scaling must be one of 'none', .*, got 'auto'"),
    "components": ({"components": (None, 0)}, "components must be a whole number >= 1, got 0"),
    "linear": ({"linear": "yes"}, "linear must be one of False, True, got 'yes'"),
    "shrinkage": ({"shrinkage": (True, None)}, "shrinkage must be one of False, True, got None"),
    "polish": ({"polish": "yes"}, "polish must be True, False or \"auto\", got 'yes'"),
    "polish of several": ({"polish": (True, False)}, r"polish must be True, False or \"auto\", got \(True, False\)"),
    "polish of steps": (
        {"polish": True, "quantile_rule": "step"},
        r"polish=True needs a continuous quantile_rule, one of \('interpolated', 'predictive'\), got 'step'",
    ),
    "quantile rule": ({"quantile_rule": "median"}, "quantile_rule must be one of 'step', .*, got 'median'"),
    "rule": ({"rule": "first"}, "rule must be one of .*, got 'first'"),
    "workers": ({"workers": 2}, r"workers must be nearcal.Workers\(.*, got 2"),
    "rows": ({"spaces": {"input": np.zeros((3, 2))}}, r"spaces\['input'\] must have 5 rows"),
    "no space": ({"spaces": {}}, "spaces must name at least one space"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    options, message = ERRORS[case]
    options = {"spaces": np.arange(5.0), **options}
    with pytest.raises((nc.InvalidParameterError, nc.InvalidInputError), match=message):
        nc.tune(nc.Normal(np.zeros(5), 1.0), np.arange(5.0), **options)


def test_one_row_cannot_be_left_out():
    with pytest.raises(nc.InvalidInputError, match="at least 2 responses"):
        nc.tune(nc.Normal([0.0], 1.0), [0.1], [[1.0]])


def test_more_components_than_columns_are_all():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 3)), rng.normal(size=100)
    table = nc.tune(nc.Normal(np.zeros(100), 1.0), y, x, k=10, components=(2, 3, 20), **PLAIN).table
    components = table["components"][table["kind"] == "local"]
    assert np.isnan(components).sum() == (components == 2).sum() == len(components) / 2


def drifting(n, d=12):
    """A mean that drifts along one of many columns."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(n, d))
    return nc.Normal(np.zeros(n), 1.5), rng.normal(2 * x[:, 0], 1.0), x


def test_local_linear_and_relevance_are_found_where_they_pay():
    tuning = nc.tune(*drifting(400), rule="best", trend=False)
    assert tuning.chosen.scaling == "relevance"
    assert tuning.chosen.linear
    assert "local-linear" in str(tuning.chosen)
    assert isinstance(tuning.recalibrator.corrections[0], nc.LocalLinear)
    assert set(tuning.table["linear"][tuning.table["kind"] == "local"]) == {False, True}
    assert not tuning.table["linear"][tuning.table["kind"] != "local"].any()
    assert tuning.table["shrinkage"].sum() == 2


def test_of_many_rows_three_candidates_with_corrections_of_a_kind_are_scored_on_all():
    dist, y, x = drifting(1100, 3)
    options = {"k": (20, 50, 100, 200), "smoothing": "biweight", "scaling": ("standard", "whiten")}
    table = nc.tune(dist, y, x, **options, shrinkage=False).table
    assert (table["linear"] & ~table["trend"]).sum() == 8
    for trend in (False, True):
        assert (table["rows"][table["linear"] & (table["trend"] == trend)] == 1100).sum() <= 3
    assert set(table["rows"].tolist()) <= {250, 1000, 1100}


def test_a_race_ends_with_the_choice_of_those_who_do_not_race():
    """A spread that one column tells and the others do not: one candidate is clearly the best of its space."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, size=(1500, 3))
    y = rng.normal(0.0, np.where(x[:, 0] > 0, 3.0, 0.3))
    spaces = {"told": x[:, :1], "untold": x[:, 1:]}
    options = {"k": (5, 150, 1200), "smoothing": "uniform", "scaling": "standard", "rule": "best", **PLAIN}
    options["distilled"] = False
    tunings = {
        effort: nc.tune(nc.Normal(np.zeros(1500), 2.0), y, spaces, effort=effort, **options)
        for effort in ("quick", "default", "thorough")
    }
    for effort, fewest in {"quick": 100, "default": 250, "thorough": 1500}.items():
        tuning = tunings[effort]
        assert tuning.chosen == nc.Candidate("local", "told", "standard", None, 150, "uniform"), effort
        assert tuning.table["rows"].min() == fewest
        assert len(tuning.table) == len(tunings["thorough"].table)


def test_a_race_repeats_itself(problem):
    dist, y, spaces = problem
    two = {name: spaces[name] for name in ("right", "both")}
    one, other = (nc.tune(dist, y, two, k=(20, 100), workers=nc.Workers(threads=threads)) for threads in (1, 2))
    assert one.chosen == other.chosen
    for name, column in one.table.columns.items():
        np.testing.assert_array_equal(other.table[name], column)


def test_what_there_was_no_time_for_is_said(problem):
    dist, y, spaces = problem
    tuning = nc.tune(dist, y, spaces, k=20, seconds=1e-9)
    assert (
        "; no time was left to try 'wrong' with scaling 'standard', 'both' with scaling 'standard', 'both' with "
        "scaling 'whiten', 'both' with scaling 'relevance', space 'right', k=20, "
    ) in tuning.reason
    assert tuning.reason.endswith(", shrinkage.")
    assert {row["space"] for row in tuning.table if row["kind"] == "local"} == {"right"}
    options = {"k": 20, "scaling": "standard", "trend": False}
    enough = nc.tune(dist, y, spaces, **options, seconds=1e6)
    assert enough.chosen == nc.tune(dist, y, spaces, **options).chosen
    assert "no time" not in enough.reason


def test_without_a_space_to_look_in_there_is_no_race():
    y = np.random.default_rng(0).normal(size=400)
    tuning = nc.tune(nc.Normal(np.zeros(400), 1.0), y, np.ones((400, 2)), scaling="whiten")
    assert tuning.table["kind"].tolist() == ["none", "global"]


def test_a_wide_layer_is_tuned_in_bounded_work(monkeypatch):
    """1,000 columns: leading directions alone are decomposed, once a space and view, and searched."""
    rng = np.random.default_rng(3)
    inner = rng.normal(size=(350, 4))
    wide = inner @ rng.normal(size=(4, 1000)) + 0.1 * rng.normal(size=(350, 1000))
    y = rng.normal(inner[:, 0], np.exp(0.5 * inner[:, 1]))
    leading, whole, searched = [], [], []
    find, decompose, build = scaling._leading, scaling._all_axes, calibration_space.build_index
    monkeypatch.setattr(scaling, "_leading", lambda x, count: leading.append((x.shape[1], count)) or find(x, count))
    monkeypatch.setattr(scaling, "_all_axes", lambda x: whole.append(x.shape[1]) or decompose(x))
    monkeypatch.setattr(
        calibration_space, "build_index", lambda *given: searched.append(given[0].shape[1]) or build(*given)
    )
    tuning = nc.tune(nc.Normal(np.zeros(350), 1.0), y, {"layer": wide}, k=50, smoothing="biweight", members=1)
    assert tuning.chosen.kind == "local"
    assert set(tuning.table["components"][2:].tolist()) == {50}
    # standard, whiten, and relevance without each fifth of the points; relevance of all if it was chosen
    assert len(leading) == 7 + (tuning.chosen.scaling == "relevance")
    assert {count for _, count in leading} == {50}
    assert set(searched) == {50}
    assert max(whole, default=0) <= 50


def test_a_trend_is_found_where_it_pays():
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, size=(400, 2))
    y = np.sin(3 * x[:, 0]) * x[:, 1] + 0.1 * rng.normal(size=400)
    tuning = nc.tune(nc.Normal(np.zeros(400), 1.0), y, x, k=(10, 20, 50), scaling="standard", members=1)
    assert tuning.chosen.trend
    assert "trend" in str(tuning.chosen)
    assert isinstance(tuning.recalibrator.corrections[0], nc.Trend)
    local = tuning.table["kind"] == "local"
    assert set(tuning.table["trend"][local]) == {False, True}
    both = tuning.table["trend"] & tuning.table["linear"]
    assert both.any()
    assert not tuning.table["trend"][~local].any()


def test_relevance_is_scored_in_spaces_learnt_without_the_row():
    """Noise alone: a space stretched to suit the scored rows themselves would look better than it is."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 40)), rng.normal(size=60)
    dist = nc.Normal(np.zeros(60), 1.0)
    table = nc.tune(dist, y, x, k=10, smoothing="uniform", scaling=("standard", "relevance"), **PLAIN).table
    standard, relevance = table["crps"][2:]
    assert relevance > 0.97 * standard
    cheating = nc.Scaling("relevance").learn(x, dist.z(y))(x)
    cheated = nc.tune(dist, y, cheating, k=10, smoothing="uniform", scaling="none", **PLAIN).table["crps"][2]
    assert cheated < relevance


def test_one_kind_of_neighbourhood_alone():
    dist, y, x = drifting(120, 3)
    table = nc.tune(dist, y, x, k=(30, 50), linear=True, shrinkage=True, trend=False).table
    local = table["kind"] == "local"
    assert table["linear"][local].all()
    assert table["shrinkage"][local].all()


def layers_of_float32():
    """Return layers whose units are copies of one another but for rounding, and responses that depend on them."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(300, 8)).astype(np.float32)
    hidden = np.maximum(x @ rng.normal(size=(8, 12)).astype(np.float32), 0)
    output = hidden @ rng.normal(size=(12, 1)).astype(np.float32)
    y = output[:, 0] + x[:, 0] * (1 + np.abs(x[:, 1])) + rng.normal(size=300)
    spaces = {"hidden": hidden, "all": np.column_stack([x, hidden, output]), "again": np.column_stack([hidden, output])}
    return nc.Normal(output[:, 0], 1.0), y, spaces


def test_nothing_depends_on_the_order_of_rows():
    # sums of another order round differently, as with another number of threads of a linear algebra library
    dist, y, spaces = layers_of_float32()
    order = np.random.default_rng(6).permutation(len(y))
    options = {"scaling": ["standard", "whiten"], "k": [20, 100]}  # folds of relevance do depend on the order
    one = nc.tune(dist, y, spaces, **options)
    other = nc.tune(dist[order], y[order], {name: space[order] for name, space in spaces.items()}, **options)
    assert other.chosen == one.chosen
    for name, column in one.table.columns.items():
        if column.dtype.kind == "f":
            np.testing.assert_allclose(other.table[name], column, rtol=1e-6, atol=1e-8)
        else:
            np.testing.assert_array_equal(other.table[name], column)


def test_copies_of_a_space_rank_as_equals_and_the_first_is_taken():
    dist, y, spaces = layers_of_float32()
    hidden = spaces["hidden"]
    for turned in (hidden[:, ::-1], np.roll(hidden, 5, axis=1)):
        tuning = nc.tune(dist, y, {"hidden": hidden, "turned": turned}, rule="best", k=[50, 100], scaling="whiten")
        assert tuning.chosen.space == "hidden"


# ---- options ---------------------------------------------------------------------------------------------------------

AUTO = dict.fromkeys(
    ("k", "smoothing", "scaling", "components", "linear", "shrinkage", "trend", "polish", "fade", "quantile_rule"),
    "auto",
)


def test_what_auto_means():
    assert Menu.of(5000, **AUTO) == Menu(
        k=[1000, 500, 200, 100, 50, 20, 10],
        smoothing=["biweight", "epanechnikov"],
        scaling=["standard", "whiten", "relevance"],
        components=["auto"],
        linear=[False, True],
        shrinkage=[False, True],
        trend=[False, True],
        polish=True,
        fade=nc.Fade(),
        quantile_rule="predictive",
    )
    assert Menu.of(51, **AUTO).k == [50, 20, 10]
    assert Menu.of(10, **AUTO).k == []
    for rule, is_polished in {"step": False, "interpolated": True, "predictive": True, "conservative": False}.items():
        assert Menu.of(50, **AUTO | {"quantile_rule": rule}).polish is is_polished


def test_an_option_is_one_value_or_several():
    one = Menu.of(
        50, k=20, smoothing="uniform", scaling="none", components=3, linear=True, shrinkage=False, trend=False,
        polish=False, fade=False, quantile_rule="step",
    )  # fmt: skip
    assert one == Menu([20], ["uniform"], ["none"], [3], [True], [False], [False], False, None, "step")
    several = {
        "k": np.array([5, 20, 5]),
        "smoothing": ("uniform", "uniform"),
        "components": [2, None],
        "linear": (True,),
    }
    menu = Menu.of(50, **AUTO | several)
    assert (menu.k, menu.smoothing, menu.components, menu.linear) == ([20, 5], ["uniform"], [2, None], [True])


@pytest.mark.parametrize("fade", ["auto", True, 0.1, False], ids=str)
def test_rows_fade_unless_said_otherwise(fade):
    dist, y, x = drifting(300, 4)
    tuning = nc.tune(dist, y, x, k=30, scaling="standard", rule="best", fade=fade, **PLAIN)
    scores = {row["kind"]: row["crps"] for row in tuning.table if row["kind"] == "none" or row["chosen"]}
    # the rarer without need, the more recalibration brings
    gain = scores["local"] / scores["none"]
    by_gain = nc.Fade(float(f"{0.01 * (1.5 * gain) ** 4:.2g}"))
    assert by_gain.false_alarm < 0.01
    assert tuning.fade == {"auto": by_gain, True: by_gain, 0.1: nc.Fade(0.1), False: None}[fade]
    assert tuning.recalibrator.corrections == (nc.Polish(drift=True), *((tuning.fade,) if tuning.fade else ()))


@pytest.mark.parametrize("fade", ["no", 0.0, 1.0, -0.1, None])
def test_fade_is_a_switch_or_a_rate(fade):
    with pytest.raises(nc.InvalidParameterError, match=r"fade must be|false_alarm must be"):
        nc.tune(*drifting(50, 2), fade=fade)


# ---- what is returned is fitted, and nothing was built twice ---------------------------------------------------------


def answers(recalibrator, dist, space):
    """Return all a recalibrator says about some rows, bit for bit."""
    out = recalibrator.recalibrate(dist, space)
    said = [out.mean(), out.var(), out.ppf([0.01, 0.3, 0.9]), out.cdf(0.5), out.z(0.5), out.radius, out.effective_size]
    said += [*out.neighbors(slice(0, 5)), *out.reliability(0.1).columns.values()]
    said += [out.logpdf(0.5)] if out.has_density else []
    return b"".join(np.asarray(value).tobytes() for value in said)


FITTED = {
    "as it is, by steps": {"scaling": "none", "quantile_rule": "step", **PLAIN},
    "conservative": {"scaling": "standard", "quantile_rule": "conservative", **PLAIN},
    "standard, polished": {"scaling": "standard", **PLAIN},
    "interpolated, not polished": {"scaling": "standard", "quantile_rule": "interpolated", "polish": False, **PLAIN},
    "components": {"scaling": "whiten", "components": 2, **PLAIN},
    "relevance": {"scaling": "relevance", **PLAIN},
    "local-linear": {"scaling": "standard", "linear": True, "shrinkage": False, "trend": False},
    "shrinkage": {"scaling": "standard", "linear": False, "shrinkage": True, "trend": False},
    "trend": {"scaling": "standard", "linear": False, "shrinkage": False, "trend": True},
    "all of it": {"scaling": "relevance", "linear": True, "shrinkage": True, "trend": True},
    "everything chosen": {},
}


@pytest.mark.parametrize("case", FITTED)
def test_the_recalibrator_is_fitted_as_if_by_hand_to_the_last_bit(case):
    dist, y, x = drifting(300, 4)
    options = {"k": (30, 60), **FITTED[case]}
    tuning = nc.tune(dist, y, {"right": x, "wrong": x[:, 1:]}, rule="best", **options)
    chosen, fitted = tuning.chosen, tuning.recalibrator
    assert chosen.kind == "local"
    assert chosen.space == "right"
    rule = options.get("quantile_rule", "predictive")
    polish = options.get("polish", rule in ("interpolated", "predictive"))
    by_hand = nc.LocalRecalibrator(
        chosen.k,
        smoothing=chosen.smoothing,
        scaling=nc.Scaling(chosen.scaling, chosen.components) if chosen.components else chosen.scaling,
        quantile_rule=rule,
        corrections=(nc.Trend(),) * chosen.trend
        + (nc.LocalLinear(),) * chosen.linear
        + (nc.Shrinkage(),) * chosen.shrinkage
        + (nc.Polish(drift=True),) * polish
        + (tuning.fade,),
    )
    assert repr(fitted) == repr(by_hand)
    assert fitted.get_params() == by_hand.get_params()
    by_hand.fit(dist, y, x)
    new, where = nc.Normal(np.linspace(-1, 1, 20), 1.5), np.random.default_rng(9).normal(size=(20, 4))
    assert answers(fitted, new, where) == answers(by_hand, new, where)


def test_workers_are_those_of_the_recalibrator_too(problem):
    dist, y, spaces = problem
    options = {"k": 50, "scaling": "none", "rule": "best", **PLAIN}
    assert nc.tune(dist, y, spaces, **options).recalibrator.workers is None
    workers = nc.Workers(threads=1, memory=2**24, progress=lambda done, total: None)
    assert nc.tune(dist, y, spaces, **options, workers=workers).recalibrator.workers == nc.Workers(1, 2**24)


@pytest.fixture
def built(monkeypatch):
    """Return lists, to be filled: the scalings that are learnt, with the number of rows, and the indexes built."""
    learnt, indexes = [], []
    learn, build = nc.Scaling.learn, calibration_space.build_index

    def learn_and_count(self, space, z=None, weights=None, relevance=None):
        learnt.append((self.name, len(space)))
        return learn(self, space, z, weights, relevance)

    def build_and_keep(*arguments):
        indexes.append(build(*arguments))
        return indexes[-1]

    monkeypatch.setattr(nc.Scaling, "learn", learn_and_count)
    monkeypatch.setattr(calibration_space, "build_index", build_and_keep)
    return learnt, indexes


def test_what_was_scored_is_what_is_returned(built):
    learnt, indexes = built
    dist, y, x = drifting(300, 4)
    tuning = nc.tune(dist, y, {"right": x, "wrong": x[:, 1:]}, k=(30, 60), scaling=("standard", "whiten"), rule="best")
    assert tuning.chosen.kind == "local"
    assert sorted(learnt) == [("standard", 300)] * 2 + [("whiten", 300)] * 2
    assert len(indexes) == 4
    assert any(tuning.recalibrator.index_ is index for index in indexes)
    tuning.recalibrator.recalibrate(dist, x).reliability()
    assert (len(learnt), len(indexes)) == (4, 4)


def test_views_of_relevance_are_learnt_once_for_scores_and_corrections(built):
    learnt, indexes = built
    tuning = nc.tune(
        *drifting(300, 4), k=(30, 60), scaling="relevance", linear=True, shrinkage=True, trend=False, rule="best"
    )
    assert tuning.chosen.scaling == "relevance"
    assert [type(correction) for correction in tuning.recalibrator.corrections] == [
        nc.LocalLinear,
        nc.Shrinkage,
        nc.Polish,
        nc.Fade,
    ]
    # without each fifth of the points for their scores; with all of them for new rows
    assert learnt == [("relevance", 240)] * 5 + [("relevance", 300)]
    assert len(indexes) == 6
    assert tuning.recalibrator.index_ is indexes[-1]


@pytest.mark.parametrize("scaling", ["standard", "relevance"])
def test_another_structure_is_built_where_it_suits_the_choice_better(scaling, built, monkeypatch):
    monkeypatch.setattr(search, "_FEW_POINTS", 100)  # as if there were more points
    learnt, indexes = built
    dist, y, x = drifting(400, 4)
    assert [search.choose_search(400, 4, k, 0.0) for k in (381, 30)] == ["brute", "boxes"]
    tuning = nc.tune(dist, y, x, k=(380, 30), scaling=scaling, rule="best", **PLAIN)
    assert tuning.chosen.k == 30
    kinds = [type(index).__name__ for index in indexes]
    if scaling == "standard":
        assert learnt == [("standard", 400)]
        assert kinds == ["BlockedBrute", "LeafBoxes"]
    else:
        assert learnt == [("relevance", 320)] * 5 + [("relevance", 400)]
        # views have lost the columns that tell nothing, and may suit boxes from the start
        assert len(kinds) == 11
        assert kinds[5:] == ["LeafBoxes"] * 6
    assert any(tuning.recalibrator.index_ is index for index in indexes)
    by_hand = nc.LocalRecalibrator(**tuning.recalibrator.get_params()).fit(dist, y, x)
    assert answers(tuning.recalibrator, dist[:20], x[:20]) == answers(by_hand, dist[:20], x[:20])


@pytest.mark.parametrize("kind", ["none", "global"])
def test_a_choice_without_neighbours_builds_no_more_than_scores_asked_for(kind, built):
    learnt, indexes = built
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    dist = nc.Normal(x[:, 0] + (kind == "global"), 1.0)
    assert nc.tune(dist, rng.normal(x[:, 0], 1.0), x, k=50).chosen == nc.Candidate(kind)
    assert sorted(learnt) == [("relevance", 320)] * 5 + [("standard", 400), ("whiten", 400)]
    assert len(indexes) == 7


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 1.5, 300)])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_candidate_whose_values_overflow_has_an_infinite_score_and_is_never_chosen(weights, threads):
    """Where predictions are of many widths and three responses garbled, differences of values were no numbers."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(300, 2))
    dist = nc.LogNormal(0.0, 0.1 * 80 ** x[:, 0])
    y = dist.from_z(rng.normal(size=300) * (1 + x[:, 1]))
    narrow = np.argsort(dist.sigma)[:3]
    y[narrow] = np.exp(100 * dist.sigma[narrow])
    workers = nc.Workers(threads=threads)
    tuning = nc.tune(dist, y, x, k=(20, 100), scaling="standard", sample_weight=weights, workers=workers)
    assert not np.isnan(tuning.table["crps"]).any()
    assert np.isinf(tuning.table["crps"]).any()
    assert np.isfinite(tuning.table["crps"][tuning.table["chosen"]]).all()


def test_where_all_scores_are_infinite_there_is_no_choice():
    """At row 7, as wide as that, the mean is too large for a number, and so are the values at the others' scores."""
    rng = np.random.default_rng(0)
    is_wide = np.arange(60) == 7
    dist = nc.LogNormal(0.0, np.where(is_wide, 60.0, 0.1))
    y = np.where(is_wide, 1.0, np.exp(0.1 * rng.normal(20.0, 1.0, size=60)))
    with pytest.raises(nc.InvalidInputError, match=r"finite leave-one-out CRPS .* 1 of 60 rows .* first at index 7;"):
        nc.tune(dist, y, rng.normal(size=(60, 2)))


@pytest.mark.parametrize("scale", [1e300, 1e155])
def test_some_predictions_as_wide_as_numbers_allow(scale):
    """Corrected scores times such a scale overflowed with a warning of numpy's."""
    rng = np.random.default_rng(0)
    x, scales = rng.normal(size=(60, 2)), np.where(np.arange(60) % 20 == 3, scale, 1.0)
    tuning = nc.tune(nc.Normal(x[:, 0], scales), rng.normal(2 * x[:, 0], 1e8), x)
    assert np.isfinite(tuning.table["crps"][tuning.table["chosen"]]).all()
