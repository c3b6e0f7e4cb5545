"""Where a new score may fall beside n exchangeable ones: order statistics, with the probability each end has.

A new point's score is as likely to fall into any of the n + 1 gaps between the sorted scores of n points that are
exchangeable with it. That is all that conformal prediction uses; ties only make it more cautious.
"""

from typing import Any

import numpy as np
from scipy.special import betainc, betaincinv, ndtr, ndtri

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal._normal_scores import LEVEL_TOLERANCE
from nearcal.recalibration.curve import Curve

_MOST_SQUARED = 25.0  # standard errors, squared, that one score counts for


class Masses:
    """The probabilities of n sorted scores, and of the new point beside them: weights a_i and b over their sum.

    Parameters
    ----------
    weights : ndarray of shape (n,)
        Weights a_i in the order of the scores, of mean 1.
    new_weight : float
        The weight b of the new point.
    """

    def __init__(self, weights: FloatArray, new_weight: float) -> None:
        total = len(weights) + new_weight
        self.new = new_weight / total
        #: the probability of the first i scores, and of the last i, i = 0, …, n
        self.first = np.concatenate([[0.0], np.cumsum(weights)]) / total
        self.last = np.concatenate([[0.0], np.cumsum(weights[::-1])]) / total
        self.effective_size = float(weights.sum() ** 2 / (weights @ weights))

    def middles(self) -> tuple[FloatArray, FloatArray]:
        """Return the probability below and above each score, of which half of its own and half of the new point's."""
        low = (self.first[:-1] + self.first[1:] + self.new) / 2
        high = (self.last[:-1] + self.last[1:] + self.new) / 2
        return low, high[::-1]

    def ranks(self, p: Any) -> tuple[Any, Any]:
        """Return the greatest rank with 1 - p at and above it and the least with p at and below it; 0, …, n + 1."""
        from_above = np.searchsorted(self.last, 1 - p - LEVEL_TOLERANCE)
        return len(self.last) - from_above, np.searchsorted(self.first, p - LEVEL_TOLERANCE)


class OrderStatistics:
    """Sorted scores of n points, of which each, and the new one, is as likely to be anywhere in their order.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        In increasing order.
    masses : Masses, optional
        Their probabilities, where these differ.
    """

    def __init__(self, scores: FloatArray, masses: Masses | None = None) -> None:
        self.scores, self.masses = scores, masses

    def __len__(self) -> int:
        return len(self.scores)

    def quantile_bounds(self, p: Any) -> tuple[FloatArray, FloatArray]:
        """Return scores (lower, upper) with P(Z < lower) <= p and P(Z <= upper) >= p, in the shape of p."""
        if self.masses is not None:
            low, high = self.masses.ranks(p)
        else:
            size = len(self) + 1
            low, high = np.floor(size * (p + LEVEL_TOLERANCE)), np.ceil(size * (p - LEVEL_TOLERANCE))
        return self.at(low), self.at(high)

    def central(self, coverage: Any) -> tuple[FloatArray, FloatArray]:
        """Return scores (lower, upper) between which Z lies with probability in [c, c + 1/(n + 1)).

        They hold ⌈(n + 1) c⌉ of the n + 1 gaps between them, and leave out as many on either side; of an odd number
        the one in the middle above. With masses both ends are those of :meth:`quantile_bounds`.
        """
        if self.masses is not None:
            return self.quantile_bounds(0.5 - coverage / 2)[0], self.quantile_bounds(0.5 + coverage / 2)[1]
        return self._between(np.ceil((len(self) + 1) * (coverage - LEVEL_TOLERANCE)))

    def _between(self, gaps: Any) -> tuple[FloatArray, FloatArray]:
        below = np.floor((len(self) + 1 - gaps) / 2)
        return self.at(below), self.at(np.where(gaps > len(self), len(self) + 1, below + gaps))

    def at(self, ranks: Any) -> FloatArray:
        """Return the scores of some ranks; those of ranks 0 and n + 1 are infinite."""
        padded = np.concatenate([[-np.inf], self.scores, [np.inf]])
        return padded[np.clip(ranks, 0, len(padded) - 1).astype(np.intp)]

    def cdf_bounds(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the edges of P(Z <= z): with all gaps at z below it, and with all above."""
        below, upto = (np.searchsorted(self.scores, z, side=side) for side in ("left", "right"))
        return self._edge(below, 0), self._edge(upto, 1)

    def _edge(self, count: IntArray, more: int) -> FloatArray:
        if self.masses is None:
            return (count + more) / (len(self) + 1)
        return np.minimum(self.masses.first[count] + more * self.masses.new, 1.0)

    @cached_property
    def law(self) -> Curve:
        """One distribution between the edges: i/(n + 1) at the i-th score, straight lines on the scale of scores.

        Of fewer than two different scores nothing can be drawn: it is the standard Normal then.
        """
        if len(self) < 2 or self.scores[0] == self.scores[-1]:
            return IDENTITY
        if self.masses is None:
            rank = np.arange(1, len(self) + 1)
            low, high = rank / (len(self) + 1), rank[::-1] / (len(self) + 1)
        else:
            low, high = self.masses.middles()
        # ranks are inverted from their nearer end, so that the map is symmetric
        return Curve.shared(np.where(low < high, ndtri(low), -ndtri(high)), self.scores)

    @cached_property
    def thin_law(self) -> Curve:
        """The same through about ∛n of the scores, steadied: the shape is the recalibrator's, and noise is no shape."""
        after, before = self.law.line.scores[0], self.law.line.values[0]
        if not before[0] < before[-1] or self.law is IDENTITY:
            return self.law
        places = few_places(after)
        size = len(self) if self.masses is None else self.masses.effective_size
        return Curve.shared(after[places], steadied(after[places], before[places], size))

    @property
    def has_atoms(self) -> bool:
        """Whether that holds probability at single scores."""
        return self.thin_law.line.has_atoms()


class ConfidentOrderStatistics(OrderStatistics):
    """Sorted scores of n independent points: order statistics that hold enough for all but few sets of such points.

    The share of new points between two of them that are r gaps apart has the distribution Beta(r, n + 1 - r) over sets
    of n points (Vovk, 2012): r is the least for which that falls short of the coverage with probability at most delta.
    With ties it holds more.
    """

    def __init__(self, scores: FloatArray, delta: float) -> None:
        super().__init__(scores)
        self.delta = delta

    def quantile_bounds(self, p: Any) -> tuple[FloatArray, FloatArray]:
        """Return scores of which each is beyond the quantile, outward, but for a share delta of sets."""
        levels = np.asarray(p, dtype=np.float64)
        return self.at(len(self) + 1 - self._gaps(1 - levels)), self.at(self._gaps(levels))

    def central(self, coverage: Any) -> tuple[FloatArray, FloatArray]:
        """Return scores between which at least the coverage lies, but for a share delta of sets."""
        return self._between(self._gaps(np.asarray(coverage, dtype=np.float64)))

    def _gaps(self, coverage: FloatArray) -> IntArray:
        return gaps_needed(len(self), coverage, self.delta)

    def cdf_bounds(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the limits of P(Z <= z) at one z, each exceeded with probability delta / 2: Clopper and Pearson's."""
        n, below, upto = len(self), *(np.searchsorted(self.scores, z, side=side) for side in ("left", "right"))
        with np.errstate(invalid="ignore"):
            low = np.where(below > 0, betaincinv(np.maximum(below, 1), n - below + 1, self.delta / 2), 0.0)
            high = np.where(upto < n, betaincinv(upto + 1, np.maximum(n - upto, 1), 1 - self.delta / 2), 1.0)
        return low, high


class WidestOf(OrderStatistics):
    """The widest of several bounds, one a group that a row belongs to: what holds of each of them holds of it."""

    def __init__(self, parts: list[OrderStatistics]) -> None:
        largest = max(parts, key=len)
        super().__init__(largest.scores)
        self.parts = parts

    def quantile_bounds(self, p: Any) -> tuple[FloatArray, FloatArray]:
        """Return the outermost."""
        return _outermost([part.quantile_bounds(p) for part in self.parts])

    def central(self, coverage: Any) -> tuple[FloatArray, FloatArray]:
        """Return the outermost."""
        return _outermost([part.central(coverage) for part in self.parts])

    def cdf_bounds(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the outermost."""
        return _outermost([part.cdf_bounds(z) for part in self.parts])


def _outermost(bounds: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    lows, highs = zip(*bounds, strict=True)
    return np.minimum.reduce(lows), np.maximum.reduce(highs)


def steadied(after: FloatArray, before: FloatArray, size: float) -> FloatArray:
    """Return scores that should have been ``after``, drawn towards it as far as so few points could be off by chance.

    Differences count in standard errors of quantiles of ``size`` points, and are shortened by James and Stein's factor:
    none is left of those that chance explains. A single one counts for 5 standard errors at most.
    """
    level = ndtr(after)
    variance = level * (1 - level) * 2 * np.pi * np.exp(after**2) / size
    squares = (before - after) ** 2 / variance
    kept = 1 - 1 / max(float(np.minimum(squares, _MOST_SQUARED).mean()), 1.0)
    return after + kept * (before - after)


def few_places(after: FloatArray) -> IntArray:
    """Return about ∛n places among n increasing scores, both ends included, evenly spaced by score."""
    wanted = np.linspace(after[0], after[-1], 2 + round(np.cbrt(len(after))))
    return np.unique(np.searchsorted(after, wanted).clip(0, len(after) - 1))


def gaps_needed(n: int, coverage: FloatArray, delta: float) -> IntArray:
    """Return the least r with P(Beta(r, n + 1 - r) < coverage) <= delta; n + 1 where there is none."""
    gaps = np.arange(1, n + 1, dtype=np.float64)
    flat = np.atleast_1d(coverage).reshape(-1)
    falls_short = np.array([betainc(gaps, n + 1 - gaps, level) for level in flat]).reshape(len(flat), n)
    needed = np.where(flat <= 0, 0, (falls_short > delta).sum(axis=1) + 1)
    return needed.reshape(np.shape(coverage))


IDENTITY = Curve.shared(np.array([-1.0, 1.0]), np.array([-1.0, 1.0]))
