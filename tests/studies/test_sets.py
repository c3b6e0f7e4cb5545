"""Studies on sets: small versions run to the end; sets and base models are what they should be."""

import json
import re

import numpy as np
import pytest

from nearcal_studies import sets
from nearcal_studies.__main__ import ROOT
from nearcal_studies.cautious import Cautious
from nearcal_studies.clear import Clear
from nearcal_studies.compiled import Compiled
from nearcal_studies.compiled import judge_promises as compiled_promises
from nearcal_studies.distilled import Distilled
from nearcal_studies.measures import coverage_by_region, interval_scores, regional_floor
from nearcal_studies.real_data import RealData
from nearcal_studies.relevance import Relevance, metric
from nearcal_studies.run import run
from nearcal_studies.several import Several
from nearcal_studies.several import judge_promises as several_promises
from nearcal_studies.sharper import Sharper, as_markdown, as_readme, judge_promises
from nearcal_studies.study import Outcome, Scale

pytestmark = pytest.mark.usefixtures("least_choice")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One set in two regions: the noise is four times as large in the second."""
    path = tmp_path_factory.mktemp("sets")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 2))
    np.savez(path / "yacht.npz", X=x, y=x[:, 0] + np.where(x[:, 1] > 0, 2.0, 0.5) * rng.normal(size=1000))
    return path


def run_small(kind, folder, out, **changes):
    class Small(kind):
        def settings(self, scale):
            return {**super().settings(scale), "sets": ["yacht"], "bases": ["linear"], **changes}

    run(Small(folder), out, Scale(quick=True))
    return json.loads((out / "results.json").read_text())["results"]["rows"], (out / "table.md").read_text()


def test_real_data(folder, tmp_path):
    rows, text = run_small(RealData, folder, tmp_path)
    of = {row["method"]: row for row in rows}
    assert of["base"]["relative_crps"] == 1.0
    assert of["local, tuned"]["crps"] < of["global"]["crps"]
    assert of["local, tuned"]["hindsight"] >= 1.0
    assert {row["n_cal"] for row in rows} == {200}
    assert "| yacht | linear | 1.000 / " in text
    assert "- Leave-one-out's choice against the best candidate in hindsight: CRPS" in text


def test_sharper(folder, tmp_path):
    bases = ["linear", "network with σ", "LightGBM quantiles"]
    rows, text = run_small(Sharper, folder, tmp_path, bases=bases, rows=(400, 150, 150))
    crps = {row["method"]: row["crps"] for row in rows if row["base"] == "linear"}
    assert list(crps) == [
        "base", "global", "isotonic", "paper", "+ polish", "+ relevance", "+ local-linear", "+ shrinkage", "+ trend",
        "default",
    ]  # fmt: skip
    assert crps["default"] < 1.01 * crps["paper"] < crps["base"]
    assert text.count("| yacht | ") == 3
    assert "**LightGBM quantiles**" in text


def test_cautious(folder, tmp_path):
    rows, text = run_small(Cautious, folder, tmp_path, bases=["linear"], few=60)
    assert {(row["frame"], row["method"]) for row in rows} == {
        (frame, method) for frame in ("all rows", "few rows") for method in ("base", "global", "earlier", "default")
    }
    of = {row["method"]: row for row in rows if row["frame"] == "few rows"}
    assert of["base"]["n_cal"] == 60
    assert of["default"]["regret"] >= 0
    assert of["default"]["crps"] < of["base"]["crps"]
    assert text.count("| linear | ") == 2


def test_distilled(folder, tmp_path):
    rows, text = run_small(Distilled, folder, tmp_path)
    assert [row["choice"] for row in rows] == ["default", "one neighbourhood"]
    for row in rows:
        assert row["tried"] == (row["kind"] == "local")
        assert row["chosen"] or row["student_crps"] == row["exact_crps"]
    assert text.count("| one neighbourhood | 1 | ") == 1


def test_compiled(folder, tmp_path):
    rows, text = run_small(Compiled, folder, tmp_path)
    of = {row["method"]: row for row in rows}
    assert set(of) == {"exact", "compiled"} if of["exact"]["accepted"] else {"exact"}
    assert of["exact"]["accepted"] == (of["exact"]["told"] <= 0.02)
    assert text.count("| yacht | linear | ") == 1
    assert len(compiled_promises(rows)) == (9 if of["exact"]["accepted"] else 0)


def test_relevance(folder, tmp_path):
    rows, text = run_small(Relevance, folder, tmp_path)
    crps = {row["way"]: row["crps"] for row in rows if row["space"] == "input"}
    assert list(crps) == ["standard", "forest", "relevance", "metric", "gradients"]
    assert crps["relevance"] < crps["standard"]
    assert re.search(r"\| linear +\| +input \| +1\.000 \|", text)


def test_metric_stretches_the_column_that_matters():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, 3))
    z = np.sin(2 * x[:, 1]) + 0.1 * rng.normal(size=500)
    factors = np.diag(metric(x, z))
    assert factors[1] > 5 * max(factors[0], factors[2])


def test_split_is_60_20_20_standardised_and_capped():
    rng = np.random.default_rng(0)
    x, y = rng.normal(3.0, 2.0, size=(1000, 2)), rng.normal(5.0, 7.0, size=1000)
    x[:, 1] = 4.0  # a constant column stays finite
    parts = sets.split(x, y, 1, (None, None, 50))
    assert [len(part_y) for _, part_y in parts] == [600, 200, 50]
    assert parts[0][1].mean() == pytest.approx(0.0, abs=1e-12)
    assert parts[0][1].std() == pytest.approx(1.0)
    assert not parts[0][0][:, 1].any()
    assert not np.array_equal(sets.split(x, y, 2, (None, None, 50))[0][1], parts[0][1])


def test_measures_by_hand():
    scores = interval_scores(np.zeros(3), np.ones(3), np.array([0.5, -0.1, 2.0]), 0.9)
    np.testing.assert_allclose(scores, [1.0, 1 + 20 * 0.1, 1 + 20 * 1.0])
    covered, regions = np.array([True, False, True, True]), np.array([0, 0, 1, 1])
    np.testing.assert_array_equal(coverage_by_region(covered, regions), [0.5, 1.0])
    # one row a region: |1 - 0.9| with probability 0.9, |0 - 0.9| with 0.1
    assert regional_floor(np.arange(3), 0.9) == pytest.approx(0.9 * 0.1 + 0.1 * 0.9)


def test_the_readme_shows_the_committed_results():
    rows = json.loads((ROOT / "studies" / "results" / "sharper" / "results.json").read_text())["results"]["rows"]
    assert as_readme(rows) in (ROOT / "README.md").read_text()
    tables = as_markdown(rows).rpartition("\n\n")[0]  # the last line is worded anew
    assert tables in (ROOT / "studies" / "results" / "sharper" / "table.md").read_text()
    assert [check.name for check in judge_promises(rows) if not check.holds] == []


def test_several(folder, tmp_path):
    rows, text = run_small(Several, folder, tmp_path, rows=(400, 150, 150))
    crps = {row["method"]: row["crps"] for row in rows}
    assert list(crps)[-2:] == ["several", "LightGBM, all rows"]
    assert crps["linear"] < crps["linear, base"]  # which is the right model of the mean here
    assert crps["several"] < 1.02 * crps["linear"]
    assert next(row for row in rows if row["method"] == "several")["choice"].startswith("Chose ")
    assert "| yacht | 1 | " in text


def test_promises_of_several_models():
    def rows(several):
        methods = {"linear": 3.0, "network": 2.0, "LightGBM quantiles": 1.0, "extra trees": 4.0}
        methods |= {"LightGBM, all rows": 1.1, "several": several}
        return [
            {"set": name, "seed": seed, "method": method, "crps": value * (1 + seed), "coverage90": 0.9}
            for name in ("a", "b", "c")
            for seed in range(2)
            for method, value in methods.items()
        ]

    first, worst, below = several_promises(rows(0.9))
    assert (first.number, worst.number, below.number) == pytest.approx((0.9, 0.9, 3))
    assert all(check.holds for check in (first, worst, below))
    first, worst, below = several_promises(rows(1.2))
    assert (first.number, worst.number, below.number) == pytest.approx((1.2, 1.2, 0))
    assert not any(check.holds for check in (first, worst, below))


def test_clear(folder, tmp_path):
    with np.load(folder / "yacht.npz") as arrays:
        np.savez(folder / "energy.npz", X=arrays["X"], y=10 * arrays["y"])
    study = Clear(folder)
    settings = {"sets": ["energy"], "seeds": [0], "rows": (150, 80, 60)}
    (unit,) = study.units(settings)
    (row,) = unit.work(unit.settings).numbers["rows"]
    assert (row["set"], row["n_cal"]) == ("energy", 80)
    # in units of the response: of Normal errors at least 2 · 1.96 standard deviations, and far less than its range
    with np.load(folder / "energy.npz") as arrays:
        assert 0 < row["interval_score"] < 3 * np.ptp(arrays["y"])
    text = study.conclude(settings, {unit.key: Outcome({"rows": [row, {**row, "seed": 1}]})}).tables
    assert f"| energy | 2 | {row['interval_score']:.3g} ± 0 | 2.34 | " in text


def test_in_turn_every_row_is_judged():
    x, y = np.arange(100.0)[:, np.newaxis], np.arange(100.0)
    turns = [sets.split(x, y, 3, (None, None, None), turn) for turn in range(sets.TURNS)]
    # responses are standardised by the training part: their order is kept
    of = [
        [part[1] * np.std(y_train) + np.mean(y_train) for part in own]
        for own, y_train in zip(turns, _trained(y), strict=True)
    ]
    judged = np.sort(np.concatenate([own[2] for own in of]))
    np.testing.assert_allclose(judged, y, atol=1e-9)
    for own in of:
        np.testing.assert_allclose(np.sort(np.concatenate(own)), y, atol=1e-9)


def _trained(y):
    order = np.random.default_rng(3).permutation(len(y))
    return [y[np.roll(order, turn * len(y) // sets.TURNS)[:60]] for turn in range(sets.TURNS)]


def test_turns_are_averaged():
    rows = [
        {"method": "base", "n_cal": 60, "crps": 1.0, "crps_error": 0.3},
        {"method": "base", "n_cal": 60, "crps": 2.0, "crps_error": 0.4},
    ]
    assert sets.over_turns(rows) == {"method": "base", "n_cal": 60, "crps": 1.5, "crps_error": 0.25, "turns": 2}
