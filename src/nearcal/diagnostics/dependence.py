"""How much rows that depend on each other are worth: errors of means, and tests, counted by units of rows.

Rows of one unit, a group or a stretch of time, may depend on each other in any way; units are taken for independent.
"""

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal.diagnostics.pit_values import PCE_LEVELS


def effective_share(p: FloatArray, units: IntArray | None) -> float:
    """Return which share of n PIT values are worth as much as independent ones.

    The inverse of their design effect, which is the larger of two ratios of a variance, as sums over units have it, to
    that of independent values: of the empirical cdf, summed over levels, and of the mean. The tests below look hardest
    at the location, which is what lasts longest in time. At most 1: values that repel each other are worth no more.
    Tests count n times the share for n, as Rao and Scott correct tests of samples drawn in clusters.

    Of 300 series of 3,000 scores, standard Normal and autoregressive with correlation 0.5, 0.7 and 0.9, cut into thirty
    stretches, tests at 5% so reject 1 to 2% (Kolmogorov-Smirnov) and 3 to 8% (the others), and without it 21 to 79%.

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
    if which.max() == 0:
        return 1.0 / len(p)
    below = (p[:, np.newaxis] <= PCE_LEVELS).astype(np.float64)
    effect = max(_design_effect(below, which), _design_effect(p[:, np.newaxis], which), 1.0)
    return 1.0 / effect


def _design_effect(columns: FloatArray, which: IntArray) -> float:
    """Return the variance of means of columns by sums over units, over that of independent rows, each summed up."""
    n, count = len(columns), int(which.max()) + 1
    moved = columns - columns.mean(axis=0)
    sums = np.stack([np.bincount(which, column) for column in moved.T])
    independent = float(np.sum(moved**2) / n**2)
    return float(np.sum(sums**2) * count / (count - 1) / n**2) / independent if independent > 0 else 1.0
