"""Data and cases of the engine benchmark."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import nearcal as nc


@dataclass(frozen=True)
class Case:
    """n_cal calibration points in d dimensions, k neighbours, approximation eps."""

    n: int
    d: int
    k: int
    eps: float = 0.0


SIZES = [
    (10_000, 1, 1000),
    (10_000, 5, 1000),
    (100_000, 5, 100),
    (100_000, 5, 1000),
    (10_000, 20, 1000),
    (100_000, 20, 100),
    (100_000, 20, 1000),
    (1_000_000, 5, 1000),
    (100_000, 200, 1000),
]
CASES = [Case(*size, eps) for eps in (0.0, 1.0) for size in SIZES]

# one thing varied at a time, for the plots of cost against n, d and k
SWEEPS = {
    "n": [Case(n, 5, 1000) for n in (3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)],
    "d": [Case(100_000, d, 1000) for d in (1, 2, 3, 5, 8, 12, 20, 50, 100, 200)],
    "k": [Case(100_000, 5, k) for k in (10, 30, 100, 300, 1000, 3000)],
}


class Data(NamedTuple):
    """A calibration set (space, normal scores) and new rows (space, means); the model is Normal with one σ."""

    space: np.ndarray
    z: np.ndarray
    space_new: np.ndarray
    mean_new: np.ndarray
    sigma: float


def generate(n, d, m, seed=0):
    """Return data of the paper's simulation study (its first d inputs; uniform for d = 1) with m new rows."""
    rng = np.random.default_rng(seed)
    space = inputs(n + m, d, rng)
    z = rng.normal(size=n) * (1 + 0.5 * np.tanh(space[:n, 0]))  # a model that is too narrow here, too wide there
    return Data(space[:n], z, space[n:], space[n:, 0], 2.0)


def inputs(n, d, rng):
    """Return Normal inputs with covariance 0.5^|i - j|, an autoregression, or uniform ones for d = 1."""
    if d == 1:
        return rng.uniform(size=(n, 1))
    x = rng.normal(size=(d, n))
    for j in range(1, d):
        x[j] = 0.5 * x[j - 1] + np.sqrt(0.75) * x[j]
    return np.ascontiguousarray(x.T)


def fit_ours(data, k, eps=0.0, **options):
    """Return a fitted recalibrator whose calibration scores are data.z."""
    model = nc.Normal(np.zeros(len(data.z)), 1.0)
    return nc.LocalRecalibrator(k=k, eps=eps, **options).fit(model, data.z, data.space)
