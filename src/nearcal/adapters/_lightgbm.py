"""LightGBM: boosted trees for a point or for quantiles, with their leaves as spaces."""

import re
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal.adapters._anatomy import Anatomy, require_regressor
from nearcal.adapters._leaves import Trees, as_leaf_numbers
from nearcal.adapters._regressor import RegressorModel

_NOT_REGRESSION = {"binary": "classifier", "multiclass": "classifier", "cross": "classifier", "lambdarank": "ranker"}


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
    >>> import lightgbm, numpy as np
    >>> from nearcal.adapters import LightGBMModel
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> models = [
    ...     lightgbm.LGBMRegressor(objective="quantile", alpha=level, n_estimators=5, verbose=-1).fit(X, X[:, 0])
    ...     for level in (0.1, 0.5, 0.9)
    ... ]
    >>> model = LightGBMModel(models)
    >>> model.distribution(X[:4]).levels
    array([0.1, 0.5, 0.9])
    >>> model.represent(X, "leaf_values").shape
    (200, 15)
    """


def take_apart(model: Any) -> Anatomy:
    """Take a LightGBM model apart."""
    booster = model
    if hasattr(model, "fit"):  # one of the scikit-learn interface
        require_regressor(model, model.__sklearn_is_fitted__(), "regressor")
        booster = model.booster_
    text = booster.model_to_string()
    objective = re.search(r"^objective=(\w+)", text, re.MULTILINE)
    name = objective.group(1) if objective else "regression"
    kind = next((kind for start, kind in _NOT_REGRESSION.items() if name.startswith(start)), "regressor")
    require_regressor(model, True, kind)
    level = re.search(r"^\[alpha: (.+)\]$", text, re.MULTILINE) if name == "quantile" else None
    values = [np.array(line.split(), dtype=np.float64) for line in re.findall(r"^leaf_value=(.+)$", text, re.MULTILINE)]
    return Anatomy(
        model.predict,
        trees=Trees(partial(_leaf_numbers, booster), values),
        levels=(float(level.group(1)),) if level else (),
    )


def _leaf_numbers(booster: Any, X: Any) -> NDArray[np.int64]:
    return as_leaf_numbers(booster.predict(X, pred_leaf=True))
