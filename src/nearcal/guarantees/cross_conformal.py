"""Cross-conformal recalibration: every fold is scored by what was learnt without it, and no row is lost."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray, IntArray, as_float_array, as_space
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._normal_scores import LEVEL_TOLERANCE
from nearcal._saved import count, flag, float_array, having, instance, require, savable, tuple_of
from nearcal.distributions import (
    Distribution,
    Normal,
    QuantileAverage,
    as_level_row,
    central_levels,
    require_distribution,
)
from nearcal.distributions.base import overflow_is_infinite
from nearcal.distributions.interpolation import Interpolated
from nearcal.guarantees.bent_scores import outward
from nearcal.guarantees.guaranteed import read_inner, scores_under
from nearcal.guarantees.promises import Cross, Guarantee, as_promise
from nearcal.guarantees.set_aside import refuse_time
from nearcal.recalibration.base import Recalibrator, calibration_scores
from nearcal.recalibration.conformal import ConformalDistribution
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.order_statistics import few_places
from nearcal.recalibration.result import Neighbors, Recalibrated, WeightedSample
from nearcal.recalibration.scores_of_rows import Answers, OfBase, ScoresOfRows, Statistic, in_chunks

_CHUNK = 2**18  # scores looked at together


class CrossScores(ScoresOfRows):
    """The scores of a row by every fold: where each calibration row's score lies under what was learnt without it.

    Parameters
    ----------
    parts : tuple of Recalibrated
        What is made of the rows without each fold.
    scores : tuple of ndarray
        The scores of the rows of each fold.
    own_bases : bool
        Whether every fold has predictions of its own, so that scores are compared by the responses they stand for.
    guarantee : Guarantee
        What is promised.
    """

    n_cal: int
    has_density = True

    def __init__(
        self, parts: Sequence[Recalibrated], scores: Sequence[FloatArray], own_bases: bool, guarantee: Guarantee
    ) -> None:
        self.parts, self.scores, self.own_bases = tuple(parts), tuple(scores), own_bases
        self.guarantee = guarantee
        self.n_cal = sum(map(len, scores))
        self.is_continuous = all(part.scores.is_continuous for part in parts)
        self.expected_faded = max((p.expected_faded for p in parts if p.expected_faded is not None), default=None)
        ranks = np.arange(1, self.n_cal + 1)
        self._after = np.where(
            2 * ranks <= self.n_cal, ndtri(ranks / (self.n_cal + 1)), -ndtri(ranks[::-1] / (self.n_cal + 1))
        )

    @property
    def loudest(self) -> Recalibrated | None:
        """The first fold's neighbourhoods."""
        first = self.parts[0]
        return first if first.scores.knows_isolation else first.scores.loudest

    def take(self, rows: IntArray) -> "CrossScores":
        """Return the scores of the chosen rows."""
        return CrossScores([part[rows] for part in self.parts], self.scores, self.own_bases, self.guarantee)

    def faded(self, trust: FloatArray, false_alarm: float) -> "CrossScores":
        """Return the same of what has faded in every fold."""
        return CrossScores(
            [part.faded(trust, false_alarm) for part in self.parts], self.scores, self.own_bases, self.guarantee
        )

    def effective_size(self, rows: int) -> FloatArray:
        """Return the mean over folds."""
        return np.mean([part.effective_size for part in self.parts], axis=0)

    def trust_in(self, rows: int) -> FloatArray:
        """Return the least of all folds."""
        return np.min([part.trust for part in self.parts], axis=0)

    def gather(self, base: Distribution, statistic: Statistic, of_base: OfBase, **plan: Any) -> Answers:
        """Draw a curve through the scores of each row, chunk by chunk."""
        places = few_places(self._after)
        levels = self._after[np.newaxis, places]

        def ask(table: FloatArray, part: Distribution, rows: slice) -> Answers:
            return statistic(Curve(Interpolated(levels, table[:, places], normal_tails=True)), part, rows)

        return self.visit(base, ask)

    def visit(self, base: Distribution, ask: Callable[[FloatArray, Distribution, slice], Answers]) -> Answers:
        """Ask a question of the sorted scores of every chunk of rows."""

        def task(part: Distribution, rows: slice) -> Answers:
            return ask(self._table(part, np.arange(rows.start, rows.stop)), part, rows)

        return in_chunks(base, max(_CHUNK // self.n_cal, 1), task)

    def _table(self, base: Distribution, rows: IntArray) -> FloatArray:
        """Return the scores, relative to the base, of all calibration rows as they would lie in each of some rows."""
        columns = []
        for part, scores in zip(self.parts, self.scores, strict=True):
            at = np.broadcast_to(scores, (len(rows), len(scores)))
            chosen = part if len(rows) == len(part) else part[rows]
            if self.own_bases:
                columns.append(base._z(chosen._from_z(at)))
            else:
                columns.append(Recalibrated(Normal(np.zeros(len(rows)), 1.0), chosen.scores)._from_z(at))
        return np.sort(np.concatenate(columns, axis=1), axis=1)


class CrossDistribution(ConformalDistribution):
    """Recalibrated predictive distributions with the promise of CV+, made by :class:`CrossRecalibrator`.

    ``interval``, :meth:`quantile_bounds` and :meth:`cdf_bounds` have the promise: order statistics of where all
    calibration rows would lie in a row. All other statistics are of one distribution between them, a curve through
    about ∛n of these.
    """

    scores: CrossScores

    @property
    def guarantee(self) -> Guarantee:
        """What is promised, in words and numbers."""
        return self.scores.guarantee

    def interval(self, coverage: Any = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return a central interval with the promise, at a coverage that is a scalar or (q,)."""
        lower, upper = central_levels(coverage)
        return self._ends(lower, upper)

    def quantile_bounds(self, p: Any) -> tuple[FloatArray, FloatArray]:
        """Return quantiles (lower, upper), of ranks ⌊(n + 1) p⌋ and ⌈(n + 1) p⌉; shapes as in ``ppf``."""
        levels = as_level_row(p)
        return self._ends(levels, levels)

    def _ends(self, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        n, size = self.scores.n_cal, lower.size
        low = np.floor((n + 1) * (lower + LEVEL_TOLERANCE)).reshape(-1).clip(0, n + 1).astype(np.intp)
        high = np.ceil((n + 1) * (upper - LEVEL_TOLERANCE)).reshape(-1).clip(0, n + 1).astype(np.intp)

        def ask(table: FloatArray, part: Distribution, rows: slice) -> Answers:
            infinite = np.full((len(table), 1), np.inf)
            padded = np.hstack([-infinite, table, infinite])
            return (part._from_z(outward(np.stack([padded[:, low], padded[:, high]], axis=1)).reshape(len(table), -1)),)

        with overflow_is_infinite():
            (values,) = self.scores.visit(self.base, ask)
        ends = values[:, :size], values[:, size:]
        return (ends[0][:, 0], ends[1][:, 0]) if lower.ndim == 0 else ends

    def cdf_bounds(self, y: Any) -> tuple[FloatArray, FloatArray]:
        """Return #{v_i < y} / (n + 1) and (#{v_i <= y} + 1) / (n + 1), v_i being where row i would lie."""

        def edge(side: Any, more: int) -> Callable[[FloatArray], FloatArray]:
            def evaluate(y: FloatArray) -> FloatArray:
                z = self.base._unbounded_z(y)

                def ask(table: FloatArray, part: Distribution, rows: slice) -> Answers:
                    below = [np.searchsorted(row, own, side) for row, own in zip(table, z[rows], strict=True)]
                    return ((np.array(below) + more) / (self.scores.n_cal + 1),)

                return self.scores.visit(self.base, ask)[0]

            return evaluate

        return self._evaluate(edge("left", 0), y, "y"), self._evaluate(edge("right", 1), y, "y")

    def neighbors(self, rows: Any) -> Neighbors:
        """Refuse: every fold has its own."""
        raise InvalidInputError("neighbours must be of one recalibrator, got one a fold; ask scores.parts for theirs")

    def weighted_sample(self, rows: Any) -> WeightedSample:
        """Refuse: every fold has its own."""
        raise InvalidInputError("samples must be of one recalibrator, got one a fold; ask scores.parts for theirs")


class Fold(NamedTuple):
    """What was learnt without a fold, the spaces that it looks at, and the scores under it of the fold's rows."""

    member: Any
    spaces: tuple[str, ...]
    scores: FloatArray


@savable(
    n_cal_=count(),
    members_=tuple_of(having("recalibrate", "n_cal_")),
    columns_=tuple_of(tuple_of(count(0))),
    scores_=tuple_of(float_array(1)),
    own_bases_=flag,
    guarantee_=instance(Guarantee),
)
class CrossRecalibrator(Recalibrator):
    """Recalibrate with the promise of CV+, and no calibration row lost to it.

    Parameters
    ----------
    inner : recalibrator
        With a continuous quantile rule; a copy is fitted without every fold.
    promise : "cross" or Cross
        The number of folds, and the seed of who is in which.

    Attributes
    ----------
    members_ : tuple
        Fitted without each fold.
    scores_ : tuple of ndarray
        The scores of the rows of each fold under what was fitted without it.
    columns_ : tuple of tuple of int
        The columns of the space that each looks at.
    own_bases_ : bool
        Whether each has a model of its own: predictions are then a :class:`QuantileAverage`, one component a fold.
    guarantee_ : Guarantee
        What is promised, in words and numbers.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(1, 3, size=200)
    >>> dist, y = nc.Normal(np.zeros(200), 2.0), rng.normal(0, x)
    >>> local = nc.LocalRecalibrator(k=50, quantile_rule="predictive")
    >>> rc = nc.CrossRecalibrator(local, nc.Cross(folds=5)).fit(dist, y, x)
    >>> lower, upper = rc.recalibrate(nc.Normal([0.0, 0.0], 2.0), [1.1, 2.9]).interval(0.9)
    >>> (upper - lower).round()
    array([4., 8.])
    """

    _not_updated = "every fold would have to be learnt again"

    members_: tuple[Any, ...]
    columns_: tuple[tuple[int, ...], ...]
    scores_: tuple[FloatArray, ...]
    own_bases_: bool
    guarantee_: Guarantee

    def __init__(self, inner: Any = None, promise: Any = "cross") -> None:
        self.inner = inner
        self.promise = promise

    def fit(
        self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None, *, groups: Any = None, time: Any = None,
        gap: Any = None, sample_weight: Any = None,
    ) -> Self:  # fmt: skip
        """Fit a copy of ``inner`` without every fold, and score the fold's rows under it.

        Parameters
        ----------
        dist_cal, y_cal, space_cal
            As ``inner`` takes them.
        groups, time, gap, sample_weight
            Must be None, or False: the theorem is of exchangeable rows that count alike.
        """
        check_cross(groups, time, sample_weight)
        n = len(require_distribution(dist_cal, "dist_cal"))
        y = as_float_array(y_cal, "y_cal").reshape(-1)
        calibration_scores(dist_cal, y)
        space = None if space_cal is None else as_space(space_cal, "space_cal", n)
        if not hasattr(self.inner, "fit"):
            raise InvalidParameterError(f"inner must be a recalibrator, got {self.inner!r}")

        def learn(rest: IntArray, part: IntArray) -> Fold:
            at = (None, None) if space is None else (space[rest], space[part])
            member = copy.deepcopy(self.inner).fit(dist_cal[rest], y[rest], at[0])
            return Fold(member, () if space is None else ("",), score_fold(member, dist_cal[part], y[part], at[1]))

        folds = learn_folds(self._own_promise(), n, learn)
        return self.fit_folds(folds, {} if space is None else {"": space.shape[1]})[0]

    def fit_folds(
        self, folds: Sequence[Fold], widths: Mapping[str, int], *, own_bases: bool = False, notes: tuple[str, ...] = ()
    ) -> tuple[Self, tuple[str, ...]]:
        """Take over what was learnt without each fold; returns the spaces that new rows are to be given in, joined.

        ``widths`` are the numbers of columns of the spaces.
        """
        used = tuple(dict.fromkeys(name for fold in folds for name in fold.spaces))
        ends = np.cumsum([0, *(widths[name] for name in used)])
        places = {name: range(ends[i], ends[i + 1]) for i, name in enumerate(used)}
        self.members_ = tuple(fold.member for fold in folds)
        self.columns_ = tuple(tuple(int(c) for name in fold.spaces for c in places[name]) for fold in folds)
        self.scores_ = tuple(np.sort(fold.scores) for fold in folds)
        self.own_bases_ = own_bases
        sizes = tuple(len(fold.scores) for fold in folds)
        promise = self._own_promise()
        self.guarantee_ = Guarantee("cross", sum(sizes), seed=promise.seed, folds=sizes, notes=notes)
        self.n_cal_ = sum(sizes)
        return self, used

    def recalibrate(self, dist_new: Distribution, space_new: Any = None) -> CrossDistribution:
        """Return the recalibrated distributions of new rows, with the promise.

        Parameters
        ----------
        dist_new, space_new
            As ``inner`` takes them; where folds have models of their own, a :class:`QuantileAverage` of theirs.
        """
        self._require_fitted()
        base = require_distribution(dist_new, "dist_new")
        space = None if space_new is None else as_space(space_new, "space_new", len(base))
        bases: Sequence[Distribution] = [base] * len(self.members_)
        if self.own_bases_:
            if not isinstance(base, QuantileAverage) or len(base.components) != len(self.members_):
                raise InvalidInputError(
                    f"dist_new must be a QuantileAverage of {len(self.members_)} components, one a fold, got {base!r}"
                )
            bases = base.components
        known = zip(self.members_, bases, self.columns_, strict=True)
        parts = [member.recalibrate(own, _columns_of(space, columns)) for member, own, columns in known]
        return CrossDistribution(base, CrossScores(parts, self.scores_, self.own_bases_, self.guarantee_))

    def _own_promise(self) -> Cross:
        promise = as_promise(self.promise)
        if not isinstance(promise, Cross):
            raise InvalidParameterError(
                f'promise must be "cross" or nc.Cross(...), got {promise!r}; see nc.GuaranteedRecalibrator'
            )
        return promise

    def _to_saved(self) -> dict[str, Any]:
        saved = super()._to_saved()
        saved["parameters"] = {"promise": self.promise}
        return saved

    def _check_learnt(self) -> None:
        self._own_promise()
        sizes = tuple(map(len, self.scores_))
        require(sizes == self.guarantee_.folds and sum(sizes) == self.n_cal_, "scores_ must be one a row of each fold")
        require(not self.guarantee_.groups, "groups must be none")
        require(len(self.members_) == len(self.columns_) == len(sizes) > 1, "members_ must be one a fold")
        require(all(np.isfinite(own).all() and (np.diff(own) >= 0).all() for own in self.scores_), "scores_ must rise")
        self.inner = self.members_[0]


def learn_folds(promise: Cross, n: int, learn: Callable[[IntArray, IntArray], Fold]) -> list[Fold]:
    """Return what is learnt without each fold, given a function of the rows to learn from and those of the fold."""
    everyone = np.arange(n)
    return [learn(np.setdiff1d(everyone, part), part) for part in promise.parts(n)]


def score_fold(member: Any, dist: Distribution, y: Any, space: Any) -> FloatArray:
    """Return the scores of a fold's rows under what was learnt without them."""
    out = read_inner(member, dist, space)
    return scores_under(out, out.base.z(as_float_array(y, "y_cal").reshape(-1)))


def check_cross(groups: Any, time: Any, sample_weight: Any) -> None:
    """Refuse what the theorem of CV+ does not know."""
    refuse_time(time)
    for name, value in (("groups", groups), ("sample_weight", sample_weight)):
        if value is not None:
            raise InvalidParameterError(
                f'guarantee="cross" is for exchangeable rows that count alike, got {name}=; guarantee="marginal" '
                "takes it"
            )


def _columns_of(space: FloatArray | None, columns: tuple[int, ...]) -> FloatArray | None:
    if space is None or not columns:
        return None
    if max(columns) >= space.shape[1]:
        raise InvalidInputError(f"space_new must have at least {max(columns) + 1} columns, got {space.shape[1]}")
    return space[:, list(columns)]
