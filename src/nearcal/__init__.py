"""nearcal: predictive distributions of regression models, made trustworthy where they are used.

Predictive distributions are frozen batches, one distribution a row; recalibrators learn from a held-out calibration
set and return recalibrated distributions.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nearcal._errors import (
    ArtefactError,
    InvalidInputError,
    InvalidParameterError,
    MissingExtraError,
    NearcalError,
    NotFittedError,
    ThinNeighborhoodError,
)
from nearcal._table import Table
from nearcal._version import __version__ as __version__
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
    IdentityRecalibrator,
    IsotonicRecalibrator,
    KNNRegressor,
    LocalRecalibrator,
    MappedDistribution,
    Neighbors,
    QuantileNetRecalibrator,
    Recalibrated,
    Reliability,
    Summary,
    VarianceScaling,
    WeightedSample,
)

if TYPE_CHECKING:
    from nearcal import adapters, datasets, diagnostics, scores
    from nearcal.adapters import adapt
    from nearcal.calibrated import CalibratedModel, Recalibration, calibrate
    from nearcal.estimator import RecalibratedRegressor
    from nearcal.persistence import load, save
    from nearcal.reporting import Evaluation, Report, evaluate, plots, report
    from nearcal.tuning import Candidate, Tuning, tune

__all__ = [
    "ArtefactError",
    "CalibratedModel",
    "Candidate",
    "ConformalDistribution",
    "ConformalRecalibrator",
    "Distribution",
    "Evaluation",
    "GPBetaRecalibrator",
    "Gamma",
    "GlobalRecalibrator",
    "IdentityRecalibrator",
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
    "RecalibratedRegressor",
    "Recalibration",
    "Reliability",
    "Report",
    "Samples",
    "ScipyDistribution",
    "StudentT",
    "Summary",
    "Table",
    "ThinNeighborhoodError",
    "Tuning",
    "VarianceScaling",
    "WeightedSample",
    "adapt",
    "adapters",
    "calibrate",
    "datasets",
    "diagnostics",
    "evaluate",
    "from_scipy",
    "from_torch",
    "load",
    "plots",
    "report",
    "save",
    "scores",
    "tune",
]

# loaded when first asked for: predicting needs none of them, and they would make up a tenth of the import
_LAZY = {
    "CalibratedModel": "nearcal.calibrated",
    "Candidate": "nearcal.tuning",
    "Evaluation": "nearcal.reporting",
    "RecalibratedRegressor": "nearcal.estimator",
    "Recalibration": "nearcal.calibrated",
    "Report": "nearcal.reporting",
    "Tuning": "nearcal.tuning",
    "adapt": "nearcal.adapters",
    "adapters": "nearcal",
    "calibrate": "nearcal.calibrated",
    "datasets": "nearcal",
    "diagnostics": "nearcal",
    "evaluate": "nearcal.reporting",
    "load": "nearcal.persistence",
    "plots": "nearcal.reporting",
    "report": "nearcal.reporting",
    "save": "nearcal.persistence",
    "scores": "nearcal",
    "tune": "nearcal.tuning",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'nearcal' has no attribute {name!r}")
    home = _LAZY[name]
    value = import_module(f"nearcal.{name}") if home == "nearcal" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
