"""Tables in files, read batch by batch: Parquet, CSV and Arrow, told apart by the suffix."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, ipc, parquet

from nearcal.cli._mistakes import Mistake, did_you_mean, require_file

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_BLOCK = 2**23  # bytes of a CSV file read at once
_BUFFER = 2**20


class TableFile(ABC):
    """A table in a file.

    Attributes
    ----------
    path : Path
    schema : pyarrow.Schema
        Names and types of its columns; those of a CSV file are a guess from its first rows.
    rows : int or None
        How many rows there are, None where only reading all of it can tell.
    """

    path: Path
    schema: Any
    rows: int | None

    @abstractmethod
    def batches(self, columns: Sequence[str], texts: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield record batches of numbers in ``columns`` and anything in ``texts``, about ``rows`` rows each."""

    def require(self, names: Sequence[str], asked_by: str = "") -> None:
        """Refuse to go on without some columns."""
        for name in names:
            found = self.schema.names.count(name)
            asked = f", which {asked_by}" if asked_by else ""
            if not found:
                raise Mistake(
                    f"{self.path} has no column {name!r}{asked}", did_you_mean(name, self.schema.names, "there are")
                )
            if found > 1:
                raise Mistake(f"{self.path} has {found} columns named {name!r}", "rename all but one")

    def require_numbers(self, names: Sequence[str]) -> None:
        """Refuse columns that hold anything but numbers."""
        for name in names:
            kind = self.schema.field(name).type
            if not is_numeric(kind):
                raise Mistake(
                    f"column {name!r} of {self.path} must hold numbers, and holds {_describe(kind)}",
                    f"the first value is {self._first_value(name)!r}; leave it out, or encode it as numbers",
                )

    def _first_value(self, name: str) -> Any:
        for batch in self.batches([], [name], 1):
            if len(batch):
                return batch.column(0)[0].as_py()
        return None


def open_table(path: Path) -> TableFile:
    """Open a file of any known format."""
    require_file(path, "check the path")
    kind = check_format(path)
    if not path.stat().st_size:
        raise Mistake(f"{path} is empty", "check how it was written")
    try:
        if kind == "parquet":
            return _Parquet(path)
        return _Csv(path) if kind == "csv" else _Arrow(path)
    except pa.ArrowException as error:
        raise unreadable(path, error) from error


def check_format(path: Path) -> str:
    """Return the format that a file's suffix stands for."""
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise Mistake(f"the suffix of {path} says no known format", f"known: {' '.join(FORMATS)}")
    return kind


def unreadable(path: Path, error: Exception) -> Mistake:
    """Return the mistake behind an error of Arrow."""
    reason = " ".join(str(error).split())[:200]
    return Mistake(f"{path} cannot be read as {FORMATS[path.suffix.lower()]}", f"Arrow says: {reason}")


def is_numeric(kind: Any) -> bool:
    """Tell whether a type of Arrow is one of numbers; a column without any value may be one."""
    types = pa.types
    if types.is_dictionary(kind):
        return is_numeric(kind.value_type)
    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    return any(test(kind) for test in tests)


def _describe(kind: Any) -> str:
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else f"values of type {kind}"


class _Parquet(TableFile):
    def __init__(self, path: Path) -> None:
        self.path = path
        # without these a whole group of rows would be held in memory
        self._file = parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)
        self.schema = self._file.schema_arrow
        self.rows = self._file.metadata.num_rows

    def batches(self, columns: Sequence[str], texts: Sequence[str], rows: int) -> Iterator[Any]:
        return self._file.iter_batches(batch_size=rows, columns=[*columns, *texts])


class _Arrow(TableFile):
    def __init__(self, path: Path) -> None:
        self.path = path
        self._source = pa.memory_map(str(path))
        reader = ipc.open_file(self._source)
        self.schema = reader.schema
        self.rows = None

    def batches(self, columns: Sequence[str], texts: Sequence[str], rows: int) -> Iterator[Any]:
        fields = [self.schema.get_field_index(name) for name in (*columns, *texts)]
        reader = ipc.open_file(self._source, options=ipc.IpcReadOptions(included_fields=fields))
        for i in range(reader.num_record_batches):
            batch = reader.get_batch(i).select([*columns, *texts])
            for start in range(0, len(batch), rows):
                yield batch.slice(start, rows)


class _Csv(TableFile):
    def __init__(self, path: Path) -> None:
        self.path = path
        self._parsing = csv.ParseOptions(delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        with csv.open_csv(path, csv.ReadOptions(block_size=_BLOCK), self._parsing) as reader:
            self.schema = reader.schema
        self.rows = None

    def batches(self, columns: Sequence[str], texts: Sequence[str], rows: int) -> Iterator[Any]:
        # types are stated: a guess from the first block can be wrong for the next
        types = {**dict.fromkeys(texts, pa.string()), **dict.fromkeys(columns, pa.float64())}
        try:
            with self._open(types) as reader:
                for batch in reader:
                    for start in range(0, len(batch), rows):
                        yield batch.slice(start, rows)
        except pa.ArrowInvalid as error:
            raise self._find_text(columns) or unreadable(self.path, error) from error

    def _open(self, types: dict[str, Any]) -> Any:
        converting = csv.ConvertOptions(column_types=types, include_columns=list(types), strings_can_be_null=True)
        return csv.open_csv(self.path, csv.ReadOptions(block_size=_BLOCK), self._parsing, converting)

    def _find_text(self, columns: Sequence[str]) -> Mistake | None:
        """Return the first value that is no number as a mistake, if there is one."""
        row = 0
        with self._open(dict.fromkeys(columns, pa.string())) as reader:
            try:
                for batch in reader:
                    for name in columns:
                        for i, value in enumerate(batch.column(name).to_pylist()):
                            if value is not None and not _is_number(value):
                                return Mistake(
                                    f"column {name!r} of {self.path} must hold numbers, and holds {value!r} in row "
                                    f"{row + i + 1}",
                                    "correct it, or leave it empty and pass --skip-missing",
                                )
                    row += len(batch)
            except pa.ArrowInvalid:  # lines of unequal length and the like: there are no columns to look at
                return None
        return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
