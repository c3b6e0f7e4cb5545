"""nearcal monitor: what it says, the exit code, and a stream that comes in several tables."""

import json

import numpy as np
import pyarrow as pa
import pytest

import nearcal as nc
from tests.cli.tables import NORMAL, make_table, write_table


@pytest.fixture(scope="module")
def place(folder, tmp_path_factory):
    """A calm stream and one whose responses are higher by 2 from row 151 on."""
    path = tmp_path_factory.mktemp("streams")
    table = make_table(300, 2)
    price = table["price"].to_numpy() + np.where(np.arange(300) < 150, 0.0, 2.0)
    write_table(table, path / "calm.parquet")
    write_table(table.set_column(3, "price", pa.array(price)), path / "lost.parquet")
    for name, part in (("first", slice(0, 140)), ("second", slice(140, 300))):
        rows = table.set_column(3, "price", pa.array(price)).slice(part.start, part.stop - part.start)
        write_table(rows, path / f"{name}.parquet")
    return path


def expected(folder, table, *, base=False):
    """Return what Python says about the stream."""
    columns = {name: table[name].to_numpy() for name in ("mu", "sigma", "price", "h1", "h2")}
    model = nc.load(folder / "model.nearcal")
    monitor = nc.CalibrationMonitor(0.01)
    monitor.observe(model.base(columns) if base else model.predict(columns), columns["price"])
    return monitor


def test_calm(folder, place, nearcal):
    monitor = expected(folder, make_table(300, 2))
    done = nearcal("monitor", folder / "model.nearcal", place / "calm.parquet")
    assert done == (0, f"300 rows: no sign that calibration was lost (p = {monitor.p_value:.2g})\n", "")


def test_lost(folder, place, nearcal):
    done = nearcal("monitor", folder / "model.nearcal", place / "lost.parquet", "--json")
    found = json.loads(done.out)
    assert done.code == 3
    assert (found["calibrated"], found["rows"], found["rows_before"], found["false_alarm"]) == (False, 300, 0, 0.01)
    assert found["alarm"]["diagnosis"] == "predictions are too low"
    assert 151 <= found["alarm"]["row"] < 190
    assert abs(found["alarm"]["since_row"] - 151) < 20
    assert found["p_value"] <= 0.01
    done = nearcal("monitor", folder / "model.nearcal", place / "lost.parquet")
    assert done.code == 3
    assert f"noticed at row {found['alarm']['row']}, since about row {found['alarm']['since_row']}" in done.out


def test_the_predictions_of_the_model_itself(folder, place, nearcal):
    monitor = expected(folder, make_table(300, 2), base=True)
    done = nearcal("monitor", folder / "model.nearcal", place / "calm.parquet", "--base", "--json")
    assert json.loads(done.out)["p_value"] == monitor.p_value
    assert done.code == (0 if monitor.alarm is None else 3)


def test_a_stream_in_several_tables(folder, place, nearcal, tmp_path):
    model, state = folder / "model.nearcal", tmp_path / "state.nearcal"
    whole = json.loads(nearcal("monitor", model, place / "lost.parquet", "--json").out)
    assert nearcal("monitor", model, place / "first.parquet", "--state", state).code == 0
    done = nearcal("monitor", model, place / "second.parquet", "--state", state, "--json")
    found = json.loads(done.out)
    assert (done.code, found["rows"], found["rows_before"]) == (3, 160, 140)
    assert (found["alarm"], found["p_value"]) == (whole["alarm"], whole["p_value"])
    # an alarm stays
    done = nearcal("monitor", model, place / "first.parquet", "--state", state)
    assert (done.code, done.out.partition(":")[0]) == (3, "140 rows after 300")
    assert nc.load(state).n_observed == 440


def test_rows_with_gaps(folder, place, nearcal, tmp_path):
    table = make_table(300, 2)
    price = table["price"].to_numpy().copy()
    price[[3, 7]] = np.nan
    path = write_table(table.set_column(3, "price", pa.array(price)), tmp_path / "gaps.parquet")
    assert nearcal("monitor", folder / "model.nearcal", path).code == 2
    done = nearcal("monitor", folder / "model.nearcal", path, "--skip-missing")
    assert (done.code, done.err) == (0, "left out 2 of 300 rows with missing values\n")
    assert done.out.startswith("298 rows: no sign")


def test_mistakes_leave_the_state_as_it_was(folder, place, nearcal, tmp_path):
    model, state = folder / "model.nearcal", tmp_path / "state.nearcal"
    nearcal("monitor", model, place / "first.parquet", "--state", state, "--false-alarm", "0.05")
    before = state.read_bytes()
    for arguments, line in (
        (("--false-alarm", "0.01"), f"--false-alarm is 0.01, and --state {state} was begun with 0.05; leave"),
        (("--false-alarm", "5"), "--false-alarm must lie strictly between 0 and 1, got 5; did you mean 0.05?"),
        (("--y", "prise"), "has no column 'prise', which should hold the responses; did you mean 'price'?"),
    ):
        done = nearcal("monitor", model, place / "second.parquet", "--state", state, *arguments)
        assert (done.code, done.out) == (2, "")
        assert line in done.err
        assert state.read_bytes() == before
    done = nearcal("monitor", model, place / "second.parquet", "--state", model)
    assert (done.code, done.err) == (2, f"nearcal: --state {model} is the model to be read; choose another name\n")
    other = tmp_path / "other.nearcal"
    nearcal("fit", folder / "cal.csv", "-o", other, "--y", "price", *NORMAL, "--method", "isotonic")
    done = nearcal("monitor", model, place / "second.parquet", "--state", other)
    assert f"--state {other} holds a CalibratedModel, no monitor" in done.err
    assert nearcal("monitor", model).code == 2
