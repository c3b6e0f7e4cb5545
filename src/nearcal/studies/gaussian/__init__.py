"""Section 4.1: a straight line with one standard deviation, on data that are curved and heteroscedastic."""

from nearcal.studies.gaussian._study import Gaussian

__all__ = ["Gaussian"]
