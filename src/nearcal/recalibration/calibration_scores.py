"""The normal scores of the calibration set, with what every statistic asks of their order."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal._sample_weights import PointWeights
from nearcal._saved import instance, optional, require, savable, saved_array, saved_value


@savable
class CalibrationScores:
    """The normal scores of the calibration set, their ranks, and the weights of the points; None if all count alike."""

    def __init__(self, z: FloatArray, weights: PointWeights | None = None) -> None:
        self.z, self.weights = z, weights
        order = self.order
        self.sorted_z = z[order]
        self.ranks = np.empty(len(z), dtype=np.int32)
        self.ranks[order] = np.arange(len(z), dtype=np.int32)
        self.has_ties = bool((np.diff(self.sorted_z) == 0).any())

    def __len__(self) -> int:
        return len(self.z)

    @property
    def order(self) -> IntArray:
        """The points in the order of their scores."""
        return np.argsort(self.z, kind="stable")

    @property
    def effective_size(self) -> float:
        """The number of points or, where they have weights, of equal points that would tell as much."""
        return float(len(self.z)) if self.weights is None else self.weights.effective_size

    def _to_saved(self) -> dict[str, Any]:
        return {"z": self.z, "weights": self.weights}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        # a copy, writable as scores are after a fit: kernels are compiled for one kind of array
        z = saved_array(saved, "z", np.float64, (None,)).copy()
        weights = optional(instance(PointWeights))("weights", saved_value(saved, "weights"))
        require(weights is None or len(weights) == len(z), f"weights must be {len(z)}, one a score")
        return cls(z, weights)


class PairScores(CalibrationScores):
    """The scores of the neighbours of a chunk, one a pair; put in order, which few statistics ask for, when asked."""

    def __init__(self, z: FloatArray) -> None:
        self.z, self.weights = z, None  # neighbours are weighed before this

    @cached_property
    def sorted_z(self) -> FloatArray:
        """The scores in increasing order."""
        return self._ordered.sorted_z

    @cached_property
    def ranks(self) -> NDArray[np.int32]:
        """The place of each score among all."""
        return self._ordered.ranks

    @cached_property
    def _ordered(self) -> CalibrationScores:
        return CalibrationScores(self.z)
