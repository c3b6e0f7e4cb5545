"""Trained models in, recalibrated predictive distributions out: adapters, ``calibrate``, a scikit-learn estimator."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nearcal._optional import import_extra
from nearcal.models import adapters
from nearcal.models.adapters import ModelAdapter, adapt
from nearcal.models.calibrated_model import AnyRecalibrator, CalibratedModel, Recalibration, layer_parts
from nearcal.models.calibration import calibrate

if TYPE_CHECKING:
    from nearcal.models.estimator import RecalibratedRegressor

__all__ = [
    "AnyRecalibrator",
    "CalibratedModel",
    "ModelAdapter",
    "RecalibratedRegressor",
    "Recalibration",
    "adapt",
    "adapters",
    "calibrate",
    "layer_parts",
]


def __getattr__(name: str) -> Any:
    if name != "RecalibratedRegressor":
        raise AttributeError(f"module 'nearcal.models' has no attribute {name!r}")
    import_extra("sklearn", "sklearn", "nearcal.RecalibratedRegressor")
    return import_module("nearcal.models.estimator").RecalibratedRegressor
