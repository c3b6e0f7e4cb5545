"""Where calibration points are: the scaling of a space, and the search for neighbours in it."""

from nearcal.space.calibration_space import CalibrationSpace, View
from nearcal.space.growing import Growing, GrowingIndex, IndexPlan, grow, settle
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

__all__ = [
    "METRICS",
    "MOST_PAIRS",
    "SCALINGS",
    "SEARCHES",
    "CalibrationSpace",
    "Growing",
    "GrowingIndex",
    "IndexPlan",
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
    "count_within",
    "grow",
    "is_constant",
    "principal_axes",
    "settle",
]
