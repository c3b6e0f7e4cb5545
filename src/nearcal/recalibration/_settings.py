"""What "auto" stands for: the paper's settings where a neighbourhood is given, the tuned ones where none is."""

from dataclasses import dataclass
from typing import Any, Literal

from nearcal._arrays import check_choice, check_count, check_number
from nearcal._errors import InvalidParameterError
from nearcal.neighbors import METRICS, SEARCHES
from nearcal.recalibration._adjustment import ADJUSTMENTS, Adjustment
from nearcal.recalibration._local_sample import CONTINUOUS_RULES, QUANTILE_RULES, QuantileRule
from nearcal.recalibration._neighborhoods import THINS
from nearcal.scaling import SCALINGS, Scaling
from nearcal.smoothing import SMOOTHINGS, Smoothing

Auto = Literal["auto"]
Kind = Literal["none", "global", "local"]


@dataclass(frozen=True)
class Settings:
    """The options of local recalibration, none left open; without recalibration or with global, most mean nothing."""

    kind: Kind
    k: int | None
    radius: float | None
    smoothing: Smoothing
    scaling: Scaling
    components: int | None
    adjustment: Adjustment
    shrinkage: bool
    quantile_rule: QuantileRule
    polish: bool


PAPER: dict[str, Any] = {
    "smoothing": "epanechnikov",
    "scaling": "none",
    "components": None,
    "adjustment": "none",
    "shrinkage": False,
    "quantile_rule": "step",
    "polish": False,
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "smoothing": SMOOTHINGS,
    "scaling": SCALINGS,
    "adjustment": ADJUSTMENTS,
    "quantile_rule": QUANTILE_RULES,
    "metric": METRICS,
    "search": SEARCHES,
    "thin": THINS,
}
TUNED = ("smoothing", "scaling", "components", "adjustment", "shrinkage")  # together with k
BEST_RULE: QuantileRule = "predictive"  # where k is tuned


def is_auto(value: Any) -> bool:
    """Tell whether an option is left open."""
    return isinstance(value, str) and value == "auto"


def resolve(options: dict[str, Any], chosen: Any) -> Settings:
    """Return the settings that options stand for; ``chosen`` is tuning's candidate, None where k or radius is given."""
    if chosen is None:
        filled = {name: PAPER[name] if is_auto(options[name]) else options[name] for name in PAPER}
        k = None if is_auto(options["k"]) else options["k"]
        return Settings("local", k, options["radius"], **filled)
    filled = {name: getattr(chosen, name) for name in TUNED}
    filled = {name: PAPER[name] if value is None else value for name, value in filled.items()}
    rule = BEST_RULE if is_auto(options["quantile_rule"]) else options["quantile_rule"]
    polish = rule in CONTINUOUS_RULES if is_auto(options["polish"]) else options["polish"]
    return Settings(chosen.kind, chosen.k, None, **filled, quantile_rule=rule, polish=polish)


def check_settings(options: dict[str, Any]) -> None:
    """Validate the options of :class:`LocalRecalibrator`."""
    _check_neighborhood(options)
    check_number(options["eps"], "eps", least=0.0)
    check_count(options["min_neighbors"], "min_neighbors")
    if options["components"] is not None and not is_auto(options["components"]):
        check_count(options["components"], "components")
    for name, known in _CHOICES.items():
        check_choice(options[name], (*known, "auto") if name in PAPER else known, name)
    for name in ("shrinkage", "polish"):
        if not (isinstance(options[name], bool) or is_auto(options[name])):
            raise InvalidParameterError(f'{name} must be True, False or "auto", got {options[name]!r}')


def _check_neighborhood(options: dict[str, Any]) -> None:
    k, radius = options["k"], options["radius"]
    if (radius is None and k is None) or (radius is not None and not (k is None or is_auto(k))):
        raise InvalidParameterError(
            f"give exactly one of k and radius, got k={k!r} and radius={radius!r}; "
            'k=1000 is the paper\'s choice for 10,000 calibration points, and k="auto" tunes it'
        )
    if radius is None and is_auto(k):
        _check_tunable(options)
    elif radius is None:
        check_count(k, "k")
    else:
        check_number(radius, "radius", least=0.0, strict=True)
        if options["search"] == "faiss":
            raise InvalidParameterError(
                'search="faiss" finds the k nearest only, got a radius; give k, or search="auto" for a radius'
            )


def _check_tunable(options: dict[str, Any]) -> None:
    for name, needed in (("metric", "euclidean"), ("search", "auto"), ("eps", 0.0)):
        if options[name] != needed:
            raise InvalidParameterError(
                f'k="auto" tunes with {name}={needed!r}, got {options[name]!r}; give k, such as one of nearcal.tune'
            )


def require_continuous(polish: bool, rule: str) -> None:
    """Refuse to polish steps."""
    if polish and rule not in CONTINUOUS_RULES:
        raise InvalidParameterError(
            f"polish=True moves the places of scores and needs a continuous quantile_rule, {CONTINUOUS_RULES}, got "
            f'{rule!r}; use quantile_rule="predictive"'
        )
