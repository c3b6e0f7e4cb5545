"""A continuous distribution of scores: the curve through a row's scores, or one for all rows."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal._normal_scores import LEVEL_TOLERANCE, log_tails_from_z
from nearcal._saved import number, require, savable, saved_array, saved_value
from nearcal.distributions import Distribution
from nearcal.distributions.interpolation import Interpolated, add_up, power_of_two
from nearcal.distributions.quantile_series import quantile_values
from nearcal.recalibration._few_nodes import few_nodes

_NEGLIGIBLE = 1e-6  # the share of the outermost node in a sum that has come to its end
_ROUND_TRIP = 1e-9  # relatively more than a score can change on its way to a response and back


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
        """Return the greatest scores of y, put on the right side of the curve's atoms.

        The score of an atom's own response may come back from it rounded down, and would miss the atom. So near an
        atom the responses decide: y has passed it if it is not below the response of the atom, as that is computed.
        """
        if not base.is_continuous:
            z = _greatest_scores(base, y, z)
        atoms = self._atoms
        if atoms.shape[1] == 0:
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
            log_density = self._ask(self.line.logpdf, z) + base._log_slope(y, z)
        return np.where(inside, log_density, -np.inf)

    def moments(self, base: Distribution) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation: a mean that does not exist is NaN, a standard deviation infinite.

        They are exact where quantiles of the base are pieces of straight lines, steps or exponentials on the scale of
        scores (Normal, Quantiles, Samples, LogNormal). Else the quantile function is integrated: for smooth families to
        1e-9 of the spread. Jumps and kinks other than at the median, which mixtures and recalibrated bases may have,
        cost up to 5e-3 of the spread, 4e-2 where atoms make up most of a distribution. Nodes end at scores of 38: a
        moment that what lies beyond decides, with a probability of 1e-316, is treated as one that does not exist.
        """
        exact = base._moments_at(self.line.repeated(len(base)) if self.is_shared else self.line)
        if exact is not None:
            return exact
        loc, scale, shapes = base._standard_shapes()
        scores, weights = self.rule
        values = quantile_values(shapes, np.broadcast_to(scores, (len(base), scores.shape[1])))
        center = self.values(shapes, np.zeros((len(base), 1)))  # moments about a central value keep their digits
        with np.errstate(invalid="ignore"):  # where even central values overflow
            offset, deviation, is_cut = _quadrature_moments(values - center, weights)
        with np.errstate(over="ignore"):
            mean, std = loc + scale * (center[:, 0] + offset), scale * deviation
        powers = self.tail_powers(base).min(axis=1)
        exists = (powers > 2) & ~is_cut[1] & np.isfinite(center[:, 0])  # a median may overflow
        return np.where((powers > 1) & ~is_cut[0], mean, np.nan), np.where(exists, std, np.inf)

    def has_moment(self, base: Distribution, order: int) -> NDArray[np.bool_]:
        """Tell which rows have E |Y|^order."""
        return self.tail_powers(base).min(axis=1) > order

    def tail_powers(self, base: Distribution) -> FloatArray:
        """Return the powers of the tails of Y; see ``Distribution._tail_powers``.

        A tail of power a has log P(|Y| > y) = -a log y, at a score of z²/2 = a log y. Scores stretched by s are beyond
        z with log-probability -z²/2s²: the power is a/s².
        """
        slopes = np.concatenate([self.line.slope_below, self.line.slope_above], axis=1)
        with np.errstate(over="ignore", invalid="ignore"):  # no number, and so no moment, where a slope is infinite
            return base._tail_powers() / slopes**2

    @cached_property
    def rule(self) -> tuple[FloatArray, FloatArray]:
        """Scores and weights with E g(Z) = Σ weight · g(score) for smooth g; (1, q) where all rows share one curve."""
        if self.is_shared:
            return few_nodes(self.line)
        median = self.line.z(np.zeros((len(self.line.values), 1)))  # of the base, where some densities have a cusp
        return self.line.rule(median)


def _greatest_scores(base: Distribution, y: FloatArray, z: FloatArray) -> FloatArray:
    """Return the scores z of y under a base with atoms, raised to the last that the base maps to y or below.

    Quantile functions of atoms allow for rounding of levels, and the scores of calibration points may all stand where
    one atom ends, give or take an ulp: a score of y rounded down would miss them, and with them a jump.
    """
    raised = z + 0.5 * LEVEL_TOLERANCE / np.maximum(np.abs(z), 1.0)
    return np.where(base._from_z(raised) <= y, raised, z)


def _quadrature_moments(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Return mean and standard deviation of increasing values, and whether each sum is cut off too early, (2, n)."""
    is_finite = np.isfinite(values)
    ends = np.stack([is_finite.argmax(axis=1), values.shape[1] - 1 - is_finite[:, ::-1].argmax(axis=1)], axis=1)
    values = np.where(is_finite, values, 0.0)
    unit = power_of_two(np.abs(values).max(axis=1))[:, np.newaxis]
    values = values / unit
    mean = add_up(weights * values)
    deviation = values - mean[:, np.newaxis]
    variance = np.maximum(add_up(weights * deviation * deviation), 0.0)
    # sums that have come to their end have nothing to speak of in their outermost terms
    outermost = np.abs(np.take_along_axis(values, ends, axis=1))
    weight = np.abs(np.take_along_axis(np.broadcast_to(weights, values.shape), ends, axis=1))
    terms = np.stack([(weight * outermost).max(axis=1), (weight * outermost * outermost).max(axis=1)])
    whole = np.stack([add_up(np.abs(weights * values)), variance])
    return unit[:, 0] * mean, unit[:, 0] * np.sqrt(variance), terms > _NEGLIGIBLE * whole
