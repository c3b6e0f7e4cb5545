"""The trend of scores: smooth functions of position, learnt from all of them, that neighbours are moved along.

The local-linear correction sees a neighbourhood alone; where that is small its slopes are noise, and where it is wide
it is not straight. A function learnt from all scores has neither limit, and what it leaves is left to neighbours.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal._saved import instance, optional, require, savable, saved_value
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.corrections import Correction, LearntCorrection
from nearcal.recalibration.neighborhoods import Neighborhoods
from nearcal.recalibration.smooth import CHOICE, BumpSettings, Choice, SmoothFunction, learn_smooth
from nearcal.space import View

if TYPE_CHECKING:
    from nearcal.recalibration.leave_one_out import LeaveOneOut

_OUTLYING = 6.0  # standard deviations, told by quartiles, beyond which scores are drawn in before they are learnt from
_MOST_LOG = 600.0  # of a factor, which is then still a number, and not zero
_LEAST_DISTANCE = 0.02  # of scores from f, in medians: logarithms of less would outweigh all others
_TINY = 1e-300
_SPREADS = Choice(widths=(1.4, 5.6), most_centers=400)  # logarithms of distances are mostly noise
_STANDARD_ERRORS = 2.0  # by which a spread that differs must be better than one that does not


@savable
@dataclass(frozen=True)
class Trend(Correction):
    """Move the scores of neighbours along smooth functions of position that all scores have shaped.

    With f and g such functions, f_i(x_i) what f is at calibration point i as it would be without that point, and x the
    position of a row, neighbours have the scores

        f(x) + exp(g(x) - g_i(x_i)) (z_i - f_i(x_i)).

    f is learnt from scores, and g from the logarithms of how far they are from f: the one moves neighbours, the other
    makes them spread as scores do where the row is. g is left out if its leave-one-out error is not below that of a
    constant by more than two standard errors.

    f(x) = z̄ + Σ_l c_l b((x - u_l) / h) is a sum of bumps b, round ones, ``exp(-|v|²/2)``, or pointed ones, ``exp(-Σ_a
    |v_a|)``, which follow steps and kinks along single columns. Their centres u_l are 700 calibration points, evenly
    spaced in the order of their positions, or all. It is the least-squares fit with the penalty ``λ |f|²``, the norm
    being that of the kernel (kernel ridge regression, in Nyström's approximation). The shape of bumps, h, of five
    multiples of the median distance between points, and λ are those of the least leave-one-out error, which least
    squares know in closed form. f is not extrapolated: it stays between its least and greatest values at calibration
    points. Of more than 5,000 points 5,000 stand for all, and scores more than six standard deviations from the median,
    as quartiles tell it, are drawn in while f is learnt.

    It comes before all other corrections. Use it where the model is misspecified, so that its errors follow from
    position: what neighbours then differ by is what position does not tell.

    References
    ----------
    C. Saunders, A. Gammerman and V. Vovk, *Ridge Regression Learning Algorithm in Dual Variables*, ICML 1998.
    C. K. I. Williams and M. Seeger, *Using the Nyström Method to Speed Up Kernel Machines*, NeurIPS 2000.

    Examples
    --------
    A model that knows nothing, of responses that are a function of position and a little noise:

    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(-2, 2, size=500)
    >>> y, model = rng.normal(np.sin(3 * x), 0.1), nc.Normal(np.zeros(500), 1.0)
    >>> plain, moved = nc.LocalRecalibrator(k=200), nc.LocalRecalibrator(k=200, corrections=(nc.Trend(),))
    >>> [rc.fit(model, y, x).recalibrate(model[:1], [0.5]).std().round(1).item() for rc in (plain, moved)]
    [0.5, 0.1]
    """

    comes_first = True

    def learn(self, left_out: "LeaveOneOut", view: View) -> "LearntTrend | None":
        """Learn from all scores, once a view, with the settings that are best in the one that all judging shares.

        None if the mean of all scores tells as much.
        """
        widest = left_out.widest
        if "trend" not in widest.kept:
            widest.kept["trend"] = learn_trend(widest, left_out.calibration)
        chosen: LearntTrend | None = widest.kept["trend"]
        if chosen is None or view is widest:
            return chosen
        learnt = chosen.seen_in(view, 0, left_out.calibration)
        return learnt if isinstance(learnt, LearntTrend) else None


@savable
class LearntTrend(LearntCorrection):
    """Where scores lie at a position, and how the logarithm of their distance from there goes up and down.

    Parameters
    ----------
    location : SmoothFunction
    spread : SmoothFunction or None
    """

    moves_scores = True

    def __init__(self, location: SmoothFunction, spread: SmoothFunction | None) -> None:
        self.location, self.spread = location, spread

    def seen_in(self, view: View, neighbors: int, calibration: CalibrationScores) -> LearntCorrection:
        """Return the functions learnt with the same settings from the points that may be learnt from there."""
        settings = self.location.settings, None if self.spread is None else self.spread.settings
        key = "trend", settings
        if key not in view.kept:
            view.kept[key] = learn_trend(view, calibration, settings) or LearntCorrection()
        return view.kept[key]

    def move(
        self, near: Neighborhoods, scores: FloatArray, points: FloatArray, own: IntArray | None = None
    ) -> FloatArray:
        """Take from scores the location where they come from, and add that where the row is; likewise the spread."""
        owners = near.owners()
        pair = np.repeat(np.arange(len(owners)), np.diff(near.indptr))
        moved = scores - self.location.values[near.indices]
        if self.spread is not None:
            here = (self.spread(points) if own is None else self.spread.values[own])[owners]
            wider = np.clip(here[pair] - self.spread.values[near.indices], -_MOST_LOG, _MOST_LOG)
            moved *= np.exp(wider)
        here = (self.location(points) if own is None else self.location.values[own])[owners]
        return np.where(owners[pair] < 0, scores, moved + here[pair])

    def extended(self, points: FloatArray) -> Self:
        """Return the same functions, with calibration points more."""
        return self._with(lambda function: function.extended(points))

    def restricted(self, rows: IntArray) -> Self:
        """Return the same functions for some of the calibration points."""
        return self._with(lambda function: function.restricted(rows))

    def _with(self, change: Callable[[SmoothFunction], SmoothFunction]) -> Self:
        return type(self)(change(self.location), None if self.spread is None else change(self.spread))

    def _to_saved(self) -> dict[str, Any]:
        return {"location": self.location, "spread": self.spread}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        location = instance(SmoothFunction)("location", saved_value(saved, "location"))
        spread = optional(instance(SmoothFunction))("spread", saved_value(saved, "spread"))
        sizes = {(len(one.values), len(one.origin)) for one in (location, spread) if one is not None}
        require(len(sizes) == 1, "spread must be known at the points and in the space of location")
        return cls(location, spread)


Settings: TypeAlias = tuple[BumpSettings, BumpSettings | None]


def learn_trend(view: View, calibration: CalibrationScores, settings: Settings | None = None) -> LearntTrend | None:
    """Return the trend of the scores that may be learnt from, with the settings given or the best."""
    location = learn_location(view, calibration, None if settings is None else settings[0])
    if location is None:
        return None
    if settings is not None and settings[1] is None:
        return LearntTrend(location, None)
    distance = np.abs(_drawn_in(calibration, view) - location.values)
    sizes = np.log(np.maximum(distance, _LEAST_DISTANCE * max(float(np.median(distance)), _TINY)))
    spread = learn_smooth(view, sizes, _weights(calibration), None if settings is None else settings[1], _SPREADS)
    if spread is None or (settings is None and not _is_better(spread.values, sizes)):
        return LearntTrend(location, None)
    return LearntTrend(location, spread)


def learn_location(
    view: View,
    calibration: CalibrationScores,
    settings: BumpSettings | None = None,
    choice: Choice = CHOICE,
    centers: FloatArray | None = None,
) -> SmoothFunction | None:
    """Return where scores lie, with the settings given or the best."""
    return learn_smooth(view, _drawn_in(calibration, view), _weights(calibration), settings, choice, centers)


def _weights(calibration: CalibrationScores) -> FloatArray | None:
    return None if calibration.weights is None else calibration.weights.relative


def _is_better(values: FloatArray, targets: FloatArray) -> bool:
    """Tell whether values are nearer to targets than a constant is, beyond chance."""
    gain = (targets - targets.mean()) ** 2 - (targets - values) ** 2
    return bool(gain.mean() > _STANDARD_ERRORS * gain.std() / np.sqrt(len(gain)))


def _drawn_in(calibration: CalibrationScores, view: View) -> FloatArray:
    """Return scores, those far from the others, as quartiles of the points that may be learnt from tell it, nearer."""
    known = calibration.z if view.speakers is None else calibration.z[view.speakers]
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
    reach = _OUTLYING * (high - low) / 1.349  # quartiles of N(0, 1) are that far apart
    return np.clip(calibration.z, middle - reach, middle + reach) if reach > 0 else calibration.z
