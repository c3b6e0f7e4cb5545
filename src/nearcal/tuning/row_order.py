"""Which rows may judge which: what the user says, or what the order of the rows gives away."""

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, smirnov

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import DependenceWarning, warn_user
from nearcal._sample_weights import effective_size
from nearcal.diagnostics.dependence import effective_share
from nearcal.recalibration.row_drift import average_ranks
from nearcal.space import Folds, as_folds, in_order

FALSE_ALARM = 1e-3  # of the test that rows following each other are independent
LEAST_CORRELATION = 0.2  # what is less misleads little, whatever its significance
_FEWEST = 20  # rows: stretches of fewer tell nothing


def folds_of(z: FloatArray, groups: Any, time: Any, gap: Any) -> Folds | None:
    """Return the folds asked for; where nothing is said and rows in a row err alike, those of their order, and warn."""
    folds = as_folds(groups, time, gap, len(z))
    if folds is not None or time is False:
        return folds
    correlation = serial_correlation(z)
    if not is_dependent(correlation, len(z)):
        return None
    warn_user(
        f"rows of the calibration set that follow each other err alike: Spearman's correlation of their scores is "
        f"{correlation:.2f}, and independent rows have {_threshold(len(z)):.2f} at most. So rows near in order were "
        "not let speak for each other. Say what it is: time=... if rows were observed one after another, so that only "
        "earlier rows speak (time=True for the order given), groups=... if several are of one person, device or place. "
        "If they are merely sorted, and new rows will be like any of them, time=False says that order means nothing. "
        "On the command line: --time, --groups, --any-order",
        DependenceWarning,
    )
    return in_order(len(z))


def order_of(folds: Folds | None, groups: Any, time: Any, n: int) -> IntArray | None:
    """Return rows from the oldest to the latest: by time, or as they come where nothing is said; else None."""
    if folds is not None and folds.by_time is not None:
        return folds.by_time
    return np.arange(n) if groups is None and time is None else None


def serial_correlation(z: FloatArray) -> float:
    """Return Spearman's correlation of the scores of rows and of those after them; 0 where all are equal."""
    if len(z) < 3:
        return 0.0
    ranks = average_ranks(z)
    ranks = ranks - ranks.mean()
    total = float(ranks @ ranks)
    return float(ranks[:-1] @ ranks[1:]) / total if total > 0 else 0.0


def is_dependent(correlation: float, n: int) -> bool:
    """Tell whether n rows are too much like those next to them to be independent, and enough so to matter."""
    return n >= _FEWEST and correlation > _threshold(n)


def _threshold(n: int) -> float:
    # of exchangeable rows the correlation has mean -1 / n and a variance of about 1 / n (Wald and Wolfowitz, 1943)
    return max(LEAST_CORRELATION, -float(ndtri(FALSE_ALARM)) / np.sqrt(n))


def unevenness(z: FloatArray, units: IntArray | None, weights: FloatArray | None) -> float:
    """Return the statistic of Cramér and von Mises of the PIT values of scores, of mean 1/6 where they are uniform.

    It is n ∫ (F - p)² dp, with n the number of rows that are as good as independent, and F the distribution of PIT
    values, which counts half of every row at its value.
    """
    p = ndtr(z)
    order = np.argsort(p, kind="stable")
    shares = np.full(len(p), 1 / len(p)) if weights is None else weights[order] / weights.sum()
    middle = np.cumsum(shares) - shares / 2
    size = len(p) if weights is None else effective_size(weights)
    square = float(np.sum(shares * ((middle - p[order]) ** 2 + shares**2 / 12)))
    return size * effective_share(p, units) * square


def is_normal(z: FloatArray, units: IntArray | None, weights: FloatArray | None, level: float) -> bool:
    """Tell whether the Kolmogorov-Smirnov test lets scores be standard Normal at a level, given which rows depend.

    With weights it is the weighted distribution of scores that is tested, at their effective size.
    """
    p = ndtr(z)
    order = np.argsort(p, kind="stable")
    shares = np.full(len(p), 1 / len(p)) if weights is None else weights[order] / weights.sum()
    above = np.cumsum(shares)
    distance = max((above - p[order]).max(), (p[order] - above + shares).max())
    size = len(p) if weights is None else effective_size(weights)
    return _reaches(level, distance, max(1, round(size * effective_share(p, units))))


def _reaches(level: float, distance: float, n: int) -> bool:
    """Tell whether the p-value of a distance reaches a level."""
    one_sided = smirnov(n, distance)  # exact; the two-sided p-value is between this and twice as much
    if one_sided >= level or 2 * one_sided < level:
        return bool(one_sided >= level)
    from scipy.stats import kstwo  # most of a second to import

    return bool(kstwo.sf(distance, n) >= level)
