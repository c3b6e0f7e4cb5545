"""Where calibration points are: the scaling of a space, and the search for neighbours in it."""

from nearcal.space.calibration_space import CalibrationSpace, View
from nearcal.space.scaling import SCALINGS, Scaling, ScalingName, SpaceMap, is_constant, principal_axes
from nearcal.space.search import (
    METRICS,
    MOST_PAIRS,
    SEARCHES,
    Metric,
    NeighborIndex,
    Neighbors,
    Search,
    build_index,
    check_points,
    count_within,
)
from nearcal.space.shift import ShiftWeights, shift_weights
from nearcal.space.weighted import nearest_of_weight

__all__ = [
    "METRICS",
    "MOST_PAIRS",
    "SCALINGS",
    "SEARCHES",
    "CalibrationSpace",
    "Metric",
    "NeighborIndex",
    "Neighbors",
    "Scaling",
    "ScalingName",
    "Search",
    "ShiftWeights",
    "SpaceMap",
    "View",
    "build_index",
    "check_points",
    "count_within",
    "is_constant",
    "nearest_of_weight",
    "principal_axes",
    "shift_weights",
]
