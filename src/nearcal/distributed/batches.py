"""The batch function: Arrow record batches of new rows in, record batches of predictions out.

A row's result depends on that row alone, so rows may be cut into batches anywhere. What goes with a task is a path and
a few options; the model is mapped into memory once a process, and its pages are shared by all processes of a machine.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidInputError
from nearcal.distributed.wanted import Wanted
from nearcal.models import CalibratedModel, layer_parts
from nearcal.models.adapters import ColumnsModel
from nearcal.models.promised_groups import promised_columns
from nearcal.persistence import read
from nearcal.recalibration import Workers
from nearcal.recalibration.members import all_within

Columns: TypeAlias = dict[str, FloatArray]
AnyPath: TypeAlias = "str | os.PathLike[str]"

_MOST_VALUES = 2**23  # of one batch: 64 MB
MOST_ROWS = 2**17
_FEWEST_ROWS = 2**10
_MOST_LOADED = 4  # models that a process holds open


# ---- rows of a batch ------------------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """A batch of rows: numbers by column, which rows have all of them, the other columns, and the rows before it."""

    numbers: Columns
    whole: NDArray[np.bool_]
    texts: Mapping[str, Any]
    start: int

    @classmethod
    def of(cls, batch: Any, columns: Sequence[str], texts: Sequence[str] = (), start: int = 0) -> "Rows":
        """Read columns of numbers, and others as they are, from a record batch."""
        numbers = {name: as_floats(batch.column(name)) for name in columns}
        whole = np.ones(len(batch), dtype=bool)
        for values in numbers.values():
            whole &= np.isfinite(values)
        return cls(numbers, whole, {name: batch.column(name) for name in texts}, start)

    @property
    def stop(self) -> int:
        """The number of rows up to the end of the batch."""
        return self.start + len(self.whole)

    def complete(self) -> Columns:
        """Return the numbers of the rows that have no gaps."""
        return self.numbers if self.whole.all() else {name: v[self.whole] for name, v in self.numbers.items()}

    def describe_gap(self) -> str:
        """Say where the first gap is."""
        first = int(np.argmin(self.whole))
        name = next(name for name, values in self.numbers.items() if not np.isfinite(values[first]))
        return f"the first in row {self.start + first + 1}, column {name!r}"


def rows_at_once(columns: int) -> int:
    """Return how many rows of so many columns make a batch that takes little memory."""
    return min(max(_MOST_VALUES // max(columns, 1), _FEWEST_ROWS), MOST_ROWS)


def slices(batch: Any, rows: int) -> Iterator[Any]:
    """Yield a record batch in pieces of at most so many rows."""
    for start in range(0, len(batch), rows):
        yield batch.slice(start, rows)


def as_floats(array: Any) -> FloatArray:
    """Return a column as float64; whole numbers beyond 2**53 are rounded as everywhere else."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def is_numeric(kind: Any) -> bool:
    """Tell whether a type of Arrow is one of numbers; a column without any value may be one."""
    types = pa.types
    if types.is_dictionary(kind):
        return is_numeric(kind.value_type)
    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    return any(test(kind) for test in tests)


# ---- the model, once a process --------------------------------------------------------------------------------------

_loaded: "OrderedDict[tuple[Any, ...], CalibratedModel]" = OrderedDict()
_loading = threading.Lock()


def open_model(path: AnyPath, threads: int | None = None) -> CalibratedModel:
    """Return a model of columns, mapped into memory once a process as long as the file is the same."""
    place = Path(os.path.realpath(os.fspath(path)))
    status = place.stat()
    key = place, status.st_mtime_ns, status.st_size, status.st_ino, threads
    with _loading:  # tasks of one worker begin at the same time
        if key not in _loaded:
            _loaded[key] = _load(path, threads)
        _loaded.move_to_end(key)
        while len(_loaded) > _MOST_LOADED:
            _loaded.popitem(last=False)
        return _loaded[key]


def _load(path: AnyPath, threads: int | None) -> CalibratedModel:
    content = read(path).content
    if not (isinstance(content, CalibratedModel) and isinstance(content.model, ColumnsModel)):
        raise InvalidInputError(
            f"{os.fspath(path)} holds a {type(content).__name__} saved from Python, which does not say what columns it "
            "takes; make a model with nearcal fit, or calibrate a nearcal.adapters.ColumnsModel and save it"
        )
    if threads is not None:
        use_threads(content, threads)
    return content


def use_threads(calibrated: CalibratedModel, threads: int) -> None:
    """Let a model that nobody else holds work on so many threads."""
    for one in all_within(calibrated.recalibrator):
        if hasattr(one, "workers"):
            one.workers = Workers(threads=threads)


def columns_of(calibrated: CalibratedModel) -> ColumnsModel:
    """Return the columns of a model that is known to be one of columns."""
    assert isinstance(calibrated.model, ColumnsModel)
    return calibrated.model


def needed_columns(calibrated: CalibratedModel) -> tuple[str, ...]:
    """Return the columns that predictions are made of, of the spaces that are looked at, and of promises to groups."""
    own = columns_of(calibrated).columns(*parts_of_space(calibrated))
    return tuple(dict.fromkeys([*own, *promised_columns(getattr(calibrated.recalibrator, "promise", None))]))


def judged_columns(calibrated: CalibratedModel) -> tuple[str, ...]:
    """Return the columns of positions in which an evaluation tells regions apart.

    A model that recalibrates all rows alike still names a space.
    """
    columns = columns_of(calibrated)
    parts = parts_of_space(calibrated) or columns.layers()[:1]
    return tuple(dict.fromkeys(name for part in parts for name in columns.spaces[part]))


def parts_of_space(calibrated: CalibratedModel) -> list[str]:
    """Return the spaces of columns that are looked at: for neighbours, several where joined, and for ranges."""
    columns = columns_of(calibrated)
    layers = [calibrated.layer, None if calibrated.look is None else calibrated.look.layer]
    return list(dict.fromkeys(part for layer in layers if layer is not None for part in layer_parts(columns, layer)))


# ---- predictions ----------------------------------------------------------------------------------------------------


def predict_rows(calibrated: CalibratedModel, rows: Rows, wanted: Wanted) -> tuple[Any, int]:
    """Return kept columns and predictions as a record batch, those of incomplete rows null, and how many have faded."""
    columns: dict[str, Any] = dict(rows.texts)
    predicted = wanted.of(calibrated.predict(rows.complete())) if rows.whole.any() else {}
    for name, dtype in wanted.dtypes().items():
        columns[name] = _with_gaps(predicted.get(name, np.empty(0, dtype=dtype)), rows.whole)
    return pa.RecordBatch.from_pydict(columns), int((predicted.get("trust", np.ones(0)) < 1).sum())


def _with_gaps(values: Any, whole: Any) -> Any:
    if whole.all():
        return pa.array(values)
    spread = np.zeros(len(whole), dtype=values.dtype)
    spread[whole] = values
    return pa.array(spread, mask=~whole)


@dataclass(frozen=True)
class BatchPredictor:
    """What to make of record batches; small enough to go with every task, beside the path of a model.

    Parameters
    ----------
    wanted : Wanted
    keep : tuple of str
        Columns to copy.
    skip_missing : bool
        Whether predictions of rows with missing values are left empty; else they are an error.
    """

    wanted: Wanted
    keep: tuple[str, ...] = ()
    skip_missing: bool = False

    def columns(self, calibrated: CalibratedModel) -> list[str]:
        """Return the columns that are read, each once."""
        return list(dict.fromkeys([*needed_columns(calibrated), *self.keep]))

    def schema(self, given: Any, calibrated: CalibratedModel) -> Any:
        """Return the schema of what comes out, given that of what goes in; refuse a schema that will not do."""
        for name in self.columns(calibrated):
            if given.names.count(name) != 1:
                raise InvalidInputError(
                    f"rows must have one column {name!r}, got the columns {', '.join(given.names)}; rename or add it"
                )
        for name in needed_columns(calibrated):
            kind = given.field(name).type
            if not is_numeric(kind):
                raise InvalidInputError(
                    f"column {name!r} must hold numbers, got values of type {kind}; encode it as numbers"
                )
        for name in self.keep:
            if name in self.wanted.names():
                raise InvalidInputError(f"keep must not name {name!r}, a column of the predictions; rename it first")
        predicted = [pa.field(name, pa.from_numpy_dtype(dtype)) for name, dtype in self.wanted.dtypes().items()]
        return pa.schema([*(given.field(name).remove_metadata() for name in self.keep), *predicted])

    def predict(self, batch: Any, calibrated: CalibratedModel, start: int = 0) -> Iterator[tuple[Any, Rows, int]]:
        """Yield the predictions of a record batch in pieces that take little memory, their rows, and how many faded.

        ``start`` is the number of rows before it, for messages.
        """
        needed = needed_columns(calibrated)
        for piece in slices(batch, rows_at_once(len(needed))):
            rows = Rows.of(piece, needed, self.keep, start)
            if not (self.skip_missing or rows.whole.all()):
                raise InvalidInputError(
                    f"the rows must have no missing or infinite values, got {int((~rows.whole).sum())} rows that have, "
                    f"{rows.describe_gap()}; fill or drop them, or let skip_missing leave their predictions empty"
                )
            predictions, faded = predict_rows(calibrated, rows, self.wanted)
            yield predictions, rows, faded
            start = rows.stop
