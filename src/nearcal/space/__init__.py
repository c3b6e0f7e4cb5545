"""Where calibration points are: the scaling of a space, and the search for neighbours in it."""

from nearcal.space.calibration_space import CalibrationSpace, SpeakersIndex, View
from nearcal.space.folds import Folds, as_folds, in_order
from nearcal.space.ranges import Ranges, falling, upper_limit
from nearcal.space.row_relations import as_units
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
    "Folds",
    "Metric",
    "NeighborIndex",
    "Neighbors",
    "Ranges",
    "Scaling",
    "ScalingName",
    "Search",
    "SpaceMap",
    "SpeakersIndex",
    "View",
    "as_folds",
    "as_units",
    "build_index",
    "check_points",
    "count_within",
    "falling",
    "in_order",
    "is_constant",
    "principal_axes",
    "upper_limit",
]
