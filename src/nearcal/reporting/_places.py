"""The regions a report looks at: described for the first method, and once more for the last."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearcal.diagnostics import Regions
from nearcal.diagnostics._described_regions import find_regions, split_rows
from nearcal.diagnostics._features import Feature
from nearcal.diagnostics._region_words import EVERYWHERE
from nearcal.reporting._judgement import Observed

_SEARCH = 0.5  # share of the rows that regions are searched in; they are tested on the others


@dataclass(frozen=True)
class Places:
    """Regions with the rows to test them on, the features that describe them, and those found for the last alone."""

    regions: Regions
    features: tuple[str, ...]
    anew: frozenset[str]


def describe_places(
    observed: Sequence[Observed], columns: Sequence[Feature], generator: np.random.Generator
) -> Places | None:
    """Search the regions of every method; None without features."""
    if not columns:
        return None
    searched = split_rows(len(columns[0].values), _SEARCH, generator)
    trees = [find_regions(one.pit, one.covered, columns, searched) for one in observed]
    named = {
        name: rows for tree in trees for name, rows in zip(tree.regions.names.tolist(), tree.regions.rows, strict=True)
    }
    if len(named) > 1:  # all rows are judged by themselves
        named.pop(EVERYWHERE, None)
    regions = Regions(np.array(list(named)), tuple(named.values()))
    features = tuple(dict.fromkeys(name for tree in trees for name in tree.features))
    return Places(regions, features, frozenset(named) - set(trees[0].regions.names.tolist()))


def all_rows(n: int) -> Regions:
    """Return the region of all rows."""
    return Regions(np.array([EVERYWHERE]), (np.arange(n),))
