"""The CRPS of any distribution by quadrature: what a family without a formula falls back on."""

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from nearcal._arrays import FloatArray, IntArray
from nearcal._normal_scores import log_normal_density
from nearcal.distributions import Distribution
from nearcal.scores._quadrature import integrate

#: Normal scores between which integrals are taken: what lies beyond weighs less than 1e-22.
REACH = 10.0
BREAKS = np.array([-REACH, -6.0, -3.0, -1.5, 0.0, 1.5, 3.0, 6.0, REACH])

#: Error allowed in an interval, as a share of the distance of the response from the predicted quantiles.
RELATIVE_TOLERANCE = 1e-11

_BLOCK = 4096  # rows integrated together, to bound memory


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
    z = np.clip(dist._unbounded_z(y[:, np.newaxis]), -REACH, REACH)
    edges = np.sort(np.concatenate([np.broadcast_to(BREAKS, (len(y), len(BREAKS))), z], axis=1), axis=1)
    panels = edges.shape[1] - 1
    is_below = (edges[:, 1:] <= z).ravel()

    def loss(origin: IntArray, t: FloatArray) -> FloatArray:
        rows = origin // panels
        distance = dist[rows]._from_z(t) - y[rows, np.newaxis]
        return pinball_density(t, distance, is_below[origin, np.newaxis])

    tolerance = np.repeat(RELATIVE_TOLERANCE * typical_distance(dist, y), panels)
    return integrate(loss, edges[:, :-1].ravel(), edges[:, 1:].ravel(), tolerance).reshape(len(y), panels).sum(axis=1)


def pinball_density(t: FloatArray, distance: FloatArray, is_below: NDArray[np.bool_]) -> FloatArray:
    """Return 2 |1{y < q} - Φ(t)| |q - y| φ(t), given q - y at normal scores t."""
    tail = ndtr(np.where(is_below, t, -t))
    density = np.exp(log_normal_density(t))
    # a quantile that overflows does so where a distribution with a mean has no weight left
    return np.where(np.isfinite(distance), 2 * tail * density * np.abs(distance), 0.0)


def typical_distance(dist: Distribution, y: FloatArray) -> FloatArray:
    """Return the mean distance of y from the quartiles and the median, shape (n,): of the order of the CRPS."""
    quartiles = dist.ppf(np.array([0.25, 0.5, 0.75]))
    return np.abs(quartiles - y[:, np.newaxis]).mean(axis=1)
