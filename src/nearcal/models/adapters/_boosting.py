"""Boosted trees: LightGBM and XGBoost for a point or for quantiles, NGBoost for a distribution, leaves as spaces."""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, as_float_array
from nearcal._errors import InvalidInputError
from nearcal.distributions import Distribution, from_scipy
from nearcal.models.adapters.anatomy import (
    Anatomy,
    Trees,
    applied_leaves,
    as_leaf_numbers,
    refuse_target,
    require_regressor,
)
from nearcal.models.adapters.regressors import RegressorModel
from nearcal.models.adapters.targets import Target, pick_target

# how the names of objectives begin
_NOT_REGRESSION = {
    "binary": "classifier",
    "cross": "classifier",
    "multi": "classifier",
    "lambdarank": "ranker",
    "rank": "ranker",
}


class LightGBMModel(RegressorModel):
    """A trained LightGBM regressor: a ``Booster`` or an ``LGBMRegressor``.

    Parameters
    ----------
    model : Booster, LGBMRegressor, mapping of float to these, or sequence of these
        A trained model of one response, or models trained with ``objective="quantile"``: a mapping of levels to
        models, or a list, whose levels are read from the models.
    head, levels, response
        As in :class:`SklearnModel`. "auto" takes quantile models as quantiles and others as point predictions.

    Notes
    -----
    Layers are "input", "leaves", "leaf_values" and "output", as explained in :class:`SklearnModel`; of several
    quantile models the trees of all are taken together.

    Examples
    --------
    >>> import lightgbm, numpy as np, nearcal as nc
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> models = [
    ...     lightgbm.LGBMRegressor(objective="quantile", alpha=level, n_estimators=5, verbose=-1).fit(X, X[:, 0])
    ...     for level in (0.1, 0.5, 0.9)
    ... ]
    >>> model = nc.adapters.LightGBMModel(models)
    >>> model.distribution(X[:4]).levels
    array([0.1, 0.5, 0.9])
    >>> model.represent(X, "leaf_values").shape
    (200, 15)
    """

    @staticmethod
    def anatomy(model: Any, output: Target = None) -> Anatomy:
        """Take a fitted regressor of this framework apart."""
        refuse_target(output, model)
        booster = model
        if hasattr(model, "fit"):  # one of the scikit-learn interface
            require_regressor(model, model.__sklearn_is_fitted__(), "regressor")
            booster = model.booster_
        text = booster.model_to_string()
        objective = re.search(r"^objective=(\w+)", text, re.MULTILINE)
        name = objective.group(1) if objective else "regression"
        require_regressor(model, True, _kind(name))
        level = re.search(r"^\[alpha: (.+)\]$", text, re.MULTILINE) if name == "quantile" else None
        values = re.findall(r"^leaf_value=(.+)$", text, re.MULTILINE)
        return Anatomy(
            model.predict,
            trees=Trees(
                partial(_lightgbm_leaves, booster), [np.array(line.split(), dtype=np.float64) for line in values]
            ),
            levels=(float(level.group(1)),) if level else (),
        )


def _lightgbm_leaves(booster: Any, X: Any) -> NDArray[np.int64]:
    return as_leaf_numbers(booster.predict(X, pred_leaf=True))


def _kind(objective: str) -> str:
    return next((kind for start, kind in _NOT_REGRESSION.items() if objective.startswith(start)), "regressor")


class XGBoostModel(RegressorModel):
    """A trained XGBoost regressor: a ``Booster`` or an ``XGBRegressor``.

    Parameters
    ----------
    model : Booster, XGBRegressor, mapping of float to these, or sequence of these
        A trained model of one response. The levels of a model trained with ``objective="reg:quantileerror"`` and
        several ``quantile_alpha`` are read from it; models of one level each go in as a mapping or a list.
    head, levels, response, output
        As in :class:`SklearnModel`. "auto" takes quantile models as quantiles and others as point predictions.

    Notes
    -----
    Layers are "input", "leaves", "leaf_values" and "output", as explained in :class:`SklearnModel`. Trees of
    vectors (``multi_strategy="multi_output_tree"``) have no "leaf_values", and linear boosters no leaves at all.

    Examples
    --------
    >>> import numpy as np, xgboost, nearcal as nc
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> booster = xgboost.XGBRegressor(objective="reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.9], n_estimators=5)
    >>> model = nc.adapters.XGBoostModel(booster.fit(X, X[:, 0]))
    >>> model.distribution(X[:4]).levels
    array([0.1, 0.5, 0.9])
    >>> model.represent(X, "leaf_values").shape
    (200, 15)
    """

    @staticmethod
    def anatomy(model: Any, output: Target = None) -> Anatomy:
        """Take a fitted regressor of this framework apart."""
        booster, predict, leaves = model, partial(_xgboost_output, model), partial(_xgboost_leaves, model)
        if hasattr(model, "fit"):  # one of the scikit-learn interface: predicts up to the best iteration
            require_regressor(model, model.__sklearn_is_fitted__(), "regressor")
            booster, predict, leaves = model.get_booster(), model.predict, partial(applied_leaves, model)
        learner = json.loads(booster.save_config())["learner"]
        require_regressor(model, True, _kind(learner["objective"]["name"]))
        levels = json.loads(learner["objective"].get("quantile_loss_param", {}).get("quantile_alpha", "[]"))
        has_trees = learner["gradient_booster"]["name"] != "gblinear"
        targets = int(learner["learner_model_param"]["num_target"])
        is_quantiles = len(np.atleast_1d(levels)) > 0  # whose columns count as targets
        # rounded: levels are kept in single precision
        return Anatomy(
            partial(_picked, predict, output),
            trees=Trees(leaves, _xgboost_leaf_values(booster)) if has_trees else None,
            levels=tuple(round(level, 7) for level in np.atleast_1d(levels).tolist()),
            targets=1 if is_quantiles or output is not None else targets,
        )


def _picked(predict: Callable[[Any], Any], output: Target, X: Any) -> Any:
    return pick_target(predict(X), output)


def _xgboost_output(booster: Any, X: Any, **options: Any) -> Any:
    import xgboost

    matrix = X if isinstance(X, xgboost.DMatrix) else xgboost.DMatrix(X, enable_categorical=True)
    return booster.predict(matrix, **options)


def _xgboost_leaves(booster: Any, X: Any) -> NDArray[np.int64]:
    return as_leaf_numbers(_xgboost_output(booster, X, pred_leaf=True))


def _xgboost_leaf_values(booster: Any) -> list[FloatArray]:
    """Return the value of every node of every tree, zero for inner ones; nothing for leaves that hold vectors."""
    values = []
    for tree in booster.get_dump():
        if "leaf=[" in tree:
            return []
        leaves = [(int(node), float(value)) for node, value in re.findall(r"(\d+):leaf=([^,\s]+)", tree)]
        table = np.zeros(max(node for node, _ in leaves) + 1)
        for node, value in leaves:
            table[node] = value
        values.append(table)
    return values


class NGBoostModel(RegressorModel):
    """A fitted ``NGBRegressor``, whatever continuous distribution it predicts.

    Parameters
    ----------
    model : NGBRegressor
        A fitted model.
    head : {"auto", "distribution", "point"}, Head or callable
        "distribution", the choice of "auto", takes ``model.pred_dist``; the others read ``model.predict``.
    levels, response
        As in :class:`SklearnModel`.

    Notes
    -----
    Layers are "input"; "leaves" and "leaf_values" of the trees of all parameters, as explained in
    :class:`SklearnModel`; and "output", the parameters as the model boosts them, such as (μ, log σ).

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> from ngboost import NGBRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = nc.adapters.NGBoostModel(NGBRegressor(n_estimators=5, verbose=False, random_state=0).fit(X, X[:, 0]))
    >>> model.distribution(X[:4])
    Normal(n=4)
    >>> model.represent(X, "output").shape
    (200, 2)
    """

    @staticmethod
    def anatomy(model: Any, output: Target = None) -> Anatomy:
        """Take a fitted regressor of this framework apart."""
        from sklearn.tree import BaseDecisionTree

        refuse_target(output, model)
        is_regressor = any(base.__name__ == "NGBRegressor" for base in type(model).__mro__)
        require_regressor(model, bool(model.base_models), "regressor" if is_regressor else "model of another kind")
        stages = list(zip(model.base_models, model.scalings, model.col_idxs, strict=True))
        learners = [learner for learners, _, _ in stages for learner in learners]
        trees = None
        if all(isinstance(learner, BaseDecisionTree) for learner in learners):
            rates = [-model.learning_rate * scaling for learners, scaling, _ in stages for _ in learners]
            values = [rate * tree.tree_.value[:, 0, 0] for rate, tree in zip(rates, learners, strict=True)]
            trees = Trees(partial(_ngboost_leaves, model), values)
        return Anatomy(
            partial(_ngboost_mean, model),
            spaces={"output": partial(_ngboost_parameters, model)},
            trees=trees,
            readings={"distribution": partial(_ngboost_distribution, model)},
            default="distribution",
        )


def _require_width(model: Any, X: Any) -> None:
    # NGBoost reads the columns it knows, however many there are
    shape = np.shape(X)
    if len(shape) == 2 and shape[1] != model.n_features:
        raise InvalidInputError(
            f"X must have the {model.n_features} columns that the model was trained on, got {shape[1]}"
        )


def _ngboost_mean(model: Any, X: Any) -> Any:
    _require_width(model, X)
    return model.predict(X)


def _ngboost_distribution(model: Any, X: Any) -> Distribution:
    _require_width(model, X)
    predicted = model.pred_dist(X)
    frozen = getattr(predicted, "dist", None)
    if not hasattr(getattr(frozen, "dist", None), "logpdf"):
        raise InvalidInputError(
            f"model must predict a continuous distribution of one response, got NGBoost's {type(predicted).__name__}; "
            'use another Dist, or head="point"'
        )
    return from_scipy(frozen)


def _ngboost_parameters(model: Any, X: Any) -> FloatArray:
    return np.asarray(model.pred_param(as_float_array(X, "X")), dtype=np.float64)


def _ngboost_leaves(model: Any, X: Any) -> NDArray[np.int64]:
    _require_width(model, X)
    inputs = as_float_array(X, "X")
    stages = zip(model.base_models, model.col_idxs, strict=True)
    return np.stack([tree.apply(inputs[:, columns]) for trees, columns in stages for tree in trees], axis=1)
