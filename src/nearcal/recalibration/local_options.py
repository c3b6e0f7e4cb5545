"""The options of local recalibration: what may be asked for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from nearcal._arrays import check_choices, check_count, check_number
from nearcal._errors import InvalidParameterError
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.corrections import Correction
from nearcal.recalibration.neighborhoods import SMOOTHINGS, KNearest, Radius, WithinRadius
from nearcal.recalibration.score_laws import CONTINUOUS_RULES, QUANTILE_RULES
from nearcal.recalibration.workers import Workers
from nearcal.space import METRICS, SEARCHES, Scaling

if TYPE_CHECKING:
    from nearcal.recalibration.local import LocalRecalibrator
    from nearcal.recalibration.sharded import ShardedRecalibrator

    Options: TypeAlias = LocalRecalibrator | ShardedRecalibrator


def neighborhood_of(options: "Options", calibration: CalibrationScores) -> KNearest | WithinRadius:
    """Return which of these calibration points are asked."""
    n_cal, weights = len(calibration), calibration.weights
    if options.radius is not None:
        return WithinRadius(Radius.of(options.radius), options.smoothing, n_cal, weights)
    assert options.k is not None
    if options.k > n_cal:
        raise InvalidParameterError(
            f"k must be at most the number of calibration points, {n_cal}, got {options.k}; "
            "for all points equally weighted use GlobalRecalibrator"
        )
    return KNearest(options.k, float(options.eps), options.smoothing, weights)


def check_options(options: "Options") -> None:
    """Refuse what cannot be learnt from, whatever the calibration set."""
    _check_neighborhood(options)
    check_number(options.eps, "eps", least=0.0)
    Scaling.of(options.scaling)
    check_choices(
        {
            "smoothing": (options.smoothing, SMOOTHINGS),
            "metric": (options.metric, METRICS),
            "search": (options.search, SEARCHES),
            "quantile_rule": (options.quantile_rule, QUANTILE_RULES),
        }
    )
    if options.corrections != ():
        _check_corrections(options)
    if options.workers is not None:
        Workers.of(options.workers)


def _check_neighborhood(options: "Options") -> None:
    if (options.k is None) == (options.radius is None):
        raise InvalidParameterError(
            f"give exactly one of k and radius, got k={options.k!r} and radius={options.radius!r}; k=1000 is the "
            "paper's choice for 10,000 calibration points, and nearcal.tune(dist_cal, y_cal, space_cal).recalibrator "
            "chooses it"
        )
    if isinstance(options.k, str):
        raise InvalidParameterError(
            f"k must be a whole number >= 1, got {options.k!r}; nearcal.tune(dist_cal, y_cal, space_cal).recalibrator "
            "chooses it"
        )
    if options.radius is None:
        check_count(options.k, "k")
        return
    Radius.of(options.radius)
    if options.search == "faiss":
        raise InvalidParameterError(
            'search="faiss" finds the k nearest only, got a radius; give k, or search="auto" for a radius'
        )


def _check_corrections(options: "Options") -> None:
    if not isinstance(options.corrections, Sequence):
        raise InvalidParameterError(
            f"corrections must be a sequence, such as (nearcal.Polish(),), got {options.corrections!r}"
        )
    for correction in options.corrections:
        if not isinstance(correction, Correction):
            raise InvalidParameterError(
                "corrections must be a sequence of nearcal.Trend(), nearcal.LocalLinear(), nearcal.Shrinkage(), "
                f"nearcal.Polish(), nearcal.Caution() and nearcal.Fade(), got {correction!r} among them"
            )
        correction.check()
        if correction.needs_continuous_rule and options.quantile_rule not in CONTINUOUS_RULES:
            raise InvalidParameterError(
                f"{correction!r} needs a continuous quantile_rule, one of {CONTINUOUS_RULES}, got "
                f'{options.quantile_rule!r}; use quantile_rule="predictive"'
            )
    if any(correction.comes_first for correction in options.corrections[1:]):
        raise InvalidParameterError(
            f"corrections must begin with Trend(), once, where there is one, got {tuple(options.corrections)!r}; put "
            "it first"
        )
    if any(correction.comes_last for correction in options.corrections[:-1]):
        raise InvalidParameterError(
            f"corrections must end with Fade(), once, where there is one, got {tuple(options.corrections)!r}; put it "
            "last"
        )
    bends = [correction.needs_continuous_rule for correction in options.corrections if not correction.comes_last]
    if bends != sorted(bends):
        raise InvalidParameterError(
            f"corrections of all rows alike must come last, got {tuple(options.corrections)!r}; put Polish() last, "
            "with no more than Fade() behind it"
        )
