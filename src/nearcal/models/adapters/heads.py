"""Heads: what turns the numbers a model puts out into predictive distributions."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from nearcal._arrays import FloatArray, as_float_array, as_response, check_choice
from nearcal._errors import InvalidInputError, InvalidParameterError, NotFittedError
from nearcal._saved import number, one_of, optional, savable
from nearcal.distributions import Distribution, LogNormal, Normal, Quantiles
from nearcal.models.adapters.targets import several_targets

Response = Literal["identity", "log"]
RESPONSES: tuple[Response, ...] = get_args(Response)
HEADS = ("auto", "point", "normal", "quantiles")
HeadLike: TypeAlias = "str | Head | Callable[[Any], Distribution]"


class Head(ABC):
    """Turns the output of a model, numpy arrays with one row an input, into distributions."""

    def fit(self, output: Any, y: Any) -> "Head":
        """Return a head that has learnt from calibration outputs and responses what the output leaves open."""
        return self

    @abstractmethod
    def __call__(self, output: Any) -> Distribution:
        """Return the predictive distributions of the rows of ``output``."""


@savable(response=one_of("identity", "log"), scale=optional(number(0.0)))
@dataclass(frozen=True)
class PointHead(Head):
    """A point prediction: Normal around it, with the root mean squared residual of the calibration set as σ.

    With ``response="log"`` the model predicts log y, and the distribution is LogNormal.
    """

    response: Response = "identity"
    scale: float | None = None

    def fit(self, output: Any, y: Any) -> "PointHead":
        """Estimate σ where it was not given."""
        if self.scale is not None:
            return self
        point = _one_column(output)
        scale = float(np.sqrt(np.mean((_transformed(y, len(point), self.response) - point) ** 2)))
        if not scale > 0:
            raise InvalidInputError(
                f"the residuals of the calibration set must not all be zero, got a root mean square of {scale!r}; "
                "calibrate on data the model was not trained on, or give the head a scale"
            )
        return replace(self, scale=scale)

    def __call__(self, output: Any) -> Distribution:
        """Return Normal(point, σ), or LogNormal of a point on the log scale."""
        if self.scale is None:
            raise NotFittedError(
                "a point prediction has no standard deviation before it saw a calibration set; call "
                "prepared(X_cal, y_cal) first, as nearcal.calibrate does, or give PointHead a scale"
            )
        point = _one_column(output)
        return Normal(point, self.scale) if self.response == "identity" else LogNormal(point, self.scale)

    def points(self, output: Any) -> FloatArray:
        """Return the point predictions of y itself, shape (n,)."""
        point = _one_column(output)
        return point if self.response == "identity" else np.exp(point)


@dataclass(frozen=True)
class NormalHead(Head):
    """Two columns, μ and log σ, of y or of log y."""

    response: Response = "identity"

    def __call__(self, output: Any) -> Distribution:
        """Return Normal(μ, σ), or LogNormal."""
        columns = _columns(output)
        if columns.shape[1] != 2:
            raise InvalidInputError(f'head="normal" needs two columns, μ and log σ, got {columns.shape[1]}')
        mu, sigma = columns[:, 0], np.exp(columns[:, 1])
        return Normal(mu, sigma) if self.response == "identity" else LogNormal(mu, sigma)


@dataclass(frozen=True)
class QuantileHead(Head):
    """One column a quantile level, of y or of log y."""

    levels: tuple[float, ...]
    response: Response = "identity"

    def __call__(self, output: Any) -> Distribution:
        """Return Quantiles(levels, columns)."""
        columns = _columns(output)
        if columns.shape[1] != len(self.levels):
            raise InvalidInputError(
                f"levels must name one level an output column, got {len(self.levels)} levels and "
                f"{columns.shape[1]} columns"
            )
        return Quantiles(self.levels, columns if self.response == "identity" else np.exp(columns))


@dataclass(frozen=True)
class FunctionHead(Head):
    """A function of the user's: output arrays in, a nearcal distribution out."""

    function: Callable[[Any], Distribution]

    def __call__(self, output: Any) -> Distribution:
        """Return what the function makes of the output."""
        result = self.function(output)
        if not isinstance(result, Distribution):
            raise InvalidInputError(
                f"head must return a nearcal distribution, got {type(result).__name__}; "
                "for example head=lambda output: nearcal.Gamma(output[:, 0], output[:, 1])"
            )
        return result


@dataclass(frozen=True)
class DistributionHead(Head):
    """For a model that puts out distributions itself."""

    def __call__(self, output: Any) -> Distribution:
        """Return the output."""
        if not isinstance(output, Distribution):
            raise InvalidInputError(f"the model must put out distributions, got {type(output).__name__}")
        return output


def choose_head(head: HeadLike, response: Response, levels: Any) -> Head | None:
    """Return the head a user means; None for "auto", which waits for the model's first output."""
    check_choice(response, RESPONSES, "response")
    if levels is not None and head not in ("auto", "quantiles"):
        raise InvalidParameterError(f'levels go with head="quantiles", got head={head!r}')
    if isinstance(head, Head):
        return head
    if callable(head):
        if response == "log":
            raise InvalidParameterError(
                'response="log" needs a named head; let your function return a LogNormal itself'
            )
        return FunctionHead(head)
    check_choice(head, HEADS, "head")
    if head == "quantiles" or levels is not None:
        if levels is None:
            raise InvalidParameterError('head="quantiles" needs levels, the quantile level of each output column')
        return QuantileHead(tuple(as_float_array(levels, "levels").ravel().tolist()), response)
    heads: dict[str, Head] = {"point": PointHead(response), "normal": NormalHead(response)}
    return heads.get(head)


def guess_head(output: Any, response: Response) -> Head:
    """Return the head of a model whose user named none: its own distributions, or a point prediction of one column."""
    if isinstance(output, Distribution):
        if response == "log":
            raise InvalidParameterError(
                'response="log" is for models that predict log y, and this one puts out distributions'
            )
        return DistributionHead()
    columns = _columns(output)
    if columns.shape[1] == 1:
        return PointHead(response)
    raise InvalidParameterError(
        f"the model puts out {columns.shape[1]} columns: {several_targets(columns.shape[1])}; if they describe one "
        'target, say how by head, for example head="normal" for (μ, log σ), levels=[...] for quantiles, or a function '
        "of the output that returns a nearcal distribution"
    )


def learnt_head(head: Head | None) -> Head | None:
    """Return what is saved of a fitted head: a point prediction with its σ; None for one that learns nothing."""
    if isinstance(head, PointHead) or head is None:
        return head
    if type(head).fit is not Head.fit:
        raise InvalidInputError(
            "head must be one of nearcal, or learn nothing from the calibration set, for the model to be saved, got "
            f"{type(head).__name__}"
        )
    return None


def _columns(output: Any) -> FloatArray:
    """Return the output as a table (n, c)."""
    if isinstance(output, Distribution):
        raise InvalidParameterError(f'the model puts out distributions itself, {output!r}: leave head="auto"')
    if not hasattr(output, "shape"):
        raise InvalidInputError(
            f"the model must put out one array for a named head, got {type(output).__name__}; "
            "pass head=function that takes this output and returns a nearcal distribution"
        )
    array = as_float_array(output, "the model's output")
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2:
        raise InvalidInputError(f"the model's output must have shape (n,) or (n, c), got {array.shape}")
    return array


def _one_column(output: Any) -> FloatArray:
    columns = _columns(output)
    if columns.shape[1] != 1:
        raise InvalidInputError(
            f'head="point" needs one output column, got {columns.shape[1]}: {several_targets(columns.shape[1])}'
        )
    return columns[:, 0]


def _transformed(y: Any, n: int, response: str) -> FloatArray:
    values = as_response(y, n, "y_cal")
    if response == "identity":
        return values
    if not (values > 0).all():
        raise InvalidInputError(f'y_cal must be positive for response="log", got a minimum of {float(values.min())!r}')
    return np.log(values)
