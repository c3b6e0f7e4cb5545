"""Groups and time on the command line: what Python gives for the same columns."""

import datetime as dt
import json

import numpy as np
import pyarrow as pa
import pytest

import nearcal as nc
from tests.cli.tables import FORMATS, NORMAL, make_table, write_table

pytestmark = pytest.mark.usefixtures("little_choice")
ROWS = 300
RNG = np.random.default_rng(4)
DAYS = RNG.permutation(ROWS) // 2
WHEN = [dt.datetime(2024, 1, 1) + dt.timedelta(days=int(day)) for day in DAYS]
DEVICES = [f"device {i}" for i in RNG.integers(0, 12, size=ROWS)]


def table_in_time():
    table = make_table(ROWS, 1)
    return table.append_column("when", pa.array(WHEN)).append_column("device", pa.array(DEVICES)).append_column(
        "day", pa.array(DAYS)
    )  # fmt: skip


WAYS = {
    "groups": (["--groups", "device"], {"groups": DEVICES}),
    "dates": (["--time", "when", "--gap", "36h"], {"time": WHEN, "gap": dt.timedelta(hours=36)}),
    "days": (["--time", "day", "--gap", "1.5"], {"time": DAYS, "gap": 1.5}),
    "both": (["--time", "day", "--groups", "device"], {"time": DAYS, "groups": DEVICES}),
    "in order": (["--in-order", "--gap", "3"], {"time": True, "gap": 3}),
    "any order": (["--any-order"], {"time": False}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("suffix", FORMATS)
def test_the_choice_is_that_of_python(way, suffix, nearcal, tmp_path):
    options, relations = WAYS[way]
    table = table_in_time()
    path = write_table(table, tmp_path / f"cal.{suffix}")
    narrow = ["--scaling", "standard", "--smoothing", "biweight", "--no-linear", "--no-shrinkage", "--no-trend"]
    given = ["--y", "price", *NORMAL, "--space", "h*", *narrow, *options, "--json"]
    done = nearcal("fit", path, "-o", tmp_path / "model.nearcal", *given)
    assert (done.code, done.err) == (0, "")
    columns = {name: table[name].to_numpy() for name in ("mu", "sigma", "price", "h1", "h2")}
    expected = nc.tune(
        nc.Normal(columns["mu"], columns["sigma"]),
        columns["price"],
        np.column_stack([columns["h1"], columns["h2"]]),
        scaling="standard",
        smoothing="biweight",
        linear=False,
        shrinkage=False,
        trend=False,
        **relations,
    )
    assert json.loads(done.out)["reason"] == expected.reason


def test_a_recalibrator_that_is_given_learns_by_them(nearcal, tmp_path):
    path = write_table(table_in_time(), tmp_path / "cal.parquet")
    common = ["--y", "price", *NORMAL, "--space", "h*", "--k", "20"]
    polishes = []
    for number, options in enumerate((["--time", "day"], [])):
        model = tmp_path / f"{number}.nearcal"
        assert nearcal("fit", path, "-o", model, *common, *options).code == 0
        polishes.append(nc.load(model).recalibrator.corrections_[0].map.line.values)
    assert polishes[0].shape != polishes[1].shape or not np.array_equal(*polishes)


@pytest.mark.parametrize("options", [["--groups", "device"], ["--time", "when"], ["--time", "day"]], ids=str)
def test_evaluation_counts_them(options, nearcal, tmp_path):
    path = write_table(table_in_time(), tmp_path / "cal.parquet")
    model = tmp_path / "model.nearcal"
    assert nearcal("fit", path, "-o", model, "--y", "price", *NORMAL, "--space", "h*", "--k", "50").code == 0
    done = nearcal("evaluate", model, path, *options, "--json")
    assert (done.code, done.err) == (0, "")
    plain, judged = (json.loads(text)["metrics"] for text in (nearcal("evaluate", model, path, "--json").out, done.out))
    assert [row["value"] for row in plain if row["metric"] == "crps"] == [
        row["value"] for row in judged if row["metric"] == "crps"
    ]
    assert [row["se"] for row in plain] != [row["se"] for row in judged]
    page = nearcal("report", model, path, "-o", tmp_path / "page.html", *options)
    assert (page.code, page.err) == (0, "")


def test_dependence_is_remarked(nearcal, tmp_path):
    table = make_table(ROWS, 1).sort_by("price")
    path = write_table(table, tmp_path / "cal.parquet")
    given = ["-o", tmp_path / "m.nearcal", "--y", "price", *NORMAL, "--space", "h*", "--scaling", "standard"]
    done = nearcal("fit", path, *given)
    assert done.code == 0
    assert "note: rows of the calibration set that follow each other err alike" in done.err
    assert nearcal("fit", path, *given, "--any-order").err == ""
