"""Nearest neighbours among all points, for high dimension: a float32 filter, then float64 for what passes.

The filter starts from a bound guessed on a sample of the points, and skips blocks whose box is beyond it. Where the
guess proves too low the row is done again without one: the guess decides the time, never the result.
"""

from typing import NamedTuple

import numpy as np

from nearcal._jit._boxes import measure_boxes
from nearcal._jit._compile import inner, kernel
from nearcal._jit._filter import BLOCK, PIECE, cut_score, guess_bounds, list_hits, score_pair, shrink_queries
from nearcal._jit._select import keep_smallest, make_scratch, write_row

MOST_ROWS = 256  # rows that share each block while it is in cache
MOST_CANDIDATES = 2**20  # of all rows of a batch together


class Batch(NamedTuple):
    """Scratch of a batch of rows."""

    shrunk: np.ndarray  # (rows, d4) float32
    norms: np.ndarray  # (rows,)
    bounds: np.ndarray
    cuts: np.ndarray  # (rows,) float32
    reached: np.ndarray  # (n_blocks, rows) whether the block may hold a neighbour
    box2: np.ndarray  # (n_blocks,)
    counts: np.ndarray  # (rows,) candidates found so far
    values: np.ndarray  # (rows, room) their squared distances
    ids: np.ndarray  # (rows, room)
    scores: np.ndarray  # (2, BLOCK) float32
    hits: np.ndarray  # (BLOCK + 1,)


@inner
def _make_batch(rows, room, n_blocks, width):
    """Scratch for an even number of rows."""
    return Batch(
        np.zeros((rows, width), np.float32),
        np.zeros(rows),
        np.empty(rows),
        np.empty(rows, np.float32),
        np.zeros((n_blocks, rows), np.bool_),
        np.empty(n_blocks),
        np.empty(rows, np.int64),
        np.empty((rows, room)),
        np.empty((rows, room), np.int32),
        np.empty((2, BLOCK), np.float32),
        np.empty(BLOCK + 1, np.int32),
    )


@inner
def measure_hits(blocks, hits, size, queries, r, values, ids, row, count):
    """Squared distances from query r of the points that hit, appended to a row of values and ids.

    Each is summed in the order of the columns; two at a time hide the latency of the additions.
    """
    for i in range(0, size, 2):
        first, second = hits[i], hits[min(i + 1, size - 1)]
        sum_first = sum_second = 0.0
        for j in range(queries.shape[1]):
            diff = blocks.points[first, j] - queries[r, j]
            sum_first += diff * diff
            diff = blocks.points[second, j] - queries[r, j]
            sum_second += diff * diff
        values[row, count + i] = sum_first
        values[row, count + min(i + 1, size - 1)] = sum_second
    for i in range(size):
        ids[row, count + i] = blocks.ids[hits[i]]


@inner
def _filter_batch(blocks, queries, start, stop, k, batch, scratch):
    """Candidates of the rows start..stop: every point within batch.bounds, or at least the k nearest of these."""
    room = batch.values.shape[1]
    pieces = batch.scores.reshape(2, BLOCK // PIECE, PIECE)
    for b in range(len(blocks.tiles)):
        for row in range(stop - start):
            if row % 2 == 0 and (batch.reached[b, row] or batch.reached[b, row + 1]):
                score_pair(blocks.tiles, blocks.half_norms, b, batch.shrunk, row, batch.scores)
            if not batch.reached[b, row]:
                continue
            size = list_hits(pieces, row % 2, batch.cuts[row], b * BLOCK, batch.hits)
            if size == 0:
                continue
            if batch.counts[row] + size > room:
                kth = keep_smallest(batch.values[row], batch.ids[row], batch.counts[row], k, scratch)
                batch.counts[row] = k
                batch.cuts[row] = cut_score(batch.norms[row], kth, blocks.scale)
            measure_hits(
                blocks, batch.hits, size, queries, start + row, batch.values, batch.ids, row, batch.counts[row]
            )
            batch.counts[row] += size


@inner
def _mark_reached(blocks, queries, start, stop, eps, batch):
    """Which blocks have a box within each row's bound, or within 1 / (1 + eps) of it."""
    batch.reached[:] = False
    for row in range(stop - start):
        measure_boxes(blocks.low, blocks.high, np.int64(0), queries, start + row, batch.box2)
        reach = batch.bounds[row] / (1.0 + eps) ** 2
        for b in range(len(batch.box2)):
            batch.reached[b, row] = batch.box2[b] <= reach


@inner
def _answer_rows(blocks, queries, start, stop, k, eps, rank, batch, lower, scratch, order, out):
    """K nearest points of the queries start..stop: see `query_blocks`."""
    shrink_queries(blocks, queries, start, stop, batch.shrunk, batch.norms)
    batch.bounds[:] = np.inf
    if rank < blocks.sample_half_norms.size:
        guess_bounds(blocks, batch.shrunk, batch.norms, rank, batch.scores, lower, scratch, batch.bounds)
    for row in range(stop - start):
        batch.cuts[row] = cut_score(batch.norms[row], batch.bounds[row], blocks.scale)
    batch.counts[:] = 0
    _mark_reached(blocks, queries, start, stop, eps, batch)
    _filter_batch(blocks, queries, start, stop, k, batch, scratch)
    for row in range(stop - start):
        out.kth[order[start + row]] = -1.0
        if batch.counts[row] >= k:
            values, ids = batch.values[row], batch.ids[row]
            square = keep_smallest(values, ids, batch.counts[row], k, scratch)
            if square <= batch.bounds[row]:
                write_row(values, ids, k, square, out, order[start + row])


@kernel
def query_blocks(blocks, queries, k, eps, rank, room, order, out):
    """K nearest points of query i into row order[i], unsorted; a k-th distance of -1 where the guess was too low.

    Best with queries that lie near one another in turn: they skip the same blocks.

    The guess is the sample's point of this rank; a rank beyond the sample stands for no guess. A row has room for so
    many candidates, at least k + BLOCK.
    """
    n_rows, n_sample = len(queries), blocks.sample_half_norms.size
    n_batch = max(2, min(MOST_ROWS, MOST_CANDIDATES // room, n_rows + 1) // 2 * 2)
    batch = _make_batch(n_batch, room, len(blocks.tiles), blocks.tiles.shape[1])
    lower, scratch = np.empty((2, n_sample)), make_scratch(max(room, n_sample))
    for start in range(0, n_rows, n_batch):
        stop = min(start + n_batch, n_rows)
        _answer_rows(blocks, queries, start, stop, k, eps, rank, batch, lower, scratch, order, out)
