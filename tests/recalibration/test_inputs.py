"""Arrays, tables and tensors of every kind give the same answers."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import nearcal as nc
from tests.recalibration.cases import RNG, SPACE, SPACE_NEW, N, P, Y, local


def read_only(array):
    frozen = array.copy()
    frozen.flags.writeable = False
    return frozen


WHOLE_Y, WHOLE_SPACE, WHOLE_NEW = np.round(4 * Y), np.round(4 * SPACE), np.round(4 * SPACE_NEW)
KINDS = {
    "float32": lambda a: a.astype(np.float32),
    "float16": lambda a: a.astype(np.float16),
    "int64": lambda a: a.astype(np.int64),
    "int8": lambda a: a.astype(np.int8),
    "list": lambda a: a.tolist(),
    "tuple": lambda a: tuple(map(tuple, a)) if a.ndim == 2 else tuple(a),
    "Fortran order": np.asfortranarray,
    "not contiguous": lambda a: np.repeat(a, 2, axis=0)[::2],
    "reversed view": lambda a: a[::-1].copy()[::-1],
    "big endian": lambda a: a.astype(">f8"),
    "read-only": read_only,
    "matrix of a subclass": lambda a: np.ma.array(a),
    "pandas": lambda a: pd.DataFrame(a, index=range(100, 100 + len(a))) if a.ndim == 2 else pd.Series(a),
    "pandas nullable": lambda a: (pd.DataFrame(a) if a.ndim == 2 else pd.Series(a)).convert_dtypes(),
    "polars": lambda a: pl.DataFrame(a) if a.ndim == 2 else pl.Series(a),
    "torch": torch.from_numpy,
    "torch with gradients": lambda a: torch.from_numpy(a).requires_grad_() * 1,
    "torch float16": lambda a: torch.from_numpy(a).half(),
    "torch bfloat16": lambda a: torch.from_numpy(a).bfloat16().requires_grad_(),
    "torch transposed": lambda a: torch.from_numpy(a.T.copy()).T if a.ndim == 2 else torch.from_numpy(a),
    "column": lambda a: a if a.ndim == 2 else a[:, np.newaxis],
    "pandas column": lambda a: pd.DataFrame(a),
}


@pytest.fixture(scope="module")
def of_whole_numbers():
    return local(WHOLE_Y, WHOLE_SPACE, WHOLE_NEW, new=nc.Normal(WHOLE_NEW[:, 0], 2.0)).summary(p=P)


@pytest.mark.parametrize("convert", KINDS.values(), ids=KINDS)
def test_inputs_of_every_kind(of_whole_numbers, convert):
    # small whole numbers are exact in every type, so the answers are equal to the last bit
    dist = nc.Normal(convert(np.zeros(N)), convert(np.ones(N)))
    out = local(
        convert(WHOLE_Y), convert(WHOLE_SPACE), convert(WHOLE_NEW), dist, nc.Normal(convert(WHOLE_NEW[:, 0]), 2)
    )
    for name, expected in vars(of_whole_numbers).items():
        np.testing.assert_array_equal(getattr(out.summary(p=P), name), expected)
    np.testing.assert_array_equal(out.cdf(convert(WHOLE_NEW[:, 1])).ravel(), out.cdf(WHOLE_NEW[:, 1]))
    assert out.mean().dtype == np.float64


def test_a_pandas_table_of_numbers_and_dummies():
    table = pd.DataFrame({"area": SPACE[:, 0], "new": SPACE[:, 1] > 2, "rooms": pd.array(range(N), dtype="Int64")})
    as_array = np.column_stack([SPACE[:, 0], SPACE[:, 1] > 2, np.arange(N)])
    np.testing.assert_array_equal(local(space=table).mean(), local(space=as_array).mean())


def test_samples_and_quantiles_of_tables():
    draws = np.round(10 * RNG.normal(size=(N, 8)))
    for convert in (pd.DataFrame, pl.DataFrame, torch.from_numpy, np.ndarray.tolist):
        np.testing.assert_array_equal(nc.Samples(convert(draws)).mean(), nc.Samples(draws).mean())
    values, levels = np.sort(draws, axis=1)[:, [0, 4, 7]], [0.1, 0.5, 0.9]
    for convert in (pd.DataFrame, pl.DataFrame, torch.from_numpy):
        np.testing.assert_array_equal(
            nc.Quantiles(levels, convert(values)).ppf(0.3), nc.Quantiles(levels, values).ppf(0.3)
        )
