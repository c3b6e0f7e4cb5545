"""Nearest neighbours among all points, for high dimension: a filter in integers, then float64 for what passes.

The filter starts from a bound guessed on a sample of the points, and skips blocks whose box is beyond it. Where the
guess proves too low the row is done again with a larger one: the guess decides the time, never the result.
"""

from typing import NamedTuple

import numpy as np

from nearcal.kernels.boxes import Near, list_leaves, make_near
from nearcal.kernels.compile import inlined, inner, kernel, once
from nearcal.kernels.filter import BLOCK, Blocks, cut_score, guess_bounds, list_hits, mark_block, shrink_queries
from nearcal.kernels.select import Scratch, keep_smallest, make_scratch, write_nowhere, write_row
from nearcal.kernels.vector import ROWS, sum_squares

MOST_ROWS = 256  # rows that share each block while it is in cache
MOST_CANDIDATES = 2**20  # of all rows of a batch together


class Batch(NamedTuple):
    """Scratch of a batch of rows, made in Python: every kind of array that a kernel makes takes time to compile."""

    rounded: np.ndarray  # (rows, 2 * n_pairs) int16, the queries for the filter
    steps: np.ndarray  # (rows,) float32
    norms: np.ndarray  # (rows,)
    bounds: np.ndarray
    cuts: np.ndarray  # (rows,) float32
    reached: np.ndarray  # (n_blocks, rows) whether the block may hold a neighbour
    reached_by_four: np.ndarray  # (n_blocks, rows / ROWS) uint32, the same memory: zero where no row of four is true
    near: Near  # scratch to list blocks
    counts: np.ndarray  # (rows,) candidates found so far
    values: np.ndarray  # (rows, room + 3) their squared distances
    ids: np.ndarray  # (rows, room + 3)
    passed: np.ndarray  # (ROWS, BLOCK / 64) bits, for one block
    hits: np.ndarray  # (BLOCK + 3,)
    sample_scores: np.ndarray  # (ROWS, n_sample) float32
    sample_squares: np.ndarray  # (n_sample,)
    scratch: Scratch


def make_batch(n_rows: int, room: int, blocks: Blocks) -> Batch:
    """Scratch for as many of the rows, a multiple of ROWS, as share a batch, with room for candidates of each."""
    n_batch = min(MOST_ROWS, MOST_CANDIDATES // max(room, 1), n_rows + ROWS - 1)
    rows = max(ROWS, n_batch // ROWS * ROWS)
    n_blocks, n_sample = len(blocks.cut_dim), blocks.sample_steps.size
    reached = np.zeros((n_blocks, rows), np.bool_)
    return Batch(
        np.zeros((rows, 2 * blocks.strips.shape[1]), np.int16),
        np.zeros(rows, np.float32),
        np.zeros(rows),
        np.empty(rows),
        np.empty(rows, np.float32),
        reached,
        reached.view(np.uint32),
        make_near(n_blocks),
        np.empty(rows, np.int64),
        np.empty((rows, room + 3)),
        np.empty((rows, room + 3), np.int32),
        np.empty((ROWS, BLOCK // 64), np.uint64),
        np.empty(BLOCK + 3, np.int32),
        np.empty((ROWS, n_sample), np.float32),
        np.empty(n_sample),
        make_scratch(max(room, n_sample)),
    )


@inlined
def measure_hits(blocks, hits, size, queries, r, values, ids, row, count):
    """Squared distances from query r of the points that hit, appended to a row of values and ids.

    They go by four, so that hits need room for three more and the row of values too.
    """
    points, stride = blocks.points.ctypes.data, blocks.points.strides[0]
    query, out = queries.ctypes.data + r * queries.strides[0], values.ctypes.data + row * values.strides[0]
    d = queries.shape[1]
    for i in range(size, size + 3):
        hits[i] = 0
    for i in range(0, size, 4):
        a, b, c, e = hits[i], hits[i + 1], hits[i + 2], hits[i + 3]
        rows = points + a * stride, points + b * stride, points + c * stride, points + e * stride
        sum_squares(rows[0], rows[1], rows[2], rows[3], query, d // 4, out + 8 * (count + i))
    for i in range(size):
        for j in range(d - d % 4, d):
            diff = blocks.points[hits[i], j] - queries[r, j]
            values[row, count + i] += diff * diff
        ids[row, count + i] = blocks.ids[hits[i]]


@once
def _filter_batch(blocks, queries, start, stop, k, batch):
    """Candidates of the rows start..stop: every point within batch.bounds, or at least the k nearest of these."""
    room = batch.values.shape[1] - 3
    for b in range(len(batch.reached)):
        for four in range(batch.reached_by_four.shape[1]):
            if batch.reached_by_four[b, four] == 0:
                continue
            mark_block(blocks, b, batch, four * ROWS)
            for row in range(four * ROWS, four * ROWS + ROWS):
                size = list_hits(b, batch, row) if batch.reached[b, row] else 0
                if size == 0:
                    continue
                if batch.counts[row] + size > room:
                    kth = keep_smallest(batch.values[row], batch.ids[row], batch.counts[row], k, batch.scratch)
                    batch.counts[row] = k
                    batch.cuts[row] = cut_score(batch.norms[row], kth, blocks.scale)
                count = batch.counts[row]
                measure_hits(blocks, batch.hits, size, queries, start + row, batch.values, batch.ids, row, count)
                batch.counts[row] = count + size


@inner
def mark_reached(blocks, queries, start, stop, eps, batch):
    """Which blocks have a box within each row's bound, or within 1 / (1 + eps) of it."""
    batch.reached[:] = False
    for row in range(stop - start):
        size = list_leaves(blocks, queries, start + row, batch.bounds[row] / (1.0 + eps) ** 2, batch.near)
        for i in range(size):
            batch.reached[batch.near.leaves[i], row] = True


@once
def _answer_rows(blocks, queries, start, stop, k, eps, guesses, rank, batch, order, out):
    """K nearest points of the queries start..stop: see ``query_blocks``."""
    shrink_queries(blocks, queries, start, stop, batch.rounded, batch.steps, batch.norms)
    for row in range(stop - start):
        batch.bounds[row] = guesses[start + row]
    if rank < blocks.sample_steps.size:
        guess_bounds(blocks, batch, rank)
    for row in range(stop - start):
        batch.cuts[row] = cut_score(batch.norms[row], batch.bounds[row], blocks.scale)
    batch.counts[:] = 0
    mark_reached(blocks, queries, start, stop, eps, batch)
    _filter_batch(blocks, queries, start, stop, k, batch)
    for row in range(stop - start):
        out.radius[order[start + row]] = -1.0
        if batch.norms[row] != batch.norms[row]:
            write_nowhere(k, out, order[start + row])
        elif batch.counts[row] >= k:
            values, ids = batch.values[row], batch.ids[row]
            square = keep_smallest(values, ids, batch.counts[row], k, batch.scratch)
            if square <= batch.bounds[row]:
                write_row(values, ids, k, square, out, order[start + row])


@kernel
def query_blocks(blocks, queries, k, eps, guesses, rank, batch, order, out):
    """K nearest points of query i into row order[i]; a k-th distance of -1 where the guess was too low.

    Best with queries that lie near one another in turn: they skip the same blocks.

    The guess is the squared distance of the sample's point of this rank, or that of ``guesses`` for a rank beyond the
    sample. The batch has room for at least k + BLOCK candidates a row.
    """
    n_rows, n_batch = len(queries), len(batch.counts)
    for start in range(0, n_rows, n_batch):
        stop = min(start + n_batch, n_rows)
        _answer_rows(blocks, queries, start, stop, k, eps, guesses, rank, batch, order, out)
