"""The two networks of the simulation study, their training, and the rule for those that collapse."""

import copy
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nearcal._arrays import FloatArray
from nearcal._optional import import_extra
from nearcal.studies.simulation._data import INPUTS, Part, Split

#: Units of the hidden layers.
ARCHITECTURES = {"small": (5, 5, 5, 5), "big": (200, 200, 200, 5)}
#: The paper's layers and the modules that put them out; the inputs are its first layer, so that the fourth is the third
#: hidden one.
LAYERS = {"input": "input", "fourth": "5", "fifth": "7", "output": "output"}
#: Learning rates to choose from; the paper's range is 1e-4 to 1e-2.
RATES = (3e-4, 1e-3, 3e-3, 1e-2)
#: A network that explains less than this share of the variance of the validation responses has collapsed.
LEAST_EXPLAINED = 0.05


class Schedule(NamedTuple):
    """How to train: rows a step, most epochs, epochs without a better validation error before stopping."""

    batch_size: int
    epochs: int
    patience: int


class Training(NamedTuple):
    """A trained module, and how it came about."""

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


def train(architecture: str, split: Split, schedule: Schedule, rate: float, seed: int) -> Training:
    """Fit a network to the training part by Adam and squared error, stopped early by the validation part.

    The response is standardised by the training part and the inverse is written into the last layer afterwards, so that
    the network predicts y itself. The weights of the best epoch count.
    """
    torch = import_extra("torch", "torch", "the simulation study")
    start = time.process_time()
    center, unit = split.training.y.mean(), split.training.y.std()
    x, y = _tensors(torch, split.training, center, unit)
    x_val, y_val = _tensors(torch, split.calibration, center, unit)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = make_network(torch, ARCHITECTURES[architecture])
        optimiser = torch.optim.Adam(network.parameters(), lr=rate)
        best, best_error, since_best, epoch = network.state_dict(), np.inf, 0, 0
        while epoch < schedule.epochs and since_best < schedule.patience:
            _pass_over(torch, network, optimiser, x, y, schedule.batch_size)
            with torch.no_grad():
                error = float(torch.nn.functional.mse_loss(network(x_val), y_val))
            epoch, since_best = epoch + 1, since_best + 1
            if error < best_error:
                best, best_error, since_best = copy.deepcopy(network.state_dict()), error, 0
    network.load_state_dict(best)
    _predict_unstandardised(torch, network[-1], center, unit)
    return Training(network, epoch, float(best_error * unit**2), time.process_time() - start)


def make_network(torch: Any, hidden: tuple[int, ...]) -> Any:
    """Return hidden layers with ReLU and a linear output of one unit."""
    modules: list[Any] = []
    width = INPUTS
    for units in hidden:
        modules += [torch.nn.Linear(width, units), torch.nn.ReLU()]
        width = units
    return torch.nn.Sequential(*modules, torch.nn.Linear(width, 1))


def examine(network: Any, part: Part) -> Health:
    """Return how much of a part the network explains, and its dead units."""
    torch = import_extra("torch", "torch", "the simulation study")
    flow, dead = torch.from_numpy(part.x).float(), []
    with torch.no_grad():
        for module in network:
            flow = module(flow)
            if isinstance(module, torch.nn.ReLU):
                dead.append(int((flow == 0).all(dim=0).sum()))
    return Health(explained_share(flow[:, 0].double().numpy(), part.y), tuple(dead))


def explained_share(prediction: FloatArray, y: FloatArray) -> float:
    """Return 1 - (mean squared error) / variance, below zero for predictions worse than the mean."""
    return float(1 - np.mean((y - prediction) ** 2) / np.var(y))


def _tensors(torch: Any, part: Part, center: float, unit: float) -> tuple[Any, Any]:
    y = (part.y - center) / unit
    return torch.from_numpy(part.x).float(), torch.from_numpy(y[:, np.newaxis]).float()


def _pass_over(torch: Any, network: Any, optimiser: Any, x: Any, y: Any, batch_size: int) -> None:
    order = torch.randperm(len(y))
    x, y = x[order], y[order]  # once an epoch, so that batches are views
    for rows, target in zip(x.split(batch_size), y.split(batch_size), strict=True):
        optimiser.zero_grad()
        torch.nn.functional.mse_loss(network(rows), target).backward()
        optimiser.step()


def _predict_unstandardised(torch: Any, last: Any, center: float, unit: float) -> None:
    with torch.no_grad():
        last.weight *= unit
        last.bias *= unit
        last.bias += center
