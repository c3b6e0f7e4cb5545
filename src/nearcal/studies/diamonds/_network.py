"""The Gamma network: hidden layers of 100, 5 and 5, and a forked exponential output with one shape for all."""

from typing import Any

import numpy as np

from nearcal._arrays import FloatArray
from nearcal.distributions import Gamma
from nearcal.models import adapters
from nearcal.studies._training import Schedule, import_torch, seeded, train
from nearcal.studies.diamonds._data import Data

WIDTHS = (100, 5, 5)


def make_network(inputs: int, typical: float) -> Any:
    """Return an untrained network whose outputs are log μ and log α; it starts from a typical response.

    The weights of log α are zero and stay zero, so that the shape is one number, its bias, as in the paper.
    """
    torch = import_torch()
    nn = torch.nn
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


def as_model(network: Any) -> adapters.ModelAdapter:
    """Return the network as nearcal sees it: Gamma(α, μ / α)."""
    return adapters.TorchModel(network, head=_gamma)


def _gamma(output: FloatArray) -> Gamma:
    shape = np.exp(output[:, 1])
    return Gamma(shape, np.exp(output[:, 0]) / shape)
