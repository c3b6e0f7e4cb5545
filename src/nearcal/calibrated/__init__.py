"""Calibrated models: a trained model in, recalibrated predictive distributions out."""

from nearcal.calibrated._calibrate import calibrate
from nearcal.calibrated._layers import layer_parts as layer_parts
from nearcal.calibrated._model import CalibratedModel, Recalibration

__all__ = ["CalibratedModel", "Recalibration", "calibrate"]
