"""An average of neighbourhoods becomes one student, of all columns that its members look at."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.compiled.bases import family_of
from nearcal.compiled.network import LEVEL_SCORES
from nearcal.compiled.teachers import AverageTeacher
from nearcal.recalibration import trend
from nearcal.scores import crps
from nearcal.space import calibration_space
from tests.compiled.cases import LEVELS, calibration_set, compile_quickly, far_and_near
from tests.compiled.test_export import assert_agrees, run_onnx


@pytest.fixture(scope="module")
def exact():
    members = [
        nc.LocalRecalibrator(80, quantile_rule="predictive", scaling=scaling, corrections=[nc.Fade()])
        for scaling in ("standard", "none")
    ]
    averaged = nc.AveragedRecalibrator(
        members, columns=[[0, 2], [1, 2]], weights=[0.6, 0.4], corrections=[nc.Polish(), nc.Caution(0.1, 0.4)]
    )
    return averaged.fit(*calibration_set(500, 3))


@pytest.fixture(scope="module")
def compiled(exact):
    return compile_quickly(exact, steps=400)


def test_it_says_what_the_average_says(exact, compiled):
    dist, y, space = calibration_set(400, 3, seed=1)
    average, student = exact.recalibrate(dist, space), compiled.recalibrate(dist, space)
    assert crps(student, y).mean() < 1.03 * crps(average, y).mean()
    assert np.abs(student.median() - average.median()).mean() < 0.2
    np.testing.assert_allclose(np.log(student.effective_size / average.effective_size).mean(), 0.0, atol=0.1)


def test_columns_that_the_heaviest_does_not_see_are_seen(exact, compiled):
    space = np.tile([[2.0, 2.0, 2.0]], (3, 1))
    space[:, 1] = [2.0, 50.0, -50.0]
    trust = compiled.recalibrate(nc.Normal(np.zeros(3), 1.0), space).trust
    assert trust[0] == 1
    assert (trust[1:] < 1).all()


def test_the_teacher_shows_all_columns_and_measures_in_those_of_the_heaviest(exact):
    teacher = AverageTeacher(exact)
    np.testing.assert_array_equal(teacher.positions, calibration_set(500, 3)[2])
    np.testing.assert_allclose(teacher.space_map(teacher.positions).std(axis=0), [1.0, 1.0, 1e-3])
    seen = teacher.exact.members_[0].space_map_(teacher.positions[:, [0, 2]])
    np.testing.assert_allclose(teacher.space_map(teacher.positions)[:, :2], seen)


def test_rows_far_away_are_finite_and_ordered(compiled):
    out = compiled.recalibrate(nc.Normal(np.zeros(2000), 1.0), far_and_near(2000, 3))
    with pytest.warns(nc.OutOfDistributionWarning):
        values = out.ppf(LEVELS)
    assert np.isfinite(values).all()
    assert (np.diff(values, axis=1) >= 0).all()
    assert out.reliability()["out_of_distribution"].mean() > 0.7


def test_it_is_exported(compiled, tmp_path):
    dist, _, space = calibration_set(200, 3, seed=2)
    out = compiled.recalibrate(dist, space)
    path = compiled.to_onnx(tmp_path / "average.onnx", dist, levels=LEVELS)
    assert_agrees(run_onnx(path, {**family_of(dist).parameters(dist), "position": space}), out)


def test_members_within_a_radius_are_refused():
    member = nc.LocalRecalibrator(radius=0.5, quantile_rule="predictive")
    averaged = nc.AveragedRecalibrator([member, member]).fit(*calibration_set())
    with pytest.raises(nc.InvalidParameterError, match="must take the k nearest points"):
        nc.compile(averaged)


def average_with_trends():
    """Return an average of four members: two follow the same trend, one another, one none."""
    dist, y, space = calibration_set(150, 3)
    y = y + 3 * np.sin(2 * space[:, 2])
    members = [
        nc.LocalRecalibrator(k, quantile_rule="predictive", scaling="standard", corrections=corrections)
        for k, corrections in ((60, [nc.Trend()]), (90, [nc.Trend()]), (100, []), (60, [nc.Trend()]))
    ]
    columns, weights = [[0, 2], [0, 2], [0, 1], [1, 2]], [0.4, 0.2, 0.1, 0.3]
    return nc.AveragedRecalibrator(members, columns=columns, weights=weights).fit(dist, y, space)


def test_students_follow_the_trends_of_all_members(tmp_path):
    exact = average_with_trends()
    grounds = AverageTeacher(exact).grounds()
    np.testing.assert_allclose([one.share for one in grounds], [0.6, 0.3])
    compiled = compile_quickly(exact, steps=100)
    assert len(compiled.student_.bumps) == 2
    dist, _, space = calibration_set(200, 3, seed=2)
    told = sum(
        ground.share * exact.members_[place].corrections_[0].location(ground.points(space))
        for ground, place in zip(grounds, (0, 3), strict=True)
    )
    own = sum(bumps(space) for bumps in compiled.student_.bumps)
    assert np.abs(own - told).mean() < 0.1 * np.abs(told - told.mean()).mean()  # centres are others
    points, bumps = grounds[0].points(calibration_set(150, 3)[2]), compiled.student_.bumps[0]
    apart = np.abs((points[:, np.newaxis] - bumps.origin) / bumps.width - bumps.centers).max(axis=2)
    assert apart.min() > 0  # none is a calibration point
    path = compiled.to_onnx(tmp_path / "trends.onnx", dist, levels=LEVELS)
    inputs = {**family_of(dist).parameters(dist), "position": space}
    assert_agrees(run_onnx(path, inputs), compiled.recalibrate(dist, space))
    nc.save(compiled, tmp_path / "trends.nearcal")
    again = nc.load(tmp_path / "trends.nearcal").recalibrate(dist, space)
    np.testing.assert_array_equal(again.ppf(LEVELS), compiled.recalibrate(dist, space).ppf(LEVELS))


def test_what_a_fold_is_learnt_from_is_built_once(monkeypatch):
    dist, y, space = calibration_set(200, 3)
    member = nc.LocalRecalibrator(50, quantile_rule="predictive", scaling="relevance", corrections=[nc.Trend()])
    exact = nc.AveragedRecalibrator([member, member], corrections=[nc.Polish()]).fit(dist, y, space)
    counts = {"relevance": 0, "trends": 0}

    def counted(name, function):
        def count(*given, **options):
            counts[name] += 1
            return function(*given, **options)

        return count

    for module, name, what in (
        (calibration_space, "learn_relevance_without", "relevance"), (trend, "learn_trend", "trends"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, counted(what, getattr(module, name)))
    teacher = AverageTeacher(exact).restricted(np.arange(150))
    points = np.arange(150)
    tables = teacher.left_out_tables(points)
    assert np.isfinite(teacher.left_out_description(points)).all()
    # of each member; settings of a trend are chosen, and it is learnt from all points and in each of five views
    assert counts == {"relevance": 2, "trends": 2 * (1 + 1 + 5)}
    everywhere = nc.Normal(np.zeros(150), 1.0)
    again = teacher.exact.left_out_values(everywhere, LEVEL_SCORES)  # builds everything anew
    np.testing.assert_array_equal(tables, again)
