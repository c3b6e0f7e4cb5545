"""A fitted regressor taken apart: what it puts out, and the spaces inside it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, as_float_array, as_space
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal.adapters._leaves import Trees

_HOMES = {
    "lightgbm": "nearcal.adapters._lightgbm",
    "ngboost": "nearcal.adapters._ngboost",
    "skpro": "nearcal.adapters._skpro",
    "xgboost": "nearcal.adapters._xgboost",
}


@dataclass(frozen=True)
class Anatomy:
    """What a fitted regressor gives.

    Parameters
    ----------
    predict : callable
        The plain prediction of inputs X.
    spaces : mapping of str to callable
        Spaces inside the model; each function returns the positions of inputs X, shape (n, d).
    trees : Trees, optional
        The trees of an ensemble.
    readings : mapping of str to callable
        Heads the model offers itself, with what they read instead of the plain prediction; a reading may be a
        distribution already.
    default : str
        The head that "auto" means.
    levels : tuple of float
        The quantile levels that the columns of ``predict`` stand for, if they do.
    """

    predict: Callable[[Any], Any]
    spaces: Mapping[str, Callable[[Any], FloatArray]] = field(default_factory=dict)
    trees: Trees | None = None
    readings: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    default: str = "auto"
    levels: tuple[float, ...] = ()

    def all_spaces(self) -> dict[str, Callable[[Any], FloatArray]]:
        """Return the spaces in the order data flows through them, those of the trees included."""
        spaces = {name: space for name, space in self.spaces.items() if name != "output"}
        if self.trees is not None:
            spaces["leaves"] = self.trees.shared_leaves
            if self.trees.values:
                spaces["leaf_values"] = self.trees.leaf_values
        if "output" in self.spaces:
            spaces["output"] = self.spaces["output"]
        return spaces

    def after(self, transform: Callable[[Any], Any]) -> "Anatomy":
        """Return the anatomy of this regressor behind a transformation of its inputs."""
        trees = self.trees and replace(self.trees, numbers=partial(_after, transform, self.trees.numbers))
        return replace(
            self,
            predict=partial(_after, transform, self.predict),
            spaces={name: partial(_after, transform, space) for name, space in self.spaces.items()},
            trees=trees,
            readings={name: partial(_after, transform, reading) for name, reading in self.readings.items()},
        )


def take_apart(model: Any) -> Anatomy:
    """Take a fitted regressor apart; its package is recognised by its class, and not imported otherwise."""
    for base in type(model).__mro__:
        home = _HOMES.get(base.__module__.partition(".")[0])
        if home is not None:
            return import_module(home).take_apart(model)
    return import_module("nearcal.adapters._sklearn").take_apart(model)


def take_apart_levels(models: Any, levels: Any) -> Anatomy:
    """Take apart models that predict one quantile each: a mapping of levels, or a sequence that knows its levels."""
    if isinstance(models, Mapping):
        parts = [take_apart(model) for model in models.values()]
        known = tuple(as_float_array(list(models), "the levels of model").tolist())
        if levels is not None:
            raise InvalidParameterError("levels must not be given twice: model is a mapping of levels to models")
    else:
        parts = [take_apart(model) for model in models]
        known = tuple(as_float_array(levels, "levels").ravel().tolist()) if levels is not None else _own(parts)
    if len(known) != len(parts) or len(parts) < 2:
        raise InvalidParameterError(
            f"model must be one regressor, or at least two with one quantile level each, got {len(parts)} models and "
            f"{len(known)} levels"
        )
    return _side_by_side(parts, known)


def as_numbers(X: Any) -> FloatArray:
    """Return inputs as positions, if they are numbers without gaps."""
    return as_space(X.toarray() if hasattr(X, "toarray") else X, "X")


def require_regressor(model: Any, fitted: bool, kind: str) -> None:
    """Refuse what was not trained, or is no regressor."""
    if kind != "regressor":
        raise InvalidInputError(f"model must be a regressor, got {type(model).__name__}, a {kind}")
    if not fitted:
        raise InvalidInputError(f"model must be fitted, got an unfitted {type(model).__name__}; call its fit first")


def _own(parts: Sequence[Anatomy]) -> tuple[float, ...]:
    if any(len(part.levels) != 1 for part in parts):
        raise InvalidParameterError(
            "a list of models must hold quantile regressors, which know their levels; otherwise give levels, "
            "or a mapping of levels to models"
        )
    return tuple(part.levels[0] for part in parts)


def _side_by_side(parts: Sequence[Anatomy], levels: tuple[float, ...]) -> Anatomy:
    """Join regressors of the same inputs: outputs become columns, spaces are joined where all have them."""
    names = [name for name in parts[0].spaces if all(name in part.spaces for part in parts)]
    ensembles = [part.trees for part in parts if part.trees is not None]
    trees = None
    if len(ensembles) == len(parts):
        numbers = partial(_columns, [ensemble.numbers for ensemble in ensembles])
        trees = Trees(numbers, [value for ensemble in ensembles for value in ensemble.values])
    return Anatomy(
        predict=partial(_columns, [part.predict for part in parts]),
        spaces={name: partial(_columns, [part.spaces[name] for part in parts]) for name in names},
        trees=trees,
        levels=levels,
    )


# functions of a module, not closures: a model must survive pickling


def _after(transform: Callable[[Any], Any], function: Callable[[Any], Any], X: Any) -> Any:
    return function(transform(X))


def _columns(functions: Sequence[Callable[[Any], Any]], X: Any) -> Any:
    return np.column_stack([function(X) for function in functions])
