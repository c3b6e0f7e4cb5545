"""nearcal: predictive distributions of regression models, made trustworthy where they are used.

Predictive distributions are frozen batches, one distribution a row; recalibrators learn from a held-out calibration
set and return recalibrated distributions.
"""

from importlib.metadata import version as _version

from nearcal._errors import (
    InvalidInputError,
    InvalidParameterError,
    MissingExtraError,
    NearcalError,
    NotFittedError,
    ThinNeighborhoodError,
)
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

__version__ = _version("nearcal")

__all__ = [
    "ConformalDistribution",
    "ConformalRecalibrator",
    "Distribution",
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
    "ThinNeighborhoodError",
    "VarianceScaling",
    "WeightedSample",
    "from_scipy",
    "from_torch",
]
