"""What a student sees of a position: columns brought to a common, bounded scale, in single precision."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray
from nearcal._saved import array, check_fields, flag, instance, require, savable
from nearcal.space import SpaceMap

Singles = NDArray[np.float32]

FARTHEST = 1e18  # of a coordinate, whose square is still a number in single precision
_KNOTS = 9  # quantiles of a column, between which its rank is interpolated
_LEAST_STEP = 1e-2  # of the range of a column: all knots together are that far apart at least
_BLOCK = 8  # rows that go through a product together: of more, some kernels of OpenBLAS treat the last ones differently


@savable(space_map=instance(SpaceMap), on_sphere=flag, low=array(np.float32, (None,)), high=array(np.float32, (None,)))
@dataclass(frozen=True)
class Box:
    """A scaled space, and the range of the calibration points in it.

    Attributes
    ----------
    space_map : SpaceMap
        To that space; ``on_sphere`` if directions are compared in it.
    low, high : ndarray of shape (d,)
        Ends of the columns there.
    """

    space_map: SpaceMap
    on_sphere: bool
    low: Singles
    high: Singles

    def __post_init__(self) -> None:
        d = self.space_map.width
        require(len(self.low) == len(self.high) == d, f"a box must have {d} columns, got {len(self.low)}")

    @classmethod
    def learn(cls, space_map: SpaceMap, positions: FloatArray, on_sphere: bool) -> Self:
        """Learn from calibration positions, as they were given."""
        points = _single(space_map(positions), on_sphere)
        return cls(space_map, on_sphere, points.min(axis=0), points.max(axis=0))

    def __call__(self, positions: FloatArray) -> Singles:
        """Return positions in that space, in single precision, brought into the box."""
        return np.clip(_single(self.space_map(positions), self.on_sphere), self.low, self.high)

    def is_of(self, features: "Features") -> bool:
        """Tell whether that is the box that features look into."""
        own, other = self.space_map, features.space_map
        parts = zip(
            (own.center, own.matrix, self.low, self.high),
            (other.center, other.matrix, features.low, features.high),
            strict=True,
        )
        return self.on_sphere == features.on_sphere and all(
            one is two or (one is not None and two is not None and np.array_equal(one, two)) for one, two in parts
        )


@savable
@dataclass(frozen=True)
class Features:
    """Every column of the scaled space twice: as it is, and as its rank among calibration points; within its range.

    Ranks tame columns with heavy tails, where a few points are all that a linear scale would show. What lies beyond the
    range of the calibration points looks to the student as if it lay on its edge: there nothing was learnt, and a
    network that went on would say anything.

    Attributes
    ----------
    space_map : SpaceMap
        To the space in which the exact recalibrator takes distances; ``on_sphere`` if it compares directions.
    low, high, center, scale : ndarray of shape (d,)
        Ends of the columns there, and what standardises them; a column that does not vary tells nothing.
    steepness, offset : ndarray of shape (d, q)
        Of the q pieces in which the rank of a standardised column u rises, each by clip(steepness · u + offset, 0, 1).
    rise : ndarray of shape (d,)
        How much it rises in each.
    """

    space_map: SpaceMap
    on_sphere: bool
    low: Singles
    high: Singles
    center: Singles
    scale: Singles
    steepness: Singles
    offset: Singles
    rise: Singles

    @classmethod
    def learn(cls, space_map: SpaceMap, positions: FloatArray, *, on_sphere: bool = False) -> Self:
        """Learn from calibration positions of shape (n, d), as they were given."""
        points = _single(space_map(positions), on_sphere).astype(np.float64)
        low, high, spread = points.min(axis=0), points.max(axis=0), points.std(axis=0)
        scale = np.where(high > low, 1 / np.where(spread > 0, spread, 1.0), 0.0)
        center = points.mean(axis=0)
        knots = np.quantile((points - center) * scale, np.linspace(0.0, 1.0, _KNOTS), axis=0).T
        reach = np.where(high > low, (high - low) * scale, 1.0)[:, np.newaxis]
        # equal quantiles, of a column with few values, are parted by next to nothing
        knots = knots + _LEAST_STEP * reach * np.arange(_KNOTS) / _KNOTS
        steepness = 1 / np.diff(knots, axis=1)
        rise = np.where(high > low, 2 / (_KNOTS - 1), 0.0)
        parts = (low, high, center, scale, steepness, -knots[:, :-1] * steepness, rise)
        most = float(np.finfo(np.float32).max)  # columns that hardly vary are stretched as far as single precision goes
        return cls(space_map, on_sphere, *(np.clip(part, -most, most).astype(np.float32) for part in parts))

    @property
    def width(self) -> int:
        """The number of features."""
        return 2 * len(self.low)

    def points(self, positions: FloatArray) -> Singles:
        """Return positions in the scaled space, in single precision."""
        return _single(self.space_map(positions), self.on_sphere)

    def inside(self, points: Singles) -> Singles:
        """Return points brought into the box of the calibration points."""
        return np.clip(points, self.low, self.high)

    def __call__(self, inside: Singles) -> Singles:
        """Return the features of points in the box, shape (n, 2d)."""
        standard = (inside - self.center) * self.scale
        way = standard[:, :, np.newaxis] * self.steepness + self.offset
        ranks = np.clip(way, np.float32(0), np.float32(1)).sum(axis=2) * self.rise - np.float32(1)
        return np.concatenate([standard, ranks], axis=1)

    def _to_saved(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        ends = dict.fromkeys(("low", "high", "center", "scale", "rise"), array(np.float32, (None,)))
        tables = dict.fromkeys(("steepness", "offset"), array(np.float32, (None, None)))
        known = check_fields(saved, {"space_map": instance(SpaceMap), "on_sphere": flag, **ends, **tables})
        d = known["space_map"].width
        require(all(len(known[name]) == d for name in ends), f"features must have {d} columns")
        steps = known["offset"].shape[1]
        require(all(known[name].shape == (d, steps) for name in tables), f"ranks of features must be of {d} columns")
        return cls(**known)


def _single(points: FloatArray, on_sphere: bool) -> Singles:
    if on_sphere:
        points = points / np.sqrt((points * points).sum(axis=1, keepdims=True))
    return np.clip(points, -FARTHEST, FARTHEST).astype(np.float32)


def by_blocks(function: Callable[[Any], Any], rows: Any) -> Any:
    """Ask a function of matrix products of n rows; all products have one shape, so that no row depends on others."""
    n = len(rows)
    blocks = np.zeros((-(-n // _BLOCK) * _BLOCK, rows.shape[1]), rows.dtype)
    blocks[:n] = rows
    answers = function(blocks.reshape(-1, _BLOCK, rows.shape[1]))
    return answers.reshape(len(blocks), -1)[:n]
