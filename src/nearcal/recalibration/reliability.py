"""How far predictions can be trusted: by how near they are to calibration points, against those among themselves."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, IntArray, check_number
from nearcal._errors import InvalidParameterError
from nearcal._saved import having, savable, saved_array, saved_numbers, saved_value
from nearcal._table import Table
from nearcal.recalibration.leave_one_out import find_others
from nearcal.recalibration.neighborhoods import Neighborhood
from nearcal.recalibration.workers import Workers
from nearcal.space import NeighborIndex

_MOST_POINTS = 10_000  # calibration points that stand for all: p-values of 1% are then good to a tenth
_SHOWN = 10


class Reliability(Table):
    """What ``Recalibrated.reliability`` returns, one line a row; printed, the first ten.

    Its columns:

    - ``effective_size``: the number of equally weighted calibration points that would carry as much information;
    - ``radius``: the distance at which weights vanish, to the k-th neighbour or the radius asked for;
    - ``isolation``: the share of calibration points that are less isolated than the row, being nearer to their k-th
      neighbour among the others, or having more neighbours within the radius;
    - ``p_value``: (1 + number of calibration points at least as isolated) / (1 + number of calibration points);
    - ``out_of_distribution``: whether the p-value is at most the rate of false alarms asked for.

    The last three ask for neighbourhoods: without them (global or no recalibration) they are NaN, NaN and False.
    """

    def __str__(self) -> str:
        flagged = int(self["out_of_distribution"].sum())
        first = Table({name: column[:_SHOWN] for name, column in self.columns.items()})
        more = "\n..." if len(self) > _SHOWN else ""
        return f"{first}{more}\n{flagged} of {len(self)} rows out of distribution"


@savable
class OwnIsolation:
    """How isolated calibration points are among themselves; at most 10,000, drawn at random, stand for all.

    Parameters
    ----------
    index : NeighborIndex
    rows : ndarray of shape (q,)
        Which calibration points are asked.
    queries : ndarray of shape (q, d)
        Where they are in the scaled space.
    """

    def __init__(self, index: NeighborIndex, rows: IntArray, queries: FloatArray) -> None:
        self.index = index
        self._drawn: tuple[IntArray, FloatArray] | None = (rows, queries)
        self._sorted: FloatArray | None = None

    @classmethod
    def of(cls, index: NeighborIndex, points: FloatArray) -> Self:
        """Draw the points that stand for all."""
        rows = np.sort(np.random.default_rng(0).permutation(len(points))[:_MOST_POINTS])
        return cls(index, rows, points[rows])

    @classmethod
    def of_growing(cls, index: NeighborIndex) -> Self:
        """Draw them when they are first asked for: few of the calibration sets that an update makes ever are."""
        own = cls(index, np.empty(0, np.intp), np.empty((0, 0)))
        own._drawn = None
        return own

    @property
    def rows(self) -> IntArray:
        """Which calibration points are asked."""
        return self._draw()[0]

    @property
    def queries(self) -> FloatArray:
        """Where they are in the scaled space."""
        return self._draw()[1]

    def _draw(self) -> tuple[IntArray, FloatArray]:
        drawn = self._drawn
        if drawn is None:
            drawn = self._drawn = type(self).of(self.index, self.index.points)._draw()
        return drawn

    def sorted(self, neighborhood: Neighborhood, workers: Workers) -> FloatArray:
        """Return how far each is from the others, increasing; computed once."""
        if self._sorted is None:
            isolation = np.empty(len(self.rows))

            def task(chunk: slice) -> None:
                start, stop, most = chunk.start, chunk.stop, workers.pairs_per_chunk()
                while start < stop:
                    points = self.queries[start:stop]
                    others = find_others(neighborhood, self.index, points, self.rows[start:stop], most)
                    found = len(others.radius)
                    isolation[start : start + found] = neighborhood.isolation(others, self.index, points[:found])
                    start += found

            pairs = neighborhood.pairs_per_row(self.index, self.queries)
            workers.run(task, workers.chunks(len(isolation), pairs + 1))
            self._sorted = np.sort(isolation)
        return self._sorted

    def _to_saved(self) -> dict[str, Any]:
        return {"index": self.index, "rows": self.rows.astype(np.int32), "queries": self.queries}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        index = having("nearest", "within", "shape")("index", saved_value(saved, "index"))
        n, d = index.shape
        queries = saved_array(saved, "queries", np.float64, (min(n, _MOST_POINTS), d), finite=True)
        return cls(index, saved_numbers(saved, "rows", len(queries), n).astype(np.intp), queries)


def judge(
    effective_size: FloatArray, radius: FloatArray, isolation: FloatArray, own: FloatArray, false_alarm: float
) -> Reliability:
    """Compare the isolation of rows with that of calibration points, in increasing order; NaN where it is unknown."""
    known = ~np.isnan(isolation)
    less = np.where(known, np.searchsorted(own, isolation), np.nan)
    p_value = (1 + len(own) - less) / (1 + len(own))
    columns = {"effective_size": effective_size, "radius": radius, "isolation": less / max(len(own), 1)}
    return Reliability({**columns, "p_value": p_value, "out_of_distribution": p_value <= false_alarm})


def unknown_reliability(effective_size: FloatArray, radius: FloatArray, false_alarm: float) -> Reliability:
    """Return the table of predictions that no neighbourhood stands behind."""
    check_false_alarm(false_alarm)
    return judge(effective_size, radius, np.full(len(radius), np.nan), np.empty(0), false_alarm)


def check_false_alarm(false_alarm: Any) -> None:
    """Validate a rate strictly between 0 and 1."""
    check_number(false_alarm, "false_alarm", least=0.0, strict=True)
    if not false_alarm < 1:
        raise InvalidParameterError(f"false_alarm must be below 1, got {false_alarm!r}; give 1% as 0.01")
