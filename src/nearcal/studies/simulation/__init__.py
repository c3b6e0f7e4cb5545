"""Section 4.3: a small and a big network on data of a thousand to a million rows, recalibrated in every way."""

from nearcal.studies.simulation._data import correlated_inputs
from nearcal.studies.simulation._study import Simulation

__all__ = ["Simulation", "correlated_inputs"]
