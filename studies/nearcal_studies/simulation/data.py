"""Data of the simulation study (section 4.3): a nonlinear mean of ten inputs, ten more that say nothing, and noise."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

INPUTS = 20
NOISE_VARIANCE = 1.0  # the mean squared error of the true model
_TRAINING, _CALIBRATION = 0.8, 0.1


class Part(NamedTuple):
    """Rows of one part: inputs (n, 20) and responses (n,)."""

    x: NDArray[Any]
    y: NDArray[Any]


class Split(NamedTuple):
    """The three parts: 80% to train, 10% to validate and calibrate, 10% to test."""

    training: Part
    calibration: Part
    test: Part


def correlated_inputs(n: int, d: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return n Normal inputs of mean 0 and covariance 0.5^|i - j|, shape (n, d)."""
    x = np.empty((n, d))
    x[:, 0] = rng.normal(size=n)
    for j in range(1, d):  # an autoregression of order one has exactly that covariance
        x[:, j] = 0.5 * x[:, j - 1] + np.sqrt(0.75) * rng.normal(size=n)
    return x


def true_mean(x: NDArray[Any]) -> NDArray[Any]:
    """Return E[Y | x] of inputs of shape (n, 20), the paper's equation of the model without its noise."""
    x1, x2, x3, x4, x5, x6, x7, x8, x9, x10 = x[:, :10].T
    return (
        5
        + 10 * x1
        + 10 / (x2**2 + 1)
        + 5 * x3 * x4
        + 2 * x4
        + 5 * x4**2
        + 5 * x5
        + 2 * x6
        + 10 / (x7**2 + 1)
        + 5 * x8 * x9
        + 5 * x9**2
        + 5 * x10
    )


def simulate(n: int, seed: int) -> Split:
    """Return n rows of the model, split; rows are independent, so that the first 80% are a random 80%."""
    rng = np.random.default_rng([n, seed])
    x = correlated_inputs(n, INPUTS, rng)
    y = true_mean(x) + rng.normal(scale=np.sqrt(NOISE_VARIANCE), size=n)
    ends = [round(_TRAINING * n), round((_TRAINING + _CALIBRATION) * n)]
    return Split(*(Part(*part) for part in zip(np.split(x, ends), np.split(y, ends), strict=True)))
