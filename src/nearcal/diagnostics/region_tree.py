"""Regions that can be put into words: leaves of a small tree that separates well from badly calibrated rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray, as_generator, as_response, check_count
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal.diagnostics.features import Feature, Limits, as_features, describe_limits
from nearcal.diagnostics.pit_values import is_covered, pit
from nearcal.diagnostics.regions import Regions
from nearcal.distributions import Distribution, Seed, require_distribution

_FEWEST = 25  # rows of a region, however small its share
_SIGNIFICANT = 0.01
_CUTS = 30  # independent ones that all cuts of one feature are worth: they share most of their rows
_NEARLY = 0.97  # of the gain is enough for a limit of fewer digits
_RARE = 5  # rows; levels with fewer, such as names that are all different, are cut off together or not at all
_SMALLEST, _LARGEST = 1e-290, 1e300  # between, limits are rounded
_POOL = -1  # the code of all rare levels together


def described_regions(
    dist: Distribution,
    y: Any,
    features: Any,
    *,
    levels: Mapping[str, Sequence[Any]] | None = None,
    coverage: float = 0.9,
    depth: int = 3,
    mass: float = 0.03,
    search: float = 0.5,
    rng: Seed = 0,
) -> Regions:
    """Find regions in which calibration differs, described by the features: "carat > 1.9 and clarity <= SI2".

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.
    features : DataFrame, Table, mapping of str to array_like, or array_like of shape (n, d)
        What regions are described by: columns of numbers or categories, by name.
    levels : mapping of str to sequence, optional
        The categories of graded features in increasing order. Ordered categoricals of pandas and enumerations of
        polars bring their own.
    coverage : float
        Nominal coverage of the central intervals whose misses count.
    depth : int
        Most conditions that describe a region.
    mass : float
        Least share of the rows in a region, strictly between 0 and 1.
    search : float
        Share of the rows, drawn at random, in which regions are searched.
    rng : int, numpy.random.Generator or None
        Seed or generator of that draw and of randomised PIT values.

    Returns
    -------
    Regions
        Named by their descriptions, with the rows that were *not* searched: tests of them, such as
        :func:`local_calibration` with ``correction="holm"``, are honest. A single region "all rows" says that
        calibration was not seen to differ anywhere.

    Notes
    -----
    A binary tree is grown greedily. Its response has three columns: √3 (2u - 1) and √5 (6u² - 6u + 1) of the PIT value
    u (Neyman's smooth components: predictions too low or high, too narrow or wide), and whether y was missed by the
    interval. The gain of a cut into n₁ and n₂ rows is n₁n₂/(n₁ + n₂) times the squared difference of the means of the
    three, in units of their covariance in the region (Mahalanobis distance), which is χ² with three degrees of freedom
    if calibration is the same on both sides. The cut with the largest gain is made if it is significant at 1% after
    Bonferroni's correction for the cuts tried, those of one feature counting as at most 30. Unordered categories are
    cut in the order of their means. Missing numbers stay with the low ones. Limits are rounded where that costs less
    than 3% of the gain.

    References
    ----------
    L. Breiman, J. Friedman, R. Olshen and C. Stone, *Classification and regression trees* (1984); S. Athey and
    G. Imbens, *Recursive partitioning for heterogeneous causal effects*, PNAS 113 (2016), on honest splitting.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> age, town = rng.uniform(20, 80, size=4000), rng.choice(["A", "B", "C"], size=4000)
    >>> y = rng.normal(0.0, np.where((age > 60) & (town == "C"), 3.0, 1.0))
    >>> dist = nc.Normal(np.zeros(4000), 1.0)
    >>> regions = nc.diagnostics.described_regions(dist, y, {"age": age, "town": town})
    >>> regions.names.tolist()
    ['age ≤ 60', 'age > 60 and town in A, B', 'age > 60 and town = C']
    >>> nc.diagnostics.local_calibration(dist, y, regions=regions, correction="holm")["finding"].tolist()
    ['ok', 'ok', 'too narrow']
    """
    dist = require_distribution(dist, "dist")
    response = as_response(y, len(dist), "y")
    generator = as_generator(rng)
    values = pit(dist, response, generator)
    covered = is_covered(dist, response, coverage)
    searched = split_rows(len(dist), search, generator)
    columns = as_features(features, len(dist), levels)
    return find_regions(values, covered, columns, searched, depth=depth, mass=mass).regions


def split_rows(n: int, search: float, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Draw the rows to be searched, leaving at least one."""
    if not 0 < search < 1:
        raise InvalidParameterError(f"search must lie strictly between 0 and 1, got {search!r}")
    if n < 2:
        raise InvalidInputError(f"dist must have at least 2 rows, some to search and some to test on, got {n}")
    searched = np.zeros(n, dtype=bool)
    searched[generator.permutation(n)[: min(n - 1, max(1, round(search * n)))]] = True
    return searched


@dataclass(frozen=True)
class DescribedRegions:
    """Regions, and the features that describe them, the first cut first."""

    regions: Regions
    features: tuple[str, ...]


@dataclass
class _Leaf:
    """A region: its searched rows, and the limits of each feature that has some."""

    rows: IntArray
    limits: dict[int, Limits] = field(default_factory=dict)


@dataclass(frozen=True)
class _Cut:
    """A way to cut a region in two by one feature: the limits on either side."""

    gain: float
    column: int
    sides: tuple[Limits, Limits]


def find_regions(
    pit_values: FloatArray,
    covered: NDArray[np.bool_],
    columns: Sequence[Feature],
    searched: NDArray[np.bool_],
    *,
    depth: int = 3,
    mass: float = 0.03,
) -> DescribedRegions:
    """Grow the tree on the searched rows and return its leaves with the other rows."""
    if not 0 < mass < 1:
        raise InvalidParameterError(f"mass must lie strictly between 0 and 1, got {mass!r}")
    targets = _components(pit_values, covered)
    rows = np.flatnonzero(searched)
    least = max(_FEWEST, int(np.ceil(mass * len(rows))))
    leaves, cut_by = [_Leaf(rows)], list[int]()
    for _ in range(check_count(depth, "depth", 0)):
        grown = []
        for leaf in leaves:
            cut = _best_cut(leaf, columns, targets, least)
            grown += [leaf] if cut is None else _divide(leaf, cut, columns)
            cut_by += [] if cut is None else [cut.column]
        if len(grown) == len(leaves):
            break
        leaves = grown
    held_out = np.flatnonzero(~searched)
    members = [held_out[_inside(leaf.limits, columns, held_out)] for leaf in leaves]
    named = [(describe_limits(leaf.limits, columns), m) for leaf, m in zip(leaves, members, strict=True) if len(m)]
    regions = Regions(np.array([name for name, _ in named]), tuple(m for _, m in named))
    return DescribedRegions(regions, tuple(columns[j].name for j in dict.fromkeys(cut_by)))


def _components(u: FloatArray, covered: NDArray[np.bool_]) -> FloatArray:
    return np.column_stack([np.sqrt(3) * (2 * u - 1), np.sqrt(5) * (6 * u * (u - 1) + 1), ~covered])


def _best_cut(leaf: _Leaf, columns: Sequence[Feature], targets: FloatArray, least: int) -> _Cut | None:
    from scipy.stats import chi2

    if len(leaf.rows) < 2 * least:
        return None
    own = _whiten(targets[leaf.rows])
    cuts, tried = [], 0
    for j, column in enumerate(columns):
        propose = _ordered_cuts if column.is_ordered else _set_cuts
        best, count = propose(j, column, column.values[leaf.rows], own, least)
        tried += min(count, _CUTS)
        cuts += [] if best is None else [best]
    if not cuts:
        return None
    best = max(cuts, key=lambda cut: cut.gain)
    return best if chi2.sf(best.gain, own.shape[1]) * tried < _SIGNIFICANT else None


def _whiten(targets: FloatArray) -> FloatArray:
    """Return the targets centred, uncorrelated and of unit variance; what does not vary is dropped."""
    moved = targets - targets.mean(axis=0)
    variances, axes = np.linalg.eigh(moved.T @ moved / len(moved))
    varies = variances > 1e-9
    return moved @ axes[:, varies] / np.sqrt(variances[varies])


def _ordered_cuts(
    j: int, column: Feature, values: FloatArray, targets: FloatArray, least: int
) -> tuple[_Cut | None, int]:
    """Return the best cut of the form value <= limit, and the number of those tried."""
    values = np.where(np.isnan(values), -np.inf, values)
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    left = np.arange(least, len(values) - least + 1)
    left = left[(ranked[left - 1] < ranked[left]) & np.isfinite(ranked[left - 1])]
    if len(left) == 0:
        return None, 0
    gains = _gains(np.cumsum(targets[order], axis=0)[left - 1], left, len(values))
    best = int(np.argmax(gains))
    limit = float(ranked[left[best] - 1])
    if column.levels is None:
        rounded = _round_limit(limit / 2 + float(ranked[left[best]]) / 2, ranked, left, gains)
        limit = limit if rounded is None else rounded
    return _Cut(float(gains[best]), j, ((-np.inf, limit), (limit, np.inf))), len(left)


def _set_cuts(j: int, column: Feature, values: FloatArray, targets: FloatArray, least: int) -> tuple[_Cut | None, int]:
    """Return the best cut of the levels into two sets: in the order of the means of one target."""
    levels = values.astype(np.intp)
    is_rare = np.bincount(levels, minlength=len(column.levels or ())) < _RARE  # also what only other rows have
    pooled = np.where(is_rare[levels], _POOL, levels)
    codes, place, counts = np.unique(pooled, return_inverse=True, return_counts=True)
    sums = np.zeros((len(codes), targets.shape[1]))
    np.add.at(sums, place, targets)
    best, tried = None, 0
    for target in sums.T:
        order = np.argsort(target / counts, kind="stable")
        left = np.cumsum(counts[order])[:-1]
        allowed = np.flatnonzero((left >= least) & (left <= len(values) - least))
        tried += len(allowed)
        if len(allowed) == 0:
            continue
        gains = _gains(np.cumsum(sums[order], axis=0)[allowed], left[allowed], len(values))
        chosen = int(np.argmax(gains))
        if best is None or gains[chosen] > best.gain:
            # which side comes first is left to the levels: directions that rows are compared along have no sign
            first, second = sorted(np.split(codes[order], [int(allowed[chosen]) + 1]), key=np.min)
            best = _Cut(float(gains[chosen]), j, (_side(first, is_rare), _side(second, is_rare)))
    return best, tried


def _side(codes: IntArray, is_rare: NDArray[np.bool_]) -> frozenset[int]:
    rare = np.flatnonzero(is_rare).tolist() if _POOL in codes else []
    return frozenset([*codes[codes != _POOL].tolist(), *rare])


def _gains(sums: FloatArray, left: IntArray, n: int) -> FloatArray:
    """Return Σ n₁n₂/n (difference of means)² of centred targets with unit variance, given sums over the first part."""
    return (sums**2).sum(axis=1) * n / (left * (n - left))


def _round_limit(limit: float, ranked: FloatArray, left: IntArray, gains: FloatArray) -> float | None:
    """Return a limit of few digits, for how far values spread, that gains nearly as much: 60, not 60.16."""
    if not _SMALLEST < ranked[-1] / 2 - ranked[left[0] - 1] / 2 < _LARGEST:  # no power of ten may be in reach
        return None
    coarse = int(np.floor(np.log10(ranked[-1] - ranked[left[0] - 1])))
    for decimals in range(-coarse, 16 - coarse):
        for move in (0.0, -(10.0**-decimals), 10.0**-decimals):
            rounded = round(limit + move, decimals)
            place = np.searchsorted(left, np.searchsorted(ranked, rounded, side="right"))
            is_cut = place < len(left) and ranked[left[place] - 1] <= rounded < ranked[left[place]]
            if is_cut and gains[place] >= _NEARLY * gains.max():
                return rounded
    return None


def _divide(leaf: _Leaf, cut: _Cut, columns: Sequence[Feature]) -> list[_Leaf]:
    parts = []
    for side in cut.sides:
        limits = {**leaf.limits, cut.column: _meet(leaf.limits.get(cut.column), side)}
        parts.append(_Leaf(leaf.rows[_inside({cut.column: side}, columns, leaf.rows)], limits))
    return parts


def _meet(limits: Limits | None, side: Limits) -> Limits:
    if isinstance(limits, tuple) and isinstance(side, tuple):
        return max(limits[0], side[0]), min(limits[1], side[1])
    if isinstance(limits, frozenset) and isinstance(side, frozenset):
        return limits & side
    return side


def _inside(limits: Mapping[int, Limits], columns: Sequence[Feature], rows: IntArray) -> NDArray[np.bool_]:
    inside = np.ones(len(rows), dtype=bool)
    for j, limit in limits.items():
        values = columns[j].values[rows]
        if isinstance(limit, tuple):
            low, high = limit
            inside &= ((values > low) | (np.isnan(values) & (low == -np.inf))) & ~(values > high)
        else:
            inside &= np.isin(values, list(limit))
    return inside
