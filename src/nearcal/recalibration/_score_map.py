"""Increasing maps between normal scores: what one recalibration for all rows comes down to."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.polynomial.chebyshev import chebpts1, chebvander
from numpy.polynomial.legendre import leggauss

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal._normal_scores import log_normal_density
from nearcal._saved import require, savable, saved_array
from nearcal.distributions._interpolation import Interpolated

_PANELS, _DEGREE = 48, 8  # of the quadrature: errors of 1e-10 for smooth quantile functions, 2e-3 at jumps
_TAIL_EDGES = np.array([0.0, 1.0, 2.0, 4.0, 8.0])  # beyond the outermost knot; Φ(-8) = 6e-16 is left out


@savable
class ScoreMap:
    """A piecewise-linear increasing map between scores before recalibration, z, and after it, s.

    The recalibrated distribution function is Φ(s(z(y))). Beyond the outermost knots the map goes on straight, with the
    slope of the line from the middle of the map to the knot (see :class:`Interpolated`): every z has a finite s.

    Parameters
    ----------
    after : ndarray of shape (q,)
        Strictly increasing scores s of the knots, q >= 2.
    before : ndarray of shape (q,)
        Non-decreasing scores z of the knots, not all equal. Equal ones are an atom.
    """

    def __init__(self, after: FloatArray, before: FloatArray) -> None:
        self.after_knots = after
        self.before_knots = before
        self._curve = Interpolated(after[np.newaxis], before[np.newaxis], normal_tails=True)

    def _to_saved(self) -> dict[str, Any]:
        return {"after_knots": self.after_knots, "before_knots": self.before_knots}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        after = saved_array(saved, "after_knots", np.float64, (None,))
        before = saved_array(saved, "before_knots", np.float64, after.shape)
        require(len(after) > 1 and (np.diff(after) > 0).all(), "after_knots must be two or more that increase")
        require(
            (np.diff(before) >= 0).all() and before[0] < before[-1], "before_knots must not decrease, nor be all equal"
        )
        return cls(after, before)

    @property
    def is_continuous(self) -> bool:
        """Whether the map makes no atoms."""
        return bool((np.diff(self.before_knots) > 0).all())

    # The knots are one row for all rows of a batch, so arrays of scores are passed through them as one long row.

    def after(self, before: FloatArray) -> FloatArray:
        """Return s(z), right-continuous at atoms, for any shape of z."""
        return self._curve.z(before.reshape(1, -1)).reshape(before.shape)

    def before(self, after: FloatArray) -> FloatArray:
        """Return z(s) for any shape of s."""
        return self._curve.from_z(after.reshape(1, -1)).reshape(after.shape)

    def log_density(self, before: FloatArray) -> FloatArray:
        """Return log of φ(s) ds/dz, the density of z after recalibration, for any shape of z."""
        return self._curve.logpdf(before.reshape(1, -1)).reshape(before.shape)

    @cached_property
    def rule(self) -> tuple[FloatArray, FloatArray]:
        """Nodes z and weights, each (q,), with E g(z(S)) = Σ weight · g(node) for S standard Normal.

        Recalibration maps all rows alike, so the law of z is one for all rows and its rule is made once: then a row
        costs a few hundred quantiles however many knots the map has.
        """
        lower, upper = self._tail_rule(-1.0), self._tail_rule(1.0)
        nodes, weights = (np.concatenate(parts) for parts in zip(lower, self._inner_rule(), upper, strict=True))
        return nodes, weights

    def _tail_rule(self, side: float) -> tuple[FloatArray, FloatArray]:
        """Gauss-Legendre panels beyond the outermost knot."""
        start = self.after_knots[0 if side < 0 else -1]
        after, weights = _panels(side * start + _TAIL_EDGES, order=16)
        return self.before(side * after), weights

    def _inner_rule(self) -> tuple[FloatArray, FloatArray]:
        """Interpolation at the Chebyshev points of panels, integrated exactly against the law of z in each.

        The kinks of the map are thus no loss. The median of the base gets a cut: some densities have a cusp there.
        """
        first, last = self.after_knots[0], self.after_knots[-1]
        median = np.clip(self.after(np.zeros(1)), first, last)
        edges = np.unique(np.concatenate([np.linspace(first, last, _PANELS + 1), median]))
        after, mass = _panels(np.union1d(self.after_knots, edges), order=_DEGREE)
        ends = self.before(edges)
        center, half = (ends[1:] + ends[:-1]) / 2, np.diff(ends) / 2
        panel = np.clip(np.searchsorted(edges, after) - 1, 0, len(half) - 1)
        offset = self.before(after) - center[panel]
        t = np.divide(offset, half[panel], out=np.zeros_like(offset), where=half[panel] > 0)  # 0 in an atom
        weights = _interpolatory_weights(t, mass, starts=np.searchsorted(panel, np.arange(len(half))))
        return (center[:, np.newaxis] + half[:, np.newaxis] * chebpts1(_DEGREE)).ravel(), weights.ravel()


def _interpolatory_weights(t: FloatArray, mass: FloatArray, starts: IntArray) -> FloatArray:
    """Integrate the Lagrange polynomials of the Chebyshev points against masses at t in [-1, 1]; (panels, degree).

    With the moments m_k = Σ mass T_k(t) of a panel, which begins at entry ``starts``, the weight of point x is
    (m_0 + 2 Σ m_k T_k(x)) / degree, by the discrete orthogonality of the T_k.
    """
    moments = np.add.reduceat(mass[:, np.newaxis] * chebvander(t, _DEGREE - 1), starts)
    moments[:, 1:] *= 2
    return moments @ chebvander(chebpts1(_DEGREE), _DEGREE - 1).T / _DEGREE


def _panels(edges: FloatArray, order: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes s and weights φ(s) ds of Gauss-Legendre rules between consecutive edges."""
    x, w = leggauss(order)
    half = np.diff(edges)[:, np.newaxis] / 2
    nodes = edges[:-1, np.newaxis] + half * (1 + x)
    return nodes.ravel(), (half * w * np.exp(log_normal_density(nodes))).ravel()
