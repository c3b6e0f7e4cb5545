"""nearcal: predictive distributions of regression models, made trustworthy where they are used.

Predictive distributions are frozen batches, one distribution a row; recalibrators learn from a held-out calibration
set and return recalibrated distributions.
"""

from nearcal import diagnostics, plots, scores
from nearcal._errors import (
    InvalidInputError,
    InvalidParameterError,
    MissingExtraError,
    NearcalError,
    NotFittedError,
    ThinNeighborhoodError,
)
from nearcal._table import Table
from nearcal.distributions import (
    Distribution,
    Gamma,
    Laplace,
    LogNormal,
    Mixture,
    Normal,
    Quantiles,
    Samples,
    ScipyDistribution,
    StudentT,
    from_scipy,
    from_torch,
)
from nearcal.evaluation import Evaluation, evaluate
from nearcal.recalibration import (
    ConformalDistribution,
    ConformalRecalibrator,
    GlobalRecalibrator,
    GPBetaRecalibrator,
    IsotonicRecalibrator,
    KNNRegressor,
    LocalRecalibrator,
    MappedDistribution,
    Neighbors,
    QuantileNetRecalibrator,
    Recalibrated,
    Summary,
    VarianceScaling,
    WeightedSample,
)

__version__ = "0.1.0"

__all__ = [
    "ConformalDistribution",
    "ConformalRecalibrator",
    "Distribution",
    "Evaluation",
    "GPBetaRecalibrator",
    "Gamma",
    "GlobalRecalibrator",
    "InvalidInputError",
    "InvalidParameterError",
    "IsotonicRecalibrator",
    "KNNRegressor",
    "Laplace",
    "LocalRecalibrator",
    "LogNormal",
    "MappedDistribution",
    "MissingExtraError",
    "Mixture",
    "NearcalError",
    "Neighbors",
    "Normal",
    "NotFittedError",
    "QuantileNetRecalibrator",
    "Quantiles",
    "Recalibrated",
    "Samples",
    "ScipyDistribution",
    "StudentT",
    "Summary",
    "Table",
    "ThinNeighborhoodError",
    "VarianceScaling",
    "WeightedSample",
    "diagnostics",
    "evaluate",
    "from_scipy",
    "from_torch",
    "plots",
    "scores",
]
