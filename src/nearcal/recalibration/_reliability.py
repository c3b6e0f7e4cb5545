"""How far predictions can be trusted: by how near they are to calibration points, against those among themselves."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, check_number
from nearcal._errors import InvalidParameterError
from nearcal._saved import having, savable, saved_array, saved_value
from nearcal._table import Table
from nearcal.neighbors import NeighborIndex
from nearcal.recalibration._chunks import Workers

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
class CalibrationPoints:
    """How isolated calibration points are among themselves; at most 10,000, drawn at random, stand for all."""

    def __init__(self, index: NeighborIndex, points: FloatArray) -> None:
        self.index = index
        self.n = len(points)
        chosen = np.sort(np.random.default_rng(0).permutation(self.n)[:_MOST_POINTS])
        self.points = points[chosen]
        self._known: dict[tuple[float, ...], FloatArray] = {}

    def _to_saved(self) -> dict[str, Any]:
        return {"index": self.index, "points": self.points}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        own = cls.__new__(cls)
        own.index = having("nearest", "within", "shape")("index", saved_value(saved, "index"))
        own._known = {}
        own.n, d = own.index.shape
        own.points = saved_array(saved, "points", np.float64, (min(own.n, _MOST_POINTS), d))
        return own

    def radii(self, k: int, eps: float, workers: Workers) -> FloatArray:
        """Return the distances to the k-th other point, increasing; that is the (k + 1)-th with the point itself."""
        others = min(k + 1, self.n)
        return self._sorted(
            (k, eps), lambda rows: self.index.nearest(self.points[rows], others, eps).reach, others, workers
        )

    def counts(self, radius: float, pairs: int, workers: Workers) -> FloatArray:
        """Return minus the numbers of other points within the radius, increasing."""
        return self._sorted(
            (radius,), lambda rows: isolation_within(self.index, self.points[rows], radius) + 1, pairs, workers
        )

    def _sorted(self, key: tuple[float, ...], isolation: Any, pairs: int, workers: Workers) -> FloatArray:
        if key not in self._known:
            found = np.empty(len(self.points))

            def task(rows: slice) -> None:
                found[rows] = isolation(rows)

            workers.run(task, workers.chunks(len(found), pairs))
            self._known[key] = np.sort(found)
        return self._known[key]


def isolation_within(index: NeighborIndex, points: FloatArray, radius: float) -> FloatArray:
    """Return minus the number of calibration points within the radius: the fewer, the more isolated."""
    return -np.diff(index.within(points, radius).indptr).astype(np.float64)


def judge(
    effective_size: FloatArray, radius: FloatArray, isolation: FloatArray, own: FloatArray, false_alarm: float
) -> Reliability:
    """Compare the isolation of rows with that of calibration points, in increasing order; NaN where it is unknown."""
    known = ~np.isnan(isolation)
    less = np.where(known, np.searchsorted(own, isolation), np.nan)
    p_value = (1 + len(own) - less) / (1 + len(own))
    columns = {"effective_size": effective_size, "radius": radius, "isolation": less / max(len(own), 1)}
    return Reliability({**columns, "p_value": p_value, "out_of_distribution": p_value <= false_alarm})


def unknown_reliability(rows: int, false_alarm: float) -> Reliability:
    """Return the table of predictions that no neighbourhood stands behind."""
    check_false_alarm(false_alarm)
    unknown = np.full(rows, np.nan)
    return judge(unknown, unknown, unknown, np.empty(0), false_alarm)


def check_false_alarm(false_alarm: Any) -> None:
    """Validate a rate strictly between 0 and 1."""
    check_number(false_alarm, "false_alarm", least=0.0, strict=True)
    if not false_alarm < 1:
        raise InvalidParameterError(f"false_alarm must be below 1, got {false_alarm!r}; give 1% as 0.01")
