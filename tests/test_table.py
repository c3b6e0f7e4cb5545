"""The table that diagnostics return."""

import numpy as np
import pytest

import nearcal as nc

TABLE = nc.Table({"name": ["a", "bb"], "value": [1.0, np.nan], "n": [3, 40]})


def test_words_that_begin_like_numbers_stay_words():
    assert str(nc.Table({"word": ["none", "linear"], "number": [np.inf, 1.0]})) == (
        "word    number\nnone       inf\nlinear       1"
    )


def test_prints_aligned():
    assert str(TABLE) == "name  value   n\na         1   3\nbb           40"


def test_rows_columns_and_length():
    assert len(TABLE) == 2
    assert [row["n"] for row in TABLE] == [3, 40]
    assert TABLE["name"].tolist() == ["a", "bb"]
    with pytest.raises(KeyError, match="no column 'p'; there are name, value, n"):
        TABLE["p"]


def test_is_frozen():
    with pytest.raises(AttributeError, match="frozen"):
        TABLE.columns = {}
    with pytest.raises(ValueError, match="read-only"):
        TABLE["value"][0] = 2.0


def test_converts():
    assert TABLE.to_pandas().shape == (2, 3)
    assert TABLE.to_polars().columns == ["name", "value", "n"]


def test_columns_of_different_lengths():
    with pytest.raises(nc.InvalidInputError, match="one-dimensional and of one length"):
        nc.Table({"a": [1], "b": [1, 2]})
