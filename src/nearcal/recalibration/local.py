"""Local recalibration: Algorithm 1 of the paper, with an engine, and corrections where they are asked for."""

import copy
from collections.abc import Sequence
from typing import Any, Self

from nearcal._arrays import FloatArray, IntArray, as_space
from nearcal._growing import GrowingRows
from nearcal._saved import count, float_array, having, instance, one_of, optional, require, savable, tuple_of
from nearcal.distributions import Distribution, require_distribution
from nearcal.recalibration.base import read_calibration
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.corrections import Correction, LearntCorrection
from nearcal.recalibration.fade import LearntFade, trust_by_ranges
from nearcal.recalibration.leave_one_out import LeaveOneOut
from nearcal.recalibration.local_changes import ChangingSet, are_positions
from nearcal.recalibration.local_linear import LearntLinear
from nearcal.recalibration.local_options import check_options, neighborhood_of
from nearcal.recalibration.local_scores import LocalScores
from nearcal.recalibration.neighborhoods import KNearest, Radius, Smoothing, WithinRadius
from nearcal.recalibration.reliability import OwnIsolation
from nearcal.recalibration.result import Recalibrated
from nearcal.recalibration.score_laws import QUANTILE_RULES, QuantileRule
from nearcal.recalibration.trend import LearntTrend
from nearcal.recalibration.workers import Workers
from nearcal.space import (
    CalibrationSpace,
    Folds,
    Metric,
    Scaling,
    ScalingName,
    Search,
    SpaceMap,
    as_folds,
    check_points,
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
class LocalRecalibrator(ChangingSet):
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
        Where calibration points are, as it was given, for ``relearn``; None where they are the points of the index.

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

    quantile_rule_: QuantileRule

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
        calibration, space_cal, rows = read_calibration(dist_cal, y_cal, space_cal, sample_weight)
        n = len(calibration)
        space = as_space(space_cal, "space_cal", n)
        folds = as_folds(*kept_relations(groups, time, rows, len(dist_cal)), gap, n)
        return self._learn(calibration, space, folds)

    def _learn(self, calibration: CalibrationScores, space: FloatArray, folds: Folds | None) -> Self:
        neighborhood = neighborhood_of(self, calibration)
        return self._learn_in(self._ready(space, calibration, neighborhood, folds), calibration, neighborhood)

    def _ready(
        self,
        space: FloatArray,
        calibration: CalibrationScores,
        neighborhood: KNearest | WithinRadius,
        folds: Folds | None,
    ) -> CalibrationSpace:
        return CalibrationSpace(
            space,
            calibration.z,
            Scaling.of(self.scaling),
            neighborhood.least,
            metric=self.metric,
            search=self.search,
            eps=self.eps,
            folds=folds,
            weights=calibration.weights,
        )

    def fit_space(self, calibration: CalibrationScores, space: CalibrationSpace) -> Self:
        """Learn from scores in a space that is ready; what is built there already is not built again."""
        return self._learn_in(space, calibration, neighborhood_of(self, calibration))

    def _learn_in(
        self, space: CalibrationSpace, calibration: CalibrationScores, neighborhood: KNearest | WithinRadius
    ) -> Self:
        workers = Workers.of(self.workers)
        by_time = None if space.folds is None else space.folds.by_time
        left_out = LeaveOneOut(
            calibration, lambda: space.views, neighborhood, self.quantile_rule, workers, rows_by_time=by_time
        )
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
        self.positions_ = None if are_positions(space.map, whole.index) else GrowingRows(space.space)
        self.n_features_in_ = space.space.shape[1]
        self.n_cal_ = len(calibration)
        return self

    def left_out_values(
        self, dist_cal: Distribution, scores: FloatArray, folds: Folds | None = None, rows: IntArray | None = None
    ) -> FloatArray:
        """Return the quantiles of calibration points at levels Φ(scores), each recalibrated by the others.

        ``dist_cal`` are those given to ``fit``, with the ``folds`` that said who may speak for whom; a point for which
        nobody may has NaN, as have those that are not asked for by ``rows``. The result has shape (n, s) for s scores.
        """
        return self.left_out(folds).values(dist_cal, scores, rows)

    def left_out(self, folds: Folds | None = None, space: CalibrationSpace | None = None) -> LeaveOneOut:
        """Return calibration points each among the others, as they are before any fading.

        Views of the ``space`` that it was fitted in need not be built again.
        """
        self._require_fitted()
        known = self._ready(self.positions(), self.calibration_, self.neighborhood_, folds) if space is None else space
        return LeaveOneOut(
            self.calibration_,
            lambda: known.views,
            self.neighborhood_,
            self.quantile_rule_,
            Workers.of(self.workers),
            tuple(one for one in self.corrections_ if not isinstance(one, LearntFade)),
            rows_by_time=None if folds is None else folds.by_time,
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
        space = as_space(space_new, "space_new", len(base), self.n_features_in_)
        fitted = copy.copy(self)  # another thread may update this one meanwhile
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
            trust_by_ranges(fitted.corrections_, space),
        )
        return Recalibrated(base, scores)

    def _check_options(self) -> None:
        check_options(self)

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
                known = len(correction.location.values), len(correction.location.origin)
                require(known == shape, "a trend must have n_cal_ values in a space of its dimension")
            if isinstance(correction, LearntFade) and correction.ranges is not None:
                width = correction.ranges.width
                require(width == self.n_features_in_, "the ranges of a fade must be of n_features_in_ columns")
        near = self.neighborhood_
        fits = near.k <= n if isinstance(near, KNearest) else near.n_cal == n and Radius.of(near.radius) is near.radius
        require(fits, "neighborhood_ must be one among n_cal_ points")
        require(near.weights is self.calibration_.weights, "neighborhood_ must have the weights of calibration_")
        held: Any = self.positions_  # as a file has them
        is_missing = held is None and not are_positions(self.space_map_, self.index_)
        fits = not is_missing and (held is None or held.shape == (n, self.n_features_in_))
        require(fits, "positions_ must be n_cal_ rows of n_features_in_ columns, where the index has others")
        self.positions_ = None if held is None else GrowingRows(held)
