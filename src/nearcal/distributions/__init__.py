"""Predictive distributions: frozen batches, one distribution a row."""

from nearcal.distributions._base import Distribution
from nearcal.distributions._base import interval_levels as interval_levels
from nearcal.distributions._gamma import Gamma
from nearcal.distributions._mixture import Mixture
from nearcal.distributions._parametric import Laplace, LogNormal, Normal
from nearcal.distributions._quantiles import Quantiles
from nearcal.distributions._samples import Samples
from nearcal.distributions._student_t import StudentT
from nearcal.distributions._wrap import ScipyDistribution, from_scipy, from_torch

__all__ = [
    "Distribution",
    "Gamma",
    "Laplace",
    "LogNormal",
    "Mixture",
    "Normal",
    "Quantiles",
    "Samples",
    "ScipyDistribution",
    "StudentT",
    "from_scipy",
    "from_torch",
]
