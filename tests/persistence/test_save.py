"""Saving replaces a file as a whole or not at all, and refuses what it cannot save."""

import os
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

import nearcal as nc
from tests.persistence.cases import answers, local

# saves over a file and is killed by itself: when half is written, when all is, and when the name is about to change
KILLED = """
import os, pathlib, signal, sys, nearcal as nc
from nearcal.persistence import _artefact

def die(*ignored):
    os.kill(os.getpid(), signal.SIGKILL)

path, moment = sys.argv[1:]
if moment == "half":
    write = _artefact.write_file
    class Half:
        def __init__(self, file):
            self.file = file
        def write(self, part):
            self.file.write(bytes(part)[: len(part) // 2])
            self.file.flush()
            die()
    _artefact.write_file = lambda file, *rest: write(Half(file), *rest)
elif moment == "written":
    os.fsync = die
else:
    pathlib.Path.replace = die
nc.save(nc.VarianceScaling().fit(nc.Normal([0.0, 0.0], 2.0), [-1.0, 1.0]), path)
"""

# saves one of two recalibrators in turn over the same file, until it is killed
ENDLESS = """
import sys, nearcal as nc
one, other = nc.load(sys.argv[1]), nc.load(sys.argv[2])
while True:
    nc.save(one, sys.argv[3])
    nc.save(other, sys.argv[3])
"""


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("moment", ["half", "written", "renaming"])
def test_killed_while_saving(moment, tmp_path):
    fitted = local(1, 50, k=5)()
    nc.save(fitted, tmp_path / "it")
    before = (tmp_path / "it").read_bytes()
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "it"), moment], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "it").read_bytes() == before
    assert answers(nc.load(tmp_path / "it")) == answers(fitted)
    assert len(list(tmp_path.glob(".nearcal-*.tmp"))) == 1  # what the killed process left is in nobody's way
    other = local(1, 60, k=5)()
    nc.save(other, tmp_path / "it")
    assert answers(nc.load(tmp_path / "it")) == answers(other)


def test_loading_while_another_process_saves_and_is_killed(tmp_path):
    recalibrators = [local(3, n, k=5)() for n in (20_000, 30_000)]
    for i, recalibrator in enumerate(recalibrators):
        nc.save(recalibrator, tmp_path / str(i))
    expected = [answers(recalibrator) for recalibrator in recalibrators]
    path = tmp_path / "it"
    command = [sys.executable, "-c", ENDLESS, str(tmp_path / "0"), str(tmp_path / "1"), str(path)]
    with subprocess.Popen(command) as process:
        try:
            until = time.monotonic() + 60
            while not path.exists():
                assert time.monotonic() < until
                time.sleep(0.01)
            held = nc.load(path)
            found = {expected.index(answers(nc.load(path))) for _ in range(40)}
            assert found == {0, 1}
            assert answers(held) in expected  # the file behind it was replaced many times
        finally:
            process.kill()
    assert answers(nc.load(path)) in expected


def test_an_error_while_saving_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    fitted = local(1, 50, k=5)()
    nc.save(fitted, tmp_path / "it")
    before = (tmp_path / "it").read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        nc.save(local(1, 60, k=5)(), tmp_path / "it")
    assert (tmp_path / "it").read_bytes() == before
    assert names(tmp_path) == ["it"]


@pytest.fixture
def umask():
    old = os.umask(0o027)
    yield
    os.umask(old)


def test_permissions_and_links(umask, tmp_path):
    fitted = local(1, 50, k=5)()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "it")  # to a file that is not there yet
    nc.save(fitted, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE((tmp_path / "real" / "it").stat().st_mode) == 0o640
    (tmp_path / "real" / "it").chmod(0o604)
    nc.save(fitted, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE((tmp_path / "real" / "it").stat().st_mode) == 0o604
    assert names(tmp_path / "real") == ["it"]
    assert answers(nc.load(str(tmp_path / "link"))) == answers(fitted)


def test_a_relative_path_and_the_longest_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted = local(1, 50, k=5)()
    for name in ("it", "n" * 255, "über 模型.nearcal"):
        nc.save(fitted, name)
        assert answers(nc.load(name)) == answers(fitted)


def test_paths_that_are_no_place_for_a_file(tmp_path):
    fitted = local(1, 50, k=5)()
    with pytest.raises(
        nc.ArtefactError, match=r"path must lie in an existing directory, got .*missing/it; create .*missing"
    ):
        nc.save(fitted, tmp_path / "missing" / "it")
    with pytest.raises(
        nc.ArtefactError, match=r"path must be a file, new or to be replaced, got .* which is a directory"
    ):
        nc.save(fitted, tmp_path)
    with pytest.raises(nc.ArtefactError, match="which is no regular file"):
        nc.save(fitted, os.devnull)
    for use in (lambda path: nc.save(fitted, path), nc.load):
        with pytest.raises(nc.InvalidInputError, match="path must be a string or a path, got int"):
            use(3)
    assert names(tmp_path) == []


class Mine(nc.LocalRecalibrator):
    pass


def test_what_cannot_be_saved_is_refused(tmp_path):
    fitted = local(1, 50, k=5)()
    refused = {
        "str": "model.nearcal",  # arguments the wrong way round
        "type": nc.LocalRecalibrator,
        "Recalibrated": fitted.recalibrate(nc.Normal(0.0, 1.0), [0.0]),
        "Mine": Mine(k=3),
        "GPBetaRecalibrator; its model belongs to netcal and could only be pickled": nc.GPBetaRecalibrator(),
    }
    for got, obj in refused.items():
        with pytest.raises(nc.InvalidInputError, match=f"obj must be a fitted recalibrator .*LocalRecal.* got {got}"):
            nc.save(obj, tmp_path / "it")
    with pytest.raises(nc.NotFittedError, match="this LocalRecalibrator is not fitted"):
        nc.save(nc.LocalRecalibrator(k=3), tmp_path / "it")
    for value, got in {"set": {1}, "dict": {1: 2}, "complex": 1j}.items():
        with pytest.raises(nc.InvalidInputError, match=rf"tuning\.0 must be made of numbers, .* got {value}"):
            nc.save(fitted, tmp_path / "it", tuning=[got])
    with pytest.raises(nc.InvalidInputError, match="got an array of 1 dimensions and dtype object"):
        nc.save(fitted, tmp_path / "it", tuning=nc.Table({"a": np.array([1, None])}))
    with pytest.raises(nc.InvalidInputError, match=r"LocalRecalibrator\.parameters\.k must be made of"):
        nc.save(fitted.set_params(k=1j), tmp_path / "it")
    assert names(tmp_path) == []
