"""Every recalibrator and every choice of settings that the studies ask nearcal for."""

from collections.abc import Mapping, Sequence
from typing import Any

import nearcal as nc

#: The paper's method, as options of ``nearcal.calibrate``, which then chooses layer and k alone.
PAPER: Mapping[str, Any] = {
    "smoothing": "epanechnikov",
    "scaling": "none",
    "components": None,
    "adjustment": "none",
    "shrinkage": False,
    "quantile_rule": "step",
    "polish": False,
}
#: The paper's method with one step more, and all of them: the default of ``nearcal.calibrate``.
STEPS: Mapping[str, Mapping[str, Any]] = {
    "paper": PAPER,
    "+ polish": {**PAPER, "quantile_rule": "predictive", "polish": True},
    "+ relevance": {**PAPER, "scaling": ("none", "relevance")},
    "+ adjustment": {**PAPER, "adjustment": ("none", "linear")},
    "+ shrinkage": {**PAPER, "shrinkage": (False, True)},
    "default": {},
}
#: Tuning without the steps past the paper: among layers, k, smoothings and two scalings.
PLAIN: Mapping[str, Any] = {"scaling": ("standard", "whiten"), "adjustment": "none", "shrinkage": False}


def local(k: int | None = None, *, one_thread: bool = False, **options: Any) -> nc.LocalRecalibrator:
    """Return the paper's local recalibrator; options are radius, eps, smoothing, scaling, components, quantile_rule."""
    neighborhood = {} if k is None else {"k": k}
    return nc.LocalRecalibrator(**neighborhood, **options, **_workers(one_thread))


def polished(k: int) -> nc.LocalRecalibrator:
    """Return what ``nearcal.calibrate`` makes of a local choice, on one thread."""
    return nc.LocalRecalibrator(k, quantile_rule="predictive", polish=True, **_workers(one_thread=True))


def neighbors(k: int, eps: float) -> nc.KNNRegressor:
    """Return nearest-neighbour regression, on one thread."""
    return nc.KNNRegressor(k, eps=eps, **_workers(one_thread=True))


def quantile_net(seed: int, **options: Any) -> nc.QuantileNetRecalibrator:
    """Return recalibration by density estimation (Kuleshov and Deshpande, 2022)."""
    return nc.QuantileNetRecalibrator(rng=seed, **options)


def calibrate(
    model: Any,
    X: Any,
    y: Any,
    layer: str | Sequence[str] = "auto",
    tuning: Mapping[str, Any] | None = None,
    *,
    recalibrator: Any = None,
    one_thread: bool = False,
    **adapter_options: Any,
) -> nc.CalibratedModel:
    """Return a model recalibrated as ``nearcal.calibrate`` does, tuning among the options given."""
    given = {} if recalibrator is None else {"recalibrator": recalibrator}
    return nc.calibrate(model, X, y, layer=layer, **given, **(tuning or {}), **_workers(one_thread), **adapter_options)


def tune_plainly(dist: Any, y: Any, spaces: Mapping[str, Any], **options: Any) -> nc.Tuning:
    """Return what leave-one-out chooses on one thread, with nothing past the paper and the simpler of near equals."""
    return nc.tune(
        dist,
        y,
        spaces,
        scalings=PLAIN["scaling"],
        adjustments=PLAIN["adjustment"],
        shrinkage=PLAIN["shrinkage"],
        rule="one-standard-error",
        **options,
        **_workers(one_thread=True),
    )


def chosen_recalibrator(tuning: nc.Tuning) -> Any:
    """Return the recalibrator of a choice with what ``nearcal.calibrate`` adds to it."""
    options: Mapping[str, Mapping[str, Any]] = {
        "none": {},
        "global": {"quantile_rule": "predictive", **_workers(one_thread=True)},
        "local": {"quantile_rule": "predictive", "polish": True, **_workers(one_thread=True)},
    }
    return tuning.recalibrator(**options[tuning.chosen.kind])


def candidate_recalibrator(row: Mapping[str, Any]) -> Any:
    """Return the recalibrator of one row of a table of tuning."""
    if row["kind"] == "none":
        return nc.IdentityRecalibrator()
    if row["kind"] == "global":
        return nc.GlobalRecalibrator()
    components = None if row["components"] != row["components"] else int(row["components"])
    return local(int(row["k"]), smoothing=row["smoothing"], scaling=row["scaling"], components=components)


def is_adjusted(choice: str) -> bool:
    """Tell whether a choice of tuning, in words, has the local-linear adjustment."""
    return "adjustment 'linear'" in choice


def _workers(one_thread: bool) -> dict[str, Any]:
    return {"threads": 1} if one_thread else {}
