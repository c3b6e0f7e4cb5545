"""evaluate, inspect, report; help; and what happens without the extra."""

import html
import json
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import nearcal as nc
from nearcal.cli._app import COMMANDS
from tests.cli.tables import NORMAL, make_table, write_table
from tests.compiled.cases import quick_students

SCALING = "standard"  # one is enough where tuning is not what is tested


@pytest.fixture(scope="module")
def judged(folder):
    table = {name: column.to_numpy() for name, column in zip(*_named(make_table(300, 2)), strict=True)}
    model = nc.load(folder / "model.nearcal")
    return {"base": model.base(table), "recalibrated": model.predict(table)}, table


def _named(table):
    return table.column_names, table.columns


def test_evaluate_prints_the_table_of_python(folder, nearcal, judged):
    dists, table = judged
    space = np.column_stack([table["h1"], table["h2"]])
    expected = nc.evaluate(dists, table["price"], space, 0.8, regions=4)
    options = ("--coverage", 0.8, "--regions", 4)
    done = nearcal("evaluate", folder / "model.nearcal", folder / "test.csv", *options)
    assert done == (0, f"300 rows, intervals of coverage 0.8\n{expected}\n", "")
    done = nearcal("evaluate", folder / "model.nearcal", folder / "test.parquet", *options, "--json")
    found = json.loads(done.out)
    assert (found["rows"], found["rows_left_out"], found["coverage"]) == (300, 0, 0.8)
    assert [row["value"] for row in found["metrics"]] == expected["value"].tolist()
    assert found["metrics"][0]["difference"] is None  # nothing to compare the first with


def test_evaluate_tells_regions_apart_also_where_all_rows_are_recalibrated_alike(folder, nearcal, tmp_path):
    model = tmp_path / "model.nearcal"
    options = (*NORMAL, "--method", "isotonic")
    nearcal("fit", folder / "cal.csv", "-o", model, "--y", "price", *options, "--space", "h*")
    assert "worst_region_coverage" in nearcal("evaluate", model, folder / "test.csv").out
    nearcal("fit", folder / "cal.csv", "-o", model, "--y", "price", *options)
    done = nearcal("evaluate", model, folder / "test.csv")
    assert done.code == 0
    assert "worst_region_coverage" not in done.out


def test_fewer_rows_than_regions_can_be_evaluated(folder, nearcal, tmp_path):
    write_table(make_table(300, 2).slice(0, 3), tmp_path / "few.csv")
    done = nearcal("evaluate", folder / "model.nearcal", tmp_path / "few.csv")
    assert done.code == 0
    assert "worst_region_coverage" in done.out


def test_rows_with_gaps_can_be_left_out_of_an_evaluation(folder, nearcal, tmp_path):
    table = make_table(300, 2)
    price = table["price"].to_numpy().copy()
    price[5] = np.inf
    path = write_table(table.set_column(3, "price", pa.array(price)), tmp_path / "test.parquet")
    done = nearcal("evaluate", folder / "model.nearcal", path, "--skip-missing")
    assert done.err == "left out 1 of 300 rows with missing values\n"
    assert done.out.startswith("299 rows")


def test_inspect_tells_what_a_file_holds(folder, nearcal, tmp_path):
    model = folder / "model.nearcal"
    found = json.loads(nearcal("inspect", model, "--json").out)
    assert found["bytes"] == model.stat().st_size
    assert found["version"] == nc.__version__
    assert (found["class"], found["calibration_points"], found["dimensions"]) == ("LocalRecalibrator", 400, 2)
    assert (found["family"], found["parameters"]) == ("normal", {"loc": "mu", "scale": "sigma"})
    assert (found["spaces"], found["response"]) == ({"space": ["h1", "h2"]}, "price")
    assert found["settings"] == {
        "k": 50,
        "radius": None,
        "smoothing": "epanechnikov",
        "eps": 0.0,
        "scaling": "standard",
        "components": None,
        "metric": "euclidean",
        "search": "auto",
        "quantile_rule": "predictive",
        "corrections": ["Polish"],
    }
    assert found["tuning"] is None
    text = nearcal("inspect", model).out
    assert "calibration_points  400\n" in text
    assert "parameters          loc=mu, scale=sigma\n" in text
    assert "reason              LocalRecalibrator(k=50, " in text
    assert "was given in the space 'space': nothing was compared or chosen.\n" in text


def test_inspect_shows_the_evidence(folder, nearcal, tmp_path):
    model = tmp_path / "model.nearcal"
    nearcal("fit", folder / "cal.parquet", "-o", model, "--y", "price", *NORMAL, "--space", "h*")
    tuning = nc.load(model).tuning
    assert nearcal("inspect", model).out.endswith(f"\n\n{tuning}\n")
    found = json.loads(nearcal("inspect", model, "--json").out)["tuning"]
    assert [row["crps"] for row in found] == tuning.table["crps"].tolist()
    assert found[0]["k"] is None  # no recalibration has none


def test_compile_writes_a_small_function(folder, nearcal, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model, small, onnx = folder / "model.nearcal", tmp_path / "small.nearcal", tmp_path / "model.onnx"
    with quick_students(30):
        told = json.loads(nearcal("compile", model, "-o", onnx, "--tolerance", "9", "--levels", "0.5", "--json").out)
        nearcal("compile", model, "-o", small, "--tolerance", "9")
    assert told["bytes"] == onnx.stat().st_size
    loaded = nc.load(small)
    assert loaded.recalibrator.loss_.loss == pytest.approx(told["loss"])
    found = json.loads(nearcal("inspect", small, "--json").out)
    assert found["compiled"]["loss"] == pytest.approx(told["loss"])
    assert "compiled as" in nearcal("inspect", small).out
    inputs = {"loc": np.zeros((1, 1)), "scale": np.ones((1, 1)), "position": np.zeros((1, 2))}
    answers = onnxruntime.InferenceSession(str(onnx)).run(["quantiles"], inputs)[0]
    exact = loaded.recalibrator.recalibrate(nc.Normal([0.0], 1.0), np.zeros((1, 2)))
    np.testing.assert_allclose(answers[0], exact.ppf([0.5])[0], atol=1e-4)
    page = tmp_path / "page.html"
    nearcal("report", small, folder / "test.parquet", "-o", page)
    assert "by recalibrators that have not seen them" in page.read_text()


def test_warm_up(nearcal):
    assert json.loads(nearcal("warm-up", "--json").out)["seconds"] > 0


def test_inspect_shows_settings_readably(nearcal, tmp_path):
    x = np.random.default_rng(0).normal(size=(100, 3))
    dist, y = nc.Normal(x[:, 0], 1.0), x[:, 1]
    recalibrators = {
        "k=20, smoothing=epanechnikov, eps=0.0, scaling=whiten, components=2, metric=euclidean, "
        "search=auto, quantile_rule=predictive, corrections=[LocalLinear Shrinkage Polish]": (
            nc.LocalRecalibrator(
                20,
                scaling=nc.Scaling("whiten", 2),
                quantile_rule="predictive",
                corrections=[nc.LocalLinear(), nc.Shrinkage(), nc.Polish()],
                workers=nc.Workers(threads=1),
            )
        ),
        "radius=2.5, min_neighbors=5, thin=base, smoothing=uniform, eps=0.0, scaling=none, "
        "metric=manhattan, search=auto, quantile_rule=step, corrections=none": (
            nc.LocalRecalibrator(radius=nc.Radius(2.5, 5, "base"), smoothing="uniform", metric="manhattan")
        ),
        "radius=3.0, min_neighbors=30, thin=nearest, smoothing=epanechnikov, eps=0.0, "
        "scaling=none, metric=euclidean, search=auto, quantile_rule=step, "
        "corrections=none": nc.LocalRecalibrator(radius=3.0),
        "quantile_rule=conservative": nc.GlobalRecalibrator(quantile_rule="conservative"),
        "none": nc.IsotonicRecalibrator(),
    }
    for text, recalibrator in recalibrators.items():
        nc.save(recalibrator.fit(dist, y, x), tmp_path / "it")
        lines = nearcal("inspect", tmp_path / "it").out.partition("\nsettings ")[2].splitlines()
        assert " ".join(" ".join(lines).split()) == text
        assert max(map(len, lines)) <= 100
        found = json.loads(nearcal("inspect", tmp_path / "it", "--json").out)["settings"]
        said = dict(word.split("=") for word in text.split(", ") if "=" in word)
        assert {name for name, value in found.items() if value is not None} == set(said)


def test_inspect_shows_the_evidence_saved_with_a_recalibrator(nearcal, tmp_path):
    table = {name: column.to_numpy() for name, column in zip(*_named(make_table(200, 1)), strict=True)}
    base, space = nc.Normal(table["mu"], table["sigma"]), np.column_stack([table["h1"], table["h2"]])
    tuning = nc.tune(base, table["price"], space, scaling=SCALING, smoothing="uniform", rule="best")
    nc.save(tuning.recalibrator, tmp_path / "it", tuning=tuning)
    text = nearcal("inspect", tmp_path / "it").out
    assert f"\nEvidence: leave-one-out CRPS of the best of every kind\n{tuning.evidence}\n" in text
    assert text.endswith(f"\n\n{tuning}\n")
    found = json.loads(nearcal("inspect", tmp_path / "it", "--json").out)
    assert [row["kind"] for row in found["evidence"]] == tuning.evidence["kind"].tolist()
    assert len(found["tuning"]) == len(tuning.table)
    assert found["settings"]["k"] == tuning.chosen.k
    names = [type(correction).__name__ for correction in (*tuning.chosen.corrections, nc.Polish(), nc.Fade())]
    assert found["settings"]["corrections"] == names
    assert found["fade"].startswith(
        f"rows far from calibration points ({tuning.fade.false_alarm:.2g} of those like them)"
    )
    assert found["fade"] in text


def test_inspect_takes_files_saved_from_python(nearcal, tmp_path):
    fitted = nc.VarianceScaling().fit(nc.Normal([0.0, 0.0], 2.0), [-1.0, 1.0])
    nc.save(fitted, tmp_path / "scaling", tuning="by hand")
    text = nearcal("inspect", tmp_path / "scaling").out
    assert "class               VarianceScaling\n" in text
    assert text.endswith("\n\nby hand\n")
    found = json.loads(nearcal("inspect", tmp_path / "scaling", "--json").out)
    assert (found["calibration_points"], found["dimensions"], found["tuning"]) == (2, None, "by hand")


def test_inspect_refuses_what_is_no_model(nearcal, tmp_path):
    nc.save(nc.Table({"a": [1.0]}), tmp_path / "table")
    done = nearcal("inspect", tmp_path / "table")
    line = f"nearcal: {tmp_path / 'table'} holds a Table, no model; look at it with nearcal.load in Python\n"
    assert done == (2, "", line)


def test_report_hands_over_what_the_page_needs(folder, nearcal, tmp_path, monkeypatch, judged):
    given = {}

    def report(dists, y, space, **options):
        given.update(dists=dists, y=y, space=space, **options)
        return types.SimpleNamespace(save=lambda path: Path(path).write_text("page"))

    monkeypatch.setattr(nc, "report", report, raising=False)
    page = tmp_path / "report.html"
    options = ("--features", "city,h*", "--title", "Prices", "--coverage", 0.8, "--unit", "dollars")
    done = nearcal("report", folder / "model.nearcal", folder / "test.csv", "-o", page, *options)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"Wrote {page}; open it in a browser: file://{page}\n"
    assert page.read_text() == "page"
    dists, table = judged
    assert list(given["dists"]) == ["base", "recalibrated"]
    np.testing.assert_array_equal(given["dists"]["recalibrated"].mean(), dists["recalibrated"].mean())
    np.testing.assert_array_equal(given["y"], table["price"])
    np.testing.assert_array_equal(given["space"][:, 1], table["h2"])
    assert list(given["features"]) == ["city", "h1", "h2"]
    assert given["features"]["city"] == table["city"].tolist()
    assert (given["title"], given["response"], given["coverage"]) == ("Prices", "price", 0.8)
    assert given["unit"] == "dollars"
    done = nearcal("report", folder / "model.nearcal", folder / "test.csv", "-o", page, "--json")
    assert json.loads(done.out) == {"output": str(page), "rows": 300, "rows_left_out": 0}
    assert list(given["features"]) == ["h1", "h2"]
    assert given["title"] == "model.nearcal on test.csv"
    assert given["tuning"] is None


def test_report_shows_the_choice(folder, nearcal, tmp_path):
    model, page = tmp_path / "model.nearcal", tmp_path / "report.html"
    options = ("--space", "h*", "--scaling", SCALING, "--smoothing", "uniform")
    nearcal("fit", folder / "cal.parquet", "-o", model, "--y", "price", *NORMAL, *options)
    nearcal("report", model, folder / "test.csv", "-o", page)
    assert html.escape(nc.load(model).tuning.reason) in page.read_text()


def test_report_writes_the_page(folder, nearcal, tmp_path):
    page = tmp_path / "report.html"
    done = nearcal("report", folder / "model.nearcal", folder / "test.csv", "-o", page, "--title", "Prices <b>")
    assert (done.code, done.err) == (0, "")
    text = page.read_text()
    assert text.lower().startswith("<!doctype html>")
    assert "Prices &lt;b&gt;" in text
    assert "recalibrated" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_that_fit_the_screen(command, nearcal):
    done = nearcal(command, "--help")
    assert (done.code, done.err) == (0, "")
    assert f"Usage: nearcal {command}" in done.out
    assert "Examples:" in done.out
    examples = COMMANDS[command][1].strip().splitlines()
    assert all(line in done.out for line in examples)
    assert max(len(line) for line in examples) <= 75


def test_help_and_version_of_the_command_itself(nearcal):
    assert "Usage: nearcal [OPTIONS] COMMAND" in nearcal().out
    assert nearcal("--version") == (0, f"nearcal {nc.__version__}\n", "")


def test_a_reader_that_has_seen_enough(folder):
    """``nearcal inspect model | head -1``: no traceback when the pipe closes."""
    code = "import sys; sys.argv[0] = 'nearcal'; from nearcal.cli import main; main()"
    command = [sys.executable, "-c", code, "inspect", str(folder / "model.nearcal")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        err = process.stderr.read()
        process.wait(timeout=30)
    assert (process.returncode, err) == (1, b"")


def test_without_the_extra_one_line_says_what_to_install():
    code = "import sys; sys.modules['pyarrow'] = None; from nearcal.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "nearcal: the command nearcal needs the package 'pyarrow', which is not installed; "
        'install it with: pip install "nearcal[cli]"\n'
    )
