"""What students are taught: positions between calibration points, and trends with centres there."""

import numpy as np

import nearcal as nc
from nearcal.compiled import lessons
from nearcal.compiled.lessons import blend, cross, parts_of, teach
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


def test_crossed_rows_have_columns_of_calibration_points_and_are_none():
    teacher = Teacher(fitted(60, d=3, k=20))
    crossed = cross(teacher, np.arange(60), 500, np.random.default_rng(0))
    assert 200 < len(crossed) <= 500
    assert all(np.isin(column, own).all() for column, own in zip(crossed.T, teacher.positions.T, strict=True))
    assert not rows_of(crossed) & rows_of(teacher.positions)


def test_lessons_of_few_points_have_crossed_rows_that_are_taught_and_not_kept():
    lesson = teach(Teacher(fitted(60, d=3, k=20)), np.random.default_rng(0))
    assert (lesson.points, lesson.blended) == (60, 240)
    assert len(lesson.positions) > 3000
    assert np.isfinite(lesson.tables).all()
    kept = lesson.positions[lesson.blends]
    assert not rows_of(kept) & rows_of(lesson.positions[300:])


def test_rows_crossed_where_columns_depend_on_each_other_are_unlike_any_to_come(monkeypatch):
    monkeypatch.setattr(lessons, "_FEWEST_ROWS", 3000)
    dist, y, space = calibration_set(60, d=1)
    twice = np.hstack([space, space + 1e-3 * np.random.default_rng(0).normal(size=space.shape)])
    exact = nc.LocalRecalibrator(k=5, scaling="whiten").fit(dist, y, twice)
    lesson = teach(Teacher(exact), np.random.default_rng(0))
    crossed = lesson.positions[lesson.points + lesson.blended :]
    assert len(crossed) < 500
    assert np.abs(np.diff(crossed, axis=1)).max() < 0.2
