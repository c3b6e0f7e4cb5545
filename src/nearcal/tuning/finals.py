"""The finals: the best candidates scored again, as they will be used, with their tails.

The first rounds score hundreds of candidates by the CRPS of weighted samples, which hardly sees the outer quantiles. In
the finals a few are scored by what users will get: curves, polished.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray, IntArray
from nearcal.recalibration import CONTINUOUS_RULES, Polish
from nearcal.recalibration.leave_one_out import LeaveOneOut
from nearcal.recalibration.neighborhoods import KNearest
from nearcal.recalibration.score_laws import QuantileRule, ScoreLaw
from nearcal.recalibration.steps import Steps
from nearcal.recalibration.weighted_steps import steps_of
from nearcal.tuning.candidates import Candidate
from nearcal.tuning.choice import Comparison, choose, mean_and_error, standing
from nearcal.tuning.evidence import KINDS
from nearcal.tuning.scoring import Scorer

_FINALISTS = 6  # best candidates, beside the best of every kind and of each of the best spaces
_SPACES = 3
_MOST_ROWS = 2000
_QUANTILES = 50  # that a CRPS is computed from
_WIDE = 0.95  # coverage of the intervals whose score counts beside the CRPS
_TAILS = 0.03  # the weight of that score: of a Normal distribution it then makes up a fifth of the sum
_DOUBT = 1.5  # share left to the model, in squared standard errors relative to the gain
_LEAST_SHARE = 0.05  # left to the model, below which none is

_MIDDLES = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
_LEVELS = np.concatenate([_MIDDLES, [(1 - _WIDE) / 2, (1 + _WIDE) / 2]])


class Finals(NamedTuple):
    """Leave-one-out scores of some candidates, of shape (finalists, rows): CRPS, 95% interval score, log score.

    ``places`` are those of the finalists among all candidates, ``rows`` the calibration rows that were scored.
    """

    places: list[int]
    rows: IntArray
    crps: FloatArray
    interval: FloatArray
    log: FloatArray

    weights: FloatArray | None

    def mean(self, name: str) -> FloatArray:
        """Return the mean of a score of every finalist."""
        return np.average(getattr(self, name), axis=1, weights=self.weights)

    @property
    def total(self) -> FloatArray:
        """What finalists are chosen by: CRPS + 0.03 × interval score; both, and so their sum, are proper."""
        return self.crps + _TAILS * self.interval


def play(
    scorer: Scorer, candidates: Sequence[Candidate], means: FloatArray, polish: bool, rule: QuantileRule
) -> Finals:
    """Score the finalists among candidates, given the mean CRPS of each in the first rounds."""
    places = _finalists(candidates, means)
    rows = scorer.race.some(_MOST_ROWS)
    scores = np.array([_score(scorer, candidates[place], rows, polish, rule) for place in places])
    weights = None if scorer.calibration.weights is None else scorer.calibration.weights.relative[rows]
    return Finals(places, rows, scores[..., 0], scores[..., 1], scores[..., 2], weights)


def decide(
    finals: Finals, candidates: Sequence[Candidate], is_calibrated: bool, units: IntArray | None
) -> tuple[int, float]:
    """Return the place of the choice, and the share that is left to the model.

    It is the local finalist of the least total score. With g by how much it is better than the model, and e the
    standard error of that, 1.5 (e / g)² is left to the model, as James and Stein would; where that is all, the choice
    is between no recalibration and global recalibration alone, as it is where the latter does better.
    """
    units, weights = None if units is None else units[finals.rows], finals.weights
    means = [standing(mean_and_error(own, units, weights)[0]) for own in finals.total]
    none, everyone = 0, 1
    best = min(range(2, len(means)), key=means.__getitem__, default=none)
    gain, error = mean_and_error(finals.total[none] - finals.total[best], units, weights)
    share = _DOUBT * (error / gain) ** 2 if gain > 0 and np.isfinite(gain) else float(not gain > 0)
    if share < 1 and means[best] < means[everyone]:
        return finals.places[best], 0.0 if share < _LEAST_SHARE else float(f"{share:.2f}")
    simple = Comparison.of(finals.total[:2], units, weights)
    return choose(candidates[:2], simple, "two-standard-errors", is_calibrated)[0], 0.0


def _finalists(candidates: Sequence[Candidate], means: FloatArray) -> list[int]:
    """Return no and global recalibration, the best others, the best of every kind, and of each of the best spaces."""
    ranking = sorted(range(2, len(candidates)), key=lambda place: (standing(float(means[place])), place))
    of_kinds = {kind: next((p for p in ranking if belongs(candidates[p])), 0) for kind, belongs in KINDS.items()}
    of_spaces: dict[object, int] = {}
    for place in ranking:
        of_spaces.setdefault(candidates[place].place, place)
    chosen = [*ranking[:_FINALISTS], *of_kinds.values(), *list(of_spaces.values())[:_SPACES]]
    return list(dict.fromkeys([0, 1, *chosen]))


def _score(scorer: Scorer, candidate: Candidate, rows: IntArray, polish: bool, rule: QuantileRule) -> FloatArray:
    """Return CRPS, interval score and log score of some rows, (rows, 3)."""
    dist, y = scorer.dist, scorer.y
    if candidate.kind == "none":
        has_density = dist.has_density
        values = dist[rows]._from_z(np.tile(ndtri(_LEVELS), (len(rows), 1)))
        return _of_values(values, y[rows], -dist[rows].logpdf(y[rows]) if has_density else np.full(len(rows), np.nan))
    if candidate.kind == "global":
        law = steps_of(scorer.calibration).curve(predictive=rule == "predictive")
        return _of_law(law, law, scorer, rows)
    assert candidate.k is not None
    assert candidate.smoothing is not None
    space = scorer.places[candidate.place]
    neighborhood = KNearest(candidate.k, 0.0, candidate.smoothing, scorer.calibration.weights)
    left_out = LeaveOneOut(
        scorer.calibration, lambda: space.views, neighborhood, rule, scorer.workers.silent(), asked=rows
    )
    for correction in (*candidate.corrections, *(Polish(),) * polish):
        learnt = correction.learn(left_out, max(space.views, key=lambda view: view.points.shape[1]))
        left_out = left_out if learnt is None else left_out.corrected(learnt)

    def score(steps: Steps, own: IntArray) -> FloatArray:
        # the density of a polished curve jumps at the very scores that polish was learnt from
        return _of_law(left_out.law(steps), steps.curve(predictive=rule == "predictive"), scorer, own)

    return left_out.gather(score, np.full((len(y), 3), np.nan))[rows]


def _of_law(law: ScoreLaw, unpolished: ScoreLaw, scorer: Scorer, rows: IntArray) -> FloatArray:
    base, y = scorer.dist[rows], scorer.y[rows]
    density = unpolished.log_density(base, y[:, np.newaxis])[:, 0] if base.has_density else np.full(len(y), np.nan)
    return _of_values(law.quantiles(base, np.tile(_LEVELS, (len(y), 1))), y, -density)


def _of_values(values: FloatArray, y: FloatArray, log: FloatArray) -> FloatArray:
    """Return the scores of quantiles at all levels; the CRPS is twice the mean quantile score."""
    with np.errstate(invalid="ignore", over="ignore"):
        beyond = y[:, np.newaxis] - values
        losses = np.maximum(_LEVELS * beyond, (_LEVELS - 1) * beyond)
        interval = 2 / (1 - _WIDE) * losses[:, _QUANTILES:].sum(axis=1)
        return np.stack([2 * losses[:, :_QUANTILES].mean(axis=1), interval, log], axis=1)


def can_play(rule: QuantileRule) -> bool:
    """Tell whether there are finals: what is read by steps has no tails to speak of."""
    return rule in CONTINUOUS_RULES
