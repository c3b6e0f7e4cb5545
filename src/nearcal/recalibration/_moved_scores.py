"""A finder of neighbourhoods whose neighbours come with scores of their own."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from nearcal._arrays import FloatArray, IntArray
from nearcal.recalibration._adjustment import LinearAdjustment
from nearcal.recalibration._chunks import Workers
from nearcal.recalibration._neighborhoods import Finder, Neighborhoods, Rows
from nearcal.recalibration._shrinkage import Shrinkage


@dataclass(frozen=True)
class MovedScores:
    """Neighbourhoods found by another finder, whose scores are adjusted to the row, shrunk, or both."""

    is_shared: ClassVar[bool] = False
    moves_scores: ClassVar[bool] = True

    finder: Finder
    z: FloatArray
    adjustment: LinearAdjustment | None
    queries: FloatArray | None  # where rows are, for the adjustment
    shrinkage: Shrinkage | None

    @property
    def pairs_per_row(self) -> int:
        """Return that of the finder."""
        return self.finder.pairs_per_row

    def order(self) -> IntArray | None:
        """Return the order that suits the finder."""
        return self.finder.order()

    def find(self, rows: Rows) -> Neighborhoods:
        """Search a chunk of rows and move the scores."""
        found = self.finder.find(rows)
        if self.adjustment is not None and self.queries is not None:
            found = self.adjustment.move(found, self.queries[rows], self.z)
        return found if self.shrinkage is None else self.shrinkage.move(found, self.z)

    def take(self, rows: IntArray) -> Self:
        """Return the finder of the chosen rows."""
        queries = None if self.queries is None else self.queries[rows]
        return replace(self, finder=self.finder.take(rows), queries=queries)

    def isolation(self, found: Neighborhoods, rows: Rows) -> FloatArray:
        """Return what the finder says."""
        return self.finder.isolation(found, rows)

    def own_isolation(self, workers: Workers) -> FloatArray:
        """Return what the finder says."""
        return self.finder.own_isolation(workers)
