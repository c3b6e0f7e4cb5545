"""Coverage over the cells of a grid on a two-dimensional space."""

from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, IntArray, as_response, as_space, check_count
from nearcal._errors import InvalidInputError
from nearcal._table import Table
from nearcal.diagnostics._groups import group_coverage
from nearcal.diagnostics._multiplicity import Correction
from nearcal.diagnostics._regions import Regions
from nearcal.distributions import Distribution
from nearcal.distributions import require_distribution

_SIGNIFICANT = 0.05


def coverage_map(
    dist: Distribution,
    y: Any,
    space: Any,
    cells: int = 10,
    *,
    coverage: float = 0.95,
    least: int = 20,
    correction: Correction = "fdr",
) -> Table:
    """Return the coverage of central intervals in the cells of a grid.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.
    space : array_like of shape (n, 2)
        Where the rows are: two columns, such as two features or two principal components of a layer.
    cells : int
        Number of cells of equal width along each of the two axes, from the least to the largest value.
    coverage : float
        Nominal coverage.
    least : int
        Cells with fewer rows are left out: their coverage says nothing.
    correction : {"fdr", "holm", "none"}
        Correction of the p-values for the number of cells.

    Returns
    -------
    Table
        The ends ``left_0``, ``right_0``, ``left_1``, ``right_1`` of a cell, then ``n``, ``coverage``, ``gap``,
        ``lower``, ``upper``, ``p_value`` and ``p_adjusted`` as in :func:`group_coverage`, and a ``finding``: "ok" where
        p_adjusted >= 0.05, else "under" or "over".

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> space = rng.uniform(size=(4000, 2))
    >>> y = rng.normal(0.0, np.where(space[:, 0] < 0.5, 1.0, 3.0))
    >>> table = nc.diagnostics.coverage_map(nc.Normal(np.zeros(4000), 2.0), y, space, cells=2)
    >>> table["left_0"].round(1), table["finding"]
    (array([0. , 0. , 0.5, 0.5]), array(['over', 'over', 'under', 'under'], dtype='<U5'))
    """
    dist = require_distribution(dist, "dist")
    response = as_response(y, len(dist), "y")
    points = as_space(space, "space", len(dist))
    if points.shape[1] != 2:
        raise InvalidInputError(f"space must have 2 columns to be mapped, got {points.shape[1]}; choose two of them")
    edges = [np.linspace(axis.min(), axis.max(), check_count(cells, "cells") + 1) for axis in points.T]
    column, row = (_locate(axis, edge) for axis, edge in zip(points.T, edges, strict=True))
    names, regions = _cells(column * cells + row, check_count(least, "least"))
    table = group_coverage(dist, response, regions, coverage=coverage, correction=correction)
    corners = _corners(edges[0], names // cells, "0") | _corners(edges[1], names % cells, "1")
    rest = {name: values for name, values in table.columns.items() if name != "group"}
    return Table({**corners, **rest, "finding": _findings(table)})


def _locate(values: FloatArray, edges: FloatArray) -> IntArray:
    return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)


def _cells(labels: IntArray, least: int) -> tuple[IntArray, Regions]:
    """Return the cells with enough rows, and those rows."""
    names, counts = np.unique(labels, return_counts=True)
    names = names[counts >= least]
    if len(names) == 0:
        raise InvalidInputError(f"no cell has {least} rows, the fullest has {counts.max()}; take fewer cells")
    return names, Regions(names, tuple(np.flatnonzero(labels == name) for name in names))


def _corners(edges: FloatArray, index: IntArray, axis: str) -> dict[str, FloatArray]:
    return {f"left_{axis}": edges[index], f"right_{axis}": edges[index + 1]}


def _findings(table: Table) -> list[str]:
    words = np.where(table["gap"] < 0, "under", "over")
    return np.where(table["p_adjusted"] < _SIGNIFICANT, words, "ok").tolist()
