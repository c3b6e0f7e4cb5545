"""Objects as JSON, with their arrays set aside.

What JSON knows stands for itself. Everything else is an object of one member that names its kind: ``{"float": "inf"}``,
``{"tuple": [...]}``, ``{"dict": {...}}``, ``{"strings": [...]}`` for an array of strings, ``{"array": name}`` or
``{"transposed": name}``, and ``{"object": i}`` for the i-th of a list in which each object comes after those it holds.
An object that is held twice is saved once.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._errors import ArtefactError, InvalidInputError
from nearcal._saved import from_saved, is_savable, savable_classes, to_saved

_MOST_CHARACTERS = 2**26  # of an array of strings, all as long as the longest


class Encoder:
    """Turns values into JSON; collects ``objects`` and ``arrays`` on the way."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.arrays: dict[str, NDArray[Any]] = {}
        self._places: dict[int, int] = {}  # of objects, by id
        self._alive: list[Any] = []  # the objects, some of which are made to be saved: an id must not come twice

    def encode(self, value: Any, name: str) -> Any:
        """Return what stands for a value; ``name`` tells where it was found."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray):
            return self._encode_array(value, name)
        if is_savable(value):
            return {"object": self._encode_object(value, name)}
        if isinstance(value, list):
            return [self.encode(item, f"{name}.{i}") for i, item in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": self.encode(list(value), name)}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": self._encode_items(value, name)}
        raise _refuse(type(value).__name__, name)

    def _encode_items(self, items: Mapping[str, Any], name: str) -> dict[str, Any]:
        return {key: self.encode(value, f"{name}.{key}") for key, value in items.items()}

    def _encode_object(self, value: Any, name: str) -> int:
        if id(value) not in self._places:
            holds = self._encode_items(to_saved(value), name)
            self._places[id(value)] = len(self.objects)
            self._alive.append(value)
            self.objects.append({"class": type(value).__name__, "holds": holds})
        return self._places[id(value)]

    def _encode_array(self, array: NDArray[Any], name: str) -> dict[str, Any]:
        if array.dtype.kind == "U" and array.ndim == 1 and array.nbytes <= 4 * _MOST_CHARACTERS:
            return {"strings": array.tolist()}
        if array.dtype.kind not in "biuf" or array.itemsize > 8:
            raise _refuse(f"an array of {array.ndim} dimensions and dtype {array.dtype}", name)
        while name in self.arrays:  # dots in the keys of dictionaries can make two names one
            name += "'"
        # sums follow the layout in memory: for the same bits it is kept
        self.arrays[name] = array.T if array.flags.fnc else array
        return {"transposed" if array.flags.fnc else "array": name}


def _refuse(kind: str, name: str) -> InvalidInputError:
    return InvalidInputError(f"{name} must be made of numbers, strings and arrays of them to be saved, got {kind}")


class Decoder:
    """Turns what ``Encoder`` made into values again."""

    def __init__(self, objects: list[dict[str, Any]], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._objects: list[Any] = []
        self._decoders: dict[str, Callable[[Any], Any]] = {
            "array": lambda name: arrays[name],
            "dict": self._decode_items,
            "float": float,
            "object": lambda place: self._objects[place],
            "strings": _as_strings,
            "transposed": lambda name: arrays[name].T,
            "tuple": lambda items: tuple(self.decode(items)),
        }
        for item in objects:
            self._objects.append(from_saved(_known(item["class"]), self._decode_items(item["holds"])))

    def decode(self, node: Any) -> Any:
        """Return the value a node stands for."""
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        return self._decoders[kind](content)

    def _decode_items(self, items: Mapping[str, Any]) -> dict[str, Any]:
        return {key: self.decode(node) for key, node in items.items()}


def _as_strings(items: list[str]) -> NDArray[np.str_]:
    longest = max((len(item) for item in items), default=1)
    if len(items) * longest > _MOST_CHARACTERS or not all(isinstance(item, str) for item in items):
        raise InvalidInputError(f"an array of {len(items)} strings of up to {longest} characters is none of nearcal's")
    return np.array(items, dtype=np.str_)


def _known(name: str) -> str:
    """Return the name of a class that is known, or refuse it; all are, once what defines them is imported."""
    if name not in savable_classes():
        import_savable()
    if name not in savable_classes():
        raise ArtefactError(f"it holds a {name!r}, which this version of nearcal does not know")
    return name


def import_savable() -> None:
    """Import every package that defines classes of saved objects; only here, since searches bring compilers along."""
    from nearcal import compiled, models, online, tuning  # noqa: F401
    from nearcal.space.search import import_searches

    import_searches()
