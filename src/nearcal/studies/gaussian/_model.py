"""The misspecified model: a straight line and one standard deviation."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray
from nearcal.distributions import Distribution, Normal
from nearcal.models.adapters import ModelAdapter
from nearcal.studies.gaussian._data import Data


@dataclass(frozen=True)
class LinearModel(ModelAdapter):
    """Normal(intercept + slope x, sigma)."""

    intercept: float
    slope: float
    sigma: float

    @classmethod
    def fitted(cls, train: Data) -> "LinearModel":
        """Fit by least squares."""
        slope, intercept = np.polyfit(train.x, train.y, 1)
        sigma = np.std(train.y - intercept - slope * train.x)
        return cls(float(intercept), float(slope), float(sigma))

    def layers(self) -> tuple[str, ...]:
        """Return the only space there is."""
        return ("input",)

    def represent(self, X: Any, layer: str) -> FloatArray:
        """Return the inputs as a column."""
        return np.asarray(X, dtype=np.float64).reshape(-1, 1)

    def distribution(self, X: Any) -> Distribution:
        """Return the plug-in predictive distributions."""
        return Normal(self.intercept + self.slope * np.asarray(X), self.sigma)
