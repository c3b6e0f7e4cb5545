"""The local-linear correction: scores of neighbours regressed on where they are, and moved to where the row is.

Neighbours are taken in blocks stored dimension by dimension, so that every inner loop runs over neighbours and is
vectorised; the last block is filled up with points of weight zero.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcal.kernels.compile import inner, kernel, once, reduction
from nearcal.kernels.summary import find_longest

BLOCK = 64
_LARGEST_CORRECTION = 3.0  # of a residual for its leverage
_REACH = 2.0  # times the largest leverage of a neighbour, up to which a query has the whole slope


class Workroom(NamedTuple):
    """Arrays for one neighbourhood at a time: positions (blocks, d, 64), then one number a neighbour, then small ones.

    ``root`` is the Cholesky factor L of G + λI, with G the weighted covariance of positions. ``offset`` is the query
    seen from the mean position.
    """

    x: Any
    weights: Any
    scores: Any
    fit: Any
    leverage: Any
    root: Any
    slope: Any
    offset: Any
    solved: Any


def make_workroom(indptr: NDArray[np.int64], dimensions: int) -> Workroom:
    """Return room for the largest neighbourhood."""
    blocks = max(-(-find_longest(indptr) // BLOCK), 1)
    weights, scores, fit, leverage = (np.empty((blocks, BLOCK)) for _ in range(4))
    root, slope, offset = np.empty((dimensions, dimensions)), np.empty(dimensions), np.empty(dimensions)
    x, solved = np.empty((blocks, dimensions, BLOCK)), np.empty((dimensions, BLOCK))
    return Workroom(x, weights, scores, fit, leverage, root, slope, offset, solved)


def adjust_linear(
    indptr: Any,
    indices: Any,
    weights: Any,
    points: Any,
    queries: Any,
    owners: Any,
    scores: Any,
    least: Any,
    ridge: Any,
    room: Any,
) -> NDArray[np.float64]:
    """Return the scores of all neighbours, one a pair, moved to the query of their neighbourhood.

    Neighbourhood g belongs to ``queries[owners[g]]``; those without an owner, or with fewer than ``least`` neighbours,
    keep their scores, and so do those in which position explains no more than chance would.
    """
    adjusted = scores.copy()
    adjust_all(indptr, indices, weights, points, queries, owners, adjusted, least, ridge, room)
    return adjusted


@kernel
def adjust_all(indptr, indices, weights, points, queries, owners, adjusted, least, ridge, room):
    """Overwrite scores with those of :func:`adjust_linear`."""
    for group in range(len(indptr) - 1):
        start, stop = indptr[group], indptr[group + 1]
        if owners[group] >= 0 and stop - start >= least:
            blocks = _gather(indices[start:stop], weights[start:stop], adjusted[start:stop], points, room)
            _adjust(blocks, queries[owners[group]], ridge, room, adjusted[start:stop])


@once
def _adjust(blocks, query, ridge, room, adjusted):
    """Overwrite the scores of one neighbourhood, gathered in the workroom."""
    _center(blocks, query, room)
    if not _factorise(blocks, ridge, room):
        return
    own, extra, farthest = _weigh_leverages(blocks, room)
    mean, share = _regress(blocks, own, extra, room)
    if not share > 0.0:
        return
    distance = _distance_of_query(room)
    share /= share + (1.0 - share) * max(distance / len(query), 1.0)  # noise of the slope grows with the distance
    if distance > _REACH * farthest:
        share *= _REACH * farthest / distance
    center = mean + share * _bounded_prediction(blocks, room)
    for i in range(len(adjusted)):
        b, place = i // BLOCK, i % BLOCK
        rest = 1.0 - room.weights[b, place]
        correction = rest / max(rest - share * room.leverage[b, place], rest / _LARGEST_CORRECTION)
        adjusted[i] = center + correction * (room.scores[b, place] - mean - share * room.fit[b, place])


@once
def _gather(indices, weights, scores, points, room):
    """Copy a neighbourhood into blocks; return their number."""
    count, dimensions = len(indices), points.shape[1]
    blocks = -(-count // BLOCK)
    for i in range(count):
        b, place = i // BLOCK, i % BLOCK
        for a in range(dimensions):
            room.x[b, a, place] = points[indices[i], a]
        room.weights[b, place] = weights[i]
        room.scores[b, place] = scores[i]
    for i in range(count, blocks * BLOCK):
        b, place = i // BLOCK, i % BLOCK
        for a in range(dimensions):
            room.x[b, a, place] = room.x[b, a, 0]
        room.weights[b, place] = 0.0
        room.scores[b, place] = room.scores[b, 0]
    return blocks


@once
def _center(blocks, query, room):
    """Subtract the weighted mean position from all positions and from the query."""
    for a in range(len(query)):
        mean = 0.0
        for b in range(blocks):
            mean += _dot(room.x[b, a], room.weights[b])
        for b in range(blocks):
            for i in range(BLOCK):
                room.x[b, a, i] -= mean
        room.offset[a] = query[a] - mean


@reduction
def _dot(x, y):
    total = 0.0
    for i in range(BLOCK):
        total += x[i] * y[i]
    return total


# Four products at a time: what they share is loaded once.


@reduction
def _add_four_dots(x, y, totals):
    first = second = third = fourth = 0.0
    for i in range(BLOCK):
        first += x[i] * y[0, i]
        second += x[i] * y[1, i]
        third += x[i] * y[2, i]
        fourth += x[i] * y[3, i]
    totals[0] += first
    totals[1] += second
    totals[2] += third
    totals[3] += fourth


@once
def _subtract_four(factors, x, y):
    first, second, third, fourth = factors[0], factors[1], factors[2], factors[3]
    for i in range(BLOCK):
        y[i] -= first * x[0, i] + second * x[1, i] + third * x[2, i] + fourth * x[3, i]


@inner
def _factorise(blocks, ridge, room):
    """Write L with L Lᵀ = G + λI, λ being ``ridge`` times the mean variance; False where all are in one place."""
    root, dimensions = room.root, len(room.slope)
    root[:] = 0.0
    for b in range(blocks):
        for a in range(dimensions):
            for i in range(BLOCK):
                room.solved[a, i] = room.weights[b, i] * room.x[b, a, i]
            fours = (a + 1) // 4 * 4
            for c in range(0, fours, 4):
                _add_four_dots(room.solved[a], room.x[b, c : c + 4], root[a, c : c + 4])
            for c in range(fours, a + 1):
                root[a, c] += _dot(room.solved[a], room.x[b, c])
    trace = 0.0
    for a in range(dimensions):
        trace += root[a, a]
    if not trace > 0.0:
        return False
    for a in range(dimensions):
        root[a, a] += ridge * trace / dimensions
        for c in range(a + 1):
            total = root[a, c]
            for e in range(c):
                total -= root[a, e] * root[c, e]
            if c < a:
                root[a, c] = total / root[c, c]
            elif total > 0.0:
                root[a, a] = np.sqrt(total)
            else:
                return False
    return True


@inner
def _weigh_leverages(blocks, room):
    """Write the leverage wᵢ |L⁻¹xᵢ|² that each neighbour has beyond its weight.

    Return Σ w², Σ w · leverage, and the largest |L⁻¹xᵢ|² of neighbours that count.
    """
    dimensions, solved = len(room.slope), room.solved
    own = extra = farthest = 0.0
    for b in range(blocks):
        squares = room.leverage[b]
        squares[:] = 0.0
        for a in range(dimensions):
            for i in range(BLOCK):
                solved[a, i] = room.x[b, a, i]
            fours = a // 4 * 4
            for c in range(0, fours, 4):
                _subtract_four(room.root[a, c : c + 4], solved[c : c + 4], solved[a])
            for c in range(fours, a):
                factor = room.root[a, c]
                for i in range(BLOCK):
                    solved[a, i] -= factor * solved[c, i]
            scale = 1.0 / room.root[a, a]
            for i in range(BLOCK):
                solved[a, i] *= scale
                squares[i] += solved[a, i] * solved[a, i]
        for i in range(BLOCK):
            if room.weights[b, i] > 0.0:
                farthest = max(farthest, squares[i])
            squares[i] *= room.weights[b, i]
        own += _dot(room.weights[b], room.weights[b])
        extra += _dot(room.weights[b], squares)
    return own, extra, farthest


@once
def _distance_of_query(room):
    """Return |L⁻¹x|² of the query, seen from the mean position."""
    solved, square = room.solved, 0.0
    for a in range(len(room.offset)):
        total = room.offset[a]
        for c in range(a):
            total -= room.root[a, c] * solved[c, 0]
        solved[a, 0] = total / room.root[a, a]
        square += solved[a, 0] * solved[a, 0]
    return square


@inner
def _regress(blocks, own, extra, room):
    """Write slope and fitted deviations from the mean; return the mean score and the share of the slope to use.

    If position told nothing, the weighted sum of squares that it explains would on average be σ² Σ w · leverage, with
    σ² the residual sum of squares over 1 - Σ w² - Σ w · leverage. What it explains beyond that is the share: the
    estimate of James and Stein, which leaves out a slope of no more than noise.
    """
    slope, fit, scores = room.slope, room.fit, room.scores
    mean = 0.0
    for b in range(blocks):
        mean += _dot(scores[b], room.weights[b])
    slope[:] = 0.0
    for b in range(blocks):
        for i in range(BLOCK):
            fit[b, i] = room.weights[b, i] * (scores[b, i] - mean)
        for a in range(len(slope)):
            slope[a] += _dot(room.x[b, a], fit[b])
    _solve(room.root, slope)
    total = rest = 0.0
    for b in range(blocks):
        fit[b] = 0.0
        for a in range(len(slope)):
            factor = slope[a]
            for i in range(BLOCK):
                fit[b, i] += factor * room.x[b, a, i]
        before, after = _squares(scores[b], mean, fit[b], room.weights[b])
        total += before
        rest += after
    freedom = 1.0 - own - extra
    explained = total - rest
    if not (freedom > 0.0 and explained > 0.0):
        return mean, 0.0
    return mean, max(1.0 - rest / freedom * extra / explained, 0.0)


@once
def _solve(root, slope):
    """Solve L Lᵀ b = g in place."""
    for a in range(len(slope)):
        for c in range(a):
            slope[a] -= root[a, c] * slope[c]
        slope[a] /= root[a, a]
    for a in range(len(slope) - 1, -1, -1):
        for c in range(a + 1, len(slope)):
            slope[a] -= root[c, a] * slope[c]
        slope[a] /= root[a, a]


@reduction
def _squares(scores, mean, fit, weights):
    """Return Σ w (z - mean)² and Σ w (z - mean - fit)²."""
    before = 0.0
    after = 0.0
    for i in range(BLOCK):
        deviation = scores[i] - mean
        before += weights[i] * deviation * deviation
        after += weights[i] * (deviation - fit[i]) * (deviation - fit[i])
    return before, after


@once
def _bounded_prediction(blocks, room):
    """Return the fitted deviation at the query, no larger or smaller than at any neighbour that counts."""
    low, high, prediction = np.inf, -np.inf, 0.0
    for b in range(blocks):
        for i in range(BLOCK):
            if room.weights[b, i] > 0.0:
                low, high = min(low, room.fit[b, i]), max(high, room.fit[b, i])
    for a in range(len(room.slope)):
        prediction += room.slope[a] * room.offset[a]
    return min(max(prediction, low), high)
