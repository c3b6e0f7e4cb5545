"""What the linear model does with endless data: exact figures that a mean over seeds can be held against."""

from dataclasses import replace

import numpy as np

from nearcal.studies.gaussian._data import Data, true_distribution, true_mean
from nearcal.studies.gaussian._model import LinearModel

_POINTS = 100_001


def population_figures() -> dict[str, float]:
    """Return MSE to the true mean and coverage in per cent of the best straight line, by quadrature over x."""
    x = np.linspace(2, 20, _POINTS)
    mean = true_mean(x)
    line = LinearModel.fitted(Data(x, mean))  # its sigma is the misfit alone: the data have no noise
    sigma = np.sqrt(line.sigma**2 + np.mean((30 * x) ** 2))
    lower, upper = replace(line, sigma=float(sigma)).distribution(x).interval(0.95)
    true = true_distribution(x)
    return {"mse": line.sigma**2, "coverage": float(100 * np.mean(true.cdf(upper) - true.cdf(lower)))}
