"""The examples of models run, on some of the diamonds, and recalibration helps where they say it does."""

import ast
import re
import runpy
import sys
from pathlib import Path

import pytest
from tests.compiled.cases import quick_students

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.usefixtures("least_choice")


def run(name, rows, monkeypatch, capsys):
    monkeypatch.syspath_prepend(EXAMPLES)  # as when Python runs a script
    monkeypatch.setattr(sys, "argv", [name, "--rows", str(rows)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def figures(table, metric):
    """Return the values before and after in the line of a metric, 'crps  0.4 ± 0.005  0.2 ± 0.004  ...'."""
    line = next(line for line in table.splitlines() if line.startswith(metric))
    return [float(value) for value in re.findall(r"(\S+) ±", line)[:2]]


@pytest.mark.parametrize("name", ["torch_network.py", "keras_network.py", "mc_dropout.py"])
def test_runs_and_helps(name, monkeypatch, capsys):
    if name.startswith("keras"):
        pytest.importorskip("keras")
    out = run(name, 4000, monkeypatch, capsys)
    tables = out.strip().split("\n\n")
    assert len(tables) == (2 if name == "mc_dropout.py" else 1)
    for table in tables:
        before, after = figures(table, "crps")
        assert after < 0.9 * before
        before, after = figures(table, "regional_coverage_error")
        assert after < before


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("sklearn_regressor.py", 1),
        ("lightgbm_quantiles.py", 1),
        ("xgboost_model.py", 2),
        ("ngboost_model.py", 1),
        ("skpro_model.py", 1),
    ],
)
def test_regressors(name, tables, monkeypatch, capsys):
    out = run(name, 1600, monkeypatch, capsys).strip().split("\n\n")
    assert len(out) == tables
    for table in out:
        assert "Chose " in table
        before, after = figures(table, "crps")
        assert after < 1.02 * before


def test_service(monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(sys, "argv", ["serve_onnx.py"])
    with quick_students(20):
        runpy.run_path(str(EXAMPLES / "serve_onnx.py"), run_name="__main__")
    answer = ast.literal_eval(capsys.readouterr().out)
    assert answer["lower"][0] < answer["mean"][0] < answer["upper"][0]
    assert answer["out_of_distribution"] == [[False]]
