"""Predictions on Spark: the batch function, run by ``mapInArrow`` on every executor."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

from nearcal._optional import import_extra
from nearcal.distributed.batches import BatchPredictor, open_model
from nearcal.distributed.wanted import Wanted

__all__ = ["predict"]


def predict(
    path: str | os.PathLike[str],
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
    """Return the recalibrated predictions of the rows of a Spark DataFrame, lazily.

    Results are those of one process to the last bit, however the frame is partitioned.

    Parameters
    ----------
    path : str or path-like
        A model of columns (``nearcal fit`` writes one), where every executor can read it. An executor maps it into
        memory once; what goes with a task is this path.
    frame : pyspark.sql.DataFrame
        With the columns that the model takes.
    coverage, quantiles, mean, std, trust, reliability, false_alarm, keep, skip_missing
        As in ``nearcal.dask.predict``.

    Returns
    -------
    pyspark.sql.DataFrame
        Columns of ``keep``, then the predictions.

    Notes
    -----
    A task works on as many threads as it has processors, ``spark.task.cpus``, 1 unless you say otherwise.
    """
    types = import_extra("pyspark.sql.pandas.types", "spark", "nearcal.spark.predict")
    calibrated = open_model(path)
    wanted = Wanted.of_options(
        calibrated, coverage=coverage, quantiles=quantiles, mean=mean, std=std, trust=trust, reliability=reliability,
        false_alarm=false_alarm,
    )  # fmt: skip
    task = BatchPredictor(wanted, tuple(keep), skip_missing)
    schema = task.schema(types.to_arrow_schema(frame.schema), calibrated)
    run = _Task(os.path.realpath(os.fspath(path)), task)
    return frame.select(*task.columns(calibrated)).mapInArrow(run, types.from_arrow_schema(schema))


class _Task:
    """What an executor runs: an object of a class of this module, which goes by name."""

    def __init__(self, path: str, predictor: BatchPredictor) -> None:
        self.path, self.predictor = path, predictor

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        calibrated = open_model(self.path, 1 if context is None else context.cpus())
        start = 0
        for batch in batches:
            for predictions, _, _ in self.predictor.predict(batch, calibrated, start):
                yield predictions
            start += len(batch)
