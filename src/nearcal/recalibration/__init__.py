"""Recalibrators: fit on a calibration set, recalibrate new predictions."""

from nearcal.recalibration._adjustment import ADJUSTMENTS as ADJUSTMENTS
from nearcal.recalibration._adjustment import LEAST_NEIGHBORS as LEAST_NEIGHBORS
from nearcal.recalibration._conformal import ConformalDistribution, ConformalRecalibrator
from nearcal.recalibration._global import GlobalRecalibrator
from nearcal.recalibration._gp_beta import GPBetaRecalibrator
from nearcal.recalibration._identity import IdentityRecalibrator
from nearcal.recalibration._isotonic import IsotonicRecalibrator
from nearcal.recalibration._knn import KNNRegressor
from nearcal.recalibration._local import LocalRecalibrator
from nearcal.recalibration._local_sample import QuantileRule as QuantileRule
from nearcal.recalibration._mapped import MappedDistribution
from nearcal.recalibration._quantile_net import QuantileNetRecalibrator
from nearcal.recalibration._reliability import Reliability
from nearcal.recalibration._reliability import unknown_reliability as unknown_reliability
from nearcal.recalibration._result import Neighbors, Recalibrated, Summary, WeightedSample
from nearcal.recalibration._settings import PAPER as PAPER
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
]
