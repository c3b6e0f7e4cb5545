"""The recalibrated distribution: lazy, computed in chunks, itself a distribution."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from nearcal._arrays import FloatArray, IntArray, check_count
from nearcal._cached import cached_property
from nearcal._errors import InvalidInputError
from nearcal._normal_scores import z_from_log_tails
from nearcal.distributions._base import Distribution, Seed, as_levels, interval_levels
from nearcal.distributions._parametric import Normal
from nearcal.recalibration._chunks import Workers
from nearcal.recalibration._local_sample import CONTINUOUS_RULES, Calibration, LocalSample, QuantileRule
from nearcal.recalibration._neighborhoods import Finder, Neighborhoods, Rows
from nearcal.recalibration._reliability import Reliability, check_false_alarm, judge

LocationScale: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]

_UNTOUCHED_QUANTILES = 100


@dataclass(frozen=True)
class Summary:
    """What ``Recalibrated.summary`` returns: one array a statistic, one entry a row."""

    mean: FloatArray
    std: FloatArray
    lower: FloatArray
    upper: FloatArray
    quantiles: FloatArray
    cdf: FloatArray
    effective_size: FloatArray
    radius: FloatArray


class Neighbors(NamedTuple):
    """Neighbours of some rows, nearest first; short rows are padded with index -1, distance inf, weight 0.

    Where all calibration points count alike (global recalibration) distances are NaN: nobody looked at them.
    """

    indices: NDArray[np.int32]
    distances: FloatArray
    weights: FloatArray


class WeightedSample(NamedTuple):
    """Weighted sample of the recalibrated distributions of some rows; short rows are padded with weight 0."""

    values: FloatArray
    weights: FloatArray


class Recalibrated(Distribution):
    """Recalibrated predictive distributions, made by ``recalibrate``.

    Row j is the weighted sample {F_j⁻¹(Φ(z_i)), w_ij} over the calibration points i near it; with adjustment or
    shrinkage (see :class:`LocalRecalibrator`) z_i are the scores as moved for that row, in all that follows. Nothing is
    computed before it is asked for, and then in chunks of rows: no array of rows × neighbours is ever held for all
    rows. The neighbourhoods of earlier questions are kept while they fit in the memory budget. To get several
    statistics of many rows in one pass use :meth:`summary`.

    - ``mean``, ``var``: moments of the weighted sample, Σ w y and Σ w (y - mean)².
    - ``ppf``, ``interval``, ``cdf``, ``sf``, ``sample``: by the rule chosen in the recalibrator.

      - ``"step"``: the weighted empirical distribution; a quantile is the least value whose cumulated weight reaches p.
      - ``"interpolated"``: continuous, with the interpolation and the Normal tails of :class:`Samples`, on the scale of
        normal scores.
      - ``"predictive"``: the same, widened so that even small neighbourhoods cover the next response as often as they
        say. The i-th of n equally weighted scores stands at probability i / (n + 1) instead of (i - ½) / n: that is
        the probability that one more score falls below it, whatever the distribution. With unequal weights n is the
        effective size.
      - ``"conservative"``: quantiles move outwards as if the new point itself, with weight K(0), lay beyond them (equal
        weights: the ⌈(k+1)p⌉-th smallest value above the median, as in split conformal prediction), bounded by the
        outermost sample value. ``cdf`` and ``sf`` stay those of the step rule.
    - ``pdf``, ``logpdf``: a smooth density under every rule: Gaussian kernel estimate of the weighted scores
      (Silverman's bandwidth with the effective size), times dz/dy of the base distribution.

    Attributes
    ----------
    base : Distribution
        The distributions before recalibration.
    """

    base: Distribution
    quantile_rule: QuantileRule
    _interpolates: bool
    _calibration: Calibration
    _finder: Finder
    _workers: Workers
    _kept: dict[tuple[int, int], Neighborhoods]

    def __init__(
        self,
        base: Distribution,
        calibration: Calibration,
        finder: Finder,
        workers: Workers,
        quantile_rule: QuantileRule,
    ) -> None:
        self._store(base=base, _calibration=calibration, _finder=finder, _workers=workers)
        self._store(quantile_rule=quantile_rule, _interpolates=quantile_rule in CONTINUOUS_RULES, _kept={})
        # atoms of the base stay atoms, and equal scores make new ones
        keeps_atoms_out = calibration.polish is None or calibration.polish.is_continuous
        is_smooth = self._interpolates and keeps_atoms_out and not calibration.has_ties
        self._store(is_continuous=is_smooth and base.is_continuous)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.base)

    @property
    def n_cal(self) -> int:
        """The number of calibration rows it was learnt from."""
        return len(self._calibration.z)

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle and copy take along: all but the neighbourhoods kept, which can be found again."""
        state = {**vars(self), "_kept": {}}
        state.pop("_order", None)
        return state

    def _rows(self, rows: IntArray) -> Self:
        return type(self)(
            self.base[rows], self._calibration, self._finder.take(rows), self._workers, self.quantile_rule
        )

    # ---- statistics -------------------------------------------------------------------------------------------------

    def mean(self) -> FloatArray:
        """Return Σ w y of every row, shape (n,)."""
        return self._moments[0].copy()

    def var(self) -> FloatArray:
        """Return Σ w (y - mean)² of every row, shape (n,)."""
        return self._moments[1].copy()

    @cached_property
    def effective_size(self) -> FloatArray:
        """The number of equally weighted points that would carry as much information: 1 / Σ w², shape (n,).

        It is 0 where a thin neighbourhood left the base distribution as it was.
        """
        return self._read_only(lambda sample, rows: (sample.effective_size(),))

    @cached_property
    def radius(self) -> FloatArray:
        """The distance u at which the weights vanish, shape (n,): to the k-th neighbour, or the radius asked for.

        It is infinite for global recalibration.
        """
        return self._read_only(lambda sample, rows: (sample.radius(),))

    def reliability(self, false_alarm: float = 0.01) -> Reliability:
        """Tell how far each row can be trusted, by how near it is to calibration points.

        A row is flagged as out of distribution by a conformal test: its distance to the k-th neighbour is ranked among
        the distances of calibration points to their k-th neighbour among the others; for a fixed radius the number of
        neighbours takes the place of the distance.

        Parameters
        ----------
        false_alarm : float
            The share of rows from the distribution of the calibration set that may be flagged. A rate below
            1 / (n_cal + 1) flags nothing: so small a set cannot tell.

        Returns
        -------
        Reliability
            A table of ``effective_size``, ``radius``, ``isolation``, ``p_value`` and ``out_of_distribution``. For
            global recalibration, which does not look where rows are, the last three are NaN, NaN and False.

        Notes
        -----
        Of more than 10,000 calibration points, 10,000 drawn at random stand for all.

        References
        ----------
        S. Bates, E. Candès, L. Lei, Y. Romano and M. Sesia, *Testing for outliers with conformal p-values*, Annals of
        Statistics 51 (2023), doi:10.1214/22-AOS2244.

        Examples
        --------
        >>> import numpy as np, nearcal as nc
        >>> x = np.random.default_rng(1).normal(size=(500, 2))
        >>> rc = nc.LocalRecalibrator(k=50).fit(nc.Normal(np.zeros(500), 1.0), x[:, 0], x)
        >>> out = rc.recalibrate(nc.Normal(np.zeros(2), 1.0), [[0.0, 0.0], [9.0, 9.0]])
        >>> out.reliability()["out_of_distribution"]
        array([False,  True])
        """
        check_false_alarm(false_alarm)

        def statistics(sample: LocalSample, rows: Rows) -> tuple[FloatArray, ...]:
            isolation = self._finder.isolation(sample.neighborhoods, rows)
            return sample.effective_size(), sample.radius(), isolation

        own = self._finder.own_isolation(replace(self._workers, progress=False))
        effective_size, radius, isolation = self._gather(statistics)
        return judge(effective_size, radius, isolation, own, false_alarm)

    def summary(self, coverage: float = 0.95, p: Any = (), y: Any = None) -> Summary:
        """Compute the usual statistics in one pass over the rows, keeping no neighbourhoods.

        Parameters
        ----------
        coverage : float
            Coverage of the central interval (lower, upper).
        p : array_like of shape (q,)
            Further quantile levels, returned as ``quantiles`` of shape (n, q).
        y : array_like, optional
            Responses, (n,) or (n, q), whose probabilities P(Y <= y) are returned as ``cdf`` of shape (n, q); without
            them it has no columns.

        Returns
        -------
        Summary
            mean, std, lower, upper, quantiles, cdf, effective_size, radius.
        """
        further = np.atleast_1d(as_levels(p))
        if further.ndim > 1:
            raise InvalidInputError(f"p must be a scalar or have shape (q,), got {further.shape}")
        levels = np.concatenate([interval_levels(coverage), further])
        at = np.empty((len(self), 0)) if y is None else self._evaluate(np.array, y, "y").reshape(len(self), -1)

        def statistics(sample: LocalSample, rows: Rows) -> tuple[FloatArray, ...]:
            scores = sample.quantile_scores(np.tile(levels, (len(sample.base), 1)), self.quantile_rule)
            mean, var = sample.moments(self._standardised(sample, rows))
            quantiles = sample.base._from_z(scores)
            cdf = np.exp(sample.log_tails(at[rows], self.quantile_rule)[0]) if at.shape[1] else at[rows]
            return mean, np.sqrt(var), quantiles, cdf, sample.effective_size(), sample.radius()

        expanded = self._location_scale_scores is None or self._interpolates
        mean, std, quantiles, cdf, effective_size, radius = self._gather(
            statistics, expanded=expanded, columns=max(len(levels), at.shape[1]), keep=False
        )
        return Summary(mean, std, quantiles[:, 0], quantiles[:, 1], quantiles[:, 2:], cdf, effective_size, radius)

    def neighbors(self, rows: Any) -> Neighbors:
        """Return the calibration points that speak for some rows.

        Parameters
        ----------
        rows : int, slice, mask or index array

        Returns
        -------
        Neighbors
            ``indices``, ``distances`` and ``weights``, each of shape (number of rows, most neighbours), nearest first.
            Short rows are padded with index -1, distance inf and weight 0.
        """
        return self[rows]._neighbors_and_scores()[0]

    def _neighbors_and_scores(self) -> tuple[Neighbors, FloatArray]:
        """Return the neighbours of all rows, nearest first, and their scores."""
        found = self._finder.find(slice(0, len(self)))
        missing = found.which < 0
        indices = found.padded(found.indices, -1)[found.which]
        distances = found.padded(found.distances, np.inf)[found.which]
        weights = found.padded(found.weights, 0.0)[found.which]
        own = self._calibration.z[found.indices] if found.scores is None else found.scores
        scores = found.padded(own, 0.0)[found.which]
        indices[missing], distances[missing], weights[missing], scores[missing] = -1, np.inf, 0.0, 0.0
        order = np.lexsort((indices, distances))
        nearest_first = Neighbors(
            np.take_along_axis(indices, order, axis=1),
            np.take_along_axis(distances, order, axis=1),
            np.take_along_axis(weights, order, axis=1),
        )
        return nearest_first, np.take_along_axis(scores, order, axis=1)

    def weighted_sample(self, rows: Any) -> WeightedSample:
        """Return the output of Algorithm 1 for some rows: sample values and their weights.

        Parameters
        ----------
        rows : int, slice, mask or index array

        Returns
        -------
        WeightedSample
            ``values`` and ``weights``, each of shape (number of rows, most neighbours), in the order of
            :meth:`neighbors`. Short rows are padded with weight 0. A row left to its base distribution is given by
            equally weighted quantiles of it.
        """
        chosen = self[rows]
        (_, _, weights), scores = chosen._neighbors_and_scores()
        untouched = weights.sum(axis=1) == 0
        if untouched.any():
            scores, weights = _describe_untouched(scores, weights, untouched)
        return WeightedSample(chosen.base._from_z(scores), weights)

    def sample(self, size: int, rng: Seed = None) -> FloatArray:
        """Draw ``size`` values from every row; under the step rules neighbours are drawn by their weights."""
        size = check_count(size, "size")
        p = np.random.default_rng(rng).uniform(size=(len(self), size))
        return self._quantiles(p, self.quantile_rule if self._interpolates else "step")

    # ---- a family's part of the bargain -----------------------------------------------------------------------------

    def _ppf(self, p: FloatArray) -> FloatArray:
        return self._quantiles(p, self.quantile_rule)

    def _from_z(self, z: FloatArray) -> FloatArray:
        z = np.broadcast_to(z, (len(self), z.shape[1]))
        return self._gather(
            lambda sample, rows: (sample.values_at(z[rows], self.quantile_rule),),
            expanded=self._interpolates,
            columns=z.shape[1],
        )[0]

    def _logcdf(self, y: FloatArray) -> FloatArray:
        return self._log_tails(y)[0]

    def _logsf(self, y: FloatArray) -> FloatArray:
        return self._log_tails(y)[1]

    def _log_tails(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        lower, upper = self._gather(
            lambda sample, rows: sample.log_tails(y[rows], self.quantile_rule),
            expanded=self._interpolates,
            columns=y.shape[1],
        )
        return lower, upper

    def _z(self, y: FloatArray) -> FloatArray:
        return self._gather(
            lambda sample, rows: (sample.bounded_z(y[rows], self.quantile_rule),),
            expanded=self._interpolates,
            columns=y.shape[1],
        )[0]

    def _unbounded_z(self, y: FloatArray) -> FloatArray:
        return z_from_log_tails(*self._log_tails(y))

    def _cdf_left(self, y: FloatArray) -> FloatArray:
        # rows left to a base distribution with atoms have its atoms, whatever the rule
        below = y if self.is_continuous and self.base.is_continuous else np.nextafter(y, -np.inf)
        return self._cdf(below)

    def _resolution(self) -> FloatArray:
        if self.is_continuous:
            return np.zeros(len(self))
        known = self.effective_size > 0
        return np.where(known, 1 / np.where(known, self.effective_size, 1.0), self.base._resolution())

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return self._gather(lambda sample, rows: (sample.log_density(y[rows]),), columns=y.shape[1])[0]

    def _density_z(self, y: FloatArray) -> FloatArray:
        return self._gather(lambda sample, rows: (sample.density_z(y[rows]),), expanded=True, columns=y.shape[1])[0]

    def _quantiles(self, p: FloatArray, rule: QuantileRule) -> FloatArray:
        def quantiles(sample: LocalSample, rows: Rows) -> tuple[FloatArray]:
            return (sample.base._from_z(sample.quantile_scores(p[rows], rule)),)

        return self._gather(quantiles, expanded=rule in CONTINUOUS_RULES, columns=p.shape[1])[0]

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        mean, var = self._gather(
            lambda sample, rows: sample.moments(self._standardised(sample, rows)),
            expanded=self._location_scale_scores is None,
        )
        return mean, var

    def _standardised(self, sample: LocalSample, rows: Rows) -> LocationScale | None:
        """Return loc and scale of some rows and the standard quantile of every score, where the family has them."""
        if self._location_scale_scores is None:
            return None
        loc, scale, scores = self._location_scale_scores
        return loc[rows], scale[rows], sample.calibration.z if self._finder.moves_scores else scores

    @cached_property
    def _location_scale_scores(self) -> LocationScale | None:
        """Loc, scale and the standard quantile of every calibration score, where the base family has them."""
        parts = self.base._location_scale()
        # scores that each row has for itself are quantiles without more ado in the Normal family alone
        if parts is None or (self._finder.moves_scores and not isinstance(parts[2], Normal)):
            return None
        loc, scale, standard = parts
        return loc, scale, standard._from_z(self._calibration.z[np.newaxis])[0]

    # ---- chunks -----------------------------------------------------------------------------------------------------

    def _gather(
        self,
        statistics: Callable[[LocalSample, Rows], tuple[FloatArray, ...]],
        *,
        expanded: bool = False,
        columns: int = 1,
        keep: bool = True,
    ) -> tuple[FloatArray, ...]:
        """Compute statistics chunk by chunk and join them.

        Where the search gains by it a chunk holds rows that are near each other, and results are put back in place.
        ``expanded`` says that a table of rows × longest neighbourhood is made, even where rows share a neighbourhood.
        ``columns`` is the number of values asked for in each row.
        """
        polish = self._calibration.polish
        more = len(polish.before_knots) if expanded and polish is not None else 0
        pairs = 1 if self._finder.is_shared and not expanded else self._finder.pairs_per_row + more
        chunks = self._workers.chunks(len(self), max(pairs, columns, self.base._values_per_row))
        order = self._order if len(chunks) > 1 else None
        results: dict[int, tuple[FloatArray, ...]] = {}

        def task(chunk: slice) -> None:
            found = self._neighborhoods(chunk, order, keep=keep)
            parts = []
            for part in (
                found.split(self._workers.pairs_per_chunk(), more) if expanded else [slice(0, len(found.which))]
            ):
                own = slice(chunk.start + part.start, chunk.start + part.stop)
                rows = own if order is None else order[own]
                base = self.base if own == slice(0, len(self)) else self.base[rows]
                neighborhoods = found if own == chunk else found.part(part)
                parts.append(statistics(LocalSample(base, neighborhoods, self._calibration), rows))
            results[chunk.start] = parts[0] if len(parts) == 1 else _join(parts)

        self._workers.run(task, chunks)
        joined = _join([results.pop(chunk.start) for chunk in chunks])
        return joined if order is None else tuple(_put_back(values, order) for values in joined)

    @cached_property
    def _order(self) -> IntArray | None:
        return self._finder.order()

    def _read_only(self, statistic: Callable[[LocalSample, Rows], tuple[FloatArray, ...]]) -> FloatArray:
        """Compute a statistic that is kept and shown as an attribute."""
        values = self._gather(statistic)[0]
        values.flags.writeable = False
        return values

    def _neighborhoods(self, chunk: slice, order: IntArray | None, *, keep: bool) -> Neighborhoods:
        """Search the neighbourhoods of a chunk, or take them from an earlier search."""
        key = (chunk.start, chunk.stop)
        found = self._kept.get(key)
        if found is None:
            found = self._finder.find(chunk if order is None else order[chunk])
            spent = sum(other.nbytes for other in list(self._kept.values()))
            if keep and not self._finder.is_shared and spent + found.nbytes <= self._workers.memory // 2:
                self._kept[key] = found
        return found


def _join(parts: list[tuple[FloatArray, ...]]) -> tuple[FloatArray, ...]:
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def _put_back(values: FloatArray, order: IntArray) -> FloatArray:
    """Return values in the place of the row each belongs to, given the rows in the order they were computed."""
    placed = np.empty_like(values)
    placed[order] = values
    return placed


def _describe_untouched(
    scores: FloatArray, weights: FloatArray, untouched: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """Fill the rows without neighbours with equally weighted scores of the base distribution."""
    width = max(scores.shape[1], _UNTOUCHED_QUANTILES)
    missing = ((0, 0), (0, width - scores.shape[1]))
    scores, weights = np.pad(scores, missing), np.pad(weights, missing)
    scores[untouched] = ndtri((np.arange(width) + 0.5) / width)
    weights[untouched] = 1 / width
    return scores, weights
