"""Candidates that move scores, by regression or shrinkage, are costly to score: the most promising are, in full."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from nearcal._arrays import FloatArray
from nearcal.recalibration._adjustment import LEAST_NEIGHBORS
from nearcal.recalibration._left_out import View
from nearcal.tuning._candidates import Candidate, SearchSpace
from nearcal.tuning._choice import standing
from nearcal.tuning._leave_one_out import LeaveOneOut

_SPACES = 3  # in which adjusted neighbourhoods are tried
_FINALISTS = 3  # adjusted candidates that are scored on all rows
_HEAT_ROWS = 1000  # on which they qualify
_SHRUNK = 2

Scores = dict[Candidate, FloatArray]


def adjusted_scores(
    plain: Mapping[Candidate, FloatArray],
    searches: Mapping[SearchSpace, Sequence[View]],
    k: Sequence[int],
    leave_one_out: LeaveOneOut,
) -> Scores:
    """Return the scores of adjusted candidates, given those of the same neighbourhoods without adjustment.

    They are tried in the three best spaces, each with its best smoothing and all k that leave room for a slope. Where
    there are more than a thousand rows, the three that do best on a thousand of them are scored on all.
    """
    leaders: dict[SearchSpace, Candidate] = {}
    for candidate in sorted(plain, key=lambda candidate: standing(plain[candidate].mean())):
        leaders.setdefault(SearchSpace.of(candidate), candidate)
    entrants = [
        replace(leader, k=size, adjustment="linear")
        for leader in list(leaders.values())[:_SPACES]
        for size in k
        if size >= LEAST_NEIGHBORS
    ]
    n = len(leave_one_out.y)
    if n > _HEAT_ROWS and len(entrants) > _FINALISTS:
        rows = np.sort(np.random.default_rng(0).permutation(n)[:_HEAT_ROWS])
        heat = {
            entrant: leave_one_out.moved_crps(searches[SearchSpace.of(entrant)], entrant, rows)[rows].mean()
            for entrant in entrants
        }
        entrants = sorted(heat, key=lambda entrant: standing(heat[entrant]))[:_FINALISTS]
    everyone = np.arange(n)
    return {
        entrant: leave_one_out.moved_crps(searches[SearchSpace.of(entrant)], entrant, everyone) for entrant in entrants
    }


def shrunk_scores(
    local: Mapping[Candidate, FloatArray],
    searches: Mapping[SearchSpace, Sequence[View]],
    leave_one_out: LeaveOneOut,
) -> Scores:
    """Return the scores of the two best local candidates with shrinkage."""
    best = sorted(local, key=lambda candidate: standing(local[candidate].mean()))[:_SHRUNK]
    entrants = [replace(candidate, shrinkage=True) for candidate in best]
    everyone = np.arange(len(leave_one_out.y))
    return {
        entrant: leave_one_out.moved_crps(searches[SearchSpace.of(entrant)], entrant, everyone) for entrant in entrants
    }
