"""A student in place of the choice: where it is clearly better, and only there."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor

import nearcal as nc
from nearcal.tuning import distilling
from tests.compiled.cases import quick_students

N = 160
FEW = {"k": 4, "scaling": "standard", "smoothing": "uniform", "linear": False, "shrinkage": False, "trend": False}
FEW |= {"rule": "best", "effort": "quick"}
BASE = nc.Normal(np.zeros(N), 1.0)


@pytest.fixture(scope="module", autouse=True)
def students_are_quick():
    with quick_students(120):
        yield


def smooth_errors(n=N, seed=0, d=4):
    """Errors along a smooth function of four columns, which the means of four neighbours follow badly."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, d))
    return x, rng.normal(2 * np.sin(2 * x[:, 0]) + 2 * x[:, 1], 0.3)


@pytest.fixture(scope="module")
def tuning():
    x, y = smooth_errors()
    return nc.tune(BASE, y, {"inputs": x, "other": x[:, 2:]}, **FEW, distilled=True)


def test_a_student_that_is_clearly_better_is_chosen(tuning):
    assert isinstance(tuning.recalibrator, nc.CompiledRecalibrator)
    assert tuning.chosen == nc.Candidate("local", "inputs", "standard", None, 4, "uniform", distilled=True)
    assert str(tuning.chosen).startswith("distilled: space 'inputs', k=4")
    assert tuning.reason.startswith("Distilled: a student (")
    assert "of 160" not in tuning.reason.partition("The teacher: ")[0]
    assert "on 160 rows that neither had seen. The teacher: Chose space 'inputs'" in tuning.reason
    x, y = smooth_errors()
    exact = nc.tune(BASE, y, {"inputs": x, "other": x[:, 2:]}, **FEW, distilled=False)
    assert exact.chosen == nc.Candidate("local", "inputs", "standard", None, 4, "uniform")
    new, of_new = smooth_errors(1000, 1)
    base, spaces = nc.Normal(np.zeros(1000), 1.0), {"inputs": new, "other": new[:, 2:]}
    crps = [
        nc.scores.crps(one.recalibrator.recalibrate(base, one.positions(spaces)), of_new).mean()
        for one in (exact, tuning)
    ]
    assert crps[1] < 0.9 * crps[0]


def test_it_stands_among_the_candidates(tuning):
    rows = [row for row in tuning.table if row["distilled"]]
    assert len(rows) == 1
    assert rows[0]["chosen"]
    assert tuning.table["weight"].sum() == tuning.table["chosen"].sum() == rows[0]["weight"] == 1
    assert rows[0]["rows"] == N
    teacher = next(row for row in tuning.table if row["space"] == "inputs" and not row["distilled"])
    loss = tuning.recalibrator.loss_
    difference = loss.compiled[0] - loss.exact[0]
    assert rows[0]["crps"] == pytest.approx(teacher["crps"] + difference)
    assert rows[0]["difference"] == pytest.approx(difference)
    assert rows[0]["interval_score"] < teacher["interval_score"]
    evidence = {row["kind"]: row for row in tuning.evidence}
    assert evidence["distilled"]["chosen"]
    assert not evidence["local, plain"]["chosen"]
    assert evidence["local, plain"]["tried"] == 2
    assert nc.Candidate.of_row(rows[0]) == tuning.chosen


def test_a_student_that_is_not_better_is_not_chosen():
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, size=(N, 2))
    y = rng.normal(0.0, np.exp(x[:, 0]))
    options = FEW | {"k": 60, "effort": "thorough"}
    tuning = nc.tune(BASE, y, x, **options)  # "auto" tries a student of one neighbourhood where effort is thorough
    assert isinstance(tuning.recalibrator, nc.LocalRecalibrator)
    assert not tuning.chosen.distilled
    assert " Not distilled: a student (" in tuning.reason
    row = next(row for row in tuning.table if row["distilled"])
    assert not row["chosen"]
    assert row["weight"] == 0
    without = nc.tune(BASE, y, x, **options, distilled=False)
    assert not without.table["distilled"].any()
    assert without.chosen == tuning.chosen
    assert without.reason == tuning.reason.partition(" Not distilled")[0]


def test_the_rule():
    def student(total, loss=-0.1):
        recalibrator = SimpleNamespace(loss_=SimpleNamespace(loss=loss))
        return distilling.Distilled(recalibrator, 100, 0.1, (-0.1, 0.1), (-0.1, 0.1), total)

    assert student((-0.021, 0.01)).is_better
    assert not student((-0.019, 0.01)).is_better
    assert not student((-0.021, 0.01), loss=0.001).is_better  # at points that it has learnt from
    assert not student((np.nan, np.nan)).is_better


@pytest.mark.parametrize(
    ("distilled", "changes"),
    [("auto", {}), (False, {"effort": "thorough"}), ("auto", {"effort": "thorough", "trend": True, "k": 20})],
    ids=str,
)
def test_when_it_is_not_tried(distilled, changes):
    x, y = smooth_errors()
    tuning = nc.tune(BASE, y, x, **(FEW | changes), distilled=distilled)
    assert tuning.chosen.kind == "local"
    assert not tuning.table["distilled"].any()


def test_no_other_choice_is_distilled():
    x, _ = smooth_errors()
    y = np.random.default_rng(0).normal(size=N)
    tuning = nc.tune(BASE, y, x, **(FEW | {"rule": "cautious"}), distilled=True)
    assert tuning.chosen.kind != "local"
    assert not tuning.table["distilled"].any()
    assert "istilled" not in tuning.reason


def test_when_time_is_up_it_is_not_begun():
    x, y = smooth_errors()
    tuning = nc.tune(BASE, y, x, **FEW, distilled=True, seconds=1e-9)
    assert not tuning.chosen.distilled
    assert "no time was left to try a student" in tuning.reason


def test_an_average_has_a_student(capsys):
    x, y = smooth_errors(120)
    options = FEW | {"k": (4, 8), "rule": "cautious", "smoothing": ("uniform", "biweight")}
    workers = nc.Workers(progress=True)
    tuning = nc.tune(BASE[:120], y, {"a": x[:, :2], "b": x}, **options, distilled=True, workers=workers)
    assert tuning.chosen.distilled
    assert "The teacher: Chose an average of" in tuning.reason
    assert "learning a student" in capsys.readouterr().err.replace("\n", " ")
    assert tuning.recalibrator.source_.startswith("AveragedRecalibrator")
    at = tuning.positions({"a": x[:5, :2], "b": x[:5]})
    assert at.shape[1] == tuning.recalibrator.width
    assert tuning.recalibrator.recalibrate(BASE[:5], at).std().shape == (5,)


def test_groups_and_weights_are_kept():
    """What is learnt of a group is worth little for others: folds of groups tell, folds of rows would not."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(24), 5)
    x = np.repeat(rng.normal(size=(24, 3)), 5, axis=0) + rng.normal(scale=0.01, size=(120, 3))
    y = 3 * x[:, 0] + np.repeat(rng.normal(size=24), 5) + rng.normal(scale=0.1, size=120)
    known = {"groups": groups, "sample_weight": np.tile([1.0, 0.0, 3.0, 1.0], 30)}
    tuning = nc.tune(BASE[:120], y, x, **FEW, **known, distilled=True)
    row = next(row for row in tuning.table if row["distilled"])
    assert row["rows"] == 90
    assert (
        row["crps"] > 0.4
    )  # that of N(3x, 1), which nobody beats, is 0.56 on average; of 24 groups, a tenth less or more


def test_what_comes_later_does_not_teach():
    x, y = smooth_errors()
    row = next(row for row in nc.tune(BASE, y, x, **FEW, distilled=True, time=True).table if row["distilled"])
    assert row["rows"] < 0.7 * N  # the first stretches are not judged


def test_too_few_rows():
    x, y = smooth_errors(19)
    tuning = nc.tune(BASE[:19], y, x, **FEW, distilled=True)
    assert "Not distilled: recalibrator must have at least 20 calibration points" in tuning.reason


def test_what_cannot_be_said():
    x, y = smooth_errors()
    with pytest.raises(nc.InvalidParameterError, match='distilled must be True, False or "auto", got 1'):
        nc.tune(BASE, y, x, distilled=1)
    models = {"a": lambda X: X[:, 0], "b": lambda X: X[:, 1]}
    with pytest.raises(nc.InvalidParameterError, match="distilled must be False where several models are combined"):
        nc.calibrate(models, x, y, tuning={"distilled": True})


# ---- models ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def calibrated():
    x, y = smooth_errors()
    return nc.calibrate(lambda X: 0 * X[:, 0], x, y, layer="input", tuning={**FEW, "distilled": True})


def test_a_calibrated_model_with_a_student(calibrated, tmp_path):
    new, _ = smooth_errors(50, 1)
    out = calibrated.predict(new)
    assert calibrated.tuning.chosen.distilled
    assert calibrated.fade is not None
    far = calibrated.predict(np.vstack([new, np.full((1, 4), 50.0)]))
    assert far.reliability()["out_of_distribution"][-1]
    with pytest.warns(nc.OutOfDistributionWarning):
        calibrated.predict(np.full((30, 4), 50.0)).mean()
    nc.save(calibrated, tmp_path / "model.nearcal")
    loaded = nc.load(tmp_path / "model.nearcal")
    assert loaded.tuning.chosen == calibrated.tuning.chosen
    assert str(loaded.tuning) == str(calibrated.tuning)
    same = loaded.attach(lambda X: 0 * X[:, 0]).predict(new)
    np.testing.assert_array_equal(same.ppf([0.1, 0.9]), out.ppf([0.1, 0.9]))


def test_it_is_not_updated(calibrated):
    x, y = smooth_errors(5)
    for change in (lambda: calibrated.update(x, y), lambda: calibrated.forget(keep_last=3)):
        with pytest.raises(
            nc.InvalidParameterError, match=r"it was compiled and keeps no calibration points; .*distil"
        ):
            change()


def test_what_is_compiled_is_compiled(calibrated, tmp_path):
    compiled = nc.compile(calibrated)
    assert compiled.recalibrator is calibrated.recalibrator
    assert compiled.reason == calibrated.reason
    assert compiled.tuning is None
    assert compiled.fingerprint.rows is None
    path = calibrated.recalibrator.to_onnx(tmp_path / "student.onnx", "normal")
    assert path.stat().st_size > 1000


def test_a_regressor_with_a_student():
    x, y = smooth_errors(320)
    regressor = nc.RecalibratedRegressor(DummyRegressor(), tuning={**FEW, "distilled": True}, random_state=0).fit(x, y)
    assert isinstance(regressor.calibrated_.recalibrator, nc.CompiledRecalibrator)
    assert regressor.score(*smooth_errors(200, 1)) > 0.8


@pytest.mark.parametrize("guarantee", ["marginal", nc.Cross(folds=3)])
def test_with_a_promise(guarantee):
    x, y = smooth_errors(300)
    model = nc.calibrate(
        lambda X: 0 * X[:, 0], x, y, layer="input", tuning={**FEW, "distilled": True}, guarantee=guarantee
    )
    assert "istilled: a student" in model.reason
    new, of_new = smooth_errors(500, 1)
    lower, upper = model.predict(new).interval(0.8)
    # of 60 rows set aside: three standard errors of coverage are 0.16
    assert ((lower <= of_new) & (of_new <= upper)).mean() > 0.64
