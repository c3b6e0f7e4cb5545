"""Local recalibration: Algorithm 1 of the paper."""

from collections.abc import Mapping
from typing import Any, Self

from nearcal._arrays import as_space, check_choice, check_count, check_number
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._saved import require
from nearcal.distributions import Distribution
from nearcal.neighbors import METRICS, SEARCHES, Metric, NeighborIndex, Search, build_index, check_points
from nearcal.recalibration._base import Recalibrator, calibration_scores, require_distribution
from nearcal.recalibration._chunks import Progress, Workers, check_workers
from nearcal.recalibration._local_sample import CONTINUOUS_RULES, QUANTILE_RULES, Calibration, QuantileRule
from nearcal.recalibration._neighborhoods import THINS, Finder, KNearest, Thin, WithinRadius
from nearcal.recalibration._polish import Polish, learn_score_map, left_out_scores
from nearcal.recalibration._reliability import CalibrationPoints
from nearcal.recalibration._result import Recalibrated
from nearcal.scaling import Scaling, SpaceMap, learn_scaling
from nearcal.smoothing import SMOOTHINGS, Smoothing


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
    index_: NeighborIndex
    _points: CalibrationPoints
    space_map_: SpaceMap
    polish_: Polish | None

    def __init__(
        self,
        k: int | None = None,
        radius: float | None = None,
        smoothing: Smoothing = "epanechnikov",
        eps: float = 0.0,
        *,
        scaling: Scaling = "none",
        components: int | None = None,
        metric: Metric = "euclidean",
        search: Search = "auto",
        min_neighbors: int = 30,
        thin: Thin = "nearest",
        quantile_rule: QuantileRule = "step",
        polish: bool = False,
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
        self.memory = memory
        self.threads = threads
        self.progress = progress

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
        self._check_k(len(z))
        space_map = learn_scaling(self.scaling, space, self.components)
        points = space_map(space)
        check_points(points, self.metric, "space_cal")
        index = build_index(points, self.metric, self.search, self.k or self.min_neighbors, self.eps)
        calibration = Calibration(z)
        # the last step that can fail: nothing is set before
        self.polish_ = self._learn_polish(calibration, index, points) if self.polish else None
        self.index_ = index
        self._points = CalibrationPoints(index, points)
        self.space_map_ = space_map
        self.n_features_in_ = space.shape[1]
        self.calibration_ = calibration
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
        self._check_k(self.n_cal_)
        base = require_distribution(dist_new, "dist_new")
        space = as_space(space_new, "space_new", len(base))
        if space.shape[1] != self.n_features_in_:
            raise InvalidInputError(
                f"space_new must have {self.n_features_in_} columns as space_cal had in fit, got {space.shape[1]}"
            )
        points = self.space_map_(space)
        check_points(points, self.index_.metric, "space_new")
        finder = self._finder(points)
        workers = Workers(self.threads, self.memory, self.progress)
        return Recalibrated(base, self._polished_calibration(), finder, workers, self.quantile_rule)

    def _learn_polish(self, calibration: Calibration, index: NeighborIndex, points: Any) -> Polish:
        workers = Workers(self.threads, self.memory, self.progress)
        settings = self._polish_settings()
        scores = left_out_scores(calibration, index, points, workers=workers, **settings)
        return Polish(learn_score_map(scores), settings)

    def _polished_calibration(self) -> Calibration:
        if not self.polish:
            return self.calibration_
        if self.polish_ is None or self.polish_.settings != self._polish_settings():
            learnt = "nothing" if self.polish_ is None else self.polish_.settings
            raise InvalidParameterError(
                f"polish=True must be learnt by fit for the settings in use, {self._polish_settings()}, got {learnt}; "
                "call fit again after set_params"
            )
        return self.calibration_.polished(self.polish_.score_map)

    def _polish_settings(self) -> dict[str, Any]:
        names = ("k", "radius", "eps", "smoothing", "min_neighbors", "quantile_rule")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        recalibrator = super()._from_saved(saved)
        matrix = recalibrator.space_map_.matrix
        shape = recalibrator.n_cal_, recalibrator.n_features_in_ if matrix is None else matrix.shape[-1]
        require(recalibrator.index_.shape == shape, "index_ must have n_cal_ points of the dimension of the space")
        require(len(recalibrator.calibration_.z) == shape[0], "calibration_ must have n_cal_ scores")
        return recalibrator

    def _finder(self, points: Any) -> Finder:
        if self.radius is None:
            assert self.k is not None
            return KNearest(self.index_, points, self.k, float(self.eps), self.smoothing, self._points)
        least = min(self.min_neighbors, self.n_cal_)
        return WithinRadius(
            self.index_, points, float(self.radius), self.smoothing, least, self.thin, self.n_cal_, self._points
        )

    def _check_options(self) -> None:
        if (self.k is None) == (self.radius is None):
            raise InvalidParameterError(
                f"give exactly one of k and radius, got k={self.k!r} and radius={self.radius!r}; "
                "k=1000 is the paper's choice for 10,000 calibration points"
            )
        if self.k is not None:
            check_count(self.k, "k")
        if self.radius is not None:
            check_number(self.radius, "radius", least=0.0, strict=True)
            if self.search == "faiss":
                raise InvalidParameterError(
                    'search="faiss" finds the k nearest only, got a radius; give k, or search="auto" for a radius'
                )
        check_number(self.eps, "eps", least=0.0)
        check_count(self.min_neighbors, "min_neighbors")
        if self.components is not None:
            check_count(self.components, "components")
        check_choice(self.smoothing, SMOOTHINGS, "smoothing")
        check_choice(self.metric, METRICS, "metric")
        check_choice(self.search, SEARCHES, "search")
        check_choice(self.thin, THINS, "thin")
        check_choice(self.quantile_rule, QUANTILE_RULES, "quantile_rule")
        if self.polish and self.quantile_rule not in CONTINUOUS_RULES:
            raise InvalidParameterError(
                f"polish=True moves the places of scores and needs a continuous quantile_rule, {CONTINUOUS_RULES}, got "
                f'{self.quantile_rule!r}; use quantile_rule="predictive"'
            )
        check_workers(self.threads, self.memory, self.progress)

    def _check_k(self, n: int) -> None:
        if self.k is not None and self.k > n:
            raise InvalidParameterError(
                f"k must be at most the number of calibration points, {n}, got {self.k}; "
                "for all points equally weighted use GlobalRecalibrator"
            )
