"""XGBoost: boosted trees for a point or for quantiles, with their leaves as spaces."""

import json
import re
from functools import partial
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from nearcal._arrays import FloatArray
from nearcal.adapters._anatomy import Anatomy, require_regressor
from nearcal.adapters._leaves import Trees, applied_leaves, as_leaf_numbers
from nearcal.adapters._regressor import RegressorModel

_NOT_REGRESSION = {"binary": "classifier", "multi": "classifier", "rank": "ranker"}


class XGBoostModel(RegressorModel):
    """A trained XGBoost regressor: a ``Booster`` or an ``XGBRegressor``.

    Parameters
    ----------
    model : Booster, XGBRegressor, mapping of float to these, or sequence of these
        A trained model of one response. The levels of a model trained with ``objective="reg:quantileerror"`` and
        several ``quantile_alpha`` are read from it; models of one level each go in as a mapping or a list.
    head, levels, response
        As in :class:`SklearnModel`. "auto" takes quantile models as quantiles and others as point predictions.

    Notes
    -----
    Layers are "input", "leaves", "leaf_values" and "output", as explained in :class:`SklearnModel`. Trees of
    vectors (``multi_strategy="multi_output_tree"``) have no "leaf_values", and linear boosters no leaves at all.

    Examples
    --------
    >>> import numpy as np, xgboost
    >>> from nearcal.adapters import XGBoostModel
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> booster = xgboost.XGBRegressor(objective="reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.9], n_estimators=5)
    >>> model = XGBoostModel(booster.fit(X, X[:, 0]))
    >>> model.distribution(X[:4]).levels
    array([0.1, 0.5, 0.9])
    >>> model.represent(X, "leaf_values").shape
    (200, 15)
    """


def take_apart(model: Any) -> Anatomy:
    """Take an XGBoost model apart."""
    booster, predict, leaves = model, partial(_predict, model), partial(_leaf_numbers, model)
    if hasattr(model, "fit"):  # one of the scikit-learn interface: predicts up to the best iteration
        require_regressor(model, model.__sklearn_is_fitted__(), "regressor")
        booster, predict, leaves = model.get_booster(), model.predict, partial(applied_leaves, model)
    learner = json.loads(booster.save_config())["learner"]
    objective = learner["objective"]["name"]
    require_regressor(model, True, _NOT_REGRESSION.get(objective.partition(":")[0], "regressor"))
    levels = json.loads(learner["objective"].get("quantile_loss_param", {}).get("quantile_alpha", "[]"))
    has_trees = learner["gradient_booster"]["name"] != "gblinear"
    # rounded: levels are kept in single precision
    return Anatomy(
        predict,
        trees=Trees(leaves, _leaf_values(booster)) if has_trees else None,
        levels=tuple(round(level, 7) for level in np.atleast_1d(levels).tolist()),
    )


def _predict(booster: Any, X: Any) -> Any:
    return booster.predict(_as_matrix(X))


def _leaf_numbers(booster: Any, X: Any) -> NDArray[np.int64]:
    return as_leaf_numbers(booster.predict(_as_matrix(X), pred_leaf=True))


def _as_matrix(X: Any) -> Any:
    return X if isinstance(X, xgboost.DMatrix) else xgboost.DMatrix(X, enable_categorical=True)


def _leaf_values(booster: Any) -> list[FloatArray]:
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
