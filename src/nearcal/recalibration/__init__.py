"""Recalibrators: fit on a calibration set, recalibrate new predictions."""

from nearcal.recalibration._chunks import Workers
from nearcal.recalibration._conformal import ConformalDistribution, ConformalRecalibrator
from nearcal.recalibration._global import GlobalRecalibrator
from nearcal.recalibration._gp_beta import GPBetaRecalibrator
from nearcal.recalibration._identity import IdentityRecalibrator
from nearcal.recalibration._isotonic import IsotonicRecalibrator
from nearcal.recalibration._knn import KNNRegressor
from nearcal.recalibration._local import LocalRecalibrator
from nearcal.recalibration._mapped import MappedDistribution
from nearcal.recalibration._quantile_net import QuantileNetRecalibrator
from nearcal.recalibration._reliability import Reliability, unknown_reliability
from nearcal.recalibration._result import Neighbors, Recalibrated, Summary, WeightedSample
from nearcal.recalibration._variance_scaling import VarianceScaling

__all__ = [
    "ConformalDistribution",
    "ConformalRecalibrator",
    "GPBetaRecalibrator",
    "GlobalRecalibrator",
    "IdentityRecalibrator",
    "IsotonicRecalibrator",
    "KNNRegressor",
    "LocalRecalibrator",
    "MappedDistribution",
    "Neighbors",
    "QuantileNetRecalibrator",
    "Recalibrated",
    "Reliability",
    "Summary",
    "VarianceScaling",
    "WeightedSample",
    "Workers",
    "unknown_reliability",
]
