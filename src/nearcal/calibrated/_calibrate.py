"""From a trained model and a calibration set to a calibrated model."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from nearcal._arrays import FloatArray, check_choice
from nearcal._errors import InvalidParameterError
from nearcal.adapters import ModelAdapter, adapt
from nearcal.calibrated._layers import run_layers, with_joined
from nearcal.calibrated._model import AnyRecalibrator, CalibratedModel
from nearcal.distributions import Distribution
from nearcal.recalibration import LocalRecalibrator
from nearcal.recalibration._adjustment import Adjustment
from nearcal.recalibration._chunks import Progress
from nearcal.recalibration._local_sample import CONTINUOUS_RULES, QUANTILE_RULES, QuantileRule
from nearcal.scaling import Scaling
from nearcal.smoothing import Smoothing
from nearcal.tuning import tune

Auto = Literal["auto"]


def calibrate(
    model: Any,
    X_cal: Any,
    y_cal: Any,
    *,
    layer: Auto | str | Sequence[str] = "auto",
    k: Auto | int | Sequence[int] = "auto",
    smoothing: Auto | Smoothing | Sequence[Smoothing] = "auto",
    scaling: Auto | Scaling | Sequence[Scaling] = "auto",
    components: Auto | int | Sequence[int | None] | None = "auto",
    adjustment: Auto | Adjustment | Sequence[Adjustment] = "auto",
    shrinkage: Auto | bool | Sequence[bool] = "auto",
    quantile_rule: QuantileRule = "predictive",
    polish: Auto | bool = "auto",
    recalibrator: AnyRecalibrator | None = None,
    threads: int | None = None,
    memory: int = 2**28,
    progress: Progress = False,
    **adapter_options: Any,
) -> CalibratedModel:
    """Recalibrate a trained model by the errors it makes on a calibration set.

    What is not given is chosen by leave-one-out CRPS, among the model's layers and the usual settings; a model that
    recalibration would not improve is left alone. See :func:`nearcal.tune`.

    Parameters
    ----------
    model : ModelAdapter, or a model that nearcal can adapt
        A trained model.
    X_cal : array_like
        Inputs of the n calibration points, as the model takes them. The model must not have been trained on them.
    y_cal : array_like of shape (n,) or (n, 1)
        What was observed.
    layer : "auto", str or sequence of str
        Where to look for neighbours: a layer of the model, several to choose among, or "auto" for all, and for the
        input, the last hidden layer and the output joined. Names joined by " + " are one space: "input + output".
    k, smoothing, scaling, components
        Settings of :class:`LocalRecalibrator`, each one value, several to choose among, or "auto" for the usual ones.
        If one value is given for each, and one layer, local recalibration with these settings is what is done.
    adjustment, shrinkage
        The same; but where there is nothing else to choose, "auto" is "none" and False.
    quantile_rule : {"step", "interpolated", "predictive", "conservative"}
        How quantiles are read from the weighted sample; see :class:`Recalibrated`. Tuning often takes few neighbours,
        whose outermost values are no quantiles to trust; hence not the step rule.
    polish : "auto" or bool
        Whether local recalibration is followed by a correction common to all rows, so that it is as well calibrated
        overall as nearby; see :class:`LocalRecalibrator`. "auto" does so where the quantile rule allows it.
    recalibrator : recalibrator, optional
        A recalibrator to use instead, such as ``nc.IsotonicRecalibrator()``; a copy of it is fitted. If it asks for a
        space, this is ``layer``, which must be one name, or for "auto" the first layer of the model. What it tunes in
        ``fit``, as ``nc.LocalRecalibrator()`` does, is in ``tuning`` of the result.
    threads, memory, progress
        As in :class:`LocalRecalibrator`; ``progress`` is that of tuning.
    **adapter_options
        What the adapter of the model asks for, such as the head of a network.

    Returns
    -------
    CalibratedModel
        With ``predict(X)``, ``reliability(X)``, and the settings with the reason for them.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> class Line(nc.adapters.ModelAdapter):
    ...     def layers(self):
    ...         return ("input",)
    ...     def distribution(self, X):
    ...         return nc.Normal(X[:, 0], 1.0)
    ...     def represent(self, X, layer):
    ...         return X
    >>> rng = np.random.default_rng(1)
    >>> X = rng.uniform(1, 3, size=(2000, 1))
    >>> y = rng.normal(X[:, 0], X[:, 0])
    >>> calibrated = nc.calibrate(Line(), X, y)
    >>> calibrated.layer
    'input'
    >>> calibrated.predict(np.array([[1.1], [2.9]])).std().round()
    array([1., 3.])
    """
    check_choice(quantile_rule, QUANTILE_RULES, "quantile_rule")
    is_polished = quantile_rule in CONTINUOUS_RULES if _is_auto(polish) else bool(polish)
    if is_polished and quantile_rule not in CONTINUOUS_RULES:
        raise InvalidParameterError(
            f"polish=True needs a continuous quantile_rule, {CONTINUOUS_RULES}, got {quantile_rule!r}"
        )
    adapter = adapt(model, **adapter_options).prepared(X_cal, y_cal)
    if recalibrator is not None:
        return _with_recalibrator(adapter, X_cal, y_cal, recalibrator, layer)
    names = _layer_names(adapter, layer)
    dist, spaces = run_layers(adapter, X_cal, names)
    settings = {"k": k, "smoothing": smoothing, "scaling": scaling, "components": components}
    moves = {"adjustment": adjustment, "shrinkage": shrinkage}
    options = {"quantile_rule": quantile_rule, "threads": threads, "memory": memory}
    is_given = not any(_is_open(value) for value in settings.values())
    if len(names) == 1 and is_given and not any(_is_several(value) for value in moves.values()):
        local = LocalRecalibrator(**settings, **moves, **options, polish=is_polished)  # type: ignore[arg-type]
        local.fit(dist, y_cal, spaces[names[0]])
        return CalibratedModel(adapter, local, names[0], "All settings were given.")
    if _is_auto(layer):
        spaces = with_joined(names, spaces)
    return _tuned(adapter, dist, y_cal, spaces, {**settings, **moves}, options, is_polished, progress)


def _tuned(
    adapter: ModelAdapter,
    dist: Distribution,
    y_cal: Any,
    spaces: Mapping[str, FloatArray],
    settings: Mapping[str, Any],
    options: Mapping[str, Any],
    polish: bool,
    progress: Progress,
) -> CalibratedModel:
    plural = {"smoothing": "smoothings", "scaling": "scalings", "adjustment": "adjustments"}
    given = {plural.get(name, name): value for name, value in settings.items() if not _is_auto(value)}
    tuning = tune(dist, y_cal, spaces, **given, threads=options["threads"], memory=options["memory"], progress=progress)
    layer = tuning.chosen.space
    by_kind = {"none": {}, "global": options, "local": {**options, "polish": polish}}
    unfitted = tuning.recalibrator(**by_kind[tuning.chosen.kind])
    fitted = unfitted.fit(dist, y_cal, None if layer is None else spaces[layer])
    return CalibratedModel(adapter, fitted, layer, tuning.reason, tuning)


def _with_recalibrator(
    adapter: ModelAdapter, X_cal: Any, y_cal: Any, recalibrator: AnyRecalibrator, layer: Any
) -> CalibratedModel:
    names = _layer_names(adapter, adapter.layers()[0] if _is_auto(layer) else layer)
    if len(names) > 1:
        raise InvalidParameterError(f"layer must be one name where a recalibrator is given, got {names}")
    dist, spaces = run_layers(adapter, X_cal, names)
    fitted = copy.deepcopy(recalibrator).fit(dist, y_cal, spaces[names[0]])
    tuning = getattr(fitted, "tuning_", None)  # LocalRecalibrator() tunes itself
    reason = "The recalibrator was given." if tuning is None else f"The recalibrator was given. {tuning.reason}"
    return CalibratedModel(adapter, fitted, names[0], reason, tuning)


def _layer_names(adapter: ModelAdapter, layer: Auto | str | Sequence[str]) -> list[str]:
    if _is_auto(layer):
        return list(adapter.layers())
    names = [layer] if isinstance(layer, str) else list(dict.fromkeys(layer))
    if not names:
        raise InvalidParameterError("layer must name at least one layer, got none")
    return names


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _is_open(value: Any) -> bool:
    """Tell whether a setting is left to tuning: "auto", or several values to choose among."""
    return _is_auto(value) or _is_several(value)


def _is_several(value: Any) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, str)
