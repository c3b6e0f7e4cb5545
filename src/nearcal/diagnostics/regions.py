"""Regions of the space in which calibration is looked at: clusters, groups, or the surroundings of points."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray, as_space, check_count
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal.distributions import Seed
from nearcal.space import Scaling


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
    moved = Scaling("standard").learn(points)(points)
    generator = np.random.default_rng(rng)
    start = moved[_spread_out(moved, count, generator)]
    _, labels = kmeans2(moved, start, iter=50, minit="matrix")
    rows = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    centers = np.array([points[members].mean(axis=0) for members in rows])
    order = np.lexsort(centers.T[::-1])
    return Regions(np.arange(len(rows)), tuple(rows[i] for i in order), centers[order])


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
    names, inverse = np.unique(labels, return_inverse=True)
    return Regions(names, tuple(np.flatnonzero(inverse == i) for i in range(len(names))))


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


def as_regions(regions: Any, space: Any, n: int, rng: Seed) -> Regions:
    """Resolve what a user may give for regions: a number of clusters, labels, or Regions."""
    if isinstance(regions, Regions):
        chosen = regions
    elif isinstance(regions, int | np.integer) and not isinstance(regions, bool):
        if space is None:
            raise InvalidInputError(f"space must be given to cut it into {regions} regions, got None")
        chosen = kmeans_regions(as_space(space, "space", n), int(regions), rng)
    else:
        chosen = group_regions(regions)
        if sum(len(members) for members in chosen.rows) != n:
            raise InvalidInputError(f"regions must hold one label for each of the {n} rows")
    if max(int(members.max()) for members in chosen.rows) >= n:
        raise InvalidInputError(f"regions must refer to rows below {n}; make them from the space of the same rows")
    return chosen
