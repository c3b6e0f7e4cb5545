"""RecalibratedRegressor: a scikit-learn meta-estimator around any regressor, calibrated by cross-fitting."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self, get_args

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, KFold, check_cv, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, column_or_1d, get_tags, indexable
from sklearn.utils.validation import check_is_fitted

from nearcal._arrays import FloatArray, IntArray, as_float_array, check_choice
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._sample_weights import as_point_weights
from nearcal.distributions import Distribution
from nearcal.guarantees import PAC, Aside, Cross, Marginal, as_promise, is_names
from nearcal.guarantees.cross_conformal import check_cross
from nearcal.models.adapters import ModelAdapter, adapt
from nearcal.models.adapters.batches import join
from nearcal.models.adapters.heads import HeadLike, Response
from nearcal.models.adapters.regressors import RegressorModel
from nearcal.models.adapters.targets import Target, refuse_several_responses
from nearcal.models.calibrated_model import AnyRecalibrator, CalibratedModel
from nearcal.models.calibration import calibrate, promised
from nearcal.models.cross_estimators import cross_calibrated
from nearcal.models.promised_groups import labels_of_calibration
from nearcal.recalibration import Workers
from nearcal.space import as_folds
from nearcal.space.row_relations import as_times

Calibration = Literal["cross", "split", "prefit"]
_ALONE = "estimator"
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
        Several regressors, as a dictionary or a list of (name, regressor), are calibrated together, as in
        :func:`nearcal.calibrate`.
    calibration : {"cross", "split", "prefit"}
        Where calibration data come from. "cross": the estimator is fitted to all rows, and to ``cv`` parts of them to
        predict the rows left out; all rows serve both purposes, at the cost of ``cv`` more fits. "split": a share
        ``calibration_size`` of the rows is held out, at random, or whole groups, or the latest. "prefit": the estimator
        is fitted already, and ``fit`` takes calibration data that it has not seen.
    calibration_size : float or int
        Share or number of rows held out, for "split".
    cv : int, splitter or iterable of (train, test)
        Number of folds, or how to make them, for "cross"; each row must be left out once. A number of folds is of
        shuffled rows, or of whole groups, or of stretches of time.
    random_state : int, RandomState or None
        Shuffles the split and the folds. The estimator has its own.
    layer, recalibrator, tuning, workers, probes
        As in :func:`nearcal.calibrate`.
    guarantee : "marginal", "pac", "cross", Marginal, PAC or Cross, optional
        A promise of coverage in finite samples, as in :func:`nearcal.calibrate`. With "marginal" and "pac" rows are set
        aside: of those held out or given for calibration, or, with ``calibration="cross"``, of all, before anything
        is fitted. With "cross" everything, the estimator included, is fitted once a fold, and each new row is
        predicted by all of them: ``estimator_`` are those by fold.
    head, levels, response, output
        How predictions become distributions; see the adapter of the estimator, such as
        :class:`nearcal.models.adapters.SklearnModel`.

    Attributes
    ----------
    estimator_ : regressor, or dict of str to regressor
        The fitted estimator that predicts, or several.
    calibrated_ : CalibratedModel
        The recalibrated model: its layer and recalibrator, the reason for them, and the reliability of single
        predictions.
    n_features_in_ : int
        Number of features, where the estimator counts them.
    feature_names_in_ : ndarray of str
        Names of features, where the estimator knows them.

    Notes
    -----
    Cross-fitting offers the layers "input", "transformed" (where no step of the pipeline before the last learns from
    responses) and "output" alone. Inside a model the rows it was trained on do not lie where new rows with the same
    distribution would: their own responses pulled them there. Of outputs, those predicted out of fold are taken. To
    look for neighbours in hidden layers or leaves use "split".

    An estimator that takes gaps (NaN) is not asked to for a space: rows with gaps can be predicted if the calibration
    set has some too, or if ``layer="output"``.

    :func:`nearcal.save` keeps what is nearcal's, without the estimator: ``nc.load(path).attach(regressor.estimator_)``
    is the :class:`nearcal.CalibratedModel` whose ``predict`` is this regressor's ``predict_dist``, to the last bit. To
    keep the whole, pickle it as any estimator.

    ``clone`` forgets that an estimator was fitted; wrap it in ``sklearn.frozen.FrozenEstimator`` for "prefit" inside
    of ``GridSearchCV`` or ``cross_val_score``.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> from sklearn.linear_model import Ridge
    >>> rng = np.random.default_rng(1)
    >>> X = rng.uniform(-1, 1, size=(300, 1))
    >>> y = rng.normal(X[:, 0] ** 2, np.exp(2 * X[:, 0]))
    >>> model = nc.RecalibratedRegressor(Ridge(), random_state=0).fit(X, y)
    >>> model.predict_dist([[-0.9], [0.9]]).std().round(1)
    array([0.2, 6.6])
    >>> lower, upper = model.predict_interval([[-0.9], [0.9]], coverage=0.9)
    """

    calibrated_: CalibratedModel
    estimator_: Any

    def __init__(
        self,
        estimator: Any = None,
        *,
        calibration: Calibration = "cross",
        calibration_size: float = 0.25,
        cv: Any = 5,
        random_state: Any = None,
        layer: str | Sequence[str] = "auto",
        recalibrator: AnyRecalibrator | None = None,
        tuning: Mapping[str, Any] | None = None,
        head: HeadLike = "auto",
        levels: Any = None,
        response: Response = "identity",
        output: Target = None,
        guarantee: Any = None,
        workers: Workers | None = None,
        probes: int = 8,
    ) -> None:
        self.estimator = estimator
        self.calibration = calibration
        self.calibration_size = calibration_size
        self.cv = cv
        self.random_state = random_state
        self.layer = layer
        self.recalibrator = recalibrator
        self.tuning = tuning
        self.head = head
        self.levels = levels
        self.response = response
        self.output = output
        self.guarantee = guarantee
        self.workers = workers
        self.probes = probes

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        time: Any = None,
        gap: Any = None,
        calibration_weight: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the estimator and recalibrate it.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Inputs, passed to the estimator as they are.
        y : array_like of shape (n,)
            Responses.
        groups : array_like of shape (n,), optional
            The group of each row. Groups are kept whole where rows are held out or left out (a ``cv`` that is no number
            must see to it itself, as GroupKFold does), and while the calibration is chosen.
        time, gap
            When each row was observed, True for the order of the rows, and how long before another row it must have
            been to speak for it, as in :func:`nearcal.tune`. With "split" the latest rows are held out. With "cross"
            stretches of time are left out, and predicted by models that saw what came after: only the calibration
            learns from the past alone. Given groups too, "split" goes by time and "cross" by groups.
        calibration_weight : array_like of shape (n,), optional
            How much each row counts in the calibration: ``sample_weight`` of :func:`nearcal.calibrate`. It does not
            weigh the fit of the estimator.
        **fit_params
            Passed to the ``fit`` of the estimator, such as ``sample_weight``; those with one entry a row are cut along
            with the rows. They do not weigh the calibration: rows that shall count the same in both are given the same
            weights twice, ``fit(X, y, sample_weight=w, calibration_weight=w)``.
        """
        check_choice(self.calibration, CALIBRATIONS, "calibration")
        self._require_objects()
        X, y = self._check_data(X, y)
        weights = None if calibration_weight is None else _as_weights(calibration_weight, len(y))
        as_folds(groups, time, gap, len(y))  # what is wrong is told before the estimator is fitted
        promise = None if self.guarantee is None else as_promise(self.guarantee)
        if isinstance(promise, Cross) or (promise is not None and self.calibration == "cross"):
            known = {"groups": groups, "time": time, "gap": gap, "calibration_weight": weights}
            return self._promise(promise, X, y, known, fit_params)
        rows = np.arange(len(y))
        if self.calibration == "prefit":
            model, X_cal = self._prefit(fit_params), X
        elif self.calibration == "split":
            model, rows = self._split(X, y, groups, time, fit_params)
            X_cal = _safe_indexing(X, rows)
        else:
            model, X_cal = self._cross(X, y, groups, time, fit_params)
        self.calibrated_ = calibrate(
            model,
            X_cal,
            y[rows],
            layer=self.layer,
            recalibrator=self.recalibrator,
            tuning=self.tuning,
            groups=_cut(groups, rows, len(y)),
            time=_cut(time, rows, len(y)),
            gap=gap,
            sample_weight=None if weights is None else weights[rows],
            guarantee=None if promise is None else _cut_groups(promise, rows, len(y)),
            workers=self.workers,
            probes=self.probes,
        )
        return self

    # ---- promises that the fit itself must know of ------------------------------------------------------------------

    def _promise(
        self, promise: Marginal | PAC | Cross, X: Any, y: FloatArray, known: dict[str, Any], fit_params: Any
    ) -> Self:
        """Fit without the rows that the promise is made by: those set aside, or those of one fold after another."""

        def fitted(rows: IntArray) -> "RecalibratedRegressor":
            own = {name: _cut(value, rows, len(y)) for name, value in {**known, **fit_params}.items()}
            return clone(self).set_params(guarantee=None).fit(_safe_indexing(X, rows), y[rows], **own)

        if isinstance(promise, Cross):
            check_cross(known["groups"], known["time"], known["calibration_weight"])
            self.calibrated_, self.estimator_ = cross_calibrated(promise, X, y, fitted)
            return self
        labels = labels_of_calibration(promise, X)
        relations = {"groups": known["groups"], "time": known["time"], "sample_weight": known["calibration_weight"]}
        aside = Aside.of(promise, len(y), **relations, labels=labels)
        inside = fitted(aside.rest)
        X_held = _safe_indexing(X, aside.held)
        self.calibrated_ = promised(inside.calibrated_, X_held, y[aside.held], promise, aside)
        self.estimator_ = inside.estimator_
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the mean of the recalibrated distribution of every row, shape (n,)."""
        return self.predict_dist(X).mean()

    def predict_interval(self, X: Any, coverage: float = 0.95, *, groups: Any = None) -> tuple[FloatArray, FloatArray]:
        """Return the ends of central intervals that hold the response with probability ``coverage``, each (n,).

        ``groups`` are those that a promise is made to, as in :meth:`nearcal.CalibratedModel.predict`.
        """
        return self.predict_dist(X, groups=groups).interval(coverage)

    def predict_quantiles(self, X: Any, p: Any) -> FloatArray:
        """Return quantiles: (n,) for one level p, (n, q) for q levels."""
        return self.predict_dist(X).ppf(p)

    def predict_dist(self, X: Any, *, groups: Any = None) -> Distribution:
        """Return the recalibrated predictive distributions; ``groups`` are those that a promise is made to."""
        check_is_fitted(self, "calibrated_")
        return self.calibrated_.predict(X, groups=groups)

    def _to_artefact(self) -> Any:
        # what was learnt from the errors of the estimator, which is pickled on its own
        check_is_fitted(self, "calibrated_")
        return self.calibrated_.recalibration

    @property
    def n_features_in_(self) -> int:
        """Number of features, where the estimator counts them."""
        return self._fitted_estimator().n_features_in_

    @property
    def feature_names_in_(self) -> Any:
        """Names of features, where the estimator knows them."""
        return self._fitted_estimator().feature_names_in_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = [get_tags(estimator) for estimator in self._estimators().values()]
        tags.input_tags.sparse = all(one.input_tags.sparse for one in inner)
        tags.input_tags.allow_nan = all(
            one.input_tags.allow_nan for one in inner
        )  # if the calibration set has gaps too
        tags.regressor_tags.poor_score = any(
            one.regressor_tags is not None and one.regressor_tags.poor_score for one in inner
        )
        return tags

    # ---- the three ways to come by calibration data -----------------------------------------------------------------

    def _prefit(self, fit_params: Any) -> ModelAdapter:
        if fit_params:
            raise InvalidInputError(
                f'with calibration="prefit" nothing is fitted, got fit parameters {", ".join(fit_params)}'
            )
        return self._whole(self._estimators())

    def _split(self, X: Any, y: FloatArray, groups: Any, time: Any, fit_params: Any) -> tuple[ModelAdapter, IntArray]:
        """Return the model of some rows, and the others in the order given: neighbours in it may be alike."""
        rows = np.arange(len(y))
        if groups is not None and not _is_given(time):
            splitter = GroupShuffleSplit(1, test_size=self.calibration_size, random_state=self.random_state)
            train, held_out = next(splitter.split(rows, groups=groups))
        else:
            train, held_out = train_test_split(rows, test_size=self.calibration_size, random_state=self.random_state)
        if _is_given(time):
            train, held_out = np.split(np.argsort(as_times(time, len(y)), kind="stable"), [len(train)])
        train = np.sort(train) if _is_given(time) else train
        fitted = {name: self._fit_one(name, train, X, y, fit_params) for name in self._estimators()}
        return self._whole(fitted), np.sort(held_out)

    def _cross(
        self, X: Any, y: FloatArray, groups: Any, time: Any, fit_params: Any
    ) -> tuple[ModelAdapter, "CalibrationRows"]:
        folds = list(self._folds(X, y, groups, time))
        fitted: dict[str, Any] = {}

        def fit(name: str, rows: IntArray) -> Any:
            fitted[name] = self._fit_one(name, rows, X, y, fit_params)  # that of all rows is the last
            return self._adapted(fitted[name])

        models = {name: cross_fit(partial(fit, name), X, y, folds) for name in self._estimators()}
        return self._whole(fitted, models), CalibrationRows(X)

    def _folds(self, X: Any, y: FloatArray, groups: Any, time: Any) -> Iterable[tuple[IntArray, IntArray]]:
        if not isinstance(self.cv, int) or isinstance(self.cv, bool):
            return check_cv(self.cv).split(X, y, groups)
        if self.cv > len(y):
            raise InvalidParameterError(
                f"cv must be at most the number of rows, n_samples={len(y)}, got {self.cv}; take fewer folds"
            )
        if groups is not None:
            return GroupKFold(self.cv).split(X, y, groups)
        if _is_given(time):
            order = np.argsort(as_times(time, len(y)), kind="stable")
            return [(np.sort(order[train]), np.sort(order[test])) for train, test in KFold(self.cv).split(order)]
        return KFold(self.cv, shuffle=True, random_state=self.random_state).split(X, y)

    def _fit_one(self, name: str, rows: IntArray, X: Any, y: FloatArray, fit_params: Any) -> Any:
        params = {key: _cut(value, rows, len(y)) for key, value in fit_params.items()}
        return clone(self._estimators()[name]).fit(_safe_indexing(X, rows), y[rows], **params)

    def _whole(self, fitted: Mapping[str, Any], adapted: Mapping[str, ModelAdapter] | None = None) -> ModelAdapter:
        """Keep what was fitted, and return it as nearcal sees it: the one model, or several together."""
        models = {name: self._adapted(model) for name, model in fitted.items()} if adapted is None else adapted
        if self._is_several():
            self.estimator_ = dict(fitted)
            return adapt(models)
        self.estimator_ = fitted[_ALONE]
        return models[_ALONE]

    def _adapted(self, fitted: Any) -> Any:
        return adapt(fitted, head=self.head, levels=self.levels, response=self.response, output=self.output)

    def _is_several(self) -> bool:
        given = self.estimator
        return isinstance(given, dict | list) and all(isinstance(name, str) for name in _names(given))

    def _estimators(self) -> Mapping[str, Any]:
        """Return the regressors by name; of one alone the name means nothing."""
        if self._is_several():
            return dict(self.estimator)
        return {_ALONE: LinearRegression() if self.estimator is None else self.estimator}

    def _require_objects(self) -> None:
        for estimator in self._estimators().values():
            if isinstance(estimator, type):
                name = estimator.__name__
                raise InvalidParameterError(f"estimator must be an object, got the class {name}; give {name}()")

    def _fitted_estimator(self) -> Any:
        if not hasattr(self, "calibrated_"):
            raise AttributeError(f"{type(self).__name__} is not fitted yet: call fit first")
        fitted = self.estimator_
        while isinstance(fitted, dict):  # of several, of every fold, or of several of every fold
            fitted = next(iter(fitted.values()))
        return fitted

    def _check_data(self, X: Any, y: Any) -> tuple[Any, FloatArray]:
        if y is None:
            raise InvalidInputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        refuse_several_responses(y, "y")
        y = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=np.float64, input_name="y")
        (X,) = indexable(X)
        check_consistent_length(X, y)
        return X, y


def _as_weights(calibration_weight: Any, n: int) -> FloatArray:
    """Return weights of all rows, checked before the estimator is fitted."""
    weights = as_float_array(calibration_weight, "calibration_weight").reshape(-1)
    try:
        as_point_weights(weights, n)
    except InvalidInputError as error:
        raise InvalidInputError(str(error).replace("sample_weight", "calibration_weight", 1)) from None
    return weights


def _names(estimators: Any) -> list[Any]:
    """Return the names of several estimators: the keys of a dictionary, or the first of every pair of a list."""
    pairs = estimators.items() if isinstance(estimators, dict) else estimators
    return [pair[0] if isinstance(pair, tuple) and len(pair) == 2 else None for pair in pairs]


def _is_given(time: Any) -> bool:
    return time is not None and time is not False


def _cut_groups(promise: Any, rows: IntArray, n: int) -> Any:
    """Return a promise whose labels, where it has such, are those of some rows."""
    groups = promise.groups
    if groups is None or callable(groups) or is_names(groups):
        return promise
    if isinstance(groups, Mapping):
        return replace(promise, groups={name: _cut(flags, rows, n) for name, flags in groups.items()})
    return replace(promise, groups=_cut(groups, rows, n))


def _cut(value: Any, rows: IntArray, n: int) -> Any:
    """Return the entries of some rows, of a fit parameter that has one a row."""
    is_by_row = hasattr(value, "__len__") and not isinstance(value, str | dict) and len(value) == n
    return _safe_indexing(value, rows) if is_by_row else value


# ---- cross-fitting: every row is predicted by a model that has not seen it ------------------------------------------

# Positions of training rows inside a model betray their responses, which pulled them there; new rows have no such
# positions. In the output space of a forest that doubled the CRPS on grades of wine. Only what knows no responses, and
# what was predicted out of fold, can be compared: see ``CrossFittedModel.layers``.


@dataclass(frozen=True)
class CalibrationRows:
    """The inputs a model was cross-fitted to, marked: they are to be predicted out of fold."""

    X: Any


class CrossFittedModel(ModelAdapter):
    """Predicts the rows it was cross-fitted to out of fold, and all others by a model fitted to all rows."""

    def __init__(self, model: RegressorModel, output: Any, positions: FloatArray) -> None:
        self._model = model
        self._output = output
        self._positions = positions

    def __repr__(self) -> str:
        return f"{self._model!r}, cross-fitted"

    def layers(self) -> tuple[str, ...]:
        """Return the spaces in which new rows can be compared with rows of the training set."""
        known = () if _transforms_by_responses(self._model.model) else ("transformed",)
        return tuple(layer for layer in self._model.layers() if layer in {"input", *known, "output"})

    def learnt(self) -> dict[str, Any]:
        """Return what the model of all rows has learnt from those predicted out of fold."""
        return self._model.learnt()

    def identity(self) -> tuple[str, tuple[str, ...]]:
        """Return the class and the layers of the model that predicts new rows."""
        return self._model.identity()

    def plain_inputs(self, X_cal: Any) -> Any:
        """Return the inputs without their mark."""
        return X_cal.X if isinstance(X_cal, CalibrationRows) else X_cal

    def distribution(self, X: Any) -> Distribution:
        """Return the predictive distributions of n inputs."""
        if isinstance(X, CalibrationRows):
            return self._model.distribution_of(self._output)
        return self._model.distribution(X)

    def represent(self, X: Any, layer: str) -> FloatArray:
        """Return where n inputs lie in the space of a layer, shape (n, d)."""
        self._require_layer(layer)
        if not isinstance(X, CalibrationRows):
            return self._model.represent(X, layer)
        return self._positions if layer == "output" else self._model.represent(X.X, layer)


def cross_fit(
    fit: Callable[[IntArray], RegressorModel], X: Any, y: FloatArray, folds: Iterable[tuple[IntArray, IntArray]]
) -> CrossFittedModel:
    """Fit one model to all rows, and one a fold to predict the rows left out of it.

    Parameters
    ----------
    fit : callable
        Returns the model fitted to some rows, given by their numbers.
    X, y
        All rows.
    folds : iterable of (train, test)
        Row numbers; every row is in one ``test``.
    """
    folds = list(folds)
    order = np.concatenate([test for _, test in folds])
    if not np.array_equal(np.sort(order), np.arange(len(y))):
        raise InvalidInputError(
            f"cv must leave out each of the {len(y)} rows exactly once, got {len(order)} rows left out, "
            f"{len(np.unique(order))} of them different; use KFold or GroupKFold"
        )
    outputs, positions = [], []
    for train, test in folds:
        model, left_out = fit(train), _safe_indexing(X, test)
        outputs.append(model.output(left_out))
        positions.append(model.represent(left_out, "output"))
    back = np.argsort(order)
    output = join(outputs)[back]
    model = fit(np.arange(len(y))).prepared_by(output, X, y)
    return CrossFittedModel(model, output, np.concatenate(positions)[back])


def _transforms_by_responses(model: Any) -> bool:
    """Tell whether a step of a pipeline before its last learns from responses, such as an encoder of their means."""
    if isinstance(model, Pipeline):
        steps = [step for _, step in model.steps]
        return any(_learns_from_responses(step) for step in steps[:-1]) or _transforms_by_responses(steps[-1])
    inner = (getattr(model, name, None) for name in ("best_estimator_", "regressor_", "estimator"))
    return any(_transforms_by_responses(part) for part in inner if part is not None)


def _learns_from_responses(step: Any) -> bool:
    if not hasattr(step, "get_params"):  # "passthrough", or no estimator of scikit-learn's
        return False
    parts = [step, *step.get_params(deep=True).values()]
    return any(get_tags(part).target_tags.required for part in parts if isinstance(part, BaseEstimator))
