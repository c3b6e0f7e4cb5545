"""The Poisson bootstrap: every row gets an independent Poisson(1) weight, so that rows can be taken in chunks."""

import numpy as np

from nearcal._arrays import FloatArray

_CHUNK = 2**14


def weighted_means(table: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Return means of the columns of an (n, a) table under ``count`` sets of random weights; shape (count, a).

    A column with infinite entries has infinite or NaN means.
    """
    sums, total = np.zeros((count, table.shape[1])), np.zeros((count, 1))
    for start in range(0, len(table), _CHUNK):
        rows = table[start : start + _CHUNK]
        weights = rng.poisson(1.0, size=(count, len(rows))).astype(np.float64)
        with np.errstate(invalid="ignore"):
            sums += weights @ rows
        total += weights.sum(axis=1, keepdims=True)
    return sums / np.maximum(total, 1.0)
