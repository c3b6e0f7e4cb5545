"""Polish: a correction for all rows, learnt from calibration points that are recalibrated by the others.

Neighbourhoods are wider than a point: the errors of the model drift inside them, and few neighbours tell little about
tails. So recalibrated distributions can be too wide or too narrow on average. How much shows where each calibration
point falls in the distribution that the others make for it.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions import Normal
from nearcal.neighbors import NeighborIndex, NeighborLists
from nearcal.neighbors._protocol import equal_rows
from nearcal.recalibration._chunks import Workers
from nearcal.recalibration._local_sample import Calibration, LocalSample, QuantileRule
from nearcal.recalibration._neighborhoods import NO_NEIGHBORHOOD, most_within, weigh
from nearcal.recalibration._score_map import ScoreMap

_KNOTS = 63


@dataclass(frozen=True)
class Polish:
    """What was learnt, None if there was nothing to learn from, and the settings it was learnt for."""

    score_map: ScoreMap | None
    settings: dict[str, Any]


def learn_score_map(scores: FloatArray) -> ScoreMap | None:
    """Return the map from scores under the recalibrated distributions to what they turned out to be worth.

    The i-th of n scores is worth s, the score of probability i / (n + 1), equal scores that of their mean rank. But it
    moves by at most 1 + |s|: a point that a few close neighbours call impossible must not stretch the tails of all. Of
    many scores, some 63 evenly spaced ones count. Nothing is learnt from fewer than two different scores.
    """
    different, counts = np.unique(scores, return_counts=True)
    if len(different) < 2:
        return None
    worth = ndtri((np.cumsum(counts) - (counts - 1) / 2) / (len(scores) + 1))
    if len(worth) > _KNOTS:
        kept = np.unique(np.searchsorted(worth, np.linspace(worth[0], worth[-1], _KNOTS)))
        different, worth = different[kept], worth[kept]
    most = 1 + np.abs(worth)
    return ScoreMap(worth, np.clip(different, worth - most, worth + most))


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

    Within a radius, points with fewer than ``min_neighbors`` others are left out: what a thin neighbourhood gets
    instead says nothing of the others.
    """
    n = len(points)
    if n < 2:
        return np.empty(0)
    order = index.order(points)
    order = np.arange(n) if order is None else order
    others = min(k, n - 1) if k is not None else 0
    pairs = others + 1 if radius is None else min(most_within(index, points, radius), n)
    least = 1 if radius is None else max(min(min_neighbors, n - 1), 1)
    scores = np.full(n, np.nan)

    def task(chunk: slice) -> None:
        rows = order[chunk]
        if radius is None:
            lists = _drop_own_of_nearest(index.nearest(points[rows], others + 1, eps), rows)
        else:
            lists = _drop_own_within(index.within(points[rows], radius), rows)
        found = weigh(lists, smoothing)
        enough = np.diff(lists.indptr) >= least
        found = replace(found, which=np.where(enough, found.which, NO_NEIGHBORHOOD))
        for part in found.split(workers.pairs_per_chunk()):
            own = rows[part]
            # scores stand for responses: every row is the standard Normal
            sample = LocalSample(Normal(np.zeros(len(own)), 1.0), found.part(part), calibration)
            z = _middle_score(sample, calibration.z[own][:, np.newaxis], quantile_rule)[:, 0]
            scores[own] = np.where(enough[part], z, np.nan)

    workers.run(task, workers.chunks(n, pairs))
    return scores[~np.isnan(scores)]


def _middle_score(sample: LocalSample, z: FloatArray, rule: QuantileRule) -> FloatArray:
    """Return the scores of z; in an atom, which equal scores make, that of the middle of its probability."""
    upper, lower = sample.bounded_z(z, rule), sample.bounded_z(np.nextafter(z, -np.inf), rule)
    is_atom = upper - lower > 1e-9
    below, above = ndtr(lower) / 2 + ndtr(upper) / 2, ndtr(-lower) / 2 + ndtr(-upper) / 2
    return np.where(is_atom, np.where(below < above, ndtri(below), -ndtri(above)), upper)


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
