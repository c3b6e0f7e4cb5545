"""What students are taught: positions between calibration points, and trends with centres there."""

import numpy as np

import nearcal as nc
from nearcal.compiled.lessons import blend, parts_of, teach
from nearcal.compiled.teachers import Teacher
from tests.compiled.cases import calibration_set, fitted


def rows_of(points):
    return {point.tobytes() for point in points}


def test_blends_are_no_calibration_points():
    teacher = Teacher(fitted(200))
    blends = blend(teacher, np.arange(200), np.random.default_rng(0))
    assert len(blends) == 800
    assert not rows_of(blends) & rows_of(teacher.positions)


def test_centers_are_no_calibration_points_where_these_share_places():
    dist, y, space = calibration_set(240)
    space = np.round(4 * space) / 4  # 81 places for 240 points
    exact = nc.LocalRecalibrator(80, corrections=[nc.Trend()]).fit(dist, y, space)
    (part,) = teach(Teacher(exact), np.random.default_rng(0)).parts
    settings = exact.corrections_[0].location.settings
    assert part.function.settings == settings
    placed = (part.ground.points(space) - part.function.origin) / settings.width
    assert not rows_of(placed) & rows_of(part.function.centers)


def test_without_a_place_for_centers_there_is_no_trend():
    for corrections in ([nc.Trend()], []):
        teacher = Teacher(fitted(200, corrections=corrections))
        assert parts_of(teacher, teacher.positions) == ()
