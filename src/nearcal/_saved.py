"""What may stand in a file, and what it is checked for before it is used: compiled code trusts sizes and row numbers.

A class takes part in saving by the decorator :func:`savable`. A file can name no other class, and nothing in it is ever
executed. What an object holds (numbers, strings, arrays, other such objects) is, by name,

- for dataclasses and named tuples their fields, each with a check: ``@savable(center=float_array(1), name=text)``;
- for other classes what ``_to_saved`` returns, from which ``_from_saved`` builds the object again. It takes over
  nothing unchecked: it asks for values one by one (:func:`saved_array` and its like), or for all at once
  (:func:`check_fields`).

:mod:`nearcal.persistence` writes and reads the files.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nearcal._errors import InvalidInputError

Check: TypeAlias = Callable[[str, Any], Any]  # takes a name and what a file holds for it, and returns that or raises
Class = TypeVar("Class", bound=type[Any])

_MOST = 2**31 - 1  # rows are numbered by int32

# ---- the classes ----------------------------------------------------------------------------------------------------

_CLASSES: dict[str, tuple[type[Any], Mapping[str, Check]]] = {}


@overload
def savable(cls: Class, /) -> Class: ...
@overload
def savable(cls: None = None, /, **checks: Check) -> Callable[[Class], Class]: ...
def savable(cls: Any = None, /, **checks: Check) -> Any:
    """Let objects of a class stand in files, under the name of the class, which no other class may have.

    The checks are those of the fields of a dataclass or a named tuple, all of them. A class with ``_from_saved`` may
    declare checks as well, and apply those of :func:`declared_checks` itself.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @savable(low=number(), high=number())
    ... @dataclass
    ... class Range:
    ...     low: float
    ...     high: float
    >>> from_saved("Range", {"low": 1.0, "high": 2.0})
    Range(low=1.0, high=2.0)
    """

    def register(cls: Class) -> Class:
        names = _field_names(cls)
        has_fields = is_dataclass(cls) or hasattr(cls, "_fields")
        if not hasattr(cls, "_from_saved") and (not has_fields or set(names) != set(checks)):
            raise TypeError(f"{cls.__name__} must have _from_saved, or a check for each of its fields {names}")
        known = _CLASSES.get(cls.__name__, (cls, {}))[0]
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"two classes named {cls.__name__} cannot be told apart in a file: {known} and {cls}")
        _CLASSES[cls.__name__] = cls, checks
        return cls

    return register if cls is None else register(cls)


def declared_checks(cls: type[Any]) -> Mapping[str, Check]:
    """Return the checks that a class was made savable with."""
    return _CLASSES[cls.__name__][1]


def savable_classes() -> Mapping[str, type[Any]]:
    """Return the classes known so far, by name."""
    return {name: cls for name, (cls, _) in _CLASSES.items()}


def is_savable(value: Any) -> bool:
    """Tell whether objects of the class of this one are saved; those of a class derived from it need not be."""
    return _CLASSES.get(type(value).__name__, (None,))[0] is type(value)


def to_saved(value: Any) -> dict[str, Any]:
    """Return what an object holds, by name."""
    if hasattr(value, "_to_saved"):
        return value._to_saved()
    return {name: getattr(value, name) for name in _field_names(type(value))}


def from_saved(name: str, saved: Mapping[str, Any]) -> Any:
    """Build the object of a known class that ``to_saved`` had taken apart."""
    cls, checks = _CLASSES[name]
    return cls._from_saved(saved) if hasattr(cls, "_from_saved") else cls(**check_fields(saved, checks))


def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls)) if is_dataclass(cls) else getattr(cls, "_fields", ())


# ---- checks by name -------------------------------------------------------------------------------------------------


def check_fields(saved: Any, checks: Mapping[str, Check]) -> dict[str, Any]:
    """Return what a file holds for an object, refusing a name too many, a name too few, and values of another kind."""
    require(isinstance(saved, Mapping), f"the fields {', '.join(checks)} must have names, got {type(saved).__name__}")
    for name in checks:
        require(name in saved, f"{name!r} is missing")
    for name in saved:
        require(name in checks, f"{name!r} is no field; there are {', '.join(checks)}")
    return {name: checks[name](name, value) for name, value in saved.items()}


def anything(name: str, value: Any) -> Any:
    """Take any value: what comes from a file is numbers, strings, arrays, and objects that were checked themselves."""
    return value


def text(name: str, value: Any) -> str:
    """Refuse what is no string."""
    return instance(str)(name, value)


def flag(name: str, value: Any) -> bool:
    """Refuse what is neither True nor False."""
    return instance(bool)(name, value)


def count(least: int = 1, most: int = _MOST) -> Check:
    """Refuse what is no whole number from ``least`` to ``most``."""

    def check(name: str, value: Any) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        require(
            is_whole and least <= value <= most, f"{name} must be a whole number of {least} to {most}, got {value!r}"
        )
        return value

    return check


def number(least: float = -np.inf, *, finite: bool = True) -> Check:
    """Refuse what is no number, or less than ``least``, or, unless said otherwise, infinite."""

    def check(name: str, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        require(
            is_number and value >= least and (np.isfinite(value) or not finite),
            f"{name} must be a {'finite ' if finite else ''}number of at least {least}, got {value!r}",
        )
        return float(value)  # of another type, kernels would be compiled again

    return check


def one_of(*known: Any) -> Check:
    """Refuse all but the values given."""

    def check(name: str, value: Any) -> Any:
        is_known = any(type(value) is type(other) and value == other for other in known)
        require(is_known, f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
        return value

    return check


def instance(*classes: type[Any]) -> Check:
    """Refuse objects of other classes."""

    def check(name: str, value: Any) -> Any:
        kinds = " or ".join(cls.__name__ for cls in classes)
        require(isinstance(value, classes), f"{name} must be of class {kinds}, got {type(value).__name__}")
        return value

    return check


def having(*attributes: str) -> Check:
    """Refuse objects without some attributes, for classes that share a protocol and no base."""

    def check(name: str, value: Any) -> Any:
        for attribute in attributes:
            require(hasattr(value, attribute), f"{name} must have {attribute}, got a {type(value).__name__} without")
        return value

    return check


def optional(check: Check) -> Check:
    """Let None pass as well."""
    return lambda name, value: None if value is None else check(name, value)


def tuple_of(item: Check) -> Check:
    """Refuse what is no tuple, or has an element that does not pass."""
    return lambda name, value: tuple(item(name, each) for each in instance(tuple)(name, value))


def mapping_of(item: Check) -> Check:
    """Refuse what is no dictionary, or has a value that does not pass."""
    return lambda name, value: {
        key: item(f"{name}[{key!r}]", each) for key, each in instance(dict)(name, value).items()
    }


def array(dtype: DTypeLike, shape: tuple[int | None, ...], *, finite: bool = True) -> Check:
    """Refuse another dtype or shape, and unless said otherwise what is not finite; None is any length but 0.

    An array that is not empty is as large as its bytes in the file: so any length is one that can be worked with, and
    an empty array is let through only where its whole shape is known.
    """

    def check(name: str, value: Any) -> NDArray[Any]:
        instance(np.ndarray)(name, value)
        agrees = len(value.shape) == len(shape) and all(
            length == wanted or (wanted is None and value.size > 0)
            for length, wanted in zip(value.shape, shape, strict=True)
        )
        wanted = "(" + ", ".join("any" if length is None else str(length) for length in shape) + ")"
        require(
            value.dtype == dtype and agrees,
            f"{name} must have dtype {np.dtype(dtype)} and shape {wanted}, got {value.dtype} and {value.shape}",
        )
        # NaN is the least and the greatest of any; this way nothing as large as the array is made
        is_finite = value.dtype.kind != "f" or not value.size or np.isfinite([value.min(), value.max()]).all()
        require(is_finite or not finite, f"{name} must be finite")
        return value

    return check


def float_array(*dimensions: int) -> Check:
    """Refuse what is no finite float64 array with as many dimensions as one of those given."""

    def check(name: str, value: Any) -> NDArray[Any]:
        ndim = instance(np.ndarray)(name, value).ndim
        return array(np.float64, (None,) * (ndim if ndim in dimensions else dimensions[0]))(name, value)

    return check


# ---- values one by one, where the size of one is that of another ----------------------------------------------------


def saved_value(saved: Mapping[str, Any], name: str) -> Any:
    """Return what a file holds under a name."""
    require(name in saved, f"{name!r} is missing")
    return saved[name]


def saved_array(
    saved: Mapping[str, Any], name: str, dtype: DTypeLike, shape: tuple[int | None, ...], *, finite: bool = True
) -> NDArray[Any]:
    """Return an array, checked as :func:`array` does."""
    return array(dtype, shape, finite=finite)(name, saved_value(saved, name))


def saved_numbers(saved: Mapping[str, Any], name: str, length: int, stop: int) -> NDArray[Any]:
    """Return an int32 array of shape (length,) that counts something: rows, columns, cells; all in 0..stop-1."""
    numbers = saved_array(saved, name, np.int32, (length,))
    require(
        not length or (numbers.min() >= 0 and numbers.max() < stop),
        f"{name} must lie between 0 and {stop - 1}" + (f", got {numbers.min()} to {numbers.max()}" if length else ""),
    )
    return numbers


def require(condition: Any, rule: str) -> None:
    """Refuse a saved state that breaks a rule."""
    if not condition:
        raise InvalidInputError(rule)
