"""Predictions given as quantiles, the output of quantile regression."""

from typing import Any, Literal, Self

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray, IntArray, as_columns, as_float_array, check_choice, require_finite
from nearcal._errors import InvalidInputError
from nearcal.distributions.base import Distribution
from nearcal.distributions.interpolation import Interpolated

Tails = Literal["normal", "empirical"]
_BLOCK = 2**19  # knots looked at together, to bound memory
TAILS: tuple[Tails, ...] = ("normal", "empirical")


class CurveDistribution(Distribution):
    """A batch known by knots: its ``curve`` holds every statistic."""

    _tails_are_light = True
    curve: Any  # Interpolated, or steps with the same methods

    def _logcdf(self, y: FloatArray) -> FloatArray:
        return self.curve.log_tails(y)[0]

    def _logsf(self, y: FloatArray) -> FloatArray:
        return self.curve.log_tails(y)[1]

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return self.curve.logpdf(y)

    def _z(self, y: FloatArray) -> FloatArray:
        return self.curve.bounded_z(y)

    def _unbounded_z(self, y: FloatArray) -> FloatArray:
        return self.curve.z(y)

    def _log_slope(self, y: FloatArray, z: FloatArray) -> FloatArray:
        return self.curve.log_slope(y)

    def _from_z(self, z: FloatArray) -> FloatArray:
        return self.curve.from_z(z)

    def mean(self) -> FloatArray:
        """Return the mean of the distribution that the knots make."""
        return self.curve.moments()[0]

    def std(self) -> FloatArray:
        """Return the standard deviation of the distribution that the knots make."""
        return self.curve.moments()[1]

    def _moments_at(self, scores: Interpolated) -> tuple[FloatArray, FloatArray]:
        mean, std = np.empty(len(self)), np.empty(len(self))
        block = max(_BLOCK // (self._values_per_row + scores.values.shape[1]), 1)
        for start in range(0, len(self), block):
            rows = np.arange(start, min(start + block, len(self)))
            mean[rows], std[rows] = self.curve.take(rows).at_scores_of(scores.take(rows)).moments()
        return mean, std


class Quantiles(CurveDistribution):
    """Distributions given by their quantiles at some levels.

    Parameters
    ----------
    levels : array_like of shape (q,)
        Probabilities strictly between 0 and 1, at least two, in any order, no two equal.
    values : array_like of shape (n, q)
        Column j holds the quantiles at ``levels[j]``. Crossing quantiles are repaired by sorting each row
        (the rearrangement of Chernozhukov, Fernández-Val and Galichon, 2010, doi:10.3982/ECTA7880).
    tails : {"normal", "empirical"}
        What lies beyond the outermost levels. "normal" continues each row as a Normal tail, with the slope of the
        line from its middle to its outermost quantile on the scale of normal scores: an observation far outside
        has a finite score, so recalibration can widen the prediction. "empirical" puts the remaining probability
        on the outermost quantiles, and counts half of it as beyond an observation that lies outside.

    Notes
    -----
    Between two levels the quantile is linear in the normal score Φ⁻¹(p): quantiles of a Normal distribution give
    that distribution back. Equal neighbouring quantiles are an atom.

    Examples
    --------
    >>> import nearcal as nc
    >>> d = nc.Quantiles([0.1, 0.5, 0.9], [[-1.0, 0.0, 3.0]])
    >>> d.ppf([0.5, 0.9, 0.99]).round(2)
    array([[0.  , 3.  , 5.45]])
    """

    levels: FloatArray
    values: FloatArray
    tails: Tails
    curve: Interpolated

    def __init__(self, levels: Any, values: Any, tails: Tails = "normal") -> None:
        check_choice(tails, TAILS, "tails")
        levels = _check_levels(levels)
        values = as_columns(values, "values")
        if values.shape[1] != len(levels):
            raise InvalidInputError(
                f"values must have one column a level, shape (n, {len(levels)}), got {values.shape}"
            )
        order = np.argsort(levels)
        levels, values = levels[order], np.sort(values[:, order], axis=1)
        if tails == "normal":
            require_spread(values, "values")
        curve = Interpolated(ndtri(levels)[np.newaxis], values, normal_tails=tails == "normal")
        _require_slopes(curve, levels)
        self._store(levels=levels, values=values, tails=tails, curve=curve)
        # conservative: a row with two equal quantiles has an atom
        self._store(is_continuous=tails == "normal" and not curve.has_atoms())

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.values)

    @property
    def _values_per_row(self) -> int:
        return self.values.shape[1]

    def _rows(self, rows: IntArray) -> Self:
        return self._with(values=self.values[rows], curve=self.curve.take(rows))


def _check_levels(levels: Any) -> FloatArray:
    array = as_float_array(levels, "levels")
    if array.ndim != 1 or len(array) < 2:
        raise InvalidInputError(f"levels must have shape (q,) with q >= 2, got {array.shape}")
    require_finite(array, "levels")
    if not ((array > 0) & (array < 1)).all():
        raise InvalidInputError(f"levels must lie strictly between 0 and 1, got {array}; give 95% as 0.95")
    if len(np.unique(array)) < len(array):
        raise InvalidInputError(f"levels must differ from each other, got {array}")
    return array


def _require_slopes(curve: Interpolated, levels: FloatArray) -> None:
    """Refuse tails too steep for a number: huge values at levels that differ in their last digit."""
    is_finite = np.isfinite(curve.slope_below) & np.isfinite(curve.slope_above)
    if not is_finite.all():
        row = int(np.argmin(is_finite))
        raise InvalidInputError(
            f"levels must be farther apart for quantiles that differ so much, got levels {levels} and in row {row} "
            f"values {curve.values[row]}; change the unit of the response or leave out close levels"
        )


def require_spread(values: FloatArray, name: str) -> None:
    """Refuse rows whose sorted values are all equal: a Normal tail has no scale there."""
    constant = values[:, 0] == values[:, -1]
    if constant.any():
        row = int(np.argmax(constant))
        raise InvalidInputError(
            f'{name} must have at least two different values in every row for tails="normal", got '
            f"{int(constant.sum())} constant rows, the first row {row}: {float(values[row, 0])!r}; "
            'use tails="empirical" or drop those rows'
        )
