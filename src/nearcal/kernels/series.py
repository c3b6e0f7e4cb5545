"""Chebyshev series on panels: quantile functions of rows at many scores."""

from typing import Any

import numpy as np

from nearcal.kernels.compile import kernel


def evaluate_series(series: Any, panel: Any, x: Any, values: Any) -> None:
    """Write the value of each row's function at each of its scores, by Clenshaw's recurrence.

    ``series[row, p]`` are the coefficients on panel p; score j of a row lies in ``panel[row, j]``, at ``x[row, j]`` in
    [-1, 1]. The recurrence takes one coefficient after the other for all scores, so that it runs in vector lanes.
    """
    write_series(series, panel, x, np.empty(x.shape[1]), np.empty(x.shape[1]), values)


@kernel
def write_series(series, panel, x, ahead, after, values):
    """Write the values of :func:`evaluate_series`, with scratch for one row."""
    rows, width = x.shape
    last = series.shape[2] - 1
    for row in range(rows):
        ahead[:] = 0.0
        after[:] = 0.0
        for c in range(last, 0, -1):
            for j in range(width):
                here = 2.0 * x[row, j] * ahead[j] - after[j] + series[row, panel[row, j], c]
                after[j] = ahead[j]
                ahead[j] = here
        for j in range(width):
            values[row, j] = x[row, j] * ahead[j] - after[j] + series[row, panel[row, j], 0]
