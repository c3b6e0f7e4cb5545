"""Leave-one-out CRPS of every candidate at every calibration row."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions import Distribution
from nearcal.distributions.quantile_series import QuantileSeries, quantile_values
from nearcal.recalibration import LEAST_NEIGHBORS, Smoothing, Workers
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.leave_one_out import LeaveOneOut, find_others
from nearcal.recalibration.neighborhoods import KNearest, smoothing_code
from nearcal.recalibration.progress import Report
from nearcal.recalibration.steps import Steps
from nearcal.scores.arrays import sorted_sample_crps
from nearcal.space import CalibrationSpace, Folds, Scaling, share_of
from nearcal.tuning.candidates import Candidate
from nearcal.tuning.choice import mean_and_error, standing

Scores = dict[Candidate, FloatArray]
Places = Mapping[tuple[str, Scaling], CalibrationSpace]

_MOST_COSTLY = 50  # quantiles that stand for a corrected sample, where each takes a search
MOST_GLOBAL = 2000  # scores that stand for all others, where quantiles differ in shape from row to row
_LINEAR_SPACES = 3  # in which local-linear corrections are tried
_FINALISTS = 3  # of them, scored on all rows
_HEAT_ROWS = 1000  # on which they qualify
_SHRUNK = 2  # best local candidates that are tried with shrinkage
_RACE_FROM, _RACE_ROWS = 4000, 1500  # rows from which spaces race, and on which
_BEHIND = 3.0  # standard errors that a space must be worse to leave


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

    Attributes
    ----------
    rows : ndarray
        The rows that are scored, in increasing order: all, or those that folds look up. The others get NaN.
    """

    def __init__(
        self,
        dist: Distribution,
        y: FloatArray,
        calibration: CalibrationScores,
        places: Places,
        workers: Workers,
        report: Report = lambda finished: None,
        folds: Folds | None = None,
    ) -> None:
        self.dist, self.y, self.calibration, self.places, self.workers = dist, y, calibration, places, workers
        self.report, self.folds = report, folds
        self.rows = np.arange(len(y)) if folds is None else folds.rows
        self.by_score = np.argsort(calibration.ranks).astype(np.int32)
        self.values_of = _values_of_rows(dist, y, calibration.z)

    def work(self, k: Sequence[int], linear: bool, shrinkage: bool, trend: int = 0) -> int:
        """Return how many rows there are to score, those of every candidate with corrections counted again.

        Those with a trend are tried in so many variants.
        """
        n, entrants = len(self.rows), sum(size >= LEAST_NEIGHBORS for size in k) * min(len(self.places), _LINEAR_SPACES)
        has_heat = n > _HEAT_ROWS and entrants > _FINALISTS
        finals = _FINALISTS if has_heat else entrants
        corrected = entrants * _HEAT_ROWS * has_heat * (linear + (trend > 0)) + finals * n * (linear + trend)
        return n + corrected + _SHRUNK * n * (shrinkage and bool(self.places))

    # ---- neighbourhoods as they are ---------------------------------------------------------------------------------

    def score_plain(self, k: Sequence[int], smoothings: Sequence[Smoothing]) -> tuple[FloatArray, Scores]:
        """Return the scores of global recalibration, (n,), and of local without corrections; ``k`` must decrease.

        Neighbours are searched once a space, at the largest k; smaller neighbourhoods are parts of that one. Where rows
        are many, spaces race: those that do clearly worse than the best on some rows are not scored on the others, and
        do not come back. Global scores are exact for location-scale families, and for all where n is at most 2,001;
        beyond, 2,000 scores at evenly spaced ranks stand for all.
        """
        n = len(self.y)
        everyone = self._standard_global() if self._has_standard else np.full(n, np.nan)
        local = {place: np.full((len(k), len(smoothings), n), np.nan) for place in self.places}
        rows = self._row_order()
        if len(rows) > _RACE_FROM and len(local) > _LINEAR_SPACES:
            is_first = np.zeros(n, dtype=np.bool_)
            is_first[self._some(_RACE_ROWS)] = True
            first, rows = rows[is_first[rows]], rows[~is_first[rows]]
            self._fill(first, k, smoothings, everyone, local)
            weights = None if self.calibration.weights is None else self.calibration.weights.relative[first]
            leaders = _leaders({place: all_[..., first] for place, all_ in local.items()}, weights)
            local = {place: local[place] for place in leaders}
        self._fill(rows, k, smoothings, everyone, local)
        scores = {
            Candidate("local", space, scaling.name, scaling.components, size, smoothing): of_space[i, j]
            for (space, scaling), of_space in local.items()
            for i, size in enumerate(k)
            for j, smoothing in enumerate(smoothings)
        }
        return everyone, scores

    def _fill(
        self,
        order: IntArray,
        k: Sequence[int],
        smoothings: Sequence[Smoothing],
        everyone: FloatArray,
        local: Mapping[tuple[str, Scaling], FloatArray],
    ) -> None:
        """Write the scores of some rows: global ones, and for each space those of every k and smoothing."""
        kinds = np.array([smoothing_code(smoothing) for smoothing in smoothings], dtype=np.int64)

        def task(chunk: slice) -> None:
            for rows, speakers in self._by_fold(order[chunk]):
                values = self.values_of(rows)
                if not self._has_standard:
                    everyone[rows] = self._global(values, rows, speakers)
                for place, of_space in local.items():
                    crps = self._score_space(self.places[place], rows, values, k, kinds, speakers)
                    of_space[:, :, rows] = np.moveaxis(crps, 0, -1)

        pairs = 1 if self._has_standard else min(len(self.y), MOST_GLOBAL)
        chunks = self.workers.chunks(len(order), max(pairs, *k, self.dist._values_per_row))
        self.workers.run(task, chunks, self.report)

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

    def _row_order(self) -> IntArray:
        """Return rows so that those looked up in one view follow each other: a search gains by many queries at once."""
        most_views = max((space.views for space in self.places.values()), key=len, default=[])
        return np.concatenate([view.rows for view in most_views]) if most_views else self.rows

    def _some(self, count: int) -> IntArray:
        """Return some of the rows that are scored, drawn at random."""
        return self.rows[np.random.default_rng(0).permutation(len(self.rows))[:count]]

    def _by_fold(self, rows: IntArray) -> Iterator[tuple[IntArray, IntArray | None]]:
        """Yield rows with those that may speak for them, None for all others."""
        if self.folds is None:
            yield rows, None
            return
        for fold in self.folds.folds:
            own = rows[np.isin(rows, fold.rows)]
            if len(own):
                yield own, fold.speakers

    def mean(self, scores: FloatArray, rows: IntArray | None = None) -> float:
        """Return the mean of the scores of some rows, or of all that have one, by their weights."""
        rows, weights = self.rows if rows is None else rows, self.calibration.weights
        return float(np.average(scores[rows], weights=None if weights is None else weights.relative[rows]))

    def _others(
        self, space: CalibrationSpace, rows: IntArray, k: int, width: int
    ) -> tuple[NDArray[np.int32], FloatArray]:
        """Return the k nearest other points of some rows, ordered by score, and their distances.

        In a fold there are fewer than k, ``width``, as fewer may speak.
        """
        from nearcal.kernels import leave_one_out

        indices, distances = np.empty((len(rows), width), np.int32), np.empty((len(rows), width))
        for view in space.views:
            mine = np.flatnonzero(np.isin(rows, view.rows)) if len(space.views) > 1 else np.arange(len(rows))
            if len(mine) == 0:
                continue
            own = rows[mine]
            others = find_others(KNearest(k, 0.0, "uniform"), view.index, view.points[own], own)
            near, far = np.empty((len(own), width), np.int32), np.empty((len(own), width))
            leave_one_out.order_by_rank(
                others.indices.reshape(len(own), -1),
                others.distances.reshape(len(own), -1),
                self.calibration.ranks,
                near,
                far,
            )
            indices[mine], distances[mine] = near, far
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
        return np.tile(_evenly_spaced(self.by_score), (len(rows), 1))

    def _all_who_speak(self, rows: IntArray, speakers: IntArray) -> NDArray[np.int32]:
        """Return all speakers by increasing score, or some at evenly spaced ranks that stand for all."""
        ordered = self._in_order(speakers)
        return np.tile(ordered if len(ordered) <= MOST_GLOBAL else _evenly_spaced(ordered), (len(rows), 1))

    # ---- corrections ------------------------------------------------------------------------------------------------

    def score_linear(self, plain: Scores, k: Sequence[int]) -> Scores:
        """Return the scores of candidates with local-linear correction, given those of the same without.

        They take a sort for each row, so few are scored: in the three best spaces, each with its best smoothing and all
        k that leave room for a slope. Where there are more than a thousand rows, the three that do best on a thousand
        of them are scored on all.
        """
        entrants = [
            replace(leader, k=size, linear=True)
            for leader in self._leading(plain)
            for size in k
            if size >= LEAST_NEIGHBORS
        ]
        return {entrant: self._score_corrected(entrant) for entrant in self._finalists(entrants)}

    def score_trend(self, local: Scores, k: Sequence[int], linear: Sequence[bool]) -> Scores:
        """Return the scores of candidates with a trend, with and without local-linear correction as ``linear`` says.

        They are tried as those with local-linear correction are, in the three best spaces; the finalists then with
        both corrections, where there may be both.
        """
        sizes = [size for size in k if size >= LEAST_NEIGHBORS] or list(k)
        entrants = [
            replace(leader, k=size, linear=False, trend=True) for leader in self._leading(local) for size in sizes
        ]
        finalists = self._finalists(entrants)
        both = [replace(one, linear=straight) for one in finalists for straight in linear]
        return {entrant: self._score_corrected(entrant) for entrant in both}

    def _leading(self, scores: Scores) -> list[Candidate]:
        """Return the best candidate of each of the best spaces."""
        leaders: dict[tuple[str, Scaling], Candidate] = {}
        for candidate in sorted(scores, key=lambda candidate: standing(self.mean(scores[candidate]))):
            leaders.setdefault(candidate.place, candidate)
        return list(leaders.values())[:_LINEAR_SPACES]

    def _finalists(self, entrants: list[Candidate]) -> list[Candidate]:
        """Return those that do best on some rows, where there are many rows and entrants."""
        if len(self.rows) <= _HEAT_ROWS or len(entrants) <= _FINALISTS:
            return entrants
        rows = np.sort(self._some(_HEAT_ROWS))
        heat = {entrant: self.mean(self._score_corrected(entrant, rows), rows) for entrant in entrants}
        return sorted(heat, key=lambda entrant: standing(heat[entrant]))[:_FINALISTS]

    def score_shrunk(self, local: Scores) -> Scores:
        """Return the scores of the two best local candidates with shrinkage."""
        best = sorted(local, key=lambda candidate: standing(self.mean(local[candidate])))[:_SHRUNK]
        return {replace(one, shrinkage=True): self._score_corrected(replace(one, shrinkage=True)) for one in best}

    def _score_corrected(self, candidate: Candidate, rows: IntArray | None = None) -> FloatArray:
        """Return the scores of a local candidate with corrections, at some rows; the others get NaN."""
        assert candidate.k is not None
        assert candidate.smoothing is not None
        space = self.places[candidate.place]
        neighborhood = KNearest(candidate.k, 0.0, candidate.smoothing, self.calibration.weights)
        left_out = LeaveOneOut(self.calibration, lambda: space.views, neighborhood, "step", self.workers.silent())
        for correction in candidate.corrections:
            learnt = correction.learn(left_out, max(space.views, key=lambda view: view.points.shape[1]))
            left_out = left_out if learnt is None else left_out.corrected(learnt)

        def score(steps: Steps, own: IntArray) -> FloatArray:
            return sorted_sample_crps(*_corrected_sample(steps, self.dist[own]), self.y[own])

        scores = left_out.gather(score, np.full(len(self.y), np.nan), rows)
        self.report(len(self.rows if rows is None else rows))
        return scores


def _leaders(
    scores: Mapping[tuple[str, Scaling], FloatArray], weights: FloatArray | None = None
) -> list[tuple[str, Scaling]]:
    """Return the spaces that may still be the best, given scores of shape (sizes, smoothings, rows); three at least."""
    best = {}
    for place, of_space in scores.items():
        candidates = of_space.reshape(-1, of_space.shape[-1])
        best[place] = candidates[np.argmin([mean_and_error(rows, weights=weights)[0] for rows in candidates])]
    ranking = sorted(best, key=lambda place: standing(mean_and_error(best[place], weights=weights)[0]))
    behind = {place: mean_and_error(best[place] - best[ranking[0]], weights=weights) for place in ranking}

    def is_far_behind(place: tuple[str, Scaling]) -> bool:
        mean, error = behind[place]
        return mean > _BEHIND * error

    return [place for place in scores if place in ranking[:_LINEAR_SPACES] or not is_far_behind(place)]


def _corrected_sample(steps: Steps, base: Distribution) -> tuple[FloatArray, FloatArray]:
    """Return the weighted sample of every row, in increasing order.

    Where quantiles take a search, quantiles at evenly spaced levels stand for a sample of more neighbours.
    """
    if base._quantiles_are_costly and int(steps.neighborhoods.lengths.max()) > _MOST_COSTLY:
        levels = (np.arange(_MOST_COSTLY) + 0.5) / _MOST_COSTLY
        values = steps.quantiles(base, np.tile(levels, (len(base), 1)))
        return values, np.full((1, _MOST_COSTLY), 1 / _MOST_COSTLY)
    scores, weights = steps.weighted_scores()
    order = np.argsort(scores, axis=1)
    scores, weights = (np.take_along_axis(table, order, axis=1) for table in (scores, weights))
    return quantile_values(base, scores), weights


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


def _evenly_spaced(ordered: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return points at evenly spaced places of an order, which stand for all."""
    return ordered[((np.arange(MOST_GLOBAL) + 0.5) * len(ordered) / MOST_GLOBAL).astype(np.intp)]


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
