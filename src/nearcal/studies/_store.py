"""Finished units on disk: each written whole or not at all, so that a run continues where it stopped."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nearcal._atomic import replacing
from nearcal._errors import InvalidParameterError
from nearcal._version import __version__
from nearcal.studies._study import Outcome, Unit

_FORMAT = 1  # of unit files; others are done anew


class Store(Mapping[str, Outcome]):
    """The outcomes of a study's units, by key; read from their files when asked for."""

    def __init__(self, folder: Path, units: Sequence[Unit]) -> None:
        self._folder = folder
        self._digests = _digest_all(units)
        folder.mkdir(parents=True, exist_ok=True)

    def __getitem__(self, key: str) -> Outcome:
        record = self._read(key)
        if record is None:
            raise KeyError(key)
        path = self._folder / f"{key}.npz"
        if not record["has_arrays"]:
            return Outcome(record["numbers"])
        with np.load(path) as arrays:
            return Outcome(record["numbers"], dict(arrays))

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._digests if self.is_done(key))

    def __len__(self) -> int:
        """Return the number of units that are done."""
        return sum(1 for _ in self)

    def is_done(self, key: str) -> bool:
        """Tell whether the unit is there, with the settings it has now."""
        return self._read(key) is not None

    def is_outdated(self, key: str) -> bool:
        """Tell whether the unit is there, but with other settings."""
        return (self._folder / f"{key}.json").exists() and not self.is_done(key)

    def seconds(self, key: str) -> float:
        """Return how long a finished unit took."""
        record = self._read(key)
        return math.nan if record is None else record["seconds"]

    def write(self, unit: Unit, outcome: Outcome, seconds: float) -> None:
        """Keep the outcome of a unit; its JSON file is written last and makes it count."""
        arrays: dict[str, Any] = dict(outcome.arrays)
        if arrays:
            with replacing(self._folder / f"{unit.key}.npz") as file:
                np.savez_compressed(file, **arrays)
        record = {
            "digest": self._digests[unit.key],
            "settings": unit.settings,
            "seconds": seconds,
            "has_arrays": bool(arrays),
            "numbers": outcome.numbers,
        }
        write_json(self._folder / f"{unit.key}.json", record)

    def _read(self, key: str) -> dict[str, Any] | None:
        path = self._folder / f"{key}.json"
        if key not in self._digests or not path.exists():
            return None
        record: dict[str, Any] = json.loads(path.read_text())
        return record if record["digest"] == self._digests[key] else None


def _digest_all(units: Sequence[Unit]) -> dict[str, str]:
    """Return a digest of each unit's settings, of those of the units it needs, and of the version."""
    digests: dict[str, str] = {}
    for unit in units:
        missing = [key for key in unit.needs if key not in digests]
        if missing or unit.key in digests:
            raise InvalidParameterError(
                f"units must have different keys and follow what they need, got {unit.key!r} with needs {unit.needs}"
            )
        content = [_FORMAT, __version__, unit.key, plain(unit.settings), [digests[key] for key in unit.needs]]
        text = json.dumps(content, sort_keys=True)
        digests[unit.key] = hashlib.sha256(text.encode()).hexdigest()
    return digests


def write_json(path: Path, content: Any) -> None:
    """Write JSON that any reader takes, atomically."""
    with replacing(path) as file:
        file.write((json.dumps(plain(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def plain(value: Any) -> Any:
    """Return what JSON can hold: plain numbers and lists, and null for a number that does not exist or is infinite."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
