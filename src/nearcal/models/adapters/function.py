"""A plain function as a model."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nearcal._arrays import FloatArray, as_float_array, as_space
from nearcal._errors import InvalidParameterError
from nearcal.distributions import Distribution, Normal
from nearcal.models.adapters.anatomy import Anatomy
from nearcal.models.adapters.heads import HeadLike, Response
from nearcal.models.adapters.regressors import RegressorModel
from nearcal.models.adapters.targets import Target, pick_target


class FunctionModel(RegressorModel):
    """A function of inputs that returns predictions.

    Parameters
    ----------
    model : callable
        Takes n inputs X, and returns point predictions of shape (n,); or a pair (mean, std) of them; or a nearcal
        distribution of n rows; or columns, which ``head``, ``levels`` or ``output`` explain. Several functions of one
        quantile each go in as a mapping of levels to functions.
    head, levels, response, output
        As in :class:`SklearnModel`.
    space : callable, or mapping of str to callable, optional
        Where inputs are, in place of themselves: a function of X that returns positions, shape (n, d), or several by
        name.

    Notes
    -----
    Layers are "input", or what ``space`` names ("space", where it is one function), and "output", the predictions.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> X = rng.uniform(1, 3, size=(400, 2))
    >>> y = rng.normal(X[:, 0], X[:, 1] ** 2)
    >>> calibrated = nc.calibrate(lambda X: X[:, 0], X, y, space=lambda X: X[:, 1])
    >>> calibrated.model.layers()
    ('space', 'output')
    >>> calibrated.predict(np.array([[2.0, 1.1], [2.0, 2.9]])).std().round()
    array([2., 8.])
    """

    def __init__(
        self,
        model: Any,
        *,
        head: HeadLike = "auto",
        levels: Any = None,
        response: Response = "identity",
        output: Target = None,
        space: Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        super().__init__(model, head=head, levels=levels, response=response, output=output)
        if space is not None:
            self._spaces = {**_named_spaces(space), "output": self._spaces["output"]}

    @staticmethod
    def anatomy(model: Any, output: Target = None) -> Anatomy:
        """Take a function for a regressor that predicts."""
        return Anatomy(partial(_answer, model, output))

    @property
    def _name(self) -> str:
        return getattr(self.model, "__name__", super()._name)


def _answer(function: Callable[[Any], Any], output: Target, X: Any) -> Any:
    """Return what a function predicts; a pair is the mean and the standard deviation of a Normal distribution."""
    answer = function(X)
    if isinstance(answer, tuple) and len(answer) == 2 and output is None:
        return Normal(*answer)
    if isinstance(answer, Distribution):
        return pick_target(answer, output)
    return as_float_array(pick_target(answer, output), "what the function returns")


def _named_spaces(space: Any) -> dict[str, Callable[[Any], FloatArray]]:
    named = space if isinstance(space, Mapping) else {"space": space}
    for name, function in named.items():
        if not isinstance(name, str) or not callable(function):
            raise InvalidParameterError(
                "space must be a function of X that returns positions, or a mapping of names to such functions, got "
                f"{type(function).__name__}: positions of the calibration set alone cannot be those of new inputs; "
                "for arrays use nearcal.tune or a recalibrator"
            )
    if not named or {"output", "auto"} & set(named):
        raise InvalidParameterError(
            f'space must name at least one space, and none "output" or "auto", got {list(named)}'
        )
    return {name: partial(_position, name, function) for name, function in named.items()}


def _position(name: str, function: Callable[[Any], Any], X: Any) -> FloatArray:
    return as_space(function(X), f"space {name!r}", None if not hasattr(X, "__len__") else len(X))
