"""Dependence between the width of intervals and whether they miss: none if coverage is right everywhere."""

from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, as_response, check_count
from nearcal._table import Table
from nearcal.distributions import Distribution
from nearcal.distributions.base import Seed
from nearcal.distributions import require_distribution

_MOST_ROWS = 2000  # HSIC holds a matrix of rows × rows


def width_dependence(
    dist: Distribution, y: Any, *, coverage: float = 0.95, permutations: int = 999, rng: Seed = 0
) -> Table:
    """Test whether intervals of some widths miss more often than others.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.
    coverage : float
        Nominal coverage of the central intervals.
    permutations : int
        Number of random permutations behind a p-value, which is at least 1 / (permutations + 1).
    rng : int, numpy.random.Generator or None
        Seed or generator.

    Returns
    -------
    Table
        ``measure``, ``value``, ``p_value`` and the number ``n`` of rows used, for "pearson", the correlation of width
        and miss, and "hsic", the Hilbert-Schmidt independence criterion with a Gaussian kernel of median bandwidth in
        the rank of the width, which sees any dependence; the latter on at most 2,000 rows drawn at random. Both are
        0 with p-value 1 where all widths or all misses are equal.

    References
    ----------
    S. Feldman, S. Bates and Y. Romano, *Improving conditional coverage via orthogonal quantile regression*, NeurIPS
    2021, arXiv:2106.00394.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> scale = rng.uniform(1, 3, size=1000)
    >>> table = nc.diagnostics.width_dependence(nc.Normal(np.zeros(1000), scale), rng.normal(size=1000) * 1.5)
    >>> bool(table["value"][0] < 0), table["p_value"].max()
    (True, np.float64(0.001))
    """
    dist = require_distribution(dist, "dist")
    response = as_response(y, len(dist), "y")
    permutations = check_count(permutations, "permutations")
    lower, upper = dist.interval(coverage)
    width, miss = upper - lower, ((response < lower) | (response > upper)).astype(np.float64)
    generator = np.random.default_rng(rng)
    some = generator.permutation(len(width))[:_MOST_ROWS]
    pearson = _pearson(width, miss, permutations, generator)
    hsic = _hsic(width[some], miss[some], permutations, generator)
    values, p_values = zip(pearson, hsic, strict=True)
    return Table({"measure": ["pearson", "hsic"], "value": values, "p_value": p_values, "n": [len(width), len(some)]})


def _is_constant(values: FloatArray) -> bool:
    return bool(np.ptp(values) <= 1e-12 * np.abs(values).max())


def _pearson(width: FloatArray, miss: FloatArray, permutations: int, rng: np.random.Generator) -> tuple[float, float]:
    if _is_constant(width) or _is_constant(miss):
        return 0.0, 1.0
    a = (width - width.mean()) / width.std()
    b = (miss - miss.mean()) / miss.std()
    value = float(np.mean(a * b))
    null = np.array([np.mean(a * rng.permutation(b)) for _ in range(permutations)])
    return value, _p_value(abs(value), np.abs(null))


def _hsic(width: FloatArray, miss: FloatArray, permutations: int, rng: np.random.Generator) -> tuple[float, float]:
    if _is_constant(width) or _is_constant(miss):
        return 0.0, 1.0
    n = len(width)
    rank = np.searchsorted(np.sort(width), width) / n
    distance = (rank[:, np.newaxis] - rank) ** 2
    kernel = np.exp(-distance / (2 * np.median(distance[distance > 0])))
    centered = miss - miss.mean()
    # the delta kernel of a binary variable, centered, is 2 c cᵀ
    value = 2 * centered @ kernel @ centered / n**2
    shuffled = rng.permuted(np.tile(centered, (permutations, 1)), axis=1)
    null = 2 * np.einsum("pn,pn->p", shuffled @ kernel, shuffled) / n**2
    return float(value), _p_value(value, null)


def _p_value(value: float, null: FloatArray) -> float:
    # equal up to rounding counts as equal
    return float((1 + np.sum(null >= value * (1 - 1e-12))) / (1 + len(null)))
