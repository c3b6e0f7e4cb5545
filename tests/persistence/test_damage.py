"""A file that is not exactly what was saved gives an error, never a wrong number."""

import os
import pickle

import numpy as np
import pytest
import safetensors.numpy

import nearcal as nc
from nearcal.persistence._file import read_file, write_file
from tests.persistence.cases import CASES, answers, local


@pytest.fixture(scope="module")
def small():
    return local(1, 20, k=5)()


@pytest.fixture
def saved(small, tmp_path):
    nc.save(small, tmp_path / "it")
    return tmp_path / "it"


def overwrite(file, place, byte):
    file.seek(place)
    file.write(bytes([byte]))


def is_refused(path, verify=True):
    try:  # thousands of times: pytest.raises would take most of the time
        nc.load(path, verify=verify)
    except nc.ArtefactError:
        return True
    return False


def test_every_byte_matters(small, saved):
    """Every byte flipped in turn: all of its bits, the lowest, and the one between a and A."""
    intact = saved.read_bytes()
    assert len(intact) < 3000
    with saved.open("r+b", buffering=0) as file:
        for i, byte in enumerate(intact):
            for flip in (0xFF, 0x01, 0x20):
                overwrite(file, i, byte ^ flip)
                assert is_refused(saved), (i, flip)
            overwrite(file, i, byte)
    assert answers(nc.load(saved)) == answers(small)


def test_every_truncation_and_every_addition_is_noticed(saved):
    intact = saved.read_bytes()
    for size in reversed(range(len(intact))):
        os.truncate(saved, size)
        assert is_refused(saved), size
        os.truncate(saved, len(intact))  # zeros at the end: what a crash may leave of a file as it grows
        assert is_refused(saved) == any(intact[size:]), size
    saved.write_bytes(intact + b"\0")
    with pytest.raises(nc.ArtefactError, match=r"damaged: it has \d+ bytes, it should have \d+; restore it"):
        nc.load(saved)


def test_without_verification_only_the_arrays_go_unchecked(saved):
    intact = saved.read_bytes()
    end = 8 + int.from_bytes(intact[:8], "little")
    with saved.open("r+b", buffering=0) as file:
        for i, byte in enumerate(intact[:end]):
            overwrite(file, i, byte ^ 1)
            assert is_refused(saved, verify=False), i
            overwrite(file, i, byte)
        overwrite(file, end, intact[end] ^ 1)
    assert isinstance(nc.load(saved, verify=False), nc.LocalRecalibrator)


def test_messages_say_what_is_wrong(saved):
    intact = saved.read_bytes()
    for change, message in {
        "older": (
            intact.replace(b'format":"2"', b'format":"1"'),
            "has format 1 of an older nearcal, this version reads format 2 alone; fit and save again",
        ),
        "newer": (
            intact.replace(b'format":"2"', b'format":"3"'),
            "has format 3, this version of nearcal reads up to 2",
        ),
        "much newer": (intact.replace(b'format":"2"', b'format":"17"'), "has format 17.* install a newer nearcal"),
        "no format": (intact.replace(b'format":"2"', b'format":"x"'), "its header is not that of any known format"),
        "cut": (intact[:-1], "is damaged: it has"),
        "cut in the header": (intact[:300], "is damaged: its end is missing; restore it from a copy, or fit and save"),
        "header": (intact.replace(b"euclidean", b"euclidian"), "its header does not match its checksum"),
        "arrays": (intact[:-1] + b"\xff", "its arrays do not match their checksum"),
    }.values():
        saved.write_bytes(change)
        with pytest.raises(nc.ArtefactError, match=message):
            nc.load(saved)
        with pytest.raises(nc.ArtefactError, match=str(saved)):
            nc.load(saved)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "it"
    safetensors.numpy.save_file({"weights": np.arange(3.0)}, path, {"format": "pt"})
    foreign = {"safetensors": path.read_bytes(), "empty": b"", "text": b"model\n" * 50, "noise": os.urandom(5000)}
    foreign["pickle"] = pickle.dumps(nc.LocalRecalibrator(k=3))
    for content in foreign.values():
        path.write_bytes(content)
        for verify in (True, False):
            with pytest.raises(nc.ArtefactError, match=r"is not a file written by nearcal.save"):
                nc.load(path, verify=verify)
    with pytest.raises(nc.ArtefactError, match="no regular file"):
        nc.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(nc.ArtefactError, match="no regular file"):
        nc.load(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError, match="missing"):
        nc.load(tmp_path / "missing")


def forge(path, change):
    """Change a file and make its checksums fit."""
    manifest, arrays = read_file(path, verify=True)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change({item["class"]: item for item in manifest["objects"]}, arrays)
    forged = path.with_name("forged")
    with forged.open("wb") as file:
        write_file(file, manifest, arrays)
    return forged


def test_a_forgery_without_change_loads(small, saved):
    assert answers(nc.load(forge(saved, lambda objects, arrays: None))) == answers(small)


@pytest.mark.parametrize("name", ["line", "boxes", "brute", "faiss", "kdtree"])
def test_what_compiled_code_relies_on_is_checked_even_in_a_forgery(name, tmp_path):
    nc.save(CASES[name](), tmp_path / "it")
    arrays = read_file(tmp_path / "it", verify=True)[1]

    def refused(change):
        with pytest.raises(nc.ArtefactError, match="does not hold what nearcal can load"):
            nc.load(forge(tmp_path / "it", change))

    for key, array in arrays.items():
        if key.endswith("center") and "space_map" in key:
            continue  # of no use without scaling
        refused(lambda objects, arrays, key=key: arrays.update({key: arrays[key][:-1]}))
        refused(lambda objects, arrays, key=key: arrays.update({key: arrays[key].astype(np.float16)}))
        refused(lambda objects, arrays, key=key: arrays.pop(key))
        if array.dtype == np.int32:
            for number in (-1, 10**6):
                refused(lambda objects, arrays, key=key, number=number: arrays[key].__setitem__(-1, number))
        if key.endswith((".x", ".leaves", ".placed")):
            refused(lambda objects, arrays, key=key: arrays[key].__setitem__(0, np.nan))


def change_class(objects, arrays):
    objects["SortedLine"]["class"] = "Popen"


def change_kind(objects, arrays):
    objects["SortedLine"]["class"] = "Table"


def add_parameter(objects, arrays):
    objects["LocalRecalibrator"]["holds"]["parameters"]["dict"]["q"] = 3


def forget_size(objects, arrays):
    del objects["LocalRecalibrator"]["holds"]["learnt"]["dict"]["n_cal_"]


def change_size(objects, arrays):
    objects["LocalRecalibrator"]["holds"]["learnt"]["dict"]["n_cal_"] = 30


def add_code(objects, arrays):
    objects["LocalRecalibrator"]["holds"]["parameters"]["dict"]["k"] = {"eval": "1"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_class, "holds a 'Popen', which this version of nearcal does not know"),
        (change_kind, "columns"),
        (add_parameter, "'q'"),
        (forget_size, "not fitted"),
        (change_size, "n_cal_ points"),
        (add_code, "eval"),
    ],
)
def test_other_forgeries_are_refused(change, message, saved):
    with pytest.raises(nc.ArtefactError, match=message):
        nc.load(forge(saved, change))
