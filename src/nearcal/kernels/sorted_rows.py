"""Rows of numbers in increasing order: where others belong among them, and the shares of probability at each."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal.kernels.compile import kernel


def count_not_above(table: Any, values: Any) -> NDArray[np.int64]:
    """Return how many entries of each row of a table are <= each value of the same row, by bisection."""
    counts = np.empty(values.shape, np.int64)
    write_counts(table, values, counts)
    return counts


@kernel
def write_counts(table, values, counts):
    """Write the counts of :func:`count_not_above`."""
    for row in range(len(values)):
        for j in range(values.shape[1]):
            low, high = 0, table.shape[1]
            while low < high:
                middle = (low + high) // 2
                if table[row, middle] <= values[row, j]:
                    low = middle + 1
                else:
                    high = middle
            counts[row, j] = low


def middle_shares(weights: Any, size: Any, below: Any, above: Any, place: Any) -> NDArray[np.float64]:
    """Write the weight below and above the middle of each entry, and the entry that stands for it, one of some weight.

    An entry of weight zero has those of the last before it that has one, or of the first of the row. Given the size n
    of a row's sample, not NaN, shares p are (n p + ½) / (n + 1). Return Σ w² of each row.
    """
    squares = np.zeros(len(weights))
    write_middle_shares(weights, size, below, above, place, squares)
    return squares


@kernel
def write_middle_shares(weights, size, below, above, place, squares):
    """Write all of :func:`middle_shares`."""
    rows, width = weights.shape
    for row in range(rows):
        first = 0
        while first < width - 1 and not weights[row, first] > 0.0:
            first += 1
        last, total, n = first, 0.0, size[row]
        for i in range(width):
            weight = weights[row, i]
            total += weight
            squares[row] += weight * weight
            below[row, i] = total - weight / 2
            last = i if weight > 0.0 else last
            place[row, i] = last
        total = 0.0
        for i in range(width - 1, -1, -1):
            total += weights[row, i]
            above[row, i] = total - weights[row, i] / 2
        for i in range(width):
            if n == n:
                below[row, i] = (n * below[row, i] + 0.5) / (n + 1)
                above[row, i] = (n * above[row, i] + 0.5) / (n + 1)
        for i in range(width):
            if weights[row, i] > 0.0:
                continue
            # the first of the row lies ahead of these, and is as it was left
            below[row, i], above[row, i] = below[row, place[row, i]], above[row, place[row, i]]
