"""Folds: who may speak for whom, against the rule itself, row by row."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest

import nearcal as nc
from nearcal.space import CalibrationSpace, Scaling, as_folds, as_units, build_index, in_order
from nearcal.space.row_relations import as_groups, as_times, stretches

N = 200
RNG = np.random.default_rng(5)
GROUPS = RNG.choice(23, size=N, p=np.arange(1, 24) / np.arange(1, 24).sum())
TIMES = np.round(RNG.uniform(0, 50, size=N), 0)  # with many equal ones, in no order
DATES = np.datetime64("2020-01-01") + (24 * TIMES).astype("timedelta64[h]")


def pairs(folds):
    return [(row, speaker) for fold in folds.folds for row in fold.rows for speaker in fold.speakers]


def test_groups_stay_whole_and_all_others_of_other_folds_speak():
    folds = as_folds(GROUPS, None, None, N)
    np.testing.assert_array_equal(folds.rows, np.arange(N))
    assert len(folds.folds) == 10
    for fold in folds.folds:
        assert not set(GROUPS[fold.rows]) & set(GROUPS[fold.speakers])
        assert sorted([*fold.rows, *fold.speakers]) == list(range(N))
    # the largest group has about an eleventh of the rows: every fold can have a tenth, more or less a group
    sizes = [len(fold.rows) for fold in folds.folds]
    assert max(sizes) - min(sizes) <= np.bincount(GROUPS).max()


def test_few_groups_are_a_fold_each():
    folds = as_folds(["a", "b", "a", None, "b"], None, None, 5)
    assert [fold.rows.tolist() for fold in folds.folds] == [[0, 2], [1, 4], [3]]


@pytest.mark.parametrize("gap", [None, 0, 3, 7.5])
def test_only_what_is_earlier_by_more_than_the_gap_speaks(gap):
    folds = as_folds(None, TIMES, gap, N)
    for fold in folds.folds:
        start = TIMES[fold.rows].min()
        np.testing.assert_array_equal(fold.speakers, np.flatnonzero(start - (gap or 0) > TIMES))
        assert len(fold.speakers) >= N / 5
    for row, speaker in pairs(folds):
        assert TIMES[speaker] < TIMES[row] - (gap or 0)
    looked_up = np.concatenate([fold.rows for fold in folds.folds])
    assert len(np.unique(looked_up)) == len(looked_up)
    # all that are not looked up are older than all that are
    left = np.setdiff1d(np.arange(N), looked_up)
    assert TIMES[left].max() < TIMES[looked_up].min()
    assert len(left) <= N * (0.3 + (gap or 0) / 50 + 0.05)


def test_time_and_groups_together_ask_for_both():
    folds = as_folds(GROUPS, TIMES, 2, N)
    assert len(pairs(folds)) > 1000
    for row, speaker in pairs(folds):
        assert TIMES[speaker] < TIMES[row] - 2
        assert GROUPS[speaker] != GROUPS[row]


def test_rows_in_order_keep_a_distance():
    folds = in_order(N)
    np.testing.assert_array_equal(folds.rows, np.arange(N))
    for row, speaker in pairs(folds):
        assert abs(row - speaker) > 10
    assert all(len(fold.speakers) >= 0.8 * N for fold in folds.folds)


SAME = {
    "numpy": DATES,
    "nanoseconds": DATES.astype("datetime64[ns]"),
    "pandas": pd.Series(DATES, index=np.arange(N)[::-1]),
    "pandas with a zone": pd.Series(DATES).dt.tz_localize("Asia/Tokyo"),
    "pandas index": pd.DatetimeIndex(DATES),
    "polars": pl.Series(DATES.astype("datetime64[us]")),
    "Python": DATES.astype("datetime64[us]").tolist(),
    "Python with a zone": [when.replace(tzinfo=dt.UTC) for when in DATES.astype("datetime64[us]").tolist()],
    "texts": DATES.astype(str),
    "a column": DATES[:, np.newaxis],
}


@pytest.mark.parametrize("kind", SAME)
@pytest.mark.parametrize("gap", [dt.timedelta(days=2), np.timedelta64(48, "h"), pd.Timedelta(days=2)], ids=str)
def test_dates_of_every_kind(kind, gap):
    expected = as_folds(None, TIMES, 2, N)
    folds = as_folds(None, SAME[kind], gap, N)
    for fold, other in zip(folds.folds, expected.folds, strict=True):
        np.testing.assert_array_equal(fold.rows, other.rows)
        np.testing.assert_array_equal(fold.speakers, other.speakers)


def test_true_is_the_order_of_rows():
    folds, expected = as_folds(None, True, 3, N), as_folds(None, np.arange(N), 3, N)
    for fold, other in zip(folds.folds, expected.folds, strict=True):
        np.testing.assert_array_equal(fold.speakers, other.speakers)


def test_nothing_said():
    assert as_folds(None, None, None, N) is None
    assert as_folds(None, False, None, N) is None
    assert as_units(None, None, N) is None
    assert as_units(None, False, N) is None


def test_groups_are_numbered_as_they_appear():
    np.testing.assert_array_equal(as_groups(["b", "a", "b", "c"], 4), [0, 1, 0, 2])
    np.testing.assert_array_equal(as_groups(pd.Series(["b", None, "b", "c"]), 4), [0, 1, 0, 2])
    np.testing.assert_array_equal(as_groups([7.5, -1.0, 7.5, 3.0], 4), [0, 1, 0, 2])


def test_stretches_have_about_equally_many_rows_and_part_no_equal_times():
    which = stretches(TIMES, 10)
    assert len(np.unique(which)) == 10
    for number in range(9):
        assert TIMES[which == number].max() < TIMES[which == number + 1].min()
    assert stretches(np.zeros(7), 10).tolist() == [0] * 7
    assert stretches(np.array([3.0, 1.0, 2.0]), 10).tolist() == [2, 0, 1]


ERRORS = {
    "groups of other rows": ({"groups": GROUPS[:-1]}, r"groups must have shape \(200,\)"),
    "one group": ({"groups": np.zeros(N)}, "groups must be at least two"),
    "groups with gaps": ({"groups": np.where(GROUPS == 1, np.nan, GROUPS)}, "groups must name a group for every row"),
    "a name": ({"groups": "device"}, "groups must hold one label a row, got 'device'"),
    "groups=True": ({"groups": True}, "groups must hold one label a row, got True"),
    "lists as groups": ({"groups": pd.Series([[1]] * N)}, "groups must hold texts or numbers"),
    "times of other rows": ({"time": TIMES[:-1]}, r"time must have shape \(200,\)"),
    "times missing": ({"time": np.where(TIMES == 4, np.nan, TIMES)}, "time must be known of every row"),
    "dates missing": ({"time": np.where(TIMES == 4, np.datetime64("NaT"), DATES)}, "time must be known of every row"),
    "no dates": ({"time": ["soon"] * N}, "time must hold numbers or dates, got 'soon' first"),
    "complex": ({"time": TIMES + 1j}, "time must hold numbers or dates, got an array of dtype complex"),
    "a gap of no time": ({"gap": 3}, "gap is a length of time and needs time"),
    "a gap between groups": ({"groups": GROUPS, "gap": 3}, "gap is a length of time and needs time"),
    "a negative gap": ({"time": TIMES, "gap": -1}, "gap must be a finite number >= 0"),
    "a number between dates": ({"time": DATES, "gap": 2}, "gap must be a timedelta where time holds dates, got 2"),
    "a negative timedelta": ({"time": DATES, "gap": -dt.timedelta(1)}, "gap must not be negative"),
    "a gap as long as all": ({"time": TIMES, "gap": 50}, "time must leave some rows with a fifth of all 200 rows"),
    "no past": ({"time": np.zeros(N)}, "time must leave some rows with a fifth of all 200 rows before them"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_messages(case):
    options, message = ERRORS[case]
    given = {"groups": None, "time": None, "gap": None, **options}
    with pytest.raises(nc.NearcalError, match=message):
        as_folds(**given, n=N)


def test_units_are_groups_or_stretches_and_not_both():
    np.testing.assert_array_equal(as_units(["b", "a", "b"], None, 3), [0, 1, 0])
    assert len(np.unique(as_units(None, np.arange(900), 900))) == 30
    with pytest.raises(nc.InvalidParameterError, match="give groups or time, got both"):
        as_units(GROUPS, TIMES, N)


# ---- views of a space -----------------------------------------------------------------------------------------------

SPACE = RNG.normal(size=(N, 3)) * [1.0, 5.0, 0.1]
Z = RNG.normal(size=N)


@pytest.mark.parametrize("scaling", ["none", "standard", "whiten", "relevance"])
def test_a_view_is_the_space_of_those_who_may_speak(scaling):
    how = Scaling(scaling)
    folds = as_folds(GROUPS, TIMES, 1, N)
    views = CalibrationSpace(SPACE, Z, how, 5, folds=folds).views
    for fold, view in zip(folds.folds, views, strict=True):
        own = fold.speakers
        points = how.learn(SPACE[own], Z[own])(SPACE)
        np.testing.assert_array_equal(view.points, points)
        np.testing.assert_array_equal(view.learnt_from, points[own])
        found = view.index.nearest(view.queries, 5, 0.0)
        twin = build_index(points[own], "euclidean", "brute", 5).nearest(points[fold.rows], 5, 0.0)
        for row in range(len(fold.rows)):
            part = slice(found.indptr[row], found.indptr[row + 1])
            assert sorted(found.indices[part]) == sorted(own[twin.indices[part]])
            np.testing.assert_allclose(np.sort(found.distances[part]), np.sort(twin.distances[part]), rtol=1e-12)


def test_a_column_that_did_not_vary_yet():
    space = np.where(np.arange(N) < 60, 0.0, RNG.normal(size=N))[:, np.newaxis]
    views = CalibrationSpace(space, Z, Scaling("whiten"), 5, folds=as_folds(None, True, None, N)).views
    assert all(np.isfinite(view.points).all() for view in views)


def test_another_number_of_neighbours_keeps_what_is_built():
    folds = as_folds(GROUPS, None, None, N)
    space = CalibrationSpace(np.tile(SPACE, (20, 1)), np.tile(Z, 20), Scaling("standard"), 2, folds=None)
    assert space.for_neighbors(500).folds is None
    space = CalibrationSpace(SPACE, Z, Scaling("standard"), 5, folds=folds)
    assert space.for_neighbors(100).folds is folds


def test_times_keep_their_kind():
    assert as_times(pl.Series(DATES.astype("datetime64[us]")), N).dtype.kind == "M"
    assert as_times(TIMES.astype(np.int64), N).dtype.kind == "i"
