"""From what was chosen to a fitted recalibrator, in the spaces that it was scored in."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal.recalibration import (
    AveragedRecalibrator,
    Caution,
    Fade,
    GlobalRecalibrator,
    IdentityRecalibrator,
    LocalRecalibrator,
    Polish,
    QuantileRule,
    Workers,
)
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.fade import LearntFade
from nearcal.recalibration.leave_one_out import LeaveOneOut
from nearcal.recalibration.row_drift import latest_rows
from nearcal.tuning.candidates import Candidate
from nearcal.tuning.scoring import Places

_JOINT = " + "


@dataclass(frozen=True)
class Fit:
    """How to fit what is chosen.

    Parameters
    ----------
    calibration : CalibrationScores
    places : mapping
        The spaces that candidates were scored in, ready.
    quantile_rule : str
    fade : Fade or None
    polish : bool
    by_time : ndarray or None
        The rows from the oldest to the latest, where a drift along them is looked for.
    workers : Workers
    """

    calibration: CalibrationScores
    places: Places
    quantile_rule: QuantileRule
    fade: Fade | None
    polish: bool
    by_time: IntArray | None
    workers: Workers

    def __call__(
        self, chosen: Mapping[Candidate, float], caution: Caution | None, widths: Mapping[str, int]
    ) -> IdentityRecalibrator | GlobalRecalibrator | LocalRecalibrator | AveragedRecalibrator:
        """Return the fitted recalibrator of candidates with weights, with what is left to the model.

        ``widths`` are those of the spaces that it looks at, side by side.
        """
        first = next(iter(chosen))
        if first.kind == "none":
            return IdentityRecalibrator().fit_scores(self.calibration)
        if first.kind == "global":
            calibration = self.calibration
            if self.by_time is not None:
                calibration = calibration.restricted(latest_rows(calibration.z, self.by_time))
            return GlobalRecalibrator(quantile_rule=self.quantile_rule, caution=caution).fit_scores(calibration)
        polish = Polish(drift=self.by_time is not None) if self.polish else None
        if len(chosen) == 1:
            return self._local(first, polish, caution)
        with ThreadPoolExecutor(self.workers.count()) as pool:  # scalings, which members would learn one by one
            list(pool.map(lambda place: self.places[place].map, dict.fromkeys(one.place for one in chosen)))
        own_polish = None if polish is None else Polish()  # of drift the average is asked
        members = [self._local(candidate, own_polish, None) for candidate in chosen]
        averaged = AveragedRecalibrator(
            members,
            weights=tuple(chosen.values()),
            corrections=tuple(correction for correction in (polish, caution) if correction is not None),
        )
        spaces = [str(candidate.space) for candidate in chosen]
        columns = [columns_of([name] if name in widths else name.split(_JOINT), widths) for name in spaces]
        left_out = [self._left_out(candidate, member) for candidate, member in zip(chosen, members, strict=True)]
        return averaged.fit_members(members, columns, left_out)

    def _local(self, chosen: Candidate, polish: Polish | None, caution: Caution | None) -> LocalRecalibrator:
        assert chosen.k is not None
        recalibrator = chosen.local_recalibrator(self.quantile_rule, polish, self.fade, self.workers, caution)
        return recalibrator.fit_space(self.calibration, self.places[chosen.place].for_neighbors(chosen.k))

    def _left_out(self, chosen: Candidate, member: LocalRecalibrator) -> LeaveOneOut:
        """Return calibration points each among the others, in the space that is ready."""
        space = self.places[chosen.place]
        learnt = tuple(one for one in member.corrections_ if not isinstance(one, LearntFade))
        return LeaveOneOut(
            self.calibration, lambda: space.views, member.neighborhood_, self.quantile_rule, self.workers, learnt,
            rows_by_time=None if space.folds is None else space.folds.by_time,
        )  # fmt: skip


def spaces_of(chosen: Mapping[Candidate, float], positions: Mapping[str, FloatArray]) -> dict[str, int]:
    """Return the spaces that candidates look at, and their widths, given the positions in all.

    Where several look at different ones, what is joined of others, such as "input + output", is these, once each.
    """
    names = list(dict.fromkeys(candidate.space for candidate in chosen if candidate.space is not None))
    parts = names if len(names) == 1 else [part for name in names for part in _parts(name, positions)]
    return {part: positions[part].shape[1] for part in parts}


def _parts(name: str, positions: Mapping[str, FloatArray]) -> list[str]:
    """Return the spaces that one is joined of; itself, if it is not, whatever its name."""
    parts = name.split(_JOINT)
    if len(parts) == 1 or not all(part in positions for part in parts):
        return [name]
    together = np.hstack([positions[part] for part in parts])
    return parts if np.array_equal(together, positions[name]) else [name]


def columns_of(spaces: Iterable[str], widths: Mapping[str, int]) -> list[int]:
    """Return the columns of some spaces among those of all, side by side, given their widths."""
    starts, start = {}, 0
    for name, width in widths.items():
        starts[name] = start
        start += width
    return [starts[name] + column for name in spaces for column in range(widths[name])]
