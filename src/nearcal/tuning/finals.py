"""The finals: the best candidates scored again, as they will be used, with their tails.

The first rounds score hundreds of candidates by the CRPS of weighted samples, which hardly sees the outer quantiles. In
the finals a few are scored by what users will get: curves, polished.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions import AVERAGED_SCORES as SCORES
from nearcal.distributions import Distribution
from nearcal.recalibration import CONTINUOUS_RULES, Caution, Polish
from nearcal.recalibration.averaged_scores import as_curve
from nearcal.recalibration.corrections import bend
from nearcal.recalibration.leave_one_out import LeaveOneOut
from nearcal.recalibration.neighborhoods import KNearest
from nearcal.recalibration.polish import middle_score, polish_of
from nearcal.recalibration.pooling import table_crps
from nearcal.recalibration.score_laws import QuantileRule, ScoreLaw
from nearcal.recalibration.steps import Steps
from nearcal.recalibration.weighted_steps import steps_of
from nearcal.tuning.averaging import Average, cross_fitted, draw_members, folds_at_random, folds_by_score
from nearcal.tuning.candidates import Candidate
from nearcal.tuning.choice import NEGLIGIBLE, mean_and_error, standing
from nearcal.tuning.evidence import KINDS
from nearcal.tuning.scoring import Scorer

if TYPE_CHECKING:
    from nearcal.recalibration.curve import Curve

_FINALISTS = 6  # best candidates, beside the best of every kind and of each of the best spaces
_SPACES = 3
_MOST_ROWS = 2000
_WIDE = 0.95  # coverage of the intervals whose score counts beside the CRPS
TAILS = 0.03  # the weight of that score: of a Normal distribution it then makes up a fifth of the sum
_ERRORS = 2  # standard errors by which one candidate must be better than an average to be taken alone
_WORTH_IT = 5e-3  # of its score, by which an average must be able to be better than the best of its candidates
_DOUBT = 1.5  # share left to the model, in squared standard errors relative to the gain
_DOUBT_OF_AVERAGE = 0.75  # the same for an average, whose gain owes next to nothing to chance
_LEAST_SHARE = 0.05  # left to the model, below which none is
_LEAST_OFPART, _MOST_OFPART = 0.25, 0.5  # the same of the tails, and of the middle, however much in doubt their gain

_AT = np.concatenate([SCORES, ndtri([(1 - _WIDE) / 2, (1 + _WIDE) / 2])])  # scores at which quantiles are known


class Finals(NamedTuple):
    """Leave-one-out scores of some candidates, of shape (finalists, rows): CRPS, 95% interval score, log score.

    ``places`` are those of the finalists among all candidates, ``rows`` the calibration rows that were scored,
    ``weights`` how much these count; ``average`` is what an average of local finalists comes to.
    """

    places: list[int]
    rows: IntArray
    crps: FloatArray
    interval: FloatArray
    log: FloatArray
    weights: FloatArray | None
    average: Average | None = None

    def mean(self, name: str) -> FloatArray:
        """Return the mean of a score of every finalist."""
        return np.average(getattr(self, name), axis=1, weights=self.weights)

    @property
    def total(self) -> FloatArray:
        """What finalists are chosen by: CRPS + 0.03 × interval score; both, and so their sum, are proper."""
        return self.crps + TAILS * self.interval


class Decision(NamedTuple):
    """The weights of the candidates chosen, by their places, of sum 1, and what is left to the model."""

    weights: dict[int, float]
    caution: Caution | None = None

    @property
    def place(self) -> int:
        """The candidate of the greatest weight."""
        return max(self.weights, key=self.weights.__getitem__)


def play(
    scorer: Scorer,
    candidates: Sequence[Candidate],
    means: FloatArray,
    among: Sequence[int],
    polish: bool,
    rule: QuantileRule,
    members: int,
) -> Finals:
    """Score the finalists among some candidates, given the mean CRPS in the first rounds, and an average of some."""
    places = _finalists(candidates, means, among)
    rows = scorer.race.some(_MOST_ROWS)
    played: list[_Played] = [None] * len(places)  # type: ignore[list-item]

    def task(one: slice) -> None:
        played[one.start] = _play_one(scorer, candidates[places[one.start]], rows, polish, rule)

    scorer.workers.run(task, [slice(number, number + 1) for number in range(len(places))])
    y = scorer.y[rows]
    crps, interval = np.array([_scores(one.values, y) for one in played]).transpose(1, 0, 2)
    crps[np.isinf(means[places])] = np.inf  # whose sample has values too large for a number
    weights = None if scorer.calibration.weights is None else scorer.calibration.weights.relative[rows]
    finals = Finals(places, rows, crps, interval, np.array([one.log for one in played]), weights)
    return finals._replace(average=_average(scorer, finals, played, polish, members))


def decide(finals: Finals, most: float, units: IntArray | None) -> Decision:
    """Return what is chosen, and what is left to the model.

    It is an average of local finalists, unless the one of the least total score is better by more than two standard
    errors of the difference, or the average by less than half a percent, for certain: it costs as many searches. The
    score of the best owes something to chance, that of the average next to nothing. With g by how much the choice is
    better than the model, and e the standard error of that, 1.5 (e / g)² is left to the model, half of that of an
    average, as James and Stein would; where that is all, the choice is between no recalibration and global
    recalibration alone, as it is where the latter does better. Of the tails as much is left to the model by the gain of
    interval scores, and of the middle by the gain in CRPS, but half of them at most: where intervals alone are better,
    the tails alone are mended. Of global recalibration as much is left as of an average, all where it gains less than a
    five-hundredth; but ``most`` at most, which is below 1 where the model is not calibrated overall.
    """
    units, weights = None if units is None else units[finals.rows], finals.weights
    means = [standing(mean_and_error(own, units, weights)[0]) for own in finals.total]
    none, everyone = 0, 1
    best = min(range(2, len(means)), key=means.__getitem__, default=none)
    mean, total, interval, crps = means[best], finals.total[best], finals.interval[best], finals.crps[best]
    chosen, doubt, limit = {finals.places[best]: 1.0}, _DOUBT, 1.0
    if finals.average is not None:
        averaged = finals.average.crps + TAILS * finals.average.interval
        behind, error = mean_and_error(averaged - total, units, weights)
        if behind <= _ERRORS * error and _ERRORS * error - behind > _WORTH_IT * mean:
            mean, total = mean_and_error(averaged, units, weights)[0], averaged
            interval, crps = finals.average.interval, finals.average.crps
            doubt = _DOUBT_OF_AVERAGE
            chosen = {finals.places[place]: float(w) for place, w in enumerate(finals.average.weights) if w > 0}
    share = _doubt(*mean_and_error(finals.total[none] - total, units, weights), doubt)
    if not (share < 1 and mean < means[everyone]):
        chosen, doubt, limit = {finals.places[everyone]: 1.0}, _DOUBT_OF_AVERAGE, most
        interval, crps = finals.interval[everyone], finals.crps[everyone]
        gain, error = mean_and_error(finals.total[none] - finals.total[everyone], units, weights)
        share = min(_doubt(gain, error, doubt) if gain > NEGLIGIBLE * means[none] else 1.0, most)
        if not (share < 1 and np.isfinite(finals.crps[everyone]).all()):
            return Decision({finals.places[none]: 1.0})
    with np.errstate(invalid="ignore"):  # infinite scores of both
        narrower, sharper = (
            mean_and_error(of_model[none] - own, units, weights)
            for of_model, own in ((finals.interval, interval), (finals.crps, crps))
        )
    tails = min(_doubt(*narrower, doubt), _MOST_OFPART)
    middle = 1 - (1 - min(_doubt(*sharper, doubt), _MOST_OFPART, limit)) / (1 - share)  # beside that share
    parts = (_worth_leaving(part, _LEAST_OFPART) for part in (tails, middle))
    caution = Caution(_worth_leaving(share, _LEAST_SHARE), *parts)
    return Decision(chosen, caution if caution.learnt else None)


def _doubt(gain: float, error: float, weight: float) -> float:
    """Return the share that is left to the model, 1 where there is no gain."""
    return weight * min(error / gain, 1e6) ** 2 if gain > 0 and np.isfinite(gain) else float(not gain > 0)


def _worth_leaving(share: float, least: float) -> float:
    """Return a share in whole percent, none below the least that is worth it."""
    return 0.0 if share < least else float(f"{share:.2f}")


def _finalists(candidates: Sequence[Candidate], means: FloatArray, among: Sequence[int]) -> list[int]:
    """Return no and global recalibration, the best others, the best of every kind, and of each of the best spaces."""
    ranking = sorted(
        (p for p in among if p > 1 and not np.isinf(means[p])), key=lambda place: (standing(float(means[place])), place)
    )
    of_kinds = {kind: next((p for p in ranking if belongs(candidates[p])), 0) for kind, belongs in KINDS.items()}
    of_spaces: dict[object, int] = {}
    for place in ranking:
        of_spaces.setdefault(candidates[place].place, place)
    chosen = [*ranking[:_FINALISTS], *of_kinds.values(), *list(of_spaces.values())[:_SPACES]]
    return list(dict.fromkeys([0, 1, *chosen]))


class _Played(NamedTuple):
    """Rows under a finalist, each left out: quantiles, (rows, 43), log scores; of a local one (rows, 41) scores."""

    values: FloatArray
    log: FloatArray
    scores: FloatArray | None = None


def _play_one(scorer: Scorer, candidate: Candidate, rows: IntArray, polish: bool, rule: QuantileRule) -> _Played:
    if candidate.kind == "none":
        base = scorer.dist[rows]
        return _Played(base._from_z(np.tile(_AT, (len(rows), 1))), _log_score(base, scorer.y[rows]))
    if candidate.kind == "global":
        return _play_global(scorer, rows, rule)
    assert candidate.k is not None
    assert candidate.smoothing is not None
    space = scorer.places[candidate.place]
    neighborhood = KNearest(candidate.k, 0.0, candidate.smoothing, scorer.calibration.weights)
    left_out = LeaveOneOut(
        scorer.calibration, lambda: space.views, neighborhood, rule, scorer.workers.each(), asked=rows
    )
    for correction in candidate.corrections:
        learnt = correction.learn(left_out, left_out.widest)
        left_out = left_out if learnt is None else left_out.corrected(learnt)
    laws: list[tuple[IntArray, Curve]] = []  # of all rows: polish is learnt from them before they are asked

    def look(steps: Steps, own: IntArray) -> FloatArray:
        laws.append((own, left_out.law(steps)))
        return middle_score(laws[-1][1], scorer.calibration.z[own])

    own_scores = left_out.gather(look, np.full(len(scorer.y), np.nan))
    mended = Polish().learn_from(own_scores, scorer.calibration.weights, left_out.order) if polish else None
    values, log, scores = (np.full((len(rows), *more), np.nan) for more in ((len(_AT),), (), (len(SCORES),)))
    for own, law in laws:
        at, base = np.searchsorted(rows, own), scorer.dist[own]
        # the density of a polished curve jumps at the very scores that polish was learnt from
        log[at] = _log_score(base, scorer.y[own], law)
        polished = bend(law, () if mended is None else (mended,))
        values[at] = polished.values(base, np.tile(_AT, (len(own), 1)))
        scores[at] = polished.before(np.tile(SCORES, (len(own), 1)))
    for table in (values, log, scores):
        table[np.isnan(own_scores[rows])] = np.nan
    return _Played(values, log, scores)


def _play_global(scorer: Scorer, rows: IntArray, rule: QuantileRule) -> _Played:
    """Play global recalibration: each row by the law of those in other folds, so that none speaks for itself."""
    values, log = np.empty((len(rows), len(_AT))), np.empty(len(rows))
    folds = folds_at_random(scorer.calibration.z, None if scorer.folds is None else scorer.folds.units)
    for fold in np.unique(folds[rows]):
        others = np.flatnonzero(folds != fold)
        speakers = scorer.calibration.restricted(others) if len(others) else scorer.calibration
        law, own = steps_of(speakers).curve(predictive=rule == "predictive"), np.flatnonzero(folds[rows] == fold)
        base = scorer.dist[rows[own]]
        values[own] = law.values(base, np.tile(_AT, (len(own), 1)))
        log[own] = _log_score(base, scorer.y[rows[own]], law)
    return _Played(values, log)


def _average(scorer: Scorer, finals: Finals, played: Sequence[_Played], polish: bool, members: int) -> Average | None:
    """Return what an average of so many local finalists at most comes to; None where there are no two."""
    local = [place for place, one in enumerate(played) if one.scores is not None]
    z, y = scorer.calibration.z[finals.rows], scorer.y[finals.rows]
    values, tables = (np.array([getattr(played[place], name) for place in local]) for name in ("values", "scores"))
    if members < 2 or len(local) < 2 or not (np.isfinite(values).all() and np.isfinite(tables).all()):
        return None
    units = None if scorer.folds is None else scorer.folds.units[finals.rows]
    folds = folds_by_score(z, units)
    averaged = cross_fitted(tables, values[..., :-2], y, members, folds, finals.weights)
    learnt = polish_of(middle_score(as_curve(averaged), z), finals.weights) if polish else None
    curve = bend(as_curve(averaged), () if learnt is None else (learnt,))
    crps, interval = _scores(curve.values(scorer.dist[finals.rows], np.tile(_AT, (len(y), 1))), y)
    weights = np.zeros(len(played))
    weights[local] = draw_members(values[..., :-2], y, members, finals.weights)
    return Average(weights, crps, interval)


def _log_score(base: Distribution, y: FloatArray, law: ScoreLaw | None = None) -> FloatArray:
    """Return minus the log-densities of responses; NaN where there are none."""
    if not base.has_density:
        return np.full(len(y), np.nan)
    return -base.logpdf(y) if law is None else -law.log_density(base, y[:, np.newaxis])[:, 0]


def _scores(values: FloatArray, y: FloatArray) -> FloatArray:
    """Return CRPS and 95% interval scores of rows that are known by their quantiles, (2, rows)."""
    with np.errstate(invalid="ignore", over="ignore"):
        lower, upper = values[:, -2], values[:, -1]
        beyond = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
        return np.array([table_crps(values[:, :-2], y), upper - lower + 2 / (1 - _WIDE) * beyond])


def can_play(rule: QuantileRule) -> bool:
    """Tell whether there are finals: what is read by steps has no tails to speak of."""
    return rule in CONTINUOUS_RULES
