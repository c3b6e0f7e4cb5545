"""Diagnostics of calibration, overall and locally. Each returns numbers or a table; drawing is left to plots."""

from nearcal.diagnostics._coverage_map import coverage_map
from nearcal.diagnostics._curves import density_curves, prediction_intervals
from nearcal.diagnostics._dependence import width_dependence
from nearcal.diagnostics._described_regions import described_regions
from nearcal.diagnostics._distances import cramer_von_mises, pce, pce_floor, pit_distances, wasserstein
from nearcal.diagnostics._ecdf import pit_ecdf
from nearcal.diagnostics._excess_risk import excess_risk
from nearcal.diagnostics._groups import coverage_gap, group_coverage
from nearcal.diagnostics._histogram import local_pit_histograms, pit_histogram
from nearcal.diagnostics._local import local_calibration
from nearcal.diagnostics._neighborhoods import neighborhood_calibration
from nearcal.diagnostics._pit import coverage, pit
from nearcal.diagnostics._regions import Regions, group_regions, kmeans_regions, nearest_regions
from nearcal.diagnostics._reliability import reliability
from nearcal.diagnostics._slabs import worst_slab_coverage
from nearcal.diagnostics._uniformity import uniformity_tests

__all__ = [
    "Regions",
    "coverage",
    "coverage_gap",
    "coverage_map",
    "cramer_von_mises",
    "density_curves",
    "described_regions",
    "excess_risk",
    "group_coverage",
    "group_regions",
    "kmeans_regions",
    "local_calibration",
    "local_pit_histograms",
    "nearest_regions",
    "neighborhood_calibration",
    "pce",
    "pce_floor",
    "pit",
    "pit_distances",
    "pit_ecdf",
    "pit_histogram",
    "prediction_intervals",
    "reliability",
    "uniformity_tests",
    "wasserstein",
    "width_dependence",
    "worst_slab_coverage",
]
