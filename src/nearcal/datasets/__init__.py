"""Data to try things on: ``load_diamonds``, the real example of the paper."""

from nearcal.datasets._diamonds import load_diamonds
from nearcal.datasets._tabular import TabularData

__all__ = ["TabularData", "load_diamonds"]
