"""Leaves of tree ensembles as a space: near are rows that fall into the same leaves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray

DIMENSIONS = 256  # distances are right to √(1/512), 4%; with 64, recalibration lost a quarter of what leaves gain it
_WORDS = DIMENSIONS // 64


@dataclass(frozen=True)
class Trees:
    """The trees of a fitted ensemble.

    ``numbers(X)`` tells the leaf of every row in every tree, shape (n, trees); ``values[t][number]`` is what that
    leaf of tree t contributes to the prediction; ``values`` is empty where a leaf holds more than a number.
    """

    numbers: Callable[[Any], NDArray[np.int64]]
    values: Sequence[FloatArray] = ()

    def shared_leaves(self, X: Any) -> FloatArray:
        """Return positions of shape (n, 256) whose squared distances estimate the share of trees that part two rows."""
        return embed_leaves(self.numbers(X))

    def leaf_values(self, X: Any) -> FloatArray:
        """Return what every tree contributes to the prediction, shape (n, trees)."""
        numbers = self.numbers(X)
        return np.stack([value[leaf] for value, leaf in zip(self.values, numbers.T, strict=False)], axis=1)


def applied_leaves(model: Any, X: Any) -> NDArray[np.int64]:
    """Return the leaf numbers of a model that tells them by ``apply``, as scikit-learn's do."""
    return as_leaf_numbers(model.apply(X))


def as_leaf_numbers(leaves: Any) -> NDArray[np.int64]:
    """Return leaf numbers as integers of shape (n, trees): a single tree has one column, some packages say floats."""
    numbers = np.asarray(leaves, dtype=np.int64)
    return numbers.reshape(len(numbers), -1)


def embed_leaves(numbers: NDArray[np.int64]) -> FloatArray:
    """Embed leaf numbers of shape (n, trees) in 256 dimensions.

    One column a leaf would put two rows at squared distance 2 × (trees that part them), in as many dimensions as
    there are leaves. A random projection of it by signs (Achlioptas, 2003, doi:10.1016/S0022-0000(03)00025-4) keeps
    these distances. The signs of a leaf are the bits of a hash of its tree and number, so nothing is stored, and a
    row lies in the same place in every call.
    """
    n, trees = numbers.shape
    total = np.zeros((n, DIMENSIONS), dtype=np.int32)
    words = np.arange(1, _WORDS + 1, dtype=np.uint64)
    for tree in range(trees):
        leaf = _scramble(numbers[:, tree].astype(np.uint64) + np.uint64(tree << 32))
        total += np.unpackbits(_scramble(leaf[:, np.newaxis] + words).view(np.uint8), axis=1)
    return total * np.sqrt(2 / (trees * DIMENSIONS))


def _scramble(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash integers as the generator splitmix64 does (Steele, Lea and Flood, 2014, doi:10.1145/2660193.2660195)."""
    x = x * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
