"""Polish: a correction for all rows, learnt from calibration points that are recalibrated by the others.

Neighbourhoods are wider than a point: the errors of the model drift inside them, and few neighbours tell little about
tails. So recalibrated distributions can be too wide or too narrow on average. How much shows where each calibration
point falls in the distribution that the others make for it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions import Normal
from nearcal.neighbors import NeighborIndex, NeighborLists
from nearcal.neighbors._protocol import equal_rows
from nearcal.recalibration._chunks import Workers
from nearcal.recalibration._local_sample import Calibration, LocalSample, QuantileRule
from nearcal.recalibration._neighborhoods import weigh
from nearcal.recalibration._score_map import ScoreMap

_KNOTS = 255


@dataclass(frozen=True)
class Polish:
    """What was learnt, None if there was nothing to learn from, and the settings it was learnt for."""

    score_map: ScoreMap | None
    settings: dict[str, Any]


def learn_score_map(scores: FloatArray) -> ScoreMap | None:
    """Return the map from scores under the recalibrated distributions to what they turned out to be worth.

    The i-th of n scores is worth s, the score of probability i / (n + 1), but it moves by at most 1 + |s|: a point that
    a few close neighbours call impossible must not stretch the tails of all. Of many scores, 255 evenly spaced ones
    count. Nothing is learnt from fewer than two scores, nor from equal ones.
    """
    n = len(scores)
    if n < 2 or np.ptp(scores) == 0:
        return None
    ranks = np.arange(1, n + 1)
    if n > _KNOTS:
        reach = -ndtri(1 / (n + 1))
        ranks = np.unique(np.rint((n + 1) * ndtr(np.linspace(-reach, reach, _KNOTS))).astype(np.intp))
    worth = ndtri(ranks / (n + 1))
    most = 1 + np.abs(worth)
    return ScoreMap(worth, np.clip(np.sort(scores)[ranks - 1], worth - most, worth + most))


def left_out_scores(
    calibration: Calibration,
    index: NeighborIndex,
    points: FloatArray,
    *,
    k: int | None,
    radius: float | None,
    eps: float,
    smoothing: str,
    min_neighbors: int,
    quantile_rule: QuantileRule,
    workers: Workers,
) -> FloatArray:
    """Return the scores of calibration points in the distributions that the others make for them.

    Within a radius, points with fewer than ``min_neighbors`` others are left out: they would be recalibrated in some
    other way.
    """
    n = len(points)
    if n < 2:
        return np.empty(0)
    order = index.order(points)
    order = np.arange(n) if order is None else order
    others = min(k, n - 1) if k is not None else 0
    pairs = others + 1 if radius is None else _most_within(index, points, radius)
    scores = np.full(n, np.nan)

    def task(chunk: slice) -> None:
        rows = order[chunk]
        if radius is None:
            lists = _drop_own_of_nearest(index.nearest(points[rows], others + 1, eps), rows)
        else:
            lists = _drop_own_within(index.within(points[rows], radius), rows)
        found = weigh(lists, smoothing)
        for part in found.split(workers.pairs_per_chunk()):
            own = rows[part]
            # scores stand for responses: every row is the standard Normal
            sample = LocalSample(Normal(np.zeros(len(own)), 1.0), found.part(part), calibration)
            enough = np.diff(lists.indptr)[part] >= (1 if radius is None else max(min_neighbors, 1))
            z = sample.bounded_z(calibration.z[own][:, np.newaxis], quantile_rule)[:, 0]
            scores[own] = np.where(enough, z, np.nan)

    workers.run(task, workers.chunks(n, pairs))
    return scores[~np.isnan(scores)]


def _most_within(index: NeighborIndex, points: FloatArray, radius: float) -> int:
    """Return twice the largest number of neighbours among a few points, for planning memory."""
    probe = points[:: max(1, len(points) // 32)]
    return min(2 * int(np.diff(index.within(probe, radius).indptr).max()), len(points))


def _drop_own_of_nearest(lists: NeighborLists, own: IntArray) -> NeighborLists:
    """Drop each query itself from its nearest points; where equals crowded it out, the last of them."""
    rows = len(own)
    indices, distances = lists.indices.reshape(rows, -1), lists.distances.reshape(rows, -1)
    dropped = indices == own[:, np.newaxis]
    crowded = np.flatnonzero(~dropped.any(axis=1))
    if len(crowded):
        farthest = distances[crowded] == distances[crowded].max(axis=1, keepdims=True)
        dropped[crowded, np.where(farthest, indices[crowded], -1).argmax(axis=1)] = True
    k = indices.shape[1] - 1
    kept = distances[~dropped].reshape(rows, k)
    return NeighborLists(equal_rows(rows, k), indices[~dropped], kept.ravel(), kept.max(axis=1))


def _drop_own_within(lists: NeighborLists, own: IntArray) -> NeighborLists:
    """Drop each query itself from the points within its radius."""
    row = np.repeat(np.arange(len(own)), np.diff(lists.indptr))
    kept = lists.indices != own[row]
    counts = np.bincount(row[kept], minlength=len(own))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return NeighborLists(indptr, lists.indices[kept], lists.distances[kept], lists.reach)
