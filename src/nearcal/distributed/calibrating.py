"""A calibration set larger than memory: the choice on a random sample of it, the calibration points all of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, as_response
from nearcal.models import CalibratedModel, calibrate
from nearcal.models.adapters import ColumnsModel, ModelAdapter
from nearcal.models.calibrated_model import run_layer
from nearcal.recalibration import LocalRecalibrator, ShardedRecalibrator, calibration_scores
from nearcal.space import RowSample

SAMPLE = 100_000


def calibrate_in_batches(
    model: ColumnsModel,
    batches: Callable[[], Iterable[Mapping[str, FloatArray]]],
    y: str,
    *,
    folder: Any,
    sample: int = SAMPLE,
    seed: int = 0,
    **how: Any,
) -> CalibratedModel:
    """Calibrate a model of columns on tables that come in batches, gone through twice, with shards in a folder.

    Parameters
    ----------
    model : ColumnsModel
    batches : callable
        Returns the batches: columns by name.
    y : str
        The column of what was observed.
    folder, sample, seed
        As in :class:`nearcal.ShardedRecalibrator`.
    **how
        As in :func:`nearcal.calibrate`: ``recalibrator``, ``layer``, ``tuning``; but see :func:`chosen_alone`.
    """
    drawn: RowSample | None = None
    names, start = [], 0
    for batch in batches():
        names, columns = list(batch), np.column_stack(list(batch.values()))
        drawn = RowSample.of(columns, np.empty(len(columns)), start, sample, seed, drawn)
        start += len(columns)
    assert drawn is not None
    order = np.argsort(drawn.rows)
    table = dict(zip(names, drawn.space[order].T, strict=True))
    chosen = calibrate(model, table, table[y], **{**how, "tuning": chosen_alone(**how)})
    sharded = in_shards(chosen, folder, sample, seed)
    if sharded is None:
        return told_of_sample(chosen, len(order), start)
    sharded.fit_scores(score_rows(chosen.model, batch, batch[y], chosen.layer) for batch in batches())
    return with_shards(chosen, sharded, len(order))


def chosen_alone(recalibrator: Any = None, tuning: Mapping[str, Any] | None = None, **how: Any) -> Any:
    """Return options of a choice that falls on one candidate, which can be put in shards, unless they say otherwise.

    An average of several (``members`` above 1) and a student (``distilled``) look at the rows of the sample alone.
    """
    return tuning if recalibrator is not None else {"members": 1, "distilled": False, **(tuning or {})}


def score_rows(adapter: ModelAdapter, X: Any, y: Any, layer: str | None) -> tuple[FloatArray, Any]:
    """Return the scores of calibration rows, and where they are."""
    dist, space = run_layer(adapter, X, layer)
    return calibration_scores(dist, as_response(y, len(dist), "y")), space


def in_shards(chosen: CalibratedModel, folder: Any, sample: int, seed: int) -> ShardedRecalibrator | None:
    """Return a recalibrator with the settings chosen on a sample, for all rows; None where these are not for shards.

    Of neighbours one :class:`nearcal.LocalRecalibrator` can be put in shards; an average of several has learnt from the
    sample, as have those who treat all rows alike.
    """
    if not isinstance(chosen.recalibrator, LocalRecalibrator):
        return None
    sharded = ShardedRecalibrator.like(chosen.recalibrator, folder=folder, sample=sample, seed=seed)
    sharded.check_options()
    return sharded


def with_shards(chosen: CalibratedModel, sharded: ShardedRecalibrator, drawn: int) -> CalibratedModel:
    """Return the model with all calibration rows behind it."""
    reason = f"{chosen.reason} Chosen on {drawn} of {sharded.n_cal_} rows, drawn at random; learnt from all of them."
    return replace(chosen, recalibrator=sharded, reason=reason)


def told_of_sample(chosen: CalibratedModel, drawn: int, n: int) -> CalibratedModel:
    """Return a model without shards, which says how many rows it has learnt from."""
    return replace(chosen, reason=f"{chosen.reason} Learnt from {drawn} of {n} rows, drawn at random.")


def add_up(values: Sequence[Any], add: Callable[[Any, Any], Any]) -> Any:
    """Return the sum of values by a tree of additions, two at a time."""
    level = list(values)
    while len(level) > 1:
        pairs = [add(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[len(level) - len(level) % 2 :]
    return level[0]
