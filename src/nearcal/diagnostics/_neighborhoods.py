"""Calibration around every row: over its nearest rows in the space."""

from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, as_response, as_space, check_count
from nearcal._errors import InvalidParameterError
from nearcal._table import Table
from nearcal.diagnostics._pit import is_covered
from nearcal.distributions import Distribution
from nearcal.neighbors import build_index
from nearcal.distributions import require_distribution
from nearcal.scaling import learn_scaling

_CHUNK = 1024
_FARTHEST = 5.0  # scores beyond count as this far: one outlier must not paint its whole neighbourhood


def neighborhood_calibration(dist: Distribution, y: Any, space: Any, k: int = 100, *, coverage: float = 0.95) -> Table:
    """Return how predictions fare around every row: over the k rows nearest to it, itself included.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.
    space : array_like of shape (n, d)
        Where the rows are; columns are scaled to unit standard deviation.
    k : int
        Number of rows in a neighbourhood, at most n.
    coverage : float
        Nominal coverage of the central intervals.

    Returns
    -------
    Table
        One row a row: ``mean_z`` and ``std_z``, mean and standard deviation of the normal scores of the k observations,
        0 and 1 if calibrated, up to errors of 1/√k and 1/√(2k); ``coverage``; and ``radius``, the distance to the k-th
        row. Scores beyond ±5 count as ±5.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> x = np.linspace(0, 1, 1000)
    >>> y = np.random.default_rng(1).normal(0.0, 1 + 2 * x)
    >>> found = nc.diagnostics.neighborhood_calibration(nc.Normal(np.zeros(1000), 1.0), y, x)
    >>> found["std_z"][[50, 950]].round(1), found["coverage"][[50, 950]]
    (array([0.9, 2.6]), array([0.95, 0.43]))
    """
    dist = require_distribution(dist, "dist")
    response = as_response(y, len(dist), "y")
    points = as_space(space, "space", len(dist))
    covered = is_covered(dist, response, coverage)
    columns = calibration_columns(dist.z(response), covered)
    means, reach = neighborhood_means(learn_scaling("standard", points)(points), check_count(k, "k"), columns)
    return Table({**local_figures(means), "radius": reach})


def calibration_columns(z: FloatArray, covered: Any) -> FloatArray:
    """Return what is averaged over neighbourhoods: score, its square, covered; shape (n, 3)."""
    held = np.clip(z, -_FARTHEST, _FARTHEST)
    return np.column_stack([held, held**2, covered])


def local_figures(means: FloatArray) -> dict[str, FloatArray]:
    """Return bias, spread and coverage from the means of those columns."""
    mean, square, covered = means.T
    return {"mean_z": mean, "std_z": np.sqrt(np.maximum(square - mean**2, 0.0)), "coverage": covered}


def neighborhood_means(points: FloatArray, k: int, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return means of the columns over the k points nearest to each point, and the distance to the k-th."""
    n = len(points)
    if k > n:
        raise InvalidParameterError(f"k must be at most the number of rows, {n}, got {k}")
    index = build_index(points, "euclidean", "auto", k)
    means, reach = np.empty((n, columns.shape[1])), np.empty(n)
    for start in range(0, n, _CHUNK):
        chunk = slice(start, min(start + _CHUNK, n))
        found = index.nearest(points[chunk], k, 0.0)
        rows = found.indices.reshape(-1, k)
        for j, column in enumerate(columns.T):
            means[chunk, j] = column[rows].mean(axis=1)
        reach[chunk] = found.reach
    return means, reach
