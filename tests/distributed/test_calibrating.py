"""Calibration sets that come in batches: one candidate for shards, unless an average is asked for."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.distributed.batches import use_threads
from nearcal.distributed.calibrating import calibrate_in_batches

MODEL = nc.adapters.ColumnsModel("normal", {"loc": "mu", "scale": 1.0}, {"one": ("x",), "other": ("z",)}, "y")
NARROW = {"k": (30, 60), "scaling": "standard", "linear": False, "shrinkage": False, "trend": False}


def table(n=600):
    rng = np.random.default_rng(0)
    columns = {"mu": rng.normal(size=n), "x": rng.uniform(-1, 1, size=n), "z": rng.uniform(-1, 1, size=n)}
    return {**columns, "y": rng.normal(columns["mu"] + np.sin(3 * columns["x"]), np.exp(columns["z"]))}


def batches():
    whole = table()
    yield from ({name: column[start : start + 250] for name, column in whole.items()} for start in (0, 250, 500))


def calibrate(folder, sample, **tuning):
    how = {"layer": ["one", "other"], "tuning": NARROW | tuning, "time": False}
    return calibrate_in_batches(MODEL, batches, "y", folder=folder, sample=sample, **how)


def test_one_candidate_is_put_in_shards(tmp_path):
    model = calibrate(tmp_path / "shards", 10_000)
    assert isinstance(model.recalibrator, nc.ShardedRecalibrator)
    assert np.count_nonzero(model.tuning.table["weight"]) == 1
    assert "Chosen on 600 of 600 rows, drawn at random; learnt from all of them." in model.reason


def test_an_average_that_was_asked_for_has_learnt_from_the_sample(tmp_path):
    model = calibrate(tmp_path / "shards", 400, members=3)
    assert isinstance(model.recalibrator, nc.AveragedRecalibrator)
    assert model.recalibrator.n_cal_ == 400
    assert model.reason.endswith("Learnt from 400 of 600 rows, drawn at random.")
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize("guarantee", [None, "marginal"])
def test_threads_are_those_of_all_members(guarantee):
    rows = table()
    model = nc.calibrate(MODEL, rows, rows["y"], layer=["one", "other"], tuning=NARROW, time=False, guarantee=guarantee)
    use_threads(model, 2)
    average = model.recalibrator if guarantee is None else model.recalibrator.inner_
    assert [member.workers.threads for member in average.members_] == [2] * len(average.members_)
    assert model.fade is not None
