"""Plots of the tables that diagnostics and evaluate return.

Every function draws a table, or several by name, on ``ax`` and returns it; none computes statistics. They need the
extra "plots" (matplotlib), which is imported when something is drawn. Methods differ in line style or marker as
well as in colour, so that figures survive a grey printer.
"""

from nearcal.reporting.plots._calibration import local_pit_histograms, pit_ecdf, pit_histogram, reliability
from nearcal.reporting.plots._comparison import coverage_map, sharpness
from nearcal.reporting.plots._predictions import prediction_intervals, predictive_density

__all__ = [
    "coverage_map",
    "local_pit_histograms",
    "pit_ecdf",
    "pit_histogram",
    "prediction_intervals",
    "predictive_density",
    "reliability",
    "sharpness",
]
