"""The columns that ``nearcal predict`` writes."""

from dataclasses import dataclass
from typing import Any

from nearcal.distributions import Distribution
from nearcal.distributions.base import interval_levels
from nearcal.recalibration import Recalibrated, Reliability
from nearcal.recalibration._reliability import unknown_reliability

_JUDGED = ("effective_size", "radius", "p_value", "out_of_distribution")


@dataclass(frozen=True)
class Wanted:
    """What to write of every row; ``false_alarm`` is None where reliability was not asked for."""

    mean: bool
    std: bool
    coverages: list[float]
    levels: list[float]
    false_alarm: float | None

    def names(self) -> list[str]:
        """Return the names of the columns."""
        moments = [name for name, is_wanted in (("mean", self.mean), ("std", self.std)) if is_wanted]
        ends = [f"{end}_{_percent(value)}" for value in self.coverages for end in ("lower", "upper")]
        judged = () if self.false_alarm is None else _JUDGED
        return [*moments, *ends, *(f"q{_percent(level)}" for level in self.levels), *judged]

    def of(self, dist: Distribution) -> dict[str, Any]:
        """Compute the columns of some rows."""
        values: list[Any] = self._summary(dist) if isinstance(dist, Recalibrated) else self._one_by_one(dist)
        if self.false_alarm is not None:
            table = _judge(dist, self.false_alarm)
            values += [table[name] for name in _JUDGED]
        return dict(zip(self.names(), values, strict=True))

    def _summary(self, dist: Recalibrated) -> list[Any]:
        """Compute all statistics in one pass over the neighbourhoods."""
        ends = [level for value in self.coverages for level in interval_levels(value)]
        found = dist.summary(p=[*ends, *self.levels])
        moments = [column for column, is_wanted in ((found.mean, self.mean), (found.std, self.std)) if is_wanted]
        return [*moments, *found.quantiles.T]

    def _one_by_one(self, dist: Distribution) -> list[Any]:
        """Ask for every statistic: an interval need not be two quantiles, as in conformal prediction."""
        moments = [get() for get, is_wanted in ((dist.mean, self.mean), (dist.std, self.std)) if is_wanted]
        ends = [end for value in self.coverages for end in dist.interval(value)]
        return [*moments, *ends, *(dist.ppf(level) for level in self.levels)]


def _judge(dist: Distribution, false_alarm: float) -> Reliability:
    if isinstance(dist, Recalibrated):
        return dist.reliability(false_alarm)
    return unknown_reliability(len(dist), false_alarm)


def _percent(share: float) -> str:
    return f"{100 * share:.10g}"
