"""Finite mixtures, such as the output of a mixture density network."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, IntArray, as_float_array, require_finite
from nearcal._errors import InvalidInputError
from nearcal._normal_scores import log_normal_density, z_from_log_tails
from nearcal.distributions._inversion import invert_increasing
from nearcal.distributions.base import Distribution


class Mixture(Distribution):
    """Mixtures of distributions, of one family or of several.

    Parameters
    ----------
    weights : array_like
        Mixing weights, (c,) for all rows or (n, c); not negative, normalised to sum 1 in every row.
    components : sequence of Distribution
        The c components, each a batch of n rows.

    Notes
    -----
    The quantile has no formula; it is found between the smallest and the largest quantile of the components, on
    the scale of normal scores, to the last few digits.

    Examples
    --------
    >>> import nearcal as nc
    >>> two = nc.Mixture([0.5, 0.5], [nc.Normal(-1.0, 0.1), nc.Normal(1.0, 0.1)])
    >>> two.mean(), two.ppf(0.25)
    (array([0.]), array([-1.]))
    """

    _quantiles_are_costly = True
    weights: FloatArray
    components: tuple[Distribution, ...]

    def __init__(self, weights: Any, components: Sequence[Distribution]) -> None:
        components = (
            () if isinstance(components, Distribution) else tuple(components)
        )  # a batch's rows are no components
        if not components or not all(isinstance(component, Distribution) for component in components):
            raise InvalidInputError("components must be a non-empty sequence of nearcal distributions")
        lengths = {len(component) for component in components}
        if len(lengths) > 1:
            raise InvalidInputError(f"components must have the same number of rows, got {sorted(lengths)}")
        self._store(
            weights=normalise_weights(weights, lengths.pop(), len(components), "components"), components=components
        )
        # a component with atoms gives the mixture its atoms
        self._store(is_continuous=all(component.is_continuous for component in components))
        self._store(has_density=any(component.has_density for component in components))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.weights)

    @property
    def _values_per_row(self) -> int:
        return sum(part._values_per_row for part in self.components)

    def _rows(self, rows: IntArray) -> Self:
        return self._with(weights=self.weights[rows], components=tuple(part._rows(rows) for part in self.components))

    def _log_mix(self, log_values: list[FloatArray]) -> FloatArray:
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)
        terms = [log_weights[:, [c]] + values for c, values in enumerate(log_values)]
        top = np.max(terms, axis=0)
        top = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            return top + np.log(_add_in_turn([np.exp(term - top) for term in terms]))

    def _logcdf(self, y: FloatArray) -> FloatArray:
        return self._log_tails(y)[0]

    def _logsf(self, y: FloatArray) -> FloatArray:
        return self._log_tails(y)[1]

    def _z(self, y: FloatArray) -> FloatArray:
        return z_from_log_tails(*self._log_tails(y))

    def _log_tails(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log-cdf and log-sf, the heavier from the lighter: weights sum to 1 only up to rounding."""
        lower = self._log_mix([component._logcdf(y) for component in self.components])
        upper = self._log_mix([component._logsf(y) for component in self.components])
        light = np.minimum(lower, upper)
        heavy = np.log1p(-np.exp(np.minimum(light, -np.log(2.0))))
        return np.where(lower <= upper, lower, heavy), np.where(lower <= upper, heavy, upper)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return self._log_mix([component._logpdf(y) for component in self.components])

    def _from_z(self, z: FloatArray) -> FloatArray:
        z = np.broadcast_to(z, (len(self), z.shape[1]))
        used = np.array([self.weights[:, c] > 0 for c in range(len(self.components))])[:, :, np.newaxis]
        values = np.array([component._from_z(z) for component in self.components])
        lower = np.min(np.where(used, values, np.inf), axis=0)
        upper = np.max(np.where(used, values, -np.inf), axis=0)
        result = np.where(z < 0, lower, upper)
        rows, columns = np.nonzero((lower < upper) & np.isfinite(z))
        if len(rows):
            low, high = lower[rows, columns], upper[rows, columns]
            result[rows, columns] = self._invert(rows, z[rows, columns], low, high)
        return result

    def _invert(self, rows: IntArray, z: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        batch = self._rows(rows)

        def score(y: FloatArray, which: IntArray) -> tuple[FloatArray, FloatArray]:
            part = batch._rows(which) if len(which) < len(batch) else batch
            column = y[:, np.newaxis]
            value = part._z(column)[:, 0]
            log_slope = part._logpdf(column)[:, 0] - log_normal_density(value)
            return value, np.exp(np.minimum(log_slope, 700.0))

        return invert_increasing(score, z, low / 2 + high / 2, low, high)

    def mean(self) -> FloatArray:
        """Return Σ w_c mean_c."""
        return _add_in_turn([self.weights[:, c] * part.mean() for c, part in enumerate(self.components)])

    def var(self) -> FloatArray:
        """Return Σ w_c (var_c + (mean_c - mean)²)."""
        mean = self.mean()
        return _add_in_turn(
            [self.weights[:, c] * (part.var() + (part.mean() - mean) ** 2) for c, part in enumerate(self.components)]
        )


def _add_in_turn(terms: list[FloatArray]) -> FloatArray:
    """Return the sum of arrays, one after the other: along an axis numpy's order depends on the number of rows."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def normalise_weights(weights: Any, n: int, c: int, what: str) -> FloatArray:
    """Validate weights of shape (c,) or (n, c) and make every row sum to 1; returns (n, c)."""
    array = as_float_array(weights, "weights")
    if array.shape not in ((c,), (n, c)):
        raise InvalidInputError(f"weights must have shape ({c},) or ({n}, {c}) for {c} {what}, got {array.shape}")
    require_finite(array, "weights")
    array = np.broadcast_to(array, (n, c))
    total = array.sum(axis=1)
    if (array < 0).any() or not (total > 0).all():
        row = int(np.argmax((array < 0).any(axis=1) | ~(total > 0)))
        raise InvalidInputError(f"weights must be >= 0 with a positive sum in every row, got {array[row]} in row {row}")
    return array / total[:, np.newaxis]
