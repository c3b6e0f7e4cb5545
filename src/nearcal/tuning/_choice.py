"""Choosing among scored candidates: the best, or the simplest that is not clearly worse."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from nearcal._arrays import FloatArray
from nearcal.tuning._candidates import Candidate

Rule = Literal["best", "one-standard-error"]
RULES: tuple[Rule, ...] = get_args(Rule)


@dataclass(frozen=True)
class Comparison:
    """Mean scores of candidates with standard errors, and differences from the best, row by row."""

    mean: FloatArray
    std_error: FloatArray
    difference: FloatArray
    difference_std_error: FloatArray

    @property
    def best(self) -> int:
        """The place of the smallest mean, the first of equals."""
        return int(np.argmin(self.mean))

    @classmethod
    def of(cls, scores: FloatArray) -> "Comparison":
        """Compare scores of shape (candidates, n)."""
        mean = scores.mean(axis=1)
        best = int(np.argmin(mean))
        paired = [_mean_and_error(own - scores[best]) for own in scores]
        difference, difference_error = np.array(paired).T
        return cls(mean, np.array([_mean_and_error(own)[1] for own in scores]), difference, difference_error)


def _mean_and_error(values: FloatArray) -> tuple[float, float]:
    """Return the mean and its standard error; infinite scores have none."""
    mean = float(values.mean())
    if not np.isfinite(mean):
        return mean, np.nan
    return mean, float(values.std(ddof=1) / np.sqrt(len(values)))


def choose(candidates: Sequence[Candidate], comparison: Comparison, rule: Rule) -> tuple[int, int]:
    """Return the place of the chosen candidate, and how many were within one standard error of the best."""
    within = np.flatnonzero(comparison.difference <= comparison.difference_std_error)
    if rule == "best":
        return comparison.best, len(within)
    return min(within.tolist(), key=lambda place: (*_complexity(candidates[place]), place)), len(within)


def _complexity(candidate: Candidate) -> tuple[int, int]:
    """Order by how much is left to the data: nothing, one correction for all, then ever smaller neighbourhoods."""
    return ("none", "global", "local").index(candidate.kind), -(candidate.k or 0)
