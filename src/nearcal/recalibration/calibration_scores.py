"""The normal scores of the calibration set, with what every statistic asks of their order."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal._growing import GrowingRows
from nearcal._sample_weights import PointWeights, weights_of
from nearcal._saved import instance, number, optional, require, savable, saved_array, saved_value

LARGEST_SCORE = 1e100  # squares of scores are summed


class _Ordered(NamedTuple):
    """Scores in increasing order, and the place of each there: what a sort finds, or follows from an earlier one."""

    z: FloatArray
    ranks: NDArray[np.int32]

    @classmethod
    def of(cls, z: FloatArray) -> Self:
        order = np.argsort(z, kind="stable")
        ranks = np.empty(len(z), dtype=np.int32)
        ranks[order] = np.arange(len(z), dtype=np.int32)
        return cls(z[order], ranks)

    def extended(self, more: FloatArray) -> Self:
        """Put more scores where they belong: behind those that equal them."""
        later = type(self).of(more)
        places = np.searchsorted(self.z, later.z, side="right")
        shifts = np.cumsum(np.bincount(places, minlength=len(self.z) + 1), dtype=np.int32)
        own = (places + np.arange(len(more))).astype(np.int32)[later.ranks]
        return type(self)(np.insert(self.z, places, later.z), np.concatenate([self.ranks + shifts[self.ranks], own]))

    def restricted(self, rows: IntArray) -> Self:
        """Leave out all but some scores."""
        ranks = self.ranks[rows]
        stays = np.zeros(len(self.z), dtype=np.bool_)
        stays[ranks] = True
        return type(self)(self.z[stays], (np.cumsum(stays, dtype=np.int32) - 1)[ranks])


@savable
class CalibrationScores:
    """The normal scores of the calibration set, and the weights of its points; ranks are found when first asked for.

    Parameters
    ----------
    z : ndarray of shape (n,)
    weights : PointWeights, optional
        None if all points count alike.
    common_weight : float
        The weight that each of them was given then: points that are added later count beside it.
    """

    def __init__(self, z: FloatArray, weights: PointWeights | None = None, common_weight: float = 1.0) -> None:
        self.z, self.weights, self.common_weight = z, weights, common_weight
        self._rows = GrowingRows(z)
        self._earlier: _Ordered | None = None  # the first of these scores in order, where that is known

    @property
    def sorted_z(self) -> FloatArray:
        """The scores in increasing order."""
        return self._ordered.z

    @property
    def ranks(self) -> NDArray[np.int32]:
        """The place of each score among all; equal ones are placed by index."""
        return self._ordered.ranks

    @cached_property
    def order(self) -> IntArray:
        """The points in the order of their scores."""
        order = np.empty(len(self.z), dtype=np.intp)
        order[self.ranks] = np.arange(len(self.z))
        return order

    @cached_property
    def has_ties(self) -> bool:
        """Whether some scores are equal."""
        return bool((np.diff(self.sorted_z) == 0).any())

    @cached_property
    def _ordered(self) -> "_Ordered":
        return _Ordered.of(self.z) if self._earlier is None else self._earlier.extended(self.z[len(self._earlier.z) :])

    @property
    def effective_size(self) -> float:
        """The number of points or, where they have weights, of equal points that would tell as much."""
        return float(len(self.z)) if self.weights is None else self.weights.effective_size

    @property
    def given_weights(self) -> FloatArray:
        """The weight that each point was given."""
        return np.full(len(self.z), self.common_weight) if self.weights is None else self.weights.given

    def extended(self, more: "CalibrationScores") -> "CalibrationScores":
        """Return these scores followed by more."""
        given = None
        if self.weights is not None or more.weights is not None or self.common_weight != more.common_weight:
            given = np.concatenate([self.given_weights, more.given_weights])
        grown = self._of_rows(self._rows.extended(more.z), given)
        grown._earlier = vars(self).get("_ordered", self._earlier)
        return grown

    def restricted(self, rows: IntArray) -> "CalibrationScores":
        """Return some of the scores, given their numbers in increasing order."""
        rest = self._of_rows(self._rows.kept(rows), None if self.weights is None else self.weights.given[rows])
        if "_ordered" in vars(self) or self._earlier is not None:
            rest._earlier = self._ordered.restricted(rows)
        return rest

    def rescaled(self, factor: float) -> "CalibrationScores":
        """Return all scores times a factor."""
        return CalibrationScores(self.z * factor, self.weights, self.common_weight)

    def _of_rows(self, rows: GrowingRows, given: FloatArray | None) -> "CalibrationScores":
        weights = None if given is None else weights_of(given)
        common = self.common_weight if given is None or weights is not None else float(given[0])
        scores = CalibrationScores(rows.array, weights, common)
        scores._rows = rows
        return scores

    def __len__(self) -> int:
        return len(self.z)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle and copy take along: scores and weights; the order can be found again."""
        return type(self), (self.z, self.weights, self.common_weight)

    def _to_saved(self) -> dict[str, Any]:
        return {"z": self.z, "weights": self.weights, "common_weight": self.common_weight}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        # a copy, writable as scores are after a fit: kernels are compiled for one kind of array
        z = saved_array(saved, "z", np.float64, (None,)).copy()
        require((np.abs(z) <= LARGEST_SCORE).all(), f"z must not exceed {LARGEST_SCORE:g}")
        weights = optional(instance(PointWeights))("weights", saved_value(saved, "weights"))
        require(weights is None or len(weights) == len(z), f"weights must be {len(z)}, one a score")
        common = number(0.0)("common_weight", saved_value(saved, "common_weight"))
        require(common > 0, "common_weight must be positive")
        return cls(z, weights, common)


class PairScores(CalibrationScores):
    """The scores of the neighbours of a chunk, one a pair, weighed before this."""
