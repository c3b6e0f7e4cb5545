"""Data of the Gaussian study: Y = 10 + 5 X² + e, X uniform on (2, 20), e Normal with standard deviation 30 X."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray
from nearcal.distributions import Normal


@dataclass(frozen=True)
class Data:
    """Inputs and responses of one part of the data."""

    x: FloatArray
    y: FloatArray


def true_mean(x: Any) -> Any:
    """Return E(Y | x)."""
    return 10 + 5 * x**2


def true_distribution(x: FloatArray) -> Normal:
    """Return the distribution of Y given x."""
    return Normal(true_mean(x), 30 * x)


def generate(n: int, seed: int) -> tuple[Data, Data, Data]:
    """Return training, calibration and test data: 80%, 10% and 10% of n observations."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(2, 20, size=n)
    y = rng.normal(true_mean(x), 30 * x)
    ends = [8 * n // 10, 9 * n // 10]
    train, cal, new = (Data(*part) for part in zip(np.split(x, ends), np.split(y, ends), strict=True))
    return train, cal, new
