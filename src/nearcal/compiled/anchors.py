"""Anchors: places between calibration points where it is known what a network gets wrong."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray
from nearcal._saved import array, number, require, savable
from nearcal.compiled.features import Singles, by_blocks
from nearcal.compiled.network import DESCRIBED, LEVEL_SCORES

NEAREST = 8  # anchors that speak for a row
LEAST_WEIGHT = 1e-6  # where all are equally far, they weigh the same
_ROWS = 512  # looked up at a time: distances to all anchors are held
_OUTPUTS = len(LEVEL_SCORES) + DESCRIBED


@savable(centers=array(np.float32, (None, None)), least=number(1e-300), outputs=array(np.float32, (None, _OUTPUTS)))
@dataclass(frozen=True)
class Anchors:
    """What is added to the outputs of a network: at each anchor what they lack there, and between them a blend.

    Of the eight nearest anchors l, at distances r_l, each has the weight 1 - (r_l / u)², with u the distance to the
    ninth: what is added is continuous, and passes from one anchor to the next. Distances are those of the scaled space,
    within the box of the calibration points, in double precision.

    Attributes
    ----------
    centers : ndarray of shape (a, d)
        Where they are: between calibration points, at none of them.
    least : float
        Squared distances below this are rounding.
    outputs : ndarray of shape (a, o)
        What outputs lack there.
    """

    centers: Singles
    least: float
    outputs: Singles

    def __post_init__(self) -> None:
        require(len(self.centers) == len(self.outputs), f"outputs must be of {len(self.centers)} anchors")
        require(len(self.centers) > NEAREST, f"there must be more than {NEAREST} anchors, got {len(self.centers)}")

    @classmethod
    def of(cls, centers: Singles, outputs: FloatArray) -> "Anchors":
        """Return anchors, given what outputs lack at each."""
        spread = float((centers.astype(np.float64) ** 2).sum(axis=1).max())
        return cls(centers, max(1e-12 * spread, 1e-30), outputs.astype(np.float32))

    @property
    def origin(self) -> FloatArray:
        """The middle of all, from which distances are computed."""
        return self.centers.astype(np.float64).mean(axis=0)

    def __call__(self, inside: Singles) -> Singles:
        """Return what is added to the outputs of rows at points in the box, (n, o)."""
        added = np.empty((len(inside), self.outputs.shape[1]), np.float32)
        origin, centers = self.origin, self.centers - self.origin
        lengths = (centers * centers).sum(axis=1)

        def squares(blocks: Any) -> Any:
            return (blocks * blocks).sum(axis=-1, keepdims=True) + lengths - 2 * (blocks @ centers.T)

        for start in range(0, len(inside), _ROWS):
            distances = by_blocks(squares, inside[start : start + _ROWS] - origin)
            near = np.argpartition(distances, NEAREST, axis=1)[:, : NEAREST + 1]
            weights = self._weights(np.take_along_axis(distances, near, axis=1))
            total = np.zeros((len(near), added.shape[1]), np.float32)
            for own, weight in zip(near.T, weights.T, strict=True):
                total += weight[:, np.newaxis] * self.outputs[own]
            added[start : start + _ROWS] = total
        return added

    def _weights(self, distances: FloatArray) -> Singles:
        """Return the weights of anchors at squared distances (n, 9), the farthest of which has next to none."""
        reach = np.maximum(distances.max(axis=1, keepdims=True), self.least)
        weights = np.maximum(1 - np.maximum(distances, 0.0) / reach, 0.0) + LEAST_WEIGHT
        return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
