"""A study that is interrupted continues, one whose settings change is done anew, and everything is written."""

import json
from functools import partial

import numpy as np
import pytest

import nearcal as nc
from nearcal.studies import Check, Claim, Conclusion, Outcome, Scale, Study, Unit, reproduce, write_claims
from nearcal.studies import _claims_page as claims_page
from nearcal.studies._markdown import markdown_table
from nearcal.studies._progress import Clock
from nearcal.studies._reproduce import run
from nearcal.studies._store import Store, plain


class Squares(Study):
    """Squares numbers, then adds the squares; counts how often it works, and can fail at one of them."""

    name = "squares"
    title = "Squares"

    def __init__(self):
        self.calls = []
        self.fails_at = None
        self.factor = 1

    def settings(self, scale):
        return {"factor": self.factor, "seeds": scale.seed_list(3, quick=2)}

    def units(self, settings):
        keys = [f"square-{seed}" for seed in settings["seeds"]]
        squares = [
            Unit(key, partial(self.square, key, seed), {"factor": self.factor if seed == 1 else 1, "seed": seed})
            for key, seed in zip(keys, settings["seeds"], strict=True)
        ]
        return [*squares, Unit("sum", self.add, {}, cost=2.0, needs=tuple(keys))]

    def square(self, key, seed):
        if key == self.fails_at:
            raise KeyboardInterrupt
        self.calls.append(key)
        return Outcome({"square": np.int64(self.factor * seed**2), "nothing": np.nan}, {"row": np.full(3, seed)})

    def add(self, *squares):
        self.calls.append("sum")
        return Outcome({"sum": sum(outcome.numbers["square"] for outcome in squares)})

    def conclude(self, settings, done):
        from matplotlib.figure import Figure

        total = done["sum"].numbers["sum"]
        rows = [done[f"square-{seed}"].arrays["row"].tolist() for seed in settings["seeds"]]
        return Conclusion(
            {"total": total, "rows": rows}, f"The sum is {total}.", [Check("sum", "5", total == 5)], {"f": Figure}
        )

    def claims(self, results):
        return [
            Claim("1", "The sum is 5.", {"equal": results["total"] == 5, "odd": results["total"] % 2 == 1}, "", "f")
        ]


def test_everything_is_written(tmp_path):
    result = run(Squares(), tmp_path, Scale())
    assert str(result).splitlines()[2] == "The sum is 5."
    assert str(result) + "\n" == (tmp_path / "table.md").read_text()
    assert result.checks[0].holds
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((tmp_path / "results.json").read_text())
    assert record["settings"] == {"factor": 1, "seeds": [0, 1, 2]}
    assert record["results"] == {"total": 5, "rows": [[0] * 3, [1] * 3, [2] * 3]}
    assert record["versions"]["numpy"] == np.__version__
    assert record["units"]["square-2"]["square"] == 4
    assert record["units"]["square-2"]["nothing"] is None


def test_an_interrupted_run_continues(tmp_path):
    study = Squares()
    study.fails_at = "square-1"
    with pytest.raises(KeyboardInterrupt):
        run(study, tmp_path, Scale())
    assert study.calls == ["square-0"]
    assert not (tmp_path / "results.json").exists()
    study.fails_at = None
    resumed = run(study, tmp_path, Scale())
    assert study.calls == ["square-0", "square-1", "square-2", "sum"]
    fresh = run(Squares(), tmp_path / "fresh", Scale())
    assert str(resumed) == str(fresh)
    a, b = (json.loads((path / "results.json").read_text())["results"] for path in (tmp_path, tmp_path / "fresh"))
    assert a == b
    run(study, tmp_path, Scale())
    assert len(study.calls) == 4  # nothing is done twice


def test_a_changed_setting_is_noticed(tmp_path, capsys):
    study = Squares()
    run(study, tmp_path, Scale())
    study.calls.clear()
    study.factor = 10  # of square-1, and so of the sum
    result = run(study, tmp_path, Scale(), progress=True)
    assert study.calls == ["square-1", "sum"]
    assert "The sum is 14." in str(result)
    said = capsys.readouterr().err
    assert "2 units are done already" in said
    assert "2 units were done with other settings" in said


def test_half_a_unit_does_not_count(tmp_path):
    study = Squares()
    units = study.units(study.settings(Scale()))
    store = Store(tmp_path, units)
    store.write(units[0], Outcome({"square": 0}, {"row": np.zeros(3)}), 1.0)
    assert list(store) == ["square-0"]
    (tmp_path / "square-0.json").unlink()  # as if interrupted between the arrays and the numbers
    assert not store.is_done("square-0")
    with pytest.raises(KeyError):
        store["square-0"]


def test_units_follow_what_they_need(tmp_path):
    unit = Unit("a", Outcome, {}, needs=("b",))
    with pytest.raises(nc.InvalidParameterError, match="follow what they need, got 'a'"):
        Store(tmp_path, [unit])


def test_progress_without_a_terminal_is_one_line_a_unit(tmp_path, capsys):
    run(Squares(), tmp_path, Scale(), progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("squares 1/4: square-0; ")
    assert lines[-1] == "squares 4/4: sum; 0 s left"


def test_progress_on_a_terminal_is_a_bar(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    run(Squares(), tmp_path, Scale(), progress=True)
    assert "squares: sum" in capsys.readouterr().err


def test_remaining_time_is_weighted_by_cost(monkeypatch):
    now = iter([0.0, 10.0, 10.0, 14.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    units = [Unit("a", Outcome, {}, cost=2.0), Unit("b", Outcome, {}, cost=6.0)]
    clock = Clock(units)
    assert clock.remaining() is None
    clock.finish(units[0])  # 10 s for a cost of 2
    assert clock.remaining() == 30.0
    assert clock.remaining() == 26.0  # it counts down


def test_scale():
    assert Scale().seed_list(20) == list(range(20))
    assert Scale(quick=True).seed_list(20, quick=2) == [0, 1]
    assert Scale(quick=True, seeds=3).seed_list(20) == [0, 1, 2]
    assert Scale(full=True).choose("usual", quick="quick", full="full") == "full"
    assert Scale(full=True).choose("usual", quick="quick") == "usual"
    with pytest.raises(nc.InvalidParameterError, match="quick and full exclude each other"):
        Scale(quick=True, full=True)
    with pytest.raises(nc.InvalidParameterError, match="seeds must be"):
        Scale(seeds=0)


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(nc.InvalidParameterError, match="name must be 'all' or one of gaussian"):
        reproduce("gausian", tmp_path)


def test_missing_packages_are_named_before_any_work(tmp_path):
    study = Squares()
    study.packages = ("no_such_package",)
    with pytest.raises(nc.MissingExtraError, match=r'pip install "nearcal\[studies\]"'):
        run(study, tmp_path, Scale())
    assert study.calls == []


def test_claims_are_judged_from_results(tmp_path, monkeypatch):
    study = Squares()
    monkeypatch.setattr(claims_page, "STUDIES", {"squares": study, "others": study})
    run(study, tmp_path / "squares", Scale())
    page = write_claims(tmp_path).read_text()
    assert "**holds** (1): The sum is 5." in page
    assert "No results yet: `nearcal reproduce others`." in page
    study.factor = 9
    run(study, tmp_path / "squares", Scale())  # 13: odd, but not 5
    assert "**holds partly** (1)" in write_claims(tmp_path).read_text()
    study.factor = 2
    run(study, tmp_path / "squares", Scale())
    assert "**does not hold** (1)" in write_claims(tmp_path).read_text()


def test_plain():
    content = {1: np.float64(0.5), "a": (np.arange(2), float("inf")), "b": None}
    assert plain(content) == {"1": 0.5, "a": [[0, 1], None], "b": None}


def test_markdown_table_lines_up():
    lines = markdown_table({"a": ["x", "long cell"], "b": ["1", "22"]}).splitlines()
    assert len({len(line) for line in lines}) == 1
