"""What the scores Z_j of some rows are distributed like, and what that makes of Y_j = F_j⁻¹(Φ(Z_j)).

There are two kinds: weighted scores as they are (:class:`Steps`), and a continuous curve (:class:`Curve`). Each
statistic of a recalibrated prediction is written here once for either, given the base distributions of the rows.
"""

from collections.abc import Mapping
from typing import Any, Literal, Protocol, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal._normal_scores import LEVEL_TOLERANCE, log_normal_density, log_tails_from_z
from nearcal._saved import check_fields, flag, instance, number, require, savable, saved_array, saved_value
from nearcal.distributions import Distribution, Normal
from nearcal.distributions.interpolation import Interpolated, add_up, sort_weighted, through_draws
from nearcal.distributions.quantile_series import quantile_values
from nearcal.recalibration._few_nodes import few_nodes
from nearcal.recalibration.neighborhoods import Neighborhoods

QuantileRule = Literal["step", "interpolated", "predictive", "conservative"]
QUANTILE_RULES: tuple[QuantileRule, ...] = get_args(QuantileRule)
CONTINUOUS_RULES = ("interpolated", "predictive")

_P_ROUNDING = 1e-9  # more than cdf(ppf(p)) may differ from p
_FAR = 10.0  # scores beyond which tails are tails
_ROUND_TRIP = 1e-9  # relatively more than a score can change on its way to a response and back


class ScoreLaw(Protocol):
    """The distributions of the scores Z_j of a chunk of rows; y, z and p are (rows, q), base has the rows' F_j."""

    def log_tails(self, base: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log P(Y <= y) and log P(Y > y)."""
        ...

    def finite_scores(self, base: Distribution, y: FloatArray) -> FloatArray:
        """Return Φ⁻¹(P(Y <= y)), finite for every y inside the support."""
        ...

    def quantiles(self, base: Distribution, p: FloatArray) -> FloatArray:
        """Return the quantiles of Y at levels p."""
        ...

    def values(self, base: Distribution, z: FloatArray) -> FloatArray:
        """Return the quantiles of Y at levels Φ(z)."""
        ...

    def log_density(self, base: Distribution, y: FloatArray) -> FloatArray:
        """Return the logarithm of d P(Y <= y) / dy."""
        ...

    def moments(self, base: Distribution) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of Y."""
        ...


@savable
class CalibrationScores:
    """The normal scores of the calibration set and their ranks."""

    def __init__(self, z: FloatArray) -> None:
        self.z = z
        order = np.argsort(z, kind="stable")
        self.sorted_z = z[order]
        self.ranks = np.empty(len(z), dtype=np.int32)
        self.ranks[order] = np.arange(len(z), dtype=np.int32)
        self.has_ties = bool((np.diff(self.sorted_z) == 0).any())

    def __len__(self) -> int:
        return len(self.z)

    def _to_saved(self) -> dict[str, Any]:
        return {"z": self.z}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        # a copy, writable as scores are after a fit: kernels are compiled for one kind of array
        return cls(saved_array(saved, "z", np.float64, (None,)).copy())


class Steps:
    """Weighted scores as they are: the weighted empirical distribution of each row's neighbours.

    The neighbours' scores are those of the calibration set or, where corrections have moved them, one a pair of row and
    neighbour. Rows without a neighbourhood get numbers without a meaning.

    Parameters
    ----------
    neighborhoods : Neighborhoods
    calibration : CalibrationScores
    conservative : bool
        Whether the new point itself, with weight K(0), lies beyond every quantile: cumulated weights C become the
        median of ½, C / (1 + v) and (C + v) / (1 + v), with v the point's weight relative to the sum of all others.
        For equal weights the quantile at p is the ⌈(k + 1) p⌉-th smallest value above the median, as in split
        conformal prediction, bounded by the outermost value.
    """

    def __init__(
        self, neighborhoods: Neighborhoods, calibration: CalibrationScores, *, conservative: bool = False
    ) -> None:
        self.conservative = conservative
        self.neighborhoods, self.calibration = neighborhoods, calibration
        if neighborhoods.scores is not None:  # pair by pair they are a calibration set of the chunk alone
            self.calibration = _PairScores(neighborhoods.scores)

    @property
    def _indices(self) -> NDArray[np.int32]:
        nb = self.neighborhoods
        return nb.indices if nb.scores is None else np.arange(len(nb.indices), dtype=np.int32)

    @property
    def _own_weight(self) -> FloatArray:
        """The weight v of the new point beside its neighbours, (rows, 1)."""
        return self.neighborhoods.per_row(self.neighborhoods.self_weight, 0.0)[:, np.newaxis]

    # ---- the weighted sample ----------------------------------------------------------------------------------------

    def weighted_scores(self) -> tuple[FloatArray, FloatArray]:
        """Return scores and weights as (rows, longest) tables; short rows end in copies of a score, of weight zero."""
        nb = self.neighborhoods
        own = self.calibration.z[self._indices]
        scores, weights = nb.padded(own, 0.0)[nb.which], nb.padded(nb.weights, 0.0)[nb.which]
        return np.where(weights > 0, scores, scores[:, :1]), weights

    @cached_property
    def sorted_scores(self) -> tuple[FloatArray, FloatArray]:
        """Scores in increasing order, and their weights; sorted once a neighbourhood, not once a row."""
        nb = self.neighborhoods
        weights = nb.padded(nb.weights, 0.0)
        scores = nb.padded(self.calibration.z[self._indices], 0.0)
        if scores.shape[1] == 1:  # a curve wants two knots: one of weight zero, as if a longer row stood beside
            scores, weights = np.repeat(scores, 2, axis=1), np.pad(weights, ((0, 0), (0, 1)))
        scores, weights = sort_weighted(np.where(weights > 0, scores, scores[:, :1]), weights)
        scores, weights = scores[nb.which], weights[nb.which]
        if self.conservative:
            below = _conservative(np.minimum(np.cumsum(weights, axis=1), 1.0), self._own_weight)
            below[:, -1] = 1.0
            weights = np.diff(below, axis=1, prepend=0.0)
        return scores, weights

    def curve(self, *, predictive: bool) -> "Curve":
        """Return the continuous distribution through these scores; predictive ones cover the next score as well."""
        scores, weights = self.sorted_scores
        alone = self.neighborhoods.which < 0
        if alone.any():  # any proper weights: these rows are replaced
            weights = weights.copy()
            weights[alone, 0] = 1.0
        size = np.maximum(self.effective_size(), 1.0) if predictive else None
        return Curve(through_draws(scores, weights, size))

    def effective_size(self) -> FloatArray:
        """Return 1 / Σ w² of each row; 0 for rows without a neighbourhood."""
        return self.neighborhoods.per_row(self.neighborhoods.effective_size, 0.0)

    def radius(self) -> FloatArray:
        """Return the distance at which the weights vanish; NaN for rows without a neighbourhood."""
        return self.neighborhoods.per_row(self.neighborhoods.radius, np.nan)

    def score_moments(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the scores of each row."""
        from nearcal.kernels import summary

        nb = self.neighborhoods
        mean, variance = summary.weighted_moments(nb.indptr, self._indices, nb.weights, self.calibration.z)
        return nb.per_row(mean, 0.0), nb.per_row(variance, 1.0)

    # ---- statistics -------------------------------------------------------------------------------------------------

    def moments(self, base: Distribution) -> tuple[FloatArray, FloatArray]:
        """Return Σ w y and Σ w (y - mean)² of each row."""
        if isinstance(base, Normal) and not self.conservative:
            mean, variance = self.score_moments()
            return base.loc + base.scale * mean, base.scale**2 * variance
        scores, weights = self.sorted_scores if self.conservative else self.weighted_scores()
        return _sample_moments(quantile_values(base, scores, self.neighborhoods.lengths), weights)

    def quantiles(self, base: Distribution, p: FloatArray) -> FloatArray:
        """Return the least values whose cumulated weight reaches p."""
        return base._from_z(self._score_quantiles(p))

    def values(self, base: Distribution, z: FloatArray) -> FloatArray:
        """Return the quantiles at levels Φ(z)."""
        return self.quantiles(base, ndtr(z))

    def _score_quantiles(self, p: FloatArray) -> FloatArray:
        from nearcal.kernels import quantiles

        nb, levels = self.neighborhoods, np.ascontiguousarray(p)
        if self.conservative:
            own = self._own_weight
            levels = np.where(p < 0.5, p - (1 - p) * own, p * (1 + own))
        if nb.scores is not None:
            return quantiles.weighted_quantiles(nb.indptr, self._indices, nb.weights, nb.scores, nb.which, levels)
        ranks = quantiles.weighted_quantiles(
            nb.indptr, nb.indices, nb.weights, self.calibration.ranks, nb.which, levels
        )
        return self.calibration.sorted_z[ranks]

    def log_tails(self, base: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the logarithms of the weights at or below y and above y."""
        with np.errstate(divide="ignore"):
            below, above = (np.log(tail) for tail in self._tails(base, y))
        return below, above

    def finite_scores(self, base: Distribution, y: FloatArray) -> FloatArray:
        """Return scores that count y at least half an effective draw from the ends."""
        half_draw = (0.5 / np.maximum(self.effective_size(), 1.0))[:, np.newaxis]
        below, above = self._tails(base, y)
        return np.copysign(ndtri(np.maximum(np.minimum(below, above), half_draw)), below - above)

    def log_density(self, base: Distribution, y: FloatArray) -> FloatArray:
        """Return minus infinity: there is no density, and nobody asks; rows left to their base have one."""
        return np.full(y.shape, -np.inf)

    def _tails(self, base: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights at or below y and above y, the heavier as 1 less the lighter: sums of weights round."""
        from nearcal.kernels import summary

        nb = self.neighborhoods
        below, above = summary.weight_below(
            nb.indptr, self._indices, nb.weights, self.calibration.ranks, nb.which, self._count_not_above(base, y)
        )
        below, above = np.where(below > above, 1 - above, below), np.where(below > above, above, 1 - below)
        if self.conservative:
            return _conservative(below, self._own_weight), _conservative(above, self._own_weight)
        return below, above

    def _count_not_above(self, base: Distribution, y: FloatArray) -> IntArray:
        return count_not_above(self.calibration.sorted_z, base, y)


class _PairScores(CalibrationScores):
    """The scores of the neighbours of a chunk, one a pair; put in order, which few statistics ask for, when asked."""

    def __init__(self, z: FloatArray) -> None:
        self.z = z

    @cached_property
    def sorted_z(self) -> FloatArray:
        """The scores in increasing order."""
        return self._ordered.sorted_z

    @cached_property
    def ranks(self) -> NDArray[np.int32]:
        """The place of each score among all."""
        return self._ordered.ranks

    @cached_property
    def _ordered(self) -> CalibrationScores:
        return CalibrationScores(self.z)


@savable
class EqualSteps:
    """All calibration scores, equally weighted, for every row alike; nothing is looked at row by row."""

    def __init__(self, calibration: CalibrationScores, *, conservative: bool = False) -> None:
        self.calibration, self.conservative = calibration, conservative
        self.size = len(calibration)

    def _to_saved(self) -> dict[str, Any]:
        return {"calibration": self.calibration, "conservative": self.conservative}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        return cls(**check_fields(saved, {"calibration": instance(CalibrationScores), "conservative": flag}))

    @cached_property
    def sorted_scores(self) -> tuple[FloatArray, FloatArray]:
        """Scores in increasing order and their weights, (1, n)."""
        below = np.arange(1, self.size + 1) / self.size
        if self.conservative:
            below = _conservative(below, np.full(1, 1 / self.size))
            below[-1] = 1.0
        weights = np.diff(below, prepend=0.0) if self.conservative else np.full(self.size, 1 / self.size)
        return self.calibration.sorted_z[np.newaxis], weights[np.newaxis]

    def curve(self, *, predictive: bool) -> "Curve":
        """Return the continuous distribution through these scores."""
        scores, weights = self.sorted_scores
        if self.size == 1:
            scores, weights = np.repeat(scores, 2, axis=1), np.array([[1.0, 0.0]])
        size = np.full(1, float(self.size)) if predictive else None
        return Curve(through_draws(scores, weights, size), is_shared=True)

    def moments(self, base: Distribution) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the values at all scores."""
        from nearcal.kernels import summary

        scores, weights = self.sorted_scores
        if isinstance(base, Normal):
            mean, variance = (moment[0] for moment in summary.row_moments(scores, weights))
            return base.loc + base.scale * mean, base.scale**2 * variance
        values = quantile_values(base, np.tile(scores, (len(base), 1)))
        return _sample_moments(values, np.tile(weights, (len(base), 1)))

    def quantiles(self, base: Distribution, p: FloatArray) -> FloatArray:
        """Return the least values whose cumulated weight reaches p."""
        levels = p
        if self.conservative:
            levels = np.where(p < 0.5, p - (1 - p) / self.size, p * (1 + 1 / self.size))
        ranks = np.where(levels >= 1, self.size - 1, np.ceil(self.size * (levels - LEVEL_TOLERANCE)) - 1)
        return base._from_z(self.calibration.sorted_z[np.clip(ranks, 0, self.size - 1).astype(np.intp)])

    def values(self, base: Distribution, z: FloatArray) -> FloatArray:
        """Return the quantiles at levels Φ(z)."""
        return self.quantiles(base, ndtr(z))

    def log_tails(self, base: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the logarithms of the shares of values at or below y and above y."""
        with np.errstate(divide="ignore"):
            below, above = (np.log(tail) for tail in self._tails(base, y))
        return below, above

    def finite_scores(self, base: Distribution, y: FloatArray) -> FloatArray:
        """Return scores that count y at least half a draw from the ends."""
        below, above = self._tails(base, y)
        return np.copysign(ndtri(np.maximum(np.minimum(below, above), 0.5 / self.size)), below - above)

    def log_density(self, base: Distribution, y: FloatArray) -> FloatArray:
        """Return minus infinity: there is no density, and nobody asks."""
        return np.full(y.shape, -np.inf)

    def _tails(self, base: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        count = count_not_above(self.calibration.sorted_z, base, y)
        below, above = count / self.size, (self.size - count) / self.size
        if self.conservative:
            own = np.full(1, 1 / self.size)
            return _conservative(below, own), _conservative(above, own)
        return below, above


@savable
class Curve:
    """A continuous distribution of scores: straight lines between knots on the scale of normal scores, Normal tails.

    Parameters
    ----------
    line : Interpolated
        The curves of some rows, or one that stands for all rows alike.
    is_shared : bool
        Whether it is one for all: a batch of one row has one curve too, and must be treated as in any other batch.
    """

    def __init__(self, line: Interpolated, *, is_shared: bool = False) -> None:
        self.line, self.is_shared = line, is_shared

    @classmethod
    def shared(cls, after: FloatArray, before: FloatArray) -> Self:
        """Return the law of all rows whose quantiles at levels Φ(after) are ``before``, (q,) both, increasing."""
        return cls(Interpolated(after[np.newaxis], before[np.newaxis], normal_tails=True), is_shared=True)

    def _to_saved(self) -> dict[str, Any]:
        tails = {"slope_below": self.line.slope_below.item(), "slope_above": self.line.slope_above.item()}
        return {"after": self.line.scores[0], "before": self.line.values[0], **tails}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        after = saved_array(saved, "after", np.float64, (None,))
        before = saved_array(saved, "before", np.float64, after.shape)
        run, rise = np.diff(after), np.diff(before)
        # a knot may stand there several times, but at one score there is one
        increase = len(after) > 1 and (run >= 0).all() and (rise >= 0).all() and not rise[run == 0].any()
        require(increase, "knots must increase")
        curve = cls.shared(after, before)
        for name in ("slope_below", "slope_above"):  # which do not follow from the knots alone
            slope = number(5e-324)(name, saved_value(saved, name))
            setattr(curve.line, name, np.array([[slope]], dtype=np.float64))
        return curve

    def take(self, rows: IntArray) -> "Curve":
        """Return the chosen rows."""
        return self if self.is_shared else Curve(self.line.take(rows))

    def after(self, z: FloatArray) -> FloatArray:
        """Return Φ⁻¹(P(Z <= z)): recalibrated scores of base scores."""
        return self._ask(self.line.z, z)

    def before(self, z: FloatArray) -> FloatArray:
        """Return the quantiles of Z at levels Φ(z): base scores of recalibrated scores."""
        return self._ask(self.line.from_z, z)

    def _ask(self, function: Any, z: FloatArray) -> FloatArray:
        # one row of knots: arrays of scores are passed through it as one long row
        return function(z.reshape(1, -1)).reshape(z.shape) if self.is_shared else function(z)

    def quantiles(self, base: Distribution, p: FloatArray) -> FloatArray:
        """Return the quantiles of Y."""
        return self.values(base, ndtri(p))

    def values(self, base: Distribution, z: FloatArray) -> FloatArray:
        """Return the quantiles at levels Φ(z)."""
        return base._from_z(self.before(z))

    def log_tails(self, base: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log P(Y <= y) and log P(Y > y)."""
        lower, upper = log_tails_from_z(self.after(self._settled(base, y, base._unbounded_z(y))))
        return lower, upper

    def finite_scores(self, base: Distribution, y: FloatArray) -> FloatArray:
        """Return Φ⁻¹(P(Y <= y))."""
        return self.after(self._settled(base, y, base._z(y)))

    def _settled(self, base: Distribution, y: FloatArray, z: FloatArray) -> FloatArray:
        """Return the scores z of y, put on the right side of the curve's atoms.

        The score of an atom's own response may come back from it rounded down, and would miss the atom. So near an
        atom the responses decide: y has passed it if it is not below the response of the atom, as that is computed.
        """
        atoms = self._atoms
        if atoms.shape[1] == 0 or not base.is_continuous:  # atoms of the base have no one score that could be missed
            return z
        atoms = np.broadcast_to(atoms, (len(z), atoms.shape[1]))
        with np.errstate(invalid="ignore"):  # infinite scores, of what is beyond a base's last atom, are close to none
            place = np.abs(atoms[:, np.newaxis, :] - z[:, :, np.newaxis]).argmin(axis=2)
            nearest = np.take_along_axis(atoms, place, axis=1)
            is_close = np.abs(nearest - z) <= _ROUND_TRIP * np.where(np.isfinite(z), np.maximum(np.abs(z), 1.0), 0.0)
        has_passed = base._from_z(nearest) <= y
        settled = np.where(has_passed, np.maximum(z, nearest), np.minimum(z, np.nextafter(nearest, -np.inf)))
        return np.where(is_close, settled, z)

    @cached_property
    def _atoms(self) -> FloatArray:
        """The scores that hold probability, (rows, most atoms of a row); short rows are filled up with infinity."""
        values, scores = self.line.values, np.broadcast_to(self.line.scores, self.line.values.shape)
        is_atom = (np.diff(values, axis=1) == 0) & (np.diff(scores, axis=1) > 0)
        most = int(is_atom.sum(axis=1).max(initial=0))
        atoms = np.full((len(values), most), np.inf)
        rows, columns = np.nonzero(is_atom)
        starts = np.concatenate([[0], np.cumsum(is_atom.sum(axis=1))])
        atoms[rows, np.arange(len(rows)) - starts[rows]] = values[rows, columns]
        return atoms

    def log_density(self, base: Distribution, y: FloatArray) -> FloatArray:
        """Return the logarithm of the density of Z at the score of y, times dz/dy of the base."""
        z = base._z(y)
        inside = np.isfinite(z)
        z = np.where(inside, z, 0.0)
        with np.errstate(invalid="ignore"):
            log_density = self._ask(self.line.logpdf, z) + base._logpdf(y) - log_normal_density(z)
        return np.where(inside, log_density, -np.inf)

    def moments(self, base: Distribution) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance: exact for Normal distributions, else by quadrature of the quantile function.

        Where the base has no finite moment neither has the result, nor where stretched scores make heavy tails too
        heavy: a mean that does not exist is NaN, a variance infinite.
        """
        if isinstance(base, Normal):
            mean, variance = self.line.moments()
            return base.loc + base.scale * mean, base.scale**2 * variance
        scores, weights = self.rule
        values = quantile_values(base, np.broadcast_to(scores, (len(base), scores.shape[1])))
        center = self.values(base, np.zeros((len(base), 1)))  # moments about a central value keep their digits
        # where a quantile overflows a distribution with a mean has no weight left
        with np.errstate(over="ignore", invalid="ignore"):  # where there is no mean or no variance
            values = np.where(np.isfinite(values), values - center, 0.0)
            mean = add_up(weights * values)
            deviation = values - mean[:, np.newaxis]
            # a square alone would overflow far out in tails that have a variance
            variance = np.maximum(add_up(weights * deviation * deviation), 0.0)
        variance = np.where(np.isnan(variance), np.inf, variance)
        mean = np.where(np.isfinite(base.mean()) & self.has_moment(base, 1), center[:, 0] + mean, np.nan)
        return mean, np.where(np.isfinite(base.var()) & self.has_moment(base, 2), variance, np.inf)

    def has_moment(self, base: Distribution, order: int) -> NDArray[np.bool_]:
        """Tell which rows have E |Y|^order: whether p |F⁻¹(p)|^order falls on its way into both tails."""
        size = self._log_moment_tails(base, order)
        # values that overflow so near are too large for a mean, whatever becomes of their weight
        return ~((size[:, 0] > size[:, 1]) | (size[:, 3] > size[:, 2]) | np.isposinf(size).any(axis=1))

    def _log_moment_tails(self, base: Distribution, order: int) -> FloatArray:
        """Return log(p |F⁻¹(p)|^order) far out on either side: at scores of -20, -10, 10 and 20, (rows, 4)."""
        t = np.tile([-2 * _FAR, -_FAR, _FAR, 2 * _FAR], (len(base), 1))
        with np.errstate(divide="ignore"):
            return log_ndtr(-np.abs(t)) + order * np.log(np.abs(self.values(base, t)))

    @cached_property
    def rule(self) -> tuple[FloatArray, FloatArray]:
        """Scores and weights with E g(Z) = Σ weight · g(score) for smooth g; (1, q) where all rows share one curve."""
        return few_nodes(self.line) if self.is_shared else self.line.rule()


def _sample_moments(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of weighted values; the latter infinite where a value overflows."""
    from nearcal.kernels import summary

    mean, variance = summary.row_moments(values, weights)
    return mean, np.where(np.isfinite(mean), variance, np.inf)


def count_not_above(sorted_z: FloatArray, base: Distribution, y: FloatArray) -> IntArray:
    """Count the scores whose values F⁻¹(Φ(z)), as they are computed, are at most y, for y of shape (rows, q).

    The score of y is rounded, so it only brackets the count; inside the bracket the values themselves decide.
    """
    z_below, z_above = (
        base._unbounded_z(np.where(np.isfinite(y), np.nextafter(y, towards), y)) for towards in (-np.inf, np.inf)
    )
    low = np.searchsorted(sorted_z, ndtri(np.maximum(ndtr(z_below) - _P_ROUNDING, 0)))
    high = np.searchsorted(sorted_z, -ndtri(np.maximum(ndtr(-z_above) - _P_ROUNDING, 0)), side="right")
    while (low < high).any():
        rows = np.flatnonzero((low < high).any(axis=1))
        lo, hi = low[rows], high[rows]
        middle = (lo + hi) // 2
        is_in = base[rows]._from_z(sorted_z[np.minimum(middle, len(sorted_z) - 1)]) <= y[rows]
        low[rows] = np.where((lo < hi) & is_in, middle + 1, lo)
        high[rows] = np.where((lo < hi) & ~is_in, middle, hi)
    return low


def _conservative(below: FloatArray, own: FloatArray) -> FloatArray:
    """Return cumulated weights as if the new point, of weight ``own``, lay beyond each; 0 and 1 stay."""
    moved = np.clip(0.5, below / (1 + own), (below + own) / (1 + own))
    return np.where(below <= 0, 0.0, np.where(below >= 1, 1.0, moved))
