"""Estimators fitted without one fold after another, calibrated, and made one model with the promise of CV+."""

from collections.abc import Callable
from typing import Any

from sklearn.utils import _safe_indexing

from nearcal._arrays import FloatArray, IntArray
from nearcal.guarantees import Cross, CrossRecalibrator
from nearcal.guarantees.cross_conformal import Fold, learn_folds, score_fold
from nearcal.models.adapters.several import SeveralModels
from nearcal.models.calibrated_model import CalibratedModel, column_names, join_names, layer_parts, run_layer


def cross_calibrated(
    promise: Cross, X: Any, y: FloatArray, fitted: Callable[[IntArray], Any]
) -> tuple[CalibratedModel, dict[str, Any]]:
    """Return the calibrated model of all folds, and the estimators by the name of their fold.

    ``fitted`` returns a :class:`nearcal.RecalibratedRegressor` of some rows. Its model and what it learnt of it are
    those of one fold; predictions of all folds are a quantile average, one component each.
    """
    models: dict[str, Any] = {}
    estimators: dict[str, Any] = {}
    widths: dict[str, int] = {}
    reasons: list[str] = []

    def learn(rest: IntArray, part: IntArray) -> Fold:
        inside = fitted(rest)
        own: CalibratedModel = inside.calibrated_
        name = f"fold {len(models) + 1}"
        models[name], estimators[name] = own.model, inside.estimator_
        reasons.append(own.reason)
        dist, space = run_layer(own.model, _safe_indexing(X, part), own.layer)
        scores = score_fold(own.recalibrator, dist, y[part], space)
        if own.layer is None or space is None:
            return Fold(own.recalibrator, (), scores)
        parts = layer_parts(own.model, own.layer)
        ours = [layer if layer == "input" else f"{name}.{layer}" for layer in parts]
        new = own.model.run(_safe_indexing(X, part[:1]), parts)[1]
        widths.update({our: new[layer].shape[1] for our, layer in zip(ours, parts, strict=True)})
        return Fold(own.recalibrator, tuple(ours), scores)

    folds = learn_folds(promise, len(y), learn)
    recalibrator, used = CrossRecalibrator(None, promise).fit_folds(folds, widths, own_bases=True)
    reason = f"Fitted without each of {len(folds)} folds; without the first: {reasons[0]}"
    calibrated = CalibratedModel(
        SeveralModels(models), recalibrator, join_names(used), reason, None, column_names(X), None
    )
    return calibrated, estimators
