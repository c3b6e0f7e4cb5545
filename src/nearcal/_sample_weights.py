"""Weights of calibration points: how much each counts beside the others, by age, importance or covariate shift.

Weights are relative. They are brought to a mean of 1 over the points that have any, so that the weight of a few points
is a number of average ones, and k neighbours are the nearest points of weight k. Points of weight zero are taken out
before anything is learnt. Equal weights are no weights.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, IntArray, as_float_array, require_finite
from nearcal._errors import InvalidInputError
from nearcal._saved import require, savable, saved_array

_LIGHTEST = (
    1e-9  # of the heaviest: what weighs less moves no probability that anybody looks at, and is as good as absent
)
ENOUGH = 1 - 1e-12  # of a weight asked for: sums of weights round


@savable
class PointWeights:
    """Positive weights of n points, not all equal.

    Parameters
    ----------
    given : ndarray of shape (n,)
        As they were given.

    Attributes
    ----------
    relative : ndarray of shape (n,)
        The same with a mean of 1.
    effective_size : float
        Kish's (Σ a)² / Σ a²: the number of equal points whose mean varies as much.
    """

    def __init__(self, given: FloatArray) -> None:
        self.given = given
        scaled = given / given.max()  # sums neither overflow nor vanish
        self.relative = scaled / scaled.mean()
        self.effective_size = effective_size(self.relative)

    def __len__(self) -> int:
        return len(self.given)

    def take(self, rows: IntArray) -> Self:
        """Return the weights of some points, or of all in another order."""
        return type(self)(self.given[rows])

    def _to_saved(self) -> dict[str, Any]:
        return {"given": self.given}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        # a copy, writable as weights are after a fit: kernels are compiled for one kind of array
        given = saved_array(saved, "given", np.float64, (None,)).copy()
        require(given.min() >= _LIGHTEST * given.max() > 0, "given must be positive weights, none far below the others")
        return cls(given)


def effective_size(weights: FloatArray) -> float:
    """Return Kish's effective size (Σ a)² / Σ a² of weights."""
    return float(weights.sum() ** 2 / (weights**2).sum())


def as_point_weights(sample_weight: Any, n: int) -> tuple[IntArray | None, PointWeights | None]:
    """Return which of n points have a weight, None for all of them, and their weights, None if these are equal.

    Parameters
    ----------
    sample_weight : array_like of shape (n,) or (n, 1), or None
        Not negative, finite, not all zero.
    n : int
    """
    if sample_weight is None:
        return None, None
    weights = as_float_array(sample_weight, "sample_weight")
    if weights.shape not in ((n,), (n, 1)):
        raise InvalidInputError(
            f"sample_weight must have shape ({n},) or ({n}, 1), one weight a calibration row, got {weights.shape}"
        )
    weights = weights.reshape(n)
    require_finite(weights, "sample_weight", "give a row that shall not count the weight 0")
    if weights.min() < 0:
        first = int(np.argmax(weights < 0))
        raise InvalidInputError(
            f"sample_weight must not be negative, got {int((weights < 0).sum())} negative of {n} weights, the first at "
            f"index {first}: {float(weights[first])!r}; give a row that shall not count the weight 0"
        )
    if not weights.max() > 0:
        raise InvalidInputError("sample_weight must be positive for at least one row, got zeros alone")
    rows = np.flatnonzero(weights >= _LIGHTEST * weights.max())
    return None if len(rows) == n else rows, weights_of(weights[rows])


def weights_of(given: FloatArray) -> PointWeights | None:
    """Return positive weights as such; None if they are equal."""
    return None if (given == given[0]).all() else PointWeights(given)


def common_weight(sample_weight: Any) -> float:
    """Return the weight of each point where all have the same: what points that are added later count beside."""
    return 1.0 if sample_weight is None else float(as_float_array(sample_weight, "sample_weight").max())


def keep_rows(value: Any, rows: IntArray | None, n: int, name: str) -> Any:
    """Return the rows of an array of n rows that have a weight; the array as it is where all have one."""
    if rows is None or value is None:
        return value
    array = as_float_array(value, name)
    if array.ndim == 0 or len(array) != n:
        raise InvalidInputError(f"{name} must have {n} rows, one a row of the distribution, got shape {array.shape}")
    return array[rows]


def average(values: FloatArray, weights: PointWeights | None) -> float:
    """Return the mean, weighted where there are weights."""
    return float(values.mean() if weights is None else (weights.relative * values).sum() / len(values))
