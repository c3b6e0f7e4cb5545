"""Shards in a folder: built by streaming through points that need not fit in memory, and mapped when they are searched.

Points are sorted externally. Cuts of a tree over a sample say which bucket each belongs to; buckets are files; each is
read by itself, cut into leaves, and appended to one file for each kind of array. A bucket that is too large, as when
many points are equal, becomes several shards: these may overlap. The folder appears under its name when it is complete.
"""

import hashlib
import json
import mmap
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray
from nearcal._atomic import replacing
from nearcal._errors import ArtefactError
from nearcal._saved import count, require, savable, saved_value, text
from nearcal.space.shards import Shard, ShardsHere

ROWS_PER_SHARD = 2**20
_FORMAT = 1
_CONTENTS = "shards.json"
_KINDS: Mapping[str, Any] = {
    "leaves": np.float64, "ids": np.int32, "rows": np.int32, "z": np.float64, "places": np.int32,
    "low": np.float64, "high": np.float64, "cut_dim": np.int32, "cut_value": np.float64,
}  # fmt: skip
_IN_MEMORY = ("low", "high", "cut_dim", "cut_value")
_OF_INDEX = ("leaves", "ids", "low", "high", "cut_dim", "cut_value")


def build_shards(
    folder: Path,
    batches: Iterable[tuple[FloatArray, FloatArray]],
    n: int,
    sample: FloatArray,
    rows_per_shard: int = ROWS_PER_SHARD,
) -> "ShardsInFolder":
    """Build shards of n points in a folder, from batches of positions (m, d) and scores (m,), given some positions."""
    with _replacing_folder(folder) as new:
        bounds = _find_cuts(sample, -(-n // rows_per_shard))
        buckets = _sort_into_buckets(new, batches, *bounds)
        sizes, corners = _write_shards(new, buckets, sample.shape[1], rows_per_shard)
        with replacing(new / _CONTENTS) as file:
            file.write(json.dumps({"format": _FORMAT, "sizes": sizes, "corners": corners}).encode())
    return ShardsInFolder(folder)


def _find_cuts(sample: FloatArray, buckets: int) -> tuple[NDArray[np.int32], FloatArray]:
    from nearcal.kernels.tree import order_points

    cuts = order_points(np.ascontiguousarray(sample), -(-len(sample) // min(buckets, len(sample))))
    return cuts.cut_dim, cuts.cut_value


def _sort_into_buckets(
    folder: Path, batches: Iterable[tuple[FloatArray, FloatArray]], cut_dim: NDArray[np.int32], cut_value: FloatArray
) -> list[Path]:
    """Append each point to the file of its bucket: number, score and position, in the order in which they come."""
    from nearcal.kernels.tree import find_leaves

    paths, start = [folder / f"{number}.bucket" for number in range(len(cut_dim))], 0
    for points, z in batches:
        rows = np.arange(start, start + len(z), dtype=np.float64)
        records = np.column_stack([rows, z, points])
        which = find_leaves(cut_dim, cut_value, np.ascontiguousarray(points))
        order = np.argsort(which, kind="stable")
        present, first = np.unique(which[order], return_index=True)
        for number, part in zip(present.tolist(), np.split(records[order], first[1:]), strict=True):
            with paths[number].open("ab") as file:
                file.write(np.ascontiguousarray(part).data)
        start += len(z)
    return [path for path in paths if path.exists()]


def _write_shards(
    folder: Path, buckets: list[Path], d: int, rows_per_shard: int
) -> tuple[list[int], list[list[list[float]]]]:
    """Write the arrays of all shards; return their sizes and corners."""
    sizes, corners = [], []
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / name).open("xb")) for name in _KINDS}
        for records in _read_buckets(buckets, d, rows_per_shard):
            shard = Shard.of(records[:, 2:], records[:, 1], records[:, 0].astype(np.intp))
            sizes.append(len(records))
            corners.append(shard.corners.tolist())
            _append(files, shard)
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
    return sizes, corners


def _read_buckets(buckets: list[Path], d: int, rows_per_shard: int) -> Iterator[FloatArray]:
    """Yield the records of each bucket, of a large one in several parts; its file is then removed."""
    for path in buckets:
        with path.open("rb") as file:
            left = path.stat().st_size // (8 * (d + 2))
            while left:
                rows = left if left < 2 * rows_per_shard else rows_per_shard
                yield np.fromfile(file, np.float64, rows * (d + 2)).reshape(rows, d + 2)
                left -= rows
        path.unlink()


def _append(files: Mapping[str, BinaryIO], shard: Shard) -> None:
    tree, places = shard.index.tree, len(shard.index.tree.ids)
    padded = {"rows": np.resize(shard.rows, places), "z": np.resize(shard.z, places)}
    arrays = {**tree._asdict(), **padded, "places": shard.places}
    for name, dtype in _KINDS.items():
        files[name].write(np.ascontiguousarray(arrays[name], dtype).data)


@contextmanager
def _replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder that takes the place of one with shards, or of none, when the block ends without an error."""
    if folder.exists() and not (folder / _CONTENTS).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ArtefactError(f"folder must be new, or hold shards that are to be replaced, got {folder}; choose another")
    if not folder.absolute().parent.is_dir():
        raise ArtefactError(f"folder must lie in an existing directory, got {folder}; create {folder.parent} first")
    token = secrets.token_hex(8)
    new, old = (folder.with_name(f".nearcal-{token}.{kind}") for kind in ("new", "old"))
    new.mkdir()
    try:
        yield new
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    finally:
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)


@savable
class ShardsInFolder(ShardsHere):
    """Shards in a folder, mapped into memory: what is searched often stays in the page cache of the system.

    Parameters
    ----------
    folder : Path
        Where :func:`build_shards` has put them.
    digest : str, optional
        Of the list of its contents, where a file says which shards it belongs to.
    """

    def __init__(self, folder: Path, digest: str | None = None) -> None:
        self.folder = folder
        try:
            listed = (folder / _CONTENTS).read_bytes()
        except OSError as error:
            raise ArtefactError(f"there are no shards in {folder}; put the folder back where it was built") from error
        self.digest = hashlib.sha256(listed).hexdigest()
        if digest not in (None, self.digest):
            raise ArtefactError(f"{folder} holds other shards than those of this file; fit again")
        contents = json.loads(listed)
        require(contents["format"] == _FORMAT, f"{folder} must be of format {_FORMAT}, got {contents['format']}")
        corners = np.array(contents["corners"])
        self._maps = _Maps(folder, contents["sizes"], corners.shape[2])
        super().__init__([self._maps.open(number) for number in range(len(contents["sizes"]))])

    def ask(self, question: str, asked: Sequence[tuple[int, tuple[Any, ...]]]) -> list[Any]:
        """Ask shards one after the other; what each has read stays in the page cache, and not in this process."""
        answers = []
        for one in asked:
            answers += super().ask(question, [one])
            self._maps.let_go(one[0])
        return answers

    def _to_saved(self) -> dict[str, Any]:
        n, d = self.shape
        return {"folder": str(self.folder.resolve()), "digest": self.digest, "n": n, "d": d}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        folder, digest = (text(name, saved_value(saved, name)) for name in ("folder", "digest"))
        index = cls(Path(folder), digest)
        shape = tuple(count()(name, saved_value(saved, name)) for name in ("n", "d"))
        require(index.shape == shape, f"shards must hold {shape} points, got {index.shape}")
        return index

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.folder, self.digest)


class _Maps:
    """The files of a folder: large ones mapped, what every search looks at in memory."""

    def __init__(self, folder: Path, sizes: list[int], d: int) -> None:
        from nearcal.kernels.boxes import GROUP, LEAF

        leaves = [-(-n // LEAF) for n in sizes]
        groups = [-(-number // GROUP) for number in leaves]
        shapes: dict[str, tuple[list[int], tuple[int, ...]]] = {
            "leaves": (leaves, (d, LEAF)), "ids": (leaves, (LEAF,)), "rows": (leaves, (LEAF,)), "z": (leaves, (LEAF,)),
            "places": (sizes, ()), "low": (groups, (d, GROUP)), "high": (groups, (d, GROUP)),
            "cut_dim": (leaves, ()), "cut_value": (leaves, ()),
        }  # fmt: skip
        self._sizes, self._starts = sizes, {name: np.cumsum([0, *each]).tolist() for name, (each, _) in shapes.items()}
        self._files = {
            name: _map(folder / name, _KINDS[name], (sum(each), *rest)) for name, (each, rest) in shapes.items()
        }
        self._arrays = {
            name: np.array(file) if name in _IN_MEMORY else file.view(np.ndarray) for name, file in self._files.items()
        }
        cut_dim = self._arrays["cut_dim"]
        if not (cut_dim.min() >= 0 and cut_dim.max() < d):  # by which compiled code finds a column
            raise ArtefactError(f"{folder / 'cut_dim'} is damaged: it names columns that there are not")

    def open(self, number: int) -> Shard:
        """Return a shard."""
        from nearcal.space._exact import LeafBoxes

        own = {name: array[self._span(name, number)] for name, array in self._arrays.items()}
        own |= {name: own[name].reshape(-1) for name in ("ids", "rows", "z")}
        index = LeafBoxes.of_arrays(self._sizes[number], {name: own[name] for name in _OF_INDEX})
        return Shard(index, own["rows"], own["z"], own["places"])

    def let_go(self, number: int) -> None:
        """Give back the pages of a shard: they count as memory of this process for as long as they are mapped."""
        if not hasattr(mmap, "MADV_DONTNEED"):
            return
        for name, file in self._files.items():
            if name not in _IN_MEMORY:
                span, size = self._span(name, number), file[:1].nbytes
                start = span.start * size // mmap.PAGESIZE * mmap.PAGESIZE
                file._mmap.madvise(mmap.MADV_DONTNEED, start, span.stop * size - start)  # type: ignore[attr-defined]

    def _span(self, name: str, number: int) -> slice:
        return slice(self._starts[name][number], self._starts[name][number + 1])


def _map(path: Path, dtype: Any, shape: tuple[int, ...]) -> "np.memmap[Any, Any]":
    wanted = int(np.prod(shape)) * np.dtype(dtype).itemsize
    size = path.stat().st_size if path.exists() else 0
    if size != wanted:
        raise ArtefactError(f"{path} is damaged: it has {size} bytes, it should have {wanted}")
    return np.memmap(path, dtype, "r", shape=shape)
