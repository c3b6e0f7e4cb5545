"""skpro: probabilistic regressors, by the distributions they predict."""

from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr

from nearcal._arrays import FloatArray, as_float_array
from nearcal._errors import InvalidInputError
from nearcal.distributions import Distribution, Gamma, Laplace, LogNormal, Mixture, Normal, Quantiles, Samples, StudentT
from nearcal.models.adapters.anatomy import Anatomy, require_regressor
from nearcal.models.adapters.batches import positions
from nearcal.models.adapters.regressors import RegressorModel
from nearcal.models.adapters.targets import Target, pick_target

_SCORES = np.linspace(-4.0, 4.0, 65)


class SkproModel(RegressorModel):
    """A fitted skpro regressor, read through ``predict_proba``.

    Parameters
    ----------
    model : skpro regressor
        A fitted probabilistic regressor of one response.
    head : {"auto", "distribution", "point"}, Head or callable
        "distribution", the choice of "auto", takes ``model.predict_proba``; the others read ``model.predict``.
    levels, response, output
        As in :class:`SklearnModel`; targets of a skpro regressor have names.

    Notes
    -----
    Normal, LogNormal, TDistribution, Cauchy, Laplace, Gamma, Exponential, mixtures of these, Empirical and
    QPD_Empirical become the nearcal distributions of the same meaning. Any other distribution that is not discrete is
    taken by its quantiles at 65 levels, Φ(-4), Φ(-3.875), …, Φ(4), with :class:`nearcal.Quantiles` in between.

    Layers are "input" and "output", the quantiles at levels 0.1, 0.5 and 0.9.

    Examples
    --------
    >>> import pandas as pd, numpy as np
    >>> from skpro.regression.residual import ResidualDouble
    >>> from sklearn.linear_model import LinearRegression
    >>> import nearcal as nc
    >>> X = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=list("abc"))
    >>> y = pd.DataFrame({"y": X["a"] + X["b"] ** 2})
    >>> model = nc.adapters.SkproModel(ResidualDouble(LinearRegression()).fit(X, y))
    >>> model.distribution(X[:4])
    Normal(n=4)
    """

    @staticmethod
    def anatomy(model: Any, output: Target = None) -> Anatomy:
        """Take a fitted regressor of this framework apart."""
        is_regressor = hasattr(model, "predict_proba") and model.get_tag("object_type") == "regressor_proba"
        require_regressor(
            model, bool(getattr(model, "is_fitted", False)), "regressor" if is_regressor else "model of another kind"
        )
        return Anatomy(
            partial(_predict, model, output),
            spaces={"output": partial(_output_quantiles, model, output)},
            readings={"distribution": partial(_distribution, model, output)},
            default="distribution",
        )


def _predict(model: Any, output: Target, X: Any) -> Any:
    return pick_target(model.predict(X), output)


def _distribution(model: Any, output: Target, X: Any) -> Distribution:
    predicted = model.predict_proba(X)
    if output is not None:
        names = list(predicted.columns)
        place = pick_target(tuple(range(len(names))), names.index(output) if output in names else output)
        predicted = predicted.iloc[:, [place]]
    return from_skpro(predicted)


def _output_quantiles(model: Any, output: Target, X: Any) -> FloatArray:
    return positions(_distribution(model, output, X))


def from_skpro(distribution: Any) -> Distribution:
    """Turn a skpro distribution of shape (n, 1) into a batch."""
    d = distribution
    if d.ndim != 2 or d.shape[1] != 1:
        raise InvalidInputError(
            f"model must predict one response, distributions of shape (n, 1), got shape {d.shape}; pick one by output, "
            "the number or the name of its column"
        )
    match type(d).__name__:
        case "Normal":
            return Normal(_parameter(d, "mu"), _parameter(d, "sigma"))
        case "LogNormal":
            return LogNormal(_parameter(d, "mu"), _parameter(d, "sigma"))
        case "TDistribution":
            return StudentT(_parameter(d, "df"), _parameter(d, "mu"), _parameter(d, "sigma"))
        case "Cauchy":
            return StudentT(1.0, _parameter(d, "mu"), _parameter(d, "scale"))
        case "Laplace":
            return Laplace(_parameter(d, "mu"), _parameter(d, "scale"))
        case "Gamma":
            return Gamma(_parameter(d, "alpha"), 1 / _parameter(d, "beta"))
        case "Exponential":
            return Gamma(1.0, 1 / _parameter(d, "rate"))
        case "Mixture":
            parts = [part[1] if isinstance(part, tuple) else part for part in d.distributions]
            weights = np.ones(len(parts)) if d.weights is None else d.weights
            return Mixture(weights, [from_skpro(part) for part in parts])
        case "Empirical":
            # "empirical": in a row of equal draws no tail could be fitted
            return Samples(_draws(d, d.spl), None if d.weights is None else _draws(d, d.weights), tails="empirical")
        case "QPD_Empirical":
            levels = sorted(d.quantiles.index.get_level_values(0).unique())
            return Quantiles(levels, _draws(d, d.quantiles))
    if d.get_tag("distr:measuretype") == "discrete":
        raise InvalidInputError(
            f'model must predict continuous distributions, got skpro\'s {type(d).__name__}; give head="point"'
        )
    levels = ndtr(_SCORES).tolist()
    return Quantiles(levels, d.quantile(levels).to_numpy(dtype=np.float64))


def _parameter(d: Any, name: str) -> FloatArray:
    """Return a parameter of every row; skpro leaves it as the user gave it."""
    values = as_float_array(getattr(d, name), f"the parameter {name} of the predicted distribution")
    return np.broadcast_to(values.reshape(len(values), -1) if values.ndim else values, d.shape)[:, 0]


def _draws(d: Any, table: Any) -> FloatArray:
    """Return a long table, indexed by draw and row, as one of shape (n, draws), draws in the order of their index."""
    column = table.iloc[:, 0] if table.ndim == 2 else table
    return column.unstack(level=0).loc[d.index].to_numpy(dtype=np.float64)
