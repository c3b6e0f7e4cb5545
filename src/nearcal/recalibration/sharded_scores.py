"""The scores of rows whose calibration points lie in shards: those near a chunk of rows are gathered, and no others."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal._cached import cached_property
from nearcal.distributions import Distribution
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.corrections import LearntCorrection
from nearcal.recalibration.local_scores import LocalScores
from nearcal.recalibration.neighborhoods import KNearest, Neighborhood, Neighborhoods, Rows, WithinRadius
from nearcal.recalibration.scores_of_rows import Answers, OfBase, Statistic
from nearcal.space import MOST_PAIRS, Found, ShardedIndex

_MOST_GATHERED = 2**20  # pairs of a row and a neighbour in a chunk: their points are gathered from shards


class ScoresElsewhere(CalibrationScores):
    """The scores of a calibration set that are not here: how many there are, and whether some are equal."""

    has_ties = False

    def __init__(self, n: int, has_ties: bool) -> None:
        super().__init__(np.empty(0))
        self.n, self.has_ties = n, has_ties

    @property
    def effective_size(self) -> float:
        """The number of points."""
        return float(self.n)

    def __len__(self) -> int:
        return self.n

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.n, self.has_ties)


def find_around(index: ShardedIndex, neighborhood: Neighborhood, points: FloatArray) -> Found:
    """Return calibration points among which are all neighbours of some rows."""
    if isinstance(neighborhood, KNearest):
        return index.found_nearest(points, neighborhood.k)
    assert isinstance(neighborhood, WithinRadius)
    counts, found = index.found_within(points, float(neighborhood.radius.distance))
    thin = points[counts < neighborhood.least]
    if len(thin) and neighborhood.radius.thin == "nearest":
        found = Found.joined([found, index.found_nearest(thin, neighborhood.least)], points.shape[1])
    return found if len(found.rows) else index.found_nearest(points[:1], 1)  # an index is of one point at least


def bring_along(correction: LearntCorrection, points: FloatArray) -> LearntCorrection:
    """Return a correction for the calibration points gathered, of one that holds what belongs to one other point."""
    return correction.extended(points).restricted(np.arange(1, len(points) + 1))


class ShardedScores(LocalScores):
    """As local scores, from shards. A chunk of rows has an index of its own, of what shards found for it.

    Results are those of one index over all points: these have the same neighbours in the same order of numbers.
    """

    index: ShardedIndex

    def _again(self, points: FloatArray, trust: FloatArray | None, expected_faded: float | None) -> "ShardedScores":
        again = ShardedScores(
            self.index, points, self.neighborhood, self.calibration, self.corrections, self.quantile_rule, self.workers,
            self.own_isolation, trust,
        )  # fmt: skip
        again.expected_faded = expected_faded
        return again

    def _local(self, rows: IntArray) -> tuple[LocalScores, Found]:
        """Return the scores of some rows, with all that is theirs, and the calibration points that were gathered."""
        points = self.points[rows]
        found = find_around(self.index, self.neighborhood, points)
        local = LocalScores(
            found.build_index(self.neighborhood.least),
            points,
            self.neighborhood,
            CalibrationScores(found.z),
            tuple(bring_along(correction, found.points) for correction in self.corrections),
            self.quantile_rule,
            self.workers.silent(),
            self.own_isolation,
            None if self.most_trust is None else self.most_trust[rows],
        )
        local.expected_faded, local._was_told = self.expected_faded, True
        return local, found

    @cached_property
    def _chunks(self) -> list[IntArray]:
        """The rows by chunks, of rows that are near each other."""
        order = self.index.order(self.points)
        size = max(_MOST_GATHERED // max(self.pairs_per_row, 1), 1)
        return [order[start : start + size] for start in range(0, len(order), size)]

    def _go_through(self, base: Distribution, ask: Callable[[LocalScores, Distribution, IntArray], Answers]) -> Answers:
        """Ask a question of every chunk, and put the answers in the order of rows."""
        placed: list[Any] = []
        with self.workers.reporting("recalibrating", len(base)) as report:
            for rows in self._chunks:
                answers = ask(self._local(rows)[0], base[rows], rows)
                placed = placed or [np.empty((len(base), *answer.shape[1:]), answer.dtype) for answer in answers]
                for values, answer in zip(placed, answers, strict=True):
                    values[rows] = answer
                report(len(rows))
        return tuple(placed)

    def gather(
        self, base: Distribution, statistic: Statistic, of_base: OfBase, *, columns: int = 1, table: bool = False,
        keep: bool = True,
    ) -> Answers:  # fmt: skip
        """Gather what is near, and reduce, chunk by chunk."""

        def ask(local: LocalScores, part: Distribution, rows: IntArray) -> Answers:
            own = _numbered(statistic, of_base, rows)
            return local.gather(part, *own, columns=columns, table=table, keep=False)

        return self._go_through(base, ask)

    def gather_described(self, base: Distribution, statistic: Statistic, of_base: OfBase, *, columns: int) -> Answers:
        """Compute a statistic and what describes every row in one pass."""

        def ask(local: LocalScores, part: Distribution, rows: IntArray) -> Answers:
            return local.gather_described(part, *_numbered(statistic, of_base, rows), columns=columns)

        return self._go_through(base, ask)

    def visit(
        self, base: Distribution, ask: Callable[[Neighborhoods, Distribution, Rows], Answers], *, columns: int = 1,
        table: bool = False, keep: bool = True,
    ) -> Answers:  # fmt: skip
        """Ask a question of the neighbourhoods of every chunk."""
        return self._go_through(
            base,
            lambda local, part, rows: local.visit(
                part, lambda near, own, some: ask(near, own, rows[some]), columns=columns, table=table, keep=False
            ),
        )

    def find(self, rows: Rows, most: int = MOST_PAIRS) -> Neighborhoods:
        """Return the neighbourhoods of some rows, calibration points under their numbers among all."""
        numbers = np.arange(len(self.points))[rows]
        local, found = self._local(numbers)
        near = local.find(slice(0, len(numbers)), most)
        scores = found.z[near.indices] if near.scores is None else near.scores
        return replace(near, indices=found.rows[near.indices], scores=scores)


def _numbered(statistic: Statistic, of_base: OfBase, rows: IntArray) -> tuple[Statistic, OfBase]:
    """Return the same questions, of rows of a chunk, under the numbers that these have among all rows."""
    return lambda law, base, own: statistic(law, base, rows[own]), lambda base, own: of_base(base, rows[own])
