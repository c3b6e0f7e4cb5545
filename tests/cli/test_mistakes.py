"""What a newcomer gets wrong, and the line each mistake gets: exit code 2, one line on stderr, nothing written."""

import json
import os
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import nearcal as nc
from nearcal.cli._app import run
from tests.cli.tables import NORMAL, make_table, write_table

# two lines a mistake: the command, and what it gets
TABLE = (Path(__file__).parent / "mistakes.txt").read_text()
MISTAKES = dict(re.findall(r"^\$ nearcal (.+)\n(.+)$", TABLE, flags=re.MULTILINE))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with good tables and bad ones."""
    path = tmp_path_factory.mktemp("mistakes")
    for name, rows, seed in (("cal", 400, 1), ("test", 300, 2), ("new", 250, 3)):
        write_table(make_table(rows, seed), path / f"{name}.parquet")
    table = make_table(250, 3)
    mu, sigma = table["mu"].to_numpy().copy(), table["sigma"].to_numpy().copy()
    mu[[16, 40, 41]], sigma[[11, 30]] = np.nan, -0.5
    write_table(table.set_column(1, "mu", pa.array(mu)), path / "gaps.parquet")
    write_table(table.set_column(2, "sigma", pa.array(sigma)), path / "negative.parquet")
    write_table(table.drop_columns(["h2"]), path / "narrow.parquet")
    write_table(table.slice(0, 0), path / "norows.parquet")
    (path / "folder").mkdir()
    (path / "folder.parquet").mkdir()
    (path / "empty.csv").write_text("")
    (path / "ragged.csv").write_text("a,b\n1,2\n1,2,3\n")
    (path / "fake.parquet").write_text("a,b\n1,2\n")
    (path / "table.xlsx").write_text("")
    (path / "model.txt").write_text("a file of some text, long enough to have been a model but for what it says\n" * 3)
    nc.save(nc.VarianceScaling().fit(nc.Normal([0.0, 0.0], 2.0), [-1.0, 1.0]), path / "python.nearcal")
    options = ["--y", "price", *NORMAL, "--space", "h*", "--k", "50"]
    assert run(["fit", str(path / "cal.parquet"), "-o", str(path / "model.nearcal"), *options]) == 0
    (path / "cut.nearcal").write_bytes((path / "model.nearcal").read_bytes()[:-10])
    return path


@pytest.fixture
def inside(place, monkeypatch):
    """Work in that directory, and leave nothing behind."""
    monkeypatch.chdir(place)
    before = sorted(place.iterdir())
    yield place
    assert sorted(place.iterdir()) == before


def test_there_are_many():
    assert len(MISTAKES) == TABLE.count("$ nearcal ") >= 50


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_gets_one_line(command, inside, nearcal):
    assert nearcal(*shlex.split(command)) == (2, "", f"{MISTAKES[command]}\n")


@pytest.mark.parametrize(
    ("command", "begin"),
    [
        ("fit fake.parquet -o m.nearcal --y a NORMAL", "fake.parquet cannot be read as parquet; Arrow says: "),
        ("fit ragged.csv -o m.nearcal --y a NORMAL", "ragged.csv cannot be read as csv; Arrow says: "),
        ("fit cal.parquet -o m.nearcal --y price NORMAL --space h* --shrinkage yes", "yes is one argument too many; "),
        ("fit cal.parquet -o m.nearcal --y price NORMAL --space h* --components 0", "Invalid value for '--components'"),
        ("inspect cut.nearcal", "cut.nearcal is damaged: it has "),
        ("predict model.nearcal new.parquet -o out.csv --coverage high", "Invalid value for '--coverage'"),
        ("predict model.nearcal new.parquet -o out.csv --coverage", "Option '--coverage' requires an argument"),
    ],
)
def test_what_other_packages_say_is_passed_on_in_one_line(command, begin, inside, nearcal):
    done = nearcal(*shlex.split(command.replace("NORMAL", shlex.join(NORMAL))))
    assert done.code == 2
    assert done.err.startswith(f"nearcal: {begin}")
    assert done.err.count("\n") == 1


def test_machines_get_errors_as_json(inside, nearcal):
    done = nearcal("predict", "model.nearcal", "new.parquet", "-o", "out.parquet", "--coverage", 95, "--json")
    assert (done.code, done.out) == (2, "")
    assert json.loads(done.err) == {
        "error": "--coverage must lie strictly between 0 and 1, got 95",
        "suggestion": "did you mean 0.95?",
    }


def test_a_file_that_may_not_be_read(inside, nearcal, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", "new.csv")

    write_table(make_table(20, 1), inside / "new.csv")
    monkeypatch.setattr(csv, "open_csv", refuse)
    done = nearcal("predict", "model.nearcal", "new.csv", "-o", "out.csv")
    assert done == (2, "", "nearcal: Permission denied: new.csv\n")
    (inside / "new.csv").unlink()


def test_a_full_disk_leaves_nothing(inside, nearcal, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    done = nearcal("predict", "model.nearcal", "new.parquet", "-o", "out.parquet")
    assert done == (2, "", "nearcal: No space left on device\n")


def test_rows_that_make_no_distribution_are_found_by_their_batch(inside, nearcal):
    """Two draws that are equal in one row have no spread, and no tail can be fitted."""
    table = make_table(250, 3)
    write_table(table, inside / "draws.csv")
    draws = ("--samples", "draw_0,draw_1")
    done = nearcal("fit", "draws.csv", "-o", "draws.nearcal", "--y", "price", *draws, "--space", "h*", "--k", 20)
    assert done.code == 0
    equal = table.set_column(table.schema.get_field_index("draw_1"), "draw_1", table["draw_0"])
    write_table(equal, inside / "draws.csv")
    done = nearcal("predict", "draws.nearcal", "draws.csv", "-o", "out.csv")
    assert done.code == 2
    assert done.err.startswith("nearcal: rows 1 to 250 of draws.csv: draws must have at least two different values")
    (inside / "draws.csv").unlink()
    (inside / "draws.nearcal").unlink()
