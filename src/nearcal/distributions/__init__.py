"""Predictive distributions: frozen batches, one distribution a row."""

from nearcal.distributions._concatenate import concatenate
from nearcal.distributions._gamma import Gamma
from nearcal.distributions._mixture import Mixture
from nearcal.distributions._parametric import Laplace, LogNormal, Normal
from nearcal.distributions._quantile_average import SCORES as AVERAGED_SCORES
from nearcal.distributions._quantile_average import QuantileAverage, average_rows, quantile_table
from nearcal.distributions._quantiles import Quantiles
from nearcal.distributions._samples import Samples
from nearcal.distributions._student_t import StudentT
from nearcal.distributions._wrap import ScipyDistribution, from_scipy, from_torch
from nearcal.distributions.base import (
    Distribution,
    Seed,
    as_level_row,
    as_levels,
    central_levels,
    check_coverage,
    interval_levels,
    require_distribution,
)

__all__ = [
    "AVERAGED_SCORES",
    "Distribution",
    "Gamma",
    "Laplace",
    "LogNormal",
    "Mixture",
    "Normal",
    "QuantileAverage",
    "Quantiles",
    "Samples",
    "ScipyDistribution",
    "Seed",
    "StudentT",
    "as_level_row",
    "as_levels",
    "average_rows",
    "central_levels",
    "check_coverage",
    "concatenate",
    "from_scipy",
    "from_torch",
    "interval_levels",
    "quantile_table",
    "require_distribution",
]
