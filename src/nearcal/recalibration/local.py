"""Local recalibration: Algorithm 1 of the paper, with an engine, and corrections where they are asked for."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from nearcal._arrays import FloatArray, IntArray, as_space, check_choices, check_count, check_number
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._growing import GrowingRows
from nearcal._saved import count, float_array, having, instance, one_of, optional, require, savable, tuple_of
from nearcal.distributions import Distribution, require_distribution
from nearcal.recalibration.base import Recalibrator, is_empty, read_calibration
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.corrections import Correction, LearntCorrection, LearntLinear
from nearcal.recalibration.fade import LearntFade
from nearcal.recalibration.leave_one_out import LeaveOneOut
from nearcal.recalibration.neighborhoods import SMOOTHINGS, KNearest, Radius, Smoothing, WithinRadius
from nearcal.recalibration.reliability import OwnIsolation
from nearcal.recalibration.result import Recalibrated
from nearcal.recalibration.score_laws import CONTINUOUS_RULES, QUANTILE_RULES, QuantileRule
from nearcal.recalibration.scores_of_rows import LocalScores
from nearcal.recalibration.trend import LearntTrend
from nearcal.recalibration.workers import Workers
from nearcal.space import (
    METRICS,
    SEARCHES,
    CalibrationSpace,
    Folds,
    Growing,
    IndexPlan,
    Metric,
    NeighborIndex,
    Scaling,
    ScalingName,
    Search,
    SpaceMap,
    as_folds,
    check_points,
    grow,
    kept_relations,
    settle,
)

LEARNT = {
    "n_cal_": count(),
    "n_features_in_": count(),
    "neighborhood_": instance(KNearest, WithinRadius),
    "quantile_rule_": one_of(*QUANTILE_RULES),
    "calibration_": instance(CalibrationScores),
    "space_map_": instance(SpaceMap),
    "index_": having("nearest", "within", "shape"),
    "corrections_": tuple_of(instance(LearntCorrection)),
    "own_isolation_": instance(OwnIsolation),
    "positions_": optional(float_array(2)),  # None where they are the points of the index
}


@savable(**LEARNT)
class LocalRecalibrator(Recalibrator):
    """Recalibrate each prediction by the errors the model made nearby.

    The normal scores z_i = Φ⁻¹(F_i(y_i)) of a calibration set tell where the observations fell in their predictive
    distributions. For a new row j the scores of the calibration points near it, weighted by K(d_ij / u_j), are pushed
    through its own quantile function: {F_j⁻¹(Φ(z_i)), w_ij} is a weighted sample of the recalibrated distribution.

    It does what it is told; the defaults are the paper's settings. To have everything chosen for a calibration set use
    :func:`nearcal.tune`, which returns one of these, fitted.

    Parameters
    ----------
    k : int, optional
        Number of nearest calibration points; the radius u is the distance to the k-th.
    radius : float or Radius, optional
        Take all calibration points within this distance instead of k. A :class:`Radius` also says what rows get that
        have few neighbours there.
    smoothing : {"epanechnikov", "uniform", "triangular", "biweight", "gaussian"}
        The kernel K: 1 - t², 1, 1 - t, (1 - t²)² or exp(-t² / 2) at t = d / u <= 1.
    eps : float
        With eps > 0, neighbours may be up to 1 + eps times as far as the true ones (Arya et al., 1998), which is
        faster. 0 is exact. A radius is always exact.
    scaling : {"none", "standard", "whiten", "relevance"} or Scaling
        How to scale the space: not at all (the paper), columns to unit standard deviation, to uncorrelated directions
        of unit standard deviation, or columns by what they tell about the errors of the model. A :class:`Scaling` can
        also keep the widest principal components alone, for wide layers.
    metric : {"euclidean", "manhattan", "chebyshev", "cosine"}
        Distance in the scaled space.
    search : {"auto", "line", "boxes", "brute", "kdtree", "faiss"}
        How neighbours are searched. "auto" takes the fastest exact search: sorted points on a line for d = 1, leaves
        with bounding boxes in low dimension, a blocked brute force above, and scipy's k-d tree for other metrics than
        the Euclidean. All of these give the same neighbours. "faiss" (extra ``faiss``) is an inverted file for
        millions of points: approximate, its recall is in ``index_.recall``. ``eps`` speeds up "boxes" and "kdtree",
        and "brute" a little; the others have no use for it.
    quantile_rule : {"step", "interpolated", "predictive", "conservative"}
        How the weighted scores are read, see :class:`Recalibrated`: "step" is the paper's.
    corrections : sequence of Correction
        What to do, in this order, about neighbourhoods being wider than a point, and small: :class:`Trend`,
        :class:`LocalLinear`, :class:`Shrinkage`, then :class:`Polish`; and last about rows unlike the calibration set:
        :class:`Fade`. None by default, as in the paper. What they learn from calibration points is learnt from each
        among the others, with a relevance learnt without the fifth of the points that it belongs to.
    workers : Workers, optional
        Threads, memory and progress.

    Attributes
    ----------
    n_cal_ : int
        Number of calibration points.
    neighborhood_ : KNearest or WithinRadius
        Which calibration points are asked, and how they are weighed.
    space_map_ : SpaceMap
        The fitted scaling.
    index_ : NeighborIndex
        The search structure.
    corrections_ : tuple of LearntCorrection
        The corrections as they were learnt; those that neighbourhoods are too small for are left out.
    positions_ : GrowingRows or None
        Where calibration points are, as it was given, for :meth:`relearn`; None where they are the points of the index.

    References
    ----------
    R. Torres, D. J. Nott, S. A. Sisson, T. Rodrigues, J. G. Reis and G. S. Rodrigues, *Model-Free Local
    Recalibration of Neural Networks*, arXiv:2403.05756.

    Examples
    --------
    A linear model with one standard deviation for all, of data whose spread grows with x:

    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(2, 20, size=40_000)
    >>> y = rng.normal(10 + 5 * x, x)
    >>> model = nc.Normal(10 + 5 * x, 12.0)
    >>> rc = nc.LocalRecalibrator(k=1000).fit(model, y, x)
    >>> new = rc.recalibrate(nc.Normal([25.0, 105.0], 12.0), [3.0, 19.0])
    >>> new.std().round()
    array([ 3., 19.])
    """

    n_features_in_: int
    neighborhood_: KNearest | WithinRadius
    quantile_rule_: QuantileRule
    calibration_: CalibrationScores
    space_map_: SpaceMap
    index_: NeighborIndex
    corrections_: tuple[LearntCorrection, ...]
    own_isolation_: OwnIsolation
    positions_: GrowingRows | None

    def __init__(
        self,
        k: int | None = None,
        radius: float | Radius | None = None,
        smoothing: Smoothing = "epanechnikov",
        eps: float = 0.0,
        *,
        scaling: ScalingName | Scaling = "none",
        metric: Metric = "euclidean",
        search: Search = "auto",
        quantile_rule: QuantileRule = "step",
        corrections: Sequence[Correction] = (),
        workers: Workers | None = None,
    ) -> None:
        self.k = k
        self.radius = radius
        self.smoothing = smoothing
        self.eps = eps
        self.scaling = scaling
        self.metric = metric
        self.search = search
        self.quantile_rule = quantile_rule
        self.corrections = corrections
        self.workers = workers

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
        """Learn from a calibration set that the model was not trained on.

        Parameters
        ----------
        dist_cal : Distribution
            Predictive distributions of the n calibration points.
        y_cal : array_like of shape (n,) or (n, 1)
            What was observed.
        space_cal : array_like of shape (n, d)
            Where they are: inputs, activations of a layer, anything in which near means similar. (n,) is (n, 1).
        groups, time, gap
            Which points may speak for which while corrections are learnt, as in :func:`nearcal.tune`; but None, and
            False, is plain leave-one-out, and nothing is tested.
        sample_weight : array_like of shape (n,), optional
            How much each point counts, by age, importance or covariate shift; relative, not negative. A neighbour
            weighs a_i K(d_ij / u_j), and the k nearest are the nearest points of weight k, in units of the average
            weight. Points of weight 0, and those below a billionth of the heaviest, are as if absent.
        """
        self._check_options()
        n = len(require_distribution(dist_cal, "dist_cal"))
        calibration, space_cal, rows = read_calibration(dist_cal, y_cal, space_cal, sample_weight)
        space = as_space(space_cal, "space_cal", len(calibration))
        folds = as_folds(*kept_relations(groups, time, rows, n), gap, len(calibration))
        return self.fit_space(calibration, self._space(space, calibration, folds))

    def _space(self, space: FloatArray, calibration: CalibrationScores, folds: Folds | None) -> CalibrationSpace:
        return CalibrationSpace(
            space,
            calibration.z,
            Scaling.of(self.scaling),
            self._neighborhood(calibration).least,
            metric=self.metric,
            search=self.search,
            eps=self.eps,
            folds=folds,
            weights=calibration.weights,
        )

    def fit_space(self, calibration: CalibrationScores, space: CalibrationSpace) -> Self:
        """Learn from scores in a space that is ready; what is built there already is not built again."""
        workers = Workers.of(self.workers)
        neighborhood = self._neighborhood(calibration)
        left_out = LeaveOneOut(calibration, lambda: space.views, neighborhood, self.quantile_rule, workers)
        learnt = []
        for correction in self.corrections:
            correction_learnt = correction.learn(left_out, space.whole)
            if isinstance(correction_learnt, LearntFade) and space.metric != "cosine":  # to which length means nothing
                correction_learnt = correction_learnt.looking_at(space.space)
            if correction_learnt is not None:
                learnt.append(correction_learnt)
                left_out = left_out.corrected(correction_learnt)
        whole = space.whole
        own_isolation = OwnIsolation.of(whole.index, whole.points)
        # all that can fail is done
        self.neighborhood_, self.quantile_rule_ = neighborhood, self.quantile_rule
        self.space_map_, self.index_, self.corrections_ = space.map, whole.index, tuple(learnt)
        self.calibration_, self.own_isolation_ = calibration, own_isolation
        self.positions_ = None if _are_positions(space.map, whole.index) else GrowingRows(space.space)
        self.n_features_in_ = space.space.shape[1]
        self.n_cal_ = len(calibration)
        return self

    # ---- a calibration set that changes ------------------------------------------------------------------------------

    def update(self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None, *, sample_weight: Any = None) -> Self:
        """Append points to the calibration set; the index takes them in without being built again every time.

        What was learnt from the calibration set as a whole stays as it was: the scaling of the space, and what
        corrections have learnt; call :meth:`relearn` from time to time to learn them again. The result is, to the last
        bit, that of a fit on all points with this scaling and these corrections. Without a learnt scaling
        (``scaling="none"``) and without corrections nothing else is learnt, and it is that of ``fit`` on all points.

        Results made before stay as they were. Approximate searches (``eps > 0``, "faiss") are built anew when they are
        first asked after an update.

        Parameters
        ----------
        dist_cal : Distribution
            Predictive distributions of the new calibration points, of any number, also none; the family may differ.
        y_cal : array_like of shape (n,) or (n, 1)
            What was observed.
        space_cal : array_like of shape (n, d)
            Where they are, in the space given to ``fit``.
        sample_weight : array_like of shape (n,), optional
            How much each counts beside those that are there, which count 1 each if none was given in ``fit``.

        Returns
        -------
        self
            If it fails, nothing has changed.

        Examples
        --------
        A model whose errors grow as time goes by, known by its last 500 observations:

        >>> import numpy as np, nearcal as nc
        >>> rng = np.random.default_rng(1)
        >>> x, spread = rng.uniform(size=2000), np.repeat([1.0, 3.0], 1000)
        >>> y, model = rng.normal(x, spread), nc.Normal(x, 1.0)
        >>> rc = nc.LocalRecalibrator(k=200).fit(model[:1000], y[:1000], x[:1000])
        >>> rc.recalibrate(model[:2], x[:2]).std().round()
        array([1., 1.])
        >>> rc = rc.update(model[1000:], y[1000:], x[1000:]).forget(keep_last=500)
        >>> rc.recalibrate(model[:2], x[:2]).std().round()
        array([3., 3.])
        """
        self._require_fitted()
        if not is_empty(y_cal):
            more, space_cal, _ = read_calibration(dist_cal, y_cal, space_cal, sample_weight)
            self._append(more, as_space(space_cal, "space_cal", len(more)))
        return self

    def _append(self, more: CalibrationScores, space: FloatArray) -> None:
        self._require_columns(space, "space_cal")
        points = replace(self.space_map_, name="space_cal")(space)
        check_points(points, self.index_.metric, "space_cal")
        self._hold_rows(
            self.calibration_.extended(more),
            self._growing_index().extended(points),
            None if self.positions_ is None else self.positions_.extended(space),
            tuple(correction.extended(points) for correction in self.corrections_),
        )

    def _keep(self, rows: IntArray) -> None:
        near = self.neighborhood_
        if isinstance(near, KNearest) and len(rows) < near.k:
            raise InvalidInputError(
                f"forget must leave at least k={near.k} of the {self.n_cal_} calibration points, got {len(rows)} that "
                "would remain; forget fewer, or fit again with a smaller k"
            )
        self._hold_rows(
            self.calibration_.restricted(rows),
            self._growing_index().restricted(rows),
            None if self.positions_ is None else self.positions_.kept(rows),
            tuple(correction.restricted(rows) for correction in self.corrections_),
        )

    def relearn(self, *, groups: Any = None, time: Any = None, gap: Any = None) -> Self:
        """Learn the scaling and the corrections again, from the calibration set as it is now.

        The result is, to the last bit, that of ``fit`` on the points that it has, in their order, and costs as much.

        Parameters
        ----------
        groups, time, gap
            As in ``fit``, of the points that it has.

        Examples
        --------
        >>> import numpy as np, nearcal as nc
        >>> rng = np.random.default_rng(1)
        >>> x, y, model = rng.uniform(size=(600, 2)), rng.normal(size=600), nc.Normal(np.zeros(600), 2.0)
        >>> settings = {"k": 50, "scaling": "standard", "corrections": [nc.Polish()], "quantile_rule": "predictive"}
        >>> rc = nc.LocalRecalibrator(**settings).fit(model[:500], y[:500], x[:500])
        >>> rc = rc.update(model[500:], y[500:], x[500:]).relearn()
        >>> fresh = nc.LocalRecalibrator(**settings).fit(model, y, x)
        >>> (rc.recalibrate(model, x).std() == fresh.recalibrate(model, x).std()).all()
        np.True_
        """
        self._require_fitted()
        self._check_options()
        calibration = self.calibration_
        folds = as_folds(groups, time, gap, len(calibration))
        return self.fit_space(calibration, self._space(self._positions(), calibration, folds))

    def _positions(self) -> FloatArray:
        """Return where calibration points are, as it was given."""
        return self.index_.points if self.positions_ is None else self.positions_.array

    def _growing_index(self) -> Growing:
        near = self.neighborhood_
        eps = near.eps if isinstance(near, KNearest) else 0.0
        plan = IndexPlan(self.index_.metric, self.search, near.least, eps)
        return grow(self.index_, lambda: self.space_map_(self._positions()), plan)

    def _hold_rows(
        self,
        calibration: CalibrationScores,
        index: Growing,
        positions: GrowingRows | None,
        corrections: tuple[LearntCorrection, ...],
        **more: Any,
    ) -> None:
        """Take over other calibration points; at once, since another thread may be about to recalibrate."""
        near = self.neighborhood_
        vars(self).update(
            neighborhood_=near.among(calibration),
            calibration_=calibration,
            index_=index,
            positions_=positions,
            corrections_=corrections,
            own_isolation_=OwnIsolation.of_growing(index),
            n_cal_=len(calibration),
            **more,
        )

    def recalibrate(self, dist_new: Distribution, space_new: Any) -> Recalibrated:
        """Return the recalibrated distributions of new rows; nothing is computed before it is asked for.

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
        self._require_columns(space, "space_new")
        fitted = copy.copy(self)  # another thread may update this one meanwhile
        fade = next((one for one in fitted.corrections_ if isinstance(one, LearntFade)), None)
        points = fitted.space_map_(space)
        check_points(points, fitted.index_.metric, "space_new")
        scores = LocalScores(
            fitted.index_,
            points,
            fitted.neighborhood_,
            fitted.calibration_,
            fitted.corrections_,
            fitted.quantile_rule_,
            Workers.of(self.workers),
            fitted.own_isolation_,
            None if fade is None or fade.ranges is None else fade.ranges.trust(space),
        )
        return Recalibrated(base, scores)

    def _require_columns(self, space: FloatArray, name: str) -> None:
        if space.shape[1] != self.n_features_in_:
            raise InvalidInputError(
                f"{name} must have {self.n_features_in_} columns as space_cal had in fit, got {space.shape[1]}"
            )

    # ---- options ----------------------------------------------------------------------------------------------------

    def _neighborhood(self, calibration: CalibrationScores) -> KNearest | WithinRadius:
        n_cal, weights = len(calibration), calibration.weights
        if self.radius is not None:
            return WithinRadius(Radius.of(self.radius), self.smoothing, n_cal, weights)
        assert self.k is not None
        if self.k > n_cal:
            raise InvalidParameterError(
                f"k must be at most the number of calibration points, {n_cal}, got {self.k}; "
                "for all points equally weighted use GlobalRecalibrator"
            )
        return KNearest(self.k, float(self.eps), self.smoothing, weights)

    def _check_options(self) -> None:
        self._check_neighborhood()
        check_number(self.eps, "eps", least=0.0)
        Scaling.of(self.scaling)
        check_choices(
            {
                "smoothing": (self.smoothing, SMOOTHINGS),
                "metric": (self.metric, METRICS),
                "search": (self.search, SEARCHES),
                "quantile_rule": (self.quantile_rule, QUANTILE_RULES),
            }
        )
        if self.corrections != ():
            self._check_corrections()
        if self.workers is not None:
            Workers.of(self.workers)

    def _check_neighborhood(self) -> None:
        if (self.k is None) == (self.radius is None):
            raise InvalidParameterError(
                f"give exactly one of k and radius, got k={self.k!r} and radius={self.radius!r}; k=1000 is the paper's "
                "choice for 10,000 calibration points, and nearcal.tune(dist_cal, y_cal, space_cal).recalibrator "
                "chooses it"
            )
        if isinstance(self.k, str):
            raise InvalidParameterError(
                f"k must be a whole number >= 1, got {self.k!r}; nearcal.tune(dist_cal, y_cal, space_cal).recalibrator "
                "chooses it"
            )
        if self.radius is None:
            check_count(self.k, "k")
            return
        Radius.of(self.radius)
        if self.search == "faiss":
            raise InvalidParameterError(
                'search="faiss" finds the k nearest only, got a radius; give k, or search="auto" for a radius'
            )

    def _check_corrections(self) -> None:
        if not isinstance(self.corrections, Sequence):
            raise InvalidParameterError(
                f"corrections must be a sequence, such as (nearcal.Polish(),), got {self.corrections!r}"
            )
        for correction in self.corrections:
            if not isinstance(correction, Correction):
                raise InvalidParameterError(
                    "corrections must be a sequence of nearcal.Trend(), nearcal.LocalLinear(), nearcal.Shrinkage(), "
                    f"nearcal.Polish() and nearcal.Fade(), got {correction!r} among them"
                )
            correction.check()
            if correction.needs_continuous_rule and self.quantile_rule not in CONTINUOUS_RULES:
                raise InvalidParameterError(
                    f"{correction!r} needs a continuous quantile_rule, one of {CONTINUOUS_RULES}, got "
                    f'{self.quantile_rule!r}; use quantile_rule="predictive"'
                )
        if any(correction.comes_first for correction in self.corrections[1:]):
            raise InvalidParameterError(
                f"corrections must begin with Trend(), once, where there is one, got {tuple(self.corrections)!r}; put "
                "it first"
            )
        if any(correction.comes_last for correction in self.corrections[:-1]):
            raise InvalidParameterError(
                f"corrections must end with Fade(), once, where there is one, got {tuple(self.corrections)!r}; put it "
                "last"
            )
        bends = [correction.needs_continuous_rule for correction in self.corrections if not correction.comes_last]
        if bends != sorted(bends):
            raise InvalidParameterError(
                f"corrections of all rows alike must come last, got {tuple(self.corrections)!r}; put Polish() last, "
                "with no more than Fade() behind it"
            )

    # ---- files ------------------------------------------------------------------------------------------------------

    def _to_saved(self) -> dict[str, Any]:
        """Return what a file keeps: the index in one structure."""
        saved = super()._to_saved()
        index, own = settle(self.index_), self.own_isolation_
        saved["learnt"] |= {
            "index_": index,
            "own_isolation_": OwnIsolation(index, own.rows, own.queries),
            "positions_": None if self.positions_ is None else self.positions_.array,
        }
        return saved

    def _check_learnt(self) -> None:
        matrix, n = self.space_map_.matrix, self.n_cal_
        shape = n, self.n_features_in_ if matrix is None else matrix.shape[-1]
        require(
            len(self.space_map_.center) == self.n_features_in_, "space_map_ must take spaces of n_features_in_ columns"
        )
        require(self.index_.shape == shape, "index_ must have n_cal_ points of the dimension of the space")
        require(self.own_isolation_.index is self.index_, "own_isolation_ must hold the index of the recalibrator")
        require(len(self.calibration_) == n, "calibration_ must have n_cal_ scores")
        for correction in self.corrections_:
            if isinstance(correction, LearntLinear):
                known = len(correction.places), len(correction.center)
                require(known == shape, "a local-linear correction must have n_cal_ places of the space's dimension")
            if isinstance(correction, LearntTrend):
                known = len(correction.values), len(correction.origin)
                require(known == shape, "a trend must have n_cal_ values in a space of its dimension")
            if isinstance(correction, LearntFade) and correction.ranges is not None:
                width = correction.ranges.width
                require(width == self.n_features_in_, "the ranges of a fade must be of n_features_in_ columns")
        near = self.neighborhood_
        fits = near.k <= n if isinstance(near, KNearest) else near.n_cal == n and Radius.of(near.radius) is near.radius
        require(fits, "neighborhood_ must be one among n_cal_ points")
        require(near.weights is self.calibration_.weights, "neighborhood_ must have the weights of calibration_")
        held: Any = self.positions_  # as a file has them
        is_missing = held is None and not _are_positions(self.space_map_, self.index_)
        fits = not is_missing and (held is None or held.shape == (n, self.n_features_in_))
        require(fits, "positions_ must be n_cal_ rows of n_features_in_ columns, where the index has others")
        self.positions_ = None if held is None else GrowingRows(held)


def _are_positions(space_map: SpaceMap, index: NeighborIndex) -> bool:
    """Tell whether the points of an index are positions as they were given: neither scaled nor brought to a sphere."""
    return space_map.matrix is None and index.metric != "cosine"
