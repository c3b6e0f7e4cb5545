"""Plots of the tables that diagnostics and evaluate return.

Every function draws a table, or several by name, on ``ax`` and returns it; none computes statistics. They need the
extra "plots" (matplotlib), which is imported when something is drawn. Methods differ in line style or marker as
well as in colour, so that figures survive a grey printer.
"""

from nearcal.plots._density import predictive_density
from nearcal.plots._histogram import local_pit_histograms, pit_histogram
from nearcal.plots._intervals import prediction_intervals
from nearcal.plots._levels import pit_ecdf, reliability
from nearcal.plots._map import coverage_map
from nearcal.plots._sharpness import sharpness

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
