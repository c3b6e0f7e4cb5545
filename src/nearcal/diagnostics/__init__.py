"""Diagnostics of calibration, overall and locally. Each returns numbers or a table; drawing is left to plots."""

from nearcal.diagnostics._conditional_coverage import width_dependence, worst_slab_coverage
from nearcal.diagnostics._curves import density_curves, prediction_intervals
from nearcal.diagnostics._excess_risk import excess_risk
from nearcal.diagnostics._pit_tables import local_pit_histograms, pit_ecdf, pit_histogram, reliability
from nearcal.diagnostics.groups import coverage_gap, coverage_map, group_coverage
from nearcal.diagnostics.local import local_calibration, neighborhood_calibration
from nearcal.diagnostics.pit_values import coverage, cramer_von_mises, pce, pce_floor, pit, pit_distances, wasserstein
from nearcal.diagnostics.region_tree import described_regions
from nearcal.diagnostics.regions import Regions, group_regions, kmeans_regions, nearest_regions
from nearcal.diagnostics.uniformity import uniformity_tests

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
