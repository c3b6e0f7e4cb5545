"""Where calibration points are: the scaling of a space, and the search for neighbours in it."""

from nearcal.space.calibration_space import MOST_AXES, CalibrationSpace, SpeakersIndex, View
from nearcal.space.column_sums import ColumnSums
from nearcal.space.folds import Fold, Folds, as_folds, in_order, share_of
from nearcal.space.growing import Growing, GrowingIndex, IndexPlan, grow, settle
from nearcal.space.ranges import Ranges, falling, upper_limit
from nearcal.space.row_relations import as_groups, as_units, kept_relations
from nearcal.space.row_sample import RowSample, draw_rows, has_equals
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
from nearcal.space.shard_files import ShardsInFolder, build_shards
from nearcal.space.shards import Found, Shard, ShardedIndex
from nearcal.space.shift import ShiftWeights, shift_weights
from nearcal.space.weighted import nearest_of_weight

__all__ = [
    "METRICS",
    "MOST_AXES",
    "MOST_PAIRS",
    "SCALINGS",
    "SEARCHES",
    "CalibrationSpace",
    "ColumnSums",
    "Fold",
    "Folds",
    "Found",
    "Growing",
    "GrowingIndex",
    "IndexPlan",
    "Metric",
    "NeighborIndex",
    "Neighbors",
    "Ranges",
    "RowSample",
    "Scaling",
    "ScalingName",
    "Search",
    "Shard",
    "ShardedIndex",
    "ShardsInFolder",
    "ShiftWeights",
    "SpaceMap",
    "SpeakersIndex",
    "View",
    "as_folds",
    "as_groups",
    "as_units",
    "build_index",
    "build_shards",
    "check_points",
    "count_within",
    "draw_rows",
    "falling",
    "grow",
    "has_equals",
    "in_order",
    "is_constant",
    "kept_relations",
    "nearest_of_weight",
    "principal_axes",
    "settle",
    "share_of",
    "shift_weights",
    "upper_limit",
]
