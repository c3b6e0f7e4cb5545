"""One target of a model that predicts several: each is calibrated on its own."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal.distributions import Distribution

Target: TypeAlias = "int | str | None"


def check_target(output: Any) -> None:
    """Refuse what is neither the number nor the name of a target."""
    is_number = isinstance(output, int | np.integer) and not isinstance(output, bool) and output >= 0
    if output is not None and not is_number and not isinstance(output, str):
        raise InvalidParameterError(
            f"output must be the number of a target, 0 for the first, or its name, got {output!r}"
        )


def pick_target(predicted: Any, output: Target) -> Any:
    """Return one target of what a model puts out: of a mapping by name, of a tuple or of columns by number.

    Columns are those along the second axis, so that targets with several numbers each, (n, targets, numbers), keep
    theirs. The columns of a data frame have names too.
    """
    if output is None:
        return predicted
    if isinstance(predicted, Mapping):
        return predicted[_known(output, list(predicted))]
    if isinstance(predicted, tuple | list):
        return predicted[_known(output, range(len(predicted)))]
    if hasattr(predicted, "iloc"):
        names = list(predicted.columns)
        place = names.index(output) if output in names else _known(output, range(len(names)), names)
        return predicted.iloc[:, place]
    if isinstance(predicted, Distribution):
        raise InvalidParameterError(
            f"output picks one of several targets, and this model puts out one distribution a row, {predicted!r}; "
            f"leave out output={output!r}"
        )
    columns = np.asarray(predicted)
    columns = columns[:, np.newaxis] if columns.ndim == 1 else columns
    if columns.ndim < 2:
        raise InvalidInputError(f"the model must put out one row an input, got shape {columns.shape}")
    return columns[:, _known(output, range(columns.shape[1]))]


def several_targets(count: int) -> str:
    """Say what to do with a model of several targets."""
    last = f"output={count - 1}"
    return (
        f"if they are several targets, calibrate them one by one: nc.calibrate(model, X, y[:, 0], output=0) to {last}"
    )


def refuse_several_responses(y: Any, name: str) -> None:
    """Refuse a table of responses with more than one column, and say how several targets are calibrated."""
    shape = getattr(y, "shape", None) or _list_shape(y)
    if len(shape) == 2 and shape[1] > 1:
        raise InvalidInputError(
            f"{name} must be one response a row, shape (n,) or (n, 1), got shape {shape}: several targets are "
            f"calibrated one by one, each with its own column: nc.calibrate(model, X, y[:, 0], output=0) to "
            f"output={shape[1] - 1}"
        )


def _list_shape(y: Any) -> tuple[int, ...]:
    """Return the shape of nested lists, by their first element; what they hold is looked at later."""
    if not isinstance(y, list | tuple) or not y:
        return ()
    return (len(y), len(y[0])) if isinstance(y[0], list | tuple) else (len(y),)


def _known(output: Any, known: Any, names: Any = ()) -> Any:
    if output not in known:
        there_are = ", ".join(map(repr, names or known))
        raise InvalidParameterError(f"output must be one of the targets of the model, {there_are}, got {output!r}")
    return output
