"""Regions in words: known ones are found and named, none where there are none, and tests of them are honest."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import nearcal as nc
from nearcal.diagnostics.features import Feature, as_features
from nearcal.diagnostics.region_tree import find_regions, split_rows

D = nc.diagnostics
GRADES = ("poor", "fair", "good", "best")


def people(n, seed):
    rng = np.random.default_rng(seed)
    return {
        "age": rng.uniform(20, 80, size=n),
        "town": rng.choice(["A", "B", "C", "D", "E"], size=n),
        "grade": rng.choice(GRADES, size=n),
        "noise": rng.normal(size=n),
    }


def observed(n, seed, scale):
    return nc.Normal(np.zeros(n), 1.0), np.random.default_rng(seed).normal(0.0, scale)


def names_found(features, scale, seed=1, **options):
    n = len(scale)
    return D.described_regions(*observed(n, seed, scale), features, **options).names.tolist()


def test_a_number_is_cut_at_a_round_value():
    features = people(4000, 1)
    names = names_found(features, np.where(features["age"] > 60, 3.0, 1.0))
    assert names == ["age ≤ 60", "age > 60"]


def test_a_range_is_described_by_both_ends():
    features = people(6000, 2)
    between = (features["age"] > 40) & (features["age"] <= 50)
    names = names_found(features, np.where(between, 4.0, 1.0))
    assert len(names) == 3
    low, high = next(name for name in names if name.endswith("0") and name.startswith("40")).split(" < age ≤ ")
    assert (float(low), float(high)) == (40.0, 50.0)


def test_unordered_categories_are_cut_into_sets():
    features = people(4000, 3)
    names = names_found(features, np.where(np.isin(features["town"], ["B", "D"]), 3.0, 1.0))
    assert sorted(names) == ["town in A, C, E", "town in B, D"]
    alone = names_found(features, np.where(features["town"] == "C", 3.0, 1.0))
    assert sorted(alone) == ["town = C", "town ≠ C"]


@pytest.mark.parametrize("kind", ["levels", "pandas", "polars"])
def test_graded_categories_keep_their_order(kind):
    features = people(4000, 4)
    scale = np.where(np.isin(features["grade"], ["good", "best"]), 3.0, 1.0)
    levels = {"grade": GRADES} if kind == "levels" else None
    if kind == "pandas":
        features = pd.DataFrame(features)
        features["grade"] = pd.Categorical(features["grade"], categories=GRADES, ordered=True)
    elif kind == "polars":
        features = pl.DataFrame(features).with_columns(pl.col("grade").cast(pl.Enum(GRADES)))
    assert names_found(features, scale, levels=levels) == ["grade ≤ fair", "grade ≥ good"]


def test_missing_values_stay_with_the_low_ones():
    features = people(4000, 5)
    known = features["age"].copy()
    features["age"] = np.where(np.random.default_rng(5).uniform(size=4000) < 0.1, np.nan, known)
    regions = D.described_regions(*observed(4000, 6, np.where(features["age"] > 60, 3.0, 1.0)), features)
    assert regions.names.tolist() == ["age ≤ 60 or missing", "age > 60"]
    assert np.isnan(features["age"][regions.rows[0]]).any()
    assert not np.isnan(features["age"][regions.rows[1]]).any()


def test_rows_are_those_the_words_say_and_were_not_searched():
    features = people(3000, 7)
    scale = np.where((features["age"] > 60) & (features["town"] == "C"), 5.0, 1.0)
    dist, y = observed(3000, 8, scale)
    columns = as_features(features, 3000)
    searched = split_rows(3000, 0.5, np.random.default_rng(0))
    regions = find_regions(D.pit(dist, y), D.pit(dist, y) < 0.9, columns, searched).regions
    assert not searched[np.concatenate(regions.rows)].any()
    assert len(np.concatenate(regions.rows)) == 1500
    for name, rows in zip(regions.names, regions.rows, strict=True):
        for condition in name.split(" and "):
            column, sign, value = condition.split(" ", 2)
            values = features[column][rows]
            truth = {
                "≤": lambda v, w: v <= float(w),
                ">": lambda v, w: v > float(w),
                "=": lambda v, w: v == w,
                "≠": lambda v, w: v != w,
                "in": lambda v, w: np.isin(v, w.split(", ")),
            }[sign](values, value)
            assert np.all(truth), name


def test_many_categories_are_not_all_named():
    towns = np.array([f"town {i:02d}" for i in range(30)])
    codes = np.random.default_rng(9).integers(30, size=6000)
    names = names_found({"town": towns[codes]}, np.where(codes < 15, 3.0, 1.0))
    assert "town in town 00, town 01, town 02, town 03 and 11 more" in names


def test_nothing_is_found_where_nothing_differs():
    # each tree cuts with probability 1%; 99.9% binomial range over 60 trees
    features = people(1000, 10)
    found = sum(names_found(features, np.ones(1000), seed=seed) != ["all rows"] for seed in range(60))
    assert found <= stats.binom.ppf(0.999, 60, 0.01)
    # wrong alike everywhere is not a difference
    wrong = sum(names_found(features, np.full(1000, 2.0), seed=seed) != ["all rows"] for seed in range(20))
    assert wrong <= stats.binom.ppf(0.999, 20, 0.01)


def test_bad_arguments():
    dist, y = observed(100, 1, np.ones(100))
    features = people(100, 1)
    with pytest.raises(nc.InvalidInputError, match=r"features\['age'\] must have 100 values"):
        D.described_regions(dist, y, {"age": features["age"][:9]})
    with pytest.raises(nc.InvalidInputError, match=r"levels must be of features, got 'gade'; there are age, town"):
        D.described_regions(dist, y, features, levels={"gade": GRADES})
    with pytest.raises(nc.InvalidInputError, match=r"levels\['grade'\] must name every category .* got 'best'"):
        D.described_regions(dist, y, features, levels={"grade": GRADES[:3]})
    with pytest.raises(nc.InvalidInputError, match=r"features\['age'\] must be finite or missing, got 1 infinite"):
        D.described_regions(dist, y, {"age": [np.inf, *range(99)]})
    with pytest.raises(nc.InvalidInputError, match="convert dates to numbers first"):
        D.described_regions(dist, y, {"day": np.full(100, np.datetime64("2024-01-01"))})
    with pytest.raises(nc.InvalidInputError, match="features must have at least one column"):
        D.described_regions(dist, y, np.empty((100, 0)))
    for option in ("search", "mass"):
        with pytest.raises(nc.InvalidParameterError, match=f"{option} must lie strictly between 0 and 1, got 1"):
            D.described_regions(dist, y, features, **{option: 1})
    with pytest.raises(nc.InvalidInputError, match="names must be 2 different names"):
        as_features(np.zeros((3, 2)), 3, names=["a", "a"])


def test_kinds_of_columns():
    frame = pd.DataFrame(
        {
            "count": [1, 2, 3],
            "flag": [True, False, True],
            "maybe": pd.array([1, None, 3], dtype="Int64"),
            "word": ["a", None, "b"],
            "mixed": pd.Series([1.5, None, 2], dtype=object),
        }
    )
    count, flag, maybe, word, mixed = as_features(frame, 3)
    assert (count.levels, flag.levels, word.levels) == (None, ("False", "True"), ("a", "b", "missing"))
    np.testing.assert_array_equal(word.values, [0, 2, 1])
    np.testing.assert_array_equal(mixed.values, [1.5, np.nan, 2])
    np.testing.assert_array_equal(maybe.values, [1, np.nan, 3])
    assert as_features(np.zeros((3, 2)), 3)[1] == Feature("x1", pytest.approx(np.zeros(3)))


@pytest.mark.slow
def test_tests_of_described_regions_keep_their_level():
    # features drawn anew each time; Holm's correction keeps the family-wise level at 5% since rows are not reused
    rejected = 0
    for seed in range(1000):
        features = people(400, seed)
        dist, y = observed(400, seed + 10_000, np.ones(400))
        regions = D.described_regions(dist, y, features, mass=0.1)
        rejected += D.local_calibration(dist, y, regions=regions, correction="holm")["p_adjusted"].min() < 0.05
    assert rejected <= stats.binom.ppf(0.9995, 1000, 0.05)
