"""The two models: Gamma regression with a logarithmic link, and a network with a Gamma likelihood."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import digamma
from sklearn.linear_model import GammaRegressor
from torch import nn

import nearcal as nc
from nearcal_studies.diamonds.data import Data
from nearcal_studies.training import Schedule, seeded, train

WIDTHS = (100, 5, 5)


@dataclass(frozen=True, eq=False)
class GammaRegression(nc.adapters.ModelAdapter):
    """Y Gamma with mean exp(b₀ + xᵀb), fitted by maximum likelihood, and one shape α; inputs are (space, design)."""

    mean: GammaRegressor
    shape: float

    @classmethod
    def fitted(cls, design: NDArray[Any], y: NDArray[Any]) -> "GammaRegression":
        """Fit by maximum likelihood."""
        mean = GammaRegressor(alpha=0, solver="newton-cholesky", tol=1e-10).fit(design, y)
        return cls(mean, fit_shape(y, mean.predict(design)))

    def layers(self) -> tuple[str, ...]:
        """Return the inputs and the linear predictor."""
        return ("input", "output")

    def represent(self, X: Any, layer: str) -> NDArray[Any]:
        """Return the space that goes with the design, or the linear predictor as a column."""
        space, design = X
        return space if layer == "input" else np.log(self.mean.predict(design))[:, np.newaxis]

    def distribution(self, X: Any) -> nc.Distribution:
        """Return Gamma(α, μ / α)."""
        _, design = X
        return nc.Gamma(self.shape, self.mean.predict(design) / self.shape)


def fit_shape(y: NDArray[Any], mean: NDArray[Any]) -> float:
    """Return the shape α that maximises the Gamma likelihood given the means: log α - ψ(α) = mean of r - 1 - log r."""
    ratio = y / mean
    target = np.mean(ratio - 1 - np.log(ratio))
    least = 0.5 / target  # 1 / 2α < log α - ψ(α) < 1 / α
    return float(brentq(lambda shape: np.log(shape) - digamma(shape) - target, least, 2 * least, xtol=1e-12))


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
