"""Choosing among scored candidates: the best, or the simplest that is not clearly worse."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._sample_weights import effective_size
from nearcal.distributions.base import overflow_is_infinite
from nearcal.distributions.interpolation import power_of_two
from nearcal.recalibration import Fade
from nearcal.tuning.candidates import Candidate

Rule = Literal["cautious", "best", "one-standard-error", "two-standard-errors"]
RULES: tuple[Rule, ...] = get_args(Rule)

_FREE = 2 / 3  # of the score without recalibration: up to there, what brings less costs little to give up
_LEAST_SHARE = 1e-3  # of the usual rate of false alarms of a fade, however much recalibration brings
NEGLIGIBLE = 2e-3  # of the best score: not worth a less simple choice, however certain


@dataclass(frozen=True)
class Comparison:
    """Mean scores of candidates with standard errors, and differences from the best, row by row.

    Candidates that were not scored on all rows, but left before, have a mean that can be compared: that of the best,
    plus the difference at their own ``rows``, so many.
    """

    mean: FloatArray
    std_error: FloatArray
    difference: FloatArray
    difference_std_error: FloatArray
    rows: IntArray

    @property
    def best(self) -> int:
        """The place of the smallest mean, the first of equals, of candidates that were scored on all rows."""
        return _first_best(self.mean, self.is_complete)

    @property
    def is_complete(self) -> NDArray[np.bool_]:
        """Which candidates were scored on all rows."""
        return self.rows == self.rows.max()

    @classmethod
    def of(cls, scores: FloatArray, units: IntArray | None = None, weights: FloatArray | None = None) -> "Comparison":
        """Compare scores of shape (candidates, n) of rows that may depend on each other, and count more or less.

        NaN is where a candidate was not scored. Rows of one unit, of shape (n,), depend on each other; weights are of
        shape (n,) too.
        """
        known = ~np.isnan(scores)
        rows = known.sum(axis=1)

        def over_own_rows(values: FloatArray) -> FloatArray:
            return np.array(
                [
                    mean_and_error(
                        own[has], *(None if of_rows is None else of_rows[has] for of_rows in (units, weights))
                    )
                    for own, has in zip(values, known, strict=True)
                ]
            ).T

        mean, error = over_own_rows(scores)
        best = _first_best(mean, rows == rows.max())
        with overflow_is_infinite():
            difference, difference_error = over_own_rows(scores - scores[best])
        mean = np.where(rows == rows.max(), mean, mean[best] + difference)
        return cls(mean, error, difference, difference_error, rows)


def standing(mean: float) -> float:
    """Return what a mean score is ranked by: spaces that differ by rounding alone, as copies do, rank as equals."""
    return float(f"{mean:.9e}")


def _first_best(means: FloatArray, among: NDArray[np.bool_]) -> int:
    places = np.flatnonzero(among)
    return int(places[np.argmin([standing(mean) for mean in means[places]])])


def mean_and_error(
    values: FloatArray, units: IntArray | None = None, weights: FloatArray | None = None
) -> tuple[float, float]:
    """Return the mean and its standard error; infinite scores have none.

    Where rows of one unit depend on each other, the error is that of a sum over g units u, with s_u the sum of v_i - v̄
    over its rows: √(g / (g - 1) Σ s_u²) / n. With weights w_i of sum 1 it is that of a ratio of sums,
    √(g / (g - 1) Σ s_u²) with s_u the sum of w_i (v_i - v̄), and g the effective size of the weights of units, or rows.
    """
    if not np.isfinite(values).all():
        return float(np.average(values, weights=weights)), np.nan
    unit = power_of_two(np.abs(values).max(keepdims=True))[0]  # so that neither sums nor squares overflow
    scaled = values / unit
    if weights is not None:
        which = np.arange(len(values)) if units is None else np.unique(units, return_inverse=True)[1]
        mean, of_units = np.average(scaled, weights=weights), np.bincount(which, weights).astype(np.float64)
        size = effective_size(of_units)
        sums = np.bincount(which, weights / weights.sum() * (scaled - mean))
        error = np.sqrt(np.sum(sums**2) * size / max(size - 1, 1e-9))
        return float(unit * mean), float(unit * error)
    if units is not None:
        _, which = np.unique(units, return_inverse=True)
        sums = np.bincount(which, scaled - scaled.mean())
        spread = np.sqrt(np.sum(sums**2) * len(sums) / max(len(sums) - 1, 1))
        return float(unit * scaled.mean()), float(unit * (spread / len(values)))
    return float(unit * scaled.mean()), float(unit * (scaled.std(ddof=1) / np.sqrt(len(values))))


def choose(
    candidates: Sequence[Candidate], comparison: Comparison, rule: Rule, is_calibrated: bool = True
) -> tuple[int, int]:
    """Return the place of the chosen candidate, and how many the rule takes for as good as the best.

    A model that is not calibrated overall is not left alone, as far as there is another choice. Global recalibration
    that scores worse than none is no choice. The rule "cautious" is two standard errors here; it has more to it where
    there are finals.
    """
    errors = 1 if rule == "one-standard-error" else 2
    enough = np.fmax(errors * comparison.difference_std_error, NEGLIGIBLE * comparison.mean[comparison.best])
    within = np.flatnonzero((comparison.difference <= enough) & comparison.is_complete)
    if rule == "best":
        return comparison.best, len(within)
    untouched = min(comparison.mean[place] for place, one in enumerate(candidates) if one.kind == "none")
    eligible = [p for p in within.tolist() if candidates[p].kind != "global" or comparison.mean[p] < untouched]
    # by how much is left to the data: nothing, one correction for all, one for each neighbourhood
    kinds = ["none", "global", "local"] if is_calibrated else ["global", "local", "none"]

    def rank(place: int) -> tuple[int, float, int]:
        return kinds.index(candidates[place].kind), standing(comparison.mean[place]), place

    return min(eligible, key=rank), len(within)


def widest(candidates: Sequence[Candidate], comparison: Comparison) -> list[int]:
    """Return the places of candidates that may be chosen where rows are in order of time.

    New rows lie farther ahead than any that were judged, and the past is forgotten the faster the fewer neighbours are
    asked. So of local candidates those alone remain that ask at least as many as any within one standard error of the
    best: the rule of one standard error (Breiman et al., 1984), with wide neighbourhoods for the simpler ones.
    """
    is_near = comparison.difference <= comparison.difference_std_error  # also of those who left, at their own rows
    is_near[comparison.best] = True
    most = max((one.k or 0 for one, near in zip(candidates, is_near, strict=True) if near), default=0)
    return [place for place, one in enumerate(candidates) if one.kind != "local" or (one.k or 0) >= most]


def fade_by_gain(candidates: Sequence[Candidate], comparison: Comparison, place: int) -> Fade:
    """Return how rows fade after a choice: the rarer without need, the more it brings.

    A row that keeps its base distribution gives up what recalibration brings: with g the score of the choice relative
    to that of none, (1 - g) / g times the score of the choice on average, and several times that if it is an odd row of
    a model that is far off. The rate is the usual one where g is 2/3 or more, and falls with its fourth power below.
    """
    untouched = comparison.mean[[candidate.kind for candidate in candidates].index("none")]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.divide(comparison.mean[place], untouched))
    share = float(np.clip((ratio / _FREE) ** 4, _LEAST_SHARE, 1.0)) if np.isfinite(ratio) else 1.0
    return Fade(float(f"{Fade.false_alarm * share:.2g}"))
