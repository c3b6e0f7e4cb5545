"""A calibration set on a Dask cluster: scores and positions computed there, and shards that live on its workers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidInputError
from nearcal._optional import import_extra
from nearcal.distributed.calibrating import (
    SAMPLE,
    add_up,
    chosen_alone,
    in_shards,
    score_rows,
    told_of_sample,
    with_shards,
)
from nearcal.models import CalibratedModel, adapt, calibrate
from nearcal.models.adapters import ColumnsModel, ModelAdapter
from nearcal.recalibration import LocalRecalibrator
from nearcal.space import ColumnSums, RowSample, Shard, ShardedIndex, SpaceMap, draw_rows

_TOGETHER = 2**22  # scores that are sorted in one task


class ShardsOnDask(ShardedIndex):
    """Shards on the workers of a cluster, which are asked where they are; what comes back are the neighbours.

    Parameters
    ----------
    futures : sequence of distributed.Future
        Of :class:`nearcal.space.Shard`.
    n : int
        The number of all points.
    corners : ndarray of shape (s, 2, d)
    """

    def __init__(self, futures: Sequence[Any], n: int, corners: FloatArray) -> None:
        super().__init__(n, corners)
        self.futures = list(futures)

    def ask(self, question: str, asked: Sequence[tuple[int, tuple[Any, ...]]]) -> list[Any]:
        """Ask the shards at the same time, each on the worker that has it."""
        with _client() as client:
            answers = [
                client.submit(_answer, self.futures[number], question, *arguments, pure=False)
                for number, arguments in asked
            ]
            return client.gather(answers)


def _answer(shard: Shard, question: str, *arguments: Any) -> Any:
    return getattr(shard, question)(*arguments)


def _client() -> Any:
    """Return the client of this process; a task leaves its thread to others while it waits for them."""
    from distributed import default_client, get_worker, worker_client

    try:
        get_worker()
    except ValueError:
        return nullcontext(default_client())
    return worker_client()


def calibrate_on_dask(
    model: Any,
    frame: Any,
    y: str | None = None,
    *,
    layer: str | Sequence[str] = "auto",
    recalibrator: LocalRecalibrator | None = None,
    tuning: Mapping[str, Any] | None = None,
    folder: Any = None,
    sample: int = SAMPLE,
    seed: int = 0,
) -> CalibratedModel:
    """Calibrate a model on a Dask DataFrame: neighbours are found among all of its rows.

    Settings are chosen on rows drawn at random, and settings only: neighbourhoods are of as many points as on the
    sample, and so the smaller the more rows there are. Scores and positions are computed by the workers. Results are
    those of :class:`nearcal.LocalRecalibrator` on one machine, to the last bit, however the frame is partitioned;
    corrections are learnt as in :class:`nearcal.ShardedRecalibrator`.

    Parameters
    ----------
    model : model
        As in :func:`nearcal.calibrate`.
    frame : dask.dataframe.DataFrame
        The inputs of the model, or the columns of a ``nearcal.adapters.ColumnsModel``, and the responses.
    y : str, optional
        The column of what was observed; a model of columns may know it.
    layer, recalibrator, tuning
        As in :func:`nearcal.calibrate`, for the rows of the sample.
    folder : path-like, optional
        Where to build shards, by way of this process, for a model that can be saved. Without it they live in the memory
        of the workers, as long as the model and the cluster do.
    sample, seed
        How many rows are drawn for the choice, and by which seed.

    Returns
    -------
    CalibratedModel
        Where the choice falls on a recalibrator that looks at no neighbours, it has learnt from the sample; as has an
        average of several, which is chosen only if ``tuning`` asks for it: ``members`` is 1 here by default.
    """
    import_extra("dask.dataframe", "dask", "nearcal.dask.calibrate")
    from dask import compute, delayed, persist

    adapter = adapt(model)
    y = y or (adapter.response if isinstance(adapter, ColumnsModel) else None)
    if y is None or y not in frame.columns:
        known = ", ".join(map(str, frame.columns))
        raise InvalidInputError(f"y must name the column of what was observed, got {y!r}; there are {known}")
    parts, one = frame.to_delayed(), delayed(adapter, pure=False)
    lengths = compute(*[delayed(len)(part) for part in parts])
    starts = np.cumsum([0, *lengths]).tolist()
    table = _draw(parts, starts, sample, seed)
    chosen = calibrate(
        adapter, _without(table, y), table[y].to_numpy(), layer=layer, recalibrator=recalibrator,
        tuning=chosen_alone(recalibrator, tuning),
    )  # fmt: skip
    sharded = in_shards(chosen, folder, sample, seed)
    if sharded is None:
        return told_of_sample(chosen, len(table), starts[-1])
    filled = [(part, start) for part, start, length in zip(parts, starts, lengths, strict=False) if length]
    scored = [delayed(_score)(part, one, y, chosen.layer) for part, _ in filled]
    if folder is not None:
        sharded.fit_scores(_fetch(scored))
        return with_shards(chosen, sharded, len(table))
    scored = persist(*scored)
    sums = add_up([delayed(_sum)(batch) for batch in scored], delayed(_plus))
    drawn = [delayed(_sample)(batch, start, sample, seed) for batch, (_, start) in zip(scored, filled, strict=True)]
    all_sums, all_drawn = compute(sums, add_up(drawn, lambda a, b: delayed(_both)(a, b, sample)))
    space_map = sharded.learn_map(all_sums, all_drawn)
    shards = [delayed(_shard)(batch, start, space_map) for batch, (_, start) in zip(scored, filled, strict=True)]
    index = _settle(shards, starts[-1])
    return with_shards(
        chosen, sharded.learn_from(index, space_map, all_drawn, _are_equal(scored, starts[-1])), len(table)
    )


def _settle(shards: Sequence[Any], n: int) -> ShardsOnDask:
    """Build shards where their rows are."""
    from distributed import default_client

    client = default_client()
    futures = client.compute(list(shards))
    corners = client.gather([client.submit(_corners, future) for future in futures])
    return ShardsOnDask(futures, n, np.stack(corners))


def _fetch(scored: Sequence[Any]) -> Iterator[Any]:
    """Yield what workers computed, a few partitions ahead."""
    from dask import compute

    for start in range(0, len(scored), 8):
        yield from compute(*scored[start : start + 8])


def _draw(parts: Sequence[Any], starts: Sequence[int], sample: int, seed: int) -> Any:
    """Return the rows of a frame that are drawn, in their order, as a pandas frame."""
    import pandas as pd
    from dask import compute, delayed

    if not starts[-1]:
        raise InvalidInputError("frame must have at least one row, got none")
    rows = draw_rows(starts[-1], sample, seed)
    own = np.split(rows, np.searchsorted(rows, starts[1:-1]))
    taken = [
        delayed(_take)(part, few - start) for part, few, start in zip(parts, own, starts, strict=False) if len(few)
    ]
    return pd.concat(compute(*taken), ignore_index=True)


def _are_equal(scored: Sequence[Any], n: int) -> bool:
    """Tell whether any two of n scores are equal; equal ones meet in the same task."""
    from dask import compute, delayed

    buckets = -(-n // _TOGETHER)
    meets = [delayed(_meet)([delayed(_part)(batch, b, buckets) for batch in scored]) for b in range(buckets)]
    return any(compute(*meets))


# ---- what workers run -----------------------------------------------------------------------------------------------


def _take(part: Any, rows: Any) -> Any:
    return part.iloc[rows]


def _score(part: Any, adapter: ModelAdapter, y: str, layer: str | None) -> Any:
    z, space = score_rows(adapter, _without(part, y), part[y].to_numpy(), layer)
    return z, np.ascontiguousarray(space, dtype=np.float64)


def _without(part: Any, y: str) -> Any:
    return part.drop(columns=y)


def _sum(batch: Any) -> ColumnSums:
    return ColumnSums.of(batch[1])


def _plus(one: ColumnSums, other: ColumnSums) -> ColumnSums:
    return one + other


def _sample(batch: Any, start: int, size: int, seed: int) -> RowSample:
    return RowSample.of(batch[1], batch[0], start, size, seed)


def _both(one: RowSample, other: RowSample, size: int) -> RowSample:
    return one.joined(other, size)


def _shard(batch: Any, start: int, space_map: SpaceMap) -> Shard:
    return Shard.of(space_map(batch[1]), batch[0], np.arange(start, start + len(batch[0])))


def _corners(shard: Shard) -> FloatArray:
    return shard.corners


def _part(batch: Any, bucket: int, buckets: int) -> FloatArray:
    z = batch[0] + 0.0
    return z[z.view(np.uint64) % np.uint64(buckets) == bucket]


def _meet(parts: Sequence[FloatArray]) -> bool:
    z = np.concatenate(parts)
    return len(np.unique(z)) < len(z)
