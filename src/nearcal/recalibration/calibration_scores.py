"""The normal scores of the calibration set, with what every statistic asks of their order."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal._growing import GrowingRows
from nearcal._saved import savable, saved_array


@savable
class CalibrationScores:
    """The normal scores of the calibration set and their ranks, which are found when they are first asked for."""

    def __init__(self, z: FloatArray) -> None:
        self.z = z
        self._rows = GrowingRows(z)
        self._earlier: IntArray | None = None  # the order of the first scores, where it is known

    @cached_property
    def _order(self) -> IntArray:
        """The scores in increasing order, equal ones by index: their numbers."""
        if self._earlier is None:
            return np.argsort(self.z, kind="stable")
        n = len(self._earlier)
        later = n + np.argsort(self.z[n:], kind="stable")
        places = np.searchsorted(self.z[self._earlier], self.z[later], side="right")
        return np.insert(self._earlier, places, later)

    @cached_property
    def sorted_z(self) -> FloatArray:
        """The scores in increasing order."""
        return self.z[self._order]

    @cached_property
    def ranks(self) -> NDArray[np.int32]:
        """The place of each score among all."""
        ranks = np.empty(len(self.z), dtype=np.int32)
        ranks[self._order] = np.arange(len(self.z), dtype=np.int32)
        return ranks

    @cached_property
    def has_ties(self) -> bool:
        """Whether some scores are equal."""
        return bool((np.diff(self.sorted_z) == 0).any())

    def extended(self, z: FloatArray) -> "CalibrationScores":
        """Return these scores followed by more."""
        grown = self._of_rows(self._rows.extended(z))
        grown._earlier = vars(self).get("_order", self._earlier)
        return grown

    def restricted(self, rows: IntArray) -> "CalibrationScores":
        """Return some of the scores, given their numbers in increasing order."""
        rest = self._of_rows(self._rows.kept(rows))
        if "_order" in vars(self) or self._earlier is not None:
            numbers = np.full(len(self.z), -1)
            numbers[rows] = np.arange(len(rows))
            order = numbers[self._order]
            rest._earlier = order[order >= 0]
        return rest

    @staticmethod
    def _of_rows(rows: GrowingRows) -> "CalibrationScores":
        scores = CalibrationScores(rows.array)
        scores._rows = rows
        return scores

    def __len__(self) -> int:
        return len(self.z)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle and copy take along: the scores, whose order can be found again."""
        return type(self), (self.z,)

    def _to_saved(self) -> dict[str, Any]:
        return {"z": self.z}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        # a copy, writable as scores are after a fit: kernels are compiled for one kind of array
        return cls(saved_array(saved, "z", np.float64, (None,)).copy())


class PairScores(CalibrationScores):
    """The scores of the neighbours of a chunk, one a pair."""
