"""The registry of classes, and the checks they declare."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import nearcal as nc
from nearcal import _saved
from nearcal.persistence._encoding import import_savable


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    import_savable()  # what is imported while the copy stands would be forgotten with it, and never imported again
    monkeypatch.setattr(_saved, "_CLASSES", dict(_saved._CLASSES))


class Point(NamedTuple):
    x: float
    y: float


def test_what_a_class_holds_comes_back():
    _saved.savable(x=_saved.number(), y=_saved.number())(Point)
    assert _saved.is_savable(Point(1.0, 2.0))
    assert not _saved.is_savable((1.0, 2.0))
    assert _saved.from_saved("Point", _saved.to_saved(Point(1.0, 2.0))) == Point(1.0, 2.0)
    with pytest.raises(nc.InvalidInputError, match="'z' is no field; there are x, y"):
        _saved.from_saved("Point", {"x": 1.0, "y": 2.0, "z": 3.0})
    with pytest.raises(nc.InvalidInputError, match="'y' is missing"):
        _saved.from_saved("Point", {"x": 1.0})
    with pytest.raises(nc.InvalidInputError, match="y must be a finite number of at least -inf, got 'a'"):
        _saved.from_saved("Point", {"x": 1.0, "y": "a"})


def test_two_classes_of_one_name_are_refused():
    @dataclass
    class Shrinkage:
        mean: float

    import_savable()
    with pytest.raises(TypeError, match="two classes named Shrinkage cannot be told apart"):
        _saved.savable(mean=_saved.number())(Shrinkage)


def test_nothing_is_taken_over_unchecked():
    for checks in ({}, {"x": _saved.number()}, {"x": _saved.number(), "z": _saved.number()}):
        with pytest.raises(TypeError, match=r"Point must have _from_saved, or a check for each of its fields"):
            _saved.savable(**checks)(Point)
    with pytest.raises(TypeError, match="Plain must have _from_saved"):
        _saved.savable(type("Plain", (), {}))


def test_every_class_is_known_once_all_is_imported():
    import_savable()
    names = """
        Alarm Anchors AveragedRecalibrator BlockedBrute Box BumpSettings Bumps CalibratedModel CalibrationMonitor
        CalibrationScores Candidate Caution ColumnsModel Combination CombinedRecalibrator CompilationLoss
        CompiledRecalibrator
        ConformalRecalibrator Cross CrossRecalibrator Curve EqualSteps Fade FaissIndex Features Fingerprint
        GlobalRecalibrator Guarantee GuaranteedRecalibrator HeldRows IdentityRecalibrator
        IsotonicRecalibrator KDTreeIndex KNNRegressor KNearest KeptArray KeptColumn KeptFrame KeptParts
        LeafBoxes LearntCaution LearntFade LearntLinear LearntPolish LearntShrinkage LearntTrend
        LevelTracker LocalLinear LocalRecalibrator Look Marginal Network OnlineRecalibrator OwnIsolation PAC
        PointHead PointWeights Polish QuantileNetRecalibrator QuantileNetwork Radius Ranges Recalibration
        Scaling ShardedRecalibrator ShardsInFolder Shrinkage SmoothFunction SortedLine SpaceMap Standardiser Student
        Surroundings Table Trend Tuning VarianceScaling WaitingRoom WeightedSteps WithinRadius Workers
    """
    expected = names.split()
    assert (
        sorted(name for name, cls in _saved.savable_classes().items() if cls.__module__.startswith("nearcal."))
        == expected
    )


F64 = np.float64
CHECKS = [
    (_saved.text, ["a", ""], [None, 3, b"a"]),
    (_saved.flag, [True, False], [0, 1, None]),
    (_saved.count(2, 5), [2, 5], [1, 6, True, 2.0, None]),
    (_saved.number(0.0), [0.0, 3], [-1.0, np.inf, np.nan, True, "1"]),
    (_saved.number(finite=False), [-np.inf, 0.0], [np.nan, None]),
    (_saved.one_of("a", 1), ["a", 1], ["b", True, 1.0, None]),
    (_saved.instance(nc.Table), [nc.Table({"a": [1]})], [None, {}]),
    (_saved.having("shape"), [np.ones(2)], [3]),
    (_saved.optional(_saved.text), [None, "a"], [3]),
    (_saved.tuple_of(_saved.text), [(), ("a",)], [["a"], ("a", 3), "a"]),
    (_saved.mapping_of(_saved.text), [{}, {"a": "b"}], [{"a": 3}, [("a", "b")]]),
    (_saved.float_array(1, 2), [np.ones(3), np.ones((2, 3))], [np.ones(0), np.ones((1, 1, 1)), np.array(1.0), [1.0]]),
    (_saved.float_array(1), [np.ones(1)], [np.ones(3, int), np.ones(3, np.float32), np.array([1, np.nan]), None]),
    (_saved.array(F64, (2, None)), [np.ones((2, 1))], [np.ones((2, 0)), np.ones((3, 1)), np.full((2, 1), -np.inf)]),
    (_saved.array(F64, (None, 3)), [np.ones((1, 3))], [np.empty((0, 3)), np.ones(3)]),
    (_saved.array(F64, (0, 3)), [np.empty((0, 3))], [np.empty((0, 4))]),
    (_saved.array(F64, (1,), finite=False), [np.array([np.nan])], [np.ones(2)]),
    (_saved.anything, [None, 3], []),
]


@pytest.mark.parametrize(("check", "good", "bad"), CHECKS)
def test_checks(check, good, bad):
    for value in good:
        assert check("it", value) is value or check("it", value) == value
    for value in bad:
        with pytest.raises(nc.InvalidInputError, match=r"^it"):
            check("it", value)


def test_a_whole_number_is_a_number_like_others():
    """As an int it would have kernels compiled for it: half a minute, which looked like a hang."""
    assert type(_saved.number()("eps", 2)) is float
