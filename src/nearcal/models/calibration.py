"""From a trained model and a calibration set to a calibrated model."""

import copy
import difflib
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, IntArray, as_float_array, check_count
from nearcal._errors import InvalidParameterError
from nearcal.distributions import QuantileAverage
from nearcal.guarantees import PAC, Aside, Cross, CrossRecalibrator, GuaranteedRecalibrator, Marginal, as_promise
from nearcal.guarantees.cross_conformal import Fold, check_cross, learn_folds, score_fold
from nearcal.models.adapters import ColumnsModel, ModelAdapter, adapt
from nearcal.models.adapters.several import SeveralModels
from nearcal.models.adapters.targets import refuse_several_responses
from nearcal.models.calibrated_model import (
    AnyRecalibrator,
    CalibratedModel,
    Look,
    column_names,
    join_layers,
    join_names,
    run_layer,
    run_layers,
)
from nearcal.models.fingerprint import Fingerprint
from nearcal.models.promised_groups import labels_of_calibration, take_rows
from nearcal.recalibration import OF_NEIGHBORHOODS, CombinedRecalibrator, LocalRecalibrator, Workers, ranges_of
from nearcal.space import as_folds
from nearcal.tuning import Combination, Tuning, combine, tune

_WIDEST = 256  # columns of a layer that takes part in the joined space
_WIDE = 64  # columns of a layer of one of several models that takes part unless it is named


def calibrate(
    model: Any,
    X_cal: Any,
    y_cal: Any,
    *,
    layer: str | Sequence[str] = "auto",
    recalibrator: AnyRecalibrator | None = None,
    tuning: Mapping[str, Any] | None = None,
    sample_weight: Any = None,
    groups: Any = None,
    time: Any = None,
    gap: Any = None,
    guarantee: Any = None,
    workers: Workers | None = None,
    probes: int = 8,
    **adapter_options: Any,
) -> CalibratedModel:
    """Recalibrate a trained model by the errors it makes on a calibration set.

    How is chosen by leave-one-out CRPS, among the model's layers and the usual settings; a model that recalibration
    would not improve is left alone. See :func:`nearcal.tune`.

    Parameters
    ----------
    model : ModelAdapter, or a model that nearcal can adapt, or a mapping of names to several
        A trained model; or several of the same response, ``{"net": net, "forest": forest}``: each is recalibrated, and
        they are combined with weights learnt by leave-one-out CRPS; see the guide on several models.
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
    sample_weight : array_like of shape (n,), optional
        How much each calibration point counts, by age, importance or covariate shift, as in :func:`nearcal.tune`.
        Points of weight 0 are as if absent. What the adapter itself learns from the calibration set, such as the spread
        of a model that predicts a mean alone, it learns from all points alike: recalibration mends that.
    groups, time, gap
        Which rows may speak for which while anything is learnt, as in :func:`nearcal.tune`: the group of each row, when
        it was observed, and how long before another row it must have been to speak for it. With neither, a
        :class:`nearcal.DependenceWarning` tells if rows that follow each other err alike, and the choice allows for it;
        ``time=False`` says that their order means nothing.
    guarantee : "marginal", "pac", "cross", Marginal, PAC or Cross, optional
        A promise of coverage in finite samples. "marginal" and "pac" set a share of the calibration rows aside before
        anything is learnt or chosen; "cross" learns everything once a fold. See the guide on guarantees;
        ``calibrated.guarantee`` says what was promised.
    workers : Workers, optional
        Threads, memory and progress of the choice, and of the recalibrator chosen.
    probes : int
        How many of the calibration inputs are kept, and saved, to know the model again by what it makes of them; see
        :meth:`Recalibration.attach`. Fewer are kept of large inputs. Inputs may be personal data: 0 keeps none.
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
    >>> X = rng.uniform(1, 3, size=(500, 1))
    >>> y = rng.normal(X[:, 0], X[:, 0])
    >>> calibrated = nc.calibrate(Line(), X, y)
    >>> calibrated.layer
    'input'
    >>> calibrated.predict(np.array([[1.1], [2.9]])).std().round()
    array([1., 3.])
    """
    promise = None if guarantee is None else as_promise(guarantee)
    if isinstance(promise, Marginal | PAC):
        given: dict[str, Any] = {"layer": layer, "recalibrator": recalibrator, "tuning": tuning, "workers": workers}
        rows = {"groups": groups, "time": time, "gap": gap, "sample_weight": sample_weight}
        return _with_rows_aside(model, X_cal, y_cal, promise, rows, {**given, "probes": probes, **adapter_options})
    _refuse_misplaced(adapter_options)
    options = _tuning_options(tuning)
    if recalibrator is not None and tuning is not None:
        raise InvalidParameterError("tuning chooses a recalibrator: give tuning or recalibrator, got both")
    if recalibrator is not None:
        _require_recalibrator(recalibrator)
    relations = {"groups": groups, "time": time, "gap": gap}
    workers = Workers.of(workers)
    found: Tuning | Combination | None
    look: Look | None
    check_count(probes, "probes", 0)
    names = _layer_names(layer)
    refuse_several_responses(y_cal, "y_cal")
    adapter = adapt(model, **adapter_options).prepared(X_cal, y_cal)
    fitted: Any
    if promise is not None:
        check_cross(groups, time, sample_weight)
        fitted, name, reason = _crossed(adapter, X_cal, y_cal, names, promise, recalibrator, options, workers)
        found, look = None, None
    elif recalibrator is not None:
        fitted, name, reason = _given(adapter, X_cal, y_cal, names, recalibrator, relations, sample_weight)
        found, look = None, None
    else:
        known = {**options, **relations, "sample_weight": sample_weight}
        found, name, look = _tuned(adapter, X_cal, y_cal, names, known, workers)
        fitted, reason = found.recalibrator, found.reason
    if isinstance(adapter, ColumnsModel):  # finds columns by their names, and is saved as a whole
        return CalibratedModel(adapter, fitted, name, reason, found, look=look)
    columns = column_names(adapter.plain_inputs(X_cal))
    fingerprint = Fingerprint.of(adapter, X_cal, lambda X: run_layer(adapter, X, name), probes)
    return CalibratedModel(adapter, fitted, name, reason, found, columns, fingerprint, look)


# ---- promises -------------------------------------------------------------------------------------------------------


def _with_rows_aside(
    model: Any, X_cal: Any, y_cal: Any, promise: Marginal | PAC, rows: Mapping[str, Any], options: Mapping[str, Any]
) -> CalibratedModel:
    """Calibrate on the rows that are not set aside, as if there were no others, and promise by those that are."""
    refuse_several_responses(y_cal, "y_cal")
    y = as_float_array(y_cal, "y_cal").reshape(-1)
    labels = labels_of_calibration(promise, X_cal)
    known = {name: rows[name] for name in ("groups", "time", "sample_weight")}
    aside = Aside.of(promise, len(y), **known, labels=labels)
    of_rest: dict[str, Any] = {
        name: value if value is None or value is False else take_rows(value, aside.rest)
        for name, value in known.items()
    }
    calibrated = calibrate(model, take_rows(X_cal, aside.rest), y[aside.rest], **of_rest, gap=rows["gap"], **options)
    return promised(calibrated, take_rows(X_cal, aside.held), y[aside.held], promise, aside)


def promised(
    calibrated: CalibratedModel, X: Any, y: FloatArray, promise: Marginal | PAC, aside: Aside
) -> CalibratedModel:
    """Return a calibrated model with a promise made by rows that it has not learnt from."""
    dist, space, trust = calibrated.rows(X)
    recalibrator = GuaranteedRecalibrator(calibrated.recalibrator, promise)
    return replace(
        calibrated, recalibrator=recalibrator.fit_held(calibrated.recalibrator, dist, y, space, aside, trust)
    )


def _crossed(
    adapter: ModelAdapter,
    X_cal: Any,
    y_cal: Any,
    names: Sequence[str] | None,
    promise: Cross,
    recalibrator: AnyRecalibrator | None,
    options: Mapping[str, Any],
    workers: Workers,
) -> tuple[CrossRecalibrator, str | None, str]:
    """Choose and learn once a fold, without its rows; return the whole, its space, and the reasons."""
    y = as_float_array(y_cal, "y_cal").reshape(-1)
    reasons, widths = [], {}

    def learn(rest: IntArray, part: IntArray) -> Fold:
        X_rest, alone = take_rows(X_cal, rest), dict.fromkeys(("groups", "time", "gap", "sample_weight"))
        if recalibrator is not None:
            relations = {name: alone[name] for name in ("groups", "time", "gap")}
            member, name, reason = _given(adapter, X_rest, y[rest], names, recalibrator, relations, None)
        else:
            found, name, _ = _tuned(adapter, X_rest, y[rest], names, {**options, **alone}, workers)
            member, reason = found.recalibrator, found.reason
        reasons.append(reason)
        dist, space = run_layer(adapter, take_rows(X_cal, part), name)
        if name is not None and space is not None:
            widths[name] = space.shape[1]
        return Fold(member, () if name is None else (name,), score_fold(member, dist, y[part], space))

    folds = learn_folds(promise, len(y), learn)
    notes = ("what the model itself learnt from calibration rows, it learnt from all",) if _prepares(adapter) else ()
    fitted, used = CrossRecalibrator(recalibrator, promise).fit_folds(folds, widths, notes=notes)
    return fitted, join_names(used), f"Learnt without each of {len(folds)} folds; without the first: {reasons[0]}"


def _prepares(adapter: ModelAdapter) -> bool:
    """Tell whether a model may learn from the calibration set, such as the spread of a point prediction."""
    return type(adapter).prepared is not ModelAdapter.prepared


def _tuned(
    adapter: ModelAdapter,
    X_cal: Any,
    y_cal: Any,
    names: Sequence[str] | None,
    options: Mapping[str, Any],
    workers: Workers,
) -> tuple[Tuning | Combination, str | None, Look | None]:
    """Return the choice, its space and, if it fades, a second look at the first one, where inputs usually are."""
    dist, spaces = run_layers(adapter, X_cal, names or adapter.layers())
    first = next(iter(spaces), None)
    found: Tuning | Combination
    if isinstance(adapter, SeveralModels) and isinstance(dist, QuantileAverage):
        dists = dict(zip(adapter.models, dist.components, strict=True))
        own = {name: spaces if names else _spaces_of(adapter, name, spaces) for name in dists}
        found = combine(dists, y_cal, own, **options, workers=workers)
        used, is_untouched = found.spaces, False
    else:
        if names is None:
            spaces |= _joined_ends(spaces)
        found = tune(dist, y_cal, spaces, **options, workers=workers)
        used, is_untouched = found.spaces, found.chosen.kind == "none"
    # where it is the first alone, the recalibrator looks itself; joined to others, it would be lost among their columns
    sees_it = is_untouched or used == (first,)
    if found.fade is None or first is None or sees_it:
        return found, join_names(used), None
    rate = found.fade.false_alarm
    look = Look(first, ranges_of(np.asarray(spaces[first], dtype=np.float64), rate), rate)
    return found, join_names(used), look


def _given(
    adapter: ModelAdapter,
    X_cal: Any,
    y_cal: Any,
    names: Sequence[str] | None,
    recalibrator: AnyRecalibrator,
    relations: Mapping[str, Any],
    sample_weight: Any,
) -> tuple[Any, str | None, str]:
    """Return the recalibrator fitted, its space, and the reason for both."""
    by_whom = ", the first layer of the model" if names is None else ""
    names = adapter.layers()[:1] if names is None else names
    if len(names) > 1:
        raise InvalidParameterError(f"layer must be one name where a recalibrator is given, got {names}")
    dist, spaces = run_layers(adapter, X_cal, names)
    name = names[0] if names else None  # a model may have no layers, and many recalibrators ask for none
    as_folds(**relations, n=len(dist))  # what is wrong is told whether or not the recalibrator asks
    # only neighbours are learnt from among each other: the others learn from each row by itself
    whole: Any = recalibrator
    if isinstance(adapter, SeveralModels) and not isinstance(recalibrator, CombinedRecalibrator):
        whole = CombinedRecalibrator([recalibrator] * len(adapter.models))
    known = dict(relations) if isinstance(whole, OF_NEIGHBORHOODS) else {}
    if sample_weight is not None:  # a recalibrator of one's own may have no use for weights
        known["sample_weight"] = sample_weight
    fitted = copy.deepcopy(whole).fit(dist, y_cal, None if name is None else spaces[name], **known)
    where = "" if name is None else f" in the space {name!r}{by_whom}"
    return fitted, name, f"{recalibrator!r} was given{where}: nothing was compared or chosen."


def _require_recalibrator(given: Any) -> None:
    """Refuse what cannot be fitted, such as a name or a class, before the model is asked."""
    if isinstance(given, type) or not all(hasattr(given, name) for name in ("fit", "recalibrate")):
        got = f"the class {given.__name__}" if isinstance(given, type) else repr(given)
        raise InvalidParameterError(
            f"recalibrator must be a recalibrator of nearcal, such as nc.LocalRecalibrator(k=100), got {got}; leave it "
            "out to have one chosen"
        )


def _layer_names(layer: Any) -> Sequence[str] | None:
    """Return the names given, each once; None for "auto"."""
    if not isinstance(layer, str) and not (
        isinstance(layer, Sequence) and all(isinstance(name, str) for name in layer)
    ):
        raise InvalidParameterError(
            f"layer must be the name of a layer of the model or a sequence of names, got {type(layer).__name__}; for a "
            "space of your own make the model a function, and give it as space=function: see "
            "nearcal.adapters.FunctionModel"
        )
    names = [layer] if isinstance(layer, str) else list(dict.fromkeys(layer))
    if not names:
        raise InvalidParameterError("layer must name at least one layer, got none")
    return None if isinstance(layer, str) and layer == "auto" else names


def _spaces_of(adapter: SeveralModels, name: str, spaces: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Return where one of several models looks: its own layers, and the outputs of all models with and without inputs.

    Wide layers are left out, as every model would pay for them.
    """
    own = {layer: spaces[layer] for layer in adapter.layers_of(name) if spaces[layer].shape[1] <= _WIDE}
    ends = [layer for layer in ("input", "outputs") if layer in spaces and spaces[layer].shape[1] <= _WIDEST]
    together = join_layers(spaces, ends) if len(ends) > 1 else {}
    return {**own, **_joined_ends(own), "outputs": spaces["outputs"], **together}


def _joined_ends(spaces: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Return the first, the last hidden and the output layer as one space, wide layers left out, if two are left."""
    layers = list(spaces)
    parts = [part for part in dict.fromkeys([*layers[:1], *layers[-2:]]) if spaces[part].shape[1] <= _WIDEST]
    return join_layers(spaces, parts) if len(parts) > 1 else {}


# ---- what goes where: options of the choice, of the workers, of the adapter -----------------------------------------


def _tuning_options(tuning: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the options of tune, if they are such."""
    own = {"dist_cal", "y_cal", "spaces", "groups", "time", "gap", "sample_weight", "workers", "guarantee"}
    known = [name for name in _names_of(tune) if name not in own]
    options = {} if tuning is None else tuning
    if not isinstance(options, Mapping) or not set(options) <= set(known):
        raise InvalidParameterError(
            f"tuning must be a mapping of options of nearcal.tune, {', '.join(known)}, got {tuning!r}"
        )
    return options


def _refuse_misplaced(adapter_options: Mapping[str, Any]) -> None:
    """Refuse options that are no adapter's but the workers', the choice's or a recalibrator's."""
    own = [name for name in _names_of(calibrate) if name != "adapter_options"]
    for name in adapter_options:
        meant = difflib.get_close_matches(name, own, 1, 0.8)
        if meant:
            raise InvalidParameterError(
                f"{name} is no argument of calibrate: did you mean {meant[0]}? got {name}={adapter_options[name]!r}"
            )
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
