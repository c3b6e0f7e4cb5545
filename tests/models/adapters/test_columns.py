"""Models known by the columns of a table."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import nearcal as nc
from nearcal.models.adapters import ColumnsModel

RNG = np.random.default_rng(0)
TABLE = {name: RNG.uniform(1, 2, size=7) for name in ("a", "b", "c", "d")}
A, B, C, D = TABLE.values()

FAMILIES = {
    "normal": ("normal", {"loc": "a", "scale": "b"}, nc.Normal(A, B)),
    "a number for all rows": ("normal", {"loc": "a", "scale": 2.5}, nc.Normal(A, 2.5)),
    "lognormal": ("lognormal", {"mu": "a", "sigma": "b"}, nc.LogNormal(A, B)),
    "gamma": ("gamma", {"shape": "a", "scale": "b"}, nc.Gamma(A, B)),
    "gamma by its mean": ("gamma", {"mean": "b", "shape": 3.0}, nc.Gamma(3.0, B / 3.0)),
    "gamma by its rate": ("gamma", {"shape": "a", "rate": "b"}, nc.Gamma(A, 1 / B)),
    "student_t": ("student_t", {"df": 5.0, "loc": "a", "scale": "b"}, nc.StudentT(5.0, A, B)),
    "laplace": ("laplace", {"loc": "a", "scale": "b"}, nc.Laplace(A, B)),
    "quantiles": (
        "quantiles",
        {"levels": (0.1, 0.5, 0.9), "values": ("a", "b", "c")},
        nc.Quantiles([0.1, 0.5, 0.9], np.column_stack([A, B, C])),
    ),
    "samples": ("samples", {"draws": ("d", "a", "c")}, nc.Samples(np.column_stack([D, A, C]))),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_columns_become_distributions(name):
    family, parameters, expected = FAMILIES[name]
    dist = ColumnsModel(family, parameters).distribution(TABLE)
    assert type(dist) is type(expected)
    np.testing.assert_array_equal(dist.ppf([0.1, 0.5, 0.99]), expected.ppf([0.1, 0.5, 0.99]))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_tables_of_any_kind(make):
    model = ColumnsModel("normal", {"loc": "a", "scale": "b"}, {"x": ("c", "d"), "y": ("d",)})
    table = make(TABLE)
    np.testing.assert_array_equal(model.distribution(table).loc, A)
    np.testing.assert_array_equal(model.represent(table, "x"), np.column_stack([C, D]))
    assert model.layers() == ("x", "y")


def test_it_tells_the_columns_it_takes():
    model = ColumnsModel("gamma", {"shape": 2.0, "mean": "a"}, {"x": ("c", "a"), "y": ("d",)}, "b")
    assert model.columns() == ("a",)
    assert model.columns("x") == ("a", "c")
    assert model.positive_columns() == {"a": "mean"}
    assert repr(model) == "ColumnsModel(gamma, shape=2.0, mean=a)"
    many = ColumnsModel("samples", {"draws": tuple(f"draw_{i}" for i in range(9))})
    assert repr(many) == "ColumnsModel(samples, draws=(draw_0, ..., draw_8: 9 columns))"


@pytest.mark.parametrize(
    ("family", "parameters", "message"),
    [
        ("nomal", {}, "family must be one of 'normal'.* got 'nomal'"),
        ("normal", {"loc": "a"}, "family 'normal' takes the parameters loc, scale, got loc"),
        ("gamma", {"shape": "a"}, "takes the parameters shape, scale or shape, mean or shape, rate, got shape"),
        ("normal", {"loc": 1.0, "scale": 2.0}, "must name at least one column, got numbers only"),
    ],
)
def test_wrong_parameters_are_refused(family, parameters, message):
    with pytest.raises(nc.InvalidParameterError, match=message):
        ColumnsModel(family, parameters)


def test_wrong_tables_are_refused():
    model = ColumnsModel("normal", {"loc": "a", "scale": "e"}, {"x": ("a",)})
    with pytest.raises(nc.InvalidInputError, match="X must have the column 'e', got the columns a, b, c, d"):
        model.distribution(TABLE)
    with pytest.raises(nc.InvalidInputError, match="X must be a data frame or a dictionary of columns, got ndarray"):
        model.distribution(np.zeros((3, 2)))
    with pytest.raises(nc.InvalidInputError, match="column 'a' must hold real numbers"):
        model.represent({"a": ["x", "y"]}, "x")
    with pytest.raises(nc.InvalidParameterError, match="layer must be one of x, got 'z'"):
        model.represent(TABLE, "z")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (r"spaces\['x'\]", ("normal", {"loc": "a", "scale": "b"}, {"x": ()})),
        (r"parameters\['levels'\]", ("quantiles", {"levels": (), "values": ("a", "b")})),
        (r"parameters\['loc'\]", ("normal", {"loc": "", "scale": "b"})),
    ],
)
def test_no_columns_are_refused(name, arguments):
    with pytest.raises(nc.InvalidParameterError, match=f"^{name} must name at least one column, got .*; name one"):
        ColumnsModel(*arguments)
