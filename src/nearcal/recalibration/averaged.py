"""Several neighbourhoods as one: a model recalibrated in several ways, and the average of what these make of it."""

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, IntArray, as_float_array, as_space
from nearcal._errors import InvalidParameterError
from nearcal._saved import count, float_array, instance, require, savable, tuple_of
from nearcal.distributions import AVERAGED_SCORES as SCORES
from nearcal.distributions import Distribution, require_distribution
from nearcal.recalibration.averaged_scores import AveragedScores, as_curve
from nearcal.recalibration.base import is_empty, read_calibration
from nearcal.recalibration.caution import Caution, LearntCaution
from nearcal.recalibration.corrections import bend
from nearcal.recalibration.fade import Fade, warn_of_faded
from nearcal.recalibration.leave_one_out import LeaveOneOut
from nearcal.recalibration.local import LocalRecalibrator
from nearcal.recalibration.local_options import check_options
from nearcal.recalibration.local_scores import LocalScores
from nearcal.recalibration.members import RecalibratorOfMembers, at_columns
from nearcal.recalibration.polish import LearntPolish, Polish, middle_score
from nearcal.recalibration.result import Recalibrated
from nearcal.recalibration.score_laws import CONTINUOUS_RULES
from nearcal.recalibration.steps import Steps
from nearcal.space import Folds, as_folds, kept_relations

_ALL = 1 - 1e-12  # weights of sum 1, to rounding


@savable(
    n_cal_=count(),
    members_=tuple_of(instance(LocalRecalibrator)),
    columns_=tuple_of(tuple_of(count(0))),
    weights_=float_array(1),
    corrections_=tuple_of(instance(LearntPolish, LearntCaution)),
)
class AveragedRecalibrator(RecalibratorOfMembers):
    """Recalibrate a model in several ways, and average: what :func:`nearcal.tune` makes of its best candidates.

    One choice of space, scaling, k and corrections is noisy, and candidates that score alike err in different places.
    With q_m(s) the quantile of a row's scores at level Φ(s) under member m, the row has Σ_m w_m q_m(s).

    Parameters
    ----------
    members : sequence of LocalRecalibrator
        Two at least, of a continuous quantile rule, not necessarily fitted: ``fit`` fits copies of them. As far as
        they say that rows fade, the average does.
    columns : sequence of sequences of int, optional
        For each the columns of the space that it looks at; all of them by default.
    weights : sequence of float, optional
        Of the members, normalised to sum 1; equal by default.
    corrections : sequence of Correction
        What to do about the average, for all rows alike: :class:`Polish`, then :class:`Caution`.

    Attributes
    ----------
    members_ : tuple of LocalRecalibrator
        Fitted.
    weights_ : ndarray of shape (c,)
        Of sum 1.
    corrections_ : tuple of LearntCorrection
        As they were learnt from calibration points, each under the average of what the others make of it.

    Notes
    -----
    A row's scores are known by their quantiles at 41 levels, Φ(-4), Φ(-3.8), …, Φ(4), with straight lines in between
    and Normal tails. Rows unlike the calibration set fade last, by the mean of the members' trust in them.

    Examples
    --------
    Small neighbourhoods see where errors change, large ones how they spread:

    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(-3, 3, size=3000)
    >>> y, model = rng.normal(np.sin(2 * x), 0.5), nc.Normal(np.zeros(3000), 1.0)
    >>> one, other = (nc.LocalRecalibrator(k, quantile_rule="predictive") for k in (20, 200))
    >>> rc = nc.AveragedRecalibrator([one, other], corrections=[nc.Polish()])
    >>> scores = [nc.scores.crps(each.fit(model[:1000], y[:1000], x[:1000]).recalibrate(model[1000:], x[1000:]),
    ...           y[1000:]).mean() for each in (one, other, rc)]
    >>> bool(scores[2] < min(scores[:2]))
    True
    """

    members_: tuple[LocalRecalibrator, ...]
    corrections_: tuple[LearntPolish | LearntCaution, ...]

    def __init__(
        self,
        members: Sequence[LocalRecalibrator] = (),
        *,
        columns: Sequence[Sequence[int]] | None = None,
        weights: Sequence[float] | None = None,
        corrections: Sequence[Polish | Caution] = (),
    ) -> None:
        self.members = members
        self.columns = columns
        self.weights = weights
        self.corrections = corrections

    def fit(
        self,
        dist_cal: Distribution,
        y_cal: Any,
        space_cal: Any,
        *,
        groups: Any = None,
        time: Any = None,
        gap: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit a copy of every member, and learn what is done about their average.

        Parameters
        ----------
        dist_cal, y_cal, space_cal, groups, time, gap, sample_weight
            As in :meth:`LocalRecalibrator.fit`.
        """
        self._check_options()
        calibration, space_cal, rows = read_calibration(dist_cal, y_cal, space_cal, sample_weight)
        n = len(calibration)
        space = as_space(space_cal, "space_cal", n)
        columns = self._columns_of(space)
        folds = as_folds(*kept_relations(groups, time, rows, len(dist_cal)), gap, n)
        members = [
            copy.deepcopy(member)._learn(calibration, as_space(at_columns(space, own), "space_cal", n), folds)
            for member, own in zip(self.members, columns, strict=True)
        ]
        return self.fit_members(members, columns, [member.left_out(folds) for member in members])

    def fit_members(
        self,
        members: Sequence[LocalRecalibrator],
        columns: Sequence[Sequence[int]],
        left_out: Sequence[LeaveOneOut],
    ) -> Self:
        """Take over members that were fitted to the same points, and learn what is done about their average.

        ``left_out`` are these points each among the others, for every member.
        """
        weights = np.ones(len(members)) if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        weights = weights / weights.sum()
        learnt: list[LearntPolish | LearntCaution] = []
        for correction in self.corrections:
            one = _learn(correction, left_out, weights, learnt)
            learnt += [] if one is None else [one]
        # all that can fail is done
        self.members_, self.columns_ = tuple(members), tuple(tuple(map(int, own)) for own in columns)
        self.weights_, self.corrections_ = weights, tuple(learnt)
        self.n_cal_ = members[0].n_cal_
        return self

    def left_out_values(
        self, dist_cal: Distribution, scores: FloatArray, folds: Folds | None = None, rows: IntArray | None = None
    ) -> FloatArray:
        """Return quantiles of calibration points, as :meth:`LocalRecalibrator.left_out_values` does, (n, s)."""
        self._require_fitted()
        return self.values_by([member.left_out(folds) for member in self.members_], dist_cal, scores, rows)

    def values_by(
        self,
        left_out: Sequence[LeaveOneOut],
        dist_cal: Distribution,
        scores: FloatArray,
        rows: IntArray | None = None,
    ) -> FloatArray:
        """Return the same, given calibration points each among the others, for every member."""
        table = average(left_out, self.weights_, rows)
        known, values = np.flatnonzero(~np.isnan(table[:, 0])), np.full((len(table), len(scores)), np.nan)
        curve = bend(as_curve(table[known]), self.corrections_)
        values[known] = curve.values(dist_cal[known], np.tile(scores, (len(known), 1)))
        return values

    def recalibrate(self, dist_new: Distribution, space_new: Any) -> Recalibrated:
        """Return the recalibrated distributions of new rows.

        Parameters
        ----------
        dist_new : Distribution
            Predictive distributions of the m new rows, of any family.
        space_new : array_like of shape (m, d)
            Where they are, in the space given to ``fit``.
        """
        self._require_fitted()
        base = require_distribution(dist_new, "dist_new")
        space = as_space(space_new, "space_new", len(base))
        fitted = copy.copy(self)  # another thread may update this one meanwhile
        table, size, trust = np.zeros((len(base), len(SCORES))), np.zeros(len(base)), np.zeros(len(base))
        parts = []
        for member, own, weight in zip(fitted.members_, fitted.columns_, fitted.weights_, strict=True):
            parts.append(member.recalibrate(base, at_columns(space, own)))
            scores = parts[-1].scores
            assert isinstance(scores, LocalScores)
            values, sizes, _, trusted = scores.tables(base, SCORES)
            values *= weight  # in place: of many rows these are the largest tables
            table += values
            size, trust = size + weight * sizes, trust + weight * trusted
        trust = np.where(trust > _ALL, 1.0, trust)
        heaviest = parts[int(np.argmax(fitted.weights_))]
        rate = max((part.expected_faded for part in parts if part.expected_faded is not None), default=None)
        if rate is not None:
            warn_of_faded(int((trust < 1).sum()), len(base), rate)
        fade = None if rate is None else trust
        return Recalibrated(base, AveragedScores(table, fitted.corrections_, size, trust, heaviest, fade, rate))

    # ---- a calibration set that changes ------------------------------------------------------------------------------

    def update(self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None, *, sample_weight: Any = None) -> Self:
        """Append points to the calibration set, as ``LocalRecalibrator.update`` does; corrections stay.

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
        more, space_cal, _ = read_calibration(dist_cal, y_cal, space_cal, sample_weight)
        space = as_space(space_cal, "space_cal", len(more))
        members = tuple(copy.copy(member) for member in self.members_)
        for member, own in zip(members, self.columns_, strict=True):
            member._append(more, as_space(at_columns(space, own), "space_cal", len(more)))
        self._hold(members)
        return self

    def _keep(self, rows: IntArray) -> None:
        self._hold(self._members_keeping(rows))

    def relearn(self, *, groups: Any = None, time: Any = None, gap: Any = None) -> Self:
        """Learn scalings and corrections again, from the calibration set as it is now.

        Parameters
        ----------
        groups, time, gap
            As in ``fit``, of the points that it has.
        """
        self._require_fitted()
        members = [copy.copy(one).relearn(groups=groups, time=time, gap=gap) for one in self.members_]
        folds = as_folds(groups, time, gap, self.n_cal_)
        return self.fit_members(members, self.columns_, [member.left_out(folds) for member in members])

    def _hold(self, members: tuple[LocalRecalibrator, ...]) -> None:
        """Take over another state at once, since another thread may be about to recalibrate."""
        vars(self).update(members_=members, n_cal_=members[0].n_cal_)

    # ---- options -----------------------------------------------------------------------------------------------------

    def _check_options(self) -> None:
        self._check_members()
        for member in self.members:
            self._check_member(member)
        for correction in self.corrections:
            if not isinstance(correction, Polish | Caution):
                raise InvalidParameterError(
                    f"corrections must be Polish or Caution, which treat all rows alike, got {correction!r}; give "
                    "others to the members"
                )
            correction.check()
        if self.weights is not None:
            weights = as_float_array(self.weights, "weights")
            fits = weights.shape == (len(self.members),) and (weights >= 0).all() and weights.sum() > 0
            if not (fits and np.isfinite(weights).all()):
                raise InvalidParameterError(
                    f"weights must be {len(self.members)} numbers, one a member, not negative and not all zero, got "
                    f"{self.weights!r}"
                )

    def _check_member(self, member: Any) -> None:
        if type(member) is not LocalRecalibrator or member.quantile_rule not in CONTINUOUS_RULES:
            raise InvalidParameterError(
                f"members must be LocalRecalibrator of a continuous quantile_rule, one of {CONTINUOUS_RULES}, got "
                f"{member!r}"
            )
        check_options(member)
        if any(isinstance(one, Fade) and one.to != "base" for one in member.corrections):
            raise InvalidParameterError(f"members must fade to their base, Fade(to='base'), got {member!r}")

    # ---- files -------------------------------------------------------------------------------------------------------

    def _to_saved(self) -> dict[str, Any]:
        saved = super()._to_saved()
        # members as they were fitted say how they were set
        weights = None if self.weights is None else tuple(map(float, self.weights))
        saved["parameters"] = {"weights": weights, "corrections": tuple(self.corrections)}
        return saved

    def _check_learnt(self) -> None:
        super()._check_learnt()
        self._check_options()
        for member, own in zip(self.members_, self.columns_, strict=True):
            require(len(own) == member.n_features_in_, "columns_ must be as many as the members look at")
            same = np.array_equal(member.calibration_.z, self.members_[0].calibration_.z)
            require(same, "members_ must know the same points")


def _learn(
    correction: Polish | Caution,
    left_out: Sequence[LeaveOneOut],
    weights: FloatArray,
    earlier: Sequence[LearntPolish | LearntCaution],
) -> LearntPolish | LearntCaution | None:
    """Return what is done about the average, given what was learnt before; None if nothing is."""
    if isinstance(correction, Caution):
        return correction.learnt
    calibration = left_out[0].calibration
    table = average(left_out, weights)
    known = np.flatnonzero(~np.isnan(table[:, 0]))
    scores = np.full(len(calibration), np.nan)
    scores[known] = middle_score(bend(as_curve(table[known]), tuple(earlier)), calibration.z[known])
    return correction.learn_from(scores, calibration.weights, left_out[0].order)


def average(left_out: Sequence[LeaveOneOut], weights: FloatArray, rows: IntArray | None = None) -> FloatArray:
    """Return quantiles of scores of calibration points by the others, averaged over members, (n, 41); NaN of no one."""
    table = np.zeros((len(left_out[0].calibration), len(SCORES)))
    for one, weight in zip(left_out, weights, strict=True):
        table = table + weight * _score_table(one, rows)
    return table


def _score_table(left_out: LeaveOneOut, rows: IntArray | None = None) -> FloatArray:
    """Return quantiles of scores of calibration points as the others have it, (n, 41); NaN where nobody speaks."""

    def values(steps: Steps, rows: IntArray) -> FloatArray:
        return left_out.law(steps).before(np.tile(SCORES, (len(rows), 1)))

    return left_out.gather(values, np.full((len(left_out.calibration), len(SCORES)), np.nan), rows)
