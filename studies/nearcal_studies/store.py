"""Finished units on disk: each written whole or not at all, so that a run continues where it stopped."""

import hashlib
import io
import json
import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import nearcal as nc
from nearcal_studies.study import Outcome, Unit

_FORMAT = 2  # of unit files; others are done anew
_PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "torch", "lightgbm", "matplotlib")


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
        if not record["has_arrays"]:
            return Outcome(record["numbers"])
        with np.load(self._folder / f"{key}.npz") as arrays:
            return Outcome(record["numbers"], dict(arrays))

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._digests if self._read(key) is not None)

    def __len__(self) -> int:
        """Return the number of units that are done."""
        return sum(1 for _ in self)

    def is_outdated(self, key: str) -> bool:
        """Tell whether the unit is there, but with other settings."""
        return (self._folder / f"{key}.json").exists() and self._read(key) is None

    def seconds(self, key: str) -> float:
        """Return how long a finished unit took."""
        record = self._read(key)
        return math.nan if record is None else record["seconds"]

    def write(self, unit: Unit, outcome: Outcome, seconds: float) -> None:
        """Keep the outcome of a unit; its JSON file is written last and makes it count."""
        if outcome.arrays:
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **outcome.arrays)
            write_whole(self._folder / f"{unit.key}.npz", buffer.getvalue())
        record = {
            "digest": self._digests[unit.key],
            "settings": unit.settings,
            "seconds": seconds,
            "has_arrays": bool(outcome.arrays),
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
    """Return a digest of each unit's settings, of those of the units it needs, and of nearcal's version."""
    digests: dict[str, str] = {}
    for unit in units:
        if unit.key in digests or not set(unit.needs) <= set(digests):
            raise ValueError(
                f"units must have different keys and follow what they need, got {unit.key!r} with needs {unit.needs}"
            )
        content = [_FORMAT, nc.__version__, unit.key, plain(unit.settings), [digests[key] for key in unit.needs]]
        digests[unit.key] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return digests


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is replaced as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def write_json(path: Path, content: Any) -> None:
    """Write JSON that any reader takes."""
    text = json.dumps(plain(content), indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, f"{text}\n".encode())


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


def versions() -> dict[str, str]:
    """Return the versions of what decides the results."""
    found = {"python": platform.python_version(), "nearcal": nc.__version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
