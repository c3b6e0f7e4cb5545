"""The evidence: of every kind the number tried, the best, and whether the choice is of it."""

from dataclasses import replace

import numpy as np
import pytest

import nearcal as nc
from nearcal.tuning.choice import Comparison
from nearcal.tuning.evidence import explain
from nearcal.tuning.finals import Decision


@pytest.fixture(scope="module")
def tuning():
    """A mean that drifts along one of three columns."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 3))
    return nc.tune(nc.Normal(np.zeros(300), 2.0), rng.normal(2 * x[:, 0], 1.0), x, k=[10, 50], rule="best")


def belongs(row, kind):
    """Tell by the words of a row of the table whether it is of a kind; a twin of what is tested."""
    steps = {
        "relevance": row["scaling"] == "relevance",
        "local-linear": row["linear"],
        "shrinkage": row["shrinkage"],
        "trend": row["trend"],
    }
    if kind == "local, plain":
        return row["kind"] == "local" and not any(steps.values())
    if kind.startswith("local, with "):
        return bool(steps[kind.removeprefix("local, with ")])
    return {"none": "no recalibration", "global": "global recalibration"}.get(row["kind"]) == kind


def test_every_kind_has_its_best(tuning):
    evidence = list(tuning.evidence)
    assert [row["kind"] for row in evidence] == [
        "no recalibration",
        "global recalibration",
        "local, plain",
        "local, with relevance",
        "local, with trend",
        "local, with local-linear",
        "local, with shrinkage",
    ]
    for row in evidence:
        own = [other for other in tuning.table if belongs(other, row["kind"])]
        best = min(own, key=lambda other: other["crps"])
        assert row["tried"] == len(own)
        for name in ("crps", "std_error", "difference", "difference_std_error"):
            assert row[name] == best[name]
        assert row["chosen"] == any(other["chosen"] for other in own)
    assert min(row["difference"] for row in evidence) == 0.0


def test_the_best_is_named_as_the_choice_is(tuning):
    named = {row["best"] for row in tuning.evidence if row["chosen"]}
    assert str(tuning.chosen) in named


def test_what_was_not_tried_is_left_out():
    rng = np.random.default_rng(0)
    plain = nc.tune(
        nc.Normal(np.zeros(50), 1.0),
        rng.normal(size=50),
        rng.normal(size=50),
        linear=False,
        shrinkage=False,
        trend=False,
    )
    assert plain.evidence["kind"].tolist() == ["no recalibration", "global recalibration", "local, plain"]


def test_it_prints_the_ten_best_and_the_reason(tuning):
    lines = str(tuning).splitlines()
    assert len(lines) == 13
    assert lines[0] == f"Tuning: the best 10 of {len(tuning.table)} candidates"
    assert lines[-1] == tuning.reason
    assert repr(tuning) == str(tuning)
    assert str(tuning.chosen) in tuning.reason


def test_the_reason_tells_the_best_from_the_simplest():
    candidates = [nc.Candidate("none"), nc.Candidate("local", "input", "none", None, 20, "uniform")]
    comparison = Comparison(
        np.array([0.5, 0.25]), np.ones(2), np.array([0.25, 0.0]), np.array([0.5, 0.0]), np.full(2, 9)
    )
    assert explain(candidates, comparison, Decision({1: 1.0}), 2) == (
        f"Chose {candidates[1]}: the best of 2 candidates, leave-one-out CRPS 0.25 against 0.5 without recalibration."
    )
    assert explain(candidates, comparison, Decision({0: 1.0}), 2) == (
        f"Chose no recalibration: the simplest of the 2 candidates as good as the best within its error "
        f"({candidates[1]}, CRPS 0.25); leave-one-out CRPS 0.5."
    )


@pytest.mark.parametrize("name", ["crps", "k", "weight"])
def test_a_table_without_a_column_is_no_evidence(name, tuning):
    columns = {one: column for one, column in tuning.table.columns.items() if one != name}
    with pytest.raises(nc.NearcalError, match=f"{name} missing"):
        replace(tuning, table=type(tuning.table)(columns))
