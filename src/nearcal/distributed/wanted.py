"""What to write of every row: which statistics, under which names, computed in one pass where that is possible."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np

from nearcal._arrays import as_float_array
from nearcal._errors import InvalidParameterError
from nearcal.distributions import interval_levels
from nearcal.models import CalibratedModel
from nearcal.recalibration import Recalibrated

_JUDGED = ("effective_size", "radius", "p_value", "out_of_distribution")


@dataclass(frozen=True)
class Wanted:
    """What to write of every row; ``false_alarm`` is None where reliability was not asked for."""

    mean: bool
    std: bool
    coverages: tuple[float, ...]
    levels: tuple[float, ...]
    trust: bool
    false_alarm: float | None

    @classmethod
    def of_options(
        cls,
        calibrated: CalibratedModel,
        *,
        coverage: Any,
        quantiles: Any,
        mean: bool,
        std: bool,
        trust: bool | None,
        reliability: bool,
        false_alarm: float,
    ) -> Self:
        """Return what the options of ``nc.dask.predict`` and ``nc.spark.predict`` ask for, validated."""
        levels = _as_shares(quantiles, "quantiles")
        coverages = _as_shares((() if levels else 0.9) if coverage is None else coverage, "coverage")
        (alarm,) = _as_shares(false_alarm, "false_alarm")
        is_told = (reliability or calibrated.fade is not None) if trust is None else bool(trust)
        wanted = cls(bool(mean), bool(std), coverages, levels, is_told, alarm if reliability else None)
        for values in (coverages, levels):
            if same := find_same_name(values):
                raise InvalidParameterError(
                    f"columns of {same[0]!r} and {same[1]!r} would have the same name; leave one out"
                )
        if not wanted.names():
            raise InvalidParameterError("mean, std, coverage and quantiles leave nothing to predict; ask for one")
        return wanted

    def names(self) -> list[str]:
        """Return the names of the columns."""
        moments = [name for name, is_wanted in (("mean", self.mean), ("std", self.std)) if is_wanted]
        ends = [f"{end}_{percent(value)}" for value in self.coverages for end in ("lower", "upper")]
        judged = () if self.false_alarm is None else _JUDGED
        last = ("trust",) * self.trust
        return [*moments, *ends, *(f"q{percent(level)}" for level in self.levels), *judged, *last]

    def dtypes(self) -> dict[str, type]:
        """Return the types of the columns, by name."""
        return {name: np.bool_ if name == "out_of_distribution" else np.float64 for name in self.names()}

    def of(self, dist: Recalibrated) -> dict[str, Any]:
        """Compute the columns of some rows, and in any case their trust."""
        # a conformal interval is not two quantiles
        values: list[Any] = self._summary(dist) if type(dist) is Recalibrated else self._one_by_one(dist)
        trust = values.pop()
        if self.false_alarm is not None:
            table = dist.reliability(self.false_alarm)
            values += [table[name] for name in _JUDGED]
        values += [trust] * self.trust
        return {**dict(zip(self.names(), values, strict=True)), "trust": trust}

    def _summary(self, dist: Recalibrated) -> list[Any]:
        """Compute all statistics in one pass over the neighbourhoods, trust the last."""
        ends = [level for value in self.coverages for level in interval_levels(value)]
        summary = dist.summary(p=[*ends, *self.levels])
        moments = [column for column, is_wanted in ((summary.mean, self.mean), (summary.std, self.std)) if is_wanted]
        return [*moments, *summary.quantiles.T, summary.trust]

    def _one_by_one(self, dist: Recalibrated) -> list[Any]:
        """Ask for every statistic, trust the last."""
        moments = [get() for get, is_wanted in ((dist.mean, self.mean), (dist.std, self.std)) if is_wanted]
        ends = [end for value in self.coverages for end in dist.interval(value)]
        return [*moments, *ends, *(dist.ppf(level) for level in self.levels), dist.trust]


def find_same_name(shares: Iterable[float]) -> tuple[float, float] | None:
    """Return two shares whose columns would have the same name, if there are such."""
    return next((pair for pair in combinations(shares, 2) if percent(pair[0]) == percent(pair[1])), None)


def percent(share: float) -> str:
    """Return a share as it stands in the name of a column: 0.9 is 90."""
    return f"{100 * share:.10g}"


def _as_shares(value: Any, name: str) -> tuple[float, ...]:
    """Return one share or several as a tuple, each once, refusing what lies outside of 0 and 1."""
    values: Sequence[float] = np.atleast_1d(as_float_array(value, name)).tolist() if np.size(value) else []
    for one in values:
        if not 0 < one < 1:
            raise InvalidParameterError(f"{name} must lie strictly between 0 and 1, got {one!r}; 90% is 0.9")
    return tuple(dict.fromkeys(values))
