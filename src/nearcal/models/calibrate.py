"""From a trained model and a calibration set to a calibrated model."""

import copy
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidParameterError
from nearcal.models.adapters import ModelAdapter, adapt
from nearcal.models.calibrated_model import AnyRecalibrator, CalibratedModel, join_layers, run_layers
from nearcal.recalibration import LocalRecalibrator, Workers
from nearcal.tuning import tune

_WIDEST = 256  # columns of a layer that takes part in the joined space


def calibrate(
    model: Any,
    X_cal: Any,
    y_cal: Any,
    *,
    layer: str | Sequence[str] = "auto",
    recalibrator: AnyRecalibrator | None = None,
    tuning: Mapping[str, Any] | None = None,
    workers: Workers | None = None,
    **adapter_options: Any,
) -> CalibratedModel:
    """Recalibrate a trained model by the errors it makes on a calibration set.

    How is chosen by leave-one-out CRPS, among the model's layers and the usual settings; a model that recalibration
    would not improve is left alone. See :func:`nearcal.tune`.

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
    recalibrator : recalibrator, optional
        Nothing is chosen, and a copy of this one is fitted: ``nc.LocalRecalibrator(k=500)``,
        ``nc.IsotonicRecalibrator()``. If it asks for a space, this is ``layer``, which must be one name, or for "auto"
        the first layer of the model.
    tuning : mapping, optional
        Options of :func:`nearcal.tune`, which narrow the choice: ``{"k": (50, 100)}``.
    workers : Workers, optional
        Threads, memory and progress of the choice, and of the recalibrator chosen.
    **adapter_options
        What the adapter of the model asks for, such as the head of a network.

    Returns
    -------
    CalibratedModel
        With ``predict(X)``, ``reliability(X)``, and the recalibrator with the reason for it.

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
    _refuse_misplaced(adapter_options)
    options = _tuning_options(tuning)
    if recalibrator is not None and tuning is not None:
        raise InvalidParameterError("tuning chooses a recalibrator: give tuning or recalibrator, got both")
    workers = Workers.of(workers)
    adapter = adapt(model, **adapter_options).prepared(X_cal, y_cal)
    if recalibrator is not None:
        return _given(adapter, X_cal, y_cal, layer, recalibrator)
    return _tuned(adapter, X_cal, y_cal, layer, options, workers)


def _tuned(
    adapter: ModelAdapter,
    X_cal: Any,
    y_cal: Any,
    layer: str | Sequence[str],
    options: Mapping[str, Any],
    workers: Workers,
) -> CalibratedModel:
    dist, spaces = run_layers(adapter, X_cal, _layer_names(layer) or adapter.layers())
    if _layer_names(layer) is None:
        spaces |= _joined_ends(spaces)
    tuning = tune(dist, y_cal, spaces, **options, workers=workers)
    return CalibratedModel(adapter, tuning.recalibrator, tuning.chosen.space, tuning.reason, tuning)


def _given(
    adapter: ModelAdapter, X_cal: Any, y_cal: Any, layer: str | Sequence[str], recalibrator: AnyRecalibrator
) -> CalibratedModel:
    names = _layer_names(layer) or adapter.layers()[:1]
    if len(names) > 1:
        raise InvalidParameterError(f"layer must be one name where a recalibrator is given, got {names}")
    dist, spaces = run_layers(adapter, X_cal, names)
    name = names[0] if names else None  # a model may have no layers, and many recalibrators ask for none
    fitted = copy.deepcopy(recalibrator).fit(dist, y_cal, None if name is None else spaces[name])
    return CalibratedModel(adapter, fitted, name, "The recalibrator was given.")


def _layer_names(layer: str | Sequence[str]) -> Sequence[str] | None:
    """Return the names given, each once; None for "auto"."""
    names = [layer] if isinstance(layer, str) else list(dict.fromkeys(layer))
    if not names:
        raise InvalidParameterError("layer must name at least one layer, got none")
    return None if isinstance(layer, str) and layer == "auto" else names


def _joined_ends(spaces: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Return the first, the last hidden and the output layer as one space, wide layers left out, if two are left."""
    layers = list(spaces)
    parts = [part for part in dict.fromkeys([*layers[:1], *layers[-2:]]) if spaces[part].shape[1] <= _WIDEST]
    return join_layers(spaces, parts) if len(parts) > 1 else {}


# ---- what goes where: options of the choice, of the workers, of the adapter -----------------------------------------


def _tuning_options(tuning: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the options of tune, if they are such."""
    own = {"dist_cal", "y_cal", "spaces", "workers"}
    known = [name for name in _names_of(tune) if name not in own]
    options = {} if tuning is None else tuning
    if not isinstance(options, Mapping) or not set(options) <= set(known):
        raise InvalidParameterError(
            f"tuning must be a mapping of options of nearcal.tune, {', '.join(known)}, got {tuning!r}"
        )
    return options


def _refuse_misplaced(adapter_options: Mapping[str, Any]) -> None:
    """Refuse options that are no adapter's but the workers', the choice's or a recalibrator's."""
    for name in adapter_options:
        if name in _names_of(Workers):
            raise InvalidParameterError(
                f"{name} is no argument of calibrate: give workers=nc.Workers({name}=...), got {name}="
                f"{adapter_options[name]!r}"
            )
        if name in {*_names_of(tune), *_names_of(LocalRecalibrator)}:
            raise InvalidParameterError(
                f"{name} is no argument of calibrate: options of the choice go into tuning={{{name!r}: ...}}, or give "
                f"recalibrator=nc.LocalRecalibrator({name}=...), and nothing is chosen; got {name}="
                f"{adapter_options[name]!r}"
            )


def _names_of(function: Callable[..., Any]) -> Collection[str]:
    return inspect.signature(function).parameters
