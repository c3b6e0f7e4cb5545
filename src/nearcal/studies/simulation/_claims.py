"""The paper's claims on the simulation study, judged by means over seeds."""

from collections.abc import Mapping
from typing import Any

from nearcal.studies._claims import Claim
from nearcal.studies.simulation._claims_costs import judge_costs, judge_neighbors
from nearcal.studies.simulation._claims_quality import judge_accuracy, judge_coverage, judge_settings
from nearcal.studies.simulation._numbers import Numbers


def judge_claims(results: Mapping[str, Any]) -> list[Claim]:
    """Judge every claim of section 4.3, and what the paper's conclusion says of it."""
    if not results["methods"]:
        return []
    numbers = Numbers(results)
    parts = (judge_accuracy, judge_settings, judge_coverage, judge_costs, judge_neighbors)
    return [claim for judge in parts for claim in judge(numbers)]
