"""Leave-one-out CRPS of every candidate at every calibration row."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions import Distribution
from nearcal.distributions.base import overflow_is_infinite
from nearcal.distributions.quantile_series import QuantileSeries, quantile_values
from nearcal.recalibration import LEAST_NEIGHBORS, Smoothing, Workers
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.leave_one_out import LeaveOneOut, find_others
from nearcal.recalibration.neighborhoods import KNearest, smoothing_code
from nearcal.recalibration.progress import Report, quiet
from nearcal.recalibration.smooth import evenly_spaced
from nearcal.recalibration.steps import Steps
from nearcal.scores.arrays import sorted_sample_crps
from nearcal.space import CalibrationSpace, Folds, Scaling, View, share_of
from nearcal.tuning.candidates import Candidate
from nearcal.tuning.racing import EFFORTS, Clock, Effort, Race, Scores

Places = Mapping[tuple[str, Scaling], CalibrationSpace]

_MOST_COSTLY = 50  # quantiles that stand for a corrected sample, where each takes a search
MOST_GLOBAL = 2000  # scores that stand for all others, where quantiles differ in shape from row to row
_FINALISTS = 3  # candidates with local-linear corrections, after all heats
_PIECES_A_THREAD = 4  # that candidates with corrections are scored in at least: none works alone at the end for long
_SHRUNK = 2  # best local candidates that are tried with shrinkage
_WORK = {"none": 1, "standard": 1, "whiten": 2, "relevance": 6}  # for every column of a space, about


class Scorer:
    """A calibration set whose rows are recalibrated by one another.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n calibration rows.
    y : ndarray of shape (n,)
        Responses.
    calibration : CalibrationScores
        Their normal scores.
    places : mapping
        The spaces of local candidates, by name and scaling.
    workers : Workers
    report : callable, optional
        Takes the number of rows just scored.
    folds : Folds, optional
        Which rows may speak for which, as in the spaces; None lets all others speak for each.
    effort : Effort
    clock : Clock
        When it is up, nothing more is tried.

    Attributes
    ----------
    race : Race
        The rows that decide, of those that can be scored: all, or those that folds look up. The others get NaN.
    not_tried : list of str
        What time did not suffice for.
    """

    def __init__(
        self,
        dist: Distribution,
        y: FloatArray,
        calibration: CalibrationScores,
        places: Places,
        workers: Workers,
        report: Report = quiet,
        folds: Folds | None = None,
        effort: Effort = EFFORTS["thorough"],
        clock: Clock | None = None,
    ) -> None:
        self.dist, self.y, self.calibration, self.places, self.workers = dist, y, calibration, places, workers
        self.report, self.folds, self.effort, self.clock = report, folds, effort, clock or Clock()
        self.by_score = np.argsort(calibration.ranks).astype(np.int32)
        self.values_of = _values_of_rows(dist, y, calibration.z)
        self.not_tried: list[str] = []
        # drawn by the rank of their score, so that the rows drawn do not depend on the order of rows
        drawn = self.by_score[np.random.default_rng(0).permutation(len(y))].astype(np.intp)
        drawn = drawn if folds is None else drawn[np.isin(drawn, folds.rows)]
        units = None if folds is None else folds.units
        weights = None if calibration.weights is None else calibration.weights.relative
        self.race = Race(drawn, len(y), effort, self.clock, units, weights)

    def work(self, k: Sequence[int], linear: bool, shrinkage: bool, trend: bool = False) -> int:
        """Return how many rows there are to score at most, those of every candidate with corrections counted again."""
        entrants = sum(size >= LEAST_NEIGHBORS for size in k) * min(len(self.places), self.effort.spaces)
        finalists = min(entrants, _FINALISTS)
        return (
            sum(map(len, self.race.heats))
            + self._rows_of(entrants, _FINALISTS) * (linear + trend)
            + self._rows_of(finalists, finalists) * (linear and trend)
            + self._rows_of(_SHRUNK, _SHRUNK) * (shrinkage and bool(self.places))
        )

    def _rows_of(self, entrants: int, finalists: int) -> int:
        """Return how many rows some entrants with corrections are scored on at most."""
        *first, last = map(len, self.race.heats)
        return entrants * sum(first) + (min(entrants, finalists) if self.race.has_final else entrants) * last

    # ---- neighbourhoods as they are ---------------------------------------------------------------------------------

    def score_plain(self, k: Sequence[int], smoothings: Sequence[Smoothing]) -> tuple[FloatArray, Scores]:
        """Return the scores of global recalibration, (n,), and of local without corrections; ``k`` must decrease.

        Where time is short, spaces enter one at a time, the cheapest first, as long as there is time. Neighbours are
        searched once a space and heat, at the largest k still in the race; smaller neighbourhoods are parts of that
        one. Global scores are exact for location-scale families, and for all where n is at most 2,001;
        beyond, 2,000 scores at evenly spaced ranks stand for all.
        """
        everyone = self._standard_global() if self._has_standard else np.full(len(self.y), np.nan)
        entrants = {
            (space, scaling): [
                Candidate("local", space, scaling.name, scaling.components, size, smoothing)
                for size in k
                for smoothing in smoothings
            ]
            for space, scaling in self.places
        }

        def score(staying: Sequence[Candidate], rows: IntArray, scores: Scores) -> None:
            is_staying = set(staying)
            left = {place: [one for one in own if one in is_staying] for place, own in entrants.items()}
            left = {place: own for place, own in left.items() if own}
            is_begun = not all(np.isnan(scores[one]).all() for one in staying)
            if self.clock.seconds is None or is_begun or not left:
                self._fill(rows, left, everyone, scores, self.report)
                return
            for number, place in enumerate(sorted(left, key=self.cost)):
                if number > 0 and self.clock.is_up:
                    self.not_tried.append(f"{place[0]!r} with scaling {place[1].name!r}")
                    for one in left[place]:
                        del scores[one]
                else:
                    self._fill(rows, {place: left[place]}, everyone, scores, quiet if number else self.report)

        return everyone, self.race.run([one for own in entrants.values() for one in own], score)

    def cost(self, place: tuple[str, Scaling]) -> int:
        """Return about how much work it is to score candidates in a space."""
        return self.places[place].space.shape[1] * _WORK[place[1].name]

    def _fill(
        self,
        chosen: IntArray,
        entrants: Mapping[tuple[str, Scaling], Sequence[Candidate]],
        everyone: FloatArray,
        scores: Scores,
        report: Report,
    ) -> None:
        """Write the scores of some rows: global ones, and those of some candidates in each space."""
        order = self._in_order_of_views(chosen, [self.places[place] for place in entrants])

        def task(chunk: slice) -> None:
            for rows, speakers in self._by_fold(order[chunk]):
                values = self.values_of(rows)
                if not self._has_standard:
                    everyone[rows] = self._global(values, rows, speakers)
                for place, own in entrants.items():
                    self.report(0, f"space {place[0]!r}, {place[1].name}")
                    k, smoothings = ({getattr(one, name): None for one in own} for name in ("k", "smoothing"))
                    kinds = np.array([smoothing_code(str(smoothing)) for smoothing in smoothings], dtype=np.int64)
                    sizes = [size for size in k if size is not None]
                    crps = self._score_space(self.places[place], rows, values, sizes, kinds, speakers)
                    for one in own:
                        scores[one][rows] = crps[:, list(k).index(one.k), list(smoothings).index(one.smoothing)]

        pairs = 1 if self._has_standard else min(len(self.y), MOST_GLOBAL)
        most = max([one.k or 1 for own in entrants.values() for one in own], default=1)
        self.workers.run(task, self.workers.chunks(len(order), max(pairs, most, self.dist._values_per_row)), report)

    def _score_space(
        self,
        space: CalibrationSpace,
        rows: IntArray,
        values: "RowValues",
        k: Sequence[int],
        kinds: Any,
        speakers: IntArray | None,
    ) -> FloatArray:
        """Return the scores of some rows that have the same speakers, (rows, sizes, kinds of smoothing)."""
        own = k if speakers is None else [share_of(size, len(speakers), len(self.y)) for size in k]
        return score_prefixes(values, *self._others(space, rows, k[0], own[0]), np.array(own, dtype=np.int64), kinds)

    @property
    def _has_standard(self) -> bool:
        return self.dist._location_scale() is not None

    @staticmethod
    def _in_order_of_views(rows: IntArray, spaces: Sequence[CalibrationSpace]) -> IntArray:
        """Return rows so that those looked up in one view follow each other: a search gains by many queries at once."""
        most_views = max((space.views for space in spaces), key=len, default=[])
        return np.concatenate([view.rows[np.isin(view.rows, rows)] for view in most_views]) if most_views else rows

    def _by_fold(self, rows: IntArray) -> Iterator[tuple[IntArray, IntArray | None]]:
        """Yield rows with those that may speak for them, None for all others."""
        if self.folds is None:
            yield rows, None
            return
        for fold in self.folds.folds:
            own = rows[np.isin(rows, fold.rows)]
            if len(own):
                yield own, fold.speakers

    def _others(
        self, space: CalibrationSpace, rows: IntArray, k: int, width: int
    ) -> tuple[NDArray[np.int32], FloatArray]:
        """Return the k nearest other points of some rows, ordered by score, and their distances.

        In a fold there are fewer than k, ``width``, as fewer may speak.
        """
        from nearcal.kernels.rank_order import places_by_rank

        indices, distances = np.empty((len(rows), width), np.int32), np.empty((len(rows), width))
        for view in space.views:
            mine = np.flatnonzero(np.isin(rows, view.rows)) if len(space.views) > 1 else np.arange(len(rows))
            if len(mine) == 0:
                continue
            own = rows[mine]
            others = find_others(KNearest(k, 0.0, "uniform"), view.index, view.points[own], own)
            places = places_by_rank(others.indptr, others.indices, self.calibration.ranks)
            indices[mine] = others.indices[places].reshape(-1, width)
            distances[mine] = others.distances[places].reshape(-1, width)
        return indices, distances

    # ---- everyone ---------------------------------------------------------------------------------------------------

    def _standard_global(self) -> FloatArray:
        if self.folds is None:
            values = self.values_of(np.arange(len(self.y)))
            return values.unit * _equal_weights_crps(values.at(self.by_score), values.y, self.calibration.ranks)
        crps = np.full(len(self.y), np.nan)
        for fold in self.folds.folds:
            values = self.values_of(fold.rows)
            crps[fold.rows] = values.unit * _sample_crps(values.at(self._in_order(fold.speakers)), values.y)
        return crps

    def _in_order(self, speakers: IntArray) -> NDArray[np.int32]:
        """Return some points by increasing score."""
        may_speak = np.zeros(len(self.y), dtype=np.bool_)
        may_speak[speakers] = True
        return self.by_score[may_speak[self.by_score]]

    def _global(self, values: "RowValues", rows: IntArray, speakers: IntArray | None) -> FloatArray:
        n = len(self.y)
        indices = self._everyone_else(rows) if speakers is None else self._all_who_speak(rows, speakers)
        sizes, uniform = np.array([indices.shape[1]]), np.array([smoothing_code("uniform")])
        crps = score_prefixes(values, indices, np.zeros(indices.shape), sizes, uniform)[:, 0, 0]
        # without row i, F - 1{x >= y_i} is n / (n - 1) times what it is with it, since F_i⁻¹(Φ(z_i)) is y_i
        return crps if n <= MOST_GLOBAL + 1 or speakers is not None else crps * (n / (n - 1)) ** 2

    def _everyone_else(self, rows: IntArray) -> NDArray[np.int32]:
        """Return all other points by increasing score, or points at evenly spaced ranks that stand for all."""
        n = len(self.y)
        if n <= MOST_GLOBAL + 1:
            others: IntArray = np.arange(n - 1)
            return self.by_score[others + (others >= self.calibration.ranks[rows, np.newaxis])]
        return np.tile(evenly_spaced(self.by_score, MOST_GLOBAL), (len(rows), 1))

    def _all_who_speak(self, rows: IntArray, speakers: IntArray) -> NDArray[np.int32]:
        """Return all speakers by increasing score, or some at evenly spaced ranks that stand for all."""
        ordered = self._in_order(speakers)
        return np.tile(evenly_spaced(ordered, MOST_GLOBAL), (len(rows), 1))

    # ---- corrections ------------------------------------------------------------------------------------------------

    def score_linear(self, plain: Scores, k: Sequence[int], rivals: Scores | None = None) -> Scores:
        """Return the scores of candidates with local-linear correction, given those of the same without.

        They must keep up with the best of their ``rivals``, if there are any.

        They take a sort for each row, so few are scored: in the three best spaces, each with its best smoothing and all
        k that leave room for a slope. Three at most reach the final.
        """
        entrants = [
            replace(leader, k=size, linear=True)
            for leader in self._leading(plain)
            for size in k
            if size >= LEAST_NEIGHBORS
        ]
        return self._race_corrected(entrants, rivals or {}, _FINALISTS)

    def score_trend(
        self, local: Scores, k: Sequence[int], linear: Sequence[bool], rivals: Scores | None = None
    ) -> Scores:
        """Return the scores of candidates with a trend, with and without local-linear correction as ``linear`` says.

        They are tried as those with local-linear correction are, in the three best spaces; those that reach the end
        then with both corrections, where there may be both.
        """
        sizes = [size for size in k if size >= LEAST_NEIGHBORS] or list(k)
        entrants = [
            replace(leader, k=size, linear=False, trend=True) for leader in self._leading(local) for size in sizes
        ]
        curved = self._race_corrected(entrants, rivals or {}, _FINALISTS)
        both = [replace(one, linear=True) for one in self._finishers(curved)[:_FINALISTS]] if True in linear else []
        curved_rivals = {**(rivals or {}), **(curved if False in linear else {})}
        straight = self._race_corrected(both, curved_rivals, _FINALISTS) if both else {}
        return {**(curved if False in linear else {}), **straight}

    def _leading(self, scores: Scores) -> list[Candidate]:
        """Return the best candidate of each of the best spaces."""
        leaders: dict[tuple[str, Scaling], Candidate] = {}
        for candidate in self.race.standings(scores):
            leaders.setdefault(candidate.place, candidate)
        return list(leaders.values())[: self.effort.spaces]

    def _finishers(self, scores: Scores) -> list[Candidate]:
        """Return who was scored on all rows, the best first."""
        return [one for one in self.race.standings(scores) if not np.isnan(scores[one][self.race.rows]).any()]

    def score_shrunk(self, local: Scores, rivals: Scores | None = None) -> Scores:
        """Return the scores of the two best local candidates with shrinkage, as long as they keep up with rivals."""
        best = [replace(one, shrinkage=True) for one in self._finishers(local)[:_SHRUNK]]
        return self._race_corrected(best, rivals or {}, _SHRUNK)

    def _race_corrected(self, entrants: Sequence[Candidate], rivals: Scores, most: int) -> Scores:
        """Return the scores of candidates with corrections, which must keep up with the best of their rivals."""
        if self.clock.is_up:
            self.not_tried += [str(entrant) for entrant in entrants]
            return {}
        unseen = self._rows_of(len(entrants), most)
        learnt, alone = self._learn(entrants), self.workers.each()

        def score(staying: Sequence[Candidate], rows: IntArray, scores: Scores) -> None:
            nonlocal unseen

            def task(chunk: slice) -> None:
                number, start = divmod(chunk.start, len(rows))
                one, own = staying[number], rows[start : start + chunk.stop - chunk.start]
                self.report(0, str(one))
                replace(learnt[one], workers=alone).gather(self._crps_of, scores[one], own)

            pieces = _pieces(len(staying), len(rows), _PIECES_A_THREAD * self.workers.count())
            if pieces:
                self.workers.run(task, pieces, self.report)
            unseen -= len(staying) * len(rows)

        best = self.race.standings(rivals)[:1]
        found = self.race.run(entrants, score, rivals[best[0]] if best else None, most)
        self.report(unseen)  # what those who left were not scored on
        return found

    def _learn(self, entrants: Sequence[Candidate]) -> dict[Candidate, LeaveOneOut]:
        """Return the neighbourhoods of candidates, corrected by what is learnt in their spaces, several at a time."""
        of_places: dict[tuple[str, Scaling], list[Candidate]] = {}
        for one in entrants:
            of_places.setdefault(one.place, []).append(replace(one, shrinkage=False))

        def learn(own: Sequence[Candidate]) -> list[LeaveOneOut]:
            with overflow_is_infinite():  # which a thread does not know from the one that started it
                return [self._corrected(one) for one in own]

        def see(own: Sequence[LeaveOneOut], view: View) -> None:
            with overflow_is_infinite():
                for left_out in own:
                    left_out.corrections_in(view)

        with ThreadPoolExecutor(self.workers.count()) as pool:
            learnt = list(pool.map(learn, of_places.values()))
            for seen in [pool.submit(see, own, view) for own in learnt for view in own[0].views()]:
                seen.result()
        return {one: self._corrected(one) for one in entrants}  # all but shrinkage lies ready, in the views

    def _corrected(self, candidate: Candidate) -> LeaveOneOut:
        """Return the neighbourhoods of a local candidate, corrected."""
        assert candidate.k is not None
        assert candidate.smoothing is not None
        space = self.places[candidate.place]
        neighborhood = KNearest(candidate.k, 0.0, candidate.smoothing, self.calibration.weights)
        left_out = LeaveOneOut(self.calibration, lambda: space.views, neighborhood, "step", self.workers.silent())
        for correction in candidate.corrections:
            learnt = correction.learn(left_out, left_out.widest)
            left_out = left_out if learnt is None else left_out.corrected(learnt)
        return left_out

    def _crps_of(self, steps: Steps, rows: IntArray) -> FloatArray:
        return _corrected_crps(steps, self.dist[rows], self.y[rows])


def _pieces(candidates: int, rows: int, least: int) -> list[slice]:
    """Return ranges of the rows of one candidate after the other, so many at least, none of two candidates.

    They are as few as that allows: a search gains by many queries at once.
    """
    each = -(-least // max(candidates, 1))
    ends = [rows * number // each for number in range(candidates * each + 1)]
    return [slice(start, stop) for start, stop in pairwise(ends) if stop > start]


def _corrected_crps(steps: Steps, base: Distribution, y: FloatArray) -> FloatArray:
    """Return the CRPS at y of the weighted sample of every row.

    Where quantiles take a search, quantiles at evenly spaced levels stand for a sample of more neighbours.
    """
    if base._quantiles_are_costly and int(steps.neighborhoods.lengths.max()) > _MOST_COSTLY:
        levels = (np.arange(_MOST_COSTLY) + 0.5) / _MOST_COSTLY
        values = steps.quantiles(base, np.tile(levels, (len(base), 1)))
        return sorted_sample_crps(values, np.full((1, _MOST_COSTLY), 1 / _MOST_COSTLY), y)
    from nearcal.kernels import leave_one_out

    scores, weights = steps.weighted_scores()
    crps = np.empty(len(y))
    leave_one_out.sample_crps(quantile_values(base, scores), weights, y, crps)
    return crps


# ---- values of rows at the scores of others -------------------------------------------------------------------------


class RowValues(NamedTuple):
    """Some rows: values at the scores of calibration points, responses, and the unit of both, each row's own."""

    at: Callable[[NDArray[np.int32]], FloatArray]
    y: FloatArray
    unit: FloatArray


def _values_of_rows(dist: Distribution, y: FloatArray, z: FloatArray) -> Callable[[IntArray], RowValues]:
    """Return a function that prepares rows, by the cheapest way to their quantiles F_i⁻¹(Φ(z_j)).

    In a location-scale family the values are those of the standard distribution, the same for all rows. Quantiles that
    take a search are interpolated. All others are computed one by one.
    """
    standardised = dist._location_scale()
    if standardised is not None:
        loc, scale, standard = standardised
        values = standard._from_z(z[np.newaxis])[0]
        return lambda rows: RowValues(values.__getitem__, (y[rows] - loc[rows]) / scale[rows], scale[rows])

    def prepare(rows: IntArray) -> RowValues:
        own = dist[rows]
        quantiles = QuantileSeries(own, z).at if own._quantiles_are_costly else own._from_z
        return RowValues(lambda indices: quantiles(z[indices]), y[rows], np.ones(len(rows)))

    return prepare


def score_prefixes(
    values: RowValues, indices: NDArray[np.int32], distances: FloatArray, sizes: Any, kinds: Any
) -> FloatArray:
    """Return the CRPS of neighbourhoods ordered by score, of shape (rows, sizes, kinds)."""
    from nearcal.kernels import leave_one_out, select

    crps = np.empty((len(indices), len(sizes), len(kinds)))
    scratch = select.make_scratch(indices.shape[1])
    leave_one_out.prefix_crps(indices, distances, values.at(indices), values.y, sizes, kinds, scratch, crps)
    return crps * values.unit[:, np.newaxis, np.newaxis]


def _sample_crps(ordered: FloatArray, y: FloatArray) -> FloatArray:
    """Return the CRPS at each y of one sample in increasing order: E|X - y| - ½ E|X - X'|."""
    n, center = len(ordered), ordered[len(ordered) // 2]
    x, y = ordered - center, y - center
    sums = np.concatenate([[0.0], np.cumsum(x)])
    below = np.searchsorted(x, y)
    pairs = 2 * np.sum(x * (2 * np.arange(n) - n + 1))
    return (y * (2 * below - n) + sums[n] - 2 * sums[below]) / n - pairs / (2 * n**2)


def _equal_weights_crps(ordered: FloatArray, y: FloatArray, ranks: NDArray[np.int32]) -> FloatArray:
    """Return the CRPS at y_i of all values but the i-th, equally weighted: E|X - y| - ½ E|X - X'|, by rank."""
    n = len(ordered)
    center = ordered[n // 2]
    x, y = ordered - center, y - center
    sums = np.concatenate([[0.0], np.cumsum(x)])

    def total_distance(at: FloatArray) -> FloatArray:
        below = np.searchsorted(x, at)
        return at * (2 * below - n) + sums[n] - 2 * sums[below]

    own = x[ranks]
    pairs = 2 * np.sum(x * (2 * np.arange(n) - n + 1)) - 2 * total_distance(own)
    return (total_distance(y) - np.abs(own - y)) / (n - 1) - pairs / (2 * (n - 1) ** 2)
