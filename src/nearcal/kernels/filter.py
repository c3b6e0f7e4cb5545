"""A filter in 16-bit integers: which points may lie within a given distance of a query.

A point x scores x.q - |x|²/2 for a query q, which ranks as the distance does and costs one multiply and add a
coordinate. Here x and q are centred and rounded to int16, each in steps of its own norm / 30000, so that no product
overflows 32 bits (Cauchy and Schwarz) and outliers cost nobody else's precision. Stored norms are lowered by more than
all rounding can do (see ``round_off``): a score below the cut proves the point farther than the bound. What passes is
to be measured in float64.
"""

from typing import NamedTuple

import numpy as np

from nearcal.kernels.compile import inlined, inner, kernel, once
from nearcal.kernels.select import bound_smallest
from nearcal.kernels.vector import ROWS, STRIP, lowest_bit, mark_strip, score_strip

BLOCK = 256
STEPS = 30000


class Blocks(NamedTuple):
    """Points in the order of the leaves of a k-d tree, as they are and as the filter sees them."""

    points: np.ndarray  # (n, d)
    ids: np.ndarray  # (n,) original index
    strips: np.ndarray  # (n_blocks * BLOCK / STRIP, d / 2, STRIP, 2) int16, zeros beyond d and n
    steps: np.ndarray  # (n_blocks * BLOCK,) float32
    half_norms: np.ndarray  # (n_blocks * BLOCK,) float32; -|x|²/2 raised by round_off, -inf beyond n
    sample_strips: np.ndarray  # the same for points evenly spread over the leaves
    sample_steps: np.ndarray
    sample_half_norms: np.ndarray
    low: np.ndarray  # (n_groups, d, GROUP), corners of the boxes of the blocks, as in ``_boxes.Tree``
    high: np.ndarray
    group_low: np.ndarray  # (1, d, n_groups)
    group_high: np.ndarray
    cut_dim: np.ndarray  # (n_blocks,), see ``_tree.order_points``
    cut_value: np.ndarray
    centre: np.ndarray  # (d,)
    scale: float  # power of two that brings the points within 1 of the centre


@kernel
def round_off(d):
    """Bound of the error of |x|² + |q|² - 2 x.q as scored, relative to |x|² + |q|².

    Rounding to steps moves x by at most a share r = sqrt(d) / (2 STEPS) of its norm, and q likewise, hence x.q by at
    most (2r + r²) |x| |q|. The last term is 32 roundings in float32, of which a score needs ten.
    """
    r = np.sqrt(d) / (2 * STEPS)
    return 2 * r + r * r + 2.0**-19


@kernel
def shrink_rows(rows, start, stop, centre, scale, rounded, steps, norms):
    """Rows start..stop as the filter sees them: rounded to int16, their steps, and their squared norms."""
    for r in range(stop - start):
        norms[r] = 0.0
        for j in range(rows.shape[1]):
            norms[r] += ((rows[start + r, j] - centre[j]) * scale) ** 2
        steps[r] = max(np.sqrt(norms[r]) / STEPS, 1e-37)  # a normal float32
        for j in range(rows.shape[1]):
            place = np.rint((rows[start + r, j] - centre[j]) * scale / steps[r])
            # no entry exceeds the norm; of rows with an infinite norm, or none, nothing is asked
            rounded[r, j] = np.int16(place) if abs(place) <= 32767.0 else np.int16(0)


@inner
def shrink_queries(blocks, queries, start, stop, rounded, steps, norms):
    """Make queries start..stop what the filter sees, with squared norms lowered by the rounding."""
    shrink_rows(queries, start, stop, blocks.centre, blocks.scale, rounded, steps, norms)
    for r in range(stop - start):
        norms[r] *= 1.0 - round_off(queries.shape[1])
        if norms[r] >= 2.0**40:  # a million times farther than any point: no precision left, let everything pass
            norms[r], steps[r] = -np.inf, 0.0


@inner
def cut_score(norm, bound, scale):
    """Score below which a squared distance is certainly above the bound."""
    cut = 0.5 * (norm - bound * scale * scale)
    # More than one float32 ulp for rounding the cut, then an absolute term for what underflows. The last resort
    # passes every score of a point but not the -inf of the padding.
    return np.float32(max(cut - abs(cut) * 2.0**-22 - 2.0**-80, -3e38))


@inlined
def mark_block(blocks, b, batch, r):
    """Mark the points of block b that pass the cuts of the ROWS queries from r on, in batch.passed."""
    strips, query = blocks.strips, batch.rounded.ctypes.data + r * batch.rounded.strides[0]
    for s in range(BLOCK // STRIP):
        strip = b * (BLOCK // STRIP) + s
        mark_strip(
            strips.ctypes.data + strip * strips.strides[0],
            strips.shape[1],
            query,
            batch.rounded.strides[0],
            blocks.steps.ctypes.data + 4 * STRIP * strip,
            blocks.half_norms.ctypes.data + 4 * STRIP * strip,
            batch.steps.ctypes.data + 4 * r,
            batch.cuts.ctypes.data + 4 * r,
            batch.passed.ctypes.data + STRIP // 8 * s,
            batch.passed.strides[0],
        )


@inlined
def list_hits(b, batch, row):
    """List in batch.hits the positions of the points of block b marked for the row; return how many."""
    size = 0
    for w in range(BLOCK // 64):
        word = batch.passed[row % ROWS, w]
        while word:
            batch.hits[size] = b * BLOCK + 64 * w + np.int64(lowest_bit(word))
            size += 1
            word &= word - np.uint64(1)
    return size


@once
def guess_bounds(blocks, batch, rank):
    """Guess for each row a squared distance within which the sample has ``rank`` points, as far as the filter sees."""
    n_sample, strips = blocks.sample_steps.size, blocks.sample_strips
    scores, lower = batch.sample_scores, batch.sample_squares
    for r in range(0, len(batch.norms), ROWS):
        for s in range(len(strips)):
            score_strip(
                strips.ctypes.data + s * strips.strides[0],
                strips.shape[1],
                batch.rounded.ctypes.data + r * batch.rounded.strides[0],
                batch.rounded.strides[0],
                blocks.sample_steps.ctypes.data + 4 * STRIP * s,
                blocks.sample_half_norms.ctypes.data + 4 * STRIP * s,
                batch.steps.ctypes.data + 4 * r,
                scores.ctypes.data + 4 * STRIP * s,
                scores.strides[0],
            )
        for i in range(ROWS):
            for p in range(n_sample):
                square = batch.norms[r + i] - 2.0 * scores[i, p]
                lower[p] = square if square > 0.0 else 0.0
            bound = bound_smallest(lower, n_sample, rank, batch.scratch)
            batch.bounds[r + i] = bound / (blocks.scale * blocks.scale)
