"""Every recalibrator and every choice of settings that the studies ask nearcal for."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import nearcal as nc
from nearcal.recalibration.fade import LearntFade

#: The paper's method, as options of ``nearcal.tune``, which then chooses layer and k alone.
PAPER: Mapping[str, Any] = {
    "smoothing": "epanechnikov",
    "scaling": "none",
    "components": None,
    "linear": False,
    "shrinkage": False,
    "trend": False,
    "quantile_rule": "step",
    "polish": False,
}
#: The paper's method with one step more, and all of them: the default of ``nearcal.calibrate``.
STEPS: Mapping[str, Mapping[str, Any]] = {
    "paper": PAPER,
    "+ polish": {**PAPER, "quantile_rule": "predictive", "polish": True},
    "+ relevance": {**PAPER, "scaling": ("none", "relevance")},
    "+ local-linear": {**PAPER, "linear": (False, True)},
    "+ shrinkage": {**PAPER, "shrinkage": (False, True)},
    "+ trend": {**PAPER, "trend": (False, True)},
    "default": {},
}
#: The default before there were trends, finals that see the tails, and caution.
EARLIER: Mapping[str, Any] = {"trend": False, "rule": "two-standard-errors"}
#: Tuning without the steps past the paper: among layers, k, smoothings and two scalings.
PLAIN: Mapping[str, Any] = {"scaling": ("standard", "whiten"), "linear": False, "shrinkage": False, "trend": False}
ONE_THREAD = nc.Workers(threads=1)


def local(
    k: int | None = None,
    *,
    one_thread: bool = False,
    scaling: Any = "none",
    components: int | None = None,
    **options: Any,
) -> nc.LocalRecalibrator:
    """Return the paper's local recalibrator; other options are radius, eps, smoothing, quantile_rule."""
    workers = ONE_THREAD if one_thread else None
    return nc.LocalRecalibrator(k, scaling=nc.Scaling(scaling, components), workers=workers, **options)


def polished(k: int) -> nc.LocalRecalibrator:
    """Return what ``nearcal.calibrate`` makes of a local choice, on one thread."""
    return nc.LocalRecalibrator(k, quantile_rule="predictive", corrections=(nc.Polish(),), workers=ONE_THREAD)


def neighbors(k: int, eps: float) -> nc.KNNRegressor:
    """Return nearest-neighbour regression, on one thread."""
    return nc.KNNRegressor(k, eps=eps, workers=ONE_THREAD)


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
    workers = ONE_THREAD if one_thread else None
    return nc.calibrate(
        model, X, y, layer=layer, recalibrator=recalibrator, tuning=tuning, workers=workers, **adapter_options
    )


def without_fading(calibrated: nc.CalibratedModel) -> nc.CalibratedModel:
    """Return the same model with the same choice, as it was fitted, without fading."""
    recalibrator = copy.copy(calibrated.recalibrator)
    if isinstance(recalibrator, nc.AveragedRecalibrator):
        recalibrator.members_ = tuple(map(_unfaded, recalibrator.members_))
    elif isinstance(recalibrator, nc.LocalRecalibrator):
        recalibrator = _unfaded(recalibrator)
    return replace(calibrated, recalibrator=recalibrator, look=None)


def _unfaded(recalibrator: nc.LocalRecalibrator) -> nc.LocalRecalibrator:
    plain = copy.copy(recalibrator)
    plain.corrections_ = tuple(one for one in recalibrator.corrections_ if not isinstance(one, LearntFade))
    return plain


def tune_plainly(dist: Any, y: Any, spaces: Mapping[str, Any], **options: Any) -> nc.Tuning:
    """Return what leave-one-out chooses on one thread, with nothing past the paper and the simpler of near equals."""
    return nc.tune(dist, y, spaces, **PLAIN, rule="one-standard-error", **options, workers=ONE_THREAD)


def candidate_recalibrator(row: Mapping[str, Any]) -> Any:
    """Return the recalibrator of one row of a table of tuning."""
    if row["kind"] == "none":
        return nc.IdentityRecalibrator()
    if row["kind"] == "global":
        return nc.GlobalRecalibrator()
    components = None if row["components"] != row["components"] else int(row["components"])
    return local(int(row["k"]), smoothing=row["smoothing"], scaling=row["scaling"], components=components)


def is_adjusted(choice: str) -> bool:
    """Tell whether a choice of tuning, in words, has the local-linear correction, as 0.1.0 said it or as it is now."""
    return "local-linear" in choice or "adjustment 'linear'" in choice
