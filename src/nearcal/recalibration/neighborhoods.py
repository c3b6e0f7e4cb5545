"""Neighbourhoods: which calibration points speak for a row, and how loudly.

The weight of a neighbour falls with its distance d as K(d / u), with u the radius: the distance to the k-th neighbour,
or the radius asked for. All smoothing kernels K vanish beyond u, and with t = d / u they are

- ``epanechnikov``: 1 - t², the paper's choice;
- ``uniform``: 1;
- ``triangular``: 1 - t;
- ``biweight``: (1 - t²)²;
- ``gaussian``: exp(-t² / 2), cut off at t = 1, hence the flattest but for the uniform one.

Weights are normalised to sum 1. Where all vanish (k = 1, or all neighbours at the same distance under a kernel that is
zero at t = 1) the neighbours are weighted equally.

Where calibration points have weights a_i themselves, a neighbour weighs a_i K(d / u), and k neighbours are the nearest
points of weight k (:mod:`nearcal.space.weighted`); numbers of neighbours within a radius are weights as well.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, Protocol, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray, check_choice, check_count, check_number
from nearcal._errors import ThinNeighborhoodError
from nearcal._sample_weights import ENOUGH, PointWeights
from nearcal._saved import count, instance, number, one_of, optional, savable
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.space import MOST_PAIRS, NeighborIndex, Neighbors, SpeakersIndex, count_within, nearest_of_weight

Smoothing = Literal["epanechnikov", "uniform", "triangular", "biweight", "gaussian"]
SMOOTHINGS: tuple[Smoothing, ...] = get_args(Smoothing)
Thin = Literal["nearest", "global", "base", "raise"]
THINS: tuple[Thin, ...] = get_args(Thin)

Rows: TypeAlias = slice | IntArray  # a chunk: neighbouring rows, or any
NO_NEIGHBORHOOD = -1  # the row keeps its base distribution
_PROBE_ROWS = 32
_Number = TypeVar("_Number", np.int32, np.float64)


@dataclass(frozen=True)
class Neighborhoods:
    """Neighbourhoods of a chunk of rows in CSR form; row j belongs to neighbourhood ``which[j]``, or to none if -1."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    distances: FloatArray
    weights: FloatArray
    radius: FloatArray
    effective_size: FloatArray
    self_weight: FloatArray
    which: IntArray
    is_by_score: bool = False  # whether neighbours are in the order of their scores in the calibration set, or in any
    scores: FloatArray | None = None  # of the neighbours, where corrections have moved them
    trust: FloatArray | None = None  # in what neighbours say of each row, where it may be less than 1

    @property
    def nbytes(self) -> int:
        """Return the memory of the large arrays."""
        own = 0 if self.scores is None else self.scores.nbytes
        return self.indices.nbytes + self.distances.nbytes + self.weights.nbytes + own

    @property
    def lengths(self) -> IntArray:
        """The number of neighbours of each row; 0 for rows without a neighbourhood."""
        return np.where(self.which < 0, 0, np.diff(self.indptr)[self.which])

    def owners(self) -> IntArray:
        """Return the row that each neighbourhood belongs to; -1 where it is nobody's, or was not looked for nearby."""
        owners = np.full(len(self.indptr) - 1, -1)
        rows = np.flatnonzero(self.which >= 0)
        owners[self.which[rows]] = rows
        return np.where(np.isfinite(self.radius), owners, -1)

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

    def by_score(self, ranks: NDArray[np.int32]) -> "Neighborhoods":
        """Return the same with neighbours in the order of their scores, given the ranks of those among all.

        Sums over neighbours that do round (:mod:`nearcal.kernels.adjust`) are then the same, whatever the search.
        """
        from nearcal.kernels.rank_order import places_by_rank

        places = places_by_rank(self.indptr, self.indices, ranks)
        ordered = {name: getattr(self, name)[places] for name in ("indices", "distances", "weights")}
        return replace(self, **ordered, is_by_score=True)

    def split(self, most: int, more: int = 0) -> list[slice]:
        """Return ranges of rows: each makes a table of rows × longest of at most ``most`` entries, or is one row.

        A few long neighbourhoods among short ones would otherwise make every row of a chunk as long. The table has
        ``more`` columns beside the neighbours.
        """
        lengths = self.lengths + more
        if len(lengths) * int(lengths.max()) <= most:
            return [slice(0, len(lengths))]
        starts, longest = [0], 0
        for row, length in enumerate(lengths.tolist()):
            longest = max(longest, length)
            if row > starts[-1] and (row + 1 - starts[-1]) * longest > most:
                starts.append(row)
                longest = length
        return [slice(a, b) for a, b in pairwise([*starts, len(lengths)])]

    def part(self, rows: Rows) -> "Neighborhoods":
        """Return the neighbourhoods of some rows alone."""
        if isinstance(rows, slice) and rows == slice(0, len(self.which)):
            return self
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
            self.radius[groups],
            self.effective_size[groups],
            self.self_weight[groups],
            renumbered,
            self.is_by_score,
            None if self.scores is None else self.scores[entries],
            None if self.trust is None else self.trust[rows],
        )


def weigh(neighbors: Neighbors, smoothing: str) -> Neighborhoods:
    """Give the neighbours of each query their weights; query j is row j."""
    from nearcal.kernels import weights as kernels

    kind = smoothing_code(smoothing)
    if neighbors.shares is None:
        found = kernels.weigh(neighbors.indptr, neighbors.distances, neighbors.radius, kind)
    else:
        found = kernels.weigh_points(neighbors.indptr, neighbors.distances, neighbors.shares, neighbors.radius, kind)
    weights, effective_size, self_weight = found
    return Neighborhoods(
        neighbors.indptr,
        neighbors.indices,
        neighbors.distances,
        weights,
        neighbors.radius,
        effective_size,
        self_weight,
        np.arange(len(neighbors.indptr) - 1),
    )


def smoothing_code(name: str) -> int:
    """Return the number under which the compiled kernels know a smoothing kernel."""
    from nearcal.kernels import weights

    return getattr(weights, name.upper())


# ---- which points are asked -----------------------------------------------------------------------------------------


class Neighborhood(Protocol):
    """What a neighbourhood is; the same for new rows and for calibration points among the others."""

    @property
    def smoothing(self) -> str:
        """The kernel that weighs neighbours."""
        ...

    @property
    def least(self) -> int:
        """The number of neighbours that every row has, or should have; their weight, where points have weights."""
        ...

    @property
    def weights(self) -> PointWeights | None:
        """The weights of calibration points; None where all count alike."""
        ...

    def pairs_per_row(self, index: NeighborIndex, points: FloatArray) -> int:
        """Return the number of neighbours of a row, or an estimate, for planning memory."""
        ...

    def find(self, index: NeighborIndex, points: FloatArray, rows: Rows, most: int = MOST_PAIRS) -> Neighborhoods:
        """Return the neighbourhoods of new rows at some points; ``rows`` are their numbers, for messages.

        Where their number of neighbours is not known beforehand, they are those of the first rows, as many as have at
        most ``most`` neighbours together, or of one row.
        """
        ...

    def search(self, index: NeighborIndex, points: FloatArray, most: int = MOST_PAIRS) -> Neighbors:
        """Return the neighbours of calibration points among all, themselves included; of the first, as in ``find``."""
        ...

    def isolation(self, neighbors: Neighbors | Neighborhoods, index: NeighborIndex, points: FloatArray) -> FloatArray:
        """Return how far from calibration points each query is: the larger, the more isolated."""
        ...


@savable(k=count(), eps=number(0.0), smoothing=one_of(*SMOOTHINGS), weights=optional(instance(PointWeights)))
@dataclass(frozen=True)
class KNearest:
    """The k nearest calibration points; the radius is the distance to the k-th. With weights, the nearest of weight k.

    Parameters
    ----------
    k : int
    eps : float
        See ``NeighborIndex.nearest``.
    smoothing : str
    weights : PointWeights, optional
        Of the calibration points.
    """

    k: int
    eps: float
    smoothing: str
    weights: PointWeights | None = None

    def among(self, calibration: CalibrationScores) -> "KNearest":
        """Return the same among other calibration points."""
        return replace(self, weights=calibration.weights)

    @property
    def least(self) -> int:
        """Return k."""
        return self.k

    def pairs_per_row(self, index: NeighborIndex, points: FloatArray) -> int:
        """Return k; with weights twice the largest number of neighbours of a few evenly spread points."""
        if self.weights is None:
            return self.k
        probe = points[:: max(1, len(points) // _PROBE_ROWS)]
        most = 2 * int(np.diff(_nearest(index, probe, self.k, self.eps, self.weights).indptr).max())
        return min(max(most, self.k), index.shape[0])

    def find(self, index: NeighborIndex, points: FloatArray, rows: Rows, most: int = MOST_PAIRS) -> Neighborhoods:
        """Search and weigh."""
        return weigh(_nearest(index, points, self.k, self.eps, self.weights, most), self.smoothing)

    def search(self, index: NeighborIndex, points: FloatArray, most: int = MOST_PAIRS) -> Neighbors:
        """Return one more than k, or all there are: the point itself is among them, or as good as others that are."""
        return index.nearest(points, min(self.k + 1, index.shape[0]), self.eps)

    def search_others(self, index: NeighborIndex, points: FloatArray, own: IntArray, most: int) -> Neighbors:
        """Return the nearest of weight k of the first calibration points ``own``, without the points themselves."""
        assert self.weights is not None
        relative = self.weights.relative
        k = index.share_of_weight(self.k, relative) if isinstance(index, SpeakersIndex) else self.k
        return nearest_of_weight(
            index, points, k, self.eps, relative,
            lambda rows, indices: indices == own[rows, np.newaxis], most,
        )  # fmt: skip

    def isolation(self, neighbors: Neighbors | Neighborhoods, index: NeighborIndex, points: FloatArray) -> FloatArray:
        """Return the distances to the k-th neighbour."""
        return neighbors.radius


@savable(distance=number(0.0), min_neighbors=count(), thin=one_of(*THINS))
@dataclass(frozen=True)
class Radius:
    """All calibration points within a distance, and what rows get that have few.

    Parameters
    ----------
    distance : float
        In the scaled space; positive.
    min_neighbors : int
        Rows with fewer neighbours than this are thin. (At most n_cal is asked for.)
    thin : {"nearest", "global", "base", "raise"}
        What thin rows get: their ``min_neighbors`` nearest points, all points with equal weights, their base
        distribution unchanged, or an error.
    """

    distance: float
    min_neighbors: int = 30
    thin: Thin = "nearest"

    @classmethod
    def of(cls, radius: "Radius | float") -> "Radius":
        """Return a radius, validated, given one or its distance."""
        radius = radius if isinstance(radius, Radius) else cls(radius)
        check_number(radius.distance, "radius", least=0.0, strict=True)
        check_count(radius.min_neighbors, "min_neighbors")
        check_choice(radius.thin, THINS, "thin")
        return radius


@savable(
    radius=instance(Radius), smoothing=one_of(*SMOOTHINGS), n_cal=count(), weights=optional(instance(PointWeights))
)
@dataclass(frozen=True)
class WithinRadius:
    """All calibration points within a radius, with a policy for rows that have few."""

    radius: Radius
    smoothing: str
    n_cal: int
    weights: PointWeights | None = None

    def among(self, calibration: CalibrationScores) -> "WithinRadius":
        """Return the same among other calibration points."""
        return replace(self, n_cal=len(calibration), weights=calibration.weights)

    @property
    def least(self) -> int:
        """Return the number of neighbours below which a row is thin."""
        return min(self.radius.min_neighbors, self.n_cal)

    def pairs_per_row(self, index: NeighborIndex, points: FloatArray) -> int:
        """Return twice the largest number of neighbours of a few evenly spread points."""
        probe = points[:: max(1, len(points) // _PROBE_ROWS)]
        most = 2 * int(count_within(index, probe, float(self.radius.distance)).max())
        return min(max(most, self.least), self.n_cal)

    def find(self, index: NeighborIndex, points: FloatArray, rows: Rows, most: int = MOST_PAIRS) -> Neighborhoods:
        """Search, weigh, and apply the policy to the thin rows."""
        found = self.search(index, points, most)
        near, amounts = weigh(found, self.smoothing), found.amounts
        thin_rows = np.flatnonzero(amounts < ENOUGH * self.least)
        if len(thin_rows) == 0:
            return near
        match self.radius.thin:
            case "raise":
                first = thin_rows[0]
                number = rows.start + first if isinstance(rows, slice) else rows[first]
                raise ThinNeighborhoodError(
                    f"every row must have at least min_neighbors={self.least} calibration points within "
                    f"radius={self.radius.distance:g}; row {number} has {amounts[first]:g}, and {len(thin_rows)} "
                    f"rows of {len(amounts)} looked at are thin; increase radius or choose "
                    'thin="nearest", "global" or "base"'
                )
            case "base":
                which = near.which.copy()
                which[thin_rows] = NO_NEIGHBORHOOD
                return replace(near, which=which)
            case "global":
                return _redirect(
                    near, thin_rows, everyone(self.n_cal, self.weights), np.zeros(len(thin_rows), dtype=np.intp)
                )
        nearest = weigh(_nearest(index, points[thin_rows], self.least, 0.0, self.weights), self.smoothing)
        return _redirect(near, thin_rows, nearest, nearest.which)

    def search(self, index: NeighborIndex, points: FloatArray, most: int = MOST_PAIRS) -> Neighbors:
        """Return all within the radius."""
        found = index.within(points, float(self.radius.distance), most)
        return found if self.weights is None else replace(found, shares=self.weights.relative[found.indices])

    def isolation(self, neighbors: Neighbors | Neighborhoods, index: NeighborIndex, points: FloatArray) -> FloatArray:
        """Return minus the numbers of neighbours, before any policy for thin rows."""
        if isinstance(neighbors, Neighbors):
            return -np.diff(neighbors.indptr).astype(np.float64)
        return -count_within(index, points, float(self.radius.distance)).astype(np.float64)


def _nearest(
    index: NeighborIndex, points: FloatArray, k: int, eps: float, weights: PointWeights | None, most: int = MOST_PAIRS
) -> Neighbors:
    """Return the k nearest or, where points have weights, the nearest of weight k of the first queries."""
    if weights is None:
        return index.nearest(points, k, eps)
    return nearest_of_weight(index, points, k, eps, weights.relative, most=most)


def _redirect(near: Neighborhoods, rows: IntArray, other: Neighborhoods, which: IntArray) -> Neighborhoods:
    """Append the neighbourhoods of ``other`` and let the given rows point to them."""
    redirected = near.which.copy()
    redirected[rows] = len(near.indptr) - 1 + which
    return Neighborhoods(
        np.concatenate([near.indptr, near.indptr[-1] + other.indptr[1:]]),
        np.concatenate([near.indices, other.indices]),
        np.concatenate([near.distances, other.distances]),
        np.concatenate([near.weights, other.weights]),
        np.concatenate([near.radius, other.radius]),
        np.concatenate([near.effective_size, other.effective_size]),
        np.concatenate([near.self_weight, other.self_weight]),
        redirected,
    )


def everyone(n_cal: int, weights: PointWeights | None = None) -> Neighborhoods:
    """Return the one neighbourhood of all calibration points, weighted by their weights alone, without distances."""
    size = float(n_cal) if weights is None else weights.effective_size
    return Neighborhoods(
        indptr=np.array([0, n_cal], dtype=np.int64),
        indices=np.arange(n_cal, dtype=np.int32),
        distances=np.full(n_cal, np.nan),  # not looked at
        weights=np.full(n_cal, 1 / n_cal) if weights is None else weights.relative / n_cal,
        radius=np.array([np.inf]),
        effective_size=np.array([size]),
        self_weight=np.array([1 / size]),
        which=np.zeros(1, dtype=np.intp),
    )
