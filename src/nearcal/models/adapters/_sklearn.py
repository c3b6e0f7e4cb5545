"""scikit-learn: any fitted regressor, with hidden layers, leaves and steps of a pipeline as spaces."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import ARDRegression, BayesianRidge, QuantileRegressor
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import check_is_fitted

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal.distributions import Distribution, Samples
from nearcal.models.adapters.anatomy import Anatomy, Trees, applied_leaves, as_numbers, require_regressor, take_apart
from nearcal.models.adapters.regressors import RegressorModel
from nearcal.models.adapters.targets import Target, pick_target, several_targets

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "identity": np.positive,
    "logistic": expit,
    "tanh": np.tanh,
    "relu": partial(np.maximum, 0.0),
}
_FORESTS = (RandomForestRegressor, ExtraTreesRegressor)


class SklearnModel(RegressorModel):
    """A fitted scikit-learn regressor, or any object with ``predict``.

    Parameters
    ----------
    model : regressor, mapping of float to regressor, or sequence of regressors
        A fitted regressor of one response, a pipeline included; or quantile regressors, as a mapping of levels to
        models, or a list of models that know their level.
    head : {"auto", "point", "normal", "quantiles", "trees"}, Head or callable
        How predictions become distributions. "point": Normal around the prediction, its σ from calibration
        residuals. "normal": mean and standard deviation of GaussianProcessRegressor, BayesianRidge and
        ARDRegression, the choice of "auto" for these. "trees": the predictions of the trees of a forest as draws; of
        fully grown trees that is the quantile regression forest. A function takes the prediction and returns a
        nearcal distribution.
    levels : array_like of shape (q,), optional
        The quantile levels of the columns that ``predict`` returns, or of a list of models.
    response : {"identity", "log"}
        "log" if the model predicts log y.
    output : int or str, optional
        Of a model of several targets the one to read: the number of its column, 0 for the first, or its name where
        ``predict`` returns a data frame. Each target is calibrated on its own.

    Notes
    -----
    Layers, as far as the model has them:

    - "input": the inputs, if they are numbers without gaps.
    - "transformed": what the steps of a pipeline hand to its last step, whose own layers follow.
    - "hidden1", "hidden2", …: the hidden layers of MLPRegressor, after their activation.
    - "leaves": the leaves of a tree ensemble in 256 dimensions, squared distances being estimates of the share of
      trees that part two rows. (HistGradientBoostingRegressor does not tell its leaves.)
    - "leaf_values": what each tree contributes to the prediction, one column a tree. The two complement one another:
      leaves weigh all trees alike, values weigh the early trees of a boosted model most.
    - "output": what the head reads; of a forest its prediction and the standard deviation of its trees.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import nearcal as nc
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> y = X[:, 0] ** 2
    >>> forest = RandomForestRegressor(n_estimators=10, random_state=0).fit(X[:100], y[:100])
    >>> model = nc.adapters.SklearnModel(forest)
    >>> model.layers()
    ('input', 'leaves', 'leaf_values', 'output')
    >>> model.represent(X[100:], "leaf_values").shape
    (100, 10)
    >>> model.prepared(X[100:], y[100:]).distribution(X[:5])
    Normal(n=5)
    """

    @staticmethod
    def anatomy(model: Any, output: Target = None) -> Anatomy:
        """Take a fitted regressor of this framework apart."""
        if hasattr(model, "best_estimator_"):  # a search over parameters
            return take_apart(model.best_estimator_, output)
        if type(model).__name__ == "FrozenEstimator":  # scikit-learn 1.6 brought it
            return take_apart(model.estimator, output)
        _require_fitted_regressor(model)
        if isinstance(model, Pipeline):
            return _take_apart_pipeline(model, output)
        predict = partial(_predict, model, output)
        targets = _count_targets(model) if output is None else 1
        if isinstance(model, TransformedTargetRegressor):
            inner = take_apart(model.regressor_, output)
            # increasing transformations, as all usual ones are, map quantiles to quantiles
            spaces = {name: space for name, space in inner.spaces.items() if name != "output"}
            return Anatomy(predict, spaces, inner.trees, levels=inner.levels, targets=inner.targets)
        if isinstance(model, MLPRegressor):
            hidden = range(1, len(model.coefs_))
            spaces = {f"hidden{depth}": partial(_hidden, model, depth) for depth in hidden}
            return Anatomy(predict, spaces, targets=targets)
        if isinstance(model, GaussianProcessRegressor | BayesianRidge | ARDRegression):
            readings = {"normal": partial(_mean_and_log_std, model, output)}
            return Anatomy(predict, readings=readings, default="normal", targets=targets)
        if isinstance(model, HistGradientBoostingRegressor):
            staged = {"leaf_values": partial(_staged_values, model)}
            return Anatomy(predict, staged, levels=_quantile_level(model))
        trees = _take_apart_trees(model, output)
        draws: dict[str, Callable[[Any], Any]] = {}
        ends: dict[str, Callable[[Any], FloatArray]] = {}
        # the trees of a forest are predictions; those of a boosted model only add up to one
        if trees is not None and isinstance(model, _FORESTS):
            draws = {"trees": partial(_tree_draws, trees)}
            if trees.values:
                ends = {"output": partial(_mean_and_spread, predict, trees)}
        return Anatomy(predict, ends, trees, draws, levels=_quantile_level(model), targets=targets)


def _require_fitted_regressor(model: Any) -> None:
    if not hasattr(model, "predict"):
        raise InvalidInputError(f"model must have a method predict, got {type(model).__name__}")
    is_estimator = isinstance(model, BaseEstimator)
    require_regressor(model, _is_fitted(model), "classifier" if is_estimator and is_classifier(model) else "regressor")


def _is_fitted(model: Any) -> bool:
    if not isinstance(model, BaseEstimator):
        return True
    try:
        check_is_fitted(model)
    except SklearnNotFittedError:
        return False
    return True


def _predict(model: Any, output: Target, X: Any) -> Any:
    return pick_target(model.predict(X), output)


def _count_targets(model: Any) -> int:
    """Return how many targets a model was trained on, where it tells; one otherwise."""
    if hasattr(model, "n_outputs_"):
        return int(model.n_outputs_)
    if isinstance(model, MultiOutputRegressor | RegressorChain):
        return len(model.estimators_)
    rows = np.asarray(getattr(model, "coef_", 0.0))  # of a linear model, one a target
    return len(rows) if rows.ndim == 2 else 1


def _take_apart_trees(model: Any, output: Target) -> Trees | None:
    """Return the trees of a tree or an ensemble of them; leaves of several targets have values once one is picked."""
    trees = _trees(model)
    if not trees:
        return None
    targets = trees[0].value.shape[1]
    target = 0 if targets == 1 else output  # an output that there is not is refused by the prediction
    values = [] if target not in range(targets) else [tree.value[:, target, 0] for tree in trees]
    return Trees(partial(applied_leaves, model), values)


def _take_apart_pipeline(pipeline: Pipeline, output: Target) -> Anatomy:
    last = take_apart(pipeline.steps[-1][1], output)
    if len(pipeline.steps) == 1:
        return last
    front = pipeline[:-1].transform
    behind = last.after(front)
    return replace(behind, spaces={"transformed": partial(_transformed, front), **behind.spaces})


def _transformed(front: Any, X: Any) -> FloatArray:
    return as_numbers(front(X))


def _hidden(model: MLPRegressor, depth: int, X: Any) -> FloatArray:
    activate = _ACTIVATIONS[model.activation]
    values = as_numbers(X)
    for weights, bias in zip(model.coefs_[:depth], model.intercepts_[:depth], strict=True):
        values = activate(values @ weights + bias)
    return values


def _mean_and_log_std(model: Any, output: Target, X: Any) -> FloatArray:
    mean, std = (pick_target(part, output) for part in model.predict(X, return_std=True))
    if np.ndim(mean) == 2 and mean.shape[1] > 1:
        raise InvalidInputError(
            f"the model puts out {mean.shape[1]} columns of means: {several_targets(mean.shape[1])}"
        )
    return np.column_stack([mean, np.log(std)])


def _quantile_level(model: Any) -> tuple[float, ...]:
    """Return the level a quantile regressor was trained for, as a tuple; an empty one for other regressors."""
    if isinstance(model, QuantileRegressor):
        return (float(model.quantile),)
    if getattr(model, "loss", None) == "quantile":
        level = model.quantile if isinstance(model, HistGradientBoostingRegressor) else model.alpha
        return (float(level),)
    return ()


def _trees(model: Any) -> list[Any]:
    """Return the fitted trees of a tree or of an ensemble of trees."""
    if isinstance(model, BaseDecisionTree):
        return [model.tree_]
    if isinstance(model, (*_FORESTS, GradientBoostingRegressor)):
        return [tree.tree_ for tree in np.ravel(model.estimators_)]
    return []


def _mean_and_spread(predict: Callable[[Any], Any], trees: Trees, X: Any) -> FloatArray:
    mean = np.asarray(predict(X), dtype=np.float64)
    return np.column_stack([mean, trees.spread(X)])


def _tree_draws(trees: Trees, X: Any) -> Distribution:
    if not trees.values:
        raise InvalidParameterError(
            'head="trees" needs one target, and these trees have several: pick one by output, the number of its '
            "column, 0 for the first"
        )
    # "empirical": in a row on which all trees agree no tail could be fitted
    return Samples(trees.leaf_values(X), tails="empirical")


def _staged_values(model: HistGradientBoostingRegressor, X: Any) -> FloatArray:
    """Return what each tree adds; the model shows its trees only through the predictions after each of them."""
    stages = np.stack(list(model.staged_predict(X)), axis=1)
    if model.loss in ("gamma", "poisson"):  # trees add up on the log scale
        stages = np.log(stages)
    return np.diff(stages, axis=1, prepend=0.0)  # the first column holds a constant too, which moves no distance
