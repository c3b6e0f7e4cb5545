"""Recalibrators: fit on a calibration set, recalibrate new predictions.

One equation stands behind all of them. The normal score z_i = Φ⁻¹(F_i(y_i)) says where the observation of calibration
row i fell; a recalibrator learns, for every new row j, a distribution of scores Z_j; the recalibrated prediction is the
base distribution read at those scores, Y_j = F_j⁻¹(Φ(Z_j)).
"""

from nearcal.recalibration._gp_beta import GPBetaRecalibrator
from nearcal.recalibration._knn import KNNRegressor
from nearcal.recalibration._quantile_net import QuantileNetRecalibrator
from nearcal.recalibration.averaged import AveragedRecalibrator
from nearcal.recalibration.base import Recalibrator, calibration_scores
from nearcal.recalibration.caution import Caution
from nearcal.recalibration.combined import OF_NEIGHBORHOODS, CombinedRecalibrator
from nearcal.recalibration.conformal import ConformalDistribution, ConformalRecalibrator
from nearcal.recalibration.corrections import Correction
from nearcal.recalibration.fade import FADES_TO, Fade, are_far_too_many, ranges_of, warn_of_faded
from nearcal.recalibration.for_all_rows import (
    GlobalRecalibrator,
    IdentityRecalibrator,
    IsotonicRecalibrator,
    VarianceScaling,
)
from nearcal.recalibration.local import LocalRecalibrator
from nearcal.recalibration.local_linear import LEAST_NEIGHBORS, LocalLinear
from nearcal.recalibration.neighborhoods import SMOOTHINGS, THINS, Radius, Smoothing
from nearcal.recalibration.polish import Polish
from nearcal.recalibration.progress import Progress
from nearcal.recalibration.reliability import Reliability
from nearcal.recalibration.result import Neighbors, Recalibrated, Summary, WeightedSample
from nearcal.recalibration.score_laws import CONTINUOUS_RULES, QUANTILE_RULES, QuantileRule
from nearcal.recalibration.sharded import LEAST_SAMPLE, ShardedRecalibrator
from nearcal.recalibration.shrinkage import Shrinkage
from nearcal.recalibration.trend import Trend
from nearcal.recalibration.workers import Workers

__all__ = [
    "CONTINUOUS_RULES",
    "FADES_TO",
    "LEAST_NEIGHBORS",
    "LEAST_SAMPLE",
    "OF_NEIGHBORHOODS",
    "QUANTILE_RULES",
    "SMOOTHINGS",
    "THINS",
    "AveragedRecalibrator",
    "Caution",
    "CombinedRecalibrator",
    "ConformalDistribution",
    "ConformalRecalibrator",
    "Correction",
    "Fade",
    "GPBetaRecalibrator",
    "GlobalRecalibrator",
    "IdentityRecalibrator",
    "IsotonicRecalibrator",
    "KNNRegressor",
    "LocalLinear",
    "LocalRecalibrator",
    "Neighbors",
    "Polish",
    "Progress",
    "QuantileNetRecalibrator",
    "QuantileRule",
    "Radius",
    "Recalibrated",
    "Recalibrator",
    "Reliability",
    "ShardedRecalibrator",
    "Shrinkage",
    "Smoothing",
    "Summary",
    "Trend",
    "VarianceScaling",
    "WeightedSample",
    "Workers",
    "are_far_too_many",
    "calibration_scores",
    "ranges_of",
    "warn_of_faded",
]
