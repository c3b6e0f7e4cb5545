"""A recalibrator with a promise: any other, and the scores under it of rows that it has not learnt from."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, IntArray, as_float_array, as_space
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._saved import count, float_array, having, instance, optional, require, savable, text, tuple_of
from nearcal.distributions import Distribution, Normal, check_coverage, require_distribution
from nearcal.guarantees.bent_scores import BentScores, GuaranteedDistribution, PromisedReading, outward
from nearcal.guarantees.conditional_quantiles import ConditionalQuantiles
from nearcal.guarantees.promises import PAC, Cross, Guarantee, Marginal, as_promise
from nearcal.guarantees.set_aside import Aside, Members
from nearcal.recalibration.base import Recalibrator, calibration_scores
from nearcal.recalibration.combined import OF_NEIGHBORHOODS, CombinedRecalibrator
from nearcal.recalibration.fade import FALSE_ALARM
from nearcal.recalibration.order_statistics import ConfidentOrderStatistics, Masses, OrderStatistics, WidestOf
from nearcal.recalibration.result import Recalibrated


@savable(
    z=float_array(1),
    space=optional(float_array(2)),
    trust=optional(float_array(1)),
    flags=optional(float_array(2)),
    units=optional(float_array(1)),
    weight=optional(float_array(1)),
)
@dataclass(frozen=True, eq=False)
class HeldRows:
    """Rows set aside, as far as a promise needs them: base scores and positions, never their predictions.

    ``trust`` is what was known of them beforehand, ``flags`` the groups of the promise, ``units`` the groups of rows
    that depend on each other, ``weight`` how much each counts.
    """

    z: FloatArray
    space: FloatArray | None = None
    trust: FloatArray | None = None
    flags: FloatArray | None = None
    units: FloatArray | None = None
    weight: FloatArray | None = None

    def __post_init__(self) -> None:
        known = (self.space, self.trust, self.flags, self.units, self.weight)
        require(all(one is None or len(one) == len(self.z) for one in known), "rows set aside must be as many as z")
        require(self.weight is None or bool((self.weight > 0).all()), "weight must be positive")


@savable(
    n_cal_=count(),
    inner_=having("recalibrate", "n_cal_"),
    held_=instance(HeldRows),
    scores_=float_array(1),
    names_=tuple_of(text),
    guarantee_=instance(Guarantee),
)
class GuaranteedRecalibrator(Recalibrator):
    """Recalibrate as another recalibrator does, with a promise of coverage in finite samples.

    Some calibration rows are set aside before anything is learnt from the others. Their scores under the recalibrator
    so learnt are exchangeable with the score of a new row, whatever the model and the recalibrator, and so say at which
    of its levels a response is exceeded how often: a conformal predictive system whose conformity score is the locally
    recalibrated one. The local shape of predictions stays.

    Parameters
    ----------
    inner : recalibrator
        With a continuous quantile rule, such as ``nc.LocalRecalibrator(k=100, quantile_rule="predictive")``; a copy is
        fitted.
    promise : "marginal", "pac", Marginal or PAC
        What is promised; its ``groups`` are labels or flags of the rows given to ``fit``.

    Attributes
    ----------
    inner_ : recalibrator
        Fitted to the rows that were not set aside; there are ``n_cal_`` of them.
    guarantee_ : Guarantee
        What is promised, in words and numbers.
    held_ : HeldRows
        The rows set aside.
    scores_ : ndarray of shape (n,)
        Their scores under ``inner_``.

    References
    ----------
    V. Vovk, A. Gammerman and G. Shafer, *Algorithmic Learning in a Random World*, 2nd edition, 2022; for groups and
    training-conditional promises V. Vovk, *Conditional validity of inductive conformal predictors*, ACML 2012; for
    groups that overlap I. Gibbs, J. J. Cherian and E. J. Candès, arXiv:2305.12616; for rows that depend on each other
    by groups Y. Lee, R. F. Barber and R. Willett, *Distribution-free inference with hierarchical data*,
    arXiv:2306.06342.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(1, 3, size=1000)
    >>> dist, y = nc.Normal(np.zeros(1000), 2.0), rng.normal(0, x)
    >>> local = nc.LocalRecalibrator(k=100, quantile_rule="predictive")
    >>> rc = nc.GuaranteedRecalibrator(local, nc.Marginal(share=0.4)).fit(dist, y, x)
    >>> lower, upper = rc.recalibrate(nc.Normal([0.0, 0.0], 2.0), [1.1, 2.9]).interval(0.9)
    >>> (upper - lower).round()
    array([4., 8.])
    """

    inner_: Any
    held_: HeldRows
    scores_: FloatArray
    names_: tuple[str, ...]
    guarantee_: Guarantee

    _not_updated = "a promise needs rows that nothing was learnt from"

    def __init__(self, inner: Any = None, promise: Any = "marginal") -> None:
        self.inner = inner
        self.promise = promise

    # ---- learning ----------------------------------------------------------------------------------------------------

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
        """Set rows aside, fit a copy of ``inner`` to the others, and score those set aside under it.

        Parameters
        ----------
        dist_cal, y_cal, space_cal
            As ``inner`` takes them.
        groups : array_like of shape (n,), optional
            Rows of one group depend on each other: whole groups are set aside, and the promise is to any row of a new
            group. These are not the groups that the promise is made to.
        time : None or False
            Of rows in order of time nothing can be promised.
        gap
            Must be None, as there is no time.
        sample_weight : array_like of shape (n,), optional
            As in :class:`ConformalRecalibrator`: a promise under covariate shift, as far as the weights are right.
        """
        promise = self._own_promise()
        if not hasattr(self.inner, "fit"):
            raise InvalidParameterError(
                "inner must be a recalibrator, such as nc.LocalRecalibrator(k=100, quantile_rule='predictive'), got "
                f"{self.inner!r}"
            )
        n = len(require_distribution(dist_cal, "dist_cal"))
        y = as_float_array(y_cal, "y_cal").reshape(-1)
        space = None if space_cal is None else as_space(space_cal, "space_cal", n)
        aside = Aside.of(promise, n, groups=groups, time=time, sample_weight=sample_weight, labels=promise.groups)
        rest, known = aside.rest, {}
        if isinstance(self.inner, OF_NEIGHBORHOODS):
            known = {"groups": None if groups is None else np.asarray(groups)[rest], "time": time, "gap": gap}
        if sample_weight is not None:
            known["sample_weight"] = as_float_array(sample_weight, "sample_weight").reshape(-1)[rest]
        inner = copy.deepcopy(self.inner).fit(dist_cal[rest], y[rest], None if space is None else space[rest], **known)
        held = aside.held
        return self.fit_held(inner, dist_cal[held], y[held], None if space is None else space[held], aside)

    def fit_held(
        self, inner: Any, dist: Distribution, y: Any, space: Any, aside: Aside, trust: FloatArray | None = None
    ) -> Self:
        """Score rows set aside under a recalibrator that was fitted to others, and promise accordingly.

        Parameters
        ----------
        inner : recalibrator
            Fitted.
        dist, y, space
            The rows set aside.
        aside : Aside
            What else is known of them.
        trust : ndarray of shape (n,), optional
            How far each is trusted beforehand, where rows fade by that; new rows then must come with theirs.
        """
        promise = self._own_promise()
        calibration_scores(require_distribution(dist, "dist_cal"), y)  # which refuses impossible responses
        out = read_inner(inner, dist, space, trust)
        base_z = out.base.z(as_float_array(y, "y_cal").reshape(-1))
        members = aside.members
        held = HeldRows(
            base_z,
            None if space is None else np.asarray(as_space(space, "space_cal", len(base_z)), dtype=np.float64),
            trust,
            None if members is None else members.flags,
            None if aside.units is None else aside.units.astype(np.float64),
            aside.weight,
        )
        guarantee = Guarantee(
            "pac" if isinstance(promise, PAC) else "marginal",
            len(base_z),
            {} if members is None else members.counts(),
            members is not None and members.overlap,
            promise.seed,
            promise.delta if isinstance(promise, PAC) else None,
            units=aside.unit_count,
            weighted=aside.weight is not None,
            notes=_notes(promise, out, aside),
        )
        names = () if members is None else members.names
        return self._hold(inner, held, scores_under(out, base_z), names, guarantee)

    def with_inner(self, inner: Any) -> "GuaranteedRecalibrator":
        """Return the same promise for another recalibrator, made from the same rows set aside.

        ``inner`` must be fitted, and must not have learnt from those rows: a compiled form of this one's, for instance.
        """
        self._require_fitted()
        fresh = GuaranteedRecalibrator(self.inner, self.promise)
        return fresh._hold(inner, self.held_, self._score_held(inner), self.names_, self.guarantee_)

    def _score_held(self, inner: Any) -> FloatArray:
        held = self.held_
        out = read_inner(inner, Normal(np.zeros(len(held.z)), 1.0), held.space, held.trust)
        return scores_under(out, held.z)

    def _hold(
        self, inner: Any, held: HeldRows, scores: FloatArray, names: tuple[str, ...], guarantee: Guarantee
    ) -> Self:
        vars(self).update(inner_=inner, held_=held, scores_=scores, names_=names, guarantee_=guarantee)
        self._forget_cells()
        self.n_cal_ = inner.n_cal_
        return self

    def _own_promise(self) -> Marginal | PAC:
        promise = as_promise(self.promise)
        if isinstance(promise, Cross):
            raise InvalidParameterError(
                'promise must be "marginal" or "pac", which set rows aside, got "cross"; see nc.CrossRecalibrator'
            )
        return promise

    # ---- new rows ----------------------------------------------------------------------------------------------------

    def recalibrate(
        self,
        dist_new: Distribution,
        space_new: Any = None,
        *,
        groups: Any = None,
        trust: FloatArray | None = None,
        false_alarm: float = FALSE_ALARM,
    ) -> GuaranteedDistribution:
        """Return the recalibrated distributions of new rows, with the promise.

        Parameters
        ----------
        dist_new, space_new
            As ``inner`` takes them.
        groups : array_like, optional
            The groups of the new rows, where the promise is made to groups: labels (m,), or flags as in ``promise``. A
            row of a label that was not seen has infinite intervals.
        trust : ndarray of shape (m,), optional
            Where rows set aside came with it: how far each row is trusted beforehand.
        false_alarm : float
            The share of rows that is expected to be trusted less than wholly by it.
        """
        self._require_fitted()
        fitted = copy.copy(self)  # another thread may update this one meanwhile
        require((trust is None) == (fitted.held_.trust is None), "trust must be given as it was of rows set aside")
        inner = read_inner(fitted.inner_, dist_new, space_new, trust, false_alarm)
        cells, which = fitted._cells_of(groups, len(inner))
        refuse = fitted._refusal(cells) if fitted._own_promise().small == "error" else None
        return GuaranteedDistribution(
            inner.base, BentScores(inner, tuple(cells.values()), which, fitted.guarantee_, refuse)
        )

    def _cells_of(self, groups: Any, rows: int) -> tuple[dict[bytes, OrderStatistics], IntArray]:
        """Return the bounds of every combination of groups among new rows, by its flags, and that of each row."""
        if (groups is None) != (not self.names_):
            need = f"for {', '.join(self.names_)}" if self.names_ else "to none"
            raise InvalidInputError(
                f"groups of new rows must be given where the promise is made to groups, which it is {need}; give "
                "groups=labels, or make the promise with a function of X or the name of a column"
            )
        if groups is None:
            return {b"": self._bounds(b"", np.empty(0))}, np.zeros(rows, dtype=np.intp)
        flags = Members.of(groups, rows, self.names_, overlap=self.guarantee_.overlap).flags
        different, which = np.unique(flags, axis=0, return_inverse=True)
        return {one.tobytes(): self._bounds(one.tobytes(), one) for one in different}, which.reshape(rows)

    def _bounds(self, key: bytes, combination: FloatArray) -> OrderStatistics:
        """Return the bounds of one combination; kept, since a level that was asked for once is asked for again."""
        if key not in self._cells:
            self._cells[key] = self._make_bounds(combination)
        return self._cells[key]

    def _forget_cells(self) -> None:
        self._cells: dict[bytes, OrderStatistics] = {}

    def _make_bounds(self, combination: FloatArray) -> OrderStatistics:
        flags = self.held_.flags
        everyone = np.ones(len(self.scores_), dtype=np.bool_)
        if flags is None:
            return self._statistics(everyone)
        if not self.guarantee_.overlap:
            return self._statistics((flags == combination).all(axis=1) & bool(combination.any()))
        if self.guarantee_.delta is not None:
            own = [flags[:, group] > 0 for group in np.flatnonzero(combination)]
            return WidestOf([self._statistics(rows) for rows in (everyone, *own)])
        ones = np.ones((len(flags), 1))
        return ConditionalQuantiles(self.scores_, np.hstack([ones, flags]), np.append(1.0, combination))

    def _statistics(self, rows: Any) -> OrderStatistics:
        """Return the bounds by some of the rows set aside."""
        scores, held = self.scores_[rows], self.held_
        order = np.argsort(scores, kind="stable")
        if self.guarantee_.delta is not None:
            return ConfidentOrderStatistics(scores[order], self.guarantee_.delta)
        if held.weight is not None and len(scores):
            mean = held.weight[rows].mean()
            return OrderStatistics(
                scores[order], Masses(held.weight[rows][order] / mean, float(held.weight.max() / mean))
            )
        if held.units is not None and len(scores):
            # every group of rows that depend on each other has one share, and the new row's group has one
            _, which, sizes = np.unique(held.units[rows], return_inverse=True, return_counts=True)
            average = len(scores) / len(sizes)
            return OrderStatistics(scores[order], Masses((average / sizes[which])[order], average))
        return OrderStatistics(scores[order])

    def _refusal(self, cells: Mapping[bytes, OrderStatistics]) -> "_Refusal":
        flags = [np.frombuffer(key) for key in cells]
        who = [[name for name, flag in zip(self.names_, own, strict=False) if flag] for own in flags]
        return _Refusal(tuple(tuple(names) for names in who), self.guarantee_)

    # ---- compiled ----------------------------------------------------------------------------------------------------

    def compiled(self, inner: Any) -> "GuaranteedRecalibrator":
        """Return the same promise for a compiled form of ``inner_``, without the positions of rows set aside.

        Their scores stay, as the promise is made of them; of another recalibrator nothing can be promised after that.
        """
        promised = self.with_inner(inner)
        promised.held_ = replace(promised.held_, space=None)
        return promised

    def to_onnx(self, path: Any, base: Any = None, *, coverage: float = 0.95, **options: Any) -> Any:
        """Write the recalibration with its promise to an ONNX file; :func:`nearcal.compile` makes what can be written.

        Parameters
        ----------
        path, base, coverage, **options
            As in :meth:`nearcal.CompiledRecalibrator.to_onnx`; ``lower`` and ``upper`` have the promise.
        """
        reading = self._promised_reading(coverage)
        return self._compiled_inner().to_onnx(path, base, coverage=coverage, promised=reading, **options)

    def to_torch(self, base: Any, *, coverage: float = 0.95, **options: Any) -> Any:
        """Return the recalibration with its promise as a module of PyTorch; as :meth:`to_onnx`.

        Parameters
        ----------
        base, coverage, **options
            As in :meth:`nearcal.CompiledRecalibrator.to_torch`.
        """
        reading = self._promised_reading(coverage)
        return self._compiled_inner().to_torch(base, coverage=coverage, promised=reading, **options)

    def _compiled_inner(self) -> Any:
        if not hasattr(self.inner_, "to_onnx"):
            raise InvalidParameterError(
                f"recalibrator must be compiled to be exported, got {type(self.inner_).__name__} with a promise; "
                "give it to nearcal.compile first"
            )
        return self.inner_

    def _promised_reading(self, coverage: float) -> PromisedReading:
        """Return where predictions are read for an interval; there is one answer unless groups have their own."""
        self._require_fitted()
        check_coverage(coverage)
        if self.names_:
            raise InvalidParameterError(
                f"a promise to be exported must be made to everybody alike, got one to {', '.join(self.names_)}; save "
                "the model by nearcal.save, or make the promise without groups"
            )
        bounds = self._bounds(b"", np.empty(0))
        lower, upper = outward(np.reshape(bounds.central(np.array(coverage)), (1, 2, 1))).ravel().tolist()
        if not np.isfinite([lower, upper]).all():
            raise InvalidInputError(
                f"coverage must have finite ends to be exported, got {coverage!r}, which takes "
                f"{self.guarantee_.needed(coverage)} points set aside, not {self.guarantee_.n}; set more aside"
            )
        return PromisedReading((lower, upper), bounds.thin_law, str(self.guarantee_))

    # ---- a calibration set that changes: rows set aside stay so ------------------------------------------------------

    def update(self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None, *, sample_weight: Any = None) -> Self:
        """Let ``inner_`` learn from more points, and score the rows set aside again: the promise stays.

        Parameters
        ----------
        dist_cal, y_cal, space_cal, sample_weight
            As ``inner`` takes them.

        Returns
        -------
        self
            If it fails, nothing has changed.
        """
        self._require_fitted()
        return self._changed(copy.deepcopy(self.inner_).update(dist_cal, y_cal, space_cal, sample_weight=sample_weight))

    def _keep(self, rows: IntArray) -> None:
        inner = copy.deepcopy(self.inner_)
        inner._keep(rows)
        self._changed(inner)

    def relearn(self, *, groups: Any = None, time: Any = None, gap: Any = None) -> Self:
        """Let ``inner_`` learn again from the points that it has, and score the rows set aside again."""
        self._require_fitted()
        return self._changed(copy.deepcopy(self.inner_).relearn(groups=groups, time=time, gap=gap))

    def _changed(self, inner: Any) -> Self:
        if isinstance(inner, CombinedRecalibrator) or not isinstance(inner, Recalibrator):
            raise self._refuse_change("updated")
        return self._hold(inner, self.held_, self._score_held(inner), self.names_, self.guarantee_)

    # ---- files -------------------------------------------------------------------------------------------------------

    def _to_saved(self) -> dict[str, Any]:
        saved = super()._to_saved()
        saved["parameters"] = {"promise": self.promise}  # inner as it was fitted says how it was set
        return saved

    def _check_learnt(self) -> None:
        held, n = self.held_, len(self.held_.z)
        self._own_promise()
        require(n == self.guarantee_.n and self.scores_.shape == (n,), "scores_ must be one a row set aside")
        require(bool(np.isfinite(self.scores_).all()), "scores_ must be finite")
        width = 0 if held.flags is None else held.flags.shape[1]
        require(width == len(self.names_), "names_ must be one a group")
        flags = np.empty((n, 0)) if held.flags is None else held.flags
        counts = Members(flags, self.names_, self.guarantee_.overlap).counts()
        require(dict(self.guarantee_.groups) == counts, "groups must have as many points as are set aside")
        require(self.n_cal_ == self.inner_.n_cal_, "n_cal_ must be that of inner_")
        self.inner = self.inner_
        self._forget_cells()


@dataclass(frozen=True)
class _Refusal:
    """Refuses an infinite end of a cell, of which the names of its groups are known."""

    cells: tuple[tuple[str, ...], ...]
    guarantee: Guarantee

    def __call__(self, cell: int, asked: str) -> None:
        counts, total = self.guarantee.groups, self.guarantee.n
        known = ", ".join(f"{name} ({counts[name]} points)" for name in self.cells[cell])
        unseen = "rows of no group that was seen" if counts else f"everybody ({total} points)"
        raise InvalidInputError(
            f"{asked} must have enough points set aside for finite ends, got too few for {known or unseen}; a coverage "
            f"of 0.9 takes {self.guarantee.needed(0.9)}, of 0.95 {self.guarantee.needed(0.95)}: set more aside, or "
            'take small="infinite"'
        )


def read_inner(
    inner: Any, dist: Any, space: Any, trust: FloatArray | None = None, false_alarm: float = FALSE_ALARM
) -> Recalibrated:
    """Return what a recalibrator makes of rows, faded as far as they are not trusted; no steps, which no score tells.

    Beyond the neighbours of a row all responses have one score under steps, and an interval that ends there says
    nothing of how far they may be.
    """
    out: Recalibrated = inner.recalibrate(dist, space)
    if not out.scores.has_density:
        raise InvalidParameterError(
            f'quantile_rule must be "interpolated" or "predictive" for a guarantee, got {inner!r}; steps cannot tell '
            "responses beyond a row's neighbours from each other"
        )
    return out if trust is None else out.faded(trust, false_alarm)


def scores_under(out: Recalibrated, z: FloatArray) -> FloatArray:
    """Return the scores of base scores under recalibration: predictions have no part in it."""
    return Recalibrated(Normal(np.zeros(len(z)), 1.0), out.scores).z(z)


def _notes(promise: Any, out: Recalibrated, aside: Aside) -> tuple[str, ...]:
    notes = []
    if not out.base.is_continuous:
        notes.append("predictions have atoms, and the upper ends are for responses that fall on them")
    if isinstance(promise, PAC) and aside.unit_count is not None:
        notes.append("of every group of rows that depend on each other one row, drawn at random, counts")
    return tuple(notes)
