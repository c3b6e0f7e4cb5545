"""Several models of one response, to be calibrated together."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidInputError, InvalidParameterError, NearcalError
from nearcal.distributions import Distribution, QuantileAverage
from nearcal.models.adapters.base import ModelAdapter, adapt
from nearcal.models.adapters.batches import positions

_INPUT, _OUTPUT, _OUTPUTS = "input", "output", "outputs"
_JOINT, _DOT = " + ", "."


class SeveralModels(ModelAdapter):
    """Several trained models of the same response and the same inputs, by name.

    Parameters
    ----------
    models : mapping of str to model
        At least two: anything that :func:`nearcal.adapt` takes, or an adapter, which is the way to give options to one
        of them: ``{"net": nc.adapt(net, head="normal"), "forest": forest}``.

    Notes
    -----
    The distribution is the plain quantile average of all models, whose ``components`` are theirs. Layers are "input",
    those of every model under its name, such as "net.hidden1" or "forest.output", and "outputs", the outputs of all of
    them side by side: near there are rows about which the models agree and disagree alike. A model without a layer
    "output" takes part in it with the 0.1, 0.5 and 0.9 quantiles of its distribution.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> both = nc.adapt({"rise": lambda X: (X[:, 0], 1 + 0 * X[:, 0]), "flat": lambda X: (0 * X[:, 0], 3 + X[:, 1])})
    >>> both.layers()
    ('input', 'rise.output', 'flat.output', 'outputs')
    >>> both.distribution(np.array([[2.0, 0.0]])).mean().round(6)
    array([1.])
    """

    def __init__(self, models: Mapping[str, Any]) -> None:
        names = list(models)
        wrong = [name for name in names if not isinstance(name, str) or not name or _JOINT in name]
        if wrong:
            raise InvalidParameterError(
                f"names of models must be texts, not empty and without {_JOINT!r}, which joins layers, got {wrong[0]!r}"
            )
        if len(names) < 2:
            raise InvalidParameterError(
                f"several models must be at least two, got {', '.join(map(repr, names)) or 'none'}; give one model "
                "itself: nc.calibrate(model, X, y)"
            )
        adapters = {}
        for name, model in models.items():
            with _named(name):
                adapters[name] = adapt(model)
        self.models: Mapping[str, ModelAdapter] = adapters

    def __repr__(self) -> str:
        return f"SeveralModels({', '.join(f'{name}={model!r}' for name, model in self.models.items())})"

    def layers(self) -> tuple[str, ...]:
        """Return "input", the layers of every model under its name, and "outputs"."""
        has_input = any(_INPUT in model.layers() for model in self.models.values())
        own = (layer for name in self.models for layer in self.layers_of(name) if layer != _INPUT)
        return (*((_INPUT,) if has_input else ()), *own, _OUTPUTS)

    def layers_of(self, name: str) -> list[str]:
        """Return the layers of one model, as they are called here."""
        return [layer if layer == _INPUT else f"{name}{_DOT}{layer}" for layer in self.models[name].layers()]

    def distribution(self, X: Any) -> Distribution:
        """Return the plain quantile average of all models."""
        return self.run(X, ())[0]

    def represent(self, X: Any, layer: str) -> FloatArray:
        """Return where n inputs lie in the space of a layer, shape (n, d)."""
        if layer == _OUTPUTS:
            return self.run(X, [layer])[1][layer]
        name, own = self._owner(layer)
        with _named(name):
            return self.models[name].represent(X, own)

    def run(self, X: Any, layers: Sequence[str]) -> tuple[Distribution, Mapping[str, FloatArray]]:
        """Return distributions and positions in several layers, with one pass of the inputs through every model."""
        asked: dict[str, dict[str, str]] = {name: {} for name in self.models}  # by model: its layer, and ours
        for layer in layers:
            if layer != _OUTPUTS:
                name, own = self._owner(layer)
                asked[name][own] = layer
        dists: list[Distribution] = []
        outputs: list[FloatArray] = []
        found: dict[str, FloatArray] = {}
        for name, model in self.models.items():
            more = [_OUTPUT] if _OUTPUTS in layers and _OUTPUT in model.layers() else []
            with _named(name):
                dist, own_layers = model.run(X, list(dict.fromkeys([*asked[name], *more])))
            dists.append(dist)
            found |= {ours: own_layers[own] for own, ours in asked[name].items()}
            if _OUTPUTS in layers:
                outputs.append(own_layers[_OUTPUT] if more else positions(dist))
        self._require_same_rows(dists)
        if _OUTPUTS in layers:
            found[_OUTPUTS] = np.hstack([np.asarray(output, dtype=np.float64) for output in outputs])
        return QuantileAverage(np.ones(len(dists)), dists), {layer: found[layer] for layer in layers}

    def _owner(self, layer: str) -> tuple[str, str]:
        """Return the model that has a layer, and what it calls it."""
        if layer == _INPUT:
            owners = [name for name, model in self.models.items() if _INPUT in model.layers()]
        else:  # names may hold dots: the longest that fits
            owners = sorted((name for name in self.models if layer.startswith(name + _DOT)), key=len, reverse=True)
        if owners:
            return owners[0], layer if layer == _INPUT else layer.removeprefix(owners[0] + _DOT)
        raise InvalidParameterError(f"layer must be one of {', '.join(self.layers())}, got {layer!r}")

    def _require_same_rows(self, dists: Sequence[Distribution]) -> None:
        if len({len(dist) for dist in dists}) > 1:
            counts = ", ".join(f"{name!r} {len(dist)}" for name, dist in zip(self.models, dists, strict=True))
            raise InvalidInputError(
                f"models must predict the same rows, got as many as {counts}; all of them are given the same X"
            )

    # ---- what models learn from the calibration set, each for itself -------------------------------------------------

    def prepared(self, X_cal: Any, y_cal: Any) -> Self:
        """Return the models with everything learnt that they leave to the calibration set."""
        return self._with({name: (lambda model: model.prepared(X_cal, y_cal)) for name in self.models})

    def learnt(self) -> dict[str, Any]:
        """Return what every model has learnt, by its name."""
        return {name: model.learnt() for name, model in self.models.items()}

    def with_learnt(self, learnt: Mapping[str, Any]) -> Self:
        """Return the models with what :meth:`learnt` has told."""
        if set(learnt) != set(self.models):
            raise InvalidInputError(
                f"models must be those that were calibrated, by the same names, {', '.join(learnt)}, got "
                f"{', '.join(self.models)}"
            )
        # in the order of the calibration: columns of positions depend on it
        twin = copy.copy(self)
        twin.models = {name: self.models[name] for name in learnt}
        return twin._with({name: (lambda model, own=own: model.with_learnt(own)) for name, own in learnt.items()})

    def _with(self, functions: Mapping[str, Any]) -> Self:
        twin, models = copy.copy(self), {}
        for name, function in functions.items():
            with _named(name):
                models[name] = function(self.models[name])
        twin.models = models
        return twin

    def identity(self) -> tuple[str, tuple[str, ...]]:
        """Return the names and classes of the models, and all their layers."""
        known = {name: model.identity() for name, model in self.models.items()}
        layers = tuple(f"{name}{_DOT}{layer}" for name, (_, own) in known.items() for layer in own)
        return ", ".join(f"{name}={kind}" for name, (kind, _) in known.items()), layers

    def plain_inputs(self, X_cal: Any) -> Any:
        """Return the inputs of a calibration set as those of new rows are given."""
        return next(iter(self.models.values())).plain_inputs(X_cal)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Let an error about one of the models say which."""
    try:
        yield
    except NearcalError as error:
        error.args = (f"model {name!r}: {error}", *error.args[1:])
        raise
