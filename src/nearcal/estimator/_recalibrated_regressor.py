"""RecalibratedRegressor: a scikit-learn meta-estimator around any regressor."""

from collections.abc import Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, check_cv, train_test_split
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, column_or_1d, indexable
from sklearn.utils.validation import check_is_fitted

from nearcal._arrays import FloatArray, IntArray, check_choice
from nearcal._errors import InvalidInputError
from nearcal.adapters import ModelAdapter, adapt
from nearcal.adapters._heads import HeadLike
from nearcal.adapters._regressor import RegressorModel
from nearcal.calibrated import CalibratedModel, calibrate
from nearcal.calibrated._calibrate import Auto
from nearcal.calibrated._model import AnyRecalibrator
from nearcal.distributions import Distribution
from nearcal.estimator._cross_fitting import CalibrationRows, cross_fit
from nearcal.recalibration._adjustment import Adjustment
from nearcal.recalibration._local_sample import QuantileRule
from nearcal.scaling import Scaling
from nearcal.smoothing import Smoothing

Calibration = Literal["cross", "split", "prefit"]
CALIBRATIONS: tuple[Calibration, ...] = get_args(Calibration)


class RecalibratedRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor whose predictions are locally recalibrated distributions.

    ``predict`` returns means, as every scikit-learn regressor does; ``predict_interval``, ``predict_quantiles`` and
    ``predict_dist`` return the rest of what is known.

    Parameters
    ----------
    estimator : regressor, optional
        The regressor to fit and recalibrate: scikit-learn's, a pipeline, LightGBM's, XGBoost's, NGBoost's, anything
        that :func:`nearcal.adapt` knows and that ``sklearn.base.clone`` can copy. None is ``LinearRegression()``.
    calibration : {"cross", "split", "prefit"}
        Where calibration data come from. "cross": the estimator is fitted to all rows, and to ``cv`` parts of them to
        predict the rows left out; all rows serve both purposes, at the cost of ``cv`` more fits. "split": a share
        ``calibration_size`` of the rows is held out. "prefit": the estimator is fitted already, and ``fit`` takes
        calibration data that it has not seen.
    calibration_size : float or int
        Share or number of rows held out, for "split".
    cv : int, splitter or iterable of (train, test)
        Number of folds, shuffled, or how to make them, for "cross"; each row must be left out once.
    random_state : int, RandomState or None
        Shuffles the split and the folds. The estimator has its own.
    layer, k, smoothing, scaling, components, adjustment, shrinkage, quantile_rule, polish, recalibrator
        As in :func:`nearcal.calibrate`: "auto" chooses by leave-one-out CRPS.
    head, levels, response
        How predictions become distributions; see the adapter of the estimator, such as
        :class:`nearcal.adapters.SklearnModel`.
    threads, memory, progress
        As in :class:`LocalRecalibrator`.

    Attributes
    ----------
    estimator_ : regressor
        The fitted estimator that predicts.
    calibrated_ : CalibratedModel
        The recalibrated model: which layer, k, smoothing and scaling were chosen and why, and the reliability of
        single predictions.
    n_features_in_ : int
        Number of features, where the estimator counts them.
    feature_names_in_ : ndarray of str
        Names of features, where the estimator knows them.

    Notes
    -----
    Cross-fitting offers the layers "input", "transformed" (where no step of the pipeline before the last learns from
    responses) and "output" alone. Inside a model the rows it was trained
    on do not lie where new rows with the same distribution would: their own responses pulled them there. Of outputs,
    those predicted out of fold are taken. To look for neighbours in hidden layers or leaves use "split".

    An estimator that takes gaps (NaN) is not asked to for a space: rows with gaps can be predicted if the calibration
    set has some too, or if ``layer="output"``.

    ``clone`` forgets that an estimator was fitted; wrap it in ``sklearn.frozen.FrozenEstimator`` for "prefit" inside
    of ``GridSearchCV`` or ``cross_val_score``.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> from sklearn.linear_model import Ridge
    >>> rng = np.random.default_rng(1)
    >>> X = rng.uniform(-1, 1, size=(2000, 1))
    >>> y = rng.normal(X[:, 0] ** 2, np.exp(X[:, 0]))
    >>> model = nc.RecalibratedRegressor(Ridge(), random_state=0).fit(X, y)
    >>> model.predict_dist([[-0.9], [0.9]]).std().round(1)
    array([0.5, 2.1])
    >>> lower, upper = model.predict_interval([[-0.9], [0.9]], coverage=0.9)
    """

    calibrated_: CalibratedModel

    def __init__(
        self,
        estimator: Any = None,
        *,
        calibration: Calibration = "cross",
        calibration_size: float = 0.25,
        cv: Any = 5,
        random_state: Any = None,
        layer: Auto | str | Sequence[str] = "auto",
        k: Auto | int | Sequence[int] = "auto",
        smoothing: Auto | Smoothing | Sequence[Smoothing] = "auto",
        scaling: Auto | Scaling | Sequence[Scaling] = "auto",
        components: Auto | int | Sequence[int | None] | None = "auto",
        adjustment: Auto | Adjustment | Sequence[Adjustment] = "auto",
        shrinkage: Auto | bool | Sequence[bool] = "auto",
        quantile_rule: QuantileRule = "predictive",
        polish: Auto | bool = "auto",
        recalibrator: AnyRecalibrator | None = None,
        head: HeadLike = "auto",
        levels: Any = None,
        response: str = "identity",
        threads: int | None = None,
        memory: int = 2**28,
        progress: Any = False,
    ) -> None:
        self.estimator = estimator
        self.calibration = calibration
        self.calibration_size = calibration_size
        self.cv = cv
        self.random_state = random_state
        self.layer = layer
        self.k = k
        self.smoothing = smoothing
        self.scaling = scaling
        self.components = components
        self.adjustment = adjustment
        self.shrinkage = shrinkage
        self.quantile_rule = quantile_rule
        self.polish = polish
        self.recalibrator = recalibrator
        self.head = head
        self.levels = levels
        self.response = response
        self.threads = threads
        self.memory = memory
        self.progress = progress

    def fit(self, X: Any, y: Any, *, groups: Any = None, **fit_params: Any) -> Self:
        """Fit the estimator and recalibrate it.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Inputs, passed to the estimator as they are.
        y : array_like of shape (n,)
            Responses.
        groups : array_like of shape (n,), optional
            For a ``cv`` that keeps groups together, such as GroupKFold.
        **fit_params
            Passed to the ``fit`` of the estimator, such as ``sample_weight``; those with one entry a row are cut along
            with the rows. They do not weigh the calibration.
        """
        check_choice(self.calibration, CALIBRATIONS, "calibration")
        X, y = self._check_data(X, y)
        if self.calibration == "prefit":
            model, X_cal, y_cal = self._prefit(fit_params), X, y
        elif self.calibration == "split":
            model, X_cal, y_cal = self._split(X, y, fit_params)
        else:
            model, X_cal, y_cal = self._cross(X, y, groups, fit_params)
        self.calibrated_ = calibrate(
            model,
            X_cal,
            y_cal,
            layer=self.layer,
            k=self.k,
            smoothing=self.smoothing,
            scaling=self.scaling,
            components=self.components,
            adjustment=self.adjustment,
            shrinkage=self.shrinkage,
            quantile_rule=self.quantile_rule,
            polish=self.polish,
            recalibrator=self.recalibrator,
            threads=self.threads,
            memory=self.memory,
            progress=self.progress,
        )
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the mean of the recalibrated distribution of every row, shape (n,)."""
        return self.predict_dist(X).mean()

    def predict_interval(self, X: Any, coverage: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return the ends of central intervals that hold the response with probability ``coverage``, each (n,)."""
        return self.predict_dist(X).interval(coverage)

    def predict_quantiles(self, X: Any, p: Any) -> FloatArray:
        """Return quantiles: (n,) for one level p, (n, q) for q levels."""
        return self.predict_dist(X).ppf(p)

    def predict_dist(self, X: Any) -> Distribution:
        """Return the recalibrated predictive distributions."""
        check_is_fitted(self, "calibrated_")
        return self.calibrated_.predict(X)

    @property
    def n_features_in_(self) -> int:
        """Number of features, where the estimator counts them."""
        return self._fitted_estimator().n_features_in_

    @property
    def feature_names_in_(self) -> Any:
        """Names of features, where the estimator knows them."""
        return self._fitted_estimator().feature_names_in_

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags  # since scikit-learn 1.6, which alone asks for tags in this way

        tags = super().__sklearn_tags__()
        inner = get_tags(self._estimator())
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan  # where the calibration set has gaps too
        tags.regressor_tags.poor_score = inner.regressor_tags is not None and inner.regressor_tags.poor_score
        return tags

    # ---- the three ways to come by calibration data -----------------------------------------------------------------

    def _prefit(self, fit_params: Any) -> ModelAdapter:
        if fit_params:
            raise InvalidInputError(
                f'with calibration="prefit" nothing is fitted, got fit parameters {", ".join(fit_params)}'
            )
        self.estimator_ = self._estimator()
        return self._adapted(self.estimator_)

    def _split(self, X: Any, y: FloatArray, fit_params: Any) -> tuple[ModelAdapter, Any, FloatArray]:
        rows = np.arange(len(y))
        train, held_out = train_test_split(rows, test_size=self.calibration_size, random_state=self.random_state)
        model = self._fitted_to(train, X, y, fit_params)
        return model, _safe_indexing(X, held_out), y[held_out]

    def _cross(self, X: Any, y: FloatArray, groups: Any, fit_params: Any) -> tuple[ModelAdapter, Any, FloatArray]:
        shuffles = isinstance(self.cv, int) and not isinstance(self.cv, bool)
        cv = KFold(self.cv, shuffle=True, random_state=self.random_state) if shuffles else check_cv(self.cv)
        # the model of all rows is the last one fitted, and stays behind as estimator_
        model = cross_fit(lambda rows: self._fitted_to(rows, X, y, fit_params), X, y, cv.split(X, y, groups))
        return model, CalibrationRows(X), y

    def _fitted_to(self, rows: IntArray, X: Any, y: FloatArray, fit_params: Any) -> RegressorModel:
        params = {name: _cut(value, rows, len(y)) for name, value in fit_params.items()}
        self.estimator_ = clone(self._estimator()).fit(_safe_indexing(X, rows), y[rows], **params)
        return self._adapted(self.estimator_)

    def _adapted(self, fitted: Any) -> Any:
        return adapt(fitted, head=self.head, levels=self.levels, response=self.response)

    def _estimator(self) -> Any:
        return LinearRegression() if self.estimator is None else self.estimator

    def _fitted_estimator(self) -> Any:
        if not hasattr(self, "calibrated_"):
            raise AttributeError(f"{type(self).__name__} is not fitted yet: call fit first")
        return self.estimator_

    def _check_data(self, X: Any, y: Any) -> tuple[Any, FloatArray]:
        if y is None:
            raise InvalidInputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        y = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=np.float64, input_name="y")
        (X,) = indexable(X)
        check_consistent_length(X, y)
        return X, y


def _cut(value: Any, rows: IntArray, n: int) -> Any:
    """Return the entries of some rows, of a fit parameter that has one a row."""
    is_by_row = hasattr(value, "__len__") and not isinstance(value, str | dict) and len(value) == n
    return _safe_indexing(value, rows) if is_by_row else value
