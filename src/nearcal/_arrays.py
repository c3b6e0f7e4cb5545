"""Validation at the public boundary: anything array-like in, plain float64 numpy arrays out."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nearcal._errors import InvalidInputError, InvalidParameterError

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]

#: The largest response, and the largest parameter of a distribution: sums and differences of some of them are numbers.
LARGEST = 1e300


def as_float_array(value: Any, name: str) -> FloatArray:
    """Convert numpy, pandas, polars, torch or nested lists to float64; refuse what is not real numbers."""
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value
    array = _to_numpy(value, name)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64, copy=False)
    if value is None or (array.dtype == object and array.ndim == 0):  # numpy makes no array of it
        raise InvalidInputError(
            f"{name} must be an array of real numbers, got {None if value is None else type(value).__name__}"
        )
    raise InvalidInputError(
        f"{name} must hold real numbers, got an array of dtype {array.dtype}; convert it to float first"
    )


def _to_numpy(value: Any, name: str) -> NDArray[Any]:
    if hasattr(value, "detach"):  # a torch tensor: recognised by what it can do, so that torch is never imported
        value = value.detach().cpu()
        if "bfloat16" in str(value.dtype):  # numpy has no such type
            value = value.float()
    if hasattr(value, "to_numpy"):  # pandas and polars
        value = _frame_to_numpy(value)
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        masked = int(np.ma.getmaskarray(value).sum())
        raise InvalidInputError(f"{name} must not be masked, got {masked} masked entries; drop those rows first")
    try:
        return np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:  # torch raises the last
        raise InvalidInputError(f"{name} must be an array of numbers, got {type(value).__name__}: {error}") from error


def _frame_to_numpy(frame: Any) -> NDArray[Any]:
    """Convert a pandas or polars table; pandas makes objects of columns of several types, such as dummy variables."""
    array: NDArray[Any] = frame.to_numpy()
    kinds = [getattr(dtype, "kind", "O") for dtype in np.ravel(getattr(frame, "dtypes", []))]
    if array.dtype == object and kinds and all(kind in "biuf" for kind in kinds):
        array = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return array


def require_finite(array: FloatArray, name: str, remedy: str = "drop or impute those rows") -> None:
    """Refuse NaN and infinities, saying how many there are and where the first one is."""
    bad = ~np.isfinite(array)
    if bad.any():
        _report_bad(array, bad, name, "be finite", remedy)


def require_sized(array: FloatArray, name: str) -> None:
    """Refuse NaN, infinities, and numbers so large that their sums are none."""
    bad = ~(np.abs(array) <= LARGEST)
    if bad.any():
        require_finite(array, name)
        remedy = "give responses and predictions in a larger unit, or drop those rows"
        _report_bad(array, bad, name, f"lie between {-LARGEST:g} and {LARGEST:g}", remedy)


def require_no_nan(array: FloatArray, name: str) -> None:
    """Refuse NaN; infinities are legitimate arguments of a cdf or of a normal score."""
    bad = np.isnan(array)
    if bad.any():
        _report_bad(array, bad, name, "not be NaN", "drop or impute those entries")


def require_positive(array: FloatArray, name: str) -> None:
    """Refuse zero and negative values."""
    bad = ~(array > 0)
    if bad.any():
        _report_bad(array, bad, name, "be positive", "check the model's output; exponentiate a log-scale first")


def require_shape(array: FloatArray, name: str, least: float, most: float) -> None:
    """Refuse shapes of a family that are not positive, or beyond what its formulas hold for."""
    require_positive(array, name)
    bad = (array < least) | (array > most)
    if bad.any():
        remedy = "bound it in the model: beyond, a distribution is but a point, or spread over more than all numbers"
        _report_bad(array, bad, name, f"lie between {least:g} and {most:g}", remedy)


def _report_bad(array: FloatArray, bad: NDArray[np.bool_], name: str, rule: str, remedy: str) -> None:
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    where = first[0] if len(first) == 1 else first
    at = f" at index {where}" if array.ndim else ""
    raise InvalidInputError(
        f"{name} must {rule}, got {int(bad.sum())} bad of {array.size} values, the first{at}: "
        f"{float(array[first])!r}; {remedy}"
    )


def as_response(y: Any, n: int, name: str) -> FloatArray:
    """Validate observed responses: shape (n,) or (n, 1), of numbers up to 1e300; returns (n,)."""
    array = as_float_array(y, name)
    if array.shape not in ((n,), (n, 1)):
        raise InvalidInputError(
            f"{name} must have shape ({n},) or ({n}, 1), one response a row of the distribution, got {array.shape}"
        )
    require_sized(array, name)
    return array.reshape(n)


def as_space(space: Any, name: str, n: int | None = None, columns: int | None = None) -> FloatArray:
    """Validate positions: shape (n, d), finite; (n,) is taken as (n, 1). Returns a copy: they are searched later.

    Of new ones ``columns`` is the d that calibration points had.
    """
    array = as_float_array(space, name)
    hint = "; one row of d columns has shape (1, d)" if array.ndim == n == 1 else ""
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidInputError(f"{name} must have shape (n, d) with d >= 1, got {array.shape}")
    if n is not None and len(array) != n:
        raise InvalidInputError(f"{name} must have {n} rows, one a row of the distribution, got {len(array)}{hint}")
    require_finite(array, name)
    if columns is not None and array.shape[1] != columns:
        raise InvalidInputError(f"{name} must have {columns} columns as space_cal had in fit, got {array.shape[1]}")
    return np.array(array, order="C")


def as_columns(value: Any, name: str) -> FloatArray:
    """Validate an (n, s) table of numbers up to 1e300 with at least one row and one column."""
    array = as_float_array(value, name)
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidInputError(f"{name} must have shape (n, s) with n >= 1 and s >= 1, got {array.shape}")
    require_sized(array, name)
    return array


def broadcast_parameters(**parameters: Any) -> dict[str, FloatArray]:
    """Broadcast scalars, (n,) and (n, 1) parameters to read-only arrays of one common shape (n,)."""
    arrays = dict(zip(parameters, map(_as_parameter, parameters.values(), parameters), strict=True))
    n = max(map(len, arrays.values()))
    for name, array in arrays.items():
        if len(array) not in (1, n):
            shapes = ", ".join(f"{other} has {len(a)}" for other, a in arrays.items())
            raise InvalidInputError(f"{name} must be a scalar or have {n} values like the longest parameter; {shapes}")
        arrays[name] = np.broadcast_to(array, n)
    return arrays


def _as_parameter(value: Any, name: str) -> FloatArray:
    array = as_float_array(value, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim > 1:
        raise InvalidInputError(f"{name} must be a scalar or have shape (n,) or (n, 1), got {array.shape}")
    if array.size == 0:
        raise InvalidInputError(f"{name} must not be empty: a batch has at least one row, got shape {array.shape}")
    require_sized(array, name)
    return np.array(array, ndmin=1)  # a copy: a frozen batch must not change when the caller's array does


def as_rows(rows: Any, n: int) -> IntArray:
    """Turn an int, slice, mask or index array into non-negative row numbers."""
    if isinstance(rows, slice):
        return np.arange(*rows.indices(n))
    array = _to_numpy(rows, "rows")
    if array.dtype.kind == "b":
        if array.shape != (n,):
            raise InvalidInputError(f"a row mask must have shape ({n},), got {array.shape}")
        return np.flatnonzero(array)
    if array.size == 0:
        array = array.astype(np.intp)
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise InvalidInputError(
            f"rows must be an int, a slice, a boolean mask or a 1-d array of integers, "
            f"got dtype {array.dtype}, shape {array.shape}"
        )
    array = np.atleast_1d(array).astype(np.intp)
    outside = (array < -n) | (array >= n)
    if outside.any():
        raise IndexError(f"row {int(array[outside][0])} is out of range for a batch of {n} rows")
    return np.where(array < 0, array + n, array)


def check_choices(options: Mapping[str, tuple[Any, Sequence[str]]]) -> None:
    """Refuse options, given with the names that each may have, that have none of these."""
    for name, (value, choices) in options.items():
        if value not in choices:
            check_choice(value, choices, name)


def check_choice(value: Any, choices: Sequence[str], name: str) -> None:
    """Refuse an option that is not one of the known names."""
    if value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise InvalidParameterError(f"{name} must be one of {known}, got {value!r}")


def check_count(value: Any, name: str, minimum: int = 1) -> int:
    """Validate a whole number >= minimum; numpy integers are fine, bools and floats are not."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < minimum:
        raise InvalidParameterError(f"{name} must be a whole number >= {minimum}, got {value!r}")
    return int(value)


def as_generator(rng: Any) -> np.random.Generator:
    """Return the generator that a seed stands for: what numpy takes for one, unless it is a text or a truth value."""
    try:
        if not isinstance(rng, bool | np.bool_ | str | bytes):
            return np.random.default_rng(rng)
    except (TypeError, ValueError):
        pass
    raise InvalidParameterError(
        f"rng must be a whole number >= 0, a numpy.random.Generator or SeedSequence, or None, got {rng!r}; "
        "a number gives the same draws every time, None others"
    )


def check_number(value: Any, name: str, least: float, *, strict: bool = False) -> None:
    """Validate a finite real number >= least, or > least if strict."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not np.isfinite(value) or value < least or (strict and value == least):
        raise InvalidParameterError(
            f"{name} must be a finite number {'>' if strict else '>='} {least:g}, got {value!r}"
        )
