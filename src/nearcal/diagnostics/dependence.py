"""How much rows that depend on each other are worth: errors of means, and tests, counted by units of rows.

Rows of one unit, a group or a stretch of time, may depend on each other in any way; units are taken for independent.
"""

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal.diagnostics.pit_values import PCE_LEVELS


def effective_share(p: FloatArray, units: IntArray | None) -> float:
    """Return which share of n PIT values are worth as much as independent ones.

    The inverse of the design effect of their empirical cdf F: the variance of F(u) as sums over units have it, over
    F(u) (1 - F(u)) / n, which independent values have, each summed over levels u. At most 1: values that repel each
    other are worth no more. Tests count n times the share for n, as Rao and Scott correct tests of samples drawn in
    clusters.

    Parameters
    ----------
    p : ndarray of shape (n,)
        PIT values.
    units : ndarray of shape (n,) or None
        Rows with the same number depend on each other; None takes all for independent.

    References
    ----------
    J. N. K. Rao and A. J. Scott, *The Analysis of Categorical Data from Complex Sample Surveys*, JASA 76 (1981),
    doi:10.1080/01621459.1981.10477633.
    """
    if units is None:
        return 1.0
    _, which = np.unique(units, return_inverse=True)
    count = int(which.max()) + 1
    if count < 2:
        return 1.0 / len(p)
    below = (p[:, np.newaxis] <= PCE_LEVELS).astype(np.float64)
    moved = below - below.mean(axis=0)
    sums = np.stack([np.bincount(which, column) for column in moved.T])
    between = np.sum(sums**2, axis=1) * count / (count - 1) / len(p) ** 2
    independent = below.mean(axis=0) * (1 - below.mean(axis=0)) / len(p)
    inside = independent > 0
    effect = between[inside].sum() / independent[inside].sum() if inside.any() else 1.0
    return float(1 / max(effect, 1.0))
