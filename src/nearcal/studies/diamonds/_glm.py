"""Gamma regression with a logarithmic link."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma, polygamma

from nearcal._arrays import FloatArray
from nearcal.distributions import Distribution, Gamma
from nearcal.models.adapters import ModelAdapter

_MOST_STEPS = 100
_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class GammaRegression(ModelAdapter):
    """Y Gamma with mean exp(b₀ + xᵀb) and one shape for all; inputs are pairs (space, design).

    Attributes
    ----------
    coefficients : ndarray of shape (d + 1,)
        Intercept first.
    shape : float
        The Gamma shape α.
    """

    coefficients: FloatArray
    shape: float

    @classmethod
    def fitted(cls, design: FloatArray, y: FloatArray) -> "GammaRegression":
        """Fit by maximum likelihood."""
        coefficients = _fit_mean(_with_intercept(design), y)
        mean = np.exp(_with_intercept(design) @ coefficients)
        return cls(coefficients, fit_shape(y, mean))

    def layers(self) -> tuple[str, ...]:
        """Return the inputs and the linear predictor."""
        return ("input", "output")

    def represent(self, X: Any, layer: str) -> FloatArray:
        """Return the space that goes with the design, or the linear predictor as a column."""
        self._require_layer(layer)
        space, design = X
        return space if layer == "input" else (_with_intercept(design) @ self.coefficients)[:, np.newaxis]

    def distribution(self, X: Any) -> Distribution:
        """Return Gamma(α, μ / α)."""
        _, design = X
        return Gamma(self.shape, np.exp(_with_intercept(design) @ self.coefficients) / self.shape)


def _with_intercept(design: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(design)), design])


def _fit_mean(design: FloatArray, y: FloatArray) -> FloatArray:
    """Fit the mean by iteratively reweighted least squares; with a log link all Gamma weights are equal."""
    predictor = np.log(y)
    for _ in range(_MOST_STEPS):
        mean = np.exp(predictor)
        coefficients = np.linalg.lstsq(design, predictor + (y - mean) / mean, rcond=None)[0].astype(np.float64)
        step = design @ coefficients - predictor
        predictor = design @ coefficients
        if np.abs(step).max() < _TOLERANCE:
            break
    return coefficients


def fit_shape(y: FloatArray, mean: FloatArray) -> float:
    """Return the shape α that maximises the Gamma likelihood given the means: log α - ψ(α) = mean of r - 1 - log r."""
    ratio = y / mean
    target = float(np.mean(ratio - 1 - np.log(ratio)))
    shape = 0.5 / target  # exact for large shapes
    for _ in range(_MOST_STEPS):
        excess = np.log(shape) - digamma(shape) - target
        step = excess / (1 / shape - polygamma(1, shape))
        shape = max(shape - step, shape / 2)
        if abs(step) < _TOLERANCE * shape:
            break
    return float(shape)
