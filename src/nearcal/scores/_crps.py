"""The continuous ranked probability score, and the quadrature that a family without a formula falls back on."""

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from nearcal._arrays import FloatArray, IntArray, as_response
from nearcal._normal_scores import log_normal_density, z_from_log_tails
from nearcal.distributions import Distribution, require_distribution
from nearcal.distributions.base import overflow_is_infinite

#: Normal scores between which integrals are taken: what lies beyond weighs less than 1e-44.
REACH = 10.0
#: The same for rows with quantiles so large that what lies beyond counts all the same; then probabilities underflow.
FARTHEST = 37.0
#: Where it is looked up whether it does: near enough to each other for what is of a Normal shape to show.
OUTSIDE = np.concatenate([-np.arange(35.0, 9.0, -5.0), np.arange(10.0, 36.0, 5.0)])
BREAKS = np.array([-REACH, -6.0, -3.0, -1.5, 0.0, 1.5, 3.0, 6.0, REACH])

#: Error allowed in an interval, as a share of the distance of the response from the predicted quantiles.
RELATIVE_TOLERANCE = 1e-11

_BLOCK = 4096  # rows integrated together, to bound memory


def crps(dist: Distribution, y: Any) -> FloatArray:
    """Return the continuous ranked probability score of every observation; lower is better.

    ``CRPS(F, y) = ∫ (F(x) - 1{x >= y})² dx = E|X - y| - ½ E|X - X'|``, in the unit of the response.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.

    Returns
    -------
    ndarray of shape (n,)
        Infinite where the predictive distribution has no mean, such as Student's t with df <= 1: outside the
        distributions with a mean the score is not proper. Infinite, too, where it is too large for a number.

    Notes
    -----
    Never by simulation:

    - Normal, LogNormal, Gamma, StudentT, Laplace and mixtures of Normal distributions: closed forms;
    - Samples with empirical tails, and recalibrated distributions under the step and conservative rules: of the
      weighted sample. Both exact, as sums over the sorted sample;
    - Quantiles, Samples with Normal tails, and recalibrated Normal distributions under the other rules: exact, piece by
      piece;
    - all else: adaptive quadrature, to about 1e-11 of the score.

    References
    ----------
    T. Gneiting and A. E. Raftery, *Strictly proper scoring rules, prediction, and estimation*, JASA 102 (2007),
    doi:10.1198/016214506000001437.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.scores.crps(nc.Normal(0.0, [1.0, 10.0]), [0.5, 0.5]).round(4)
    array([0.3314, 2.3469])
    """
    dist = require_distribution(dist, "dist")
    response = as_response(y, len(dist), "y")
    with overflow_is_infinite():
        return crps_rows(dist, response)


@singledispatch
def crps_rows(dist: Distribution, y: FloatArray) -> FloatArray:
    """Return the CRPS of responses of shape (n,); a family with a better way registers it here."""
    finite = np.flatnonzero(np.isfinite(dist.mean()))
    scores = np.full(len(y), np.inf)
    for start in range(0, len(finite), _BLOCK):
        rows = finite[start : start + _BLOCK]
        scores[rows] = _integrate_quantiles(dist[rows], y[rows])
    return scores


def _integrate_quantiles(dist: Distribution, y: FloatArray) -> FloatArray:
    """Integrate twice the pinball loss over all levels p = Φ(t); the loss has a kink where the quantile passes y."""
    typical = typical_distance(dist, y)
    ends = reach_of_rows(dist.from_z(OUTSIDE[np.newaxis]) - y[:, np.newaxis], typical)
    z = np.clip(_score(dist, y)[:, np.newaxis], -ends, ends)
    breaks = np.broadcast_to(BREAKS, (len(y), len(BREAKS)))
    edges = np.sort(np.concatenate([-ends, breaks, z, ends], axis=1), axis=1)
    panels = edges.shape[1] - 1
    is_below = (edges[:, 1:] <= z).ravel()

    def loss(origin: IntArray, t: FloatArray) -> FloatArray:
        rows = origin // panels
        distance = dist[rows].from_z(t) - y[rows, np.newaxis]
        return pinball_density(t, distance, is_below[origin, np.newaxis])

    tolerance = np.repeat(RELATIVE_TOLERANCE * typical, panels)
    return integrate(loss, edges[:, :-1].ravel(), edges[:, 1:].ravel(), tolerance).reshape(len(y), panels).sum(axis=1)


def _score(dist: Distribution, y: FloatArray) -> FloatArray:
    """Return Φ⁻¹(cdf(y)), infinite beyond the last atom, where ``dist.z`` is held finite."""
    return dist.z(y) if dist.is_continuous else z_from_log_tails(dist.logcdf(y), dist.logsf(y))


def pinball_density(t: FloatArray, distance: FloatArray, is_below: NDArray[np.bool_]) -> FloatArray:
    """Return 2 |1{y < q} - Φ(t)| |q - y| φ(t), given q - y at normal scores t."""
    tail = ndtr(np.where(is_below, t, -t))
    density = np.exp(log_normal_density(t))
    # a quantile that overflows does so where a distribution with a mean has no weight left
    distance = np.where(np.isfinite(distance), np.abs(distance), 0.0)
    return 2 * (tail * distance) * density  # in this order: far out the product of tail and density underflows


def reach_of_rows(distance: FloatArray, typical: FloatArray) -> FloatArray:
    """Return the score up to which each row is integrated, (n, 1), given q - y at the scores of OUTSIDE.

    Quantiles of lognormal tails stretched by recalibration may grow by more than a weight of 1e-44 makes up for.
    """
    loss = pinball_density(OUTSIDE, distance, OUTSIDE < 0)
    is_negligible = (loss <= 0.01 * RELATIVE_TOLERANCE * typical[:, np.newaxis]).all(axis=1)
    return np.where(is_negligible, REACH, FARTHEST)[:, np.newaxis]


def typical_distance(dist: Distribution, y: FloatArray) -> FloatArray:
    """Return the mean distance of y from the quartiles and the median, shape (n,): of the order of the CRPS."""
    quartiles = dist.ppf(np.array([0.25, 0.5, 0.75]))
    return np.abs(quartiles - y[:, np.newaxis]).mean(axis=1)


# ---- adaptive integration of many functions at once -----------------------------------------------------------------
# A panel that two halves integrate differently from the whole is replaced by its halves; all panels still in work are
# evaluated in one call. Kinks and steps cost a few more rounds on a few panels, never accuracy. scipy's quad takes one
# function at a time and its quad_vec halves the same panels for all, while every row here has kinks of its own.

_MAX_HALVINGS = 48
_PANEL_ROUNDING = 1e-12  # of a panel's integral: quantiles as large as exp(700) round by some 1e-13 of themselves
_SMALLEST = np.finfo(np.float64).tiny  # below which numbers lose their digits
_MOST_PANELS = 512  # of one interval, in work at once: kinks and steps take a few, and more are nothing but rounding

Integrand = Callable[[IntArray, FloatArray], FloatArray]


def integrate(f: Integrand, low: FloatArray, high: FloatArray, tolerance: FloatArray, order: int = 12) -> FloatArray:
    """Integrate over P intervals.

    Parameters
    ----------
    f : callable
        Maps (origin, x), the numbers of q intervals and positions of shape (q, order) in them, to values of the same
        shape as x, none of them negative.
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
        # einsum, not BLAS: a row's result must not depend on the rows beside it
        return half * np.einsum("qo,o->q", f(origin, x), weights)

    total = np.zeros(len(low))
    origin = np.flatnonzero(low < high)
    a, b = low[origin], high[origin]
    whole = panel(origin, a, b) if len(origin) else np.zeros(0)
    for halving in range(_MAX_HALVINGS):
        if len(origin) == 0:
            break
        middle = a / 2 + b / 2
        left, right = panel(origin, a, middle), panel(origin, middle, b)
        # the error of a panel may only be a fair share of the error of its interval, down to rounding: below that
        # halving would go on, twice as many panels a time
        allowed = np.maximum(tolerance[origin] * 0.5**halving, _PANEL_ROUNDING * np.abs(left + right) + _SMALLEST)
        with np.errstate(invalid="ignore"):  # an infinite panel, whose error is no number, is settled
            rough = np.abs(left + right - whole) > allowed
        rough &= (halving < _MAX_HALVINGS - 1) & (np.bincount(origin, minlength=len(low))[origin] <= _MOST_PANELS)
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
