"""What a newcomer gets wrong, and the line each mistake gets: exit code 2, one line on stderr, nothing written."""

import json
import os
import shlex

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import nearcal as nc
from nearcal.cli._app import run
from tests.cli.tables import NORMAL, make_table, write_table

MISTAKES = {
    "fitt": "there is no command 'fitt'; did you mean 'fit'?",
    "fit": "Missing argument 'CALIBRATION'; see nearcal fit --help",
    "fit cal.parquet -o m.nearcal --y price NORMAL --spaces 'h*'": "there is no option --spaces; did you mean '--space'?",
    "fit cal.parquet --y price": "Missing option '--output' / '-o'; see nearcal fit --help",
    "fit cal.parquet -o m.nearcal NORMAL --space 'h*'": "Missing option '--y'; see nearcal fit --help",
    "fit call.parquet -o m.nearcal --y price NORMAL --space 'h*'": "there is no file call.parquet; did you mean 'cal.parquet'?",
    "fit folder -o m.nearcal --y price NORMAL --space 'h*'": "folder is a directory; give one file",
    "fit table.xlsx -o m.nearcal --y price NORMAL --space 'h*'": "the suffix of table.xlsx says no known format; known: .parquet .pq .csv .tsv .arrow .feather .ipc",
    "fit empty.csv -o m.nearcal --y price NORMAL --space 'h*'": "empty.csv is empty; check how it was written",
    "fit norows.parquet -o m.nearcal --y price NORMAL --space 'h*'": "norows.parquet has no rows; check how it was written",
    "fit cal.parquet -o m.nearcal --y prize NORMAL --space 'h*'": "cal.parquet has no column 'prize'; did you mean 'price'?",
    "fit cal.parquet -o m.nearcal --y price --family nomal --param loc=mu --space 'h*'": "--family does not know 'nomal'; did you mean 'normal'?",
    "fit cal.parquet -o m.nearcal --y price --family normal --param loc=mu --space 'h*'": "family 'normal' takes loc, scale, got loc; add --param scale=COLUMN",
    "fit cal.parquet -o m.nearcal --y price NORMAL --param loc=h1 --space 'h*'": "--param loc is given twice, mu and h1; give it once",
    "fit cal.parquet -o m.nearcal --y price NORMAL --param mean=h1 --space 'h*'": "family 'normal' has no parameter 'mean'; known: loc, scale",
    "fit cal.parquet -o m.nearcal --y price --family normal --param loc=mu --param scale=sigm --space 'h*'": "--param scale=sigm names no column of cal.parquet and no number; did you mean 'sigma'?",
    "fit cal.parquet -o m.nearcal --y price --family normal --param mu --space 'h*'": "--param must be NAME=COLUMN or NAME=NUMBER, got 'mu'; for example loc=mu",
    "fit cal.parquet -o m.nearcal --y price --space 'h*'": (
        "give one of --family, --quantile and --samples, got none; for example --family normal --param loc=mu "
        "--param scale=sigma"
    ),
    "fit cal.parquet -o m.nearcal --y price NORMAL --samples 'draw*' --space 'h*'": (
        "give one of --family, --quantile and --samples, got --family and --samples; for example --family normal "
        "--param loc=mu --param scale=sigma"
    ),
    "fit cal.parquet -o m.nearcal --y price NORMAL --space 'hidden*'": (
        "--space 'hidden*' matches no column of cal.parquet; there are: id, mu, sigma, price, h1, h2, city, q05, "
        "q50, q95, draw_0, draw_1 and 6 more"
    ),
    "fit cal.parquet -o m.nearcal --y price NORMAL --space h1,city": (
        "column 'city' of cal.parquet must hold numbers, and holds text; the first value is 'Bonn'; leave it out,"
        " or encode it as numbers"
    ),
    "fit cal.parquet -o m.nearcal --y price NORMAL --space '*'": (
        "--space takes in the response 'price', which is not known for new rows; name the columns of the space "
        "without it"
    ),
    "fit cal.parquet -o m.nearcal --y price NORMAL": (
        "--space is missing: the columns in which near means similar; for example --space 'x*', or --method "
        "isotonic, which asks for none"
    ),
    "fit cal.parquet -o m.nearcal --y price NORMAL --space 'h*' --k 4000": "--k must be at most the number of rows, 400, got 4000; take fewer, or --method global for all of them",
    "fit cal.parquet -o m.nearcal --y price NORMAL --space 'h*' --k many": "--k must be a whole number above 0 or auto, got 'many'; for example --k 500",
    "fit cal.parquet -o m.nearcal --y price NORMAL --space 'h*' --k 5 --radius 1": "--k and --radius are both given; give one of them",
    "fit cal.parquet -o m.nearcal --y price NORMAL --space 'h*' --radius -1": "--radius must be positive, got -1; give a distance in the scaled space",
    "fit cal.parquet -o m.nearcal --y price NORMAL --space 'h*' --k 5 --smoothing epanechnikow": "--smoothing does not know 'epanechnikow'; did you mean 'epanechnikov'?",
    "fit cal.parquet -o m.nearcal --y price NORMAL --space 'h*' --method isotonik": "--method does not know 'isotonik'; did you mean 'isotonic'?",
    "fit cal.parquet -o m.nearcal --y price NORMAL --space 'h*' --method isotonic --k 5": "--method isotonic has no use for --k; leave it out, or take --method local",
    "fit cal.parquet -o m.nearcal --y price NORMAL --space 'h*' --method local": "--method local needs --k or --radius; leave out --method to have it chosen",
    "fit cal.parquet -o m.nearcal --y price --quantile q95 --space 'h*'": "one quantile is no distribution; give at least two, such as --quantile 0.1=q10",
    "fit cal.parquet -o m.nearcal --y price --quantile 95=q95 --quantile 0.05=q05 --space 'h*'": "the level of --quantile '95=q95' must lie strictly between 0 and 1, got 95; did you mean 0.95?",
    "fit cal.parquet -o m.nearcal --y mu NORMAL --space h2": "--y 'mu' is also a column of the prediction; name the column of what was observed",
    "fit gaps.parquet -o m.nearcal --y price NORMAL --space 'h*'": (
        "gaps.parquet has 3 of 250 rows with missing or infinite values, the first in row 17, column 'mu'; fill "
        "them, drop them, or pass --skip-missing"
    ),
    "fit negative.parquet -o m.nearcal --y price NORMAL --space 'h*'": (
        "column 'sigma' of negative.parquet is the parameter 'scale' and must be positive: 2 of 250 rows are not,"
        " the first is row 12: -0.5; correct them, or take another family or column"
    ),
    "fit cal.parquet -o folder --y price NORMAL --space 'h*' --k 50": "--output folder is a directory; give the name of a file",
    "fit cal.parquet -o nowhere/m.nearcal --y price NORMAL --space 'h*' --k 50": "--output nowhere/m.nearcal lies in a directory that does not exist; create nowhere first",
    "fit cal.parquet -o m.parquet --y price NORMAL --space 'h*' --k 50": "--output m.parquet has the suffix of a table; did you mean 'm.nearcal'?",
    "fit cal.parquet -o m.nearcal --y price --family gamma --param shape=2 --param mean=mean --space 'h*' --k 50": (
        "column 'price' of cal.parquet is the response of family 'gamma' and must be positive: 214 of 400 rows "
        "are not, the first is row 4: -1.48711; correct them, or take another family or column"
    ),
    "predict modell.nearcal new.parquet -o out.parquet": "there is no file modell.nearcal; did you mean 'model.nearcal'?",
    "predict python.nearcal new.parquet -o out.parquet": (
        "python.nearcal holds a VarianceScaling saved from Python, which does not say what columns it takes; make"
        " a model with nearcal fit, or use nearcal.load in Python"
    ),
    "predict new.parquet model.nearcal -o out.parquet": "new.parquet is a table, not a model; the model comes first, then the table",
    "predict model.nearcal narrow.parquet -o out.parquet": (
        "narrow.parquet has no column 'h2', which model.nearcal takes; there are: id, mu, sigma, price, h1, city,"
        " q05, q50, q95, draw_0, draw_1, draw_2 and 5 more"
    ),
    "predict model.nearcal new.parquet -o out.parquet --coverage 95": "--coverage must lie strictly between 0 and 1, got 95; did you mean 0.95?",
    "predict model.nearcal new.parquet -o out.parquet --quantiles 0.5,1.5": "--quantiles must lie strictly between 0 and 1, got 1.5; 95% is 0.95",
    "predict model.nearcal new.parquet -o out.parquet --quantiles '0.5;0.9'": "--quantiles must be numbers between commas, got '0.5;0.9'; such as 0.1,0.5,0.9",
    "predict model.nearcal new.parquet -o out.xlsx": "the suffix of out.xlsx says no known format; known: .parquet .pq .csv .tsv .arrow .feather .ipc",
    "predict model.nearcal new.parquet -o folder.parquet": "--output folder.parquet is a directory; give the name of a file",
    "predict model.nearcal new.parquet -o new.parquet": "--output new.parquet is the table to be read; choose another name",
    "predict model.nearcal new.parquet -o out.parquet --keep idd": "new.parquet has no column 'idd'; did you mean 'id'?",
    "predict model.nearcal new.parquet -o out.parquet --keep mean": "--keep 'mean' has the name of a column to be written; rename it in the table first",
    "predict model.nearcal gaps.parquet -o out.parquet": (
        "gaps.parquet has 3 of 250 rows with missing or infinite values, the first in row 17, column 'mu'; fill "
        "them, drop them, or pass --skip-missing"
    ),
    "predict model.nearcal negative.parquet -o out.parquet": (
        "column 'sigma' of negative.parquet is the parameter 'scale' and must be positive: 2 of 250 rows are not,"
        " the first is row 12: -0.5; correct them, or take another family or column"
    ),
    "predict model.nearcal new.parquet": "Missing option '--output' / '-o'; see nearcal predict --help",
    "evaluate model.nearcal test.parquet --y prise": "test.parquet has no column 'prise', which should hold the responses; did you mean 'price'?",
    "evaluate model.nearcal test.parquet --coverage 90": "--coverage must lie strictly between 0 and 1, got 90; did you mean 0.9?",
    "evaluate model.nearcal test.parquet --regions 1000": "--regions must be at most the number of rows, 300, got 1000; take fewer",
    "report model.nearcal test.parquet -o report.pdf": "--output report.pdf is no page; did you mean 'report.html'?",
    "inspect model.txt": (
        "model.txt is not a file written by nearcal.save, or has lost its beginning; a model itself is loaded by "
        "the framework that saved it"
    ),
    "inspect": "Missing argument 'MODEL'; see nearcal inspect --help",
    "inspekt x": "there is no command 'inspekt'; did you mean 'inspect'?",
    "--verison": "there is no option --verison; did you mean '--version'?",
}


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
    assert len(MISTAKES) >= 50


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_gets_one_line(command, inside, nearcal):
    done = nearcal(*shlex.split(command.replace("NORMAL", shlex.join(NORMAL))))
    assert done == (2, "", f"nearcal: {MISTAKES[command]}\n")


@pytest.mark.parametrize(
    ("command", "begin"),
    [
        ("fit fake.parquet -o m.nearcal --y a NORMAL", "fake.parquet cannot be read as parquet; Arrow says: "),
        ("fit ragged.csv -o m.nearcal --y a NORMAL", "ragged.csv cannot be read as csv; Arrow says: "),
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
