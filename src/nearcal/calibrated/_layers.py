"""Names of spaces: a layer of the model, or several joined to one, as in "input + output"."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray
from nearcal.adapters import ModelAdapter
from nearcal.distributions import Distribution

_JOINT = " + "
_WIDEST = 256  # columns of a layer that takes part in the joined space


def run_layers(adapter: ModelAdapter, X: Any, names: Sequence[str]) -> tuple[Distribution, dict[str, FloatArray]]:
    """Return the distributions of inputs and their positions in spaces, joined ones included, in one pass."""
    parts = {name: layer_parts(adapter, name) for name in names}
    dist, found = adapter.run(X, list(dict.fromkeys(part for several in parts.values() for part in several)))
    return dist, {name: _join(found, several) for name, several in parts.items()}


def represent_layer(adapter: ModelAdapter, X: Any, name: str) -> FloatArray:
    """Return the positions of inputs in one space."""
    parts = layer_parts(adapter, name)
    return _join({part: adapter.represent(X, part) for part in parts}, parts)


def with_joined(layers: Sequence[str], spaces: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Return the spaces and the first, the last hidden and the output layer joined, wide layers left out."""
    parts = list(dict.fromkeys([layers[0], *layers[-2:]]))
    parts = [part for part in parts if spaces[part].shape[1] <= _WIDEST]
    joined = {_JOINT.join(parts): _join(spaces, parts)} if len(parts) > 1 else {}
    return {**spaces, **joined}


def layer_parts(adapter: ModelAdapter, name: str) -> list[str]:
    """Return the layers that a space consists of."""
    return [name] if name in adapter.layers() else name.split(_JOINT)


def _join(spaces: Mapping[str, FloatArray], parts: Sequence[str]) -> FloatArray:
    return spaces[parts[0]] if len(parts) == 1 else np.hstack([spaces[part] for part in parts])
