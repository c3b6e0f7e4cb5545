"""Slow, obvious versions that the fast code is tested against."""

import numpy as np

KERNELS = {
    "epanechnikov": lambda t: 1 - t**2,
    "uniform": lambda t: np.ones_like(t),
    "triangular": lambda t: 1 - t,
    "biweight": lambda t: (1 - t**2) ** 2,
    "gaussian": lambda t: np.exp(-(t**2) / 2),
}


def kernel_weights(distances, u, smoothing):
    """Weights K(d / u) normalised to sum 1; equal weights where all vanish."""
    t = distances / u if u > 0 else np.zeros_like(distances)
    weights = np.where(t <= 1, KERNELS[smoothing](t), 0.0)
    if weights.sum() == 0:
        weights = np.ones_like(weights)
    return weights / weights.sum()


def nearest(points, query, k):
    """Indices and Euclidean distances of the k nearest points; ties go to the smaller index."""
    distances = np.sqrt(((points - query) ** 2).sum(axis=1))
    order = np.lexsort((np.arange(len(points)), distances))[:k]
    return order, distances[order]


def weighted_quantile(values, weights, p):
    """Least value whose cumulated weight reaches p."""
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[order]
    values, weights = values[weights > 0], weights[weights > 0]
    if p == 1:
        return values[-1]
    reached = np.cumsum(weights) >= p - 1e-12
    return values[np.argmax(reached)] if reached.any() else values[-1]


def conservative_quantile(values, weights, own, p):
    """Quantile with one more point, of weight ``own``, beyond the end that p is nearer to."""
    if p < 0.5:
        return -conservative_quantile(-values, weights, own, 1 - p)
    return weighted_quantile(values, weights, min(p * (1 + own), 1.0))


def weighted_moments(values, weights):
    """Return Σ w v and Σ w (v - mean)²."""
    mean = (weights * values).sum()
    return mean, (weights * (values - mean) ** 2).sum()


def sample_crps(values, weights, y):
    """CRPS of a weighted sample: Σ w |v - y| - ½ ΣΣ w w' |v - v'|."""
    spread = np.abs(values[:, np.newaxis] - values)
    return (weights * np.abs(values - y)).sum() - weights @ spread @ weights / 2
