"""Tables in files, read and written batch by batch: Parquet, CSV and Arrow, told apart by the suffix."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import compute, csv, ipc, parquet

from nearcal._atomic import replacing
from nearcal.cli._console import Mistake, did_you_mean, require_file
from nearcal.distributed.batches import is_numeric, slices
from nearcal.distributed.parts import list_parts

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
_DECIMAL_COMMA = re.compile(rb"""(?m)(^|;)"?[-+]?\d+,\d+"?(;|\r?$)""")
_WHOLE_NUMBER = r"^(0|-?[1-9]\d{0,17})$"  # as it would be written: 007 is a name


class TableFile(ABC):
    """A table in a file.

    Attributes
    ----------
    path : Path
    schema : pyarrow.Schema
        Names and types of its columns; those of a CSV file are a guess from its first rows.
    rows : int or None
        How many rows there are, None where only reading all of it can tell.
    is_text : bool
        Whether values have no types.
    whole_numbers : frozenset of str
        Of a file that is text, columns to be read as whole numbers where they are no ``columns`` of numbers.
    """

    path: Path
    schema: Any
    rows: int | None = None
    is_text = False
    whole_numbers: frozenset[str] = frozenset()

    def batches(self, columns: Sequence[str], texts: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield record batches of numbers in ``columns`` and anything in ``texts``, about ``rows`` rows each."""
        try:
            for batch in self._batches(columns, texts, rows):
                batch.validate(full=True)  # of a damaged file, values may lie anywhere in memory
                yield batch
        except pa.ArrowException as error:
            raise self._find_mistake(columns) or _unreadable(self.path, error) from error

    @abstractmethod
    def _batches(self, columns: Sequence[str], texts: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield them, with errors as Arrow raises them."""

    def _find_mistake(self, columns: Sequence[str]) -> Mistake | None:
        """Look for what a person got wrong in a file that Arrow cannot read."""
        return None

    def require(self, names: Sequence[str], asked_by: str = "") -> None:
        """Refuse to go on without some columns."""
        for name in names:
            times = self.schema.names.count(name)
            asked = f", which {asked_by}" if asked_by else ""
            if not times:
                raise Mistake(
                    f"{self.path} has no column {name!r}{asked}", did_you_mean(name, self.schema.names, "there are")
                )
            if times > 1:
                raise Mistake(f"{self.path} has {times} columns named {name!r}", "rename all but one")

    def require_numbers(self, names: Sequence[str]) -> None:
        """Refuse columns that hold anything but numbers."""
        for name in names:
            kind = self.schema.field(name).type
            if not is_numeric(kind):
                is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
                raise Mistake(
                    f"column {name!r} of {self.path} must hold numbers, and holds "
                    f"{'text' if is_text else f'values of type {kind}'}",
                    f"the first value is {self._first_value(name)!r}; leave it out, or encode it as numbers",
                )

    def _first_value(self, name: str) -> Any:
        for batch in self.batches([], [name], 1):
            if len(batch):
                return batch.column(0)[0].as_py()
        return None


def open_table(path: Path) -> TableFile:
    """Open a file of any known format, or a folder of Parquet files."""
    if path.is_dir() and (names := list_parts(path)):
        return Folder(path, names)
    require_file(path, "check the path")
    kind = check_format(path)
    if not path.stat().st_size:
        raise Mistake(f"{path} is empty", "check how it was written")
    try:
        kinds: dict[str, Callable[[Path], TableFile]] = {"parquet": _Parquet, "csv": _Csv, "arrow": _Arrow}
        file = kinds[kind](path)
        _ = file.schema.names  # which are decoded here
    except pa.ArrowException as error:
        raise _unreadable(path, error) from error
    except UnicodeDecodeError as error:
        remedy = "write it in UTF-8 (iconv -f latin1 -t utf-8 converts from Latin-1)"
        raise Mistake(f"the names of the columns of {path} are not in UTF-8", remedy) from error
    return file


class Folder(TableFile):
    """The Parquet files of a folder as one table, in the order of their names."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path, self._names = path, names
        self.schema = open_table(path / names[0]).schema

    def _batches(self, columns: Sequence[str], texts: Sequence[str], rows: int) -> Iterator[Any]:
        for name in self._names:
            part = open_table(self.path / name)
            part.require([*columns, *texts], asked_by=f"{self.path / self._names[0]} has")
            part.require_numbers(columns)
            yield from part.batches(columns, texts, rows)


def check_format(path: Path) -> str:
    """Return the format that a file's suffix stands for."""
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise Mistake(f"the suffix of {path} says no known format", f"known: {' '.join(FORMATS)}")
    return kind


def are_whole_numbers(texts: Any) -> bool:
    """Tell whether texts are whole numbers, and nothing is lost if they are read as such."""
    return compute.all(compute.match_substring_regex(texts, _WHOLE_NUMBER), min_count=0).as_py()


def _unreadable(path: Path, error: Exception) -> Mistake:
    """Return the mistake behind an error of Arrow."""
    reason = " ".join(str(error).split())[:200]
    return Mistake(f"{path} cannot be read as {FORMATS[path.suffix.lower()]}", f"Arrow says: {reason}")


def _source(path: Path) -> Any:
    """Return what Arrow can open: it takes names in UTF-8 alone, Python any."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return path.open("rb")
    return path


class _Parquet(TableFile):
    def __init__(self, path: Path) -> None:
        self.path = path
        # without these a whole group of rows would be held in memory
        self._file = parquet.ParquetFile(_source(path), buffer_size=_BUFFER, pre_buffer=False)
        self.schema = self._file.schema_arrow
        self.rows = self._file.metadata.num_rows

    def _batches(self, columns: Sequence[str], texts: Sequence[str], rows: int) -> Iterator[Any]:
        return self._file.iter_batches(batch_size=rows, columns=[*columns, *texts])


class _Arrow(TableFile):
    def __init__(self, path: Path) -> None:
        self.path = path
        source = _source(path)
        self._source = pa.memory_map(str(path)) if source is path else source
        self.schema = ipc.open_file(self._source).schema

    def _batches(self, columns: Sequence[str], texts: Sequence[str], rows: int) -> Iterator[Any]:
        fields = [self.schema.get_field_index(name) for name in (*columns, *texts)]
        reader = ipc.open_file(self._source, options=ipc.IpcReadOptions(included_fields=fields))
        for i in range(reader.num_record_batches):
            yield from slices(reader.get_batch(i).select([*columns, *texts]), rows)


class _Csv(TableFile):
    """Text between tabs in a .tsv file, else between commas, semicolons or tabs, whichever the header has most of.

    Between semicolons numbers may have decimal commas.
    """

    is_text = True

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            begin = file.read(_BUFFER)
        header = begin.partition(b"\n")[0].decode("latin-1")
        delimiter = "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=header.count)
        self._parsing = csv.ParseOptions(delimiter=delimiter)
        self._decimal = "," if delimiter == ";" and _DECIMAL_COMMA.search(begin) else "."
        with self._open({}) as reader:
            self.schema = reader.schema

    def _batches(self, columns: Sequence[str], texts: Sequence[str], rows: int) -> Iterator[Any]:
        # types are stated: a guess from the first block can be wrong for the next
        types = {name: pa.int64() if name in self.whole_numbers else pa.string() for name in texts}
        with self._open({**types, **dict.fromkeys(columns, pa.float64())}) as reader:
            for batch in reader:
                yield from slices(batch, rows)

    def _open(self, types: dict[str, Any]) -> Any:
        converting = csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            strings_can_be_null=bool(types),
            decimal_point=self._decimal,
        )
        return csv.open_csv(_source(self.path), csv.ReadOptions(block_size=_BLOCK), self._parsing, converting)

    def _find_mistake(self, columns: Sequence[str]) -> Mistake | None:
        """Return the first value that is no number as a mistake, if there is one."""
        row = 0
        with self._open(dict.fromkeys(columns, pa.string())) as reader:
            try:
                for batch in reader:
                    for name in columns:
                        for i, value in enumerate(batch.column(name).to_pylist()):
                            if value is not None and not _is_number(value.replace(self._decimal, ".")):
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
