"""Anchors against a slow twin, and where they stand."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.compiled import compiling
from nearcal.compiled.anchors import LEAST_WEIGHT, NEAREST, Anchors
from nearcal.compiled.crossfit import features_of
from nearcal.compiled.lessons import teach
from nearcal.compiled.network import LEVEL_SCORES, Effort
from nearcal.compiled.student import Form, Kind, Student
from nearcal.compiled.teachers import Teacher
from tests.compiled.cases import calibration_set, compile_quickly, fitted

OUTPUTS = 33


def anchors_at(centers, seed=0):
    outputs = np.random.default_rng(seed).normal(size=(len(centers), OUTPUTS))
    return Anchors.of(np.asarray(centers, dtype=np.float32), outputs)


def slowly(anchors, point):
    """Blend the eight nearest anchors of one point."""
    distances = ((anchors.centers.astype(float) - point.astype(float)) ** 2).sum(axis=1)
    near = np.argsort(distances)[: NEAREST + 1]
    weights = 1 - distances[near] / max(distances[near].max(), anchors.least) + LEAST_WEIGHT
    return weights @ anchors.outputs[near] / weights.sum()


@pytest.mark.parametrize("d", [1, 3, 12])
def test_what_is_added_is_a_blend_of_the_nearest(d):
    rng = np.random.default_rng(d)
    anchors = anchors_at(rng.normal(size=(700, d)) + 5)
    points = (rng.normal(size=(1100, d)) + 5).astype(np.float32)
    added = anchors(points)
    np.testing.assert_allclose(added, [slowly(anchors, point) for point in points], atol=1e-5)
    for rows in (np.array([1050]), np.arange(3, 540)):  # a row depends on itself alone
        assert (anchors(points[rows]) == added[rows]).all()


@pytest.mark.parametrize("centers", [np.zeros((20, 2)), np.eye(12) * 3], ids=["one place", "equally far"])
def test_where_distances_say_nothing_the_nearest_weigh_the_same(centers):
    anchors = anchors_at(centers)
    (added,) = anchors(np.zeros((1, centers.shape[1]), np.float32))
    low, high = anchors.outputs.min(axis=0), anchors.outputs.max(axis=0)
    assert ((low <= added) & (added <= high)).all()


def test_there_must_be_enough_of_them():
    with pytest.raises(nc.InvalidInputError, match="more than 8 anchors, got 8"):
        anchors_at(np.arange(8.0)[:, None])


def test_an_untaught_student_with_anchors_says_what_the_teacher_says():
    teacher, rng = Teacher(fitted(300)), np.random.default_rng(0)
    lesson = teach(teacher, rng)
    space = calibration_set(200, seed=5)[2]
    wanted = teacher.recalibrate(nc.Normal(np.zeros(200), 1.0), space).from_z(LEVEL_SCORES[np.newaxis])
    plain = Student.learn(lesson, features_of(teacher), Form((Kind(False, Effort(8, 1)),)), rng)
    errors = [np.abs(one.read(space).tables - wanted).mean() for one in (plain, plain.anchored(lesson))]
    assert errors[1] < 0.4 * errors[0]


def test_they_stand_at_no_calibration_point(monkeypatch):
    monkeypatch.setattr(compiling, "_forms", lambda fit: [Form((Kind(False, Effort(8, 5)),), True)])
    dist, y, space = calibration_set(150)
    space = np.round(3 * space) / 3  # places that points share
    exact = nc.LocalRecalibrator(k=40).fit(dist, y, space)
    student = compile_quickly(exact).student_
    placed = student.features.points(np.asarray(exact.positions(), dtype=np.float64))
    known = {row.tobytes() for row in placed}
    assert not known & {row.tobytes() for row in student.anchors.centers}
