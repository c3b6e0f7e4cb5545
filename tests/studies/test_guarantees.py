"""The study of guarantees in seconds: every promise holds as far as so few sets can tell."""

import json

from nearcal_studies.guarantees import Guarantees, judge
from nearcal_studies.run import run
from nearcal_studies.study import Scale


class Smaller(Guarantees):
    """Few sets."""

    def settings(self, scale):
        few = {"sets": 400, "points": [19, 50], "programmes": {"50": 40}, "whole": 10, "whole_points": [19]}
        return {**super().settings(scale), **few}


def test_promises_hold(tmp_path):
    conclusion = run(Smaller(), tmp_path, Scale(quick=True))
    rows = json.loads((tmp_path / "results.json").read_text())["results"]["rows"]
    kept = [check for check in judge(rows) if "control" not in check.name]
    assert [str(check) for check in kept if not check.holds] == []
    assert len(kept) > 40
    assert "| marginal, whole | heavy tails, ties |" in conclusion.tables
