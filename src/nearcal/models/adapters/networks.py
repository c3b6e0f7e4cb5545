"""What the adapters of neural networks share: heads, batches, layers, dropout draws and ensembles."""

import copy
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, check_count
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal.distributions import Distribution, Mixture, Samples
from nearcal.models.adapters.anatomy import spread_of
from nearcal.models.adapters.base import ModelAdapter
from nearcal.models.adapters.batches import Inputs, Thinning, join, leaves, positions, require_rows
from nearcal.models.adapters.heads import Head, HeadLike, PointHead, Response, choose_head, guess_head, learnt_head
from nearcal.models.adapters.questions import asking, require_finite_output
from nearcal.models.adapters.targets import Target, check_target, pick_target

_ENDS = ("input", "output")
_TRACED_ROWS = 16

# flags and hooks belong to the network, so two passes at a time would disturb each other
_ONE_PASS_AT_A_TIME = threading.RLock()


class _Passed(NamedTuple):
    """What came out of one pass of all inputs: the network's output, and positions in its layers."""

    output: Any
    positions: Mapping[str, FloatArray]


class NetworkModel(ModelAdapter):
    """A network or an ensemble of networks; a framework says how a batch passes through one of them.

    Parameters
    ----------
    model : network or sequence of networks
        The one network, or the members of an ensemble.
    head, levels, response, output, mc_dropout, seed, batch_size
        As in :class:`nearcal.models.adapters.TorchModel`.
    """

    _needs_dropout: str  # what mc_dropout asks for, and where dropout layers are found

    def __init__(
        self,
        model: Any,
        *,
        head: HeadLike = "auto",
        levels: Any = None,
        response: Response = "identity",
        output: Target = None,
        mc_dropout: int | None = None,
        seed: int = 0,
        batch_size: int = 4096,
    ) -> None:
        check_target(output)
        self.networks = tuple(self._members(model))
        self.head = choose_head(head, response, levels)
        self.response = response
        self.output = output
        self.mc_dropout = None if mc_dropout is None else check_count(mc_dropout, "mc_dropout", 2)
        self.seed = check_count(seed, "seed", 0)
        self.batch_size = check_count(batch_size, "batch_size")
        self._heads: tuple[Head, ...] | None = None  # one a network, once prepared
        self._layers: tuple[str, ...] | None = None
        if mc_dropout is not None and not all(list(self._dropout_layers(network)) for network in self.networks):
            raise InvalidParameterError(f"mc_dropout needs {self._needs_dropout}")

    # ---- what a framework provides ----------------------------------------------------------------------------------

    @abstractmethod
    def _members(self, model: Any) -> Sequence[Any]:
        """Return the members of an ensemble, or the one network, after a look at what they are."""

    @abstractmethod
    def _inference(self, network: Any) -> AbstractContextManager[None]:
        """Return a context in which the network predicts, and after which it is as it was."""

    @abstractmethod
    def _forward(self, network: Any, batch: Any) -> Any:
        """Return the output of a batch, in arrays and distributions."""

    @abstractmethod
    def _named_layers(self, network: Any) -> Mapping[str, Any]:
        """Return all layers by name, those inside others included."""

    @abstractmethod
    def _listed(self, network: Any) -> Sequence[str]:
        """Return the names of the layers worth looking at."""

    @abstractmethod
    def _dropout_layers(self, network: Any) -> Iterable[Any]:
        """Return the layers that Monte-Carlo dropout makes random."""

    @abstractmethod
    def _thin(self, layer: Any, thinning: Thinning, rows: int) -> Callable[[], None]:
        """Let a dropout layer thin what it receives; return what undoes that."""

    @abstractmethod
    def _watch(self, layer: Any, record: Callable[[NDArray[Any] | None], None]) -> Callable[[], None]:
        """Record the first tensor of what a layer puts out, at every call; return what undoes that."""

    # ---- what nearcal asks of a model -------------------------------------------------------------------------------

    def layers(self) -> tuple[str, ...]:
        """Return "input", the names of layers that transform their input, and "output".

        Before :meth:`prepared` they come in the order of their definition, after it in the order in which data flow
        through them, without those that data do not reach. Other layers can be asked for by name all the same.
        """
        if self._layers is not None:
            return self._layers
        return _common([self._listed(network) for network in self.networks])

    def distribution(self, X: Any) -> Distribution:
        """Return the predictive distributions of n inputs."""
        return self.run(X, ())[0]

    def represent(self, X: Any, layer: str) -> FloatArray:
        """Return what a layer puts out, flattened to shape (n, d); always with dropout switched off."""
        self._check_layers([layer])
        inputs = Inputs(X)
        return self._positions(layer, inputs, [] if layer == "input" else self._plain_passes(inputs, [layer]))

    def run(self, X: Any, layers: Sequence[str]) -> tuple[Distribution, Mapping[str, FloatArray]]:
        """Return distributions and positions in several layers, with one pass of the inputs through the network."""
        self._check_layers(layers)
        inputs = Inputs(X)
        plain: list[_Passed] = []
        if self.mc_dropout is None or set(layers) - {"input"}:
            plain = self._plain_passes(inputs, layers)
        outputs = [[passed.output] for passed in plain] if self.mc_dropout is None else self._draw(inputs)
        return self._combine(outputs), {layer: self._positions(layer, inputs, plain) for layer in layers}

    def prepared(self, X_cal: Any, y_cal: Any) -> Self:
        """Return the model with what its head learns from the calibration set, and with its layers in order."""
        inputs = Inputs(X_cal)
        outputs = [passed.output for passed in self._plain_passes(inputs, ())]
        twin = copy.copy(self)
        twin._heads = tuple(
            head if self._makes_samples(head) else head.fit(output, y_cal)
            for head, output in zip(self._given_heads(outputs), outputs, strict=True)
        )
        twin._layers = _common([self._trace(network, inputs) for network in self.networks])
        return twin

    def learnt(self) -> dict[str, Any]:
        """Return what ``prepared`` has learnt: the heads of all networks, and the layers in order."""
        heads = tuple(learnt_head(head) for head in self._heads or ())
        return {"heads": () if None in heads else heads, "layers": self._layers}

    def with_learnt(self, learnt: Mapping[str, Any]) -> Self:
        """Return the model with what :meth:`learnt` has told."""
        heads = learnt["heads"]
        if len(heads) not in (0, len(self.networks)):
            raise InvalidInputError(
                f"model must be an ensemble of {len(heads)} networks as when it was saved, got {len(self.networks)}"
            )
        twin = copy.copy(self)
        twin._heads = heads or None
        twin._layers = learnt["layers"]
        return twin

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads of the networks, once they have seen a calibration set."""
        return self._heads or ()

    def identity(self) -> tuple[str, tuple[str, ...]]:
        """Return the classes of the networks, and their layers in the order of definition."""
        classes = ", ".join(type(network).__name__ for network in self.networks)
        return classes, _common([self._listed(network) for network in self.networks])

    def __repr__(self) -> str:
        networks = ", ".join(type(network).__name__ for network in self.networks)
        return f"{type(self).__name__}({networks}, head={self._heads[0] if self._heads else self.head or 'auto'})"

    # ---- passes -----------------------------------------------------------------------------------------------------

    def _plain_passes(self, inputs: Inputs, layers: Sequence[str]) -> list[_Passed]:
        inner = [layer for layer in layers if layer not in _ENDS]
        return [self._pass(network, inputs, inner) for network in self.networks]

    def _draw(self, inputs: Inputs) -> list[list[Any]]:
        """Return the outputs of every network with every one of its dropout masks."""
        assert self.mc_dropout is not None
        return [
            [self._pass(network, inputs, (), (self.seed, member, draw)).output for draw in range(self.mc_dropout)]
            for member, network in enumerate(self.networks)
        ]

    def _pass(
        self, network: Any, inputs: Inputs, layers: Sequence[str], dropout_seeds: tuple[int, ...] | None = None
    ) -> _Passed:
        outputs: list[Any] = []
        parts: dict[str, list[FloatArray]] = {layer: [] for layer in layers}
        with _ONE_PASS_AT_A_TIME, self._inference(network):
            for rows in inputs.batches(self.batch_size):
                count = rows.stop - rows.start
                thinning = None if dropout_seeds is None else Thinning(*dropout_seeds)  # anew: the same in every batch
                with asking(type(network).__name__):
                    output, seen = self._batch(network, inputs.take(rows), layers, thinning)
                if thinning is not None and not thinning.count:
                    raise InvalidParameterError(
                        "mc_dropout needs dropout layers that the inputs pass through, and none was called"
                    )
                require_rows(output, count)
                outputs.append(output)
                for layer in layers:
                    parts[layer].append(_layer_rows(layer, seen, count))
        whole = join(outputs)
        for leaf in leaves(whole):
            require_finite_output(leaf, inputs.given, type(network).__name__)
        return _Passed(whole, {layer: np.concatenate(several) for layer, several in parts.items()})

    def _batch(
        self, network: Any, batch: Any, layers: Sequence[str], thinning: Thinning | None
    ) -> tuple[Any, Mapping[str, NDArray[Any]]]:
        """Return the output of a batch and what the named layers put out, in the order of their last calls."""
        seen: dict[str, NDArray[Any]] = {}
        by_name = self._named_layers(network) if layers else {}
        with ExitStack() as undoing:
            if thinning is not None:
                rows = len(next(leaves(batch)))
                for layer in self._dropout_layers(network):
                    undoing.callback(self._thin(layer, thinning, rows))
            for name in layers:
                undoing.callback(self._watch(by_name[name], partial(_keep, seen, name)))
            return pick_target(self._forward(network, batch), self.output), seen

    def _trace(self, network: Any, inputs: Inputs) -> list[str]:
        """Return the listed layers in the order of their calls, without those that are no spaces of their own."""
        rows = min(len(inputs), _TRACED_ROWS)
        with _ONE_PASS_AT_A_TIME, self._inference(network):
            output, seen = self._batch(network, inputs.take(slice(0, rows)), self._listed(network), None)
        usable = [layer for layer, values in seen.items() if values.ndim and len(values) == rows]
        if usable and np.array_equal(positions(seen[usable[-1]]), positions(output)):
            usable.pop()  # the last layer is the output
        return usable

    # ---- from passes to results -------------------------------------------------------------------------------------

    def _combine(self, outputs: list[list[Any]]) -> Distribution:
        """Return the distributions that the outputs of all networks and draws stand for together."""
        heads = self._heads or self._given_heads([of_network[0] for of_network in outputs])
        pairs = [(head, output) for head, of_network in zip(heads, outputs, strict=True) for output in of_network]
        if all(self._makes_samples(head) for head in heads):
            return _samples([head.points(output) for head, output in pairs if isinstance(head, PointHead)])
        parts = [head(output) for head, output in pairs]
        return parts[0] if len(parts) == 1 else Mixture(np.ones(len(parts)), parts)

    def _given_heads(self, outputs: Sequence[Any]) -> tuple[Head, ...]:
        """Return the head of every network before it learnt anything."""
        return tuple(self.head or guess_head(output, self.response) for output in outputs)

    def _makes_samples(self, head: Head) -> bool:
        """Tell whether dropout draws stand for themselves: points without a standard deviation."""
        return self.mc_dropout is not None and isinstance(head, PointHead) and head.scale is None

    def _positions(self, layer: str, inputs: Inputs, plain: list[_Passed]) -> FloatArray:
        if layer == "input":
            return inputs.positions()
        if layer == "output":
            members = [positions(passed.output) for passed in plain]
            spread = [spread_of(members)] if len(members) > 1 else []  # near are rows of which they are as unsure
            return np.concatenate([*members, *spread], axis=1)
        return np.concatenate([passed.positions[layer] for passed in plain], axis=1)

    def _check_layers(self, layers: Sequence[str]) -> None:
        for layer in layers:
            if layer not in _ENDS and not all(layer in self._named_layers(network) for network in self.networks):
                everywhere = " of every network" if len(self.networks) > 1 else ""
                raise InvalidParameterError(
                    f"layer must be the name of a layer{everywhere}, such as {', '.join(self.layers())}, got {layer!r}"
                )


def as_networks(given: Any, kind: type[Any], rule: str, several: tuple[type[Any], ...] = (list, tuple)) -> list[Any]:
    """Return the members of an ensemble, or the one network, if there are some and all are of the right kind."""
    networks = list(given) if isinstance(given, several) else [given]
    if not networks or not all(isinstance(network, kind) for network in networks):
        names = [type(network).__name__ for network in networks]
        got = names if isinstance(given, several) else names[0]
        raise InvalidInputError(f"{rule} or a non-empty list of them, got {got}")
    return networks


def _keep(seen: dict[str, NDArray[Any]], name: str, output: NDArray[Any] | None) -> None:
    seen.pop(name, None)  # the last call counts, for the order of the layers too
    if output is not None:
        seen[name] = output


def _samples(points: Sequence[FloatArray]) -> Samples:
    draws = np.stack(points, axis=1)
    equal = np.ptp(draws, axis=1) == 0
    if equal.any():
        raise InvalidInputError(
            f"mc_dropout needs draws that differ in a row, got {int(equal.sum())} rows that dropout does not reach, "
            f"the first row {int(np.argmax(equal))}; give head=PointHead(scale=...), and every draw has its own spread"
        )
    return Samples(draws)


def _layer_rows(layer: str, seen: Mapping[str, NDArray[Any]], rows: int) -> FloatArray:
    if layer not in seen:
        raise InvalidInputError(
            f"layer {layer!r} was not called when the inputs passed through the model, or put out no tensor; choose a "
            "layer that is part of the forward pass"
        )
    values = seen[layer]
    if not values.ndim or len(values) != rows:
        raise InvalidInputError(
            f"layer {layer!r} must put out one row an input, got shape {values.shape} for a batch of {rows}; choose a "
            "layer whose output has the batch first"
        )
    return positions(values)


def _common(names: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the ends and between them the names that all networks share, in the order of the first."""
    return (
        "input",
        *(name for name in names[0] if name not in _ENDS and all(name in other for other in names)),
        "output",
    )
