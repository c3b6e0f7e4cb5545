"""The two models: Gamma regression with a logarithmic link, and a network with a Gamma likelihood."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import digamma, polygamma
from torch import nn

import nearcal as nc
from nearcal_studies.diamonds.data import Data
from nearcal_studies.training import Schedule, seeded, train

WIDTHS = (100, 5, 5)
_MOST_STEPS = 100
_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class GammaRegression(nc.adapters.ModelAdapter):
    """Y Gamma with mean exp(b₀ + xᵀb) and one shape for all; inputs are pairs (space, design).

    Attributes
    ----------
    coefficients : ndarray of shape (d + 1,)
        Intercept first.
    shape : float
        The Gamma shape α.
    """

    coefficients: NDArray[Any]
    shape: float

    @classmethod
    def fitted(cls, design: NDArray[Any], y: NDArray[Any]) -> "GammaRegression":
        """Fit by maximum likelihood."""
        coefficients = _fit_mean(_with_intercept(design), y)
        mean = np.exp(_with_intercept(design) @ coefficients)
        return cls(coefficients, fit_shape(y, mean))

    def layers(self) -> tuple[str, ...]:
        """Return the inputs and the linear predictor."""
        return ("input", "output")

    def represent(self, X: Any, layer: str) -> NDArray[Any]:
        """Return the space that goes with the design, or the linear predictor as a column."""
        space, design = X
        return space if layer == "input" else (_with_intercept(design) @ self.coefficients)[:, np.newaxis]

    def distribution(self, X: Any) -> nc.Distribution:
        """Return Gamma(α, μ / α)."""
        _, design = X
        return nc.Gamma(self.shape, np.exp(_with_intercept(design) @ self.coefficients) / self.shape)


def _with_intercept(design: NDArray[Any]) -> NDArray[Any]:
    return np.column_stack([np.ones(len(design)), design])


def _fit_mean(design: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
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


def fit_shape(y: NDArray[Any], mean: NDArray[Any]) -> float:
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


def make_network(inputs: int, typical: float) -> Any:
    """Return an untrained network whose outputs are log μ and log α; it starts from a typical response.

    The weights of log α are zero and stay zero, so that the shape is one number, its bias, as in the paper.
    """
    layers = []
    for width in WIDTHS:
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    fork = nn.Linear(inputs, 2)
    free = torch.tensor([[1.0], [0.0]])
    with torch.no_grad():
        fork.weight.mul_(free)
        fork.bias.copy_(torch.tensor([np.log(typical), 0.0]))
    fork.weight.register_hook(lambda gradient: gradient * free)
    return nn.Sequential(*layers, fork)


def gamma_loss(output: Any, y: Any) -> Any:
    """Return the mean negative log-likelihood of Gamma responses with mean μ and shape α."""
    log_mean, log_shape = output[:, 0], output[:, 1]
    shape = log_shape.exp()
    scaled = y.log() - log_mean
    density = shape * (log_shape + scaled - scaled.exp()) - y.log() - shape.lgamma()
    return -density.mean()


def train_network(data: Data, validation: Data, schedule: Schedule, seed: int) -> Any:
    """Return a trained network; the epoch with the smallest loss on the validation set is kept."""
    with seeded(seed):
        network = make_network(data.X.shape[1], float(data.y.mean()))
        return train(network, gamma_loss, data.X, data.y, schedule, (validation.X, validation.y))


def as_model(network: Any) -> nc.adapters.ModelAdapter:
    """Return the network as nearcal sees it: Gamma(α, μ / α)."""
    return nc.adapters.TorchModel(network, head=_gamma)


def _gamma(output: NDArray[Any]) -> nc.Gamma:
    shape = np.exp(output[:, 1])
    return nc.Gamma(shape, np.exp(output[:, 0]) / shape)
