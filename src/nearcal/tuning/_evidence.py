"""What each step brought: of every kind of candidate, how many were tried and how well the best of them did."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nearcal._table import Table
from nearcal.tuning._candidates import Candidate

_KINDS: dict[str, Callable[[Candidate], bool]] = {
    "no recalibration": lambda candidate: candidate.kind == "none",
    "global recalibration": lambda candidate: candidate.kind == "global",
    "local, plain": lambda candidate: (
        candidate.kind == "local" and not any(adds(candidate) for adds in _STEPS.values())
    ),
}
_STEPS: dict[str, Callable[[Candidate], bool]] = {
    "local, with relevance": lambda candidate: candidate.scaling == "relevance",
    "local, with adjustment": lambda candidate: candidate.adjustment not in (None, "none"),
    "local, with shrinkage": lambda candidate: candidate.shrinkage,
}
_SCORES = ("crps", "std_error", "difference", "difference_std_error")


def collect_evidence(table: Table) -> Table:
    """Return one row for every kind of candidate that was tried, from a table of all candidates."""
    rows = list(table)
    candidates = [_candidate(row) for row in rows]
    columns: dict[str, list[Any]] = {name: [] for name in ("kind", "tried", *_SCORES, "chosen", "best")}
    for kind, belongs in {**_KINDS, **_STEPS}.items():
        own = [place for place, candidate in enumerate(candidates) if belongs(candidate)]
        if not own:
            continue
        best = min(own, key=lambda place: rows[place]["crps"])
        columns["kind"].append(kind)
        columns["tried"].append(len(own))
        for name in _SCORES:
            columns[name].append(rows[best][name])
        columns["chosen"].append(any(rows[place]["chosen"] for place in own))
        columns["best"].append(str(candidates[best]))
    return Table(columns)


def _candidate(row: Mapping[str, Any]) -> Candidate:
    """Return the candidate of a row of the table; tables of older files know of no adjustment."""
    settings: dict[str, Any] = {name: row.get(name) or None for name in ("space", "scaling", "smoothing", "adjustment")}
    settings |= {name: None if np.isnan(row[name]) else int(row[name]) for name in ("components", "k")}
    return Candidate(row["kind"], **settings, shrinkage=bool(row.get("shrinkage", False)))
