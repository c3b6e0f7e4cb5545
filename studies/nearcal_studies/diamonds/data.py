"""The diamonds, split at random, and the features that the two models see."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import nearcal as nc

GRADED = ("cut", "color", "clarity")
_REGRESSORS = [0, 4, 5]  # of the nine inputs: log carat, depth and table
FIRST_SPLIT = 10  # splits below were used to choose features, training and space
FEATURES = (
    "Features: the regression has log carat, depth, table, and indicators of cut, color and clarity; x, y and z say "
    "again what the carat says. The network has nine inputs: log carat, log x, log y, log z (lengths of 0 or beyond "
    "15 mm, which no diamond has, are replaced by the typical one at its carat), depth, table, and cut, color and "
    "clarity as grades 0, 1, 2, …, all standardised by the training set. The input space in which both models are "
    "recalibrated locally is that of the nine columns as published, grades as numbers, not scaled."
)
CHOSEN = (
    "Features and training were chosen for base models near the paper's level, the space among five for its coverage, "
    "all on splits 0, 1 and 2; the table is of other splits."
)


class Data(NamedTuple):
    """One part of the data.

    Attributes
    ----------
    X : ndarray of shape (n, 9)
        Inputs of the network, standardised.
    design : ndarray of shape (n, 20)
        Columns of the regression.
    space : ndarray of shape (n, 9)
        The columns as published, grades as numbers: where neighbours are looked for.
    y : ndarray of shape (n,)
        Prices in dollars.
    """

    X: NDArray[Any]
    design: NDArray[Any]
    space: NDArray[Any]
    y: NDArray[Any]


def split(seed: int, rows: int | None = None) -> tuple[Data, Data, Data]:
    """Return training, calibration and test data: 70%, 20% and 10% of the diamonds, or of so many of them."""
    diamonds = nc.datasets.load_diamonds()
    order = np.random.default_rng(seed).permutation(len(diamonds.y))[:rows]
    columns = dict(zip(diamonds.feature_names, diamonds.X[order].T, strict=True))
    X = numeric(columns)
    ends = [7 * len(order) // 10, 9 * len(order) // 10]
    X = (X - X[: ends[0]].mean(axis=0)) / X[: ends[0]].std(axis=0)
    design = np.column_stack([X[:, _REGRESSORS], _indicators(columns)])
    parts = (np.split(table, ends) for table in (X, design, diamonds.X[order], diamonds.y[order]))
    train, cal, new = (Data(*part) for part in zip(*parts, strict=True))
    return train, cal, new


def numeric(columns: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Return nine columns: logarithms of carat and lengths, grades, depth and table."""
    carat = columns["carat"]
    lengths = [np.log(_plausible(columns[name], carat)) for name in ("x", "y", "z")]
    return np.column_stack([np.log(carat), *(columns[name] for name in (*GRADED, "depth", "table")), *lengths])


def _plausible(length: NDArray[Any], carat: NDArray[Any]) -> NDArray[Any]:
    """Replace lengths that no diamond has by the typical one at its weight, which is proportional to carat^(1/3)."""
    is_plausible = (length > 1) & (length < 15)
    typical = np.median(length[is_plausible] / np.cbrt(carat[is_plausible]))
    return np.where(is_plausible, length, typical * np.cbrt(carat))


def _indicators(columns: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Return one indicator a grade but the first of each."""
    tables = [
        columns[name][:, np.newaxis] == np.arange(1, len(levels))
        for name, levels in nc.datasets.load_diamonds().categories.items()
    ]
    return np.concatenate(tables, axis=1).astype(np.float64)
