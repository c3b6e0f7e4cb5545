"""Is coverage right everywhere: the worst slab of the space, and the dependence of misses on width."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray, as_generator, as_response, as_space, check_count
from nearcal._errors import InvalidParameterError
from nearcal._table import Table
from nearcal.diagnostics.pit_values import is_covered
from nearcal.distributions import Distribution, Seed, check_coverage, require_distribution
from nearcal.space import Scaling

_MOST_ROWS = 2000  # HSIC holds a matrix of rows × rows


def worst_slab_coverage(
    dist: Distribution,
    y: Any,
    space: Any,
    *,
    coverage: float = 0.95,
    mass: float = 0.1,
    directions: int = 500,
    search: float = 0.5,
    rng: Seed = 0,
) -> Table:
    """Search the slab of the space with the least coverage, and measure its coverage on rows not searched.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.
    space : array_like of shape (n, d)
        Where the rows are; columns are scaled to unit standard deviation.
    coverage : float
        Nominal coverage of the central intervals.
    mass : float
        Least share of the rows in a slab, strictly between 0 and 1.
    directions : int
        Number of random directions v searched, beside the coordinate axes.
    search : float
        Share of the rows, drawn at random, in which the slab is searched; its coverage is measured in the others. A
        slab measured where it was found would look bad even for perfect predictions.
    rng : int, numpy.random.Generator or None
        Seed or generator.

    Returns
    -------
    Table
        One row: ``coverage`` of the slab on unsearched rows, its standard error ``se``, the number of those rows ``n``,
        the one-sided binomial ``p_value`` of a coverage this low, and ``searched``, the (optimistic) coverage where
        the slab was found.

    References
    ----------
    M. Cauchois, S. Gupta and J. Duchi, *Knowing what you know: valid and validated confidence sets in multiclass and
    multilabel prediction*, JMLR 22 (2021); the split as in Y. Romano, M. Sesia and E. Candès (2020),
    arXiv:2006.02544.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(size=(2000, 2))
    >>> y = rng.normal(0.0, np.where(x[:, 0] < 0.2, 3.0, 1.0))
    >>> nc.diagnostics.worst_slab_coverage(nc.Normal(np.zeros(2000), 1.5), y, x)["coverage"].round(1)
    array([0.7])
    """
    from scipy.stats import binomtest

    covered = is_covered(dist, y, coverage)
    points = as_space(space, "space", len(covered))
    points = Scaling("standard").learn(points)(points)
    for name, share in (("mass", mass), ("search", search)):
        if not 0 < share < 1:
            raise InvalidParameterError(f"{name} must lie strictly between 0 and 1, got {share!r}")
    rows, slab = search_slab(covered, points, mass, check_count(directions, "directions", 0), search, rng)
    n, hits = len(rows), int(covered[rows].sum())
    observed = hits / n if n else np.nan
    return Table(
        {
            "coverage": [observed],
            "se": [np.sqrt(observed * (1 - observed) / n) if n else np.nan],
            "n": [n],
            "p_value": [binomtest(hits, n, coverage, alternative="less").pvalue if n else 1.0],
            "searched": [slab.coverage],
        }
    )


def search_slab(
    covered: NDArray[np.bool_], points: FloatArray, mass: float, directions: int, search: float, rng: Seed
) -> "tuple[IntArray, _Slab]":
    """Return the rows in the worst slab, of those that it was not searched in, and the slab; points are scaled."""
    generator = as_generator(rng)
    order = generator.permutation(len(points))
    searched, held_out = np.split(order, [max(1, min(len(order) - 1, round(search * len(order))))])
    vectors = _directions(points.shape[1], directions, generator)
    slab = _worst_slab(points[searched] @ vectors.T, covered[searched], mass)
    projection = points[held_out] @ vectors[slab.direction]
    return held_out[(projection >= slab.low) & (projection <= slab.high)], slab


class _Slab(NamedTuple):
    direction: int
    low: float
    high: float
    coverage: float


def _directions(d: int, count: int, generator: np.random.Generator) -> FloatArray:
    axes = np.eye(d)
    if d == 1:
        return axes
    normal = generator.standard_normal((count, d))
    return np.concatenate([axes, normal / np.linalg.norm(normal, axis=1, keepdims=True)])


def _worst_slab(projections: FloatArray, covered: NDArray[np.bool_], mass: float) -> _Slab:
    """Return the slab with the largest share of misses, over the columns of projections of shape (n, directions)."""
    n = len(covered)
    least = max(1, int(np.ceil(mass * n)))
    order = np.argsort(projections, axis=0, kind="stable")
    best_rate, best = -1.0, (0, 0, n)
    for column in range(projections.shape[1]):
        misses = ~covered[order[:, column]]
        rate, start, stop = densest_window(misses, least, best_rate)
        if rate > best_rate:
            best_rate, best = rate, (column, start, stop)
    column, start, stop = best
    ends = projections[order[[start, stop - 1], column], column]
    return _Slab(column, float(ends[0]), float(ends[1]), 1 - best_rate)


def densest_window(hits: NDArray[np.bool_], least: int, rate: float = -1.0) -> tuple[float, int, int]:
    """Return the window of at least ``least`` entries with the largest share of hits: (share, start, stop).

    Dinkelbach's method: a window beats a share if its hits exceed share · length, and the best such window is found
    from running minima of sums; the share it has is the next to beat. Starts from ``rate`` and returns it if unbeaten.
    """
    total = np.concatenate([[0.0], np.cumsum(hits)])
    place: IntArray = np.arange(len(total))
    start, stop = 0, len(hits)
    while True:
        excess = total - max(rate, 0.0) * place
        lowest = np.minimum.accumulate(excess[: len(total) - least])
        gain = excess[least:] - lowest
        end = int(np.argmax(gain))
        if not gain[end] > 1e-9 and rate >= 0:
            return rate, start, stop
        begin = int(np.argmin(excess[: end + 1]))
        share = (total[end + least] - total[begin]) / (end + least - begin)
        if share <= rate:
            return rate, start, stop
        rate, start, stop = float(share), begin, end + least


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
    lower, upper = dist.interval(check_coverage(coverage))
    width, miss = upper - lower, ((response < lower) | (response > upper)).astype(np.float64)
    generator = as_generator(rng)
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
