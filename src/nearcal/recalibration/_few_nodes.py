"""A quadrature of few nodes for one distribution of scores that all rows share, however many knots it has.

The law of Z is one for all rows, so that its rule is made once, and then a row costs a few hundred quantiles.
"""

import numpy as np
from numpy.polynomial.chebyshev import chebpts1, chebvander
from numpy.polynomial.legendre import leggauss

from nearcal._arrays import FloatArray, IntArray
from nearcal._normal_scores import log_normal_density
from nearcal.distributions.interpolation import Interpolated

_PANELS, _DEGREE = 48, 8  # errors of 1e-10 for smooth quantile functions, 2e-3 at jumps
_TAIL_EDGES = np.array([0.0, 1.0, 2.0, 4.0, 9.0, 20.0, 38.0])  # beyond the outermost knot, where heavy tails weigh


def few_nodes(line: Interpolated) -> tuple[FloatArray, FloatArray]:
    """Return increasing nodes z and weights, (1, q), with E g(Z) = Σ weight · g(node), for a curve of one row."""
    scores = line.scores[0]

    def before(after: FloatArray) -> FloatArray:
        return line.from_z(after[np.newaxis])[0]

    def tail(side: float) -> tuple[FloatArray, FloatArray]:
        """Gauss-Legendre panels beyond the outermost knot."""
        after, weights = _panels(side * scores[0 if side < 0 else -1] + _TAIL_EDGES, order=16)
        return before(side * after), weights

    # Inside, interpolation at the Chebyshev points of panels is integrated exactly against the law of z in each: the
    # kinks of the curve are no loss. The median of the base gets a cut, since some densities have a cusp there.
    first, last = scores[0], scores[-1]
    median = np.clip(line.z(np.zeros((1, 1)))[0], first, last)
    edges = np.unique(np.concatenate([np.linspace(first, last, _PANELS + 1), median]))
    after, mass = _panels(np.union1d(scores, edges), order=_DEGREE)
    ends = before(edges)
    center, half = (ends[1:] + ends[:-1]) / 2, np.diff(ends) / 2
    used, panel = np.unique(np.clip(np.searchsorted(edges, after) - 1, 0, len(half) - 1), return_inverse=True)
    center, half = center[used], half[used]  # knots that rounding has all but joined leave panels without a node
    offset = before(after) - center[panel]
    t = np.divide(offset, half[panel], out=np.zeros_like(offset), where=half[panel] > 0)  # 0 in an atom
    weights = _interpolatory_weights(t, mass, starts=np.searchsorted(panel, np.arange(len(half))))
    inner = (center[:, np.newaxis] + half[:, np.newaxis] * chebpts1(_DEGREE)).ravel(), weights.ravel()
    nodes, masses = (np.concatenate(parts) for parts in zip(tail(-1.0), inner, tail(1.0), strict=True))
    order = np.argsort(nodes, kind="stable")
    return nodes[np.newaxis, order], masses[np.newaxis, order]


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
