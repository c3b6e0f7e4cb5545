"""Tables written batch by batch, under another name until they are complete."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyarrow import csv, ipc, parquet

from nearcal._atomic import replacing
from nearcal.cli._tables import check_format


@contextmanager
def writing(path: Path) -> Iterator[Callable[[Any], None]]:
    """Yield a function that writes a record batch; the file is there when the block ends without an error.

    All batches have the columns of the first.
    """
    kind = check_format(path)
    with replacing(path) as file:
        writers: list[Any] = []  # made with the first batch, which knows the columns

        def write(batch: Any) -> None:
            if not writers:
                writers.append(_open_writer(kind, path, file, batch.schema))
            writers[0].write_batch(batch)

        try:
            yield write
        finally:
            for writer in writers:
                writer.close()


def _open_writer(kind: str, path: Path, file: Any, schema: Any) -> Any:
    if kind == "parquet":
        return parquet.ParquetWriter(file, schema)
    if kind == "csv":
        tabs = path.suffix.lower() == ".tsv"
        return csv.CSVWriter(file, schema, write_options=csv.WriteOptions(delimiter="\t" if tabs else ","))
    return ipc.new_file(file, schema)
