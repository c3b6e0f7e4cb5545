"""Folders of Parquet files: predictions part by part, each complete or absent, and what was done is not done again."""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from nearcal._atomic import replacing
from nearcal._errors import InvalidInputError, NearcalError
from nearcal._optional import import_extra
from nearcal.distributed.batches import BatchPredictor, open_model, rows_at_once
from nearcal.recalibration import Workers

_STAMP = b"nearcal"
_BEGIN = 512  # bytes of a model's file, in which the checksums of all the rest stand
_BUFFER = 2**20


def list_parts(folder: Path) -> list[str]:
    """Return the Parquet files of a folder and of those within, such as year=2024, in order; hidden ones are none."""
    found = [path.relative_to(folder) for kind in ("*.parquet", "*.pq") for path in folder.rglob(kind)]
    seen = [path for path in found if not any(name.startswith((".", "_")) for name in path.parts)]
    return sorted(path.as_posix() for path in seen if (folder / path).is_file())


class PartDone(NamedTuple):
    """What became of a part: how many rows it has, are incomplete and have faded, or what is wrong with it."""

    name: str
    rows: int = 0
    incomplete: int = 0
    faded: int = 0
    error: str | None = None


@dataclass(frozen=True)
class PartPredictor:
    """Predictions of the parts of a folder, under their names in another.

    Parameters
    ----------
    model : str
        The path of a model of columns.
    source, target : str
        The folders.
    task : BatchPredictor
    schema : pyarrow.Schema
        What every part must come to: a table has one schema.
    threads : int, optional
    """

    model: str
    source: str
    target: str
    task: BatchPredictor
    schema: Any
    threads: int | None = None

    def __call__(self, name: str) -> PartDone:
        """Write the predictions of a part, which appear under their name when they are complete."""
        try:
            return self._predict(name)
        except (NearcalError, pa.ArrowException, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            return PartDone(name, error=" ".join(f"part {name}: {reason}".split()))

    def is_done(self, name: str) -> bool:
        """Tell whether a part was predicted before, by this model, with these options, from the file that is there."""
        try:
            known = parquet.read_schema(Path(self.target, name)).metadata or {}
            return known.get(_STAMP) == self._stamp(name)
        except (pa.ArrowException, OSError):  # there is none, or something else
            return False

    def _predict(self, name: str) -> PartDone:
        calibrated = open_model(self.model, self.threads)
        target, rows, incomplete, faded = Path(self.target, name), 0, 0, 0
        stamp = self._stamp(name)
        target.unlink(missing_ok=True)  # of another model or an older file: among new parts it would look like one
        with Path(self.source, name).open("rb") as opened:
            file = parquet.ParquetFile(opened, buffer_size=_BUFFER, pre_buffer=False)
            self._require_schema(self.task.schema(file.schema_arrow, calibrated))
            columns = self.task.columns(calibrated)
            target.parent.mkdir(parents=True, exist_ok=True)
            with (
                replacing(target) as out,
                parquet.ParquetWriter(out, self.schema.with_metadata({_STAMP: stamp})) as writer,
            ):
                for batch in file.iter_batches(rows_at_once(len(columns)), columns=columns):
                    batch.validate(full=True)  # of a damaged file, values may lie anywhere in memory
                    for predictions, some, some_faded in self.task.predict(batch, calibrated, rows):
                        writer.write_batch(predictions.cast(self.schema))
                        rows, faded = some.stop, faded + some_faded
                        incomplete += int((~some.whole).sum())
        return PartDone(name, rows, incomplete, faded)

    def _require_schema(self, own: Any) -> None:
        for mine, wanted in zip(own, self.schema, strict=True):
            if mine.type != wanted.type:
                raise InvalidInputError(
                    f"column {mine.name!r} must be of type {wanted.type} as in the parts before, got {mine.type}; "
                    "write all parts with one schema, or do not keep the column"
                )

    def _stamp(self, name: str) -> bytes:
        """Return what a part is made of: the model, what was asked, and the file it was made from."""
        with Path(self.model).open("rb") as file:
            begin = file.read(_BEGIN).hex()
        status = Path(self.source, name).stat()
        made_of = {"model": begin, "options": asdict(self.task), "size": status.st_size, "time": status.st_mtime_ns}
        return json.dumps(made_of).encode()


# ---- who runs the parts ---------------------------------------------------------------------------------------------


# Dask lets its workers give memory back at once, and batches then ask for it again and again: 1.6 times the work
_ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": 2**28,
    "MALLOC_MMAP_THRESHOLD_": 2**25,
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), 1),
}


@contextmanager
def connected(workers: int | None, scheduler: str | None) -> Iterator[Any]:
    """Yield a client of Dask: of a scheduler, or of so many processes of this machine, of one thread each."""
    distributed = import_extra("distributed", "dask", "--engine dask")
    if scheduler is not None:
        with distributed.Client(scheduler, timeout="30s", set_as_default=True) as client:
            yield client
        return
    dask = import_extra("dask", "dask", "--engine dask")
    count = workers or Workers().count()
    options = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
    options["silence_logs"] = logging.CRITICAL  # what goes wrong is told by part
    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": _ENVIRONMENT}),
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster, set_as_default=True) as client,
    ):
        yield client


def run_here(work: Callable[[str], PartDone], names: Sequence[str]) -> Iterator[PartDone]:
    """Yield what becomes of parts, one after the other."""
    return map(work, names)


def run_on(client: Any, work: Callable[[str], PartDone], names: Sequence[str]) -> Iterator[PartDone]:
    """Yield what becomes of parts in the order in which workers finish them; one that kills workers is an error."""
    from distributed import as_completed

    futures = {client.submit(work, name, pure=False): name for name in names}
    try:
        for future in as_completed(futures):
            lost = future.exception()
            yield future.result() if lost is None else PartDone(futures[future], error=_describe(futures[future], lost))
            future.release()
    finally:
        client.cancel(list(futures), force=True)


def _describe(name: str, lost: BaseException) -> str:
    reason = "the workers that had it died, as when memory runs out" if "Killed" in type(lost).__name__ else str(lost)
    return " ".join(f"part {name}: {reason}".split())
