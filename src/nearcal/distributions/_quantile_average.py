"""Averages of distributions by their quantiles, known as Vincentisation."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.special import ndtr

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import InvalidInputError
from nearcal.distributions._mixture import normalise_weights
from nearcal.distributions._quantiles import Quantiles
from nearcal.distributions.base import Distribution, overflow_is_infinite

#: The normal scores at which quantiles are averaged: of steps of a fifth, a sum over them is a CRPS to a thousandth.
SCORES: FloatArray = np.arange(-20, 21) / 5


class QuantileAverage(Quantiles):
    """Averages of several distributions, quantile by quantile.

    Parameters
    ----------
    weights : array_like
        Weights of the average, (c,) for all rows or (n, c); not negative, normalised to sum 1 in every row.
    components : sequence of Distribution
        The c distributions that are averaged, each a batch of n rows.

    Attributes
    ----------
    weights : ndarray of shape (n, c)
    components : tuple of Distribution

    Notes
    -----
    The quantile of row j at the level p is Σ_c w_jc Q_jc(p), taken at 41 levels, Φ(-4), Φ(-3.8), …, Φ(4), with
    :class:`Quantiles` in between and beyond. Averages of Normal distributions are Normal, with the averages of their
    means and standard deviations. A mixture of the same distributions (:class:`Mixture`) is wider, by how much they
    disagree; of calibrated ones it is too wide (Ranjan and Gneiting, 2010, doi:10.1111/j.1467-9868.2009.00726.x;
    Lichtendahl, Grushka-Cockayne and Winkler, 2013, doi:10.1287/mnsc.1120.1667).

    Examples
    --------
    >>> import nearcal as nc
    >>> average = nc.QuantileAverage([0.5, 0.5], [nc.Normal(0.0, 1.0), nc.Normal(2.0, 3.0)])
    >>> average.mean().round(6), average.std().round(6)
    (array([1.]), array([2.]))
    """

    weights: FloatArray
    components: tuple[Distribution, ...]

    def __init__(self, weights: Any, components: Sequence[Distribution]) -> None:
        components = () if isinstance(components, Distribution) else tuple(components)
        if not components or not all(isinstance(component, Distribution) for component in components):
            raise InvalidInputError("components must be a non-empty sequence of nearcal distributions")
        lengths = {len(component) for component in components}
        if len(lengths) > 1:
            raise InvalidInputError(f"components must have the same number of rows, got {sorted(lengths)}")
        shares = normalise_weights(weights, lengths.pop(), len(components), "components")
        with overflow_is_infinite():
            values = average_rows(shares, [quantile_table(component) for component in components])
        super().__init__(ndtr(SCORES), values)
        self._store(weights=shares, components=components)

    @property
    def _values_per_row(self) -> int:
        return len(SCORES) + sum(component._values_per_row for component in self.components)

    def _rows(self, rows: IntArray) -> Self:
        components = tuple(component._rows(rows) for component in self.components)
        return self._with(
            values=self.values[rows], curve=self.curve.take(rows), weights=self.weights[rows], components=components
        )


def quantile_table(dist: Distribution) -> FloatArray:
    """Return the quantiles of every row at the levels Φ(-4) to Φ(4), shape (n, 41)."""
    return dist._from_z(np.broadcast_to(SCORES, (len(dist), len(SCORES))))


def average_rows(weights: FloatArray, tables: Sequence[FloatArray]) -> FloatArray:
    """Return Σ_c w_jc times row j of table c, added up in turn; a table without a weight may hold anything."""
    total = np.zeros(tables[0].shape)
    for weight, table in zip(weights.T, tables, strict=True):
        total = total + weight[:, np.newaxis] * np.where(weight[:, np.newaxis] > 0, table, 0.0)
    return total
