"""The two networks of the simulation study, their training, and the rule for those that collapse."""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nearcal_studies.simulation.data import INPUTS, Part, Split
from nearcal_studies.training import Schedule, seeded, train

#: Units of the hidden layers.
ARCHITECTURES = {"small": (5, 5, 5, 5), "big": (200, 200, 200, 5)}
#: The paper's layers and the modules that put them out; the inputs are its first layer, so that the fourth is the third
#: hidden one.
LAYERS = {"input": "input", "fourth": "5", "fifth": "7", "output": "output"}
#: Learning rates to choose from; the paper's range is 1e-4 to 1e-2.
RATES = (3e-4, 1e-3, 3e-3, 1e-2)
#: A network that explains less than this share of the variance of the validation responses has collapsed.
LEAST_EXPLAINED = 0.05


class Training(NamedTuple):
    """A trained module, and how it came about; seconds are those of the processor."""

    network: Any
    epochs: int
    validation_mse: float
    seconds: float


@dataclass(frozen=True)
class Health:
    """Whether a network collapsed, judged on the validation part.

    Attributes
    ----------
    explained : float
        1 - (mean squared error) / (variance of the responses).
    dead_units : tuple of int
        Of every hidden layer, the number of units that are zero in all rows.
    """

    explained: float
    dead_units: tuple[int, ...]

    @property
    def collapsed(self) -> bool:
        """Whether the network explains next to nothing, as one does whose output is constant."""
        return self.explained < LEAST_EXPLAINED


def train_network(architecture: str, split: Split, schedule: Schedule, seed: int) -> Training:
    """Fit a network to the training part by squared error, stopped early by the validation part.

    The response is standardised by the training part and the inverse is written into the last layer afterwards, so that
    the network predicts y itself.
    """
    start = time.process_time()
    center, unit = split.training.y.mean(), split.training.y.std()
    parts = [(part.x, (part.y[:, np.newaxis] - center) / unit) for part in (split.training, split.calibration)]
    losses: list[float] = []
    with seeded(seed):
        network = make_network(ARCHITECTURES[architecture])
        train(network, nn.functional.mse_loss, *parts[0], schedule, parts[1], losses)
    _predict_unstandardised(network[-1], center, unit)
    return Training(network, len(losses), float(min(losses) * unit**2), time.process_time() - start)


def make_network(hidden: tuple[int, ...]) -> Any:
    """Return hidden layers with ReLU and a linear output of one unit."""
    modules: list[Any] = []
    width = INPUTS
    for units in hidden:
        modules += [nn.Linear(width, units), nn.ReLU()]
        width = units
    return nn.Sequential(*modules, nn.Linear(width, 1))


def examine(network: Any, part: Part) -> Health:
    """Return how much of a part the network explains, and its dead units."""
    flow, dead = torch.from_numpy(part.x).float(), []
    with torch.no_grad():
        for module in network:
            flow = module(flow)
            if isinstance(module, nn.ReLU):
                dead.append(int((flow == 0).all(dim=0).sum()))
    return Health(explained_share(flow[:, 0].double().numpy(), part.y), tuple(dead))


def explained_share(prediction: NDArray[Any], y: NDArray[Any]) -> float:
    """Return 1 - (mean squared error) / variance, below zero for predictions worse than the mean."""
    return float(1 - np.mean((y - prediction) ** 2) / np.var(y))


def _predict_unstandardised(last: Any, center: float, unit: float) -> None:
    with torch.no_grad():
        last.weight *= unit
        last.bias *= unit
        last.bias += center
