"""Weighted neighbourhoods: which calibration points speak for a new row, and how loudly."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Literal, Protocol, Self, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal._errors import ThinNeighborhoodError
from nearcal.neighbors import NeighborIndex, NeighborLists
from nearcal.recalibration._chunks import Workers
from nearcal.recalibration._reliability import CalibrationPoints, isolation_within
from nearcal.smoothing import smoothing_code

Thin = Literal["nearest", "global", "base", "raise"]
THINS: tuple[Thin, ...] = get_args(Thin)

_PROBE_ROWS = 32
_Number = TypeVar("_Number", np.int32, np.float64)

Rows: TypeAlias = slice | IntArray  # a chunk: neighbouring rows, or any
NO_NEIGHBORHOOD = -1  # the row keeps its base distribution


@dataclass(frozen=True)
class Neighborhoods:
    """Neighbourhoods of a chunk of rows in CSR form; row j belongs to neighbourhood ``which[j]``, or to none if -1."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    distances: FloatArray
    weights: FloatArray
    bandwidth: FloatArray
    effective_size: FloatArray
    self_weight: FloatArray
    which: IntArray
    is_everyone: bool = False  # every row has all calibration points, equally weighted
    scores: FloatArray | None = None  # of the neighbours, if they are not those of the calibration set

    @property
    def nbytes(self) -> int:
        """Return the memory of the large arrays."""
        own = 0 if self.scores is None else self.scores.nbytes
        return self.indices.nbytes + self.distances.nbytes + self.weights.nbytes + own

    def owners(self) -> IntArray:
        """Return the row that each neighbourhood belongs to; -1 where it is nobody's, or was not looked for nearby."""
        owners = np.full(len(self.indptr) - 1, -1)
        rows = np.flatnonzero(self.which >= 0)
        owners[self.which[rows]] = rows
        return np.where(np.isfinite(self.bandwidth), owners, -1)

    def per_row(self, values: FloatArray, missing: float) -> FloatArray:
        """Spread one value a neighbourhood over the rows."""
        return np.where(self.which < 0, missing, values[self.which])

    def padded(self, values: NDArray[_Number], fill: float) -> NDArray[_Number]:
        """Return values of the neighbours as one row a neighbourhood, (g, longest), short ones filled up."""
        lengths = np.diff(self.indptr)
        longest = int(lengths.max(initial=1))
        if (lengths == longest).all():
            return values.reshape(len(lengths), longest)
        table = np.full((len(lengths), longest), fill, dtype=values.dtype)
        table[np.arange(longest) < lengths[:, np.newaxis]] = values
        return table

    def split(self, most: int, more: int = 0) -> list[slice]:
        """Return ranges of rows: each makes a table of rows × longest of at most ``most`` entries, or is one row.

        A few long neighbourhoods among short ones would otherwise make every row of a chunk as long. The table has
        ``more`` columns beside the neighbours.
        """
        lengths = np.where(self.which < 0, 0, np.diff(self.indptr)[self.which]) + more
        if len(lengths) * int(lengths.max()) <= most:
            return [slice(0, len(lengths))]
        starts, longest = [0], 0
        for row, length in enumerate(lengths.tolist()):
            longest = max(longest, length)
            if row > starts[-1] and (row + 1 - starts[-1]) * longest > most:
                starts.append(row)
                longest = length
        return [slice(a, b) for a, b in pairwise([*starts, len(lengths)])]

    def part(self, rows: slice) -> "Neighborhoods":
        """Return the neighbourhoods of a range of rows alone."""
        which = self.which[rows]
        groups, renumbered = np.unique(which, return_inverse=True)
        if groups[0] < 0:  # rows without a neighbourhood; one that nobody has stands in if there is no other
            renumbered = renumbered - 1
            groups = groups[1:] if len(groups) > 1 else np.zeros(1, dtype=np.intp)
        spans = [np.arange(self.indptr[group], self.indptr[group + 1]) for group in groups]
        entries = np.concatenate(spans)
        return Neighborhoods(
            np.concatenate([[0], np.cumsum([len(span) for span in spans])]),
            self.indices[entries],
            self.distances[entries],
            self.weights[entries],
            self.bandwidth[groups],
            self.effective_size[groups],
            self.self_weight[groups],
            renumbered,
            scores=None if self.scores is None else self.scores[entries],
        )


def weigh(lists: NeighborLists, smoothing: str) -> Neighborhoods:
    """Give the neighbours of each query their weights; query j is row j."""
    from nearcal._jit import _weights

    weights, effective_size, self_weight = _weights.weigh(
        lists.indptr, lists.distances, lists.reach, smoothing_code(smoothing)
    )
    which = np.arange(len(lists.indptr) - 1)
    return Neighborhoods(
        lists.indptr, lists.indices, lists.distances, weights, lists.reach, effective_size, self_weight, which
    )


class Finder(Protocol):
    """Finds the neighbourhoods of new rows, chunk by chunk."""

    is_shared: ClassVar[bool]  # whether all rows have one and the same neighbourhood
    moves_scores: ClassVar[bool]  # whether neighbours come with scores of their own

    @property
    def pairs_per_row(self) -> int:
        """The number of neighbours of a row, or an estimate, for planning memory."""
        ...

    def order(self) -> IntArray | None:
        """Return the rows in an order that makes chunks of near rows; None if the search gains nothing by it."""
        ...

    def find(self, rows: Rows) -> Neighborhoods:
        """Return the neighbourhoods of a chunk of rows."""
        ...

    def take(self, rows: IntArray) -> Self:
        """Return the finder of the chosen rows."""
        ...

    def isolation(self, found: Neighborhoods, rows: Rows) -> FloatArray:
        """Return how far from calibration points a range of rows is, given its neighbourhoods; NaN if unknown."""
        ...

    def own_isolation(self, workers: Workers) -> FloatArray:
        """Return how far calibration points are from one another, increasing; empty if unknown."""
        ...


@dataclass(frozen=True)
class KNearest:
    """The k nearest calibration points; u is the distance to the k-th."""

    is_shared: ClassVar[bool] = False
    moves_scores: ClassVar[bool] = False

    index: NeighborIndex
    points: FloatArray
    k: int
    eps: float
    smoothing: str
    own: CalibrationPoints

    @property
    def pairs_per_row(self) -> int:
        """Return k."""
        return self.k

    def order(self) -> IntArray | None:
        """Return the order that suits the index."""
        return self.index.order(self.points)

    def find(self, rows: Rows) -> Neighborhoods:
        """Search a chunk of rows."""
        return weigh(self.index.nearest(self.points[rows], self.k, self.eps), self.smoothing)

    def take(self, rows: IntArray) -> Self:
        """Return the finder of the chosen rows."""
        return replace(self, points=self.points[rows])

    def isolation(self, found: Neighborhoods, rows: Rows) -> FloatArray:
        """Return the distances to the k-th neighbour."""
        return found.bandwidth

    def own_isolation(self, workers: Workers) -> FloatArray:
        """Return the distances of calibration points to their k-th neighbour among the others."""
        return self.own.radii(self.k, self.eps, workers)


@dataclass(frozen=True)
class WithinRadius:
    """All calibration points within a radius, with a policy for rows that have fewer than ``min_neighbors``."""

    is_shared: ClassVar[bool] = False
    moves_scores: ClassVar[bool] = False

    index: NeighborIndex
    points: FloatArray
    radius: float
    smoothing: str
    min_neighbors: int
    thin: Thin
    n_cal: int
    own: CalibrationPoints

    @cached_property
    def pairs_per_row(self) -> int:
        """Return an estimate on the safe side."""
        return min(max(most_within(self.index, self.points, self.radius), self.min_neighbors), self.n_cal)

    def order(self) -> IntArray | None:
        """Return the order that suits the index."""
        return self.index.order(self.points)

    def find(self, rows: Rows) -> Neighborhoods:
        """Search a chunk of rows and apply the policy to the thin ones."""
        lists = self.index.within(self.points[rows], self.radius)
        counts = np.diff(lists.indptr)
        found = weigh(lists, self.smoothing)
        thin_rows = np.flatnonzero(counts < self.min_neighbors)
        if len(thin_rows) == 0:
            return found
        if self.thin == "raise":
            first = thin_rows[0]
            row = np.arange(len(self.points))[rows][first]
            raise ThinNeighborhoodError(
                f"every row must have at least min_neighbors={self.min_neighbors} calibration points within "
                f"radius={self.radius:g}; row {row} has {counts[first]}, and {len(thin_rows)} rows of "
                f'{len(counts)} looked at are thin; increase radius or choose thin="nearest", "global" or "base"'
            )
        if self.thin == "base":
            which = found.which.copy()
            which[thin_rows] = NO_NEIGHBORHOOD
            return replace(found, which=which)
        if self.thin == "global":
            return _redirect(found, thin_rows, everyone(self.n_cal), np.zeros(len(thin_rows), dtype=np.intp))
        nearest = weigh(self.index.nearest(self.points[rows][thin_rows], self.min_neighbors, 0.0), self.smoothing)
        return _redirect(found, thin_rows, nearest, nearest.which)

    def take(self, rows: IntArray) -> Self:
        """Return the finder of the chosen rows."""
        return replace(self, points=self.points[rows])

    def isolation(self, found: Neighborhoods, rows: Rows) -> FloatArray:
        """Return minus the numbers of neighbours, before any policy for thin rows."""
        return isolation_within(self.index, self.points[rows], self.radius)

    def own_isolation(self, workers: Workers) -> FloatArray:
        """Return minus the numbers of neighbours of calibration points among the others."""
        return self.own.counts(self.radius, self.pairs_per_row, workers)


def most_within(index: NeighborIndex, points: FloatArray, radius: float) -> int:
    """Return twice the largest number of neighbours of a few evenly spread points, for planning memory."""
    probe = points[:: max(1, len(points) // _PROBE_ROWS)]
    return 2 * int(np.diff(index.within(probe, radius).indptr).max())


def _redirect(found: Neighborhoods, rows: IntArray, other: Neighborhoods, which: IntArray) -> Neighborhoods:
    """Append the neighbourhoods of ``other`` and let the given rows point to them."""
    redirected = found.which.copy()
    redirected[rows] = len(found.indptr) - 1 + which
    return Neighborhoods(
        np.concatenate([found.indptr, found.indptr[-1] + other.indptr[1:]]),
        np.concatenate([found.indices, other.indices]),
        np.concatenate([found.distances, other.distances]),
        np.concatenate([found.weights, other.weights]),
        np.concatenate([found.bandwidth, other.bandwidth]),
        np.concatenate([found.effective_size, other.effective_size]),
        np.concatenate([found.self_weight, other.self_weight]),
        redirected,
    )


def everyone(n_cal: int) -> Neighborhoods:
    """Return the one neighbourhood of all calibration points, equally weighted, without distances."""
    return Neighborhoods(
        indptr=np.array([0, n_cal], dtype=np.int64),
        indices=np.arange(n_cal, dtype=np.int32),
        distances=np.full(n_cal, np.nan),  # not looked at
        weights=np.full(n_cal, 1 / n_cal),
        bandwidth=np.array([np.inf]),
        effective_size=np.array([float(n_cal)]),
        self_weight=np.array([1 / n_cal]),
        which=np.zeros(1, dtype=np.intp),
    )


@dataclass(frozen=True)
class Everyone:
    """All calibration points with equal weights, whatever the row: global recalibration."""

    is_shared: ClassVar[bool] = True
    moves_scores: ClassVar[bool] = False

    n_cal: int

    @property
    def pairs_per_row(self) -> int:
        """Return the number of calibration points."""
        return self.n_cal

    @cached_property
    def _shared(self) -> Neighborhoods:
        return everyone(self.n_cal)

    def order(self) -> None:
        """Return None: there is nothing to search."""

    def find(self, rows: Rows) -> Neighborhoods:
        """Return the shared neighbourhood."""
        count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        return replace(self._shared, which=np.zeros(count, dtype=np.intp), is_everyone=True)

    def take(self, rows: IntArray) -> Self:
        """Return the same: rows do not differ."""
        return self

    def isolation(self, found: Neighborhoods, rows: Rows) -> FloatArray:
        """Return NaN: nobody looked where the rows are."""
        return np.full(len(found.which), np.nan)

    def own_isolation(self, workers: Workers) -> FloatArray:
        """Return nothing."""
        return np.empty(0)


@dataclass(frozen=True)
class Nobody(Everyone):
    """No calibration points, whatever the row: no recalibration."""

    @property
    def pairs_per_row(self) -> int:
        """Return 1."""
        return 1

    def find(self, rows: Rows) -> Neighborhoods:
        """Return neighbourhoods that no row belongs to."""
        found = super().find(rows)
        return replace(found, which=np.full(len(found.which), NO_NEIGHBORHOOD), is_everyone=False)
