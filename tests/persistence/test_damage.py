"""A file that is not exactly what was saved gives an error, never a wrong number."""

import os
import pickle

import numpy as np
import pytest
import safetensors.numpy

import nearcal as nc
from tests.persistence.cases import answers


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
    assert len(intact) < 3200
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
