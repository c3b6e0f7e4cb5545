"""Regions of the space in which calibration is looked at: clusters, groups, or the surroundings of points."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray, as_generator, as_space, check_count
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal.diagnostics.features import Feature, as_category, as_features, has_categories
from nearcal.distributions import Seed
from nearcal.space import Scaling

_MOST_CATEGORIES = 1000  # more are names of rows, not of places


@dataclass(frozen=True)
class Regions:
    """Named sets of rows; they may overlap and need not hold every row.

    Attributes
    ----------
    names : ndarray of shape (r,)
        One name a region.
    rows : tuple of ndarray
        Row numbers of each region.
    centers : ndarray of shape (r, d) or None
        Where the regions are, in the space they were made from.
    """

    names: NDArray[Any]
    rows: tuple[IntArray, ...]
    centers: FloatArray | None = None


def kmeans_regions(space: Any, count: int, rng: Seed = 0) -> Regions:
    """Cut the space into clusters by k-means, of columns scaled to unit standard deviation.

    Parameters
    ----------
    space : array_like of shape (n, d)
        Where the rows are.
    count : int
        Number of clusters, at most n. Clusters that end up empty are dropped.
    rng : int, numpy.random.Generator or None
        Seed or generator of the starting points.

    Returns
    -------
    Regions
        Named 0, 1, …, by their first coordinate.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.diagnostics.kmeans_regions([0.0, 0.1, 5.0, 5.1], 2).rows
    (array([0, 1]), array([2, 3]))
    """
    from scipy.cluster.vq import kmeans2

    points = as_space(space, "space")
    if check_count(count, "count") > len(points):
        raise InvalidParameterError(f"count must be at most the number of rows, {len(points)}, got {count}")
    moved = standardize(points)
    generator = as_generator(rng)
    start = moved[_spread_out(moved, count, generator)]
    _, labels = kmeans2(moved, start, iter=50, minit="matrix")
    rows = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    within, exponent = _within_one(points)
    centers = np.ldexp([within[members].mean(axis=0) for members in rows], exponent)
    order = np.lexsort(centers.T[::-1])
    return Regions(np.arange(len(rows)), tuple(rows[i] for i in order), centers[order])


def standardize(points: FloatArray) -> FloatArray:
    """Return columns of mean 0 and standard deviation 1, 0 where they are constant; whatever the size of numbers."""
    within, _ = _within_one(points)  # where no square overflows or vanishes
    return Scaling("standard").learn(within)(within)


def _within_one(points: FloatArray) -> tuple[FloatArray, NDArray[np.int32]]:
    """Return columns over powers of two, none above 1, and the exponents; exact, but for what is as good as 0."""
    exponent = np.frexp(np.abs(points).max(axis=0))[1]
    return np.ldexp(points, -exponent), exponent


def _spread_out(points: FloatArray, count: int, generator: np.random.Generator) -> IntArray:
    """Choose starting rows as k-means++ does, each with probability proportional to its squared distance.

    As scipy's ``minit="++"``, which divides by zero where there are fewer different rows than clusters.
    """
    chosen = [int(generator.integers(len(points)))]
    distance = np.full(len(points), np.inf)
    while len(chosen) < count:
        distance = np.minimum(distance, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
        total = distance.sum()
        if not total > 0:  # fewer different rows than clusters
            break
        chosen.append(int(generator.choice(len(points), p=distance / total)))
    return np.array(chosen)


def group_regions(groups: Any) -> Regions:
    """Take the user's groups: one label a row.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.diagnostics.group_regions(["a", "b", "a"]).rows
    (array([0, 2]), array([1]))
    """
    labels = np.asarray(groups.to_numpy() if hasattr(groups, "to_numpy") else groups)
    if labels.ndim != 1 or len(labels) == 0 or labels.dtype.kind == "f":
        raise InvalidInputError(
            f"groups must hold one label a row, strings or integers, got dtype {labels.dtype}, shape {labels.shape}; "
            "cut a number into classes first"
        )
    if labels.dtype.kind == "O":  # such as texts, some of them missing, which have no order
        return _regions_of_levels(as_category("groups", labels))
    names, inverse = np.unique(labels, return_inverse=True)
    return Regions(names, tuple(np.flatnonzero(inverse == i) for i in range(len(names))))


def _regions_of_categories(space: Any) -> Regions:
    """Make a region of every category of a single column."""
    columns = as_features(space, len(space))
    if len(columns) > 1 or columns[0].levels is None:
        raise InvalidInputError(
            f"space must hold numbers, or one column of categories, got {len(columns)} columns, some of them text; "
            "leave those out, or say what the regions are by regions="
        )
    regions = _regions_of_levels(columns[0])
    if len(regions.rows) > _MOST_CATEGORIES:
        raise InvalidInputError(
            f"space must have at most {_MOST_CATEGORIES} categories, each a region, got {len(regions.rows)}; "
            "put them in groups"
        )
    return regions


def _regions_of_levels(feature: Feature) -> Regions:
    codes, inverse = np.unique(feature.values.astype(np.intp), return_inverse=True)
    return Regions(np.array(feature.levels)[codes], tuple(np.flatnonzero(inverse == i) for i in range(len(codes))))


def nearest_regions(space: Any, points: Any, k: int) -> Regions:
    """Take the k rows nearest to each of some points, as in the paper's figures; regions may overlap.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.diagnostics.nearest_regions([0.0, 1.0, 2.0, 3.0], points=[0.2], k=2).rows
    (array([0, 1]),)
    """
    from scipy.spatial import cKDTree

    rows, centers = as_space(space, "space"), as_space(points, "points")
    if rows.shape[1] != centers.shape[1]:
        raise InvalidInputError(f"points must have {rows.shape[1]} columns as space has, got {centers.shape[1]}")
    if check_count(k, "k") > len(rows):
        raise InvalidParameterError(f"k must be at most the number of rows, {len(rows)}, got {k}")
    scaling = Scaling("standard").learn(rows)
    _, nearest = cKDTree(scaling(rows)).query(scaling(centers), k=range(1, k + 1))
    return Regions(np.arange(len(centers)), tuple(np.sort(np.asarray(nearest), axis=1)), centers)


def _clusters(space: Any, n: int, count: int, rng: Seed) -> Regions:
    if count > n:
        raise InvalidParameterError(f"regions must be at most the number of rows, {n}, got {count}; take fewer")
    return kmeans_regions(as_space(space, "space", n), count, rng)


def as_regions(regions: Any, space: Any, n: int, rng: Seed) -> Regions:
    """Resolve what a user may give for regions: a number of clusters, labels, or Regions."""
    if isinstance(regions, Regions):
        chosen = regions
    elif isinstance(regions, int | np.integer) and not isinstance(regions, bool):
        if space is None:
            raise InvalidInputError(f"space must be given to cut it into {regions} regions, got None")
        count = check_count(regions, "regions")
        chosen = _regions_of_categories(space) if has_categories(space) else _clusters(space, n, count, rng)
        if sum(len(members) for members in chosen.rows) != n:
            raise InvalidInputError(f"space must have {n} rows, one a row of the distribution")
    else:
        chosen = group_regions(regions)
        if sum(len(members) for members in chosen.rows) != n:
            raise InvalidInputError(f"regions must hold one label for each of the {n} rows")
    if max(int(members.max()) for members in chosen.rows) >= n:
        raise InvalidInputError(f"regions must refer to rows below {n}; make them from the space of the same rows")
    return chosen
