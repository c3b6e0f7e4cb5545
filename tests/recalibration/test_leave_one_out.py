"""Leave-one-out against really leaving each point out: other searches, other fits, without the point."""

import numpy as np
import pytest
from scipy.special import ndtri

import nearcal as nc
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.leave_one_out import LeaveOneOut, find_others
from nearcal.recalibration.neighborhoods import KNearest, WithinRadius
from nearcal.space import CalibrationSpace, Scaling, build_index
from tests.recalibration.cases import DIST, RNG, SPACE, D, N, Y

EVERYONE = np.arange(N)
POSITIONS = {
    "anywhere": SPACE,
    "duplicates": np.repeat(SPACE[:6], 10, axis=0)[np.random.default_rng(1).permutation(N)],
    "all in one place": np.zeros((N, D)),
    "a grid, full of ties": np.random.default_rng(2).integers(0, 4, size=(N, 2)).astype(float),
    "a line": np.round(SPACE[:, :1], 1),
    "wide": RNG.normal(size=(N, 40)),
}
NEIGHBORHOODS = {
    "k = 1": {"k": 1},
    "k = 9": {"k": 9},
    "k = n": {"k": N},
    "radius": {"radius": nc.Radius(1.5, 4)},
    "a radius for all": {"radius": nc.Radius(1e3, N + 5)},
}


def neighborhood(k=None, radius=None, smoothing="epanechnikov", n=N):
    return KNearest(k, 0.0, smoothing) if radius is None else WithinRadius(radius, smoothing, n)


def left_out(space=SPACE, y=Y, dist=DIST, rule="predictive", scaling="none", workers=None, corrections=(), **options):
    z = dist.z(y)
    views = CalibrationSpace(space, z, Scaling(scaling), 10).views
    around = neighborhood(n=len(y), **options)
    return LeaveOneOut(CalibrationScores(z), lambda: views, around, rule, workers or nc.Workers(), corrections)


def others_of(point, n=N):
    return np.delete(np.arange(n), point)


def refit(point, space=SPACE, y=Y, dist=DIST, learnt=None, **options):
    """Return the point's own prediction, recalibrated by all others; what corrections have learnt may be given."""
    own = others_of(point, len(y))
    if options.get("k", 0) >= len(y):
        options["k"] = len(y) - 1
    rc = nc.LocalRecalibrator(**options).fit(dist[own], y[own], space[own])
    if learnt is not None:
        rc.corrections_ = learnt
    return rc.recalibrate(dist[[point]], space[[point]])


def is_thin(point, space, radius):
    within = np.linalg.norm(space[others_of(point)] - space[point], axis=1) <= radius.distance
    return within.sum() < min(radius.min_neighbors, N - 1)


@pytest.mark.parametrize("search", ["auto", "boxes", "brute", "kdtree"])
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("options", NEIGHBORHOODS.values(), ids=NEIGHBORHOODS)
def test_others_are_those_of_a_search_without_the_point(options, position, search):
    space = POSITIONS[position]
    index = build_index(space, "euclidean", search, 10)
    found = find_others(neighborhood(**options), index, space, EVERYONE)
    for point in range(N):
        own = others_of(point)
        distance = np.sqrt(((space[own] - space[point]) ** 2).sum(axis=1))
        order = np.lexsort((own, distance))
        if "k" in options:
            kept = order[: options["k"]]
            radius = distance[kept].max()
        else:
            kept = order[distance[order] <= options["radius"].distance]
            radius = options["radius"].distance
        part = slice(found.indptr[point], found.indptr[point + 1])
        assert sorted(found.indices[part]) == sorted(own[kept])
        np.testing.assert_allclose(np.sort(found.distances[part]), np.sort(distance[kept]), rtol=1e-12)
        np.testing.assert_allclose(found.radius[point], radius, rtol=1e-12)


@pytest.mark.parametrize("rule", ["interpolated", "predictive"])
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("options", NEIGHBORHOODS.values(), ids=NEIGHBORHOODS)
def test_scores_are_those_of_refits_without_each_point(options, position, rule):
    space = POSITIONS[position]
    loo = left_out(space, rule=rule, **options)
    scores = loo.gather(lambda steps, rows: loo.law(steps).after(Y[rows][:, np.newaxis])[:, 0], np.empty(N))
    for point in range(0, N, 5):
        if "radius" in options and is_thin(point, space, options["radius"]):
            assert np.isnan(scores[point])
        else:
            out = refit(point, space, quantile_rule=rule, **options)
            np.testing.assert_allclose(scores[point], out.z(Y[[point]])[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("smoothing", ["epanechnikov", "uniform"])
@pytest.mark.parametrize("options", [{"k": 9}, {"k": N}, {"radius": nc.Radius(1.5, 4)}], ids=str)
def test_moments_are_those_of_refits_without_each_point(options, smoothing):
    loo = left_out(smoothing=smoothing, **options)
    moments = loo.gather(
        lambda steps, rows: np.stack([*steps.score_moments(), steps.effective_size()], axis=1), np.empty((N, 3))
    )
    known = 0
    for point in range(N):
        if "radius" in options and is_thin(point, SPACE, options["radius"]):
            assert np.isnan(moments[point]).all()
            continue
        known += 1
        out = refit(point, smoothing=smoothing, **options)
        expected = [out.mean()[0], out.var()[0], out.effective_size[0]]  # the base is standard Normal
        np.testing.assert_allclose(moments[point], expected, rtol=1e-10, atol=1e-12)
    assert known > N / 2


def test_of_some_points_alone():
    loo, some = left_out(k=9), np.array([3, 11, 40])
    whole = loo.gather(lambda steps, rows: steps.score_moments()[0], np.empty(N))
    part = loo.gather(lambda steps, rows: steps.score_moments()[0], np.full(N, np.nan), some)
    np.testing.assert_array_equal(part[some], whole[some])
    assert np.isnan(np.delete(part, some)).all()


@pytest.mark.parametrize("options", [{"k": 50}, {"radius": nc.Radius(0.4, 5)}], ids=str)
def test_threads_and_chunks_change_nothing(options):
    rng = np.random.default_rng(3)
    space, y, dist = rng.normal(size=(2000, 2)), rng.normal(size=2000), nc.Normal(np.zeros(2000), 1.0)
    outs = []
    for workers in (nc.Workers(threads=1), nc.Workers(threads=3, memory=2**20)):
        loo = left_out(space, y, dist, workers=workers, **options)
        outs.append(loo.gather(lambda steps, rows, loo=loo: loo.law(steps).after(y[rows, None])[:, 0], np.empty(2000)))
    assert np.isfinite(outs[0]).mean() > 0.5
    np.testing.assert_array_equal(outs[0], outs[1])


def views_by_relevance(z):
    return CalibrationSpace(SPACE, z, Scaling("relevance"), 10).views


def test_a_point_takes_no_part_in_the_relevance_it_is_looked_up_with():
    """Five views, each point in one; a point's own score may be anything there without moving it."""
    z = 3 * SPACE[:, 0] + Y
    views = views_by_relevance(z)
    assert sorted(np.concatenate([view.rows for view in views])) == list(range(N))
    changed = z.copy()
    changed[views[0].rows] = RNG.normal(size=len(views[0].rows))
    others = views_by_relevance(changed)
    np.testing.assert_array_equal(others[0].points, views[0].points)
    assert not np.array_equal(others[1].points, views[1].points)


# ---- what corrections learn -----------------------------------------------------------------------------------------


def assert_learnt(learnt, scores):
    """The i-th score belongs to probability i / (n + 1), within bounds."""
    n = len(scores)
    worth = ndtri(np.arange(1, n + 1) / (n + 1))
    assert len(set(scores)) == n
    expected = [min(max(z, s - 1 - abs(s)), s + 1 + abs(s)) for z, s in zip(sorted(scores), worth, strict=True)]
    np.testing.assert_allclose(learnt.map.line.values[0], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(learnt.map.line.scores[0], worth, rtol=1e-12)


@pytest.mark.parametrize("rule", ["interpolated", "predictive"])
@pytest.mark.parametrize("options", [{"k": 9}, {"k": N}, {"radius": nc.Radius(1.5, 4)}], ids=str)
def test_polish_is_learnt_from_refits_without_each_point(rule, options):
    rc = nc.LocalRecalibrator(quantile_rule=rule, corrections=(nc.Polish(),), **options).fit(DIST, Y, SPACE)
    scores = [
        refit(point, quantile_rule=rule, **options).z(Y[[point]])[0]
        for point in range(N)
        if "k" in options or not is_thin(point, SPACE, options["radius"])
    ]
    assert_learnt(rc.corrections_[0], scores)


def test_polish_is_learnt_where_equal_points_crowd_one_another_out():
    """Ten copies of each position: k + 1 nearest of one copy need not hold the copy itself."""
    space = np.repeat(SPACE[:6], 10, axis=0)
    options = {"k": 3, "quantile_rule": "predictive"}
    y = Y.copy()
    y[:3] = 0.1, 0.1 + 1e-5, 0.1 + 3e-5  # who so agree call the others of their position impossible
    rc = nc.LocalRecalibrator(corrections=(nc.Polish(),), **options).fit(DIST, y, space)
    scores = [refit(point, space, y, **options).z(y[[point]])[0] for point in range(N)]
    assert np.abs(scores).max() > 1e4
    assert_learnt(rc.corrections_[0], scores)


def test_polish_is_learnt_from_what_earlier_corrections_have_left():
    """Local-linear and shrinkage first: what they have learnt from all points is given to the refits."""
    y = Y + 2 * SPACE[:, 0]
    first = nc.LocalLinear(), nc.Shrinkage()
    options = {"k": 25, "quantile_rule": "predictive"}
    learnt = nc.LocalRecalibrator(corrections=(*first, nc.Polish()), **options).fit(DIST, y, SPACE).corrections_
    scores = []
    for point in range(N):
        own = others_of(point)
        rc = nc.LocalRecalibrator(corrections=first, **options).fit(DIST[own], y[own], SPACE[own])
        rc.corrections_ = rc.corrections_[0], learnt[1]  # places are the others', variances those of all
        scores.append(rc.recalibrate(DIST[[point]], SPACE[[point]]).z(y[[point]])[0])
    assert_learnt(learnt[2], scores)


@pytest.mark.parametrize("before", [(), (nc.LocalLinear(),)], ids=str)
@pytest.mark.parametrize("options", [{"k": 22}, {"radius": nc.Radius(2.5, 20)}], ids=str)
def test_shrinkage_is_learnt_from_refits_without_each_point(options, before):
    y = Y + SPACE[:, 0]
    rc = nc.LocalRecalibrator(corrections=(*before, nc.Shrinkage()), **options).fit(DIST, y, SPACE)
    moments = []
    for point in range(N):
        if "radius" in options and is_thin(point, SPACE, options["radius"]):
            continue
        out = refit(point, y=y, corrections=before, **options)
        size = out.effective_size[0]
        moments.append((out.mean()[0], out.var()[0] * size / (size - 1), size))
    mean, variance, size = np.array(moments).T
    learnt = rc.corrections_[-1]
    expected = np.mean((mean - learnt.mean) ** 2) - np.mean(variance / size)
    assert learnt.mean_variance == pytest.approx(max(expected, 0), rel=1e-8)
    expected = np.mean((np.log(variance) / 2 - learnt.log_spread) ** 2) - np.mean(1 / (2 * size))
    assert learnt.log_spread_variance == pytest.approx(max(expected, 0), rel=1e-8)
    assert learnt.mean_variance > 0
