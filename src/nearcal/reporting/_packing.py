"""Arrays as text: typed, little-endian, base64; what `page/arrays.js` unpacks."""

from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray

_STEPS = 2**16 - 1
_MOST_DISTINCT = 4096  # beyond, a list of values is longer than the values themselves


def pack(array: NDArray[Any], kind: str) -> dict[str, Any]:
    """Pack an array as it is, in C order; kind is uint8, uint16, uint32 or float32."""
    data = np.ascontiguousarray(array, dtype=np.dtype(kind).newbyteorder("<"))
    return {"kind": kind, "data": b64encode(data.tobytes()).decode("ascii")}


def pack_scaled(values: FloatArray, low: float, high: float) -> dict[str, Any]:
    """Pack numbers as 65,535 steps from low to high; what lies beyond is moved to the end."""
    span = high - low if high > low else 1.0
    steps = np.clip(np.rint((values - low) / span * _STEPS), 0, _STEPS)
    return {**pack(steps, "uint16"), "low": float(low), "high": float(low + span)}


def pack_numbers(values: FloatArray) -> dict[str, Any]:
    """Pack numbers so that they read as they were: places in a list if few differ, else to seven digits."""
    distinct, place = np.unique(values, return_inverse=True)
    if len(distinct) > _MOST_DISTINCT:
        return pack(values, "float32")
    listed = [None if np.isnan(value) else value for value in distinct.tolist()]
    return {**pack(place, "uint8" if len(distinct) <= 256 else "uint16"), "values": listed}
