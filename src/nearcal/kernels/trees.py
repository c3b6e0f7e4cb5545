"""How much of some targets each column of a table tells: an extremely randomised tree, judged on rows of its own."""

from typing import Any

import numpy as np

from nearcal.kernels.compile import inner, kernel, once, reduction


def tree_relevance(
    columns: Any, targets: Any, growing: Any, judging: Any, draws: Any, least: Any, relevance: Any
) -> None:
    """Grow one tree and add to ``relevance[f]`` what its splits of column f explain of the targets.

    Each node tries as many random (column, threshold) pairs as ``draws`` holds for it, numbers uniform in [0, 1), and
    takes the one that explains most on the growing rows. What it is worth is the product of two shifts, of the
    targets' means between its sides, one on the growing and one on the judging rows: for a column that tells nothing
    that product is zero on average, however hard the tree has searched. Sides have at least ``least`` growing rows.
    ``columns`` is (d, n), ``targets`` (n, t); ``growing`` and ``judging`` are reordered.
    """
    kinds = targets.shape[1]
    bounds, room, sums = (
        np.empty((len(draws) + 1, 4), np.int64),
        np.empty((kinds + 1, len(growing))),
        np.empty((3, kinds)),
    )
    add_relevance(columns, targets, growing, judging, draws, least, relevance, bounds, room, sums)


@kernel
def add_relevance(columns, targets, growing, judging, draws, least, relevance, bounds, room, sums):
    """Do what :func:`tree_relevance` does, with scratch for the nodes that wait, and for one node."""
    kinds = targets.shape[1]
    total, shift, confirmed = sums[0], sums[1], sums[2]
    _wait(bounds[0], np.int64(0), len(growing), np.int64(0), len(judging))
    waiting, node = 1, 0
    while waiting > 0 and node < len(draws):
        waiting -= 1
        first, last = bounds[waiting, 0], bounds[waiting, 1]
        first_judge, last_judge = bounds[waiting, 2], bounds[waiting, 3]
        grown, judged = growing[first:last], judging[first_judge:last_judge]
        column, threshold = _best_split(columns, targets, grown, draws[node], least, room, total)
        node += 1
        if column < 0:
            continue
        count = _part(columns[column], grown, threshold)
        count_judge = _part(columns[column], judged, threshold)
        if count_judge == 0 or count_judge == len(judged):
            continue
        _write_shift(targets, grown, count, shift)
        _write_shift(targets, judged, count_judge, confirmed)
        size = count_judge * (len(judged) - count_judge) / len(judged)
        for t in range(kinds):
            relevance[column] += size * shift[t] * confirmed[t]
        if len(grown) - count >= 2 * least and waiting < len(bounds):
            _wait(bounds[waiting], first + count, last, first_judge + count_judge, last_judge)
            waiting += 1
        if count >= 2 * least and waiting < len(bounds):
            _wait(bounds[waiting], first, first + count, first_judge, first_judge + count_judge)
            waiting += 1


@inner
def _wait(bounds, first, last, first_judge, last_judge):
    bounds[0], bounds[1], bounds[2], bounds[3] = first, last, first_judge, last_judge


@once
def _best_split(columns, targets, rows, draws, least, room, total):
    """Return the column and threshold that explain most, of those drawn; column -1 if none parts the rows.

    What a node looks at many times is first copied to where it lies side by side, in ``room``, its sum to ``total``.
    """
    count_all, kinds = len(rows), targets.shape[1]
    values = room[kinds, :count_all]
    total[:] = 0.0
    for i in range(count_all):
        for t in range(kinds):
            room[t, i] = targets[rows[i], t]
            total[t] += targets[rows[i], t]
    best, best_column, best_threshold = 0.0, -1, 0.0
    for j in range(len(draws)):
        column = min(np.int64(draws[j, 0] * len(columns)), len(columns) - 1)  # whatever the product rounds to
        low, high = np.inf, -np.inf
        for i in range(count_all):
            values[i] = columns[column, rows[i]]
            low, high = min(low, values[i]), max(high, values[i])
        threshold = low + draws[j, 1] * (high - low)
        count = 0
        for i in range(count_all):
            count += values[i] <= threshold
        if count < least or count_all - count < least:
            continue
        gain = 0.0
        for t in range(kinds):
            below = _sum_below(values, threshold, room[t, :count_all])
            difference = below / count - (total[t] - below) / (count_all - count)
            gain += difference * difference
        gain *= count * (count_all - count)
        if gain > best:
            best, best_column, best_threshold = gain, column, threshold
    return best_column, best_threshold


@reduction
def _sum_below(values, threshold, targets):
    """Return the sum of the targets of values up to a threshold, without a branch that half of them would miss."""
    total = 0.0
    for i in range(len(values)):
        total += targets[i] if values[i] <= threshold else 0.0
    return total


@inner
def _part(values, rows, threshold):
    """Bring the rows at or below the threshold to the front; return their number."""
    count = 0
    for i in range(len(rows)):
        if values[rows[i]] <= threshold:
            rows[count], rows[i] = rows[i], rows[count]
            count += 1
    return count


@inner
def _write_shift(targets, rows, count, shift):
    """Write the mean of the first ``count`` rows less that of the others, target by target."""
    shift[:] = 0.0
    for i in range(len(rows)):
        size = 1.0 / count if i < count else -1.0 / (len(rows) - count)
        for t in range(len(shift)):
            shift[t] += size * targets[rows[i], t]
