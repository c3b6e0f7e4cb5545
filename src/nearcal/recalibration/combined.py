"""Several models as one: each recalibrated, their quantiles averaged with learnt weights, and the average corrected."""

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray, as_response, as_space, check_choice
from nearcal._errors import InvalidInputError
from nearcal._sample_weights import PointWeights
from nearcal._saved import count, float_array, having, instance, require, savable, tuple_of
from nearcal.distributions import AVERAGED_SCORES as SCORES
from nearcal.distributions import (
    Distribution,
    QuantileAverage,
    Quantiles,
    quantile_table,
    require_distribution,
)
from nearcal.distributions.interpolation import Interpolated
from nearcal.recalibration.averaged import AveragedRecalibrator
from nearcal.recalibration.base import calibration_scores, is_empty, weighted_rows
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.for_all_rows import GlobalRecalibrator, IdentityRecalibrator
from nearcal.recalibration.local import LocalRecalibrator
from nearcal.recalibration.members import RecalibratorOfMembers, at_columns
from nearcal.recalibration.pooling import LEVELS, POOLS, Pool, learn_weights, pool_tables
from nearcal.recalibration.result import Recalibrated
from nearcal.recalibration.scores_of_rows import CombinedScores
from nearcal.space import Folds, as_folds, kept_relations

_BLOCK = 2**14  # rows whose tables are made together


@savable(
    n_cal_=count(),
    members_=tuple_of(having("recalibrate", "n_cal_")),
    columns_=tuple_of(tuple_of(count(0))),
    weights_=float_array(1),
    after_=instance(GlobalRecalibrator),
    judged_=instance(np.ndarray),
)
class CombinedRecalibrator(RecalibratorOfMembers):
    """Recalibrate several models and combine them: what :func:`nearcal.calibrate` makes of a dictionary of models.

    Every model is recalibrated by a recalibrator of its own, their predictions are averaged quantile by quantile, or
    mixed, and the result is recalibrated for all rows alike, as averages of calibrated predictions are too wide.

    Parameters
    ----------
    members : sequence of recalibrators
        One a model, not necessarily fitted: ``fit`` fits copies of them.
    columns : sequence of sequences of int, optional
        For each the columns of the space that it looks at; all of them by default.
    pool : {"quantiles", "mixture"}
        Whether quantiles are averaged (:class:`QuantileAverage`) or distribution functions (:class:`Mixture`).

    Attributes
    ----------
    members_ : tuple of recalibrators
        Fitted.
    weights_ : ndarray of shape (c,)
        The weights of the c models, of sum 1.
    after_ : GlobalRecalibrator
        What was learnt from the scores of calibration points under the combination of what the others make of them.

    Notes
    -----
    With Q_im(p) the quantile of calibration point i under model m, recalibrated by the other points, the weights
    minimise the mean over i and p of the pinball loss of Σ_m w_m Q_im(p), which is half the CRPS of the average, plus
    a small penalty that draws them to weights inverse to the squares of the models' own scores; those below a hundredth
    are left out. Recalibrators other than :class:`LocalRecalibrator` are asked for the points that they have learnt
    from.

    Predictions are known by their quantiles at 41 levels, as in :class:`QuantileAverage`, and rows unlike the
    calibration set fade as the members' rows do.

    Examples
    --------
    Two models, each blind to what the other sees:

    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(size=(1500, 2))
    >>> y = rng.normal(x.sum(axis=1), 0.5)
    >>> models = [nc.Normal(x[:, 0], 1.0), nc.Normal(x[:, 1], 1.0)]
    >>> both = nc.QuantileAverage([0.5, 0.5], models)
    >>> local = nc.LocalRecalibrator(k=100, quantile_rule="predictive")
    >>> rc = nc.CombinedRecalibrator([local, local]).fit(both[:1000], y[:1000], x[:1000])
    >>> new = rc.recalibrate(both[1000:], x[1000:])
    >>> alone = local.fit(models[0][:1000], y[:1000], x[:1000]).recalibrate(models[0][1000:], x[1000:])
    >>> bool(nc.scores.crps(new, y[1000:]).mean() < nc.scores.crps(alone, y[1000:]).mean())
    True
    """

    after_: GlobalRecalibrator
    judged_: NDArray[np.bool_]  # of calibration points, those that ``after_`` has learnt from

    def __init__(
        self, members: Sequence[Any] = (), *, columns: Sequence[Sequence[int]] | None = None, pool: Pool = "quantiles"
    ) -> None:
        self.members = members
        self.columns = columns
        self.pool = pool

    def fit(
        self,
        dist_cal: Distribution,
        y_cal: Any,
        space_cal: Any = None,
        *,
        groups: Any = None,
        time: Any = None,
        gap: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit a copy of every member, and learn how to combine them.

        Parameters
        ----------
        dist_cal : QuantileAverage
            The predictive distributions of the n calibration points by every model: its components. Its own weights
            do not matter.
        y_cal : array_like of shape (n,) or (n, 1)
            What was observed.
        space_cal : array_like of shape (n, d), optional
            Where they are, for members that ask.
        groups, time, gap, sample_weight
            As in :meth:`LocalRecalibrator.fit`.
        """
        self._check_options()
        n = len(require_distribution(dist_cal, "dist_cal"))
        dist, y, space, weights, rows = weighted_rows(dist_cal, y_cal, space_cal, sample_weight)
        groups, time = kept_relations(groups, time, rows, n)
        given = None if weights is None else weights.given
        space = None if space is None else as_space(space, "space_cal", len(dist))
        columns = self._columns_of(space)
        relations = {"groups": groups, "time": time, "gap": gap}
        members = [
            copy.deepcopy(member).fit(
                part,
                y,
                at_columns(space, own),
                **(relations if isinstance(member, LocalRecalibrator | AveragedRecalibrator) else {}),
                **({} if given is None else {"sample_weight": given}),
            )
            for member, part, own in zip(self.members, self._parts(dist, "dist_cal"), columns, strict=True)
        ]
        tables = [
            left_out_table(member, part, at_columns(space, own), as_folds(groups, time, gap, len(dist)))
            for member, part, own in zip(members, self._parts(dist, "dist_cal"), columns, strict=True)
        ]
        y = as_response(y, len(dist), "y_cal")
        shares = learn_weights(tables, y, None if weights is None else weights.relative)
        return self.fit_members(members, columns, shares, tables, y, weights)

    def fit_members(
        self,
        members: Sequence[Any],
        columns: Sequence[Sequence[int]],
        shares: FloatArray,
        tables: Sequence[FloatArray],
        y: FloatArray,
        weights: PointWeights | None = None,
    ) -> Self:
        """Take over fitted members with the columns that they look at and their weights, and learn what comes after.

        ``tables`` are quantiles of calibration points under each member, at the levels of :class:`QuantileAverage`,
        NaN in rows that nobody speaks for.
        """
        judged = ~np.isnan(np.sum([table[:, 0] for table in tables], axis=0))
        pooled = pool_tables(self.pool, shares, [table[judged] for table in tables])
        after = GlobalRecalibrator(quantile_rule="predictive").fit(
            Quantiles(LEVELS, pooled), y[judged], sample_weight=None if weights is None else weights.given[judged]
        )
        unused = IdentityRecalibrator()
        unused.n_cal_ = len(judged)
        pairs = list(zip(members, shares, strict=True))
        self.members_ = tuple(member if share > 0 else copy.copy(unused) for member, share in pairs)
        self.columns_ = tuple(tuple(map(int, own)) for own in columns)
        self.weights_, self.after_, self.judged_ = shares, after, judged
        self.n_cal_ = len(judged)
        return self

    def recalibrate(self, dist_new: Distribution, space_new: Any = None) -> Recalibrated:
        """Return the recalibrated distributions of new rows.

        Parameters
        ----------
        dist_new : QuantileAverage
            The predictive distributions of the m new rows by every model: its components.
        space_new : array_like of shape (m, d), optional
            Where they are, for members that ask.
        """
        self._require_fitted()
        base = require_distribution(dist_new, "dist_new")
        fitted = copy.copy(self)  # another thread may update this one meanwhile
        parts = fitted._recalibrated(base, space_new, "space_new")
        blocks = [slice(start, start + _BLOCK) for start in range(0, len(base), _BLOCK)]
        curves = [fitted._curve(base, parts)] if len(blocks) == 1 else [
            fitted._curve(base[rows], [part[rows] for part in parts]) for rows in blocks
        ]  # fmt: skip
        line = Interpolated(SCORES[np.newaxis], np.concatenate(curves), normal_tails=True)
        shares = fitted.weights_[fitted.weights_ > 0]
        return Recalibrated(base, CombinedScores(Curve(line), parts, shares))

    def _recalibrated(self, dist: Distribution, space: Any, name: str) -> list[Recalibrated]:
        """Return what members with a weight make of rows."""
        space = None if space is None else as_space(space, name, len(dist))
        asked = zip(self.members_, self._parts(dist, "dist_new"), self.columns_, self.weights_, strict=True)
        return [member.recalibrate(part, at_columns(space, own)) for member, part, own, weight in asked if weight > 0]

    def _curve(self, base: Distribution, parts: Sequence[Recalibrated]) -> FloatArray:
        """Return the scores under the base at which the combination has its quantiles, (n, 41)."""
        after = self.after_.recalibrate(Quantiles(LEVELS, self._pooled(parts)))
        return base._z(quantile_table(after))

    def _pooled(self, parts: Sequence[Recalibrated]) -> FloatArray:
        shares = self.weights_[self.weights_ > 0]
        return pool_tables(self.pool, shares, [quantile_table(part) for part in parts])

    # ---- a calibration set that changes ------------------------------------------------------------------------------

    def update(self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None, *, sample_weight: Any = None) -> Self:
        """Append points to the calibration set of every member; the weights of models stay as they are.

        Parameters
        ----------
        dist_cal, y_cal, space_cal, sample_weight
            As in ``fit``; no rows are no error, and change nothing.

        Returns
        -------
        self
            If it fails, nothing has changed.
        """
        self._require_fitted()
        if is_empty(y_cal):
            return self
        dist, y, space, weights, _ = weighted_rows(dist_cal, y_cal, space_cal, sample_weight)
        space = None if space is None else as_space(space, "space_cal", len(dist))
        given = None if sample_weight is None else np.full(len(dist), np.max(sample_weight), dtype=np.float64)
        given = given if weights is None else weights.given
        pooled = Quantiles(LEVELS, self._pooled(self._recalibrated(dist, space, "space_cal")))  # before they learn
        calibration_scores(pooled, y)
        parts = zip(self.members_, self._parts(dist, "dist_cal"), self.columns_, strict=True)
        members = tuple(
            copy.copy(member).update(part, y, at_columns(space, own), sample_weight=given)
            for member, part, own in parts
        )
        after = copy.copy(self.after_).update(pooled, y, sample_weight=given)
        self._hold(members, after, np.concatenate([self.judged_, np.ones(len(dist), dtype=np.bool_)]))
        return self

    def _keep(self, rows: IntArray) -> None:
        members = self._members_keeping(rows)
        judged, after = self.judged_[rows], copy.copy(self.after_)
        if judged.any():  # what was learnt from points that nobody judges stays
            after._keep((np.cumsum(self.judged_) - 1)[rows[judged]])
        self._hold(members, after, judged)

    def _hold(self, members: tuple[Any, ...], after: GlobalRecalibrator, judged: NDArray[np.bool_]) -> None:
        """Take over another state at once, since another thread may be about to recalibrate."""
        vars(self).update(members_=members, after_=after, judged_=judged, n_cal_=len(judged))

    def relearn(self, *, groups: Any = None, time: Any = None, gap: Any = None) -> Self:
        """Let every member learn again what it learns from the calibration set as a whole: scaling and corrections.

        The weights of models are learnt by ``fit`` alone: responses are not kept.

        Parameters
        ----------
        groups, time, gap
            As in ``fit``, of the points that it has.
        """
        self._require_fitted()
        members = tuple(copy.copy(one).relearn(groups=groups, time=time, gap=gap) for one in self.members_)
        self._hold(members, self.after_, self.judged_)
        return self

    # ---- options -----------------------------------------------------------------------------------------------------

    def _check_options(self) -> None:
        check_choice(self.pool, POOLS, "pool")
        self._check_members()

    def _parts(self, dist: Distribution, name: str) -> Sequence[Distribution]:
        """Return the distributions of every model."""
        wanted = len(getattr(self, "members_", self.members))
        if not isinstance(dist, QuantileAverage) or len(dist.components) != wanted:
            got = f"{len(dist.components)} components" if isinstance(dist, QuantileAverage) else repr(dist)
            raise InvalidInputError(
                f"{name} must be a QuantileAverage of {wanted} components, one a model, got {got}; give "
                "nc.QuantileAverage(weights, [distribution of each model])"
            )
        return dist.components

    # ---- files -------------------------------------------------------------------------------------------------------

    def _to_saved(self) -> dict[str, Any]:
        saved = super()._to_saved()
        saved["parameters"] = {"pool": self.pool}  # members as they were fitted say how they were set
        return saved

    def _check_learnt(self) -> None:
        check_choice(self.pool, POOLS, "pool")
        super()._check_learnt()
        n, judged = self.n_cal_, self.judged_
        require(judged.dtype == np.bool_ and judged.shape == (n,), "judged_ must be one flag a calibration point")
        require(not judged.any() or self.after_.n_cal_ == judged.sum(), "after_ must have as many points as are judged")


def left_out_table(recalibrator: Any, dist: Distribution, space: FloatArray | None, folds: Folds | None) -> FloatArray:
    """Return quantiles of calibration points, each recalibrated by the others, (n, 41); NaN where none may speak.

    Of a recalibrator that learns from no neighbourhoods a point is one of n: it is asked as it is.
    """
    if isinstance(recalibrator, LocalRecalibrator | AveragedRecalibrator):
        return recalibrator.left_out_values(dist, SCORES, folds)
    return quantile_table(recalibrator.recalibrate(dist, space))


#: Those who learn from points among each other: to them it matters which belong together, and when each was observed.
OF_NEIGHBORHOODS = (LocalRecalibrator, AveragedRecalibrator, CombinedRecalibrator)
