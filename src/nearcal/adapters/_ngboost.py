"""NGBoost: its predictive distributions, with its parameters and leaves as spaces."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import BaseDecisionTree

from nearcal._arrays import FloatArray, as_float_array
from nearcal._errors import InvalidInputError
from nearcal.adapters._anatomy import Anatomy, require_regressor
from nearcal.adapters._leaves import Trees
from nearcal.adapters._regressor import RegressorModel
from nearcal.distributions import Distribution, from_scipy


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
    >>> import numpy as np
    >>> from ngboost import NGBRegressor
    >>> from nearcal.adapters import NGBoostModel
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = NGBoostModel(NGBRegressor(n_estimators=5, verbose=False, random_state=0).fit(X, X[:, 0]))
    >>> model.distribution(X[:4])
    Normal(n=4)
    >>> model.represent(X, "output").shape
    (200, 2)
    """


def take_apart(model: Any) -> Anatomy:
    """Take an NGBoost model apart."""
    is_regressor = any(base.__name__ == "NGBRegressor" for base in type(model).__mro__)
    require_regressor(model, bool(model.base_models), "regressor" if is_regressor else "model of another kind")
    stages = list(zip(model.base_models, model.scalings, model.col_idxs, strict=True))
    learners = [learner for learners, _, _ in stages for learner in learners]
    trees = None
    if all(isinstance(learner, BaseDecisionTree) for learner in learners):
        values = [-model.learning_rate * s * tree.tree_.value[:, 0, 0] for trees_, s, _ in stages for tree in trees_]
        trees = Trees(partial(_leaf_numbers, model), values)
    return Anatomy(
        model.predict,
        spaces={"output": partial(_parameters, model)},
        trees=trees,
        readings={"distribution": partial(_distribution, model)},
        default="distribution",
    )


def _distribution(model: Any, X: Any) -> Distribution:
    predicted = model.pred_dist(X)
    frozen = getattr(predicted, "dist", None)
    if not hasattr(getattr(frozen, "dist", None), "logpdf"):
        raise InvalidInputError(
            f"model must predict a continuous distribution of one response, got NGBoost's {type(predicted).__name__}; "
            'use another Dist, or head="point"'
        )
    return from_scipy(frozen)


def _parameters(model: Any, X: Any) -> FloatArray:
    return np.asarray(model.pred_param(as_float_array(X, "X")), dtype=np.float64)


def _leaf_numbers(model: Any, X: Any) -> NDArray[np.int64]:
    inputs = as_float_array(X, "X")
    stages = zip(model.base_models, model.col_idxs, strict=True)
    return np.stack([tree.apply(inputs[:, columns]) for trees, columns in stages for tree in trees], axis=1)
