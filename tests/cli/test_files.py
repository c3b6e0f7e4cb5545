"""Files as they come: other encodings, separators and names, links from output to input; and closed streams."""

import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from pyarrow import csv

import nearcal as nc
from nearcal import cli
from tests.cli.tables import FORMATS, NORMAL, make_table, read_table, write_table

FIT = ("--y", "price", *NORMAL, "--space", "h*", "--k", 50)


@pytest.fixture
def tables(tmp_path):
    for suffix in FORMATS:
        write_table(make_table(400, 1), tmp_path / f"cal.{suffix}")
        write_table(make_table(50, 3), tmp_path / f"new.{suffix}")
    return tmp_path


COMMANDS_IN_TURN = """
import json, sys
from nearcal.cli._app import prepare_process, run
assert "scipy.stats" not in sys.modules  # half of the time that every command would take to start
prepare_process()
for arguments in json.loads(sys.argv[1]):
    code = run(arguments)
    print(code, end="\\0", flush=True)
    print(end="\\0", file=sys.stderr, flush=True)
"""


def in_a_process_of_their_own(*commands):
    """Return the exit code, output and errors of commands in one process, whose output must be in UTF-8."""
    words = [[str(word) for word in arguments] for arguments in commands]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    run = [sys.executable, "-c", COMMANDS_IN_TURN, json.dumps(words)]
    done = subprocess.run(run, check=True, env=environment, capture_output=True)
    told = zip(done.stdout.split(b"\0")[:-1], done.stderr.split(b"\0")[:-1], strict=True)
    return [(int(out[-1:]), out[:-1], err) for out, err in told]


# ---- outputs that are inputs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_no_command_overwrites_what_it_reads(link, folder, nearcal, tables):
    model = tables / "model.nearcal"
    model.write_bytes((folder / "model.nearcal").read_bytes())
    inputs = {path: path.read_bytes() for path in tables.iterdir()}
    commands = {
        "table": [
            ("out.nearcal", "cal.parquet", ("fit", tables / "cal.parquet", *FIT)),
            ("out.csv", "new.parquet", ("predict", model, tables / "new.parquet")),
            ("out.html", "cal.csv", ("report", model, tables / "cal.csv")),
        ],
        "model": [
            ("out.parquet", "model.nearcal", ("predict", model, tables / "new.parquet")),
            ("page.html", "model.nearcal", ("report", model, tables / "cal.csv")),
        ],
    }
    for what, cases in commands.items():
        for name, source, arguments in cases:
            output = tables / name
            link(tables / source, output)
            done = nearcal(*arguments, "-o", output)
            assert done == (2, "", f"nearcal: --output {output} is the {what} to be read; choose another name\n")
            output.unlink()
    assert {path: path.read_bytes() for path in tables.iterdir()} == inputs


# ---- encodings and names --------------------------------------------------------------------------------------------


def test_a_header_in_latin_1(nearcal, tables):
    path = tables / "cal.csv"
    path.write_bytes(path.read_text().replace('"city"', '"Größe"').encode("latin-1"))
    done = nearcal("fit", path, "-o", tables / "m.nearcal", *FIT)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"nearcal: the names of the columns of {path} are not in UTF-8; write it in UTF-8 (iconv -f latin1 -t utf-8 "
        "converts from Latin-1)\n"
    )


def test_latin_1_in_a_column_that_is_kept(folder, nearcal, tables):
    path = tables / "new.csv"
    path.write_bytes(path.read_text().replace('"Bonn"', '"Köln"').encode("latin-1"))
    assert nearcal("predict", folder / "model.nearcal", path, "-o", tables / "out.csv").code == 0  # not looked at
    done = nearcal("predict", folder / "model.nearcal", path, "-o", tables / "out.csv", "--keep", "city")
    assert done.code == 2
    assert done.err.startswith(f"nearcal: {path} cannot be read as csv; Arrow says: ")
    assert "invalid UTF8 data" in done.err
    assert done.err.count("\n") == 1


def test_names_of_files_that_are_not_in_utf_8(tables):
    def name(text, suffix):
        return tables / os.fsdecode(f"{text}é.{suffix}".encode("latin-1"))

    try:
        for suffix in FORMATS:
            for text in ("cal", "new"):
                (tables / f"{text}.{suffix}").rename(name(text, suffix))
    except OSError:
        pytest.skip("the file system takes names in UTF-8 alone")
    model, page = name("model", "nearcal"), name("page", "html")
    commands = []
    for suffix in FORMATS:
        commands.append(("fit", name("cal", suffix), "-o", model, *FIT, "--json"))
        commands.append(("predict", model, name("new", suffix), "-o", name("out", suffix), "--keep", "id"))
    commands.append(("report", model, name("cal", "csv"), "-o", page))
    commands.append(("fit", name("call", "csv"), "-o", model, *FIT))
    *done, reported, refused = in_a_process_of_their_own(*commands)
    for fit, predict, suffix in zip(done[::2], done[1::2], FORMATS, strict=True):
        code, out, err = fit
        assert (code, json.loads(out)["model"], err) == (0, str(model), b"")
        code, out, err = predict
        assert (code, err) == (0, b"")
        assert b"\\udce9" in out
        name("out", suffix).rename(tables / f"out.{suffix}")
        assert len(read_table(tables / f"out.{suffix}")["mean"]) == 50
    assert (reported[0], reported[2]) == (0, b"")
    assert (refused[0], refused[2].count(b"\n")) == (2, 1)


# ---- separators and types in CSV files ------------------------------------------------------------------------------


@pytest.mark.parametrize(("separator", "decimal"), [(";", "."), (";", ","), ("\t", ".")])
def test_other_separators_and_decimal_commas(separator, decimal, nearcal, tables):
    expected, found = tables / "expected.parquet", tables / "found.parquet"
    assert nearcal("fit", tables / "cal.csv", "-o", tables / "m.nearcal", *FIT).code == 0
    assert nearcal("predict", tables / "m.nearcal", tables / "new.csv", "-o", expected, "--keep", "id").code == 0
    for name in ("cal", "new"):
        path = tables / f"{name}.csv"
        path.write_text(path.read_text().replace(",", separator).replace(".", decimal))
    done = nearcal("fit", tables / "cal.csv", "-o", tables / "m.nearcal", *FIT)
    assert (done.code, done.err) == (0, "")
    assert nearcal("predict", tables / "m.nearcal", tables / "new.csv", "-o", found, "--keep", "id").code == 0
    for name, values in read_table(expected).items():
        np.testing.assert_array_equal(read_table(found)[name], values)


def test_a_word_among_decimal_commas(nearcal, tables):
    path = tables / "cal.csv"
    rows = [f"{i};1,5;{i % 7},25;{i}" for i in range(100)]
    rows[90] = "90;1,5;oops;1"
    path.write_text("\n".join(["mu;sigma;h1;price", *rows]) + "\n")
    done = nearcal("fit", path, "-o", tables / "m.nearcal", *FIT)
    assert done.code == 2
    assert "column 'h1' of" in done.err


@pytest.mark.parametrize(
    ("ids", "written"),
    [
        (["3", "-20", "0"], ["3", "-20", "0"]),
        (["3", "", "5"], ["3", "", "5"]),
        (["007", "008", "009"], ['"007"', '"008"', '"009"']),  # names, of which nothing may be lost
        (["1", "2", "x"], ['"1"', '"2"', '"x"']),
        (["1", "2", "1" * 30], ['"1"', '"2"', f'"{"1" * 30}"']),
    ],
)
def test_whole_numbers_that_are_kept_are_not_quoted(ids, written, folder, nearcal, tables, monkeypatch):
    from nearcal.distributed import batches

    monkeypatch.setattr(batches, "MOST_ROWS", 2)  # the last id comes in a batch of its own
    monkeypatch.setattr(batches, "_FEWEST_ROWS", 1)
    table = make_table(3, 3).drop_columns(["id"])
    csv.write_csv(table, tables / "new.csv")
    lines = (tables / "new.csv").read_text().splitlines()
    numbered = [f"{first},{line}" for first, line in zip(["id", *ids], lines, strict=True)]
    (tables / "new.csv").write_text("\n".join(numbered) + "\n")
    out = tables / "out.csv"
    assert nearcal("predict", folder / "model.nearcal", tables / "new.csv", "-o", out, "--keep", "id,mu").code == 0
    assert [line.split(",")[0] for line in out.read_text().splitlines()] == ['"id"', *written]


# ---- levels and streams ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--quantiles", "--coverage"])
def test_levels_that_would_have_one_name(option, folder, nearcal, tables):
    values = ("0.1,0.10000000000001",) if option == "--quantiles" else ("0.1", option, "0.10000000000001")
    out = tables / "out.csv"
    done = nearcal("predict", folder / "model.nearcal", tables / "new.csv", "-o", out, option, *values)
    line = "nearcal: columns of 0.1 and 0.10000000000001 would have the same name; leave one out\n"
    assert done == (2, "", line)
    assert not out.exists()


def test_the_same_level_twice_is_one_column(folder, nearcal, tables):
    out = tables / "out.csv"
    levels = ("--quantiles", "0.1,0.1", "--quantiles", "0.10", "--no-mean", "--no-std")
    assert nearcal("predict", folder / "model.nearcal", tables / "new.csv", "-o", out, *levels).code == 0
    assert list(read_table(out)) == ["q10"]


# the command twice in a process, which notes the exit codes in a file: its streams are closed
MAIN_TWICE = """
import json, sys
from pathlib import Path
from nearcal.cli import main
_, told, commands = sys.argv
codes = []
for arguments in json.loads(commands):
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as ended:
        codes.append(ended.code)
Path(told).write_text(json.dumps(codes))
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed(closed, folder, tables):
    """``nearcal predict … >&-``: the work is done all the same, and the output holds nothing else."""
    out, told = tables / "out.csv", tables / "codes"
    predict = ["predict", str(folder / "model.nearcal"), str(tables / "new.csv"), "-o", str(out)]
    commands = json.dumps([predict, ["inspect", str(tables / "nothing")]])
    run = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", MAIN_TWICE, str(told), commands]
    done = subprocess.run(run, capture_output=True, check=False)
    assert (done.returncode, done.stdout, json.loads(told.read_text())) == (0, b"", [0, 2])
    assert len(read_table(out)["mean"]) == 50
    assert done.stderr.count(b"\n") == (1 if closed == ">&-" else 0)  # of what is not there to be inspected
    assert b"Traceback" not in done.stderr


def test_streams_that_are_no_files(monkeypatch):
    """In a notebook ``sys.stdout`` is an object of its own kind."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["nearcal", "--version"])
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.StringIO())
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (ended.value.code, sys.stdout.getvalue()) == (0, f"nearcal {nc.__version__}\n")


def test_a_column_of_the_prediction_that_is_there_twice(nearcal, tables):
    path = tables / "cal.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([f'"mu",{lines[0]}', *(f"1,{line}" for line in lines[1:])]) + "\n")
    done = nearcal("fit", path, "-o", tables / "m.nearcal", *FIT)
    assert done == (2, "", f"nearcal: {path} has 2 columns named 'mu'; rename all but one\n")


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_a_file_that_is_damaged_behind_its_header(suffix, folder, nearcal, tables):
    """Names and types can be read, and then the rows not."""
    path, out = tables / f"new.{suffix}", tables / "out.csv"
    content, seen = path.read_bytes(), set()
    for place in range(64, len(content) - 64, 211):
        path.write_bytes(
            content[:place] + bytes(byte ^ 0xFF for byte in content[place : place + 8]) + content[place + 8 :]
        )
        done = nearcal("predict", folder / "model.nearcal", path, "-o", out, "--keep", "id")
        assert done.code in (0, 2)
        assert done.code == 0 or done.err.count("\n") == 1
        assert out.exists() == (done.code == 0)
        out.unlink(missing_ok=True)
        seen.add(done.code)
    assert 2 in seen
