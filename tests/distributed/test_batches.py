"""The batch function in one process: schemas known beforehand, one load a file, extras named."""

import os
import sys

import numpy as np
import pyarrow as pa
import pytest

import nearcal as nc
from nearcal.distributed import batches
from nearcal.distributed.batches import BatchPredictor, open_model
from nearcal.distributed.wanted import Wanted

WANTED = Wanted(True, True, (0.9,), (0.05,), True, 0.01)


@pytest.fixture
def batch(setting):
    return pa.RecordBatch.from_pandas(setting.new, preserve_index=False)


@pytest.mark.filterwarnings("ignore::nearcal.OutOfDistributionWarning")
def test_what_comes_out_has_the_schema_that_was_said(setting, batch, expected, monkeypatch):
    monkeypatch.setattr(batches, "MOST_ROWS", 70)
    task = BatchPredictor(WANTED, ("id",))
    schema = task.schema(batch.schema, setting.model)
    pieces = list(task.predict(batch, setting.model, start=5))
    assert [len(piece) for piece, _, _ in pieces] == [70, 70, 70, 70, 20]
    assert pieces[-1][1].stop == 305
    table = pa.Table.from_batches([piece for piece, _, _ in pieces])
    assert table.schema == schema
    for name, values in expected.items():
        np.testing.assert_array_equal(table[name].to_numpy(), values)


def test_a_file_is_loaded_once_until_it_changes(setting, tmp_path):
    path = tmp_path / "model.nearcal"
    nc.save(setting.model, path)
    first = open_model(path, 1)
    assert open_model(str(path), 1) is first
    assert open_model(path, 2) is not first
    assert (first.recalibrator.workers.threads, setting.model.recalibrator.workers) == (1, None)
    os.utime(path, ns=(1, 1))
    assert open_model(path, 1) is not first


@pytest.mark.parametrize(("engine", "package"), [("dask", "dask.dataframe"), ("spark", "pyspark.sql.pandas.types")])
def test_a_missing_extra_is_named(engine, package, setting, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(nc.MissingExtraError, match=rf"nearcal\[{engine}\]"):
        getattr(nc, engine).predict(setting.path, None)
