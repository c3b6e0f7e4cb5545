"""Families of predictive distributions as a program sees them: parameters in, quantiles and moments out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import gammainccinv, gammaincinv, ndtr, ndtri

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidParameterError
from nearcal.compiled.network import LEVEL_SCORES
from nearcal.distributions import Distribution, Gamma, LogNormal, Normal, Quantiles, Samples
from nearcal.distributions.interpolation import Interpolated

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)  # that quantiles are exported at unless others are asked for
_NODES = len(LEVEL_SCORES)
_GRID = np.linspace(-14.0, 14.0, 281)  # scores at which moments are integrated


class BaseFamily(ABC):
    """A family: what a caller must feed in, and how quantiles follow from scores.

    ``inputs`` are names of parameters and their number of columns.
    """

    inputs: Mapping[str, int]

    @abstractmethod
    def quantiles(self, ops: Any, inputs: Mapping[str, Any], z: Any) -> Any:
        """Return quantiles at levels Φ(z), for z of shape (n, w)."""

    @abstractmethod
    def parameters(self, dist: Any) -> dict[str, FloatArray]:
        """Return the parameters of distributions as inputs of shape (n, columns)."""

    def moments(self, ops: Any, inputs: Mapping[str, Any], law: Any) -> tuple[Any, Any]:
        """Return mean and standard deviation, (n, 1), given the law of scores; the quantile function is integrated."""
        weights = np.exp(-(_GRID**2) / 2)
        weights = (weights / weights.sum())[:, np.newaxis]
        values = self.quantiles(ops, inputs, law.at(_GRID))
        center = ops.columns(values, len(_GRID) // 2, len(_GRID) // 2 + 1)
        moved = values - center  # moments about a central value keep their digits
        mean = moved @ ops.constant(weights)
        square = (moved * moved) @ ops.constant(weights)
        return center + mean, ops.sqrt(ops.clip(square - mean * mean, ops.constant(0.0), ops.constant(1e300)))


@dataclass(frozen=True)
class NormalBase(BaseFamily):
    """Normal(loc, scale)."""

    inputs = {"loc": 1, "scale": 1}  # noqa: RUF012

    def quantiles(self, ops: Any, inputs: Mapping[str, Any], z: Any) -> Any:
        """Return loc + scale · z."""
        return inputs["loc"] + inputs["scale"] * z

    def moments(self, ops: Any, inputs: Mapping[str, Any], law: Any) -> tuple[Any, Any]:
        """Return exact moments of tables: of pieces of straight lines they are sums over nodes, and pairs of them."""
        table = getattr(law, "table", None)
        if table is None:
            return super().moments(ops, inputs, law)
        center = ops.columns(table, _NODES // 2, _NODES // 2 + 1)
        from_center = np.zeros(_NODES + 2)
        from_center[:_NODES] = 1.0
        moved = table - center * ops.constant(from_center[np.newaxis])
        first, second = _normal_forms()
        mean = moved @ ops.constant(first[:, np.newaxis])
        square = ops.total((moved @ ops.constant(second)) * moved)
        spread = ops.sqrt(ops.clip(square - mean * mean, ops.constant(0.0), ops.constant(1e300)))
        return inputs["loc"] + inputs["scale"] * (center + mean), inputs["scale"] * spread

    def parameters(self, dist: Any) -> dict[str, FloatArray]:
        """Return loc and scale."""
        return {"loc": _column(dist.loc, dist), "scale": _column(dist.scale, dist)}


@dataclass(frozen=True)
class LogNormalBase(BaseFamily):
    """LogNormal(mu, sigma): exp of a Normal."""

    inputs = {"mu": 1, "sigma": 1}  # noqa: RUF012

    def quantiles(self, ops: Any, inputs: Mapping[str, Any], z: Any) -> Any:
        """Return exp(mu + sigma · z)."""
        return ops.exp(inputs["mu"] + inputs["sigma"] * z)

    def parameters(self, dist: Any) -> dict[str, FloatArray]:
        """Return mu and sigma."""
        return {"mu": _column(dist.mu, dist), "sigma": _column(dist.sigma, dist)}


@dataclass(frozen=True)
class GammaBase(BaseFamily):
    """Gamma(shape, scale), by a polynomial in the logarithm of the shape and the score.

    √a log(q / a) of the quantile q of Gamma(a, 1) is smooth in both. For shapes from 0.3 to 1e5 and scores up to 12 it
    is off by less than 2e-5 of a score; beyond, the nearest shape and score stand for the row's own.
    """

    inputs = {"shape": 1, "scale": 1}  # noqa: RUF012

    def quantiles(self, ops: Any, inputs: Mapping[str, Any], z: Any) -> Any:
        """Return scale · a · exp(g / √a)."""
        shape = inputs["shape"]
        kept = ops.clip(shape, ops.constant(_SHAPES[0]), ops.constant(_SHAPES[1]))
        low, high = np.log(_SHAPES)
        u = (ops.log(kept) * ops.constant(2.0) - ops.constant(low + high)) / ops.constant(high - low)
        v = ops.clip(z / ops.constant(_REACH), ops.constant(-1.0), ops.constant(1.0))
        coefficients = _gamma_coefficients()
        of_shape = _powers(ops, u, coefficients.shape[0])
        rows = ops.concat(of_shape) @ ops.constant(coefficients)
        total, terms = None, _powers(ops, v, coefficients.shape[1])
        for place, term in enumerate(terms):
            part = ops.columns(rows, place, place + 1) * term
            total = part if total is None else total + part
        return inputs["scale"] * kept * ops.exp(total / ops.sqrt(kept))

    def parameters(self, dist: Any) -> dict[str, FloatArray]:
        """Return shape and scale."""
        return {"shape": _column(dist.shape, dist), "scale": _column(dist.scale, dist)}


_SHAPES, _REACH = (0.3, 1e5), 12.0
_DEGREES = (35, 60)


def _powers(ops: Any, x: Any, count: int) -> list[Any]:
    """Return Chebyshev polynomials of x, from the constant one on."""
    terms = [x * ops.constant(0.0) + ops.constant(1.0), x]
    while len(terms) < count:
        terms.append(x * terms[-1] * ops.constant(2.0) - terms[-2])
    return terms[:count]


def _gamma_coefficients() -> FloatArray:
    """Return the coefficients of the Chebyshev series of √a log(q / a), by log a and by the score."""
    points = [np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1)) for degree in _DEGREES]
    low, high = np.log(_SHAPES)
    a = np.exp(low + (points[0][:, np.newaxis] + 1) / 2 * (high - low))
    z = _REACH * points[1]
    q = np.where(z < 0, gammaincinv(a, ndtr(z)), gammainccinv(a, ndtr(-z)))
    values = np.sqrt(a) * np.log(q / a)
    by_shape = np.linalg.solve(chebyshev.chebvander(points[0], _DEGREES[0]), values)
    return np.asarray(np.linalg.solve(chebyshev.chebvander(points[1], _DEGREES[1]), by_shape.T).T, dtype=np.float64)


@dataclass(frozen=True)
class QuantileBase(BaseFamily):
    """Quantiles at given levels: straight lines between them on the scale of scores, and Normal tails."""

    levels: tuple[float, ...]

    @property
    def inputs(self) -> Mapping[str, int]:  # type: ignore[override]
        """One column a level, in increasing order of levels."""
        return {"values": len(self.levels)}

    def quantiles(self, ops: Any, inputs: Mapping[str, Any], z: Any) -> Any:
        """Read the curve through sorted quantiles at scores."""
        values = ops.sort(inputs["values"], len(self.levels))
        return _read_curve(ops, ndtri(np.array(self.levels)), values, z, 1.0)

    def parameters(self, dist: Any) -> dict[str, FloatArray]:
        """Return the quantiles."""
        return {"values": dist.values}


@dataclass(frozen=True)
class SampleBase(BaseFamily):
    """Equally weighted draws, such as those of Monte-Carlo dropout: the curve through some of them."""

    draws: int

    @property
    def inputs(self) -> Mapping[str, int]:  # type: ignore[override]
        """One column a draw, in any order."""
        return {"draws": self.draws}

    def quantiles(self, ops: Any, inputs: Mapping[str, Any], z: Any) -> Any:
        """Sort the draws, and read the curve at scores."""
        scores, chosen, skewness = self._knots()
        ordered = ops.sort(inputs["draws"], self.draws)
        picked = np.zeros((self.draws, len(chosen)))
        picked[chosen, np.arange(len(chosen))] = 1.0
        return _read_curve(ops, scores, ordered @ ops.constant(picked), z, skewness)

    def _knots(self) -> tuple[FloatArray, Any, float]:
        """Return scores and places of the draws that are knots, and by how much tails may differ."""
        ranks = np.arange(self.draws, dtype=np.float64)[np.newaxis]
        line = Samples(ranks).curve
        assert isinstance(line, Interpolated)
        scores, places = np.broadcast_to(line.scores, line.values.shape)[0], line.values[0].astype(np.intp)
        different = np.concatenate([[True], np.diff(scores) > 0])
        whole = (ranks[0, -1] - ranks[0, 0]) / (scores[-1] - scores[0])
        skewed = Samples(ranks**2).curve  # of which the tails differ
        assert isinstance(skewed, Interpolated)
        free = Interpolated(skewed.scores, skewed.values, normal_tails=True)
        whole = (skewed.values[0, -1] - skewed.values[0, 0]) / (scores[-1] - scores[0])
        share = (skewed.slope_above.item() - whole) / (free.slope_above.item() - whole)
        return scores[different], places[different], float(share)

    def parameters(self, dist: Any) -> dict[str, FloatArray]:
        """Return the draws."""
        return {"draws": dist.draws}


def _read_curve(ops: Any, scores: FloatArray, values: Any, z: Any, skewness: float) -> Any:
    """Return the value at z of straight lines between knots, and beyond them, as :class:`Interpolated` has it."""
    count, center = len(scores), (scores[0] + scores[-1]) / 2
    zero, one = ops.constant(0.0), ops.constant(1.0)
    right = int(np.clip(np.searchsorted(scores, center, side="right"), 1, count - 1))
    share = (center - scores[right - 1]) / (scores[right] - scores[right - 1])
    first, last = ops.columns(values, 0, 1), ops.columns(values, count - 1, count)
    middle = ops.columns(values, right - 1, right) * ops.constant(1 - share)
    middle = middle + ops.columns(values, right, right + 1) * ops.constant(share)
    whole = (last - first) / ops.constant(scores[-1] - scores[0])
    whole = ops.where(whole > zero, whole, whole * zero + one)
    slopes = []
    for rise, run in ((middle - first, center - scores[0]), (last - middle, scores[-1] - center)):
        slope = rise / ops.constant(run)
        slope = ops.where(slope > zero, slope, whole)
        slopes.append(whole + (slope - whole) * ops.constant(skewness))
    low, high = ops.constant(scores[0]), ops.constant(scores[-1])
    total = first + (ops.clip(z, ops.constant(-1e300), low) - low) * slopes[0]
    total = total + (ops.clip(z, high, ops.constant(1e300)) - high) * slopes[1]
    for place in range(count - 1):
        length = scores[place + 1] - scores[place]
        way = ops.clip((z - ops.constant(scores[place])) / ops.constant(length), zero, one)
        rise = ops.columns(values, place + 1, place + 2) - ops.columns(values, place, place + 1)
        total = total + rise * way
    return total


def _normal_forms() -> tuple[FloatArray, FloatArray]:
    """Return the vector and the matrix by which the first two moments of a table with tails follow from its entries."""
    from nearcal.compiled.program import reading

    edges = np.concatenate([[-np.inf], LEVEL_SCORES, [np.inf]])
    first, second = np.zeros(_NODES + 2), np.zeros((_NODES + 2, _NODES + 2))
    density = np.exp(-(np.where(np.isfinite(edges), edges, 0.0) ** 2) / 2) / np.sqrt(2 * np.pi)
    density[[0, -1]] = 0.0
    for left, right, at, to in zip(edges[:-1], edges[1:], density[:-1], density[1:], strict=True):
        mass = ndtr(right) - ndtr(left) if right <= 0 else ndtr(-left) - ndtr(-right)
        ends = [0.0 if np.isinf(edge) else edge * height for edge, height in ((left, at), (right, to))]
        powers = mass, at - to, mass + ends[0] - ends[1]
        # the line of this piece, a + b s, as combinations of the entries
        if np.isinf(left):
            scores = np.array([right - 2.0, right - 1.0])
        else:
            scores = np.array([left + 1.0, left + 2.0] if np.isinf(right) else [left, right])
        two = reading(scores)
        slope = (two[:, 1] - two[:, 0]) / (scores[1] - scores[0])
        level = two[:, 0] - slope * scores[0]
        first += level * powers[0] + slope * powers[1]
        second += np.outer(level, level) * powers[0] + np.outer(slope, slope) * powers[2]
        second += (np.outer(level, slope) + np.outer(slope, level)) * powers[1]
    return first, second


def _column(values: Any, dist: Distribution) -> FloatArray:
    return np.broadcast_to(np.asarray(values, dtype=np.float64), (len(dist),))[:, np.newaxis]


def family_of(dist: Distribution) -> BaseFamily:
    """Return the family of some distributions."""
    if isinstance(dist, Quantiles) and dist.tails == "normal":
        return QuantileBase(tuple(float(level) for level in dist.levels))
    if isinstance(dist, Samples) and dist.tails == "normal" and np.ptp(np.asarray(dist.weights)) == 0:
        return SampleBase(dist.draws.shape[1])
    for kind, family in ((LogNormal, LogNormalBase), (Normal, NormalBase), (Gamma, GammaBase)):
        if type(dist) is kind:
            return family()
    raise InvalidParameterError(
        "base must be Normal, LogNormal, Gamma, Quantiles or Samples (with Normal tails and equal weights) to be "
        f"exported, got {dist!r}; describe your predictions by nc.Quantiles(levels, dist.ppf(levels)), and calibrate "
        "those"
    )
