"""Moments of F⁻¹(Φ(z)) over many scores z from its values at a few Chebyshev nodes."""

import numpy as np

from nearcal._jit._compile import inner, kernel
from nearcal._jit._summary import row_moments

NODES = 64
_NEGLIGIBLE = 1e-13  # of the largest coefficient: what is cut off a series that has come down to this is below rounding


@kernel
def interpolated_moments(node_values, low, high, scores, weights):
    """Return mean, variance and whether the interpolation converged, for each row.

    ``node_values[row]`` are values at the Chebyshev nodes of [low, high], which holds the row's scores of positive
    weight. A row whose coefficients do not decay to rounding is left to the caller.
    """
    rows, width = scores.shape
    converged = np.zeros(rows, dtype=np.bool_)
    values = np.zeros((rows, width))
    coefficients = np.empty(NODES)
    x, ahead, after = np.empty(width), np.empty(width), np.empty(width)
    cosines = np.cos(np.pi * np.arange(4 * NODES) / (2 * NODES))
    for row in range(rows):
        _transform(node_values[row], cosines, coefficients)
        converged[row] = _has_decayed(coefficients)
        if converged[row]:
            middle, half = (high[row] + low[row]) / 2, max((high[row] - low[row]) / 2, 1e-300)
            for i in range(width):
                x[i] = min(max((scores[row, i] - middle) / half, -1.0), 1.0)
            _evaluate(coefficients, x, ahead, after, values[row])
    mean, variance = row_moments(values, weights)
    return mean, variance, converged


@inner
def _transform(node_values, cosines, coefficients):
    """Write the Chebyshev coefficients of the polynomial through the nodes: a cosine transform."""
    for c in range(NODES):
        total = 0.0
        for j in range(NODES):
            total += node_values[j] * cosines[(c * (2 * j + 1)) % (4 * NODES)]
        coefficients[c] = total * 2.0 / NODES
    coefficients[0] /= 2.0


@inner
def _has_decayed(coefficients):
    largest = 0.0
    for c in range(NODES):
        largest = max(largest, abs(coefficients[c]))
    tail = 0.0
    for c in range(NODES - 4, NODES):  # several: those of an even function vanish by turns
        tail = max(tail, abs(coefficients[c]))
    return tail <= _NEGLIGIBLE * largest


@inner
def _evaluate(coefficients, x, ahead, after, out):
    """Sum the Chebyshev series at all x by Clenshaw's recurrence, one coefficient after the other."""
    ahead[:] = 0.0
    after[:] = 0.0
    for c in range(NODES - 1, 0, -1):
        for i in range(len(x)):
            here = 2.0 * x[i] * ahead[i] - after[i] + coefficients[c]
            after[i] = ahead[i]
            ahead[i] = here
    for i in range(len(x)):
        out[i] = x[i] * ahead[i] - after[i] + coefficients[0]
