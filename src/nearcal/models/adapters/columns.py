"""Predictions that lie in the columns of a table: no model to run, only columns to read."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from nearcal._arrays import FloatArray, as_float_array, check_choice
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._saved import instance, mapping_of, optional, savable, text, tuple_of
from nearcal.distributions import Distribution, Gamma, Laplace, LogNormal, Normal, Quantiles, Samples, StudentT
from nearcal.models.adapters.base import ModelAdapter

Source: TypeAlias = "str | float | tuple[str, ...] | tuple[float, ...]"


def _gamma_of_mean(shape: Any, mean: Any) -> Gamma:
    return Gamma(shape, np.divide(mean, shape))


def _gamma_of_rate(shape: Any, rate: Any) -> Gamma:
    return Gamma(shape, np.divide(1.0, rate))


# the ways to give each family: functions whose arguments are the names of the parameters
FAMILIES: Mapping[str, tuple[Callable[..., Distribution], ...]] = {
    "normal": (Normal,),
    "lognormal": (LogNormal,),
    "gamma": (Gamma, _gamma_of_mean, _gamma_of_rate),
    "student_t": (StudentT,),
    "laplace": (Laplace,),
    "quantiles": (Quantiles,),
    "samples": (Samples,),
}
_OPTIONS = ("tails", "weights")  # arguments that are no parameters
_POSITIVE = {"scale", "sigma", "shape", "df", "rate"}


@savable(
    family=text,
    parameters=mapping_of(instance(str, int, float, tuple)),
    spaces=mapping_of(tuple_of(text)),
    response=optional(text),
)
@dataclass(frozen=True, repr=False)
class ColumnsModel(ModelAdapter):
    """A model known by its predictions alone, one row a prediction, in the columns of a table.

    Parameters
    ----------
    family : {"normal", "lognormal", "gamma", "student_t", "laplace", "quantiles", "samples"}
        What the predictions are.
    parameters : dict
        Where the parameters of the family come from: the name of a column, a number that holds for all rows, or for
        the values of quantiles and the draws of samples a tuple of columns. Names are those of the distributions of
        nearcal; Gamma distributions may also be given by shape and mean, or shape and rate.
    spaces : dict of str to tuple of str, optional
        The columns of each space in which neighbours can be looked for, by its name.
    response : str, optional
        The column of what was observed, for those who evaluate the model.

    Notes
    -----
    X is a data frame of pandas or polars, an Arrow table, or a dictionary of columns. Being nothing but names and
    numbers, this model is saved as a whole: :func:`nearcal.load` gives back a :class:`nearcal.CalibratedModel` that can
    predict at once.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> table = {"mu": rng.normal(size=500), "x": rng.uniform(1, 3, size=500)}
    >>> y = rng.normal(table["mu"], table["x"])
    >>> model = nc.adapters.ColumnsModel("normal", {"loc": "mu", "scale": 1.0}, {"inputs": ("x",)})
    >>> recalibrator = nc.LocalRecalibrator(k=100, smoothing="uniform", scaling="standard")
    >>> calibrated = nc.calibrate(model, table, y, recalibrator=recalibrator)
    >>> calibrated.predict({"mu": [0.0], "x": [2.9]}).std().round()
    array([3.])
    """

    family: str
    parameters: Mapping[str, Source]
    spaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    response: str | None = None

    def __post_init__(self) -> None:
        check_choice(self.family, list(FAMILIES), "family")
        self._build()
        for argument, sources in (("parameters", self.parameters), ("spaces", self.spaces)):
            for name, source in sources.items():
                if isinstance(source, Sequence) and not source:
                    raise InvalidParameterError(
                        f"{argument}[{name!r}] must name at least one column, got {source!r}; name one or leave it out"
                    )
        if not self.columns():
            raise InvalidParameterError(
                f"parameters must name at least one column, got numbers only, {dict(self.parameters)}: "
                "a prediction that is the same for all rows is no prediction"
            )

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={_describe(source)}" for name, source in self.parameters.items())
        return f"ColumnsModel({self.family}, {given})"

    def layers(self) -> tuple[str, ...]:
        """Return the names of the spaces."""
        return tuple(self.spaces)

    def columns(self, *layers: str) -> tuple[str, ...]:
        """Return the columns that predictions are made of, and those of spaces, each once."""
        sources = [source if isinstance(source, tuple) else (source,) for source in self.parameters.values()]
        named = [name for source in sources for name in source if isinstance(name, str)]
        return tuple(dict.fromkeys([*named, *(name for layer in layers for name in self.spaces[layer])]))

    def positive_columns(self) -> dict[str, str]:
        """Return the columns that must be positive, each with the parameter it is."""
        positive = positive_parameters(self.family)
        return {
            source: name for name, source in self.parameters.items() if name in positive and isinstance(source, str)
        }

    def distribution(self, X: Any) -> Distribution:
        """Return the predictive distributions of n rows of a table."""
        return self._build()(**{name: self._read(X, source) for name, source in self.parameters.items()})

    def represent(self, X: Any, layer: str) -> FloatArray:
        """Return the columns of a space, shape (n, d)."""
        self._require_layer(layer)
        return _table(X, self.spaces[layer])

    def _build(self) -> Callable[..., Distribution]:
        """Return the function that takes the parameters given."""
        ways = {parameter_names(way): way for way in FAMILIES[self.family]}
        for names, way in ways.items():
            if set(names) == set(self.parameters):
                return way
        known = " or ".join(", ".join(names) for names in ways)
        got = ", ".join(self.parameters) or "none"
        raise InvalidParameterError(f"family {self.family!r} takes the parameters {known}, got {got}")

    def _read(self, X: Any, source: Source) -> Any:
        if isinstance(source, str):
            return _column(X, source)
        if isinstance(source, tuple) and isinstance(source[0], str):
            return _table(X, source)
        return source


def positive_parameters(family: str) -> set[str]:
    """Return the names of the parameters of a family that must be positive; of Gamma the mean is one."""
    return _POSITIVE | ({"mean"} if family == "gamma" else set())


def parameter_names(way: Callable[..., Distribution]) -> tuple[str, ...]:
    """Return the names of the parameters that a way to give a family takes."""
    return tuple(name for name in inspect.signature(way).parameters if name not in _OPTIONS)


def _describe(source: Source) -> str:
    if isinstance(source, tuple) and len(source) > 4:
        return f"({source[0]}, ..., {source[-1]}: {len(source)} columns)"
    return f"({', '.join(map(str, source))})" if isinstance(source, tuple) else str(source)


def _table(X: Any, names: Sequence[Any]) -> FloatArray:
    return np.column_stack([_column(X, name) for name in names])


def _column(X: Any, name: str) -> FloatArray:
    names = _names(X)
    if name not in names:
        raise InvalidInputError(f"X must have the column {name!r}, got the columns {', '.join(map(str, names))}")
    return as_float_array(X[name], f"column {name!r}")


def _names(X: Any) -> Sequence[Any]:
    if isinstance(X, Mapping):
        return list(X)
    names = getattr(X, "column_names", None)  # of Arrow, whose ``columns`` are the data
    names = getattr(X, "columns", None) if names is None else names
    if names is None:
        raise InvalidInputError(f"X must be a data frame or a dictionary of columns, got {type(X).__name__}")
    return list(names)
