"""Dask on two processes: the bits of one process, however rows are partitioned, whoever dies."""

import itertools
import os
import signal

import numpy as np
import pandas as pd
import pytest

import nearcal as nc
from nearcal.distributed import batches
from tests.distributed.conftest import COLUMNS, make_frame

dask = pytest.importorskip("dask.dataframe")
pytestmark = pytest.mark.filterwarnings("ignore::nearcal.OutOfDistributionWarning")


def assert_equal(found, expected):
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name].to_numpy(dtype=values.dtype), values, err_msg=name)


def in_parts(frame, sizes):
    """Return a Dask frame of partitions of these sizes, some of them empty."""
    ends = np.cumsum([0, *sizes])
    return dask.from_map(lambda part: part, [frame[a:b] for a, b in itertools.pairwise(ends)], meta=frame[:0])


@pytest.mark.parametrize("sizes", [[300], [1, 0, 250, 49], [60] * 5])
def test_predictions_are_those_of_one_process(sizes, setting, expected, cluster):
    out = nc.dask.predict(setting.path, in_parts(setting.new, sizes), keep=["id"], reliability=True)
    assert list(out.columns) == ["id", *expected]  # known before anything is computed
    found = out.compute()
    assert found.dtypes.to_dict() == out.dtypes.to_dict()
    assert found["id"].tolist() == setting.new["id"].tolist()
    assert_equal(found, expected)


def test_a_model_in_memory_goes_to_workers_once(setting, expected, cluster):
    frame = in_parts(setting.new, [100, 200])
    assert_equal(nc.dask.predict(setting.model, frame, reliability=True).compute(), expected)


def test_arrays_and_models_that_run(cluster):
    from dask import array

    frame = make_frame(300, 5)
    X = frame[["x1", "x2"]].to_numpy()
    model = nc.calibrate(lambda X: X[:, 0], X, frame["y"], recalibrator=nc.LocalRecalibrator(k=30))
    out = nc.dask.predict(model, array.from_array(X, chunks=(70, 1)), coverage=(), quantiles=(0.1, 0.9))
    assert out.shape == (300, 4)
    expected = model.predict(X).summary(p=[0.1, 0.9])
    np.testing.assert_array_equal(out.compute(), np.column_stack([expected.mean, expected.std, expected.quantiles]))


def test_workers_map_the_model_once_and_use_their_share(setting, cluster):
    nc.dask.predict(setting.path, in_parts(setting.new, [30] * 10)).compute()

    def look(path):
        held = {key: model for key, model in batches._loaded.items() if str(key[0]) == path}
        return [(key[-1], model.recalibrator.workers.threads) for key, model in held.items()]

    for held in cluster.run(look, setting.path).values():
        assert held in ([], [(1, 1)])


def test_gaps_are_refused_or_left_empty(setting, expected):
    frame = setting.new.copy()
    frame.loc[[7, 200], "x1"] = [np.nan, np.inf]
    parts = in_parts(frame, [150, 150])
    with pytest.raises(nc.InvalidInputError, match="must have no missing or infinite values, got 1 rows that have"):
        nc.dask.predict(setting.path, parts).compute(scheduler="synchronous")
    out = nc.dask.predict(setting.path, parts, skip_missing=True, reliability=True).compute(scheduler="synchronous")
    assert np.flatnonzero(out["mean"].isna()).tolist() == [7, 200]
    whole = np.delete(np.arange(300), [7, 200])
    assert_equal(out.iloc[whole], {name: values[whole] for name, values in expected.items()})


@pytest.mark.parametrize("name", ["setting", "stepwise"])
def test_an_evaluation_is_that_of_all_rows(name, request, cluster):
    """Also where PIT values are drawn at random: by the number of the row."""
    setting = request.getfixturevalue(name)
    new, model = setting.new, setting.model
    found = nc.dask.evaluate(setting.path, in_parts(new, [100, 0, 1, 199]), coverage=0.9, regions=4)
    dists = {"base": model.base(new), "recalibrated": model.predict(new)}
    expected = nc.evaluate(dists, new["y"], model.represent(new), 0.9, regions=4)
    for column in expected.columns:
        np.testing.assert_array_equal(found[column], expected[column])


def test_four_shards_on_workers_are_one_index(cluster):
    """Rows of the second half are those of the first: duplicates lie in different shards."""
    half = make_frame(400, 3)
    frame = pd.concat([half, half], ignore_index=True)
    recalibrator = nc.LocalRecalibrator(k=60, quantile_rule="predictive")
    parts = dask.from_pandas(frame, npartitions=4, sort=False)
    model = nc.dask.calibrate(COLUMNS, parts, recalibrator=recalibrator, sample=10_000)
    assert len(model.recalibrator.index_.futures) == 4
    one = nc.calibrate(COLUMNS, frame, frame["y"], recalibrator=recalibrator)
    new = make_frame(100, 4)
    found, expected = (which.predict(new).summary(0.9) for which in (model, one))
    for a, b in zip(vars(found).values(), vars(expected).values(), strict=True):
        np.testing.assert_array_equal(a, b)
    on_workers = nc.dask.predict(model, in_parts(new, [40, 60])).compute()  # which ask each other's shards
    np.testing.assert_array_equal(on_workers["mean"], expected.mean)


def test_scaling_and_sample_do_not_depend_on_partitions(cluster, tmp_path):
    frame = make_frame(500, 6)
    recalibrator = nc.LocalRecalibrator(
        k=30, scaling="standard", corrections=(nc.Polish(),), quantile_rule="predictive"
    )
    results = []
    for number, folder in ((1, None), (3, None), (2, tmp_path / "shards")):
        parts = dask.from_pandas(frame, npartitions=number, sort=False)
        model = nc.dask.calibrate(COLUMNS, parts, recalibrator=recalibrator, sample=10_000, folder=folder)
        results.append(model.predict(frame[:50]).mean())
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    nc.save(model, tmp_path / "model.nearcal")
    np.testing.assert_array_equal(nc.load(tmp_path / "model.nearcal").predict(frame[:50]).mean(), results[0])


def test_a_killed_worker_changes_nothing(setting, expected, cluster, tmp_path):
    """The first to come to the fifth partition dies there, and takes with it what it has."""
    died, new = tmp_path / "died", setting.new  # what a worker can unpickle: it knows no tests

    def read(start):
        if start == 120 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return new[start : start + 30]

    frame = dask.from_map(read, range(0, 300, 30), meta=new[:0])
    assert_equal(nc.dask.predict(setting.path, frame, reliability=True).compute(), expected)
    assert died.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coverage": 90}, "coverage must lie strictly between 0 and 1, got 90"),
        ({"mean": False, "std": False, "coverage": (), "trust": False}, "leave nothing to predict"),
        ({"quantiles": (0.1, 0.1 + 1e-14)}, "would have the same name"),
        ({"keep": ["nothing"]}, "frame must have the column 'nothing'"),
    ],
)
def test_wrong_options_are_refused_at_once(options, message, setting):
    with pytest.raises((nc.InvalidInputError, nc.InvalidParameterError), match=message):
        nc.dask.predict(setting.path, in_parts(setting.new, [300]), **options)


def test_wrong_arguments_are_refused_at_once(setting, tmp_path):
    from dask import array

    parts = in_parts(setting.new, [300])
    wrong = [
        ((setting.path, parts.drop(columns="x1")), "frame must have the column 'x1'"),
        ((setting.path, parts.assign(x1="a")), "column 'x1' must hold numbers"),
        ((setting.path, array.zeros((3, 2))), "an array has no names of columns"),
        ((setting.path, setting.new), "frame must be a dask DataFrame"),
        ((nc.VarianceScaling(), parts), "model must be the path of a saved model, or a CalibratedModel"),
    ]
    for arguments, message in wrong:
        with pytest.raises(nc.InvalidInputError, match=message):
            nc.dask.predict(*arguments).compute(scheduler="synchronous")  # of text, nothing tells before
    nc.save(nc.VarianceScaling().fit(nc.Normal([0.0, 0.0], 2.0), [-1.0, 1.0]), tmp_path / "it")
    with pytest.raises(nc.InvalidInputError, match="does not say what columns it takes"):
        nc.dask.predict(tmp_path / "it", parts)
    with pytest.raises(nc.InvalidInputError, match="y must name the column"):
        nc.dask.calibrate(COLUMNS, parts, "nothing")
