"""A fitted regressor taken apart: what it puts out, and the spaces inside it, leaves of its trees among them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, as_float_array, as_space
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal.models.adapters.base import NETWORKS, adapter_class, framework_of
from nearcal.models.adapters.questions import columns_without_numbers
from nearcal.models.adapters.targets import Target

DIMENSIONS = 256  # distances are right to √(1/512), 4%; with 64, recalibration lost a quarter of what leaves gain it
_WORDS = DIMENSIONS // 64


@dataclass(frozen=True)
class Trees:
    """The trees of a fitted ensemble.

    ``numbers(X)`` tells the leaf of every row in every tree, shape (n, trees); ``values[t][number]`` is what that
    leaf of tree t contributes to the prediction of the target; ``values`` is empty where a leaf holds more than that.
    """

    numbers: Callable[[Any], NDArray[np.int64]]
    values: Sequence[FloatArray] = ()

    def shared_leaves(self, X: Any) -> FloatArray:
        """Return positions of shape (n, 256) whose squared distances estimate the share of trees that part two rows."""
        return embed_leaves(self.numbers(X))

    def leaf_values(self, X: Any) -> FloatArray:
        """Return what every tree contributes to the prediction, shape (n, trees)."""
        return self.values_at(self.numbers(X))

    def values_at(self, numbers: NDArray[np.int64]) -> FloatArray:
        """Return the same of rows whose leaves are known."""
        return np.stack([value[leaf] for value, leaf in zip(self.values, numbers.T, strict=False)], axis=1)

    def spread(self, X: Any) -> FloatArray:
        """Return the standard deviation of what the trees say of each row, shape (n, 1): how far a forest disagrees."""
        return spread_of(list(self.leaf_values(X).T[:, :, np.newaxis]))


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
    targets : int
        How many targets the model was trained on, as far as it tells, once one is picked that one.
    """

    predict: Callable[[Any], Any]
    spaces: Mapping[str, Callable[[Any], FloatArray]] = field(default_factory=dict)
    trees: Trees | None = None
    readings: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    default: str = "auto"
    levels: tuple[float, ...] = ()
    targets: int = 1

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


def take_apart(model: Any, output: Target = None) -> Anatomy:
    """Take a fitted regressor apart; its package is recognised by its class, and not imported otherwise.

    Of several targets that a model predicts, ``output`` picks one.
    """
    framework = framework_of(model)
    return adapter_class("sklearn" if framework in (None, *NETWORKS) else framework).anatomy(model, output)


def take_apart_levels(models: Any, levels: Any, output: Target = None) -> Anatomy:
    """Take apart models that predict one quantile each: a mapping of levels, or a sequence that knows its levels."""
    if isinstance(models, Mapping):
        parts = [take_apart(model, output) for model in models.values()]
        known = tuple(as_float_array(list(models), "the levels of model").tolist())
        if levels is not None:
            raise InvalidParameterError("levels must not be given twice: model is a mapping of levels to models")
    else:
        parts = [take_apart(model, output) for model in models]
        known = tuple(as_float_array(levels, "levels").ravel().tolist()) if levels is not None else _own(parts)
    if len(known) != len(parts) or len(parts) < 2:
        raise InvalidParameterError(
            f"model must be one regressor, or at least two with one quantile level each, got {len(parts)} models and "
            f"{len(known)} levels"
        )
    return _side_by_side(parts, known)


def as_numbers(X: Any) -> FloatArray:
    """Return inputs as positions, if they are numbers without gaps; otherwise say which columns are not."""
    try:
        return as_space(X.toarray() if hasattr(X, "toarray") else _without_objects(X), "X")
    except InvalidInputError as error:
        columns = columns_without_numbers(X)
        if not columns:
            raise
        raise InvalidInputError(f"X must hold numbers without gaps, got {columns}") from error


def _without_objects(X: Any) -> Any:
    """Return an array of objects as numbers, if all of them are: pipelines make such of numbers beside truth values."""
    if not isinstance(X, np.ndarray) or X.dtype != object:
        return X
    kinds = {type(value) for value in X.ravel()}
    return X.astype(np.float64) if all(issubclass(kind, Real | np.bool_) for kind in kinds) else X


def spread_of(members: Sequence[FloatArray]) -> FloatArray:
    """Return the standard deviation over members of an ensemble of what they put out, of the shape of one."""
    mean = sum(members[1:], members[0]) / len(members)  # one after the other, whatever the number of rows
    return np.sqrt(sum(((member - mean) ** 2 for member in members), np.zeros(mean.shape)) / len(members))


def require_regressor(model: Any, fitted: bool, kind: str) -> None:
    """Refuse what was not trained, or is no regressor."""
    if kind != "regressor":
        raise InvalidInputError(f"model must be a regressor, got {type(model).__name__}, a {kind}")
    if not fitted:
        raise InvalidInputError(f"model must be fitted, got an unfitted {type(model).__name__}; call its fit first")


def refuse_target(output: Target, model: Any) -> None:
    """Refuse to pick a target of a model that has but one."""
    if output not in (None, 0):
        raise InvalidParameterError(
            f"output picks one of several targets, and {type(model).__name__} predicts one alone; leave out "
            f"output={output!r}"
        )


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
        targets=max(part.targets for part in parts),
    )


# ---- leaves as a space: near are rows that fall into the same leaves ------------------------------------------------


def applied_leaves(model: Any, X: Any) -> NDArray[np.int64]:
    """Return the leaf numbers of a model that tells them by ``apply``, as scikit-learn's do."""
    return as_leaf_numbers(model.apply(X))


def as_leaf_numbers(leaves: Any) -> NDArray[np.int64]:
    """Return leaf numbers as integers of shape (n, trees): a single tree has one column, some packages say floats."""
    numbers = np.asarray(leaves, dtype=np.int64)
    return numbers.reshape(len(numbers), -1)


def embed_leaves(numbers: NDArray[np.int64]) -> FloatArray:
    """Embed leaf numbers of shape (n, trees) in 256 dimensions.

    One column a leaf would put two rows at squared distance 2 × (trees that part them), in as many dimensions as
    there are leaves. A random projection of it by signs (Achlioptas, 2003, doi:10.1016/S0022-0000(03)00025-4) keeps
    these distances. The signs of a leaf are the bits of a hash of its tree and number, so nothing is stored, and a
    row lies in the same place in every call.
    """
    n, trees = numbers.shape
    total = np.zeros((n, DIMENSIONS), dtype=np.int32)
    words = np.arange(1, _WORDS + 1, dtype=np.uint64)
    for tree in range(trees):
        leaf = _scramble(numbers[:, tree].astype(np.uint64) + np.uint64(tree << 32))
        total += np.unpackbits(_scramble(leaf[:, np.newaxis] + words).view(np.uint8), axis=1)
    return total * np.sqrt(2 / (trees * DIMENSIONS))


def _scramble(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash integers as the generator splitmix64 does (Steele, Lea and Flood, 2014, doi:10.1145/2660193.2660195)."""
    x = x * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


# functions of a module, not closures: a model must survive pickling


def _after(transform: Callable[[Any], Any], function: Callable[[Any], Any], X: Any) -> Any:
    return function(transform(X))


def _columns(functions: Sequence[Callable[[Any], Any]], X: Any) -> Any:
    return np.column_stack([function(X) for function in functions])
