"""Increasing maps between normal scores: what one recalibration for all rows comes down to."""

from functools import cached_property

import numpy as np
from numpy.polynomial.legendre import leggauss

from nearcal._arrays import FloatArray
from nearcal._normal_scores import log_normal_density
from nearcal.distributions._interpolation import Interpolated

_NODES = 128  # of the interpolatory rule: twice what the smooth families need
_CELLS = 4 * _NODES  # no Chebyshev polynomial of the rule turns more than an eighth of a wave in a cell
_TAIL_EDGES = np.array([0.0, 1.0, 2.0, 4.0, 8.0])  # beyond the outermost knot; Φ(-8) = 6e-16 is left out


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
        """Nodes z and weights, each (q,), with E g(z(S)) = Σ weight · g(node) for S standard Normal and smooth g.

        Recalibration maps all rows alike, so the law of z is one for all rows and its rule is made once: then a row
        costs a few hundred quantiles however many knots the map has.
        """
        lower, upper = self._tail_rule(-1.0), self._tail_rule(1.0)
        inner = self._inner_rule()
        nodes, weights = (np.concatenate(parts) for parts in zip(lower, inner, upper, strict=True))
        return nodes, weights

    def _tail_rule(self, side: float) -> tuple[FloatArray, FloatArray]:
        """Gauss-Legendre panels beyond the outermost knot."""
        start = self.after_knots[0 if side < 0 else -1]
        after, weights = _panels(side * start + _TAIL_EDGES, order=16)
        return self.before(side * after), weights

    def _inner_rule(self) -> tuple[FloatArray, FloatArray]:
        """Interpolation at Chebyshev points of the range of the knots, integrated against the law of z there.

        On a bounded range it converges geometrically for every analytic g.
        """
        low, high = self.before_knots[0], self.before_knots[-1]
        center, half = (low + high) / 2, (high - low) / 2
        cells = center + half * np.cos(np.linspace(np.pi, 0, _CELLS + 1))
        cuts = np.clip(self.after(cells), self.after_knots[0], self.after_knots[-1])
        after, mass = _panels(np.unique(np.concatenate([self.after_knots, cuts])), order=5)
        t = np.clip((self.before(after) - center) / half, -1.0, 1.0)
        points = np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
        return center + half * points, _interpolatory_weights(t, mass, points)


def _panels(edges: FloatArray, order: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes s and weights φ(s) ds of Gauss-Legendre rules between consecutive edges."""
    x, w = leggauss(order)
    half = np.diff(edges)[:, np.newaxis] / 2
    nodes = edges[:-1, np.newaxis] + half * (1 + x)
    return nodes.ravel(), (half * w * np.exp(log_normal_density(nodes))).ravel()


def _interpolatory_weights(t: FloatArray, mass: FloatArray, points: FloatArray) -> FloatArray:
    """Integrate the Lagrange polynomials of Chebyshev points against masses at t.

    With the moments m_k = Σ mass T_k(t) the weight of point x is (m_0 + 2 Σ m_k T_k(x)) / q: the discrete
    orthogonality of the T_k. The recurrence T_{k+1} = 2 t T_k - T_{k-1} needs no table of all T_k(t).
    """
    weights = np.full(len(points), mass.sum())
    previous, current = np.ones_like(t), t
    previous_point, current_point = np.ones_like(points), points
    for _ in range(1, len(points)):
        weights += 2 * (mass @ current) * current_point
        previous, current = current, 2 * t * current - previous
        previous_point, current_point = current_point, 2 * points * current_point - previous_point
    return weights / len(points)
