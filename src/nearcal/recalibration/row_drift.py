"""Whether scores change along the rows of a calibration set, in level or in spread; and which rows then count.

New rows come after those of the calibration set. Where what is left of the errors has a drift, the latest rows are more
like new ones than all rows are.
"""

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import DependenceWarning, warn_user

FALSE_ALARM = 1e-3  # of both tests together
_LEAST_DRIFT = 0.05  # as a correlation with the order: what is less changes spreads by a tenth from first to last
_FEWEST = 20  # rows: of fewer no drift can be told
_LATEST, _ENOUGH = 0.25, 100  # share of the rows that counts where there is a drift; but so many at least


def latest_rows(scores: FloatArray, order: IntArray) -> IntArray:
    """Return the rows that stand for new ones, in increasing order: all, or the latest where scores have a drift.

    Level and spread are tested by the correlation ρ of places in ``order`` with normal scores of ranks R: with
    Φ⁻¹(R / (n + 1)) of the scores, and with squares of Φ⁻¹(½ + R / (2n + 2)) of their absolute values, as in the test
    of Klotz. With r the correlation of those that follow each other, less their line, at least 0, it comes to
    ρ √((n - 1)(1 - r) / (1 + r)) standard errors: rows that err alike for a while are worth fewer. Each is held to a
    probability of 0.0005, and what is below 0.05 is no drift to speak of. If there is one, it is told.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Normal scores of rows under what was made of them.
    order : ndarray of shape (n,)
        The rows, the oldest first.

    References
    ----------
    J. Klotz, *Nonparametric Tests for Scale*, The Annals of Mathematical Statistics 33:498-512, 1962,
    doi:10.1214/aoms/1177704576.
    """
    n = len(scores)
    shares = average_ranks(scores[order]) / (n + 1), average_ranks(np.abs(scores[order])) / (n + 1)
    level, spread = correlation_with_order(ndtri(shares[0])), correlation_with_order(ndtri(0.5 + shares[1] / 2) ** 2)
    if n < _FEWEST or not (_is_drift(*level) or _is_drift(*spread)):
        return np.arange(n)
    count = max(int(np.ceil(_LATEST * n)), min(_ENOUGH, n))
    if count < n:
        warn_user(
            f"scores of the calibration set change along its rows: their level has a correlation of {level[0]:.2f}, "
            f"their spread of {spread[0]:.2f} with the place of a row. So the {count} latest of {n} rows alone say how "
            "predictions are off overall. If the order of rows means nothing, time=False says so, or shuffle them; if "
            "they are in order of time, calibrate with newer rows, and often. On the command line: --any-order",
            DependenceWarning,
        )
    return np.sort(order[n - count :])


def average_ranks(values: FloatArray) -> FloatArray:
    """Return ranks from 1 on, their mean where values are equal: those of scipy.stats, which is slow to import."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: FloatArray = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks


def correlation_with_order(values: FloatArray) -> tuple[float, float]:
    """Return the correlation of values with their place, and the same in standard errors."""
    n = len(values)
    places = np.arange(n) - (n - 1) / 2
    values = values - values.mean() if n else values
    total, length = float(values @ values), float(places @ places)
    if not total * length > 0:
        return 0.0, 0.0
    together = float(values @ places)
    correlation = together / np.sqrt(total * length)
    rest = values - together / length * places  # a drift alone makes neighbours alike
    serial = max(float(rest[:-1] @ rest[1:]) / max(float(rest @ rest), 1e-300), 0.0)
    return correlation, correlation * np.sqrt((n - 1) * (1 - serial) / (1 + serial))


def _is_drift(correlation: float, in_errors: float) -> bool:
    return abs(correlation) >= _LEAST_DRIFT and abs(in_errors) > -float(ndtri(FALSE_ALARM / 4))
