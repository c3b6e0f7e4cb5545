"""Single-precision filter: which points may lie within a given distance of a query.

A point x scores x.q - |x|²/2 for a query q, which ranks as the distance does and costs one multiply and add a
coordinate, in float32 on centred and scaled data. Stored norms are lowered by more than rounding can do (see
`round_off`): a score below the cut proves the point farther than the bound. What passes is to be measured in float64.
"""

from typing import NamedTuple

import numba as nb
import numpy as np

from nearcal._jit._bits import lowest_bit, mask_above
from nearcal._jit._compile import inner, kernel
from nearcal._jit._select import bound_smallest

BLOCK = 256
PIECE = 32  # hits are looked for this many scores at a time

# `round_off` covers the scores whatever the order of operations, so this kernel alone may fuse multiply and add.
fused = nb.njit(nogil=True, error_model="numpy", fastmath={"contract"}, no_cpython_wrapper=True, no_cfunc_wrapper=True)


class Blocks(NamedTuple):
    """Points in the order of the leaves of a kd-tree, and as the filter sees them: dimension-major by block."""

    points: np.ndarray  # (n, d)
    ids: np.ndarray  # (n,) original index
    tiles: np.ndarray  # (n_blocks, d4, BLOCK) float32, centred and scaled; zeros beyond d and n
    half_norms: np.ndarray  # (n_blocks, BLOCK) float32, -|x|²/2 raised by round_off; -inf beyond n
    sample_tiles: np.ndarray  # the same for points evenly spread over the leaves
    sample_half_norms: np.ndarray
    low: np.ndarray  # (1, d, n_blocks), corners of the boxes of the blocks
    high: np.ndarray
    cut_dim: np.ndarray  # (n_blocks,), see `_tree.order_points`
    cut_value: np.ndarray
    centre: np.ndarray  # (d,)
    scale: float  # a power of two


@kernel
def round_off(d):
    """Bound of the float32 error of |x|² + |q|² - 2 x.q, relative to |x|² + |q|².

    With u = 2^-24: (2d + 2)u from the d + 1 terms of the score, 2u from rounding x and q, u from rounding |x|²/2; the
    rest is slack for second-order terms and for what float64 rounds.
    """
    return (3 * d + 32) * 2.0**-24


@fused
def score_pair(tiles, half_norms, b, shrunk, r, scores):
    """Scores of block b for queries r and r + 1, four coordinates a pass: eight multiply-adds for six loads."""
    for p in range(BLOCK):
        scores[0, p] = half_norms[b, p]
        scores[1, p] = half_norms[b, p]
    for j in range(0, tiles.shape[1], 4):
        q0, q1, q2, q3 = shrunk[r, j], shrunk[r, j + 1], shrunk[r, j + 2], shrunk[r, j + 3]
        r0, r1, r2, r3 = shrunk[r + 1, j], shrunk[r + 1, j + 1], shrunk[r + 1, j + 2], shrunk[r + 1, j + 3]
        for p in range(BLOCK):
            a, b0, c, e = tiles[b, j, p], tiles[b, j + 1, p], tiles[b, j + 2, p], tiles[b, j + 3, p]
            scores[0, p] = scores[0, p] + a * q0 + b0 * q1 + c * q2 + e * q3
            scores[1, p] = scores[1, p] + a * r0 + b0 * r1 + c * r2 + e * r3


@inner
def list_hits(pieces, s, cut, start, hits):
    """Positions, counted from `start`, of the scores pieces[s] not below the cut; return how many."""
    size = 0
    for g in range(pieces.shape[1]):
        mask = mask_above(pieces, s, g, cut)
        while mask:
            hits[size] = start + g * PIECE + lowest_bit(mask)
            size += 1
            mask &= mask - np.uint32(1)
    return size


@inner
def shrink_queries(blocks, queries, start, stop, shrunk, norms):
    """Queries start..stop as the filter sees them: centred, scaled, in float32; and their squared norms, lowered."""
    keep = 1.0 - round_off(queries.shape[1])
    for r in range(stop - start):
        norm = 0.0
        for j in range(queries.shape[1]):
            x = (queries[start + r, j] - blocks.centre[j]) * blocks.scale
            shrunk[r, j] = x
            norm += x * x
        norms[r] = norm * keep
        if not norm < 2.0**100:  # beyond float32: score it anywhere and let everything pass, see `cut_score`
            shrunk[r] = 0.0
            norms[r] = -np.inf


@inner
def cut_score(norm, bound, scale):
    """Score below which a squared distance is certainly above the bound."""
    cut = 0.5 * (norm - bound * scale * scale)
    # More than one float32 ulp for rounding the cut, then an absolute term for scores that underflow. The last resort
    # passes every score of a point but not the -inf of the padding.
    return np.float32(max(cut - abs(cut) * 2.0**-22 - 2.0**-100, -3e38))


@inner
def guess_bounds(blocks, shrunk, norms, rank, scores, lower, scratch, bounds):
    """For each row, a squared distance within which the sample has `rank` points, as far as the filter sees."""
    n_sample = blocks.sample_half_norms.size
    for r in range(0, len(bounds), 2):
        for b in range(len(blocks.sample_tiles)):
            score_pair(blocks.sample_tiles, blocks.sample_half_norms, b, shrunk, r, scores)
            for s in range(2):
                for p in range(BLOCK):
                    square = norms[r + s] - 2.0 * scores[s, p]
                    lower[s, b * BLOCK + p] = square if square > 0.0 else 0.0
        for s in range(2):
            bounds[r + s] = bound_smallest(lower[s], n_sample, rank, scratch) / (blocks.scale * blocks.scale)
