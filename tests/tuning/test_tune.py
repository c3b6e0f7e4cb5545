"""Tuning: what it chooses on problems of known truth, the rules on made-up scores, the table, edges and errors."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.scaling import learn_scaling
from nearcal.tuning._choice import Comparison, choose

PLAIN = {"adjustments": "none", "shrinkage": False}


@pytest.fixture(scope="module")
def problem():
    """A model with one σ for data whose spread depends on the first of two columns."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, size=(1500, 2))
    y = rng.normal(x.sum(axis=1), np.exp(2 * x[:, 0]))
    return nc.Normal(x.sum(axis=1), y.std()), y, {"right": x[:, :1], "both": x, "wrong": x[:, 1:]}


def test_the_informative_space_is_found(problem):
    dist, y, spaces = problem
    tuning = nc.tune(dist, y, spaces, scalings="none", rule="best")
    assert tuning.chosen.kind == "local"
    assert tuning.chosen.space == "right"
    others = tuning.table["crps"][tuning.table["space"] != "right"]
    assert tuning.table["crps"].min() < others.min()


def test_the_table_holds_what_refitting_gives(problem):
    dist, y, spaces = problem
    few = slice(0, 40)
    space = spaces["both"][few]
    table = nc.tune(dist[few], y[few], space, k=[5, 20], smoothings="triangular", scalings="none", **PLAIN).table
    assert len(table) == 4
    for row in table:
        scores = []
        for i in range(40):
            others = np.arange(40) != i
            settings = {"k": int(row["k"]), "smoothing": "triangular", "scaling": "none"} if row["space"] else {}
            candidate = nc.Candidate(row["kind"], **settings)
            fitted = candidate.recalibrator().fit(dist[few][others], y[few][others], space[others])
            scores.append(nc.scores.crps(fitted.recalibrate(dist[i], space[[i]]), y[[i]])[0])
        assert row["crps"] == pytest.approx(np.mean(scores), rel=1e-10)
        assert row["std_error"] == pytest.approx(np.std(scores, ddof=1) / np.sqrt(40), rel=1e-10)


def test_a_perfect_model_is_left_alone():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 3))
    tuning = nc.tune(nc.Normal(x[:, 0], 1.0), rng.normal(x[:, 0], 1.0), x)
    assert tuning.chosen == nc.Candidate("none")
    assert "no recalibration" in tuning.reason
    base = nc.Normal([3.0], 1.0)
    fitted = tuning.recalibrator().fit(nc.Normal(x[:, 0], 1.0), x[:, 0], x)
    assert fitted.recalibrate(base, [[0.0, 0.0, 0.0]]) is base


def test_a_model_wrong_everywhere_alike_is_mended_globally():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 3))
    tuning = nc.tune(nc.Normal(x[:, 0] + 1, 3.0), rng.normal(x[:, 0], 1.0), x)
    assert tuning.chosen == nc.Candidate("global")
    assert isinstance(tuning.recalibrator(quantile_rule="interpolated"), nc.GlobalRecalibrator)


LOCAL = [nc.Candidate("local", space, "none", None, k, "uniform") for k in (100, 10) for space in ("a", "b")]
CANDIDATES = [nc.Candidate("none"), nc.Candidate("global"), *LOCAL]


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        ([9, 9, 9, 9, 0, 9], ("local", 10, "a")),  # alone
        ([9, 9, 0.9, 0.8, 0, 9], ("local", 10, "a")),  # among local ones the best
        ([9, 1.0, 0.1, 0.1, 0, 9], ("global", None, None)),
        ([0.9, 0.1, 0.1, 0.1, 0, 9], ("none", None, None)),
        ([1.1, 1.1, 1.1, 1.1, 0, 1.1], ("local", 10, "a")),
        ([np.inf, 9, 9, 9, 0, 0], ("local", 10, "a")),
    ],
)
def test_one_standard_error_towards_the_simpler(difference, expected):
    difference = np.array(difference, dtype=float)
    error = np.where(np.isfinite(difference), 1.0, np.nan) * (difference > 0)
    comparison = Comparison(5 + difference, np.ones(6), difference, error)
    chosen = CANDIDATES[choose(CANDIDATES, comparison, "one-standard-error")[0]]
    assert (chosen.kind, chosen.k, chosen.space) == expected
    assert CANDIDATES[choose(CANDIDATES, comparison, "best")[0]] == LOCAL[2]


def test_differences_are_paired():
    rng = np.random.default_rng(0)
    shared = 100 * rng.normal(size=50)
    scores = np.stack([shared + 1 + rng.normal(size=50), shared])
    comparison = Comparison.of(scores)
    assert comparison.best == 1
    assert comparison.std_error[0] > 10
    assert comparison.difference_std_error[0] == pytest.approx(np.std(scores[0] - shared, ddof=1) / np.sqrt(50))
    assert comparison.difference_std_error[1] == 0


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
    assert len(nc.tune(dist[:2], y[:2], x[:2], k=1, scalings="none", **PLAIN).table) == 4


def test_components_are_offered_where_a_space_is_wider(problem):
    dist, y, spaces = problem
    wide = {"wide": np.hstack([spaces["both"], 0.1 * np.random.default_rng(0).normal(size=(1500, 8))]), **spaces}
    table = nc.tune(dist, y, wide, k=50, smoothings="uniform", scalings="none", components=(None, 2, 20), **PLAIN).table
    offered = {(row["space"], row["components"]) for row in table if row["components"] == row["components"]}
    assert offered == {("wide", 2.0)}


def test_the_first_components_of_a_space_with_two_wide_directions_do_as_well_as_those_two(problem):
    dist, y, spaces = problem
    noise = 0.01 * np.random.default_rng(0).normal(size=(1500, 8))
    wide = {"two": spaces["both"], "ten": np.hstack([spaces["both"], noise])}
    table = nc.tune(dist, y, wide, k=50, smoothings="uniform", scalings="none", components=(None, 2), **PLAIN).table
    two, _, reduced = table["crps"][2:]
    assert reduced == pytest.approx(two, rel=1e-3)


def test_whitening_is_left_out_where_it_is_impossible_or_standard_scaling():
    rng = np.random.default_rng(0)
    spaces = {"line": rng.normal(size=30), "dead": np.full((30, 4), 0.1), "plane": rng.normal(size=(30, 2))}
    dist, y = nc.Normal(np.zeros(30), 1.0), rng.normal(size=30)
    table = nc.tune(dist, y, spaces, k=5, smoothings="uniform", scalings=("standard", "whiten"), **PLAIN).table
    tried = list(zip(table["space"].tolist(), table["scaling"].tolist(), strict=True))[2:]
    assert tried == [("line", "standard"), ("dead", "standard"), ("plane", "standard"), ("plane", "whiten")]
    assert len(nc.tune(dist, y, spaces, k=5, smoothings="uniform", scalings="whiten", **PLAIN).table) == 4


def test_it_prints_the_ten_best_and_the_reason(problem):
    dist, y, spaces = problem
    tuning = nc.tune(dist, y, spaces)
    lines = str(tuning).splitlines()
    assert len(lines) == 13
    assert lines[-1] == tuning.reason
    assert repr(tuning) == str(tuning)
    assert str(tuning.chosen) in tuning.reason


def test_progress(problem, capsys):
    pytest.importorskip("rich")
    dist, y, spaces = problem
    calls = []
    nc.tune(dist, y, spaces["both"], k=10, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (1500, 1500)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    nc.tune(dist, y, spaces["both"], k=10, progress=True)
    assert "tuning" in capsys.readouterr().out


ERRORS = {
    "k": ({"k": 0}, "k must be a whole number >= 1, got 0"),
    "k of several": ({"k": (10, 2.5)}, "k must be a whole number >= 1, got 2.5"),
    "no k": ({"k": ()}, "k must hold at least one option"),
    "smoothing": ({"smoothings": "box"}, "smoothings must be one of .*, got 'box'"),
    "scaling": ({"scalings": ("none", "minmax")}, "scalings must be one of .*, got 'minmax'"),
    "components": ({"components": (None, 0)}, "components must be a whole number >= 1, got 0"),
    "rule": ({"rule": "first"}, "rule must be one of .*, got 'first'"),
    "threads": ({"threads": 0}, "threads must be"),
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


def test_a_k_that_nobody_has_is_an_error():
    rng = np.random.default_rng(0)
    with pytest.raises(nc.InvalidParameterError, match="k must be below the number of calibration points, 30"):
        nc.tune(nc.Normal(np.zeros(30), 1.0), rng.normal(size=30), rng.normal(size=(30, 2)), k=[30, 5000])


def drifting(n, d=12):
    """A mean that drifts along one of many columns."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(n, d))
    return nc.Normal(np.zeros(n), 1.5), rng.normal(2 * x[:, 0], 1.0), x


def test_adjustment_and_relevance_are_found_where_they_pay():
    tuning = nc.tune(*drifting(400), rule="best")
    assert tuning.chosen.scaling == "relevance"
    assert tuning.chosen.adjustment == "linear"
    assert "adjustment 'linear'" in str(tuning.chosen)
    assert set(tuning.table["adjustment"]) == {"", "none", "linear"}
    assert tuning.table["shrinkage"].sum() == 2


def test_of_many_rows_adjusted_candidates_qualify_on_some():
    dist, y, x = drifting(1100, 3)
    table = nc.tune(dist, y, x, smoothings="biweight", shrinkage=False).table
    assert (table["adjustment"] == "linear").sum() == 3


def test_relevance_is_scored_in_spaces_learnt_without_the_row():
    """Noise alone: a space stretched to suit the scored rows themselves would look better than it is."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 40)), rng.normal(size=60)
    dist = nc.Normal(np.zeros(60), 1.0)
    table = nc.tune(dist, y, x, k=10, smoothings="uniform", scalings=("standard", "relevance"), **PLAIN).table
    standard, relevance = table["crps"][2:]
    assert relevance > 0.97 * standard
    cheating = learn_scaling("relevance", x, None, dist.z(y))(x)
    cheated = nc.tune(dist, y, cheating, k=10, smoothings="uniform", scalings="none", **PLAIN).table["crps"][2]
    assert cheated < relevance


def test_one_kind_of_neighbourhood_alone():
    dist, y, x = drifting(120, 3)
    table = nc.tune(dist, y, x, k=(30, 50), adjustments="linear", shrinkage=True).table
    local = table["kind"] == "local"
    assert set(table["adjustment"][local]) == {"linear"}
    assert table["shrinkage"][local].all()


def test_a_model_that_is_not_calibrated_is_not_left_alone():
    difference = np.array([2e-3, 1e-3, 0, 0, 0, 0])
    comparison = Comparison(5 + difference, np.ones(6), difference, np.zeros(6))
    assert choose(CANDIDATES, comparison, "one-standard-error", is_calibrated=True)[0] == 0
    assert choose(CANDIDATES, comparison, "one-standard-error", is_calibrated=False)[0] == 1


def test_what_is_negligibly_better_is_not_worth_it():
    difference = np.array([9, 0.009, 9, 9, 0, 9])  # of 5
    comparison = Comparison(5 + difference, np.ones(6), difference, np.full(6, 1e-6))
    assert choose(CANDIDATES, comparison, "one-standard-error")[0] == 1


def test_global_recalibration_that_is_worse_than_none_is_no_choice():
    difference = np.array([1e-3, 2e-3, 0, 0, 0, 0])
    comparison = Comparison(5 + difference, np.ones(6), difference, np.zeros(6))
    assert choose(CANDIDATES, comparison, "two-standard-errors", is_calibrated=False)[0] == 2


def test_two_errors_are_twice_one():
    difference = np.array([9, 1.5, 9, 9, 0, 9])
    comparison = Comparison(5 + difference, np.ones(6), difference, np.ones(6))
    assert choose(CANDIDATES, comparison, "one-standard-error")[0] == 4
    assert choose(CANDIDATES, comparison, "two-standard-errors")[0] == 1


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
    options = {"scalings": ["standard", "whiten"], "k": [20, 50, 100]}  # folds of relevance do depend on the order
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
        tuning = nc.tune(dist, y, {"hidden": hidden, "turned": turned}, rule="best", k=[50, 100], scalings="whiten")
        assert tuning.chosen.space == "hidden"
