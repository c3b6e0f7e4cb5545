"""A study that is interrupted continues, one whose settings change is done anew, and everything is written."""

import json
import re

import numpy as np
import pytest

from nearcal_studies.__main__ import main, quote
from nearcal_studies.claims import verdict, write_claims
from nearcal_studies.run import Clock, page, run
from nearcal_studies.store import Store, plain
from nearcal_studies.study import Check, Conclusion, Outcome, Scale, Study, Unit
from nearcal_studies.tables import markdown_table


class Squares(Study):
    """Squares numbers, then adds the squares; counts how often it works, and can fail at one of them."""

    name = "squares"
    title = "Squares"

    fails_at = None
    factor = 1

    def __init__(self, data=None):
        super().__init__(data)
        self.calls = []

    def settings(self, scale):
        return {"factor": self.factor, "seeds": scale.seed_list(3, quick=2)}

    def units(self, settings):
        keys = [f"square-{seed}" for seed in settings["seeds"]]
        squares = [
            Unit(f"square-{seed}", self.square, {"factor": self.factor if seed == 1 else 1, "seed": seed})
            for seed in settings["seeds"]
        ]
        return [*squares, Unit("sum", self.add, {}, cost=2.0, needs=tuple(keys))]

    def square(self, settings):
        seed = settings["seed"]
        if f"square-{seed}" == self.fails_at:
            raise KeyboardInterrupt
        self.calls.append(f"square-{seed}")
        square = np.int64(settings["factor"] * seed**2)
        return Outcome({"square": square, "nothing": np.nan}, {"row": np.full(3, seed)})

    def add(self, settings, *squares):
        self.calls.append("sum")
        return Outcome({"sum": sum(outcome.numbers["square"] for outcome in squares)})

    def conclude(self, settings, done):
        from matplotlib.figure import Figure

        total = done["sum"].numbers["sum"]
        rows = [done[f"square-{seed}"].arrays["row"].tolist() for seed in settings["seeds"]]
        return Conclusion(
            {"total": total, "rows": rows}, f"The sum is {total}.", [Check("sum", total, "<", 6)], {"f": Figure}
        )

    def claims(self, results):
        checks = [Check("sum", results["total"], ">", 4), Check("sum", results["total"], "<", 6)]
        return {"(1) The sum is between 4 and 6.": checks}


def test_everything_is_written(tmp_path):
    conclusion = run(Squares(), tmp_path, Scale())
    text = (tmp_path / "table.md").read_text()
    assert text == "## Squares\n\nThe sum is 5.\n\nWhat must be shown:\n\n- [x] sum: 5 (< 6)\n"
    assert text == page(Squares(), conclusion, conclusion.checks) + "\n"
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((tmp_path / "results.json").read_text())
    assert record["settings"] == {"factor": 1, "seeds": [0, 1, 2]}
    assert record["results"] == {"total": 5, "rows": [[0] * 3, [1] * 3, [2] * 3]}
    assert record["checks"] == [{"name": "sum", "number": 5, "side": "<", "bound": 6, "holds": True}]
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
    assert resumed.tables == fresh.tables
    a, b = (json.loads((path / "results.json").read_text())["results"] for path in (tmp_path, tmp_path / "fresh"))
    assert a == b
    run(study, tmp_path, Scale())
    assert len(study.calls) == 4  # nothing is done twice


def test_a_changed_setting_is_noticed(tmp_path, capsys):
    study = Squares()
    run(study, tmp_path, Scale())
    study.calls.clear()
    study.factor = 10  # of square-1, and so of the sum
    conclusion = run(study, tmp_path, Scale())
    assert study.calls == ["square-1", "sum"]
    assert conclusion.tables == "The sum is 14."
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
    assert "square-0" not in store
    with pytest.raises(KeyError):
        store["square-0"]


def test_units_follow_what_they_need(tmp_path):
    unit = Unit("a", Outcome, {}, needs=("b",))
    with pytest.raises(ValueError, match="follow what they need, got 'a'"):
        Store(tmp_path, [unit])


def test_progress_is_one_line_a_unit(tmp_path, capsys, monkeypatch):
    now = iter([0.0, 10.0, 20.0, 30.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    run(Squares(), tmp_path, Scale())
    assert capsys.readouterr().err.splitlines() == [
        "squares 1/4: square-0",
        "squares 2/4: square-1; 40 s left",
        "squares 3/4: square-2; 30 s left",
        "squares 4/4: sum; 20 s left",
    ]


def test_remaining_time_is_weighted_by_cost(monkeypatch):
    now = iter([0.0, 10.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    units = [Unit("a", Outcome, {}, cost=2.0), Unit("b", Outcome, {}, cost=6.0)]
    clock = Clock(units)
    assert clock.remaining() is None
    clock.finish(units[0])  # 10 s for a cost of 2
    assert clock.remaining() == 30.0


def test_scale():
    assert Scale().seed_list(20) == list(range(20))
    assert Scale(quick=True).seed_list(20, quick=2) == [0, 1]
    assert Scale(quick=True, seeds=3).seed_list(20) == [0, 1, 2]
    assert Scale(first_seed=5).seed_list(2) == [5, 6]
    assert Scale().seed_list(2, first=40) == [40, 41]
    assert Scale(full=True).choose("usual", quick="quick", full="full") == "full"
    assert Scale(full=True).choose("usual", quick="quick") == "usual"
    with pytest.raises(ValueError, match="quick and full exclude each other"):
        Scale(quick=True, full=True)
    with pytest.raises(ValueError, match="seeds must be"):
        Scale(seeds=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gausian"], "invalid choice: 'gausian'"),
        (["gaussian", "--quick", "--full"], "quick and full exclude each other"),
        (["sharper", "--data", "nowhere"], "sharper needs the sets yacht, boston, .* with --data"),
    ],
)
def test_the_command_says_what_is_wrong_before_any_work(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, "--out", str(tmp_path)])
    said = stopped.value.code if isinstance(stopped.value.code, str) else capsys.readouterr().err
    assert re.search(message, said)
    assert not any(tmp_path.iterdir())


def test_the_command_runs_a_study_and_writes_the_claims(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("nearcal_studies.__main__.STUDIES", {"squares": Squares})
    main(["squares", "--seeds", "3", "--out", str(tmp_path)])
    assert capsys.readouterr().out.startswith("## Squares\n\nThe sum is 5.\n\nWhat must be shown:")
    assert "**holds** (1) The sum" in (tmp_path / "claims.md").read_text()
    main(["squares", "--seed", "7", "--quick", "--out", str(tmp_path)])
    assert "The sum is 113." in (tmp_path / "squares_from_7" / "table.md").read_text()


def test_a_table_is_quoted_between_its_marks(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- real data -->\nold\n<!-- /real data -->\nafter\n")
    quote(page, "| new |")
    assert page.read_text() == "before\n<!-- real data -->\n| new |\n<!-- /real data -->\nafter\n"


@pytest.mark.parametrize(
    ("factor", "kind", "boxes"), [(1, "holds", "xx"), (9, "holds partly", "x "), (-9, "holds partly", " x")]
)
def test_claims_are_judged_from_results(factor, kind, boxes, tmp_path):
    study = Squares()
    study.factor = factor
    run(study, tmp_path / "squares", Scale())  # sums of 5, 13 and -5
    text = write_claims(tmp_path, {"squares": Squares, "others": Squares}).read_text()
    assert f"**{kind}** (1) The sum is between 4 and 6." in text
    assert [line[3] for line in text.splitlines() if line.startswith("- [")] == list(boxes)
    assert f"Of 1 claims: 1 {kind}." in text


def test_a_number_that_does_not_exist_meets_no_bound():
    for side in "<>":
        check = Check("a", float("nan"), side, 0.0)
        assert not check.holds
        assert str(check) == f"[ ] a: unknown ({side} 0)"
    assert verdict([check, check]) == "does not hold"


def test_plain():
    content = {1: np.float64(0.5), "a": (np.arange(2), float("inf")), "b": None}
    assert plain(content) == {"1": 0.5, "a": [[0, 1], None], "b": None}


def test_markdown_table_lines_up():
    lines = markdown_table({"a": ["x", "long cell"], "b": ["1", "22"]}).splitlines()
    assert len({len(line) for line in lines}) == 1
