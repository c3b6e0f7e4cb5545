"""The recalibrated distribution: a base and the scores of its rows, lazy, itself a distribution."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from nearcal._arrays import FloatArray, IntArray, as_generator, as_response, check_count
from nearcal._cached import cached_property
from nearcal._errors import InvalidInputError
from nearcal._normal_scores import z_from_log_tails
from nearcal._table import Table
from nearcal.distributions import Distribution, Seed, as_level_row, interval_levels
from nearcal.distributions.base import in_order, overflow_is_infinite
from nearcal.recalibration.averaged_scores import AveragedScores
from nearcal.recalibration.fade import FALSE_ALARM
from nearcal.recalibration.local_scores import LocalScores, describe
from nearcal.recalibration.neighborhoods import Neighborhoods, Rows
from nearcal.recalibration.reliability import Reliability, check_false_alarm, judge, unknown_reliability
from nearcal.recalibration.score_laws import ScoreLaw
from nearcal.recalibration.scores_of_rows import Answers, OfBase, ScoresOfRows, Statistic

_UNTOUCHED_QUANTILES = 100


@dataclass(frozen=True)
class Summary:
    """What ``Recalibrated.summary`` returns: one array a statistic, one entry a row; ``levels`` are those of quantiles.

    :meth:`to_pandas` makes a table of it.
    """

    mean: FloatArray
    std: FloatArray
    lower: FloatArray
    upper: FloatArray
    quantiles: FloatArray
    cdf: FloatArray
    effective_size: FloatArray
    radius: FloatArray
    trust: FloatArray
    levels: FloatArray

    def to_table(self) -> Table:
        """Return the statistics as columns; a quantile is named by its level in per cent, ``q2.5``.

        With one response a row their probabilities are the column ``cdf``, else ``cdf_0``, ``cdf_1`` and so on.
        """
        quantiles = {f"q{100 * p:.10g}": column for p, column in zip(self.levels, self.quantiles.T, strict=True)}
        many = self.cdf.shape[1] > 1
        probabilities = {f"cdf_{place}" if many else "cdf": column for place, column in enumerate(self.cdf.T)}
        first = {name: getattr(self, name) for name in ("mean", "std", "lower", "upper")}
        last = {name: getattr(self, name) for name in ("effective_size", "radius", "trust")}
        return Table({**first, **quantiles, **probabilities, **last})

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with the columns of :meth:`to_table`."""
        return self.to_table().to_pandas()

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame`` with the columns of :meth:`to_table`."""
        return self.to_table().to_polars()


class Neighbors(NamedTuple):
    """Neighbours of some rows, nearest first; short rows are padded with index -1, distance inf, weight 0.

    Where all calibration points count alike (thin rows of a radius, by choice) distances are NaN: nobody looked.
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

    Row j is the distribution of Y_j = F_j⁻¹(Φ(Z_j)): the base distribution F_j, read at scores Z_j whose distribution
    the recalibrator has learnt. Every statistic is one of that distribution: ``pdf`` is the derivative of ``cdf``,
    ``ppf`` its inverse, moments and draws are its own. Nothing is computed before it is asked for, and then in chunks
    of rows. To get several statistics of many rows in one pass use :meth:`summary`.

    After local recalibration Z_j are the scores z_i of the calibration points near row j, corrected if so asked, with
    weights w_ij, and the quantile rule says how they are read:

    - ``"step"``: as they are. Y_j is the weighted sample {F_j⁻¹(Φ(z_i)), w_ij} of the paper, with mean Σ w y and
      variance Σ w (y - mean)²; a quantile is the least value whose cumulated weight reaches p. There is no density.
    - ``"interpolated"``: a continuous distribution through about 2 √n of n scores, with the interpolation and the
      Normal tails of :class:`Samples`, on the scale of normal scores.
    - ``"predictive"``: the same, widened so that even small neighbourhoods cover the next response as often as they
      say. The i-th of n equally weighted scores stands at probability i / (n + 1) instead of (i - ½) / n: that is the
      probability that one more score falls below it, whatever the distribution. With unequal weights n is the effective
      size.
    - ``"conservative"``: the weighted sample, with weight moved to both ends as if the new point itself, with weight
      K(0), lay beyond every quantile (equal weights: the ⌈(k+1)p⌉-th smallest value above the median, as in split
      conformal prediction), bounded by the outermost sample value.

    Whatever the rule, :meth:`weighted_sample` returns the output of Algorithm 1.

    Attributes
    ----------
    base : Distribution
        The distributions before recalibration.
    scores : ScoresOfRows
        The distributions of the scores Z_j.
    """

    base: Distribution
    scores: ScoresOfRows

    def __init__(self, base: Distribution, scores: ScoresOfRows) -> None:
        self._store(
            base=base,
            scores=scores,
            is_continuous=scores.is_continuous and base.is_continuous,  # atoms of the base stay atoms
            has_density=scores.has_density and base.has_density,
        )

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.base)

    @property
    def _values_per_row(self) -> int:
        return self.base._values_per_row

    def _rows(self, rows: IntArray) -> Self:
        return type(self)(self.base[rows], self.scores.take(rows))

    def gather(self, statistic: Statistic, of_base: OfBase, **plan: Any) -> Answers:
        """Compute a statistic of every row in chunks; see ``ScoresOfRows.gather``. For scores and the like."""
        with overflow_is_infinite():
            return self.scores.gather(self.base, statistic, of_base, **plan)

    # ---- a family's part of the bargain -----------------------------------------------------------------------------

    def mean(self) -> FloatArray:
        """Return the mean of every row, shape (n,)."""
        return self._moments[0].copy()

    def std(self) -> FloatArray:
        """Return the standard deviation of every row, shape (n,)."""
        return self._moments[1].copy()

    @cached_property
    def _moments(self) -> Answers:
        return self.gather(
            lambda law, base, rows: law.moments(base), lambda base, rows: (base.mean(), base.std()), table=True
        )

    def _tail_powers(self) -> FloatArray:
        return self.gather(
            lambda law, base, rows: (law.tail_powers(base),), lambda base, rows: (base._tail_powers(),), columns=2
        )[0]

    def _ppf(self, p: FloatArray) -> FloatArray:
        return self._ask(
            lambda law, base, rows: (law.quantiles(base, p[rows]),), lambda base, rows: (base._ppf(p[rows]),), p
        )[0]

    def _from_z(self, z: FloatArray) -> FloatArray:
        z = np.broadcast_to(z, (len(self), z.shape[1]))
        return self._ask(
            lambda law, base, rows: (law.values(base, z[rows]),), lambda base, rows: (base._from_z(z[rows]),), z
        )[0]

    def _logcdf(self, y: FloatArray) -> FloatArray:
        return self._log_tails(y)[0]

    def _logsf(self, y: FloatArray) -> FloatArray:
        return self._log_tails(y)[1]

    def _log_tails(self, y: FloatArray) -> Answers:
        return self._ask(
            lambda law, base, rows: law.log_tails(base, y[rows]),
            lambda base, rows: (base._logcdf(y[rows]), base._logsf(y[rows])),
            y,
        )

    def _z(self, y: FloatArray) -> FloatArray:
        return self._ask(
            lambda law, base, rows: (law.finite_scores(base, y[rows]),), lambda base, rows: (base._z(y[rows]),), y
        )[0]

    def _unbounded_z(self, y: FloatArray) -> FloatArray:
        return z_from_log_tails(*self._log_tails(y))

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return self._ask(
            lambda law, base, rows: (law.log_density(base, y[rows]),), lambda base, rows: (base._logpdf(y[rows]),), y
        )[0]

    def _ask(self, statistic: Statistic, of_base: OfBase, values: FloatArray) -> Answers:
        return self.gather(statistic, of_base, columns=values.shape[1])

    def _cdf_left(self, y: FloatArray) -> FloatArray:
        # rows left to a base distribution with atoms have its atoms, whatever the rule
        below = y if self.is_continuous and self.base.is_continuous else np.nextafter(y, -np.inf)
        return self._cdf(below)

    def _resolution(self) -> FloatArray:
        if self.is_continuous:
            return np.zeros(len(self))
        size = self.effective_size
        known = size > 0
        return np.where(known, 1 / np.where(known, size, 1.0), self.base._resolution())

    def sample(self, size: int, rng: Seed = None) -> FloatArray:
        """Draw ``size`` values from every row; of weighted samples by their weights."""
        if self.scores.has_density:
            return super().sample(size, rng)
        size = check_count(size, "size")
        return self._ppf(as_generator(rng).uniform(size=(len(self), size)))

    # ---- what is known of the rows ----------------------------------------------------------------------------------

    @property
    def n_cal(self) -> int | None:
        """The number of calibration points behind the predictions; None where a recalibrator counts none.

        Where they have weights, their effective size (Σ a)² / Σ a², rounded.
        """
        return self.scores.n_cal

    @cached_property
    def effective_size(self) -> FloatArray:
        """The number of equally weighted points that would carry as much information: 1 / Σ w², shape (n,).

        It is 0 where the base distribution was left as it was, and NaN where a recalibrator counts no points.
        """
        return self._describe[0]

    @cached_property
    def radius(self) -> FloatArray:
        """The distance u at which the weights vanish, shape (n,): to the k-th neighbour, or the radius asked for.

        It is infinite where all rows are recalibrated alike.
        """
        return self._describe[1]

    @cached_property
    def trust(self) -> FloatArray:
        """How much of the recalibration each row has, between 0 and 1, shape (n,); the rest is its base distribution.

        It is 1 where nothing fades, less for rows unlike the calibration set (:class:`nearcal.Fade`), and 0 where the
        base distribution was left as it was.
        """
        return self._describe[2]

    @property
    def expected_faded(self) -> float | None:
        """The largest share of rows like the calibration set to expect with a trust below 1; None if nothing fades."""
        return self.scores.expected_faded

    def faded(self, trust: Any, false_alarm: float = FALSE_ALARM) -> "Recalibrated":
        """Return the same distributions, of which each row keeps its base as far as it is not trusted.

        Parameters
        ----------
        trust : array_like of shape (n,)
            Between 0, the base distribution, and 1, the recalibrated one; see :class:`nearcal.Fade` for how they are
            blended. Where a row is trusted less already, it stays so.
        false_alarm : float
            The share of rows that is expected below 1: far more of them are told by a warning.
        """
        check_false_alarm(false_alarm)
        known = as_response(trust, len(self), "trust")
        outside = ~((known >= 0) & (known <= 1))
        if outside.any():
            raise InvalidInputError(f"trust must lie between 0 and 1, got {float(known[outside][0])!r}")
        return Recalibrated(self.base, self.scores.faded(known, false_alarm))  # what has faded keeps no guarantee

    @cached_property
    def _describe(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        n, scores = len(self), self.scores
        size, radius = np.broadcast_to(scores.effective_size(n), n), scores.radius(n).view()
        trust = scores.trust_in(n).view()
        if scores.loudest is not None:
            radius = scores.loudest.radius.view()
        if isinstance(scores, LocalScores):
            size, radius, trust = scores.visit(self.base, lambda near, base, rows: describe(near))
        for values in (size, radius, trust):
            values.flags.writeable = False
        return size, radius, trust

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
            A table of ``effective_size``, ``radius``, ``isolation``, ``p_value``, ``out_of_distribution`` and
            ``trust``. For global recalibration, which does not look where rows are, the first three of the last four
            are NaN, NaN and False.

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
        nearest = self if self.scores.loudest is None else self.scores.loudest
        scores, known = nearest.scores, nearest.scores.isolation()
        if known is not None:
            return judge(*self._describe, *known, false_alarm)
        if not isinstance(scores, LocalScores):
            return unknown_reliability(*self._describe, false_alarm)

        def isolation(near: Neighborhoods, base: Distribution, rows: Rows) -> Answers:
            return (scores.neighborhood.isolation(near, scores.index, scores.points[rows]),)

        own = scores.own_isolation.sorted(scores.neighborhood, scores.workers.silent())
        return judge(*self._describe, scores.visit(nearest.base, isolation)[0], own, false_alarm)

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
            mean, std, lower, upper, quantiles, cdf, effective_size, radius, trust, levels; ``to_pandas`` makes a table
            of it.
        """
        further = np.atleast_1d(as_level_row(p))
        levels = np.concatenate([interval_levels(coverage), further])
        at = np.empty((len(self), 0)) if y is None else self._evaluate(np.array, y, "y").reshape(len(self), -1)

        def of_rows(law: ScoreLaw, base: Distribution, rows: Rows) -> Answers:
            mean, std = law.moments(base)
            quantiles = law.quantiles(base, np.tile(levels, (len(base), 1)))
            return mean, std, quantiles, np.exp(law.log_tails(base, at[rows])[0]) if at.shape[1] else at[rows]

        def of_base(base: Distribution, rows: Rows) -> Answers:
            return base.mean(), base.std(), base.ppf(levels), np.exp(base._logcdf(at[rows]))

        columns = max(len(levels), at.shape[1])
        if isinstance(self.scores, LocalScores):
            with overflow_is_infinite():
                mean, std, quantiles, cdf, *described = self.scores.gather_described(
                    self.base, of_rows, of_base, columns=columns
                )
        else:
            mean, std, quantiles, cdf = self.gather(of_rows, of_base, columns=columns, table=True, keep=False)
            described = [*self._describe]
        size, radius, trust = described
        quantiles = in_order(quantiles, levels)
        lower, upper = quantiles[:, 0], quantiles[:, 1]
        return Summary(mean, std, lower, upper, quantiles[:, 2:], cdf, size, radius, trust, further)

    # ---- Algorithm 1 ------------------------------------------------------------------------------------------------

    def neighbors(self, rows: Any) -> Neighbors:
        """Return the calibration points that speak for some rows.

        Parameters
        ----------
        rows : int, slice, mask or index array

        Returns
        -------
        Neighbors
            ``indices``, ``distances`` and ``weights``, each of shape (number of rows, most neighbours), nearest first.
            Short rows are padded with index -1, distance inf and weight 0. Points are numbered as they were given to
            ``fit``, those of weight 0 left out. Of an average they are those of the member of the greatest weight.
        """
        chosen = self[rows]
        heaviest = chosen.scores.heaviest if isinstance(chosen.scores, AveragedScores) else chosen
        return heaviest._neighbors_and_scores()[0]

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
        with overflow_is_infinite():
            return WeightedSample(chosen.base._from_z(scores), weights)

    def _neighbors_and_scores(self) -> tuple[Neighbors, FloatArray]:
        """Return the neighbours of all rows, nearest first, and their scores."""
        scores = self.scores
        if not isinstance(scores, LocalScores):
            raise InvalidInputError(
                "neighbours must come from local recalibration, got a recalibrator that treats all rows alike, by a "
                "function or by an average of several; ask for ppf, cdf or sample, or choose with members=1"
            )
        near = scores.find(slice(0, len(self)))
        missing = near.which < 0
        indices = near.padded(near.indices, -1)[near.which]
        distances = near.padded(near.distances, np.inf)[near.which]
        weights = near.padded(near.weights, 0.0)[near.which]
        own = scores.calibration.z[near.indices] if near.scores is None else near.scores
        z = near.padded(own, 0.0)[near.which]
        indices[missing], distances[missing], weights[missing], z[missing] = -1, np.inf, 0.0, 0.0
        order = np.lexsort((indices, distances))
        nearest_first = Neighbors(
            np.take_along_axis(indices, order, axis=1),
            np.take_along_axis(distances, order, axis=1),
            np.take_along_axis(weights, order, axis=1),
        )
        return nearest_first, np.take_along_axis(z, order, axis=1)


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
