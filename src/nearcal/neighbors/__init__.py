"""Neighbour search behind one small protocol, chosen by the size and dimension of the space."""

from nearcal.neighbors._build import SEARCHES, Search, build_index, import_searches
from nearcal.neighbors._protocol import METRICS, Metric, NeighborIndex, NeighborLists, check_points

__all__ = [
    "METRICS",
    "SEARCHES",
    "Metric",
    "NeighborIndex",
    "NeighborLists",
    "Search",
    "build_index",
    "check_points",
    "import_searches",
]
