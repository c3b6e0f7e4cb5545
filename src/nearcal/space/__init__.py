"""Where calibration points are: the scaling of a space, and the search for neighbours in it."""

from nearcal.space.calibration_space import CalibrationSpace, View
from nearcal.space.scaling import SCALINGS, Scaling, ScalingName, SpaceMap, is_constant, principal_axes
from nearcal.space.search import METRICS, SEARCHES, Metric, NeighborIndex, Neighbors, Search, build_index, check_points

__all__ = [
    "METRICS",
    "SCALINGS",
    "SEARCHES",
    "CalibrationSpace",
    "Metric",
    "NeighborIndex",
    "Neighbors",
    "Scaling",
    "ScalingName",
    "Search",
    "SpaceMap",
    "View",
    "build_index",
    "check_points",
    "is_constant",
    "principal_axes",
]
