"""Every recalibrator and every choice of settings that the studies ask nearcal for."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import nearcal as nc

#: The paper's method, as options of ``nearcal.tune``, which then chooses layer and k alone.
PAPER: Mapping[str, Any] = {
    "smoothing": "epanechnikov",
    "scaling": "none",
    "components": None,
    "linear": False,
    "shrinkage": False,
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
    "default": {},
}
#: Tuning without the steps past the paper: among layers, k, smoothings and two scalings.
PLAIN: Mapping[str, Any] = {"scaling": ("standard", "whiten"), "linear": False, "shrinkage": False}
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


def without_fading(calibrated: nc.CalibratedModel, X: Any, y: Any) -> Callable[[Any], nc.Recalibrated]:
    """Return the predictions of the same choice, fitted to the same rows, without fading."""
    recalibrator = calibrated.recalibrator
    if isinstance(recalibrator, nc.LocalRecalibrator):
        settings = recalibrator.get_params()
        settings["corrections"] = tuple(one for one in settings["corrections"] if not isinstance(one, nc.Fade))
        recalibrator = nc.LocalRecalibrator(**settings).fit(calibrated.base(X), y, calibrated.represent(X))
    return lambda new: recalibrator.recalibrate(calibrated.base(new), calibrated.represent(new))


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
