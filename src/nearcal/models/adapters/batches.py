"""Batches of a network: rows of arrays in and out, singly or in tuples and mappings, and the dropout masks between.

Monte-Carlo dropout: every draw is one thinned network, the same for all rows. A mask is drawn once a draw, not once a
row. That is what a draw of the weights means in Gal and Ghahramani (2016, arXiv:1506.02142), and what Kirsch, van
Amersfoort and Gal (2019, arXiv:1906.08158) call consistent dropout. Each row has the same distribution of draws as
with masks of its own, but its prediction depends on itself alone: not on the rows beside it, on the batch, nor on the
device; and calibration points and new rows pass the same networks.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, as_float_array
from nearcal._errors import InvalidInputError
from nearcal.distributions import Distribution, concatenate

# what describes a distribution where a position is asked for: finite for every family, in units of the response
_DESCRIBING_LEVELS = (0.1, 0.5, 0.9)
_ALPHA = 1.7580993408473766  # minus the value that SELU tends to on the left: what alpha dropout puts in place of zero


class Inputs:
    """The n inputs of a network: one array, or a tuple or mapping of arrays that it takes together.

    Tensors stay tensors; all else becomes a float64 array.
    """

    def __init__(self, X: Any) -> None:
        self.given = X
        self.parts = map_leaves(_as_rows, X, (tuple,))  # a list is an array
        lengths = {len(part) for part in leaves(self.parts)}
        if len(lengths) != 1 or 0 in lengths:
            raise InvalidInputError(
                f"X must hold arrays of one common length >= 1, one row an input, got lengths {sorted(lengths)}"
            )
        self.count = lengths.pop()

    def __len__(self) -> int:
        """Return the number of inputs."""
        return self.count

    def batches(self, size: int) -> Iterator[slice]:
        """Return the rows of batch after batch."""
        return (slice(start, min(start + size, self.count)) for start in range(0, self.count, size))

    def take(self, rows: slice) -> Any:
        """Return some rows, as an array, tuple or dictionary of arrays."""
        return map_leaves(lambda part: part[rows], self.parts)

    def positions(self) -> FloatArray:
        """Return the inputs as a table (n, d)."""
        return positions(map_leaves(lambda part: as_float_array(part, "X"), self.parts))


def _as_rows(part: Any) -> Any:
    rows = part.detach() if hasattr(part, "detach") else as_float_array(part, "X")
    if not rows.ndim:
        raise InvalidInputError("X must have one row an input, got a single number")
    return rows


def map_leaves(function: Callable[[Any], Any], tree: Any, sequences: tuple[type[Any], ...] = (tuple, list)) -> Any:
    """Apply a function to all that hangs in sequences and mappings, which become tuples and dictionaries."""
    if isinstance(tree, Mapping):
        return {key: map_leaves(function, value, sequences) for key, value in tree.items()}
    if isinstance(tree, sequences):
        return tuple(map_leaves(function, value, sequences) for value in tree)
    return None if tree is None else function(tree)


def leaves(tree: Any) -> Iterator[Any]:
    """Return what hangs in tuples, lists and mappings, in order."""
    if isinstance(tree, Mapping):
        tree = tuple(tree.values())
    if isinstance(tree, tuple | list):
        for branch in tree:
            yield from leaves(branch)
    elif tree is not None:
        yield tree


def join(outputs: Sequence[Any]) -> Any:
    """Join the outputs of batches, trees of one shape, leaf by leaf."""
    first = outputs[0]
    if isinstance(first, Mapping):
        return {key: join([output[key] for output in outputs]) for key in first}
    if isinstance(first, tuple):
        return tuple(join(branches) for branches in zip(*outputs, strict=True))
    if isinstance(first, Distribution):
        return concatenate(outputs)
    return None if first is None else np.concatenate(outputs)


def require_rows(output: Any, rows: int) -> None:
    """Refuse an output with anything in it that does not have one row an input."""
    for leaf in leaves(output):
        size = len(leaf) if isinstance(leaf, Distribution) or leaf.ndim else 0
        if size != rows:
            what = f"{size} distributions" if isinstance(leaf, Distribution) else f"an array of shape {leaf.shape}"
            raise InvalidInputError(
                f"the model must put out one row an input, its first dimension that of the batch, got {what} for a "
                f"batch of {rows}; wrap the model so that it returns such outputs alone"
            )


def positions(output: Any) -> FloatArray:
    """Return an output as a table (n, d): arrays flattened, distributions as their deciles and median."""
    return np.concatenate([_flat(leaf) for leaf in leaves(output)], axis=1)


def _flat(leaf: Distribution | NDArray[Any]) -> FloatArray:
    if isinstance(leaf, Distribution):
        return leaf.ppf(_DESCRIBING_LEVELS)
    return leaf.reshape(len(leaf), -1)


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
