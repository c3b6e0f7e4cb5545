"""Data of the Rosenbrock study: Y Gamma with shape 100 and mean f(x₁, x₂) = (1 - x₁)² + 10 (x₂ - x₁²)²."""

from dataclasses import dataclass

import numpy as np

from nearcal._arrays import FloatArray
from nearcal.distributions import Gamma

SHAPE = 100.0


@dataclass(frozen=True)
class Data:
    """Inputs of shape (n, 2) and responses of one part of the data."""

    X: FloatArray
    y: FloatArray


def rosenbrock(x1: FloatArray, x2: FloatArray) -> FloatArray:
    """Return the Rosenbrock function with a = 1 and b = 10."""
    return (1 - x1) ** 2 + 10 * (x2 - x1**2) ** 2


def true_mean(X: FloatArray) -> FloatArray:
    """Return E(Y | x)."""
    return rosenbrock(X[:, 0], X[:, 1])


def true_distribution(X: FloatArray) -> Gamma:
    """Return the distribution of Y given x."""
    return Gamma(SHAPE, true_mean(X) / SHAPE)


def generate(n: int, seed: int) -> tuple[Data, Data, Data]:
    """Return training, calibration and test data: 80%, 10% and 10% of n observations."""
    rng = np.random.default_rng(seed)
    X = rng.uniform([-2.0, -1.0], [2.0, 5.0], size=(n, 2))
    y = rng.gamma(SHAPE, true_mean(X) / SHAPE)
    ends = [8 * n // 10, 9 * n // 10]
    train, cal, new = (Data(*part) for part in zip(np.split(X, ends), np.split(y, ends), strict=True))
    return train, cal, new
