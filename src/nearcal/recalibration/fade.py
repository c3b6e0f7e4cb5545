"""Fading: rows unlike the calibration set keep their base distribution, by degrees.

What neighbours say of a row is worth something as long as the row could have been one of them. A row that is farther
from calibration points than these are from each other, or beyond the range of all of them in a column, is answered by
points that know nothing of it: there the local law of scores is drawn to another that needs no neighbours.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray, check_choice
from nearcal._errors import OutOfDistributionWarning, ThinNeighborhoodError, warn_user
from nearcal._saved import instance, number, one_of, optional, savable
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.corrections import Correction, LearntCorrection
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.neighborhoods import NO_NEIGHBORHOOD, KNearest, Neighborhood, Neighborhoods, Rows
from nearcal.recalibration.reliability import OwnIsolation, check_false_alarm
from nearcal.recalibration.steps import EqualSteps, Steps
from nearcal.recalibration.weighted_steps import steps_of
from nearcal.space import Ranges, View, falling, upper_limit

if TYPE_CHECKING:
    from nearcal.recalibration.leave_one_out import LeaveOneOut

FadeTo = Literal["base", "global", "raise"]
FADES_TO: tuple[FadeTo, ...] = get_args(FadeTo)
FALSE_ALARM = 0.01

_LEAST_GAP, _LARGEST_GAP = np.log(1.1), np.log(2.0)  # of log distances, between full trust and none
_FASTER = 50.0  # times as fast as the way is gone, trust in what narrows is lost
_OF_RANGES = 5  # times the rate of isolation: fading is slow there, and few points with many columns leave no room
_FAR_ABOVE, _LEAST_ROWS = 4, 10  # times what is expected, and faded rows, from which there is a warning


@savable(false_alarm=number(0.0), to=one_of(*FADES_TO))
@dataclass(frozen=True)
class Fade(Correction):
    """Let rows unlike the calibration set keep their base distribution, by degrees. It comes last.

    Every row has a trust t between 0 and 1: the quantile function of its scores becomes s + τ (q(s) - s) at normal
    score s, so that t = 1 leaves its result as it is and t = 0 leaves its base distribution as it is, both to the last
    bit. What leads outwards, above the median upwards and below it downwards, is trusted by τ = t. What leads inwards
    is trusted by τ = n = max(0, 1 - 50 √(1 - t)), next to nothing: a distribution that stays too wide does little
    harm, and one that is made too narrow, by points elsewhere, does much. Between scores of -1 and 1, where neither is
    in nor out, τ goes from one to the other in proportion to s, so that quantiles keep their order.

    t is the lesser of two, each 1 - w² after a share w of the way from a limit to where nothing is left:

    - **Isolation.** Let u be the distance from the row to its k-th neighbour, u* what such distances of calibration
      points among the others exceed with probability ``false_alarm``, and m their median. On the scale of log u, the
      way is from u* to u* · u* / m, at least 1.1 and at most 2 times u*: rows may be as much farther than the farthest
      as those are farther than most. Within a radius, the number of neighbours takes the place of 1 / u.
    - **Ranges.** Let e be how far the row lies beyond the range of calibration points in a column of the space as it
      was given, in units of the outermost tenth of that range (max - q₀.₉, or q₀.₁ - min), the largest over columns;
      and e* what calibration points exceed among the others with probability 5 ``false_alarm``. The way is from e* to
      e* + ½. Distances do not see a row that leaves the range in one column of many, or in one that scaling has shrunk;
      and there the model extrapolates, and so would its recalibration. (With the cosine metric, to which lengths mean
      nothing, ranges are not looked at.)

    Of n calibration points, what is exceeded with probability p is the ⌈(1 - p)(n + 1)⌉-th smallest value; where n is
    too small for that, the largest, carried on by an exponential tail: farther from the median by the ratio of log 2p
    to log 2 / (n + 1). Where 5 ``false_alarm`` is below a twentieth of 1 / (n + 1), points tell nothing of such ends of
    columns: the unit is then the whole range of a column, and e* is one of it. So every row far enough away fades,
    whatever the rate. Under the rules "step" and "conservative", where scores are a weighted sample, the score of a
    neighbour becomes s + τ (z_i - s) at s = Φ⁻¹(c_i), with c_i the weight below it and half of its own.
    Rows that ``Radius(thin="global")`` leaves to all points stay there.

    ``Recalibrated.trust`` tells t. A result of which ten rows or more have faded, and more than four times as many as
    of rows like the calibration set, warns when it is first computed: :class:`nearcal.OutOfDistributionWarning`.

    Parameters
    ----------
    false_alarm : float
        The share of rows from the distribution of the calibration set that may begin to fade for their isolation; five
        times as many may for leaving a range. The measurement behind both is the study ``drift``.
    to : {"base", "global", "raise"}
        Where rows fade to: their base distribution; the law of all calibration scores, read by the same rule, in place
        of s; or as "base", and a row without any trust left is a :class:`nearcal.ThinNeighborhoodError`.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(0, 7, size=2000)
    >>> y = rng.normal(0.0, 1 + x)
    >>> rc = nc.LocalRecalibrator(k=100, corrections=(nc.Fade(),)).fit(nc.Normal(np.zeros(2000), 3.0), y, x)
    >>> out = rc.recalibrate(nc.Normal(np.zeros(3), 3.0), [3.5, 7.1, 9.0])
    >>> out.trust.round(2)
    array([1.  , 0.72, 0.  ])
    >>> out.std().round(1)
    array([4.6, 6.2, 3. ])
    """

    false_alarm: float = FALSE_ALARM
    to: FadeTo = "base"

    comes_last = True

    @property
    def expected(self) -> float:
        """The largest share of rows to expect with a trust below 1, of rows like the calibration set."""
        return expected_share(self.false_alarm)

    def check(self) -> None:
        """Validate the parameters."""
        check_false_alarm(self.false_alarm)
        check_choice(self.to, FADES_TO, "to")

    def learn(self, left_out: "LeaveOneOut", view: View) -> "LearntFade":
        """Learn how isolated calibration points are among themselves; at most 10,000 of them stand for all."""
        near = left_out.neighborhood
        return self.learn_from(near, OwnIsolation.of(view.index, view.points).sorted(near, left_out.workers.silent()))

    def learn_from(self, near: Neighborhood, own: FloatArray) -> "LearntFade":
        """Learn from how isolated calibration points are, in increasing order."""
        own = own if len(own) > 1 else np.empty(0)  # one point alone has no distance from others
        start, gap = limits_of(log_isolation(near, own), self.false_alarm)
        return LearntFade(self.false_alarm, self.to, start, gap, None)


def log_isolation(neighborhood: Neighborhood, isolation: FloatArray) -> FloatArray:
    """Return the logarithm of distances, or minus that of numbers of neighbours."""
    with np.errstate(divide="ignore"):
        return np.log(isolation) if isinstance(neighborhood, KNearest) else -np.log(-isolation)


def limits_of(own: FloatArray, false_alarm: float) -> tuple[float, float]:
    """Return up to where a row is trusted, and over what it loses all trust."""
    start = upper_limit(own, false_alarm)
    middle = upper_limit(own, 0.5)
    gap = start - middle if np.isfinite(start) and np.isfinite(middle) else _LARGEST_GAP
    return start, float(np.clip(gap, _LEAST_GAP, _LARGEST_GAP))


@savable(
    false_alarm=number(0.0),
    to=one_of(*FADES_TO),
    start=number(finite=False),
    gap=number(5e-324),
    ranges=optional(instance(Ranges)),
)
@dataclass(frozen=True)
class LearntFade(LearntCorrection):
    """Up to what isolation a row is trusted, over what it loses its trust, and the ranges of columns.

    ``start`` and ``gap`` are on the scale of log distances, or of minus the logarithm of numbers of neighbours.
    """

    false_alarm: float
    to: FadeTo
    start: float
    gap: float
    ranges: Ranges | None

    def looking_at(self, space: FloatArray) -> "LearntFade":
        """Return the same with the ranges of the calibration positions, of shape (n, d), as they were given."""
        return replace(self, ranges=ranges_of(space, self.false_alarm))

    def trust(self, neighborhood: Neighborhood, isolation: FloatArray) -> FloatArray:
        """Return the trust in rows by their isolation."""
        return self.trust_at(log_isolation(neighborhood, isolation))

    def trust_at(self, beyond: FloatArray) -> FloatArray:
        """Return the trust in rows by their isolation on the scale of logarithms."""
        with np.errstate(invalid="ignore"):
            return np.where(beyond > self.start, falling((beyond - self.start) / self.gap), 1.0)

    def mark(self, near: Neighborhoods, trust: FloatArray, rows: Rows) -> Neighborhoods:
        """Return neighbourhoods with the trust in their rows; those without any keep their base, or are refused."""
        trust = np.where(near.which < 0, 0.0, trust)
        lost = trust == 0
        if self.to == "raise" and (lost & (near.which >= 0)).any():
            first = int(np.argmax(lost & (near.which >= 0)))
            row = rows.start + first if isinstance(rows, slice) else rows[first]
            raise ThinNeighborhoodError(
                f"every row must be like the calibration set, got row {row}, and {int(lost.sum())} rows of "
                f"{len(lost)} looked at, that lie far from all calibration points or beyond the range of their "
                'columns; drop those rows, or choose Fade(to="base") or Fade(to="global")'
            )
        which = near.which if self.to == "global" else np.where(lost, NO_NEIGHBORHOOD, near.which)
        return replace(near, which=which, trust=trust)


def trust_by_ranges(corrections: tuple[LearntCorrection, ...], space: FloatArray) -> FloatArray | None:
    """Return the trust in rows at positions as they were given, by the ranges of columns; None if nobody looks."""
    for correction in corrections:
        if isinstance(correction, LearntFade) and correction.ranges is not None:
            return correction.ranges.trust(space)
    return None


def ranges_of(space: FloatArray, false_alarm: float) -> Ranges:
    """Return the ranges of calibration positions, for rows to fade beyond them."""
    return Ranges.of(space, min(_OF_RANGES * false_alarm, 1.0))


# ---- laws of scores, drawn to another -------------------------------------------------------------------------------


def fade_curve(curve: Curve, trust: FloatArray, towards: Curve | None) -> Curve:
    """Return g + τ (q - g) at the knots of each row's curve q, with g the curve of all rows, or the identity."""
    return _between(curve, trust, towards, _draw)


def mix_curve(curve: Curve, trust: FloatArray) -> Curve:
    """Return t q(s) + (1 - t) s at the knots of each row's curve q, whichever way it leads."""
    return _between(curve, trust, None, lambda values, ends, share, scores: share * values + (1 - share) * ends)


def _between(
    curve: Curve, trust: FloatArray, towards: Curve | None, draw: Callable[[Any, Any, Any, Any], FloatArray]
) -> Curve:
    line, t = curve.line, trust[:, np.newaxis]
    shape = len(t), line.values.shape[1]
    faded = copy(line)
    faded.scores = scores = np.broadcast_to(line.scores, shape)
    knots, below, above = (scores, 1.0, 1.0) if towards is None else _at(towards, scores)  # of N(0, 1)
    # both increase, and so does what lies between, but for rounding
    faded.values = np.maximum.accumulate(draw(np.broadcast_to(line.values, shape), knots, t, scores), axis=1)
    outermost = np.ones_like(t)
    faded.slope_below = draw(line.slope_below, below, t, outermost)  # a steeper tail leads outwards, on either side
    faded.slope_above = draw(line.slope_above, above, t, outermost)
    return Curve(faded)


def _draw(values: FloatArray, ends: FloatArray | float, trust: FloatArray, scores: FloatArray) -> FloatArray:
    """Return what lies between ends and values by the trust in rows, far less of it where a change leads inwards.

    Both increase with the score, and so does what lies between: the share of a change upwards increases too, that of a
    change downwards decreases, and where one turns into the other there is no change.
    """
    narrowing = np.maximum(1 - _FASTER * np.sqrt(1 - trust), 0.0)
    outwards = np.clip((1 + scores * np.sign(values - ends)) / 2, 0.0, 1.0)
    share = narrowing + (trust - narrowing) * outwards
    return share * values + (1 - share) * ends


def _at(curve: Curve, scores: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    return curve.before(scores), curve.line.slope_below, curve.line.slope_above


def fade_steps(steps: Steps, trust: FloatArray, towards: CalibrationScores | None) -> Steps:
    """Return weighted scores g + τ (z - g), with g the quantiles of all scores at level c, or Φ⁻¹(c)."""
    near = _one_each(steps.neighborhoods)
    scores = steps.calibration.z[near.indices] if near.scores is None else near.scores
    moved = _move(near.padded(scores, 0.0), near.padded(near.weights, 0.0), trust, towards)
    inside = np.arange(moved.shape[1]) < np.diff(near.indptr)[:, np.newaxis]
    return Steps(replace(near, scores=moved[inside]), steps.calibration, conservative=steps.conservative)


def fade_equal_steps(law: EqualSteps, trust: FloatArray) -> Steps:
    """Return the same of scores that all rows share, with the weights of their points."""
    rows, n, weights, size = len(trust), law.size, law.calibration.weights, law.calibration.effective_size
    near = Neighborhoods(
        np.arange(rows + 1, dtype=np.int64) * n,
        np.tile(np.arange(n, dtype=np.int32), rows),
        np.full(rows * n, np.nan),
        np.full(rows * n, 1 / n) if weights is None else np.tile(weights.relative / n, rows),
        np.full(rows, np.inf),
        np.full(rows, size),
        np.full(rows, 1 / size),
        np.arange(rows),
    )
    return fade_steps(Steps(near, law.calibration, conservative=law.conservative), trust, None)


def _one_each(near: Neighborhoods) -> Neighborhoods:
    """Return neighbourhoods of which every row has its own, also of those that several shared."""
    lengths = np.diff(near.indptr)[near.which]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    entries = np.arange(indptr[-1]) + np.repeat(near.indptr[near.which] - indptr[:-1], lengths)
    return replace(
        near,
        indptr=indptr,
        indices=near.indices[entries],
        distances=near.distances[entries],
        weights=near.weights[entries],
        radius=near.radius[near.which],
        effective_size=near.effective_size[near.which],
        self_weight=near.self_weight[near.which],
        which=np.arange(len(lengths)),
        scores=None if near.scores is None else near.scores[entries],
    )


def _move(scores: FloatArray, weights: FloatArray, trust: FloatArray, towards: CalibrationScores | None) -> FloatArray:
    """Return scores drawn to those of their place in the row; a score without a weight has none, and stays."""
    order = np.argsort(np.where(weights > 0, scores, np.inf), axis=1, kind="stable")
    ordered = np.take_along_axis(weights, order, axis=1)
    below = np.cumsum(ordered, axis=1) - ordered / 2
    above = np.cumsum(ordered[:, ::-1], axis=1)[:, ::-1] - ordered / 2
    counts = ordered > 0
    below, above = np.where(counts, below, 0.5), np.where(counts, above, 0.5)
    level = np.where(below < above, ndtri(below), -ndtri(above))
    place = level if towards is None else steps_of(towards).score_quantiles(below)
    own, moved = np.take_along_axis(scores, order, axis=1), np.empty_like(scores)
    drawn = _draw(own, place, trust[:, np.newaxis], level)
    np.put_along_axis(moved, order, np.where(counts, drawn, own), axis=1)
    return moved


# ---- what the user is told ------------------------------------------------------------------------------------------


def expected_share(false_alarm: float) -> float:
    """Return the share of rows like the calibration set that may fade, for either reason.

    Of a rate below the usual it is that of the usual: few calibration points cannot tell such a rate.
    """
    return (1 + _OF_RANGES) * max(false_alarm, FALSE_ALARM)


def are_far_too_many(faded: int, rows: int, expected: float) -> bool:
    """Tell whether ten rows or more have faded, and more than four times the share that is expected."""
    return faded >= _LEAST_ROWS and faded > _FAR_ABOVE * expected * rows


def warn_of_faded(faded: int, rows: int, expected: float) -> None:
    """Warn where far more rows have faded than rows like the calibration set would."""
    if are_far_too_many(faded, rows, expected):
        warn_user(
            f"{faded} of {rows} new rows ({faded / rows:.0%}) are unlike the calibration set, far from its points or "
            "beyond the range of its columns, and keep their base distribution in part or whole; of rows like it "
            f"{expected:.0%} would at most. Look at the column trust of reliability(); calibrate with rows of that "
            "kind, or leave a column that only grows, such as a date, out of the space",
            OutOfDistributionWarning,
        )
