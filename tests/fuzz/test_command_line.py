"""Commands over bad files and bad options: one line and exit code 2, nothing written, nothing read changed.

Every command is a subject. Where a command succeeds all the same, its output is complete.
"""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pyarrow as pa
import pytest
from pyarrow import parquet

from nearcal.cli._app import COMMANDS, MISTAKEN, run
from nearcal.cli._monitor import LOST
from tests.cli.tables import NORMAL, make_table, read_table, write_table

FIT = ("--y", "price", *NORMAL, "--space", "h*", "--k", "20")
# of every command that reads files: what it reads, and what stands behind
SUBJECTS = {
    "fit": ("table", "out.nearcal"),
    "predict": ("model", "table", "out"),
    "evaluate": ("model", "table"),
    "report": ("model", "table", "out.html"),
    "monitor": ("model", "table"),
    "inspect": ("model",),
    "compile": ("model", "out.onnx"),
}
READ_NO_FILES = {"demo", "warm-up"}
SUFFIXES = (".csv", ".parquet", ".feather")
OPTIONS = {
    "fit": [
        ("--k", ["0", "-1", "1e3", "10**9", "400", "auto", "nan"]),
        ("--radius", ["0", "-1", "nan", "inf", "1e308", "1e-300"]),
        ("--smoothing", ["", "uniform", "x"]),
        ("--scaling", ["relevance", "none", "\0"]),
        ("--components", ["0", "1", "99", "x"]),
        ("--method", ["isotonic", "local", "conformal", "", "auto"]),
        ("--y", ["h1", "", "*", "city", "nothing"]),
        ("--space", ["", ",", "*", "city", "a=", "=h1", "h1,h1", "[", "id"]),
        ("--param", ["loc", "=", "loc=", "df=3", "scale=0", "scale=inf", "loc=city"]),
        ("--groups", ["", "city", "id", "h1", "nothing"]),
        ("--time", ["", "h1", "id", "city", "nothing"]),
        ("--gap", ["", "0", "-1", "nan", "1e308", "2d", "9999999999999d", "x"]),
        ("--shards", ["", "/", "nothing/shards", "table.csv"]),
        ("--sample", ["0", "-1", "x"]),
        ("--engine", ["", "dask", "spark"]),
        ("--in-order", []),
        ("--any-order", []),
    ],
    "predict": [
        ("--coverage", ["0", "1", "nan", "-1", "90", "0.9999999999999999", "x"]),
        ("--quantiles", ["", ",", "0,1", "nan", "0.5,0.5", "1e-300", "0.5;0.6"]),
        ("--keep", ["*", "", "mean", "id,city", "id,id", "price", "nothing"]),
        ("--false-alarm", ["0", "1", "nan", "x"]),
        ("--engine", ["", "dask", "spark"]),
        ("--workers", ["0", "-1", "2", "x"]),
        ("--scheduler", ["", "nowhere"]),
        ("--keep-going", []),
    ],
    "evaluate": [
        ("--engine", ["", "dask", "spark"]),
        ("--coverage", ["0", "1", "nan", "0.5"]),
        ("--regions", ["0", "1", "-5", "1000000", "2"]),
        ("--y", ["", "city", "mu", "nothing"]),
        ("--groups", ["", "city", "id", "h1", "nothing"]),
        ("--time", ["", "h1", "id", "city"]),
    ],
    "report": [
        ("--features", ["", "*", "city", "id,city", "nothing", "["]),
        ("--title", ["", "<script>", "\udce9", "x" * 10_000]),
        ("--coverage", ["0", "1", "0.5"]),
        ("--groups", ["city", "nothing"]),
        ("--time", ["h1", "id"]),
    ],
    "monitor": [
        ("--false-alarm", ["0", "1", "nan", "0.5", "1e-300", "x"]),
        ("--y", ["", "city", "mu", "nothing"]),
        ("--state", ["", ".", "/", "nothing/state.nearcal"]),
        ("--base", []),
    ],
    "inspect": [("--json", [])],
    "compile": [
        ("--tolerance", ["0", "-1", "nan", "inf", "x", "1e300"]),
        ("--levels", ["", ",", "0,1", "nan", "0.5,0.5", "1e-300", "0.5;0.6"]),
        ("--coverage", ["0", "1", "nan", "90"]),
        ("--false-alarm", ["0", "1", "nan", "x"]),
        ("--base", ["", "normal", "gauss", "\0"]),
    ],
}


def test_no_command_is_left_out():
    assert set(SUBJECTS) | READ_NO_FILES == set(COMMANDS)
    assert set(OPTIONS) == set(SUBJECTS)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A folder with a model and tables of every format, as they should be."""
    folder = tmp_path_factory.mktemp("good")
    for suffix in SUFFIXES:
        write_table(make_table(60, 1), folder / f"table{suffix}")
    command = ["fit", str(folder / "table.csv"), "-o", str(folder / "model.nearcal"), *FIT]
    assert run(command) == 0
    return folder


@pytest.mark.parametrize("command", SUBJECTS)
def test_bad_files_and_options(command, fuzz, good, tmp_path, capfd):
    def attack(rng):
        place = tmp_path / "place"
        place.mkdir()
        try:
            _attack(rng, command, good, place, capfd)
        finally:
            for path in place.rglob("*"):
                if not path.is_symlink():
                    path.chmod(0o700)
            shutil.rmtree(place)

    fuzz.run(f"nearcal {command}", attack, cases=12)


def _attack(rng, command, good, place, capfd):
    suffix = _choose(rng, SUFFIXES)
    model, table = place / "model.nearcal", place / f"table{suffix}"
    shutil.copy(good / model.name, model)
    shutil.copy(good / table.name, table)
    reads = {"model": model, "table": table}
    needed = [path for name, path in reads.items() if name in SUBJECTS[command]]
    if rng.integers(4):
        _spoil(rng, _choose(rng, needed))
    arguments = [command, *map(str, needed)]
    output = None
    if SUBJECTS[command][-1].startswith("out"):
        output = _place_of_output(rng, SUBJECTS[command][-1], place, needed)
        arguments += ["-o", str(output)]
    if command == "fit":
        arguments += FIT
    if rng.integers(2):
        option, values = _choose(rng, OPTIONS[command])
        arguments += [option, *([_choose(rng, values)] if values else [])]
    arguments += ["--skip-missing"] if rng.integers(3) == 0 and command not in ("inspect", "compile") else []
    as_json = bool(rng.integers(4) == 0)
    before = _content(place)
    capfd.readouterr()
    code = run([*arguments, "--json"] if as_json and "--json" not in arguments else arguments)
    out, err = capfd.readouterr()
    _check(code, out, err, output, before, _content(place), as_json or "--json" in arguments)


def _check(code, out, err, output, before, after, as_json):
    written = {path for path in after if path not in before or after[path] != before[path]}
    assert "Traceback" not in out + err
    assert {path for path in before if path not in after} == set(), "an input is gone"
    if code in (0, LOST):
        target = {os.path.realpath(output)} if output is not None else set()
        assert written <= target, f"written besides the output: {written}"
        if output is not None:
            _check_output(Path(output))
        assert not as_json or json.loads(out)
        return
    assert code == MISTAKEN
    assert written == set(), f"half-written: {written}"
    assert out == ""
    lines = [line for line in err.splitlines() if not line.startswith(("left out ", "note: "))]
    assert len(lines) == 1, err
    if as_json:
        assert set(json.loads(lines[0])) == {"error", "suggestion"}
    else:
        assert lines[0].startswith("nearcal: ")


def _check_output(path):
    if path.suffix == ".nearcal":
        assert run(["inspect", str(path)]) == 0
    elif path.suffix == ".onnx":
        onnx.checker.check_model(str(path))
    elif path.suffix in (".html", ".htm"):
        assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")
    else:
        assert len(read_table(path)) > 0


def _content(folder):
    """Return all files below a folder, by their true path, with what is in them; links as links."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o700)
            found[os.path.realpath(path)] = path.read_bytes()
            path.chmod(mode)
    return found


def _choose(rng, things):
    return things[int(rng.integers(len(things)))]


# ---- outputs --------------------------------------------------------------------------------------------------------


def _place_of_output(rng, name, place, read):
    """Return where to write: usually a good place, else a folder, none, a link to what is read, a locked folder."""
    path = place / (name if "." in name else name + _choose(rng, [*SUFFIXES, ".xlsx", ""]))
    kind = rng.integers(10)
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        return place / "nowhere" / path.name
    elif kind == 2:
        (os.symlink if rng.integers(2) else os.link)(_choose(rng, read), path) if _is_plain(read) else None
    elif kind == 3:
        path.symlink_to(place / "dangling.bin")
    elif kind == 4:
        path.write_bytes(b"an old file")
    elif kind == 5:
        return place / ("x" * 300 + path.suffix)
    elif kind == 6:
        return _choose(rng, read)
    return path


def _is_plain(paths):
    return all(path.is_file() and not path.is_symlink() for path in paths)


# ---- inputs ---------------------------------------------------------------------------------------------------------


def _spoil(rng, path):
    """Make a file bad in one of many ways."""
    if rng.integers(2) and path.suffix in SUFFIXES:
        _spoil_table(rng, path)
    else:
        _spoil_bytes(rng, path)


def _spoil_bytes(rng, path):
    content, kind = path.read_bytes(), rng.integers(9)
    if kind == 0:
        path.write_bytes(_choose(rng, [b"", b"\n", b"\0" * 100, rng.bytes(3000), b"\xff\xfe\x00", b",,,\n,,,\n"]))
    elif kind == 1:
        path.write_bytes(content[: rng.integers(len(content))])
    elif kind == 2:
        changed = bytearray(content)
        for place in rng.integers(len(content), size=rng.integers(1, 30)):
            changed[place] = rng.integers(256)
        path.write_bytes(bytes(changed))
    elif kind == 3:
        path.unlink()
        path.mkdir()
    elif kind == 4:
        path.unlink()
    elif kind == 5:
        path.chmod(0)
    elif kind == 6:
        path.unlink()
        path.symlink_to(_choose(rng, [path.name, "nothing", "."]))
    elif kind == 7:
        start = int(rng.integers(len(content)))
        path.write_bytes(content[:start] + rng.bytes(int(rng.integers(1, 50))) + content[start:])
    else:
        lines = content.split(b"\n")
        bad = [b"1,2", b'"', b"a," * 500, b"\xe9,\xe9", b"", b"1;2;3", b"'\0'"]
        lines.insert(int(rng.integers(len(lines))), _choose(rng, bad))
        path.write_bytes(b"\n".join(lines))


NUMBERS = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, -1e308, 1e155, 1e-320]


def _spoil_table(rng, path):
    """Write a table whose columns are missing, doubled, renamed, of other types, or hold other numbers."""
    table = make_table(60, 1)
    for _ in range(rng.integers(1, 3)):
        name = _choose(
            rng, [name for name in ("mu", "sigma", "price", "h1", "h2", "id", "city") if name in table.schema.names]
        )
        place = table.schema.get_field_index(name)
        if place < 0:
            continue
        kind = rng.integers(6)
        if kind <= 1:
            values = np.asarray(table[name].to_numpy(zero_copy_only=False), dtype=object).copy()
            rows = rng.integers(len(values), size=_choose(rng, [1, 3, len(values)]))
            is_number = pa.types.is_floating(table[name].type)
            values[rows] = _choose(rng, NUMBERS) if is_number else "x"
            table = table.set_column(place, name, pa.array(values.tolist() if is_number else list(map(str, values))))
        elif kind == 2:
            table = table.drop_columns([name])
        elif kind == 3:
            doubled = pa.table([*table.columns, table[name]], names=[*table.schema.names, name])
            if path.suffix != ".feather":
                table = doubled
        elif kind == 4:
            new = _choose(rng, ["", " mu", "é\u202e", "a,b", 'q"uote', "x" * 5000, "\N{DUCK}", "mean", "q10"])
            table = table.rename_columns([new if i == place else old for i, old in enumerate(table.schema.names)])
        else:
            table = _other_type(rng, table, place, name)
    if rng.integers(6) == 0:
        table = table.slice(0, _choose(rng, [0, 1, 2, 5]))
    if path.suffix == ".parquet":
        parquet.write_table(table, str(path))
    else:
        write_table(table, path)


def _other_type(rng, table, place, name):
    n = len(table)
    columns = [
        pa.array(["oops"] * n),
        pa.nulls(n),
        pa.array([True] * n),
        pa.array(range(n), pa.int8()),
        pa.array([2**63 - 1] * n),
        pa.array(range(n), pa.timestamp("s")),
        pa.array(["a", "b"] * (n // 2) + ["a"] * (n % 2)).dictionary_encode(),
        pa.array([1.5] * n, pa.float32()),
        pa.array([None, *range(1, n)], pa.float64()) if n else pa.nulls(0),
    ]
    return table.set_column(place, name, _choose(rng, columns))
