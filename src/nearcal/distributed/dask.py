"""Predictions and their evaluation on Dask: the batch function over partitions, lazily."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nearcal._errors import InvalidInputError
from nearcal._optional import import_extra
from nearcal.distributed.batches import BatchPredictor, judged_columns, needed_columns, open_model, use_threads
from nearcal.distributed.dask_shards import calibrate_on_dask as calibrate
from nearcal.distributed.wanted import Wanted
from nearcal.distributions import Seed
from nearcal.models import CalibratedModel
from nearcal.models.adapters import ColumnsModel
from nearcal.reporting import Evaluation, EvaluationPlan, Metric, judge_all, judge_rows, plan_evaluation

__all__ = ["calibrate", "evaluate", "predict"]

_THREADS = 1  # a worker has a task for each of its threads


def predict(
    model: "str | os.PathLike[str] | CalibratedModel",
    frame: Any,
    *,
    coverage: Any = None,
    quantiles: Any = (),
    mean: bool = True,
    std: bool = True,
    trust: bool | None = None,
    reliability: bool = False,
    false_alarm: float = 0.01,
    keep: Iterable[str] = (),
    skip_missing: bool = False,
) -> Any:
    """Return the recalibrated predictions of a Dask collection, lazily.

    Results are those of one process to the last bit, however the collection is partitioned.

    Parameters
    ----------
    model : str, path-like or CalibratedModel
        The path of a model of columns (``nearcal fit`` writes one), where every worker can read it: a worker maps it
        into memory once, and what goes with a task is the path. Or a calibrated model of any kind, which is sent to
        every worker once.
    frame : dask.dataframe.DataFrame or dask.array.Array
        New rows: columns that the model takes or, for a model that takes arrays, an array of shape (n, d).
    coverage : float or sequence of float, optional
        Of the intervals, columns lower_90 and upper_90 for 0.9: which is what you get if you ask for no quantiles.
    quantiles : float or sequence of float
        Levels of quantiles, column q5 for 0.05.
    mean, std : bool
        Whether to compute the mean and the standard deviation.
    trust : bool, optional
        Whether to tell how much of its recalibration a row has; if not said, with reliability, and where the model
        fades.
    reliability : bool
        Whether to tell effective_size, radius, p_value and out_of_distribution, see ``Recalibrated.reliability``.
    false_alarm : float
        Share of usual rows that may be flagged.
    keep : iterable of str
        Columns of the frame to copy.
    skip_missing : bool
        Whether predictions of rows with missing values are left empty; else they are an error.

    Returns
    -------
    dask.dataframe.DataFrame or dask.array.Array
        With the index and the divisions of the frame; or of shape (n, q), columns in the order of those of a frame.

    Examples
    --------
    >>> import dask.dataframe, numpy as np, pandas as pd, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> table = pd.DataFrame({"mu": rng.normal(size=500), "x": rng.uniform(1, 3, size=500)})
    >>> y = rng.normal(table["mu"], table["x"])
    >>> columns = nc.adapters.ColumnsModel("normal", {"loc": "mu", "scale": 1.0}, {"inputs": ("x",)})
    >>> model = nc.calibrate(columns, table, y, recalibrator=nc.LocalRecalibrator(k=100, smoothing="uniform"))
    >>> frame = dask.dataframe.from_pandas(table, npartitions=3)
    >>> nc.dask.predict(model, frame, coverage=0.8).compute().round(2).head(2)
       mean   std  lower_80  upper_80
    0  0.26  2.40     -2.69      3.84
    1  0.86  1.58     -1.36      2.73
    """
    import_extra("dask.dataframe", "dask", "nearcal.dask.predict")
    calibrated = _local(model)
    wanted = Wanted.of_options(
        calibrated, coverage=coverage, quantiles=quantiles, mean=mean, std=std, trust=trust, reliability=reliability,
        false_alarm=false_alarm,
    )  # fmt: skip
    task = BatchPredictor(wanted, tuple(keep), skip_missing)
    if not hasattr(frame, "map_partitions"):
        return _predict_array(model, frame, task)
    is_of_columns = isinstance(calibrated.model, ColumnsModel)
    if skip_missing and not is_of_columns:
        raise InvalidInputError("skip_missing needs a model of columns, got a model that runs; drop such rows first")
    chosen = frame[_present(frame, task.columns(calibrated))] if is_of_columns else frame
    meta = _predict_frame(chosen._meta, calibrated, task)
    return chosen.map_partitions(_predict_partition, _source(model), task, meta=meta)


def evaluate(
    model: "str | os.PathLike[str] | CalibratedModel",
    frame: Any,
    y: str | None = None,
    coverage: float = 0.95,
    *,
    regions: int | None = None,
    metrics: Sequence[Metric] | None = None,
    groups: str | None = None,
    time: str | None = None,
    bootstrap: int = 200,
    rng: Seed = 0,
) -> Evaluation:
    """Compare predictions before and after recalibration with what was observed, in a Dask DataFrame.

    Workers compute what is asked of each row; here come together about 100 bytes a row. The table is that of
    :func:`nearcal.evaluate` on all rows, to the last bit.

    Parameters
    ----------
    model : str, path-like or CalibratedModel
        As in :func:`predict`.
    frame : dask.dataframe.DataFrame
        Rows that the model has not seen, with responses.
    y : str, optional
        The column of what was observed; a model of columns may know it.
    coverage, regions, metrics, bootstrap, rng
        As in :func:`nearcal.evaluate`; regions are those of the space in which neighbours are looked for.
    groups, time : str, optional
        Columns that say which rows depend on each other.
    """
    import_extra("dask.dataframe", "dask", "nearcal.dask.evaluate")
    from dask import compute, delayed

    calibrated = _local(model)
    columns = calibrated.model if isinstance(calibrated.model, ColumnsModel) else None
    y = y or (None if columns is None else columns.response)
    if y is None:
        raise InvalidInputError("y must name the column of what was observed, since the model does not say; give it")
    asked = [y, *(name for name in (groups, time) if name is not None)]
    if columns is not None:
        own = judged_columns(calibrated)
        chosen = frame[_present(frame, list(dict.fromkeys([*asked, *needed_columns(calibrated), *own])))]
    else:
        own, chosen = (), frame[_present(frame, list(frame.columns), asked)]
    source, parts = _source(model), chosen.to_delayed()
    looked = compute(*[delayed(_look)(part, source, asked, own) for part in parts])
    response, *related = [np.concatenate(values) for values in zip(*(one[0] for one in looked), strict=True)]
    named = dict(zip(asked[1:], related, strict=True))
    space = None if looked[0][1] is None else np.concatenate([one[1] for one in looked])
    plan = plan_evaluation(
        len(response), space, coverage, regions=regions, metrics=metrics, groups=named.get(groups or ""),
        time=named.get(time or ""), bootstrap=bootstrap, rng=rng, fades=calibrated.fade is not None,
    )  # fmt: skip
    small = plan._replace(places=None, units=None)  # rows by themselves have no use for these
    starts = np.cumsum([0, *(len(one[0][0]) for one in looked)]).tolist()
    judged = compute(
        *[delayed(_judge)(part, source, asked, small, start) for part, start in zip(parts, starts, strict=False)]
    )
    return judge_all({name: _joined([one[name] for one in judged if one]) for name in ("base", "recalibrated")}, plan)


def read_parts(folder: Path, names: Sequence[str], columns: Sequence[str], *, skip_missing: bool) -> Any:
    """Return the Parquet files of a folder as a Dask DataFrame, a partition a file, in the order of their names."""
    frames = import_extra("dask.dataframe", "dask", "--engine dask")
    read = partial(_read_part, folder, columns=list(columns), skip_missing=skip_missing)
    return frames.from_map(read, list(names), meta=read(names[0]).iloc[:0])


def _read_part(folder: Path, name: str, *, columns: list[str], skip_missing: bool) -> Any:
    from pyarrow import ArrowException, parquet

    try:
        with (folder / name).open("rb") as file:
            part = parquet.ParquetFile(file).read(columns).to_pandas()
    except (ArrowException, OSError) as error:
        raise InvalidInputError(f"part {name}: {error}") from error
    missing = [column for column in columns if column not in part]
    if missing:
        raise InvalidInputError(f"part {name} must have the columns of the other parts, got none named {missing[0]!r}")
    numbers = part.select_dtypes("number")
    is_whole = np.isfinite(numbers.to_numpy(np.float64)).all(axis=1)
    if not (skip_missing or is_whole.all()):
        raise InvalidInputError(
            f"part {name} has {int((~is_whole).sum())} rows with missing or infinite values; fill them, drop them, or "
            "pass --skip-missing"
        )
    return part[is_whole]


def _look(part: Any, source: Any, asked: Sequence[str], own: Sequence[str]) -> tuple[list[Any], Any]:
    """Return the responses and relations of a partition, and where its rows are."""
    values = [part[name].to_numpy() for name in asked]
    if own:
        return values, part[list(own)].to_numpy(np.float64)
    calibrated = _open(source)
    has_space = len(part) and not isinstance(calibrated.model, ColumnsModel)
    return values, calibrated.represent(part.drop(columns=list(asked))) if has_space else None


def _judge(part: Any, source: Any, asked: Sequence[str], plan: EvaluationPlan, start: int) -> dict[str, Any]:
    if not len(part):
        return {}
    calibrated, y = _open(source), part[asked[0]].to_numpy(np.float64)
    is_of_columns = isinstance(calibrated.model, ColumnsModel)
    X = part if is_of_columns else part.drop(columns=list(asked))
    dists = {"base": calibrated.base(X), "recalibrated": calibrated.predict(X)}
    return {name: judge_rows(dist, y, plan, start) for name, dist in dists.items()}


def _joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _present(frame: Any, names: list[str], asked: Sequence[str] = ()) -> list[str]:
    """Return names of columns, refusing one that a frame has not."""
    for name in (*names, *asked):
        if name not in frame.columns:
            known = ", ".join(map(str, frame.columns))
            raise InvalidInputError(f"frame must have the column {name!r}, got the columns {known}; rename or add it")
    return names


def _predict_array(model: Any, array: Any, task: BatchPredictor) -> Any:
    if not (hasattr(array, "map_blocks") and getattr(array, "ndim", 0) == 2):
        raise InvalidInputError(
            f"frame must be a dask DataFrame or a two-dimensional dask array, got {type(array).__name__}; "
            "dask.dataframe.from_pandas makes one"
        )
    if task.keep or task.skip_missing:
        raise InvalidInputError(
            "keep and skip_missing need a frame with names of columns, got an array; leave them out"
        )
    if isinstance(_local(model).model, ColumnsModel):
        raise InvalidInputError("an array has no names of columns, which this model asks for; give a dask DataFrame")
    whole = array.rechunk({1: -1})
    return whole.map_blocks(
        _predict_block, _source(model), task.wanted, dtype=np.float64,
        chunks=(whole.chunks[0], (len(task.wanted.names()),)), meta=np.empty((0, 0)),
    )  # fmt: skip


def _local(model: Any) -> CalibratedModel:
    """Return the model in this process."""
    if isinstance(model, str | os.PathLike):
        return open_model(model, _THREADS)
    if not isinstance(model, CalibratedModel):
        raise InvalidInputError(
            f"model must be the path of a saved model, or a CalibratedModel, got {type(model).__name__}; "
            "nearcal.calibrate makes one"
        )
    return model


def _source(model: Any) -> Any:
    """Return what goes into the graph: a path, or the model as one node of it, which a worker gets once."""
    if isinstance(model, str | os.PathLike):
        return os.path.realpath(os.fspath(model))
    from dask import delayed

    return delayed(_Held(model), pure=False)


class _Held:
    """A model on a worker, which uses the share of the processors that a task has."""

    def __init__(self, model: CalibratedModel) -> None:
        self.model = model

    def __reduce__(self) -> tuple[Any, ...]:
        return _hold, (self.model,)


def _hold(model: CalibratedModel) -> _Held:
    use_threads(model, _THREADS)  # it was pickled for this process alone
    return _Held(model)


def _open(source: Any) -> CalibratedModel:
    return open_model(source, _THREADS) if isinstance(source, str) else source.model


def _predict_partition(part: Any, source: Any, task: BatchPredictor) -> Any:
    return _predict_frame(part, _open(source), task)


def _predict_block(block: Any, source: Any, wanted: Wanted) -> Any:
    predicted = wanted.of(_open(source).predict(block))
    return np.column_stack([predicted[name] for name in wanted.names()])


def _predict_frame(part: Any, calibrated: CalibratedModel, task: BatchPredictor) -> Any:
    """Return the predictions of a partition, a pandas frame, with its index and the columns to keep."""
    import pandas as pd

    if isinstance(calibrated.model, ColumnsModel):
        predicted = _through_arrow(part, calibrated, replace(task, keep=()))
    elif len(part):
        values = task.wanted.of(calibrated.predict(part))
        predicted = pd.DataFrame({name: values[name] for name in task.wanted.names()})
    else:
        predicted = pd.DataFrame({name: np.empty(0, dtype) for name, dtype in task.wanted.dtypes().items()})
    predicted.index = part.index
    return pd.concat([part[list(task.keep)], predicted], axis=1) if task.keep else predicted


def _through_arrow(part: Any, calibrated: CalibratedModel, task: BatchPredictor) -> Any:
    """Return the predictions of the batch function as a pandas frame; what is missing has a type of its own."""
    import pandas as pd
    import pyarrow as pa

    batch = pa.RecordBatch.from_pandas(part[task.columns(calibrated)], preserve_index=False)
    schema = task.schema(batch.schema, calibrated)
    table = pa.Table.from_batches([predictions for predictions, _, _ in task.predict(batch, calibrated)], schema)
    return table.to_pandas(types_mapper={pa.bool_(): pd.BooleanDtype()}.get)
