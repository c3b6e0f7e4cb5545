"""Cross-fitting: every row is predicted by a model that has not seen it, so that all rows can calibrate."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import InvalidInputError
from nearcal.adapters import ModelAdapter
from nearcal.adapters._regressor import RegressorModel
from nearcal.distributions import Distribution
from nearcal.distributions._concatenate import concatenate

# Positions of training rows inside a model betray their responses, which pulled them there; new rows have no such
# positions. In the output space of a forest that doubled the CRPS on grades of wine. Only what knows no responses, and
# what was predicted out of fold, can be compared: see ``CrossFittedModel.layers``.


@dataclass(frozen=True)
class CalibrationRows:
    """The inputs a model was cross-fitted to, marked: they are to be predicted out of fold."""

    X: Any


class CrossFittedModel(ModelAdapter):
    """Predicts the rows it was cross-fitted to out of fold, and all others by a model fitted to all rows."""

    def __init__(self, model: RegressorModel, output: Any, positions: FloatArray) -> None:
        self._model = model
        self._output = output
        self._positions = positions

    def __repr__(self) -> str:
        return f"{self._model!r}, cross-fitted"

    def layers(self) -> tuple[str, ...]:
        """Return the spaces in which new rows can be compared with rows of the training set."""
        known = () if _transforms_by_responses(self._model.model) else ("transformed",)
        return tuple(layer for layer in self._model.layers() if layer in {"input", *known, "output"})

    def distribution(self, X: Any) -> Distribution:
        """Return the predictive distributions of n inputs."""
        if isinstance(X, CalibrationRows):
            return self._model.distribution_of(self._output)
        return self._model.distribution(X)

    def represent(self, X: Any, layer: str) -> FloatArray:
        """Return where n inputs lie in the space of a layer, shape (n, d)."""
        self._require_layer(layer)
        if not isinstance(X, CalibrationRows):
            return self._model.represent(X, layer)
        return self._positions if layer == "output" else self._model.represent(X.X, layer)


def cross_fit(
    fit: Callable[[IntArray], RegressorModel], X: Any, y: FloatArray, folds: Iterable[tuple[IntArray, IntArray]]
) -> CrossFittedModel:
    """Fit one model to all rows, and one a fold to predict the rows left out of it.

    Parameters
    ----------
    fit : callable
        Returns the model fitted to some rows, given by their numbers.
    X, y
        All rows.
    folds : iterable of (train, test)
        Row numbers; every row is in one ``test``.
    """
    folds = list(folds)
    order = np.concatenate([test for _, test in folds])
    if not np.array_equal(np.sort(order), np.arange(len(y))):
        raise InvalidInputError(
            f"cv must leave out each of the {len(y)} rows exactly once, got {len(order)} rows left out, "
            f"{len(np.unique(order))} of them different; use KFold or GroupKFold"
        )
    outputs, positions = [], []
    for train, test in folds:
        model, left_out = fit(train), _safe_indexing(X, test)
        outputs.append(model.output(left_out))
        positions.append(model.represent(left_out, "output"))
    back = np.argsort(order)
    output = _stack(outputs)[back]
    model = fit(np.arange(len(y))).prepared_by(output, X, y)
    return CrossFittedModel(model, output, np.concatenate(positions)[back])


def _transforms_by_responses(model: Any) -> bool:
    """Tell whether a step of a pipeline before its last learns from responses, such as an encoder of their means."""
    if isinstance(model, Pipeline):
        steps = [step for _, step in model.steps]
        return any(_learns_from_responses(step) for step in steps[:-1]) or _transforms_by_responses(steps[-1])
    inner = (getattr(model, name, None) for name in ("best_estimator_", "regressor_", "estimator"))
    return any(_transforms_by_responses(part) for part in inner if part is not None)


def _learns_from_responses(step: Any) -> bool:
    if not hasattr(step, "get_params"):  # "passthrough", or no estimator of scikit-learn's
        return False
    parts = [step, *step.get_params(deep=True).values()]
    return any(get_tags(part).target_tags.required for part in parts if isinstance(part, BaseEstimator))


def _stack(outputs: list[Any]) -> Any:
    if isinstance(outputs[0], Distribution):
        return concatenate(outputs)
    return np.concatenate([np.asarray(output) for output in outputs])
