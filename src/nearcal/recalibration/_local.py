"""Local recalibration: Algorithm 1 of the paper."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, as_space
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._saved import require
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


class LocalRecalibrator(Recalibrator):
    """Recalibrate each prediction by the errors the model made nearby.

    The normal scores z_i = Φ⁻¹(F_i(y_i)) of a calibration set tell where the observations fell in their predictive
    distributions. For a new row j the scores of the calibration points near it, weighted by K(d_ij / u_j), are pushed
    through its own quantile function: {F_j⁻¹(Φ(z_i)), w_ij} is a weighted sample of the recalibrated distribution.

    Parameters
    ----------
    k : int, optional
        Number of nearest calibration points; u is the distance to the k-th. Give ``k`` or ``radius``.
    radius : float, optional
        Take all calibration points within this distance instead; u is the radius.
    smoothing : {"epanechnikov", "uniform", "triangular", "biweight", "gaussian"}
        The kernel K; see :mod:`nearcal.smoothing`.
    eps : float
        With eps > 0, neighbours may be up to 1 + eps times as far as the true ones (Arya et al., 1998), which is
        faster. 0 is exact. A radius is always exact.
    scaling : {"none", "standard", "whiten"}
        How to scale the space: not at all (the paper), columns to unit standard deviation, or to uncorrelated
        directions of unit standard deviation.
    components : int, optional
        Keep this many principal components of the scaled space, for wide layers; see :mod:`nearcal.scaling`. None keeps
        everything.
    metric : {"euclidean", "manhattan", "chebyshev", "cosine"}
        Distance in the scaled space.
    search : {"auto", "line", "boxes", "brute", "kdtree", "faiss"}
        How neighbours are searched. "auto" takes the fastest exact search: sorted points on a line for d = 1, leaves
        with bounding boxes in low dimension, a blocked brute force above, and scipy's k-d tree for other metrics than
        the Euclidean. All of these give the same neighbours. "faiss" (extra ``faiss``) is an inverted file for
        millions of points: approximate, its recall is in ``index_.recall``. ``eps`` speeds up "boxes" and "kdtree";
        the others have no use for it.
    min_neighbors : int
        With ``radius``: rows with fewer neighbours than this are thin. (At most n_cal is asked for.)
    thin : {"nearest", "global", "base", "raise"}
        What thin rows get: their ``min_neighbors`` nearest points, all points with equal weights, their base
        distribution unchanged, or an error.
    quantile_rule : {"step", "interpolated", "predictive", "conservative"}
        How quantiles are read from the weighted sample; see :class:`Recalibrated`.
    polish : bool
        Whether a correction common to all rows makes up for what neighbourhoods get wrong on average, being wider than
        a point and small. It is learnt in ``fit`` from the scores of calibration points, each recalibrated by the
        others: the i-th of n such scores is moved to probability i / (n + 1). Quantiles and probabilities are then as
        well calibrated overall as after global recalibration; moments and densities are those of the weighted sample.
        It needs a continuous quantile rule, "interpolated" or "predictive", and ``fit`` again after a change of what
        neighbourhoods are. With ``radius`` it is learnt from neighbourhoods that are not thin, and applied to all.
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
    space_map_ : SpaceMap
        The fitted scaling.
    index_ : NeighborIndex
        The search structure.
    polish_ : Polish or None
        The correction common to all rows, with the settings it was learnt for.

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
        require(len(recalibrator.calibration_.z) == n, "calibration_ must have n_cal_ scores")
        if recalibrator.index_ is None or recalibrator.space_map_ is None:
            require(recalibrator.settings_.kind != "local", "index_ must be there for local recalibration")
            return recalibrator
        matrix, adjustment = recalibrator.space_map_.matrix, recalibrator.adjustment_
        shape = n, recalibrator.n_features_in_ if matrix is None else matrix.shape[-1]
        require(recalibrator.index_.shape == shape, "index_ must have n_cal_ points of the dimension of the space")
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
