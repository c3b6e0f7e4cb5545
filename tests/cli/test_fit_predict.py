"""From a calibration set in a file to predictions in a file, equal to what Python gives in memory."""

import json
import warnings

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

import nearcal as nc
from nearcal.cli._app import COMMANDS
from nearcal.distributed import batches
from nearcal.models.adapters import ColumnsModel
from tests.cli.tables import FORMATS, LEVELS, NORMAL, make_table, read_table, write_table

SPACE = ("h1", "h2")


def columns_of(table):
    return {name: table[name].to_numpy() for name in table.column_names}


# options of fit, the same by hand
WAYS = {
    "normal": (NORMAL, lambda t: nc.Normal(t["mu"], t["sigma"])),
    "a number": (
        ("--family", "laplace", "--param", "loc=mu", "--param", "scale=0.75"),
        lambda t: nc.Laplace(t["mu"], 0.75),
    ),
    "student_t": (
        ("--family", "student-t", "--param", "df=4", "--param", "loc=mu", "--param", "scale=sigma"),
        lambda t: nc.StudentT(4.0, t["mu"], t["sigma"]),
    ),
    "quantiles": (
        ("--quantile", "q*"),
        lambda t: nc.Quantiles(LEVELS, np.column_stack([t["q05"], t["q50"], t["q95"]])),
    ),
    "quantiles by level": (
        ("--quantile", "0.95=q95", "--quantile", "0.05=q05"),
        lambda t: nc.Quantiles([0.05, 0.95], np.column_stack([t["q05"], t["q95"]])),
    ),
    "samples": (
        ("--samples", "draw_*"),
        lambda t: nc.Samples(np.column_stack([t[f"draw_{i}"] for i in range(5)])),
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("suffix", FORMATS)
def test_predictions_equal_those_of_python(way, suffix, folder, nearcal, tmp_path):
    options, dist = WAYS[way]
    model, out = tmp_path / "model.nearcal", tmp_path / f"out.{suffix}"
    done = nearcal("fit", folder / f"cal.{suffix}", "-o", model, "--y", "price", *options, "--space", "h*", "--k", 60)
    assert (done.code, done.err) == (0, "")
    assert "learnt from 400 rows" in done.out
    done = nearcal("predict", model, folder / f"new.{suffix}", "-o", out, "--coverage", 0.8, "--quantiles", "0.1,0.5")
    assert (done.code, done.err) == (0, "")
    cal, new = columns_of(make_table(400, 1)), columns_of(make_table(250, 3))
    rc = nc.LocalRecalibrator(60, scaling="standard", quantile_rule="predictive", corrections=(nc.Polish(),))
    rc.fit(dist(cal), cal["price"], np.column_stack([cal[name] for name in SPACE]))
    expected = rc.recalibrate(dist(new), np.column_stack([new[name] for name in SPACE]))
    lower, upper = expected.interval(0.8)
    by_hand = {"mean": expected.mean(), "std": expected.std(), "lower_80": lower, "upper_80": upper}
    by_hand |= {"q10": expected.ppf(0.1), "q50": expected.ppf(0.5)}
    found = read_table(out)
    assert list(found) == list(by_hand)
    for name, values in by_hand.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


METHODS = {
    "global": nc.GlobalRecalibrator(quantile_rule="predictive"),
    "isotonic": nc.IsotonicRecalibrator(),
    "conformal": nc.ConformalRecalibrator(),
    "variance-scaling": nc.VarianceScaling(),
    "none": nc.IdentityRecalibrator(),
}


@pytest.mark.parametrize("method", METHODS)
def test_methods_that_ask_for_no_space(method, folder, nearcal, tmp_path):
    model, out = tmp_path / "model.nearcal", tmp_path / "out.parquet"
    assert nearcal("fit", folder / "cal.csv", "-o", model, "--y", "price", *NORMAL, "--method", method).code == 0
    assert nearcal("predict", model, folder / "new.parquet", "-o", out, "--reliability").code == 0
    cal, new = columns_of(make_table(400, 1)), columns_of(make_table(250, 3))
    rc = METHODS[method].fit(nc.Normal(cal["mu"], cal["sigma"]), cal["price"])
    expected = rc.recalibrate(nc.Normal(new["mu"], new["sigma"]))
    found = read_table(out)
    np.testing.assert_array_equal(found["mean"], expected.mean())
    np.testing.assert_array_equal(found["lower_90"], expected.interval(0.9)[0])
    assert not found["out_of_distribution"].any()


@pytest.mark.parametrize(
    ("options", "promise"),
    [
        (("--guarantee", "marginal", "--guarantee-share", 0.4, "--guarantee-seed", 3), nc.Marginal(0.4, 3)),
        (("--guarantee", "pac", "--guarantee-delta", 0.2), nc.PAC(delta=0.2)),
        (("--guarantee", "cross"), nc.Cross()),
    ],
)
def test_guarantees_are_those_of_calibrate(options, promise, folder, nearcal, tmp_path):
    model, out = tmp_path / "model.nearcal", tmp_path / "out.parquet"
    done = nearcal("fit", folder / "cal.csv", "-o", model, "--y", "price", *NORMAL, "--method", "isotonic", *options)
    assert done.code == 0
    assert f"Promised ({type(promise).__name__.lower()})" in done.out
    assert "Promised" in nearcal("inspect", model).out
    assert nearcal("predict", model, folder / "new.parquet", "-o", out).code == 0
    cal, new = columns_of(make_table(400, 1)), columns_of(make_table(250, 3))
    kind = nc.CrossRecalibrator if isinstance(promise, nc.Cross) else nc.GuaranteedRecalibrator
    rc = kind(nc.IsotonicRecalibrator(), promise).fit(nc.Normal(cal["mu"], cal["sigma"]), cal["price"])
    expected = rc.recalibrate(nc.Normal(new["mu"], new["sigma"])).interval(0.9)
    np.testing.assert_array_equal(read_table(out)["lower_90"], expected[0])


def test_a_guarantee_for_groups_in_columns(folder, nearcal, tmp_path):
    table, new = make_table(400, 1), make_table(250, 3)
    for name, part in (("cal", table), ("new", new)):
        flag = np.asarray(part["h1"]) > np.median(np.asarray(table["h1"]))
        write_table(part.append_column("high", pa.array(flag.astype(np.int64))), tmp_path / f"{name}.parquet")
    model, out = tmp_path / "model.nearcal", tmp_path / "out.parquet"
    options = (*NORMAL, "--method", "isotonic", "--guarantee", "marginal", "--guarantee-groups", "high")
    assert nearcal("fit", tmp_path / "cal.parquet", "-o", model, "--y", "price", *options).code == 0
    assert set(nc.load(model).guarantee.groups) == {"0", "1"}
    assert nearcal("predict", model, tmp_path / "new.parquet", "-o", out).code == 0
    assert np.isfinite(read_table(out)["upper_90"]).all()
    assert nearcal("evaluate", model, tmp_path / "new.parquet").code == 0
    assert "high" in nearcal("predict", model, folder / "new.parquet", "-o", out).err


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (("--radius", 0.8, "--smoothing", "uniform"), {"radius": 0.8, "smoothing": "uniform", "scaling": "standard"}),
        (("--k", 30, "--scaling", "whiten"), {"k": 30, "smoothing": "epanechnikov", "scaling": "whiten"}),
        (("--method", "knn", "--k", 30), {"k": 30, "corrections": ()}),
        (
            ("--k", 30, "--scaling", "relevance", "--linear", "--shrinkage", "--no-polish"),
            {"scaling": "relevance", "corrections": (nc.LocalLinear(), nc.Shrinkage())},
        ),
        (("--k", 30, "--linear", "--shrinkage"), {"corrections": (nc.LocalLinear(), nc.Shrinkage(), nc.Polish())}),
        (("--k", 30, "--no-linear", "--no-shrinkage"), {"corrections": (nc.Polish(),)}),
        (("--k", 30, "--components", 1), {"scaling": nc.Scaling("standard", 1), "corrections": (nc.Polish(),)}),
    ],
)
def test_settings_are_those_given(options, settings, folder, nearcal, tmp_path):
    model = tmp_path / "model.nearcal"
    assert (
        nearcal("fit", folder / "cal.csv", "-o", model, "--y", "price", *NORMAL, "--space", "h1,h2", *options).code == 0
    )
    found = nc.load(model).recalibrator.get_params()
    assert {name: found[name] for name in settings} == settings
    assert found["quantile_rule"] == "predictive"


def test_without_settings_it_tunes_as_calibrate_does(folder, nearcal, tmp_path):
    model = tmp_path / "model.nearcal"
    options = (*NORMAL, "--space", "both=h*", "--space", "useless=h1", "--json")
    done = nearcal("fit", folder / "cal.parquet", "-o", model, "--y", "price", *options)
    cal = columns_of(make_table(400, 1))
    adapter = ColumnsModel("normal", {"loc": "mu", "scale": "sigma"}, {"both": SPACE, "useless": ("h1",)}, "price")
    expected = nc.calibrate(adapter, cal, cal["price"])
    loaded = nc.load(model)
    assert str(loaded.tuning) == str(expected.tuning)
    assert loaded.model == adapter
    assert json.loads(done.out) == {
        "model": str(model),
        "rows": 400,
        "rows_left_out": 0,
        "recalibrator": repr(expected.recalibrator),
        "space": expected.layer,
        "reason": expected.reason,
        "guarantee": None,
        "version": nc.__version__,
    }


def test_what_is_given_is_not_chosen(folder, nearcal, tmp_path):
    model = tmp_path / "model.nearcal"
    options = (
        "--scaling",
        "relevance",
        "--linear",
        "--no-trend",
        "--no-shrinkage",
        "--no-polish",
        "--no-fade",
        "--smoothing",
        "uniform",
    )
    done = nearcal("fit", folder / "cal.csv", "-o", model, "--y", "price", *NORMAL, "--space", "h*", *options)
    assert (done.code, done.err) == (0, "")
    loaded = nc.load(model)
    local = [row for row in loaded.tuning.table if row["kind"] == "local"]
    assert {row["scaling"] for row in local} == {"relevance"}
    assert all(row["linear"] for row in local)
    assert {row["smoothing"] for row in local} == {"uniform"}
    assert not any(row["shrinkage"] for row in local)
    assert loaded.tuning.chosen.kind == "local"
    assert isinstance(loaded.recalibrator, nc.AveragedRecalibrator)
    assert not any(isinstance(one, nc.Polish) for one in loaded.recalibrator.corrections)
    for member in loaded.recalibrator.members_:
        assert member.corrections == (nc.LocalLinear(),)


def test_how_many_are_averaged_can_be_said(folder, nearcal, tmp_path):
    model, options = tmp_path / "model.nearcal", ("--y", "price", *NORMAL, "--space", "h*", "--smoothing", "uniform")
    done = nearcal("fit", folder / "cal.csv", "-o", model, *options, "--members", "1", "--effort", "quick")
    assert (done.code, done.err) == (0, "")
    assert isinstance(nc.load(model).recalibrator, nc.LocalRecalibrator)
    for wrong, message in (
        (("--members", "0"), "--members must be at least 1, got 0"),
        (("--members", "2", "--k", "50"), "--method local has no use for --members"),
        (("--members", "2", "--shards", tmp_path / "shards"), "--members cannot be used with --shards"),
    ):
        done = nearcal("fit", folder / "cal.csv", "-o", model, *options, *wrong)
        assert done.code == 2
        assert message in done.err


def test_a_choice_may_be_distilled(folder, nearcal, tmp_path):
    model, options = tmp_path / "model.nearcal", ("--y", "price", *NORMAL, "--space", "h*")
    few = ("--smoothing", "uniform", "--no-trend", "--no-linear", "--no-shrinkage", "--effort", "quick")
    for flag, is_tried in (("--distilled", True), ("--no-distilled", False)):
        done = nearcal("fit", folder / "cal.csv", "-o", model, *options, *few, flag)
        assert (done.code, done.err) == (0, "")
        assert ("istilled: a student (" in done.out) == is_tried
        assert nc.load(model).tuning.table["distilled"].any() == is_tried
    for wrong, message in (
        (("--distilled", "--k", "50"), "--method local has no use for --distilled"),
        (("--no-distilled", "--k", "50"), "--method local has no use for --no-distilled"),
        (("--distilled", "--shards", tmp_path / "shards"), "--distilled cannot be used with --shards"),
    ):
        done = nearcal("fit", folder / "cal.csv", "-o", model, *options, *wrong)
        assert done.code == 2
        assert message in done.err


def test_joined_spaces_are_known_by_their_columns(folder, nearcal, tmp_path):
    cal, new = columns_of(make_table(400, 1)), columns_of(make_table(250, 3))
    adapter = ColumnsModel("normal", {"loc": "mu", "scale": "sigma"}, {"a": ("h1",), "b": ("h2",)}, "price")
    local = nc.LocalRecalibrator(k=40, smoothing="uniform", scaling="relevance", quantile_rule="predictive")
    expected = nc.calibrate(adapter, cal, cal["price"], layer="a + b", recalibrator=local)
    model, out = tmp_path / "model.nearcal", tmp_path / "out.parquet"
    nc.save(expected, model)
    done = nearcal("predict", model, folder / "new.parquet", "-o", out)
    assert (done.code, done.err) == (0, "")
    np.testing.assert_array_equal(read_table(out)["mean"], expected.predict(new).mean())
    done = nearcal("evaluate", model, folder / "test.csv", "--regions", 4)
    assert (done.code, done.err) == (0, "")
    assert "regional_coverage_error" in done.out


@pytest.mark.parametrize("suffix", FORMATS)
def test_batches_do_not_show(suffix, folder, nearcal, tmp_path, monkeypatch):
    """Rows are the same wherever the file is cut, and in memory."""
    whole, cut = tmp_path / "whole.parquet", tmp_path / "cut.parquet"
    options = ("--keep", "id", "--reliability")
    assert nearcal("predict", folder / "model.nearcal", folder / f"new.{suffix}", "-o", whole, *options).code == 0
    monkeypatch.setattr(batches, "MOST_ROWS", 7)
    monkeypatch.setattr(batches, "_FEWEST_ROWS", 1)
    assert nearcal("predict", folder / "model.nearcal", folder / f"new.{suffix}", "-o", cut, *options).code == 0
    assert parquet.read_table(cut).equals(parquet.read_table(whole))
    table = columns_of(make_table(250, 3))
    out = nc.load(folder / "model.nearcal").predict(table)
    found = read_table(cut)
    np.testing.assert_array_equal(found["id"], table["id"])
    np.testing.assert_array_equal(found["std"], out.std())
    for name, values in out.reliability().columns.items():
        if name != "isolation":
            np.testing.assert_array_equal(found[name], values)


def test_rows_unlike_the_calibration_set_are_written_counted_and_told(folder, nearcal, tmp_path, monkeypatch):
    model, out = tmp_path / "model.nearcal", tmp_path / "out.parquet"
    fit = ("fit", folder / "cal.parquet", "-o", model, "--y", "price", *NORMAL, "--space", "h*")
    assert nearcal(*fit, "--scaling", "standard", "--no-linear").code == 0
    table = columns_of(make_table(250, 3))
    far = {**table, "h1": np.where(np.arange(250) < 100, 1e3, table["h1"])}
    new = write_table(pa.table(far), tmp_path / "new.parquet")
    monkeypatch.setattr(batches, "MOST_ROWS", 60)  # of several batches one line
    monkeypatch.setattr(batches, "_FEWEST_ROWS", 1)
    done = nearcal("predict", model, new, "-o", out)
    found = read_table(out)
    assert list(found)[-1] == "trust"
    assert (found["trust"][:100] == 0).all()
    np.testing.assert_array_equal(found["mean"][:100], table["mu"][:100])
    faded = int((found["trust"] < 1).sum())
    assert f"; {faded} are unlike the calibration set" in done.out
    assert done.err.count("note: ") == 1
    assert f"{faded} of 250 new rows" in done.err
    assert json.loads(nearcal("predict", model, new, "-o", out, "--json").out)["rows_faded"] == faded
    nearcal("predict", model, new, "-o", out, "--no-trust")
    assert "trust" not in read_table(out)
    assert nearcal(*fit, "--scaling", "standard", "--no-linear", "--no-fade").code == 0
    done = nearcal("predict", model, new, "-o", out)
    assert "trust" not in read_table(out)
    assert done.err == ""
    assert nearcal(*fit, "--k", 30, "--fade").code == 0
    assert nc.load(model).recalibrator.corrections == (nc.Polish(), nc.Fade())


def test_a_row_depends_on_itself_alone(folder, nearcal, tmp_path, monkeypatch):
    """Gamma distributions that share a shape, in a batch or in none, have the same moments to the last bit."""
    model, out = tmp_path / "model.nearcal", tmp_path / "out.parquet"
    options = ("--family", "gamma", "--param", "shape=shape", "--param", "mean=mean", "--space", "h*", "--k", 60)
    assert nearcal("fit", folder / "cal.parquet", "-o", model, "--y", "paid", *options).code == 0
    table = make_table(250, 3).sort_by("shape")
    new = write_table(table, tmp_path / "new.parquet")
    monkeypatch.setattr(batches, "MOST_ROWS", 7)
    monkeypatch.setattr(batches, "_FEWEST_ROWS", 1)
    assert nearcal("predict", model, new, "-o", out).code == 0
    expected = nc.load(model).predict(columns_of(table))
    np.testing.assert_array_equal(read_table(out)["mean"], expected.mean())
    alone = nc.load(model).predict({name: values[:7] for name, values in columns_of(table).items()})
    np.testing.assert_array_equal(alone.mean(), expected.mean()[:7])


def test_rows_with_gaps_are_left_empty_on_request(folder, nearcal, tmp_path):
    table = make_table(250, 3)
    mu = table["mu"].to_numpy().copy()
    mu[[3, 200]] = np.nan
    h1 = pa.array([None if i in (3, 7) else value for i, value in enumerate(table["h1"].to_pylist())])
    gaps = table.set_column(1, "mu", pa.array(mu)).set_column(4, "h1", h1)
    for suffix in FORMATS:
        new, out = write_table(gaps, tmp_path / f"new.{suffix}"), tmp_path / f"out.{suffix}"
        done = nearcal("predict", folder / "model.nearcal", new, "-o", out, "--skip-missing")
        assert done.err == "left 3 rows with missing values empty\n"
        complete = [i for i in range(250) if i not in (3, 7, 200)]
        expected = nc.load(folder / "model.nearcal").predict(columns_of(table.take(complete)))
        readers = {"parquet": parquet.read_table, "csv": csv.read_csv, "feather": feather.read_table}
        mean = readers[suffix](str(out))["mean"]
        assert [i for i, value in enumerate(mean.to_pylist()) if value is None] == [3, 7, 200]
        np.testing.assert_array_equal(mean.take(complete).to_numpy(), expected.mean())
    model = tmp_path / "model.nearcal"
    cal = write_table(gaps, tmp_path / "cal.csv")
    done = nearcal("fit", cal, "-o", model, "--y", "price", *NORMAL, "--space", "h*", "--k", 20, "--skip-missing")
    assert done.err == "left out 3 of 250 rows with missing values\n"
    assert nc.load(model).recalibrator.n_cal_ == 247


def test_whole_numbers_booleans_and_categories_are_numbers(folder, nearcal, tmp_path):
    table = make_table(400, 1)
    table = table.append_column("count", pa.array(range(400), pa.int16()))
    table = table.append_column("flag", pa.array([i % 2 == 0 for i in range(400)]))
    table = table.append_column("grade", pa.array([i % 3 for i in range(400)], pa.int8()).dictionary_encode())
    table = table.append_column("dotted.name", pa.array(np.arange(400.0)))
    cal, model = write_table(table, tmp_path / "cal.parquet"), tmp_path / "model.nearcal"
    done = nearcal(
        "fit", cal, "-o", model, "--y", "price", *NORMAL, "--space", "count,flag,grade,dotted.name", "--k", 30
    )
    assert (done.code, done.err) == (0, "")
    assert nc.load(model).recalibrator.n_features_in_ == 4


def test_text_beyond_the_first_block_of_a_csv_file(nearcal, tmp_path, monkeypatch):
    from nearcal.cli import _tables

    monkeypatch.setattr(_tables, "_BLOCK", 2000)
    path = tmp_path / "cal.csv"
    rows = [f"{i},1.5,{i % 7},{i}" for i in range(1000)]
    rows[900] = "900,1.5,oops,1"
    path.write_text("\n".join(["mu,sigma,h1,price", *rows]) + "\n")
    done = nearcal("fit", path, "-o", tmp_path / "m", "--y", "price", *NORMAL, "--space", "h1", "--k", 5)
    assert done.code == 2
    assert done.err == (
        f"nearcal: column 'h1' of {path} must hold numbers, and holds 'oops' in row 901; correct it, or leave it empty "
        "and pass --skip-missing\n"
    )


def test_decimals_after_a_first_block_of_whole_numbers(nearcal, tmp_path, monkeypatch):
    from nearcal.cli import _tables

    monkeypatch.setattr(_tables, "_BLOCK", 2000)
    path = tmp_path / "cal.csv"
    rows = [f"{i},{i % 7},{i if i < 900 else i + 0.5}" for i in range(1000)]
    path.write_text("\n".join(["mu,h1,price", *rows]) + "\n")
    options = ("--family", "normal", "--param", "loc=mu", "--param", "scale=1", "--space", "h1", "--k", 50)
    done = nearcal("fit", path, "-o", tmp_path / "m", "--y", "price", *options)
    assert done.code == 0
    assert nc.load(tmp_path / "m").recalibrator.n_cal_ == 1000


@pytest.mark.parametrize("command", COMMANDS)
def test_a_warning_is_a_remark_in_one_line(command, nearcal, monkeypatch):
    def warn():
        warnings.warn("of\nsome kind", nc.TiesWarning, stacklevel=1)

    monkeypatch.setitem(COMMANDS, command, (warn, ""))
    assert nearcal(command) == (0, "", "note: of some kind\n")
    assert nearcal(command).err == "note: of some kind\n"


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_ties_are_told_in_one_line(options, nearcal, tmp_path):
    path = tmp_path / "cal.csv"
    rows = [f"{i / 7},{i % 7},{max(0, i - 300)}" for i in range(400)]
    path.write_text("\n".join(["mu,h1,price", *rows]) + "\n")
    given = ("--family", "normal", "--param", "loc=mu", "--param", "scale=1", "--space", "h1", "--k", 50, *options)
    done = nearcal("fit", path, "-o", tmp_path / "m", "--y", "price", *given)
    assert done.code == 0
    assert done.err.startswith("note: y_cal has 301 of 400 (75%) responses equal to 0: ")
    assert done.err.count("\n") == 1


# ---- weights --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["local", "knn", "isotonic", "conformal", "auto"])
def test_weights_of_a_column(method, nearcal, tmp_path):
    table = make_table(400, 1)
    cal = columns_of(table)
    weights = np.where(np.arange(400) < 40, 0.0, np.random.default_rng(0).gamma(1.0, size=400))
    path = write_table(table.append_column("age", pa.array(weights)), tmp_path / "cal.parquet")
    options = ("--k", 60) if method in ("local", "knn") else ()
    options += ("--method", method) if method != "auto" else ()
    model = tmp_path / "model.nearcal"
    done = nearcal("fit", path, "-o", model, "--y", "price", *NORMAL, "--space", "h*", "--weight", "age", *options)
    assert (done.code, done.err) == (0, "")
    assert "learnt from 360 rows" in done.out
    recalibrator = nc.load(model).recalibrator
    by_hand = type(recalibrator)(**recalibrator.get_params())
    space = np.column_stack([cal["h1"], cal["h2"]])
    dist, kept = nc.Normal(cal["mu"], cal["sigma"]), weights > 0
    by_hand.fit(dist[kept], cal["price"][kept], space[kept], sample_weight=weights[kept])
    new = columns_of(make_table(20, 3))
    base, places = nc.Normal(new["mu"], new["sigma"]), np.column_stack([new["h1"], new["h2"]])
    if method == "auto" and not isinstance(recalibrator, nc.LocalRecalibrator):
        pytest.fail("the table is made to be recalibrated locally")
    if method != "auto" or recalibrator.corrections == ():
        np.testing.assert_array_equal(
            recalibrator.recalibrate(base, places).ppf([0.1, 0.9]), by_hand.recalibrate(base, places).ppf([0.1, 0.9])
        )


def test_weights_that_are_none(nearcal, tmp_path):
    for values, message in ((-np.ones(400), "must not be negative: 400 of 400"), (np.zeros(400), "the weight 0")):
        path = write_table(make_table(400, 1).append_column("age", pa.array(values)), tmp_path / "cal.parquet")
        done = nearcal(
            "fit", path, "-o", tmp_path / "m.nearcal", "--y", "price", *NORMAL, "--space", "h*", "--weight", "age"
        )
        assert done.code != 0
        assert message in done.err
