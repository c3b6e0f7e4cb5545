"""Monte-Carlo dropout: every draw is one thinned network, the same for all rows.

A mask is drawn once a draw, not once a row. That is what a draw of the weights means in Gal and Ghahramani (2016,
arXiv:1506.02142), and what Kirsch, van Amersfoort and Gal (2019, arXiv:1906.08158) call consistent dropout. Each row
has the same distribution of draws as with masks of its own, but its prediction depends on itself alone: not on the
rows beside it, on the batch, nor on the device; and calibration points and new rows pass the same networks.
"""

import math
from collections.abc import Sequence

import numpy as np

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidInputError

_ALPHA = 1.7580993408473766  # minus the value that SELU tends to on the left: what alpha dropout puts in place of zero


class Thinning:
    """The dropout masks of one draw, in the order in which the network asks for them."""

    def __init__(self, *seeds: int) -> None:
        self._rng = np.random.default_rng(seeds)
        self.count = 0

    def factors(
        self, shape: Sequence[int], rate: float, rows: int, *, keeps_moments: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return (scale, shift), each of length 1 along the batch: a thinned x is ``x * scale + shift``.

        Parameters
        ----------
        shape : sequence of int
            Shape of the mask of a whole batch, the batch first; 1 where entries share their fate.
        rate : float
            Probability of an entry being dropped.
        rows : int
            Number of rows in the batch.
        keeps_moments : bool
            True for alpha dropout, which goes with SELU: dropped entries become a negative constant, and all are
            mapped so that mean and variance stay.
        """
        if not shape or shape[0] not in (1, rows):
            raise InvalidInputError(
                f"mc_dropout needs the batch first in what a dropout layer receives, {rows} rows, got shape "
                f"{tuple(shape)}; transpose it inside the model"
            )
        self.count += 1
        kept = (self._rng.random((1, *shape[1:])) >= rate).astype(np.float64)
        if rate == 1:
            return kept, np.zeros_like(kept)
        if not keeps_moments:
            return kept / (1 - rate), np.zeros_like(kept)
        slope = 1 / math.sqrt((1 - rate) * (1 + rate * _ALPHA**2))
        return slope * kept, slope * _ALPHA * (kept - 1 + rate)
