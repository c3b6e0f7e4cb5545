"""Finite mixtures, such as the output of a mixture density network."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, IntArray, as_float_array, require_finite
from nearcal._errors import InvalidInputError
from nearcal._normal_scores import LEVEL_TOLERANCE, log_normal_density, log_tails_from_z, z_from_log_tails
from nearcal.distributions._inversion import invert_increasing
from nearcal.distributions.base import Distribution
from nearcal.distributions.interpolation import power_of_two


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
    The quantile has no formula; it is searched between the smallest and the largest quantile of the components until
    it is settled: the score there is that of the level to rounding, or the next smaller number does not reach it.

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

    def _log_mix(self, log_values: Iterable[FloatArray]) -> FloatArray:
        terms = []
        for weight, values in zip(self.weights.T, log_values, strict=True):
            is_used = weight > 0  # what has no weight may well be infinite
            log_weight = np.log(np.where(is_used, weight, 1.0))[:, np.newaxis]
            terms.append(np.where(is_used[:, np.newaxis], log_weight + values, -np.inf))
        top = np.max(terms, axis=0)
        shift = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            mixed = shift + np.log(_add_in_turn([np.exp(np.minimum(term - shift, 0.0)) for term in terms]))
        return np.where(np.isposinf(top), np.inf, mixed)

    def _logcdf(self, y: FloatArray) -> FloatArray:
        return self._log_tails(y)[0]

    def _logsf(self, y: FloatArray) -> FloatArray:
        return self._log_tails(y)[1]

    def _z(self, y: FloatArray) -> FloatArray:
        if any(part.is_continuous for part in self.components):
            return self._unbounded_z(y)
        # components that may end in an atom hold their scores finite there
        tails = [log_tails_from_z(part._z(y)) for part in self.components]
        return z_from_log_tails(*self._mixed_tails([lower for lower, _ in tails], [upper for _, upper in tails]))

    def _unbounded_z(self, y: FloatArray) -> FloatArray:
        return z_from_log_tails(*self._log_tails(y))

    def _resolution(self) -> FloatArray:
        # that of all draws together, each of weight w_c times its own
        return _add_in_turn([self.weights[:, c] ** 2 * part._resolution() for c, part in enumerate(self.components)])

    def _log_tails(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        lower = [component._logcdf(y) for component in self.components]
        return self._mixed_tails(lower, [component._logsf(y) for component in self.components])

    def _mixed_tails(self, lower: list[FloatArray], upper: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return log-cdf and log-sf, the heavier from the lighter: weights sum to 1 only up to rounding."""
        below, above = self._log_mix(lower), self._log_mix(upper)
        light = np.minimum(below, above)
        heavy = np.log1p(-np.exp(np.minimum(light, -np.log(2.0))))
        return np.where(below <= above, below, heavy), np.where(below <= above, heavy, above)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return self._log_mix(component._logpdf(y) for component in self.components)

    def _from_z(self, z: FloatArray) -> FloatArray:
        z = np.broadcast_to(z, (len(self), z.shape[1]))
        used = (self.weights.T > 0)[:, :, np.newaxis]
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
        if not self.is_continuous:  # sums of weights round: an atom that all but reaches the level has reached it
            z = z - LEVEL_TOLERANCE / np.maximum(np.abs(z), 1.0)

        def score(y: FloatArray, which: IntArray) -> tuple[FloatArray, FloatArray]:
            part = batch._rows(which) if len(which) < len(batch) else batch
            column = y[:, np.newaxis]
            value = part._unbounded_z(column)[:, 0]
            with np.errstate(invalid="ignore"):  # beyond the support; no slope is asked for there
                log_slope = part._logpdf(column)[:, 0] - log_normal_density(value)
            return value, np.exp(np.minimum(log_slope, 700.0))

        return invert_increasing(score, z, low / 2 + high / 2, low, high)

    def mean(self) -> FloatArray:
        """Return Σ w_c mean_c."""
        means = [np.where(self.weights[:, c] > 0, part.mean(), 0.0) for c, part in enumerate(self.components)]
        return self._mix(means)

    def std(self) -> FloatArray:
        """Return the root of Σ w_c (std_c² + (mean_c - mean)²)."""
        mean = self.mean()
        with np.errstate(over="ignore", invalid="ignore"):  # components without a mean
            own = [np.hypot(part.std(), part.mean() - mean) for part in self.components]
        distances = [np.where(weight > 0, distance, 0.0) for weight, distance in zip(self.weights.T, own, strict=True)]
        unit = power_of_two(np.max(distances, axis=0))  # so that squares neither overflow nor underflow
        with np.errstate(over="ignore"):  # beside one that is infinite
            return unit * np.sqrt(self._mix([(distance / unit) ** 2 for distance in distances]))

    def _mix(self, values: list[FloatArray]) -> FloatArray:
        """Return Σ w_c value_c."""
        return _add_in_turn([self.weights[:, c] * own for c, own in enumerate(values)])

    def _tail_powers(self) -> FloatArray:
        powers = [part._tail_powers() for part in self.components]
        return np.min(np.where((self.weights.T > 0)[:, :, np.newaxis], powers, np.inf), axis=0)


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
