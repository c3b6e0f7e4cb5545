"""The normal scores of the calibration set, with what every statistic asks of their order."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal._growing import GrowingRows
from nearcal._saved import savable, saved_array


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
    """The normal scores of the calibration set and their ranks, which are found when they are first asked for."""

    def __init__(self, z: FloatArray) -> None:
        self.z = z
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
    def has_ties(self) -> bool:
        """Whether some scores are equal."""
        return bool((np.diff(self.sorted_z) == 0).any())

    @cached_property
    def _ordered(self) -> "_Ordered":
        return _Ordered.of(self.z) if self._earlier is None else self._earlier.extended(self.z[len(self._earlier.z) :])

    def extended(self, z: FloatArray) -> "CalibrationScores":
        """Return these scores followed by more."""
        grown = self._of_rows(self._rows.extended(z))
        grown._earlier = vars(self).get("_ordered", self._earlier)
        return grown

    def restricted(self, rows: IntArray) -> "CalibrationScores":
        """Return some of the scores, given their numbers in increasing order."""
        rest = self._of_rows(self._rows.kept(rows))
        if "_ordered" in vars(self) or self._earlier is not None:
            rest._earlier = self._ordered.restricted(rows)
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
