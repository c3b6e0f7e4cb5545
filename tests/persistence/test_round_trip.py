"""What is loaded gives the same results to the last bit, in this process and in a new one."""

import copy
import hashlib
import json
import os
import pickle
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearcal as nc
from nearcal._saved import savable_classes
from nearcal.persistence import read
from nearcal.persistence._encoding import Decoder, Encoder, import_savable
from tests.persistence.cases import CASES, MODELS, STREAMS, answers, answers_of_stream, calibration_set, local, made

IN_A_NEW_PROCESS = """
import hashlib, sys, nearcal as nc
from tests.persistence.cases import answers
for path in sys.argv[1:]:
    print(hashlib.sha256(answers(nc.load(path))).hexdigest())
"""


@pytest.fixture(scope="module")
def fitted():
    return {name: made(name) for name in CASES}


@pytest.fixture(scope="module")
def told(fitted):
    """Return the answers of what was fitted under a name, asked for once."""
    return cache(lambda name: answers(fitted[name]))


@pytest.mark.parametrize("name", CASES)
def test_results_are_the_same_to_the_last_bit(name, fitted, told, tmp_path):
    nc.save(fitted[name], tmp_path / "it.nearcal")
    loaded = nc.load(tmp_path / "it.nearcal")
    assert type(loaded) is type(fitted[name])
    if {"members", "inner"} & set(loaded.get_params()):  # which are recalibrators, that equal only themselves
        assert repr(loaded) == repr(fitted[name])
    else:
        assert loaded.get_params() == fitted[name].get_params()
    assert answers(loaded) == told(name)
    # what was loaded is as good as what was fitted: it can be saved, copied and pickled in turn
    nc.save(loaded, tmp_path / "again.nearcal")
    assert (tmp_path / "again.nearcal").read_bytes() == (tmp_path / "it.nearcal").read_bytes()
    assert answers(copy.deepcopy(loaded)) == answers(pickle.loads(pickle.dumps(loaded))) == told(name)


@pytest.mark.parametrize("name", MODELS)
def test_models_come_back_with_all_they_know(name, tmp_path):
    model = made(name)
    nc.save(model, tmp_path / "it")
    loaded = nc.load(tmp_path / "it")
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(model)
    assert answers(loaded.recalibrator) == answers(model.recalibrator)
    assert str(loaded.tuning) == str(model.tuning)
    nc.save(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "it").read_bytes()


@pytest.mark.parametrize("name", STREAMS)
def test_streams_go_on_to_the_last_bit(name, tmp_path):
    stream = STREAMS[name]()
    nc.save(stream, tmp_path / "it")
    loaded = nc.load(tmp_path / "it")
    assert repr(loaded) == repr(stream)
    nc.save(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "it").read_bytes()
    copied, pickled = copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))
    assert len({answers_of_stream(one) for one in (stream, loaded, copied, pickled)}) == 1


def test_every_savable_class_stands_in_a_case(fitted):
    import_savable()
    encoder = Encoder()
    for value in [*fitted.values(), *map(made, MODELS | STREAMS)]:
        encoder.encode(value, "it")
    ours = {name for name, cls in savable_classes().items() if cls.__module__.startswith("nearcal.")}
    assert {item["class"] for item in encoder.objects} == ours


def test_every_load_gives_the_same_inverted_file(fitted, tmp_path):
    """It is built through pointers: an array freed too early shows in a few loads of a hundred."""
    nc.save(fitted["faiss"], tmp_path / "it")
    assert {answers(nc.load(tmp_path / "it")) for _ in range(100)} == {answers(fitted["faiss"])}


def test_results_are_the_same_in_a_new_process(fitted, told, tmp_path):
    paths = [tmp_path / str(i) for i in range(len(fitted))]
    for path, recalibrator in zip(paths, fitted.values(), strict=True):
        nc.save(recalibrator, path)
    command = [sys.executable, "-c", IN_A_NEW_PROCESS, *map(str, paths)]
    found_in = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(found_in)}
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split()
    expected = {name: hashlib.sha256(told(name)).hexdigest() for name in fitted}
    assert dict(zip(fitted, found, strict=True)) == expected


def test_parameters_changed_after_the_fit_are_saved_as_they_are_and_wait_for_the_next(tmp_path):
    changed = CASES["boxes"]()
    before = answers(changed)
    changed.set_params(k=7000, smoothing="uniform", scaling="whiten", metric="cosine", quantile_rule="predictive")
    assert answers(changed) == before
    nc.save(changed, tmp_path / "it")
    loaded = nc.load(tmp_path / "it")
    assert loaded.get_params() == changed.get_params()
    assert answers(loaded) == before
    with pytest.raises(nc.InvalidParameterError, match="k must be at most the number of calibration points, 700"):
        loaded.fit(*calibration_set())


def test_functions_and_generators_come_back_as_defaults(tmp_path):
    nc.save(local(1, k=5, workers=nc.Workers(threads=2, progress=print))(), tmp_path / "local")
    assert nc.load(tmp_path / "local").workers == nc.Workers(threads=2)
    network = CASES["QuantileNetRecalibrator"]().set_params(rng=np.random.default_rng(1))
    nc.save(network, tmp_path / "network")
    assert nc.load(tmp_path / "network").rng is None
    assert nc.load(tmp_path / "network").epochs == 2


def test_how_it_was_tuned_is_kept(tmp_path):
    table = nc.Table({"space": ["layer 1", "日本 <b>"], "k": [10, 20], "crps": [0.5, np.nan], "chosen": [True, False]})
    tuning = {"reason": "the best of 2", "table": table, "settings": (1, None, [0.1, -np.inf])}
    nc.save(CASES["VarianceScaling"](), tmp_path / "it", tuning=tuning)
    artefact = read(tmp_path / "it")
    assert artefact.version == nc.__version__
    found = artefact.tuning
    assert {name: found[name] for name in ("reason", "settings")} == {n: tuning[n] for n in ("reason", "settings")}
    assert type(found["table"]) is nc.Table
    assert str(found["table"]) == str(table)
    assert [column.dtype for column in found["table"].columns.values()] == [c.dtype for c in table.columns.values()]


def test_what_tune_returns_can_be_kept_with_what_it_chose(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(1, 3, size=(300, 1))
    y, dist = rng.normal(x[:, 0], x[:, 0]), nc.Normal(x[:, 0], 1.0)
    tuning = nc.tune(dist, y, {"input": x})
    nc.save(tuning.recalibrator, tmp_path / "it", tuning=tuning)
    found = read(tmp_path / "it")
    assert type(found.tuning) is nc.Tuning
    assert found.tuning.chosen == tuning.chosen
    assert str(found.tuning) == str(tuning)
    assert str(found.tuning.evidence) == str(tuning.evidence)
    assert repr(found.content) == repr(tuning.recalibrator)
    assert found.tuning.recalibrator is found.content  # held twice, saved once


def test_an_object_held_twice_is_saved_once():
    held = CASES["line"]().index_
    encoder = Encoder()
    node = encoder.encode([held, (held, {"x.y": {"z": held.x}, "x": {"y.z": held.ids}})], "it")
    assert list(encoder.arrays) == ["it.0.x", "it.0.ids", "it.1.1.x.y.z", "it.1.1.x.y.z'"]
    first, (second, named) = Decoder(encoder.objects, encoder.arrays).decode(node)
    assert first is second
    np.testing.assert_array_equal(named["x.y"]["z"], held.x)
    np.testing.assert_array_equal(named["x"]["y.z"], held.ids)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values) | st.lists(values).map(tuple) | st.dictionaries(st.text(), values),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(plain)
def test_plain_values_come_back_as_they_were(value):
    node = json.loads(json.dumps(Encoder().encode(value, "it"), allow_nan=False))
    assert repr(Decoder([], {}).decode(node)) == repr(value)  # repr: NaN, -0.0, True and 1 are told apart
