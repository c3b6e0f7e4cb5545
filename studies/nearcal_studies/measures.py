"""Measures that several studies share."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.cluster import KMeans


def interval_scores(lower: NDArray[Any], upper: NDArray[Any], y: NDArray[Any], coverage: float) -> NDArray[Any]:
    """Return the interval scores of given intervals: width, and 2 / (1 - coverage) times the distance of a miss."""
    miss = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
    return upper - lower + 2 / (1 - coverage) * miss


def find_regions(count: int, x_cal: NDArray[Any], x_new: NDArray[Any], seed: int) -> NDArray[Any]:
    """Return the cluster of calibration inputs (k-means) that each judged row belongs to."""
    return KMeans(count, n_init=3, random_state=seed).fit(x_cal).predict(x_new)


def coverage_by_region(covered: NDArray[Any], regions: NDArray[Any]) -> NDArray[Any]:
    """Return the share of covered rows of every region."""
    return np.array([covered[regions == region].mean() for region in np.unique(regions)])


def regional_floor(regions: NDArray[Any], coverage: float) -> float:
    """Return the regional error to expect of perfect intervals: E |Binomial(n, p) / n - p|, mean over regions."""
    counts = np.unique(regions, return_counts=True)[1]
    return float(np.mean([binom(n, coverage).expect(lambda hits, n=n: abs(hits / n - coverage)) for n in counts]))
