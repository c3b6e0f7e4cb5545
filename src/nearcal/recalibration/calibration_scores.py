"""The normal scores of the calibration set, with what every statistic asks of their order."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray
from nearcal._cached import cached_property
from nearcal._saved import require, savable, saved_array

LARGEST_SCORE = 1e100  # squares of scores are summed


@savable
class CalibrationScores:
    """The normal scores of the calibration set and their ranks."""

    def __init__(self, z: FloatArray) -> None:
        self.z = z
        order = np.argsort(z, kind="stable")
        self.sorted_z = z[order]
        self.ranks = np.empty(len(z), dtype=np.int32)
        self.ranks[order] = np.arange(len(z), dtype=np.int32)
        self.has_ties = bool((np.diff(self.sorted_z) == 0).any())

    def __len__(self) -> int:
        return len(self.z)

    def _to_saved(self) -> dict[str, Any]:
        return {"z": self.z}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        z = saved_array(saved, "z", np.float64, (None,))
        require((np.abs(z) <= LARGEST_SCORE).all(), f"z must not exceed {LARGEST_SCORE:g}")
        return cls(z.copy())  # writable, as scores are after a fit: kernels are compiled for one kind of array


class PairScores(CalibrationScores):
    """The scores of the neighbours of a chunk, one a pair; put in order, which few statistics ask for, when asked."""

    def __init__(self, z: FloatArray) -> None:
        self.z = z

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
