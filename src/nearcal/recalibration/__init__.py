"""Recalibrators: fit on a calibration set, recalibrate new predictions."""

from nearcal.recalibration._global import GlobalRecalibrator
from nearcal.recalibration._local import LocalRecalibrator
from nearcal.recalibration._result import Neighbors, Recalibrated, Summary, WeightedSample

__all__ = ["GlobalRecalibrator", "LocalRecalibrator", "Neighbors", "Recalibrated", "Summary", "WeightedSample"]
