"""Local recalibration: Algorithm 1 of the paper."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, as_space
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._saved import count, having, instance, optional, require, savable
from nearcal.distributions import Distribution
from nearcal.neighbors import Metric, NeighborIndex, Search, build_index, check_points
from nearcal.recalibration._adjustment import LEAST_NEIGHBORS, Adjustment, LinearAdjustment, learn_adjustment
from nearcal.recalibration._base import Recalibrator, calibration_scores, require_distribution
from nearcal.recalibration._chunks import Progress, Workers, check_workers
from nearcal.recalibration._left_out import LeftOut, Neighborhood, View, cross_fitted_views
from nearcal.recalibration._local_sample import Calibration, QuantileRule
from nearcal.recalibration._moved_scores import MovedScores
from nearcal.recalibration._neighborhoods import Everyone, Finder, KNearest, Nobody, Thin, WithinRadius
from nearcal.recalibration._polish import Polish, learn_score_map, left_out_scores
from nearcal.recalibration._reliability import CalibrationPoints
from nearcal.recalibration._result import Recalibrated
from nearcal.recalibration._settings import (
    TUNED,
    Auto,
    Settings,
    check_settings,
    is_auto,
    require_continuous,
    resolve,
)
from nearcal.recalibration._shrinkage import Shrinkage
from nearcal.scaling import Scaling, SpaceMap, learn_scaling
from nearcal.smoothing import Smoothing

LEARNT = {
    "space_map_": optional(instance(SpaceMap)),
    "index_": optional(having("nearest", "within", "shape", "metric")),
    "_points": optional(instance(CalibrationPoints)),
    "adjustment_": optional(instance(LinearAdjustment)),
    "shrinkage_": optional(instance(Shrinkage)),
    "polish_": optional(instance(Polish)),
    "tuning_": optional(having("chosen", "table")),
    "calibration_": instance(Calibration),
    "n_features_in_": count(),
    "n_cal_": count(),
}


@savable(**LEARNT)
class LocalRecalibrator(Recalibrator):
    """Recalibrate each prediction by the errors the model made nearby.

    The normal scores z_i = Φ⁻¹(F_i(y_i)) of a calibration set tell where the observations fell in their predictive
    distributions. For a new row j the scores of the calibration points near it, weighted by K(d_ij / u_j), are pushed
    through its own quantile function: {F_j⁻¹(Φ(z_i)), w_ij} is a weighted sample of the recalibrated distribution.

    Without arguments everything is chosen by leave-one-out CRPS in ``fit``, see :func:`nearcal.tune`: the choice is in
    ``settings_``, the evidence in ``tuning_``. With ``k`` or ``radius`` this is Algorithm 1 of the paper, and what else
    is not given is as there.

    Parameters
    ----------
    k : "auto" or int
        Number of nearest calibration points; u is the distance to the k-th. "auto" tunes it, unless there is a radius.
    radius : float, optional
        Take all calibration points within this distance instead; u is the radius.
    smoothing : "auto" or {"epanechnikov", "uniform", "triangular", "biweight", "gaussian"}
        The kernel K; see :mod:`nearcal.smoothing`. Here and below "auto" is tuned together with k, or the paper's
        setting where k or radius is given: "epanechnikov".
    eps : float
        With eps > 0, neighbours may be up to 1 + eps times as far as the true ones (Arya et al., 1998), which is
        faster. 0 is exact. A radius is always exact.
    scaling : "auto" or {"none", "standard", "whiten", "relevance"}
        How to scale the space: not at all (the paper), columns to unit standard deviation, to uncorrelated directions
        of unit standard deviation, or columns by what they tell about the errors of the model (see Notes).
    components : "auto", int or None
        Keep this many principal components of the scaled space, for wide layers; see :mod:`nearcal.scaling`. None, and
        "auto", keep everything.
    metric : {"euclidean", "manhattan", "chebyshev", "cosine"}
        Distance in the scaled space.
    search : {"auto", "line", "boxes", "brute", "kdtree", "faiss"}
        How neighbours are searched. "auto" takes the fastest exact search: sorted points on a line for d = 1, leaves
        with bounding boxes in low dimension, a blocked brute force above, and scipy's k-d tree for other metrics than
        the Euclidean. All of these give the same neighbours. "faiss" (extra ``faiss``) is an inverted file for
        millions of points: approximate, its recall is in ``index_.recall``. ``eps`` speeds up "boxes" and "kdtree",
        and "brute" a little; the others have no use for it.
    min_neighbors : int
        With ``radius``: rows with fewer neighbours than this are thin. (At most n_cal is asked for.)
    thin : {"nearest", "global", "base", "raise"}
        What thin rows get: their ``min_neighbors`` nearest points, all points with equal weights, their base
        distribution unchanged, or an error.
    quantile_rule : "auto" or {"step", "interpolated", "predictive", "conservative"}
        How quantiles are read from the weighted sample; see :class:`Recalibrated`. "auto" is "step", the paper's, where
        k or radius is given, and "predictive" where k is tuned.
    polish : "auto" or bool
        Whether a correction common to all rows makes up for what neighbourhoods get wrong on average, being wider than
        a point and small. It is learnt in ``fit`` from the scores of calibration points, each recalibrated by the
        others: the i-th of n such scores is moved to probability i / (n + 1). Quantiles and probabilities are then as
        well calibrated overall as after global recalibration; moments and densities are those of the weighted sample.
        It needs a continuous quantile rule, "interpolated" or "predictive", and ``fit`` again after a change of what
        neighbourhoods are. With ``radius`` it is learnt from neighbourhoods that are not thin, and applied to all.
        "auto" is False where k or radius is given, and True where k is tuned and the quantile rule allows it.
    adjustment : "auto" or {"none", "linear"}
        Whether the scores of neighbours are moved to where the row is, by a regression on position (see Notes).
    shrinkage : "auto" or bool
        Whether the location and spread of a neighbourhood's scores are drawn towards those of all scores, and these
        towards a model that is right, as far as the evidence is thin (see Notes).
    memory : int
        Bytes of working memory: half for the chunks in work, half for neighbourhoods kept between questions.
    threads : int, optional
        Number of threads; None takes the processors available. Results do not depend on it.
    progress : bool or callable
        True draws a progress bar; a callable receives (rows done, rows in all).

    Attributes
    ----------
    n_cal_ : int
        Number of calibration points.
    settings_ : Settings
        The settings in use, none of them "auto".
    tuning_ : Tuning or None
        All candidates with their scores, where k was tuned. If "no recalibration" was chosen, base distributions are
        returned as they are; if "global recalibration", all calibration points speak for every row.
    space_map_ : SpaceMap or None
        The fitted scaling; None, as all below, where the choice was not local.
    index_ : NeighborIndex
        The search structure.
    adjustment_ : LinearAdjustment or None
        Positions to regress on; None without adjustment, and where neighbourhoods are too small for one.
    shrinkage_ : Shrinkage or None
        Where neighbourhoods are drawn to, and how much true ones vary.
    polish_ : Polish or None
        The correction common to all rows, with the settings it was learnt for.

    Notes
    -----
    **Relevance.** Columns are standardised and multiplied by the square root of their relevance, which trees learn from
    the scores, see :mod:`nearcal.relevance`: what the location and the spread of z do not depend on is left out of
    distances. It costs nothing per query. It cannot help where all columns matter alike, and with a hundred
    calibration points or fewer it may leave out a column that matters; tuning tells. A column counts by itself: a
    direction across columns is not found.

    **Adjustment.** In the neighbourhood of a row at x, the scores z_i are regressed on positions x_i by least squares
    with weights w_i and a ridge of a thousandth of the mean variance of positions. With z̄ and x̄ the weighted means and
    b the slope, neighbours then have the scores

        z̄ + s b·(x - x̄) + c_i (z_i - z̄ - s b·(x_i - x̄)).

    - s = max(0, 1 - σ² Σ w_i l_i / explained) is James and Stein's factor: the sum of squares that position explains,
      against what it would explain by chance. l_i = w_i (x_i - x̄)ᵀ(G + λI)⁻¹(x_i - x̄) is the leverage that a point has
      beyond its weight, G the weighted covariance of positions, σ² the residual sum of squares over
      1 - Σ w_i² - Σ w_i l_i. Where s is 0 the row is left as it is.
    - b·(x - x̄) is kept between the least and the greatest of b·(x_i - x̄): the regression is not extrapolated.
    - c_i = (1 - w_i) / (1 - w_i - s l_i), at most 3, turns residuals into what they would be without point i in the
      regression, so that intervals do not shrink.

    A neighbourhood of k points affords k / 5 - 1 slopes. A space of more dimensions, or of more than 20, is reduced to
    its widest principal components for the regression, or to mixtures of all directions where it is whitened and none
    is wider; with fewer than 10 neighbours nothing is adjusted. Use it where the model is misspecified and its errors
    drift across neighbourhoods; a good network leaves little to adjust.
    (M. A. Beaumont, W. Zhang and D. J. Balding, Genetics 162:2025-2035, 2002, for approximate Bayesian computation.)

    **Shrinkage.** Of a neighbourhood of effective size n whose scores have mean m and variance v, the mean is drawn to
    the mean M of all scores by 1 - τ² / (τ² + v / n), and log √v to that of all scores by 1 - ω² / (ω² + 1 / (2n)).
    τ² and ω² are the variances of true local means and log-spreads, estimated from the neighbourhoods of calibration
    points among the others. M and the spread of all scores are drawn to 0 and 1 likewise. It steadies small
    neighbourhoods of a model that is nearly right, and takes a little from those of a model that is badly wrong.

    What is learnt from calibration points, polish and shrinkage, is learnt from each recalibrated by the others, with
    a relevance learnt without the fifth of the points that it belongs to.

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

    Everything tuned:

    >>> tuned = nc.LocalRecalibrator().fit(nc.Normal(10 + 5 * x[:2000], 12.0), y[:2000], x[:2000])
    >>> tuned.settings_.kind
    'local'
    >>> bool(tuned.tuning_.table["crps"].min() < tuned.tuning_.table["crps"][0])  # the first is no recalibration
    True
    """

    calibration_: Calibration
    index_: NeighborIndex | None
    space_map_: SpaceMap | None
    # None also in what older versions have saved
    tuning_: Any = None
    adjustment_: LinearAdjustment | None = None
    shrinkage_: Shrinkage | None = None
    polish_: Polish | None = None
    _points: CalibrationPoints | None

    def __init__(
        self,
        k: Auto | int | None = "auto",
        radius: float | None = None,
        smoothing: Auto | Smoothing = "auto",
        eps: float = 0.0,
        *,
        scaling: Auto | Scaling = "auto",
        components: Auto | int | None = "auto",
        metric: Metric = "euclidean",
        search: Search = "auto",
        min_neighbors: int = 30,
        thin: Thin = "nearest",
        quantile_rule: Auto | QuantileRule = "auto",
        polish: Auto | bool = "auto",
        adjustment: Auto | Adjustment = "auto",
        shrinkage: Auto | bool = "auto",
        memory: int = 2**28,
        threads: int | None = None,
        progress: Progress = False,
    ) -> None:
        self.k = k
        self.radius = radius
        self.smoothing = smoothing
        self.eps = eps
        self.scaling = scaling
        self.components = components
        self.metric = metric
        self.search = search
        self.min_neighbors = min_neighbors
        self.thin = thin
        self.quantile_rule = quantile_rule
        self.polish = polish
        self.adjustment = adjustment
        self.shrinkage = shrinkage
        self.memory = memory
        self.threads = threads
        self.progress = progress

    @property
    def settings_(self) -> Settings:
        """The settings in use: what was given, what was tuned, and the paper's where neither."""
        self._require_fitted()
        return self._resolved(self.tuning_)

    def fit(self, dist_cal: Distribution, y_cal: Any, space_cal: Any) -> Self:
        """Learn from a calibration set that the model was not trained on.

        Parameters
        ----------
        dist_cal : Distribution
            Predictive distributions of the n calibration points.
        y_cal : array_like of shape (n,) or (n, 1)
            What was observed.
        space_cal : array_like of shape (n, d)
            Where they are: inputs, activations of a layer, anything in which near means similar. (n,) is (n, 1).
        """
        self._check_options()
        z = calibration_scores(require_distribution(dist_cal, "dist_cal"), y_cal)
        space = as_space(space_cal, "space_cal", len(z))
        tuning = self._tune(dist_cal, y_cal, space) if self._is_tuned else None
        settings = self._resolved(tuning)
        self._check_k(settings, len(z))
        learnt = self._learn(settings, Calibration(z), space) if settings.kind == "local" else _NOTHING_LOCAL
        # all that can fail is done
        vars(self).update(learnt)
        self.tuning_ = tuning
        self.calibration_ = Calibration(z)
        self.n_features_in_ = space.shape[1]
        self.n_cal_ = len(z)
        return self

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
        self._check_options()
        settings = self.settings_
        self._check_k(settings, self.n_cal_)
        base = require_distribution(dist_new, "dist_new")
        space = as_space(space_new, "space_new", len(base))
        if space.shape[1] != self.n_features_in_:
            raise InvalidInputError(
                f"space_new must have {self.n_features_in_} columns as space_cal had in fit, got {space.shape[1]}"
            )
        finder = self._finder(settings, space)
        workers = Workers(self.threads, self.memory, self.progress)
        return Recalibrated(base, self._polished_calibration(settings), finder, workers, settings.quantile_rule)

    def __repr__(self) -> str:
        chosen = getattr(self.tuning_, "chosen", None)
        return super().__repr__() + (f" tuned to {chosen}" if chosen is not None else "")

    # ---- learning ---------------------------------------------------------------------------------------------------

    @property
    def _is_tuned(self) -> bool:
        return is_auto(self.k) and self.radius is None

    def _tune(self, dist_cal: Distribution, y_cal: Any, space: FloatArray) -> Any:
        from nearcal.tuning import tune  # it is built upon recalibrators

        plural = {"smoothing": "smoothings", "scaling": "scalings", "adjustment": "adjustments"}
        given = {plural.get(name, name): getattr(self, name) for name in TUNED if not is_auto(getattr(self, name))}
        return tune(dist_cal, y_cal, space, threads=self.threads, memory=self.memory, progress=self.progress, **given)

    def _resolved(self, tuning: Any) -> Settings:
        if self._is_tuned and tuning is None:
            raise InvalidParameterError('k="auto" must be tuned by fit; call fit again after set_params')
        settings = resolve(self.get_params(), tuning.chosen if self._is_tuned else None)
        require_continuous(settings.polish, settings.quantile_rule)
        return settings

    def _learn(self, settings: Settings, calibration: Calibration, space: FloatArray) -> dict[str, Any]:
        """Return the fitted attributes of local recalibration by name."""
        z, neighbors = calibration.z, settings.k or self.min_neighbors
        space_map = learn_scaling(settings.scaling, space, settings.components, z)
        points = space_map(space)
        check_points(points, self.metric, "space_cal")

        def build(points: FloatArray) -> NeighborIndex:
            return build_index(points, self.metric, self.search, neighbors, self.eps)

        index = build(points)
        shrinkage = polish = None
        if settings.shrinkage or settings.polish:
            views = [View(points, index, np.arange(len(points)))]
            if settings.scaling == "relevance":
                views = cross_fitted_views(settings.scaling, space, settings.components, z, build)
            workers = Workers(self.threads, self.memory, self.progress)
            left_out = LeftOut(calibration, views, self._neighborhood(settings), workers)
            if settings.shrinkage:
                left_out = left_out.shrunk()
                shrinkage = left_out.shrinkage
            if settings.polish:
                scores = left_out_scores(left_out, settings.quantile_rule)
                polish = Polish(learn_score_map(scores), self._polish_settings(settings))
        return {
            "space_map_": space_map,
            "index_": index,
            "_points": CalibrationPoints(index, points),
            "adjustment_": learn_adjustment(settings.adjustment, points, neighbors),
            "shrinkage_": shrinkage,
            "polish_": polish,
        }

    def _neighborhood(self, settings: Settings) -> Neighborhood:
        return Neighborhood(
            settings.k,
            settings.radius,
            settings.smoothing,
            self.eps,
            self.min_neighbors,
            settings.adjustment,
        )

    def _polish_settings(self, settings: Settings) -> dict[str, Any]:
        names = ("k", "radius", "smoothing", "quantile_rule", "adjustment", "shrinkage")
        own = {name: getattr(settings, name) for name in names}
        return {**own, "eps": self.eps, "min_neighbors": self.min_neighbors}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        recalibrator = super()._from_saved(saved)
        n = recalibrator.n_cal_
        scores_agree = len(recalibrator.calibration_.z) == n
        if recalibrator.index_ is None or recalibrator.space_map_ is None:
            require(recalibrator.settings_.kind != "local", "index_ must be there for local recalibration")
            require(scores_agree, "calibration_ must have n_cal_ scores")
            return recalibrator
        matrix, adjustment = recalibrator.space_map_.matrix, recalibrator.adjustment_
        shape = n, recalibrator.n_features_in_ if matrix is None else matrix.shape[-1]
        require(recalibrator.index_.shape == shape, "index_ must have n_cal_ points of the dimension of the space")
        require(scores_agree, "calibration_ must have n_cal_ scores")
        if adjustment is not None:
            known = len(adjustment.points), len(adjustment.center)
            require(known == shape, "adjustment_ must have n_cal_ points of the dimension of the space")
        return recalibrator

    # ---- predicting -------------------------------------------------------------------------------------------------

    def _finder(self, settings: Settings, space: FloatArray) -> Finder:
        if settings.kind != "local":
            return Everyone(self.n_cal_) if settings.kind == "global" else Nobody(self.n_cal_)
        if self.index_ is None or self.space_map_ is None or self._points is None:
            raise InvalidParameterError("neighbourhoods must be learnt by fit; call fit again after set_params")
        points = self.space_map_(space)
        check_points(points, self.index_.metric, "space_new")
        finder: Finder
        if settings.k is not None:
            finder = KNearest(self.index_, points, settings.k, float(self.eps), settings.smoothing, self._points)
        else:
            assert settings.radius is not None
            finder = WithinRadius(
                self.index_, points, float(settings.radius), settings.smoothing,
                min(self.min_neighbors, self.n_cal_), self.thin, self.n_cal_, self._points,
            )  # fmt: skip
        self._require_learnt(settings)
        adjustment = self.adjustment_ if settings.adjustment != "none" else None
        shrinkage = self.shrinkage_ if settings.shrinkage else None
        if adjustment is None and shrinkage is None:
            return finder
        queries = None if adjustment is None else adjustment.place(points)
        return MovedScores(finder, self.calibration_.z, adjustment, queries, shrinkage)

    def _require_learnt(self, settings: Settings) -> None:
        neighbors = settings.k or self.min_neighbors
        few = self.adjustment_ is None or self.adjustment_.least > neighbors
        if settings.adjustment != "none" and neighbors >= LEAST_NEIGHBORS and few:
            raise InvalidParameterError(
                f"adjustment={settings.adjustment!r} must be learnt by fit for k={settings.k!r} and "
                f"min_neighbors={self.min_neighbors}; call fit again after set_params"
            )
        if settings.shrinkage and self.shrinkage_ is None:
            raise InvalidParameterError("shrinkage=True must be learnt by fit; call fit again after set_params")

    def _polished_calibration(self, settings: Settings) -> Calibration:
        if not settings.polish or settings.kind != "local":
            return self.calibration_
        if self.polish_ is None or self.polish_.settings != self._polish_settings(settings):
            learnt = "nothing" if self.polish_ is None else self.polish_.settings
            raise InvalidParameterError(
                f"polish=True must be learnt by fit for the settings in use, {self._polish_settings(settings)}, got "
                f"{learnt}; call fit again after set_params"
            )
        return self.calibration_.polished(self.polish_.score_map)

    def _check_options(self) -> None:
        check_settings(self.get_params())
        check_workers(self.threads, self.memory, self.progress)
        if not self._is_tuned:
            self._resolved(None)
        elif self.polish is True and not is_auto(self.quantile_rule):
            require_continuous(True, self.quantile_rule)

    def _check_k(self, settings: Settings, n: int) -> None:
        if settings.k is not None and settings.k > n:
            raise InvalidParameterError(
                f"k must be at most the number of calibration points, {n}, got {settings.k}; "
                "for all points equally weighted use GlobalRecalibrator"
            )


_NOTHING_LOCAL: dict[str, Any] = dict.fromkeys(
    ("space_map_", "index_", "_points", "adjustment_", "shrinkage_", "polish_")
)
