"""A model of columns in a file, new rows, and a cluster of two processes."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

import nearcal as nc

COLUMNS = nc.adapters.ColumnsModel("normal", {"loc": "mu", "scale": "s"}, {"space": ("x1", "x2")}, "y")


def make_frame(rows, seed):
    """Return predictions too sure where x2 is large, on a grid: with ties, and rows that occur several times."""
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=(rows, 2)), 1)
    frame = pd.DataFrame({"mu": x[:, 0], "s": 1.0, "x1": x[:, 0], "x2": x[:, 1], "id": [f"r{i}" for i in range(rows)]})
    frame["y"] = rng.normal(x[:, 0], np.exp(x[:, 1] / 2))
    return frame


class Setting(NamedTuple):
    path: str
    model: nc.CalibratedModel
    new: pd.DataFrame


def make_setting(folder, **options):
    calibration, path = make_frame(600, 1), folder / "model.nearcal"
    recalibrator = nc.LocalRecalibrator(k=40, **options)
    nc.save(nc.calibrate(COLUMNS, calibration, calibration["y"], recalibrator=recalibrator), path)
    return Setting(str(path), nc.load(path), make_frame(300, 2))


@pytest.fixture(scope="session")
def setting(tmp_path_factory):
    corrections = (nc.LocalLinear(), nc.Polish(), nc.Fade())
    folder = tmp_path_factory.mktemp("setting")
    return make_setting(folder, scaling="standard", corrections=corrections, quantile_rule="predictive")


@pytest.fixture(scope="session")
def stepwise(tmp_path_factory):
    """A model whose predictions have atoms."""
    return make_setting(tmp_path_factory.mktemp("stepwise"))


@pytest.fixture(scope="session")
def expected(setting):
    """What one process makes of the new rows."""
    out = setting.model.predict(setting.new)
    (lower, upper), trust = out.interval(0.9), out.reliability()
    columns = {"mean": out.mean(), "std": out.std(), "lower_90": lower, "upper_90": upper}
    names = ("effective_size", "radius", "p_value", "out_of_distribution", "trust")
    return {**columns, **{name: trust[name] for name in names}}


@pytest.fixture(scope="module")  # not for longer: its processes are busy when idle
def cluster():
    """A cluster of two processes of one thread each."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
    with distributed.LocalCluster(**options, silence_logs=50) as running, distributed.Client(running) as client:
        yield client
