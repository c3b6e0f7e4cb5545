"""Adaptive integration of many functions at once.

A panel that two halves integrate differently from the whole is replaced by its halves; all panels still in work are
evaluated in one call. Kinks and steps cost a few more rounds on a few panels, never accuracy.
"""

from collections.abc import Callable

import numpy as np

from nearcal._arrays import FloatArray, IntArray

_MAX_HALVINGS = 48

Integrand = Callable[[IntArray, FloatArray], FloatArray]


def integrate(f: Integrand, low: FloatArray, high: FloatArray, tolerance: FloatArray, order: int = 12) -> FloatArray:
    """Integrate over P intervals.

    Parameters
    ----------
    f : callable
        Maps (origin, x), the numbers of q intervals and positions of shape (q, order) in them, to values of the same
        shape as x.
    low, high : ndarray of shape (P,)
        Ends of the intervals.
    tolerance : ndarray of shape (P,)
        Absolute error allowed in each interval.
    order : int
        Number of nodes of a panel, at least 3.

    Returns
    -------
    ndarray of shape (P,)
    """
    nodes, weights = _lobatto(order)

    def panel(origin: IntArray, a: FloatArray, b: FloatArray) -> FloatArray:
        half = (b - a) / 2
        x = (a / 2 + b / 2)[:, np.newaxis] + half[:, np.newaxis] * nodes
        return half * (f(origin, x) @ weights)

    total = np.zeros(len(low))
    origin = np.flatnonzero(low < high)
    a, b = low[origin], high[origin]
    whole = panel(origin, a, b) if len(origin) else np.zeros(0)
    for halving in range(_MAX_HALVINGS):
        if len(origin) == 0:
            break
        middle = a / 2 + b / 2
        left, right = panel(origin, a, middle), panel(origin, middle, b)
        # the error of a panel may only be a fair share of the error of its interval, down to rounding
        allowed = np.maximum(tolerance[origin] * 0.5**halving, 1e-15 * np.abs(whole))
        rough = np.abs(left + right - whole) > allowed
        rough &= halving < _MAX_HALVINGS - 1
        np.add.at(total, origin[~rough], (left + right)[~rough])
        origin = np.tile(origin[rough], 2)
        a, b = np.concatenate([a[rough], middle[rough]]), np.concatenate([middle[rough], b[rough]])
        whole = np.concatenate([left[rough], right[rough]])
    return total


def _lobatto(order: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss-Lobatto quadrature on [-1, 1].

    Its nodes include the ends: a kink just inside a panel, which all nodes of Gauss's rule can miss, shows there.
    """
    legendre = np.polynomial.Legendre.basis(order - 1)
    nodes = np.concatenate([[-1.0], np.sort(legendre.deriv().roots().real), [1.0]])
    return nodes, 2 / (order * (order - 1) * legendre(nodes) ** 2)
