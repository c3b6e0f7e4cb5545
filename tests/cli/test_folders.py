"""Folders of Parquet files: parts under their names, complete or absent, done once; and what goes wrong by part."""

import errno
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import nearcal as nc
from nearcal.distributed import parts
from tests.cli.tables import NORMAL, make_table, read_table, write_table

NAMES = ["year=2023/a.parquet", "year=2023/b.parquet", "year=2024/a.parquet"]


@pytest.fixture
def new(tmp_path):
    """A folder of three parts, and files that are none."""
    for number, name in enumerate(NAMES):
        path = tmp_path / "new" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(make_table(40 + number, 10 + number), path)
    (tmp_path / "new" / "_SUCCESS").write_text("")
    (tmp_path / "new" / "year=2024" / ".hidden.parquet").write_text("")
    return tmp_path / "new"


@pytest.fixture
def predict(nearcal, folder, new, tmp_path):
    """The command, with more options; and what is in the folder of the output then."""

    def command(*more):
        done = nearcal("predict", folder / "model.nearcal", new, "-o", tmp_path / "out", "--keep", "id", *more)
        return done, written(tmp_path)

    return command


def written(place):
    return sorted(path.relative_to(place / "out").as_posix() for path in (place / "out").rglob("*") if path.is_file())


def check(place, folder, names=NAMES):
    """Compare parts with what the model says of their rows, to the last bit."""
    model = nc.load(folder / "model.nearcal")
    for name in names:
        rows, found = read_table(place / "new" / name), read_table(place / "out" / name)
        expected = model.predict({column: rows[column] for column in ("mu", "sigma", "h1", "h2")}).summary(0.9)
        assert found["id"].tolist() == rows["id"].tolist()
        np.testing.assert_array_equal(found["mean"], expected.mean)
        np.testing.assert_array_equal(found["upper_90"], expected.upper)


@pytest.mark.parametrize("more", [(), ("--engine", "dask", "--workers", "2")], ids=["local", "dask"])
def test_parts_are_predicted_under_their_names(more, predict, folder, tmp_path):
    if more:
        pytest.importorskip("distributed")
    done, names = predict(*more, "--json")
    assert (done.code, names) == (0, NAMES)
    facts = json.loads(done.out)
    assert (facts["parts"], facts["rows"], facts["parts_done_before"]) == (3, 123, 0)
    check(tmp_path, folder)
    assert parquet.read_table(tmp_path / "out")["year"].to_pylist()[0] == 2023  # a reader finds the partitions again


def test_what_is_done_is_not_done_again(predict, folder, new, tmp_path):
    predict()
    times = [(tmp_path / "out" / name).stat().st_mtime_ns for name in NAMES]
    done, _ = predict("--json")
    assert json.loads(done.out)["parts_done_before"] == 3
    assert [(tmp_path / "out" / name).stat().st_mtime_ns for name in NAMES] == times
    write_table(make_table(9, 1), new / NAMES[1])  # a part that has changed
    (tmp_path / "out" / NAMES[2]).write_bytes(b"PAR1")  # and one that is none
    done, _ = predict("--json")
    assert (json.loads(done.out)["parts"], json.loads(done.out)["parts_done_before"]) == (2, 1)
    check(tmp_path, folder)
    assert json.loads(predict("--coverage", "0.8", "--json")[0].out)["parts"] == 3  # other options


def test_a_part_that_cannot_be_read_is_named(predict, folder, new, tmp_path):
    predict()
    damaged = bytearray((new / NAMES[1]).read_bytes())
    damaged[20:2000] = bytes(1980)
    (new / NAMES[1]).write_bytes(damaged)
    done, names = predict()
    assert done.code == 2
    assert done.err.startswith(f"nearcal: part {NAMES[1]}: ")
    assert done.err.endswith("run it again to go on with the rest, with --keep-going past parts that fail\n")
    assert names == [NAMES[0], NAMES[2]]  # what was made of the old part is gone
    done, names = predict("--keep-going", "--coverage", "0.9")
    assert (done.code, names) == (2, [NAMES[0], NAMES[2]])
    assert done.err.endswith("the other 2 parts are written\n")
    check(tmp_path, folder, names)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop_columns(["h1"]), "rows must have one column 'h1'"),
        (
            lambda table: table.set_column(0, "id", pa.array(range(len(table)))),
            "column 'id' must be of type string as in",
        ),
        (lambda table: table.set_column(1, "mu", pa.array(["a"] * len(table))), "column 'mu' must hold numbers"),
        (
            lambda table: table.set_column(1, "mu", pa.nulls(len(table), pa.float64())),
            "must have no missing or infinite",
        ),
        (lambda table: table.set_column(2, "sigma", pa.array(np.zeros(len(table)))), "scale"),
    ],
)
def test_a_part_unlike_the_others_is_named(change, message, predict, new):
    write_table(change(make_table(30, 1)), new / NAMES[1])
    done, names = predict("--keep-going")
    assert (done.code, names) == (2, [NAMES[0], NAMES[2]])
    assert done.err.startswith(f"nearcal: part {NAMES[1]}: ")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_a_full_disk_leaves_whole_parts(predict, monkeypatch, folder, tmp_path):
    begun, fsync = [], os.fsync

    def full(handle):
        begun.append(handle)
        if len(begun) == 3:  # a part is synchronised, and then its folder
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    done, names = predict()
    assert (done.code, names) == (2, NAMES[:1])
    assert f"part {NAMES[1]}: No space left on device" in done.err
    assert predict()[1] == NAMES
    check(tmp_path, folder)


HELD = """
import sys, time
from nearcal.cli import main
from nearcal.distributed import parts
predict, done = parts.PartPredictor._predict, []

def hold(self, name):
    done.append(name)
    if len(done) == 3:
        print("begun", flush=True)
        time.sleep(60)
    return predict(self, name)

parts.PartPredictor._predict = hold
main()
"""


def test_a_killed_driver_goes_on_where_it_was(predict, folder, new, tmp_path):
    arguments = ["predict", folder / "model.nearcal", new, "-o", tmp_path / "out", "--keep", "id"]
    command = [sys.executable, "-c", HELD, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGKILL)
    assert written(tmp_path) == NAMES[:2]
    done, names = predict("--json")
    assert (json.loads(done.out)["parts_done_before"], names) == (2, NAMES)
    check(tmp_path, folder)


def test_a_folder_is_a_table_to_fit_and_evaluate(nearcal, new, tmp_path):
    whole = pa.concat_tables([parquet.ParquetFile(new / name).read() for name in NAMES])
    write_table(whole, tmp_path / "whole.parquet")
    results = []
    for source in (new, tmp_path / "whole.parquet"):
        model = tmp_path / f"{source.stem}.nearcal"
        assert nearcal("fit", source, "-o", model, "--y", "price", *NORMAL, "--space", "h*", "--k", "30").code == 0
        results.append(nearcal("evaluate", model, source, "--json").out)
    assert results[0] == results[1]


def test_a_calibration_set_in_shards(nearcal, new, tmp_path):
    options = ["--y", "price", *NORMAL, "--space", "h*", "--k", "30", "--scaling", "none"]
    assert nearcal("fit", new, "-o", tmp_path / "one.nearcal", *options).code == 0
    done = nearcal(
        "fit", new, "-o", tmp_path / "in_shards.nearcal", *options, "--shards", tmp_path / "shards", "--json"
    )
    assert json.loads(done.out)["rows"] == 123
    for name in ("one", "in_shards"):
        assert nearcal("predict", tmp_path / f"{name}.nearcal", new, "-o", tmp_path / name).code == 0
    for name in NAMES:  # corrections are learnt from all points: there are few
        assert parquet.read_table(tmp_path / "one" / name).equals(parquet.read_table(tmp_path / "in_shards" / name))


@pytest.fixture
def scheduler():
    """The address of a cluster of one process, that others have started."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
    with distributed.LocalCluster(**options, silence_logs=50) as running:
        yield running.scheduler_address


def test_dask_evaluates_and_fits_as_one_process(scheduler, nearcal, folder, new, tmp_path):
    engine = ("--engine", "dask", "--scheduler", scheduler)
    here, there = (
        json.loads(nearcal("evaluate", folder / "model.nearcal", new, "--json", *more).out)["metrics"]
        for more in ((), engine)
    )
    assert here == there
    options = ["--y", "price", *NORMAL, "--space", "h*", "--k", "30"]
    for name, more in (("here", ()), ("there", engine)):
        shards = ("--shards", tmp_path / f"{name}.shards")
        assert nearcal("fit", new, "-o", tmp_path / f"{name}.nearcal", *options, *shards, *more).code == 0
    table = {column: make_table(50, 4)[column].to_numpy() for column in ("mu", "sigma", "h1", "h2")}
    means = [nc.load(tmp_path / f"{name}.nearcal").predict(table).mean() for name in ("here", "there")]
    np.testing.assert_array_equal(*means)


def test_parts_that_kill_workers_are_named():
    class KilledWorker(Exception):
        pass

    assert parts._describe("a.parquet", KilledWorker()) == (
        "part a.parquet: the workers that had it died, as when memory runs out"
    )
