"""What comes from a file is checked before it is used: compiled code trusts shapes, types and row numbers.

A class takes part in saving by ``_to_saved``, which returns a dictionary of what it holds (numbers, strings, arrays,
other such objects), and ``_from_saved``, which builds the object from that dictionary again. Dataclasses and named
tuples need neither. :mod:`nearcal.persistence` keeps the list of these classes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nearcal._errors import InvalidInputError


def saved_array(
    saved: Mapping[str, Any], name: str, dtype: DTypeLike, shape: tuple[int | None, ...], *, finite: bool = False
) -> NDArray[Any]:
    """Return an array, refusing another dtype or shape, and what is not finite; None stands for any length."""
    array = saved[name]
    if not isinstance(array, np.ndarray):
        raise InvalidInputError(f"{name} must be an array, got {type(array).__name__}")
    agrees = len(array.shape) == len(shape) and all(
        wanted in (None, length) for length, wanted in zip(array.shape, shape, strict=True)
    )
    if array.dtype != dtype or not agrees:
        wanted = "(" + ", ".join("any" if length is None else str(length) for length in shape) + ")"
        raise InvalidInputError(
            f"{name} must have dtype {np.dtype(dtype)} and shape {wanted}, got {array.dtype} and {array.shape}"
        )
    if finite and not np.isfinite(array).all():
        raise InvalidInputError(f"{name} must be finite")
    return array


def saved_numbers(saved: Mapping[str, Any], name: str, length: int, stop: int) -> NDArray[Any]:
    """Return an int32 array of shape (length,) that counts something: rows, columns, cells; all in 0..stop-1."""
    numbers = saved_array(saved, name, np.int32, (length,))
    if length and not (numbers.min() >= 0 and numbers.max() < stop):
        raise InvalidInputError(f"{name} must lie between 0 and {stop - 1}, got {numbers.min()} to {numbers.max()}")
    return numbers


def require(condition: Any, rule: str) -> None:
    """Refuse a saved state that breaks a rule."""
    if not condition:
        raise InvalidInputError(rule)
