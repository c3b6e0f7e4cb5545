import re
from dataclasses import replace

import numpy as np
import pytest

import nearcal as nc
from nearcal.compiled import loss_of
from nearcal.compiled.crossfit import CrossFit, features_of
from nearcal.compiled.features import Features
from nearcal.compiled.lessons import teach
from nearcal.compiled.loss import find_regions
from nearcal.compiled.network import LEVEL_SCORES, Effort
from nearcal.compiled.student import Form, Kind, Student
from nearcal.compiled.teachers import teacher_of
from nearcal.space import SpaceMap
from tests.compiled.cases import LEVELS, calibration_set, compile_quickly, far_and_near, fitted

BASE = nc.Normal(np.zeros(50), 1.0)
SPACE = calibration_set(50, seed=3)[2]
TUNED = {"quantile_rule": "predictive", "corrections": (nc.Trend(), nc.Polish(), nc.Fade())}


@pytest.fixture(scope="module")
def exact():
    return fitted(600, **TUNED)


@pytest.fixture(scope="module")
def compiled(exact):
    return compile_quickly(exact, 400)


def test_it_knows_the_truth_about_as_well_as_the_exact_one(exact, compiled):
    rng = np.random.default_rng(5)
    space = rng.uniform(1.05, 2.95, size=(3000, 2))
    y, base = rng.normal(np.sin(2 * space[:, 1]), space[:, 0]), nc.Normal(np.zeros(3000), 1.0)
    of_exact, of_compiled = (nc.scores.crps(rc.recalibrate(base, space), y).mean() for rc in (exact, compiled))
    truth = nc.scores.crps(nc.Normal(np.sin(2 * space[:, 1]), space[:, 0]), y).mean()
    # the standard error of a difference of such means is some 0.2%
    assert of_compiled < 1.01 * of_exact
    assert of_compiled < 1.06 * truth
    assert compiled.loss_.loss == pytest.approx(of_compiled / of_exact - 1, abs=0.015)


def test_the_loss_is_told(compiled):
    loss = compiled.loss_
    assert loss.rows == 600
    assert loss.loss == pytest.approx(loss.compiled[0] / loss.exact[0] - 1)
    assert next(iter(loss.to_table()["measure"])) == "CRPS"
    assert "cross-fitted on 600 calibration rows" in str(loss)
    assert any(loss.loss == pytest.approx(one) for one in loss.tried["loss"])
    assert loss_of(compiled) is loss


def test_the_same_seed_gives_the_same_bits():
    exact = fitted(120, **TUNED)
    tables = [compile_quickly(exact, rng=seed).recalibrate(BASE, SPACE).ppf([0.1, 0.9]) for seed in (1, 1, 2)]
    assert (tables[0] == tables[1]).all()
    assert (tables[0] != tables[2]).any()


def test_threads_change_no_bit():
    tables = []
    for threads in (1, 2):
        exact = fitted(120, workers=nc.Workers(threads=threads), **TUNED)
        tables.append(compile_quickly(exact).recalibrate(BASE, SPACE).ppf([0.1, 0.9]))
    assert (tables[0] == tables[1]).all()


def test_forms_that_do_worst_on_some_folds_are_not_tried_on_all(exact):
    fit = CrossFit(teacher_of(exact), None, None, np.random.default_rng(0))
    hardly, well = (Form((Kind(False, effort),)) for effort in (Effort(8, 1), Effort(32, 400)))
    assert fit.race([hardly, well], 1) == [well]
    assert fit.race([hardly, well], 2) == [well, hardly]
    assert not fit.trials
    trials = [fit.attempt(form) for form in (hardly, well)]
    assert trials[1].loss < trials[0].loss
    # a student that says what its teacher says differs little from it in any row
    assert trials[1].standard_error < trials[0].standard_error
    assert trials[1].in_doubt == trials[1].loss + trials[1].standard_error


def test_of_few_points_several_networks_are_averaged(compiled):
    counts = [int(count) for count in re.findall(r"mean of (\d) networks", compiled.loss_.form)]
    assert counts in ([4], [2, 2])
    assert all("mean of" not in form for form in compiled.loss_.tried["form"])
    # of two kinds of networks both are tried, and the two together, with anchors and without
    assert len(compiled.loss_.tried["form"]) == 6


def test_the_mean_of_two_kinds_of_networks_says_what_they_say_on_average():
    teacher, rng = teacher_of(fitted(200, **TUNED)), np.random.default_rng(0)
    lesson, features = teach(teacher, rng), features_of(teacher)
    kinds = [Kind(True, Effort(8, 40)), Kind(False, Effort(16, 20, 2))]
    students = [Student.learn(lesson, features, Form((kind,)), np.random.default_rng(1)) for kind in kinds]
    both = Student.mean_of(students)
    readings = [one.read(SPACE) for one in (both, *students)]
    middle = len(LEVEL_SCORES) // 2
    locations, sizes = ([one.tables[:, middle] for one in readings], [one.log_size for one in readings])
    gaps = [np.diff(one.tables, axis=1) for one in readings]
    np.testing.assert_allclose(locations[0], (locations[1] + locations[2]) / 2, atol=1e-5)
    np.testing.assert_allclose(gaps[0], np.sqrt(gaps[1] * gaps[2]), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(sizes[0], (sizes[1] + sizes[2]) / 2, atol=1e-5)
    learnt = Student.learn(lesson, features, Form(tuple(kinds), True), np.random.default_rng(1))
    assert learnt.anchors is not None
    assert learnt.network.second.shape == (40, 40)


def test_a_row_depends_on_itself_alone(compiled):
    whole = compiled.recalibrate(BASE, SPACE)
    for rows in (np.array([7]), np.arange(10, 41)):
        part = compiled.recalibrate(BASE[rows], SPACE[rows])
        assert (part.ppf(LEVELS) == whole.ppf(LEVELS)[rows]).all()
        assert (part.std() == whole.std()[rows]).all()
        assert (whole[rows].cdf(0.3) == whole.cdf(0.3)[rows]).all()


def test_rows_are_described_as_by_the_exact_one(exact, compiled):
    of_exact, of_compiled = (rc.recalibrate(BASE, SPACE) for rc in (exact, compiled))
    assert np.abs(np.log(of_compiled.radius / of_exact.radius)).mean() < 0.15
    assert np.abs(np.log(of_compiled.effective_size / of_exact.effective_size)).mean() < 0.15
    assert of_compiled.n_cal == 600
    assert (of_compiled.trust == 1).mean() > 0.9
    rng = np.random.default_rng(8)
    like = compiled.recalibrate(nc.Normal(np.zeros(2000), 1.0), rng.uniform(1, 3, size=(2000, 2)))
    # 2000 rows at a rate of 5%, told by 600 calibration points: three standard errors are some 3%
    assert 0.005 < like.reliability(0.05)["out_of_distribution"].mean() < 0.08


@pytest.mark.filterwarnings("ignore::nearcal.OutOfDistributionWarning")
def test_far_rows_are_finite_ordered_and_flagged(compiled):
    m = 2000
    space = far_and_near(m)
    out = compiled.recalibrate(nc.Normal(np.zeros(m), 1.0), space)
    quantiles = out.from_z(np.linspace(-40, 40, 81)[None])
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert np.isfinite(out.z(np.full(m, 40.0))).all()
    for described in (out.mean(), out.std(), out.radius):
        assert np.isfinite(described).all()
    far = (np.abs(space - 2) > 2).any(axis=1)
    assert out.reliability()["out_of_distribution"][far].all()
    assert (out.trust[far] == 0).all()
    np.testing.assert_allclose(out[far].std(), 1.0)  # their base distribution


def test_many_faded_rows_are_told(compiled):
    far = compiled.recalibrate(nc.Normal(np.zeros(40), 1.0), np.full((40, 2), 9.0))
    with pytest.warns(nc.OutOfDistributionWarning, match="40 of 40 new rows"):
        far.mean()


@pytest.mark.parametrize(
    "options",
    [
        {"quantile_rule": "step"},
        {"quantile_rule": "conservative", "corrections": (nc.LocalLinear(), nc.Shrinkage())},
        {"quantile_rule": "predictive", "corrections": (nc.Polish(), nc.Caution(0.3), nc.Fade(0.05, "global"))},
        {"radius": nc.Radius(0.6, 10, "base")},
        {"radius": nc.Radius(0.6, 10, "raise"), "corrections": (nc.Fade(),), "metric": "manhattan"},
        {"metric": "cosine", "scaling": "none"},
        {"metric": "chebyshev", "scaling": "whiten", "eps": 0.1},
        {"scaling": nc.Scaling("relevance")},
    ],
    ids=str,
)
def test_all_options_of_local_recalibration(options):
    exact = fitted(150, **options)
    # of a spread of about 2; what the few within a radius say changes faster, and is learnt more slowly
    steps, tolerance = (300, 0.35) if "radius" in options else (100, 0.15)
    compiled = compile_quickly(exact, steps)
    of_exact, of_compiled = (rc.recalibrate(BASE, SPACE) for rc in (exact, compiled))
    close = np.abs(of_compiled.ppf([0.2, 0.5, 0.8]) - of_exact.ppf([0.2, 0.5, 0.8])).mean()
    assert close < tolerance
    assert np.isfinite(of_compiled.reliability()["p_value"]).all()
    assert compiled.loss_.rows == 150


def test_weights_and_groups():
    dist, y, space = calibration_set(300)
    weights = np.where(space[:, 0] > 2, 1.0, 0.01)
    exact = nc.LocalRecalibrator(k=40).fit(dist, y, space, sample_weight=weights)
    compiled = compile_quickly(exact, groups=np.arange(300) % 30, dist_cal=dist)
    assert compiled.loss_.in_units_of == "response"
    assert compiled.loss_.rows == 300


def test_fade_that_raises():
    compiled = compile_quickly(fitted(150, corrections=(nc.Fade(to="raise"),)))
    with pytest.raises(nc.ThinNeighborhoodError, match="row 1, and 1 rows of 2"):
        compiled.recalibrate(BASE[:2], [[2.0, 2.0], [50.0, 2.0]])


@pytest.mark.parametrize("rc", [nc.IsotonicRecalibrator(), nc.VarianceScaling(), nc.IdentityRecalibrator()], ids=repr)
def test_one_law_of_all_rows_is_taken_over(rc):
    rc.fit(*calibration_set())
    compiled = nc.compile(rc)
    np.testing.assert_allclose(compiled.recalibrate(BASE).ppf(LEVELS), rc.recalibrate(BASE).ppf(LEVELS), rtol=1e-12)
    assert compiled.loss_.loss == 0
    assert nc.compile(compiled) is compiled


def test_several_models():
    _, y, space = calibration_set(250)
    both = nc.QuantileAverage([0.5, 0.5], [nc.Normal(space[:, 0], 1.0), nc.Normal(space[:, 1], 1.0)])
    exact = nc.CombinedRecalibrator([nc.LocalRecalibrator(k=50), nc.GlobalRecalibrator()]).fit(both, y, space)
    compiled = compile_quickly(exact, 200)
    of_exact, of_compiled = (rc.recalibrate(both[:50], space[:50]) for rc in (exact, compiled))
    assert np.abs(of_exact.median() - of_compiled.median()).mean() < 0.3
    assert loss_of(compiled).rows in (0, 250)
    assert np.isfinite(of_compiled.reliability()["p_value"]).all() or exact.weights_[0] == 0


def test_a_calibrated_model_keeps_no_row():
    _, y, space = calibration_set(300)
    model = nc.calibrate(lambda X: X[:, 0], space, y, recalibrator=nc.LocalRecalibrator(k=50))
    compiled = compile_quickly(model)
    assert isinstance(compiled, nc.CalibratedModel)
    assert compiled.tuning is None
    assert compiled.fingerprint.rows is None
    assert "compiled as" in compiled.reason
    assert len(compiled.predict(space[:5])) == 5
    held = np.concatenate([part.ravel() for part in _arrays(compiled.recalibrator)])
    # single numbers, such as the ends of columns, may be those of rows; no row is there as a whole
    kept = np.isin(space.astype(np.float32), held.astype(np.float32)).all(axis=1)
    assert not kept.any()


def _arrays(value, seen=None):
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, str | type):
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _arrays(one, seen)
    elif hasattr(value, "__dict__"):
        for one in vars(value).values():
            yield from _arrays(one, seen)


def test_scores_beyond_single_precision_are_refused():
    x = np.linspace(-1, 1, 60)[:, np.newaxis]
    exact = nc.LocalRecalibrator(k=20, corrections=(nc.Trend(),)).fit(nc.Normal(np.zeros(60), 1.0), 1e60 * x[:, 0], x)
    with pytest.raises(nc.InvalidInputError, match="scores must be within 1e\\+12 to be compiled"):
        nc.compile(exact)


def test_too_great_a_loss_is_refused(monkeypatch):
    space = np.linspace(-3, 3, 200)[:, None]
    y = np.random.default_rng(0).normal(0.0, np.exp(space[:, 0]))
    exact = nc.LocalRecalibrator(k=20).fit(nc.Normal(np.zeros(200), 1.0), y, space)
    monkeypatch.setattr(Student, "anchored", lambda student, lesson: student)
    with pytest.raises(nc.CompilationError, match=r"at most tolerance=0.00% of CRPS .* give tolerance=\d") as caught:
        compile_quickly(exact, 1, tolerance=0.0)
    assert caught.value.loss.loss > 0


def test_a_loss_that_is_known_badly_is_not_within_a_tolerance(compiled):
    known = {"exact": np.ones(6), "compiled": np.full(6, 1.01), "in_sample": -1.0, "unseen": 0.0}
    well, badly = (replace(compiled.loss_, **known, standard_error=error) for error in (0.0295, 0.0345))
    assert well.loss == badly.loss == pytest.approx(0.01)
    assert well.is_within(0.02)
    assert not badly.is_within(0.02)
    assert badly.is_within(badly.least_tolerance())
    assert badly.least_tolerance() == 0.03
    assert not well.is_within(0.0099)  # whatever its error


@pytest.mark.parametrize(
    ("what", "match"),
    [
        (lambda: nc.compile(3), "model_or_recalibrator must be a calibrated model or a fitted recalibrator, got int"),
        (lambda: nc.compile(nc.LocalRecalibrator(k=3)), "not fitted"),
        (lambda: nc.compile(fitted(19, k=5)), "at least 20 calibration points to be compiled, got 19"),
        (lambda: nc.compile(fitted(30, k=5), tolerance=-1), "tolerance must be"),
        (lambda: nc.compile(fitted(30, k=5), dist_cal=BASE), "dist_cal must be the distributions of the 30"),
        (lambda: nc.compile(nc.KNNRegressor(k=3).fit(None, [1.0, 2, 3, 4], [[1.0], [2], [3], [4]])), "KNNRegressor"),
        (lambda: nc.CompiledRecalibrator().fit(BASE, 1, 2), "give that to nearcal.compile"),
        (lambda: nc.CompiledRecalibrator().recalibrate(BASE, SPACE), "not fitted"),
    ],
)
def test_what_cannot_be_compiled(what, match):
    with pytest.raises(nc.NearcalError, match=match):
        what()


def test_scores_that_single_precision_does_not_hold():
    dist, y, space = calibration_set(60)
    exact = nc.LocalRecalibrator(10, quantile_rule="predictive").fit(dist, np.append(y[:-1], 1e40), space)
    with pytest.raises(nc.InvalidInputError, match=r"scores must be within 1e\+12 to be compiled, .*e\+40"):
        compile_quickly(exact)


def test_points_without_neighbours():
    dist, y, space = calibration_set(60)
    radius = nc.Radius(1e-9, min_neighbors=1, thin="base")
    exact = nc.LocalRecalibrator(radius=radius, quantile_rule="predictive").fit(dist, y, space)
    with pytest.raises(nc.InvalidInputError, match="points without neighbours; take k, or a larger radius"):
        compile_quickly(exact)


def test_all_points_in_one_place_are_one_region():
    assert find_regions(np.ones((200, 3)), np.random.default_rng(0)).tolist() == [0] * 200
    far = find_regions(1e150 * np.repeat([[0.0], [1.0]], 100, axis=0), np.random.default_rng(0))
    assert len(set(far[:100])) == len(set(far[100:])) == 1 != len(set(far))


def test_positions_of_another_width(compiled):
    with pytest.raises(nc.InvalidInputError, match="2 columns as space_cal had in fit, got 3"):
        compiled.recalibrate(BASE, np.ones((50, 3)))


def test_it_cannot_be_updated(compiled):
    with pytest.raises(nc.InvalidParameterError, match="cannot be updated, since it was compiled"):
        compiled.update(BASE, np.zeros(50), SPACE)


def test_columns_that_hardly_vary_are_stretched_as_far_as_single_precision_goes():
    tiny = np.random.default_rng(0).normal(size=(50, 2)) * 1e-42
    features = Features.learn(SpaceMap(np.zeros(2), None, "space"), tiny)
    assert np.isfinite(features(features.inside(features.points(tiny)))).all()
