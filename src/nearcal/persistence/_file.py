"""The file: safetensors, made so that no changed byte goes unnoticed and arrays can be used where they lie.

A safetensors file is the length of a header (8 bytes, little-endian), the header (JSON), and the arrays without gaps.
It is written and read here and not by the package of that name: of 160 MB (``benchmarks/persistence.py``) its reader
makes a copy in every process, in 80 ms, where mapping takes no memory and 0.2 ms, or 100 with the checksum. Its writer
is as fast as ours, but starts arrays anywhere (off a cache line the search in many dimensions loses a fifth of its
speed) and has the header in random order, with no place for a checksum of it. What is added to the format:

- The header begins with the version of our format, then its own checksum (computed with zeros in its place) and that of
  the arrays, then the manifest.
- The header is padded and arrays are ordered such that each starts at a multiple of its element size, and of 64 bytes,
  a cache line, if its size is one.
"""

import hashlib
import json
import math
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nearcal._errors import ArtefactError

FORMAT = 2
_LINE = 64
_CHUNK = 2**20
_BEGIN = b'{"__metadata__":{"nearcal_format":"'
_BEFORE_DIGEST = _BEGIN + f'{FORMAT}","header_sha256":"'.encode()
_NO_DIGEST = b"0" * 64
_DTYPES = {
    "BOOL": np.dtype("?"),
    **{f"{name}{8 * size}": np.dtype(f"<{name.lower()}{size}") for name in "IU" for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def write_file(file: BinaryIO, manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write the manifest and the arrays, those of bool, integer and float types."""
    parts = {name: np.asarray(array, array.dtype.newbyteorder("<"), order="C") for name, array in arrays.items()}
    parts = dict(sorted(parts.items(), key=lambda part: -_alignment(part[1].nbytes)))
    digest = hashlib.sha256()
    for part in parts.values():
        digest.update(_as_bytes(part))
    file.write(_make_header(manifest, parts, digest.hexdigest()))
    for part in parts.values():
        file.write(_as_bytes(part))


def read_file(path: Path, verify: bool, is_mapped: bool = True) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return manifest and arrays, read-only views of the mapped file or of a copy; ``verify`` compares the checksum."""
    with path.open("rb") as file:
        header, start = _read_header(file, path)
        entries = json.loads(header)
        metadata = entries.pop("__metadata__")
        size = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
        if _size(file) != start + size:
            raise _damaged(path, f"it has {_size(file)} bytes, it should have {start + size}")
        if is_mapped:
            digest = _digest_rest(file) if verify else None
            data = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)[start:]
        else:
            data = _read_aligned(file, size)
            digest = hashlib.sha256(data.data).hexdigest() if verify else None
    if digest not in (None, metadata["data_sha256"]):
        raise _damaged(path, "its arrays do not match their checksum")
    arrays = {name: _as_array(data, name, **entry) for name, entry in entries.items()}
    return json.loads(metadata["manifest"]), arrays


def _alignment(size: int) -> int:
    """Return the largest power of two, up to a cache line, that divides a size."""
    return min(size & -size, _LINE) or _LINE


def _as_bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _read_aligned(file: BinaryIO, size: int) -> NDArray[np.uint8]:
    """Read bytes into memory of this process, from the start of a cache line on."""
    room = np.empty(size + _LINE, np.uint8)
    data = room[-room.ctypes.data % _LINE :][:size]
    if file.readinto(data) != size:  # type: ignore[attr-defined]
        raise ValueError("its end is missing")
    data.flags.writeable = False
    return data


def _as_array(
    data: NDArray[np.uint8], name: str, dtype: str, shape: list[int], data_offsets: list[int]
) -> NDArray[Any]:
    start, stop = data_offsets
    kind = _DTYPES[dtype]
    if min([start, *shape]) < 0 or math.prod(shape) * kind.itemsize != stop - start:
        raise ValueError(f"{name} must have the {stop - start} bytes that its shape says, got {shape} of {dtype}")
    if 0 in shape[1:] or start % kind.itemsize:  # an array of zero width could claim to be of any length
        raise ValueError(f"{name} must not be of zero width, and start at a whole element, got {shape} at {start}")
    return data[start:stop].view(kind).reshape(shape)


def _make_header(manifest: Mapping[str, Any], parts: Mapping[str, NDArray[Any]], data_digest: str) -> bytes:
    metadata = {
        "nearcal_format": str(FORMAT),
        "header_sha256": _NO_DIGEST.decode(),
        "data_sha256": data_digest,
        "manifest": json.dumps(manifest, allow_nan=False),
    }
    entries: dict[str, Any] = {"__metadata__": metadata}
    start = 0
    for name, part in parts.items():
        stop = start + part.nbytes
        entries[name] = {"dtype": _DTYPE_NAMES[part.dtype], "shape": part.shape, "data_offsets": (start, stop)}
        start = stop
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _LINE)
    header = len(text).to_bytes(8, "little") + text
    return header.replace(_NO_DIGEST, _digest_header(header), 1)


def _digest_header(header: bytes) -> bytes:
    """Return the checksum of a header that has zeros in place of it."""
    return hashlib.sha256(header).hexdigest().encode()


def _read_header(file: BinaryIO, path: Path) -> tuple[bytes, int]:
    """Return the header, found intact, and where it ends."""
    begin = file.read(8 + len(_BEFORE_DIGEST))
    if begin[8 : 8 + len(_BEGIN)] != _BEGIN:
        raise ArtefactError(
            f"{path} is not a file written by nearcal.save, or has lost its beginning; "
            "a model itself is loaded by the framework that saved it"
        )
    if begin[8:] != _BEFORE_DIGEST:
        _refuse_format(begin[8 + len(_BEGIN) :], path)
    length = int.from_bytes(begin[:8], "little")
    if 8 + length > _size(file):
        raise _damaged(path, "its end is missing")
    header = begin + file.read(8 + length - len(begin))
    place = slice(len(begin), len(begin) + len(_NO_DIGEST))
    if header[place] != _digest_header(header[: place.start] + _NO_DIGEST + header[place.stop :]):
        raise _damaged(path, "its header does not match its checksum")
    return header[8:], len(header)


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _refuse_format(version: bytes, path: Path) -> None:
    number = version.partition(b'"')[0]
    if number.isdigit() and int(number) > FORMAT:
        raise ArtefactError(
            f"{path} has format {int(number)}, this version of nearcal reads up to {FORMAT}; install a newer nearcal"
        )
    if number.isdigit():
        raise ArtefactError(
            f"{path} has format {int(number)} of an older nearcal, this version reads format {FORMAT} alone; "
            "fit and save again"
        )
    raise _damaged(path, "its header is not that of any known format")


def _digest_rest(file: BinaryIO) -> str:
    """Return the checksum of the rest of a file, by reading: mapped pages would count as memory of this process."""
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _damaged(path: Path, how: str) -> ArtefactError:
    return ArtefactError(f"{path} is damaged: {how}; restore it from a copy, or fit and save again")
