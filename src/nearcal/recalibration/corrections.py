"""Corrections: what is done about neighbourhoods being wider than a point, and small.

A correction is given to :class:`nearcal.LocalRecalibrator` as it is (``nc.LocalLinear()``), and ``fit`` makes it learn
what it needs. Learnt, it does one of three things: it moves the scores of neighbours before they are read, row by row;
it bends what they are read as, for all rows alike; or, last (:mod:`nearcal.recalibration.fade`), it says how far the
result of each row is to be trusted.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import ndtr, ndtri

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import InvalidParameterError
from nearcal._growing import GrowingRows
from nearcal._sample_weights import average, effective_size
from nearcal._saved import check_fields, flag, instance, number, savable, saved_array
from nearcal.distributions.interpolation import Interpolated
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.neighborhoods import Neighborhoods
from nearcal.recalibration.row_drift import latest_rows
from nearcal.space import MOST_AXES, View

if TYPE_CHECKING:
    from nearcal.recalibration.leave_one_out import LeaveOneOut


class Correction(ABC):
    """What a user asks for."""

    comes_first = False  # whether it wants scores as they are
    needs_continuous_rule = False  # whether it bends a curve, so that there must be one
    comes_last = False  # whether it says how far what all others have made of a row is trusted

    def check(self) -> None:  # noqa: B027, most have nothing to check
        """Validate the parameters."""

    @abstractmethod
    def learn(self, left_out: "LeaveOneOut", view: View) -> "LearntCorrection | None":
        """Learn from calibration points, each among the others, for new rows in ``view``; None if there is nothing."""


class LearntCorrection:
    """What ``fit`` has learnt; a correction overrides ``move`` or ``bend``."""

    moves_scores = False
    is_continuous = True  # whether no atoms are made
    more_knots = 0  # that a curve has afterwards

    def move(
        self, near: Neighborhoods, scores: FloatArray, points: FloatArray, own: IntArray | None = None
    ) -> FloatArray:
        """Return the scores of neighbours, one a pair, moved for the rows at ``points``.

        Where these are calibration points among the others, ``own`` are their numbers.
        """
        return scores

    def bend(self, curve: Curve) -> Curve:
        """Return a curve of scores as it should have been."""
        return curve

    def seen_in(self, view: View, neighbors: int, calibration: CalibrationScores) -> "LearntCorrection":
        """Return the same for another view of the calibration points, in which rows have so many neighbours."""
        return self

    def extended(self, points: FloatArray) -> Self:
        """Return the same, with calibration points more, which nothing is learnt from."""
        return self

    def restricted(self, rows: IntArray) -> Self:
        """Return the same for some of the calibration points, given their numbers in increasing order."""
        return self


def moves_scores(corrections: tuple[LearntCorrection, ...]) -> bool:
    """Tell whether a correction moves the scores of neighbours."""
    return any(correction.moves_scores for correction in corrections)


def correct(
    near: Neighborhoods,
    points: FloatArray,
    z: FloatArray,
    corrections: tuple[LearntCorrection, ...],
    own: IntArray | None = None,
) -> Neighborhoods:
    """Return the neighbourhoods of rows at some points with the scores of neighbours as corrections move them."""
    for correction in corrections:
        if correction.moves_scores:
            scores = z[near.indices] if near.scores is None else near.scores
            near = replace(near, scores=correction.move(near, scores, points, own))
    return near


def bend(curve: Curve, corrections: tuple[LearntCorrection, ...]) -> Curve:
    """Return a curve as corrections common to all rows bend it."""
    for correction in corrections:
        curve = correction.bend(curve)
    return curve


# ---- local-linear ---------------------------------------------------------------------------------------------------

_RIDGE = 1e-3  # of the mean variance of positions in a neighbourhood
_NEIGHBORS_PER_SLOPE = 5
LEAST_NEIGHBORS = 2 * _NEIGHBORS_PER_SLOPE  # for a mean and one slope
_MOST_DIMENSIONS = MOST_AXES  # a query costs k d² for d dimensions


@savable
@dataclass(frozen=True)
class LocalLinear(Correction):
    """Let neighbours answer for where the row is, not for where they are.

    In the neighbourhood of a row at x, the scores z_i are regressed on positions x_i by least squares with weights w_i
    and a ridge of a thousandth of the mean variance of positions. With z̄ and x̄ the weighted means and b the slope,
    neighbours then have the scores

        z̄ + s b·(x - x̄) + c_i (z_i - z̄ - s b·(x_i - x̄)).

    - s = max(0, 1 - σ² Σ w_i l_i / explained) is James and Stein's factor: the sum of squares that position explains,
      against what it would explain by chance. l_i = w_i (x_i - x̄)ᵀ(G + λI)⁻¹(x_i - x̄) is the leverage that a point has
      beyond its weight, G the weighted covariance of positions, σ² the residual sum of squares over
      1 - Σ w_i² - Σ w_i l_i. Where s is 0 the row is left as it is.
    - s fades with the leverage of the row: where h = (x - x̄)ᵀ(G + λI)⁻¹(x - x̄) is more than twice the largest such
      number H of the neighbours that count, s is 2H / h of what it would be.
    - b·(x - x̄) is kept between the least and the greatest of b·(x_i - x̄): the regression is not extrapolated.
    - c_i = (1 - w_i) / (1 - w_i - s l_i), at most 3, turns residuals into what they would be without point i in the
      regression, so that intervals do not shrink.

    A neighbourhood of k points affords k / 5 - 1 slopes. A space of more dimensions, or of more than 20, is reduced to
    its widest principal components for the regression, or to mixtures of all directions where it is whitened and none
    is wider; with fewer than 10 neighbours nothing is adjusted. Use it where the model is misspecified and its errors
    drift across neighbourhoods; a good network leaves little to adjust.

    References
    ----------
    M. A. Beaumont, W. Zhang and D. J. Balding, *Approximate Bayesian Computation in Population Genetics*, Genetics
    162:2025-2035, 2002, doi:10.1093/genetics/162.4.2025.
    """

    def learn(self, left_out: "LeaveOneOut", view: View) -> "LearntLinear | None":
        """Prepare calibration positions; None if neighbourhoods are too small for a slope."""
        affordable = left_out.neighborhood.least // _NEIGHBORS_PER_SLOPE - 1
        dimensions = min(affordable, _MOST_DIMENSIONS, view.points.shape[1])
        return LearntLinear.of(view, dimensions) if dimensions >= 1 else None


@savable
class LearntLinear(LearntCorrection):
    """Calibration positions to regress scores on.

    Parameters
    ----------
    center : ndarray of shape (d,)
    axes : ndarray of shape (d, m)
        Turn and scale a position, less the center, into what it is regressed on.
    places : ndarray of shape (n, m)
        The calibration points there.
    """

    moves_scores = True

    def __init__(self, center: FloatArray, axes: FloatArray, places: FloatArray) -> None:
        self.center, self.axes = center, axes
        self._hold(GrowingRows(np.ascontiguousarray(places)))

    def _hold(self, rows: GrowingRows) -> None:
        self._rows, self.places = rows, rows.array.view()
        self.places.flags.writeable = False  # as if loaded: kernels are compiled for one kind of array

    @classmethod
    def of(cls, view: View, dimensions: int) -> Self:
        """Learn the positions of points for so many slopes."""
        center = view.learnt_from.mean(axis=0)
        moved = view.points - center
        width = view.points.shape[1]
        axes = view.leading_axes[:, :dimensions] if dimensions < width else np.eye(width)
        # squares must neither overflow nor vanish; what is smaller is the rounding of the mean
        axes = axes / max(np.abs(moved).max(), 1e-300)
        return cls(center, axes, _place(view.points, center, axes))

    def seen_in(self, view: View, neighbors: int, calibration: CalibrationScores) -> LearntCorrection:
        """Return as many slopes for other positions of the calibration points, or as many as the neighbours afford."""
        dimensions = min(self.axes.shape[1], neighbors // _NEIGHBORS_PER_SLOPE - 1)
        return type(self).of(view, dimensions) if dimensions >= 1 else LearntCorrection()

    def move(
        self, near: Neighborhoods, scores: FloatArray, points: FloatArray, own: IntArray | None = None
    ) -> FloatArray:
        """Regress and move, neighbourhood by neighbourhood."""
        from nearcal.kernels import adjust

        queries = np.ascontiguousarray(_place(points, self.center, self.axes))
        least = _NEIGHBORS_PER_SLOPE * (self.axes.shape[1] + 1)
        return adjust.adjust_linear(
            near.indptr, near.indices, near.weights, self.places, queries, near.owners(), scores, least, _RIDGE,
            adjust.make_workroom(near.indptr, self.places.shape[1]),
        )  # fmt: skip

    def extended(self, points: FloatArray) -> Self:
        """Return the same center and axes, with calibration points more."""
        return self._with(self._rows.extended(_place(points, self.center, self.axes)))

    def restricted(self, rows: IntArray) -> Self:
        """Return the same center and axes for some of the calibration points."""
        return self._with(self._rows.kept(rows))

    def _with(self, rows: GrowingRows) -> Self:
        other = type(self)(self.center, self.axes, rows.array)
        other._hold(rows)
        return other

    def _to_saved(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("center", "axes", "places")}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        center = saved_array(saved, "center", np.float64, (None,))
        axes = saved_array(saved, "axes", np.float64, (len(center), None))
        return cls(center, axes, saved_array(saved, "places", np.float64, (None, axes.shape[1])))


def _place(points: FloatArray, center: FloatArray, axes: FloatArray) -> FloatArray:
    """Return what points are regressed on."""
    # einsum, not BLAS: a row's result must not depend on the rows beside it
    return np.einsum("nd,dm->nm", points - center, axes)


# ---- shrinkage ------------------------------------------------------------------------------------------------------

_MOST_SHRUNK = 2000  # points whose neighbourhoods tell how much true ones vary


@savable
@dataclass(frozen=True)
class Shrinkage(Correction):
    """Blend what few neighbours say with what all say, and that with what the model says, by evidence.

    Of a neighbourhood of effective size n whose scores have mean m and variance v, the mean is drawn to the mean M of
    all scores by 1 - τ² / (τ² + v / n), and log √v to that of all scores by 1 - ω² / (ω² + 1 / (2n)): the
    empirical-Bayes rule, since m has the variance v / n and log √v about 1 / (2n). τ² and ω² are the variances of true
    local means and log-spreads: what those of calibration points, each among the others, vary more than chance would
    make them. M and the spread of all scores are drawn to 0 and 1, where the model is right, likewise. It steadies
    small neighbourhoods of a model that is nearly right, and takes a little from those of a model that is badly wrong.
    """

    def learn(self, left_out: "LeaveOneOut", view: View) -> "LearntShrinkage":
        """Learn from all scores, and from the neighbourhoods of some calibration points among the others."""
        z, weights = left_out.calibration.z, left_out.calibration.weights
        moments = np.full((len(z), 3), np.nan)
        if len(z) > 1:
            some = np.sort(np.random.default_rng(0).permutation(len(z))[:_MOST_SHRUNK])
            left_out.gather(
                lambda steps, rows: np.stack([*steps.score_moments(), steps.effective_size()], axis=1), moments, some
            )
        known = ~np.isnan(moments).any(axis=1)
        mean, variance, size = moments[known].T
        share = None if weights is None else weights.relative[known]
        variance = _unbiased(variance, size)
        center, log_spread = _overall(left_out.calibration)
        if len(mean) < 2:
            return LearntShrinkage(center, log_spread, np.inf, np.inf)
        varies = variance > 0
        log_spreads = 0.5 * np.log(variance[varies])
        return LearntShrinkage(
            center,
            log_spread,
            _excess((mean - center) ** 2, variance / np.maximum(size, 1.0), share),
            _excess(
                (log_spreads - log_spread) ** 2,
                0.5 / np.maximum(size[varies], 1.0),
                None if share is None else share[varies],
            )
            if varies.any()
            else np.inf,
        )


@savable(
    mean=number(),
    log_spread=number(),
    mean_variance=number(0.0, finite=False),
    log_spread_variance=number(0.0, finite=False),
)
@dataclass(frozen=True)
class LearntShrinkage(LearntCorrection):
    """Where local means and log-spreads are drawn to, and the variances of the true ones around it."""

    mean: float
    log_spread: float
    mean_variance: float
    log_spread_variance: float

    moves_scores = True

    def move(
        self, near: Neighborhoods, scores: FloatArray, points: FloatArray, own: IntArray | None = None
    ) -> FloatArray:
        """Move and stretch the scores of each neighbourhood."""
        from nearcal.kernels import summary

        pairs = np.arange(len(scores), dtype=np.int32)
        mean, variance = summary.weighted_moments(near.indptr, pairs, near.weights, scores)
        size = near.effective_size
        variance = _unbiased(variance, size)
        trust = _trust(self.mean_variance, variance / np.maximum(size, 1.0))
        center = self.mean + trust * (mean - self.mean)
        distrust = 1 - _trust(self.log_spread_variance, 0.5 / np.maximum(size, 1.0))
        log_spread = 0.5 * np.log(np.where(variance > 0, variance, np.exp(2 * self.log_spread)))
        stretch = np.exp(distrust * (self.log_spread - log_spread))
        # all points together, a thin row's stand-in, are no neighbourhood
        local = np.isfinite(near.radius)
        center, stretch = np.where(local, center, mean), np.where(local, stretch, 1.0)
        lengths = np.diff(near.indptr)
        mean, center, stretch = (np.repeat(values, lengths) for values in (mean, center, stretch))
        return center + stretch * (scores - mean)


def _unbiased(variance: FloatArray, size: FloatArray) -> FloatArray:
    """Return variances of weighted samples made up for the mean being their own."""
    return variance * size / np.maximum(size - 1, 1.0)


def _overall(calibration: CalibrationScores) -> tuple[float, float]:
    """Return the mean and log-spread of all scores, drawn towards those of a model that is right."""
    z, weights, n = calibration.z, calibration.weights, calibration.effective_size
    mean = average(z, weights)
    variance = float(z.var()) if weights is None else average((z - mean) ** 2, weights)
    if len(z) < 2 or not variance > 0:
        return mean, 0.0
    log_spread = 0.5 * float(np.log(variance))
    return mean * _share_kept(mean, variance / n), log_spread * _share_kept(log_spread, 0.5 / n)


def _share_kept(estimate: float, error_variance: float) -> float:
    return max(1 - error_variance / estimate**2, 0.0) if estimate else 0.0


def _excess(squares: FloatArray, expected: FloatArray, weights: FloatArray | None) -> float:
    if weights is not None:
        return max(float(np.average(squares - expected, weights=weights)), 0.0)
    return max(float(squares.mean() - expected.mean()), 0.0)


def _trust(variance: float, error_variance: FloatArray) -> FloatArray:
    """Return variance / (variance + error variance); 1 where nothing is uncertain or nothing was learnt."""
    if np.isinf(variance):
        return np.ones_like(error_variance)
    total = variance + error_variance
    return np.divide(variance, total, out=np.ones_like(total), where=total > 0)


# ---- polish ---------------------------------------------------------------------------------------------------------

_KNOTS = 63
_FARTHEST = 1e4  # score of a knot: Φ of it is 0 or 1 many times over, and digits are left for those near 0


@savable(drift=flag)
@dataclass(frozen=True)
class Polish(Correction):
    """Make up, for all rows alike, for what neighbourhoods get wrong on average.

    The errors of the model drift inside a neighbourhood, and few neighbours tell little about tails. How much shows
    where each calibration point falls in the distribution that the others make for it: the i-th of n such scores is
    moved to probability i / (n + 1). Predictions are then as well calibrated overall as after global recalibration. It
    needs a continuous quantile rule, "interpolated" or "predictive". With a radius it is learnt from neighbourhoods
    that are not thin, and applied to all.

    Parameters
    ----------
    drift : bool
        Whether to test such scores for a drift along the rows, of their level or their spread, in order of time where
        ``time`` is given to ``fit``, else as they come. Where there is one, at a rate of false alarms of 1 in 1,000
        (rows that err alike for a while count for fewer), the latest quarter of the rows alone is learnt from, 100 rows
        at least, and a :class:`nearcal.DependenceWarning` tells: new rows come after them.
    """

    drift: bool = False

    needs_continuous_rule = True

    def check(self) -> None:
        """Validate the parameter."""
        if not isinstance(self.drift, bool):
            raise InvalidParameterError(f"drift must be True or False, got {self.drift!r}")

    def learn(self, left_out: "LeaveOneOut", view: View) -> "LearntPolish | None":
        """Learn from the scores of calibration points in the distributions that the others make for them.

        The i-th of n scores is worth s, the score of probability i / (n + 1), equal scores that of their mean rank. But
        it moves by at most ``1 + |s|``: a point that a few close neighbours call impossible must not stretch the
        tails of all. Of many scores, some 63 evenly spaced ones count. Nothing is learnt from fewer than two different
        scores. Where points have weights, a score with the share q of all weight below it, and half of its own, is
        worth the probability (n q + ½) / (n + 1), with n the effective size.
        """
        scores, rows = _left_out_scores(left_out)
        if self.drift:
            by_time = left_out.order[np.isin(left_out.order, rows)]
            latest = latest_rows(scores, np.searchsorted(rows, by_time))
            scores, rows = scores[latest], rows[latest]
        of_points = left_out.calibration.weights
        weights = None if of_points is None else of_points.relative[rows]
        return polish_of(scores, weights)


@savable
class LearntPolish(LearntCorrection):
    """An increasing map of scores: what a score under the recalibrated distribution turned out to be worth.

    Parameters
    ----------
    after, before : ndarray of shape (q,)
        Increasing scores of the knots, as they turned out and as the recalibrated distributions had it.
    """

    def __init__(self, after: FloatArray, before: FloatArray) -> None:
        self.map = Curve.shared(after, before)
        self.is_continuous, self.more_knots = not self.map.line.has_atoms(), len(after)

    def bend(self, curve: Curve) -> Curve:
        """Move all scores to what they turned out to be worth; both are straight between the knots of either."""
        line, rows = curve.line, len(curve.line.values)
        after, before = (np.tile(knots, (rows, 1)) for knots in (self.map.line.scores, self.map.line.values))
        moved = self.map.after(np.broadcast_to(line.scores, line.values.shape))
        # where all left-out scores agree the map is flat, and scores beyond them are worth next to any number
        scores = np.concatenate([np.clip(moved, -_FARTHEST, _FARTHEST), after], axis=1)
        values = np.concatenate([line.values, line.from_z(before)], axis=1)
        # both increase, so that pairs survive sorting
        bent = Interpolated(np.sort(scores, axis=1), np.sort(values, axis=1), normal_tails=True)
        return Curve(bent, is_shared=curve.is_shared)

    def _to_saved(self) -> dict[str, Any]:
        return {"map": self.map}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        line = check_fields(saved, {"map": instance(Curve)})["map"].line
        return cls(line.scores[0], line.values[0])


def polish_of(scores: FloatArray, weights: FloatArray | None) -> "LearntPolish | None":
    """Return the map from scores that points had among others to what these turned out to be worth."""
    different, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    if len(different) < 2:
        return None
    if weights is None:
        worth = ndtri((np.cumsum(counts) - (counts - 1) / 2) / (len(scores) + 1))
    else:
        mass, n = np.bincount(place, weights / weights.sum()), effective_size(weights)
        worth = ndtri((n * (np.cumsum(mass) - mass / 2) + 0.5) / (n + 1))
    if len(worth) > _KNOTS:
        kept = np.unique(np.searchsorted(worth, np.linspace(worth[0], worth[-1], _KNOTS)))
        different, worth = different[kept], worth[kept]
    # s ± (1 + |s|), in a form that rounding leaves increasing
    return LearntPolish(worth, np.clip(different, 2 * np.minimum(worth, 0.0) - 1, 2 * np.maximum(worth, 0.0) + 1))


def _left_out_scores(left_out: "LeaveOneOut") -> tuple[FloatArray, IntArray]:
    """Return the scores of calibration points in the distributions that the others make for them, and which points."""
    z = left_out.calibration.z
    if len(z) < 2:
        return np.empty(0), np.empty(0, dtype=np.intp)
    scores = left_out.gather(lambda steps, rows: _middle_score(left_out.law(steps), z[rows]), np.full(len(z), np.nan))
    known = np.flatnonzero(~np.isnan(scores))
    return scores[known], known


def _middle_score(curve: Curve, z: FloatArray) -> FloatArray:
    """Return the scores of z; in an atom, which equal scores make, that of the middle of its probability."""
    column = z[:, np.newaxis]
    upper, lower = curve.after(column)[:, 0], curve.after(np.nextafter(column, -np.inf))[:, 0]
    is_atom = upper - lower > 1e-9
    below, above = ndtr(lower) / 2 + ndtr(upper) / 2, ndtr(-lower) / 2 + ndtr(-upper) / 2
    return np.where(is_atom, np.where(below < above, ndtri(below), -ndtri(above)), upper)
