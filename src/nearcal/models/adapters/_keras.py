"""Keras 3 models on any backend: layers watched through their ``call``."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import as_float_array
from nearcal._optional import import_extra
from nearcal.models.adapters.batches import Thinning, leaves, map_leaves
from nearcal.models.adapters.networks import NetworkModel, as_networks

keras: Any = import_extra("keras", "keras", "nearcal.adapters.KerasModel")


class KerasModel(NetworkModel):
    """A trained Keras 3 model, or an ensemble of them: Sequential, functional or subclassed.

    Parameters
    ----------
    model : keras.Model or sequence of keras.Model
        A trained model; several are a deep ensemble, as in :class:`nearcal.models.adapters.TorchModel`.
    head, levels, response, output, mc_dropout, seed, batch_size
        As in :class:`nearcal.models.adapters.TorchModel`. Monte-Carlo dropout makes ``Dropout``, ``SpatialDropout`` and
        ``AlphaDropout`` layers random, and these alone.

    Notes
    -----
    X is an array with one row an input; a tuple of arrays goes to a model with several inputs, a mapping to one whose
    inputs have names.

    Layers go by their names, those inside another layer or model by the names of both joined by a slash, such as
    "encoder/dense_1"; "input" and "output" are the ends of the model. Listed are layers without layers inside, except
    inputs, dropout, flattening and reshaping. What a layer puts out is flattened to (n, d), from its last call; of
    several tensors the first counts.

    The model runs with ``training=False`` and outside compiled functions, and is left as it was found, also after an
    error. Passes of nearcal run one at a time.

    Examples
    --------
    >>> import keras, numpy as np, nearcal as nc
    >>> hidden = keras.layers.Dense(8, "relu", name="hidden")
    >>> net = keras.Sequential([keras.Input((3,)), hidden, keras.layers.Dense(1)])
    >>> rng = np.random.default_rng(0)
    >>> model = nc.adapters.KerasModel(net).prepared(rng.normal(size=(100, 3)), rng.normal(size=100))
    >>> model.layers()
    ('input', 'hidden', 'output')
    >>> model.distribution(rng.normal(size=(5, 3)))
    Normal(n=5)
    """

    _needs_dropout = (
        "a model with Dropout, SpatialDropout or AlphaDropout layers, got one with none of rate > 0; for random layers "
        "of another kind pass a function of your own draws to nearcal.Samples"
    )

    def _members(self, model: Any) -> list[Any]:
        return as_networks(model, keras.Model, "model must be a keras.Model")

    def _inference(self, network: Any) -> AbstractContextManager[None]:
        return nullcontext()  # training=False says it all

    def _forward(self, network: Any, batch: Any) -> Any:
        arrays = map_leaves(lambda part: np.array(as_float_array(part, "X")), batch)
        output = network(list(arrays) if isinstance(arrays, tuple) else arrays, training=False)
        return map_leaves(_as_array, output)

    def _named_layers(self, network: Any) -> Mapping[str, Any]:
        return dict(_all_layers(network))

    def _listed(self, network: Any) -> list[str]:
        layers = keras.layers
        plain = (
            layers.InputLayer,
            layers.Dropout,
            layers.AlphaDropout,
            layers.GaussianDropout,
            layers.GaussianNoise,
            layers.Identity,
            layers.Flatten,
            layers.Reshape,
        )
        return [name for name, layer in _childless(network) if not isinstance(layer, plain)]

    def _dropout_layers(self, network: Any) -> Iterator[Any]:
        kinds = (keras.layers.Dropout, keras.layers.AlphaDropout)  # SpatialDropout layers are Dropout layers too
        return (layer for _, layer in _all_layers(network) if isinstance(layer, kinds) and layer.rate > 0)

    def _thin(self, layer: Any, thinning: Thinning, rows: int) -> Callable[[], None]:
        keeps_moments = isinstance(layer, keras.layers.AlphaDropout)

        def thin(inputs: Any, training: bool = False) -> Any:
            factors = thinning.factors(_mask_shape(layer, inputs), layer.rate, rows, keeps_moments=keeps_moments)
            scale, shift = (keras.ops.convert_to_tensor(factor, dtype=inputs.dtype) for factor in factors)
            return inputs * scale + shift

        return _call_instead(layer, thin)

    def _watch(self, layer: Any, record: Callable[[NDArray[Any] | None], None]) -> Callable[[], None]:
        call = layer.call

        def watch(*arguments: Any, **options: Any) -> Any:
            output = call(*arguments, **options)
            first = next(leaves(output), None)
            record(None if first is None else _as_array(first))
            return output

        return _call_instead(layer, watch)


def _inner_layers(layer: Any) -> list[Any]:
    """Return the layers a layer or model holds directly, in order."""
    return list(layer.layers if isinstance(layer, keras.Model) else layer._layers)


def _all_layers(layer: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for inner in _inner_layers(layer):
        yield f"{prefix}{inner.name}", inner
        yield from _all_layers(inner, f"{prefix}{inner.name}/")


def _childless(layer: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Return the layers without layers inside; recurrent layers and wrappers, which repeat theirs, count as such."""
    layers = keras.layers
    repeating = (layers.RNN, layers.Bidirectional, layers.Wrapper)
    for inner in _inner_layers(layer):
        name = f"{prefix}{inner.name}"
        below = [] if isinstance(inner, repeating) else list(_childless(inner, f"{name}/"))
        yield from below or [(name, inner)]


def _call_instead(layer: Any, call: Callable[..., Any]) -> Callable[[], None]:
    """Let a layer call another function; return what undoes that. Not by ``setattr``, which Keras watches."""
    own = vars(layer)
    before = {"call": own["call"]} if "call" in own else {}
    own["call"] = call

    def undo() -> None:
        del own["call"]
        own.update(before)

    return undo


def _mask_shape(layer: Any, inputs: Any) -> tuple[int, ...]:
    shape = tuple(inputs.shape)
    if hasattr(layer, "_get_noise_shape"):  # a spatial dropout
        return tuple(int(size) for size in layer._get_noise_shape(inputs))
    if layer.noise_shape is None:
        return shape
    return tuple(size if given is None else given for given, size in zip(layer.noise_shape, shape, strict=True))


def _as_array(tensor: Any) -> NDArray[Any]:
    """Return a copy, since the next layer may work in place."""
    return np.array(as_float_array(tensor, "the model's output"))
