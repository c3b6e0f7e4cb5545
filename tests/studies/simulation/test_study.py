"""A tiny version of the study runs to its end, continues after an interruption, and leaves out collapsed networks."""

import json

import pytest

from nearcal_studies.run import run
from nearcal_studies.simulation import Simulation, methods, work
from nearcal_studies.simulation.results import gather_rows, pool, summarise
from nearcal_studies.simulation.table import tabulate
from nearcal_studies.study import Outcome, Scale


class Tiny(Simulation):
    def settings(self, scale):
        return {
            **super().settings(scale),
            "sizes": [
                {"n": 1000, "seeds": [0], "schedule": (64, 4, 2), "trial": (64, 1, 1)},
                {"n": 300, "seeds": [0, 1], "schedule": (32, 20, 8), "trial": (32, 6, 6)},
            ],
            "rates": (0.0001, 0.003),
            "k": (20, 50),
            "memory": {"n": 1000, "rows": (100, 200), "k": (20, 50)},
        }


@pytest.fixture(scope="module")
def finished(tmp_path_factory, least_choice):
    """Interrupt a run at its last unit, finish it, and return its folder with the units of either run."""
    out = tmp_path_factory.mktemp("simulation")
    patch = pytest.MonkeyPatch()
    calls = []
    original = work.predict_by_neighbors

    def interrupted(settings):
        if settings["n"] == 300 and settings["seed"] == 1 and not calls:
            calls.append("interrupted")
            raise KeyboardInterrupt
        return original(settings)

    patch.setattr(work, "predict_by_neighbors", interrupted)
    few = pytest.MonkeyPatch()
    few.setattr(methods, "TIMED_ROWS", 200)  # what is timed is not judged
    with pytest.raises(KeyboardInterrupt):
        run(Tiny(), out, Scale(quick=True))
    before = {path: path.stat().st_mtime_ns for path in (out / "units").glob("*.json")}
    patch.undo()
    result = run(Tiny(), out, Scale(quick=True))
    few.undo()
    return out, before, result


def test_interrupted_run_continues(finished):
    out, before, _ = finished
    units = set((out / "units").glob("*.json"))
    assert {path.name for path in units - set(before)} == {"neighbors-300-1.json"}
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())


def test_every_method_has_its_numbers(finished):
    out, _, conclusion = finished
    results = json.loads((out / "results.json").read_text())["results"]
    found = {(row["n"], row["network"], row["method"]) for row in results["methods"]}
    methods = ("network", "isotonic", "density", "local", "tuned")
    expected = {(n, net, method) for n in (300, 1000) for net in ("small", "big") for method in methods}
    assert found == expected | {(300, "none", "neighbors"), (1000, "none", "neighbors")}
    assert {row["k"] for row in results["settings"] if row["n"] == 300} == {20}  # of 30 points, 50 are not to be had
    assert all(0 < row["mse"] < 1000 and 0.5 < row["coverage"] <= 1 for row in results["methods"])
    assert "peak memory" in conclusion.tables
    assert (out / "figure_4.png").exists()


def test_learning_rate_with_the_smallest_validation_error_is_chosen(finished):
    out, _, _ = finished
    for training in json.loads((out / "results.json").read_text())["results"]["training"]:
        best = min(training["trials"], key=lambda trial: trial["validation_mse"])
        assert training["rate"] == best["rate"]
        assert [trial["rate"] for trial in training["trials"]] == [0.0001, 0.003]


def test_claims_are_judged(finished):
    out, _, _ = finished
    claims = Simulation().claims(json.loads((out / "results.json").read_text())["results"])
    assert len(claims) == 22
    assert all(claims.values())


def test_collapsed_network_is_reported_and_left_out(finished):
    out, _, _ = finished
    settings = Tiny().settings(Scale(quick=True))
    done = read_units(out, Tiny().units(settings))
    seed = "big-300-1"
    trained = {**done[f"train-{seed}"].numbers, "collapsed": True, "explained": 0.01, "dead_units": [0, 3, 200, 5]}
    done[f"train-{seed}"] = Outcome(trained)
    for kind, measure in (
        ("local", work.recalibrate_locally),
        ("density", work.recalibrate_by_density),
        ("tuned", work.recalibrate_tuned),
    ):
        done[f"{kind}-{seed}"] = measure({"k": [20], "eps": [0.0]}, done[f"train-{seed}"])
        assert done[f"{kind}-{seed}"].numbers["rows"] == []
    results = summarise(settings, done, gather_rows(settings, done))
    own = [row for row in results["methods"] if (row["n"], row["network"]) == (300, "big")]
    assert {row["seeds"] for row in own} == {1}
    assert "big at N = 300, seed 1 (explains 1.0%, dead units by layer [0, 3, 200, 5])" in tabulate(settings, results)


def read_units(out, units):
    """Return the outcomes as plain numbers."""
    found = {unit.key: json.loads((out / "units" / f"{unit.key}.json").read_text()) for unit in units}
    return {key: Outcome(record["numbers"]) for key, record in found.items()}


def test_settings_are_averaged_within_a_seed_first():
    rows = [
        {"seed": 0, "n": 1, "mse": 1.0, "predict_microseconds": 5.0},
        {"seed": 0, "n": 1, "mse": 3.0, "predict_microseconds": 3.0},
        {"seed": 1, "n": 1, "mse": 6.0, "predict_microseconds": 8.0},
    ]
    (row,) = pool(rows, ("n",))
    assert row["seeds"] == 2
    assert row["mse"] == 4.0  # of 2 and 6
    assert row["mse_sd"] == pytest.approx(8**0.5)
    assert row["least_microseconds"] == 3.0


def test_first_seeds_of_all_sizes_come_first():
    study = Simulation()
    units = study.units(study.settings(Scale()))
    trained = [unit.key.split("-")[1:] for unit in units if unit.key.startswith("train-big")]
    assert [key[1:] for key in trained[:4]] == [[str(10**power), "0"] for power in (6, 5, 4, 3)]
    seeds = {n: sum(key[1] == str(n) for key in trained) for n in (10**3, 10**4, 10**5, 10**6)}
    assert seeds[10**3] >= 10
    assert seeds[10**4] >= 10
    assert seeds[10**5] >= 5
    assert seeds[10**6] >= 2
