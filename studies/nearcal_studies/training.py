"""Training of the studies' networks: minibatches and Adam, the best epoch kept if a validation set is given."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Loss = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Schedule:
    """How long and in which steps a network is trained.

    Attributes
    ----------
    epochs, batch_size, learning_rate
        As usual; the optimiser is Adam.
    patience : int or None
        With a validation set: stop after so many epochs without a smaller loss; None runs all epochs.
    decay : bool
        Whether the learning rate falls to zero, along half a cosine.
    fused : bool
        Whether Adam goes over all weights at once: twice as fast for wide networks, and rounded otherwise.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    patience: int | None = None
    decay: bool = False
    fused: bool = False


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's random numbers within a block, and leave them as they were after it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch to one thread within a block."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def train(
    network: Any,
    loss: Loss,
    X: NDArray[Any],
    y: NDArray[Any],
    schedule: Schedule,
    validation: tuple[NDArray[Any], NDArray[Any]] | None = None,
    losses: list[float] | None = None,
) -> Any:
    """Return the network, trained in place; call it within :func:`seeded`.

    With a validation set the weights of the epoch with the smallest validation loss are kept; the loss of every epoch
    is added to ``losses``.
    """
    inputs, target = (torch.tensor(array, dtype=torch.float32) for array in (X, y))
    held_out = None
    if validation is not None:
        held_out = tuple(torch.tensor(array, dtype=torch.float32) for array in validation)
    optimizer = torch.optim.Adam(network.parameters(), lr=schedule.learning_rate, fused=schedule.fused)
    steps = schedule.epochs * -(-len(target) // schedule.batch_size)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps) if schedule.decay else None
    best, best_weights, waited = np.inf, None, 0
    for _ in range(schedule.epochs):
        network.train()
        for batch in torch.randperm(len(target)).split(schedule.batch_size):
            optimizer.zero_grad()
            loss(network(inputs[batch]), target[batch]).backward()
            optimizer.step()
            if rate is not None:
                rate.step()
        if held_out is None:
            continue
        mean_loss = _mean_loss(network, loss, *held_out)
        if losses is not None:
            losses.append(mean_loss)
        waited += 1
        if mean_loss < best:
            best, best_weights, waited = mean_loss, copy.deepcopy(network.state_dict()), 0
        if schedule.patience is not None and waited >= schedule.patience:
            break
    if best_weights is not None:
        network.load_state_dict(best_weights)
    return network.eval()


def _mean_loss(network: Any, loss: Loss, inputs: Any, target: Any) -> float:
    network.eval()
    with torch.no_grad():
        return float(loss(network(inputs), target))


def weights_of(network: Any) -> dict[str, Any]:
    """Return the weights as arrays, by name."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in network.state_dict().items()}


def with_weights(network: Any, arrays: Any) -> Any:
    """Return the network with weights kept by :func:`weights_of`."""
    network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
    return network.eval()
