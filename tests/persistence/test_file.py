"""The file is a safetensors file, its arrays are used where they lie, and they lie where kernels want them."""

import mmap
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import nearcal as nc
from nearcal.persistence._file import read_file, write_file
from tests.persistence.cases import CASES, answers


def owner(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


@pytest.mark.parametrize("name", ["line", "boxes", "brute", "whitening", "QuantileNetRecalibrator", "VarianceScaling"])
def test_the_safetensors_library_reads_the_same_arrays(name, tmp_path):
    nc.save(CASES[name](), tmp_path / "it")
    ours, theirs = read_file(tmp_path / "it", verify=True)[1], safetensors.numpy.load_file(tmp_path / "it")
    assert ours.keys() == theirs.keys()
    for key, array in theirs.items():
        assert (ours[key].dtype, ours[key].shape) == (array.dtype, array.shape)
        assert ours[key].tobytes() == array.tobytes()


def test_arrays_are_mapped_read_only_and_aligned(tmp_path):
    nc.save(CASES["brute"](), tmp_path / "it")
    blocks = nc.load(tmp_path / "it").index_.blocks
    for array in blocks[:-1]:
        assert isinstance(owner(array), mmap.mmap)
        assert array.flags.aligned
        assert array.flags.c_contiguous
        assert not array.flags.writeable
    assert blocks.strips.ctypes.data % 64 == 0  # a cache line
    assert blocks.sample_strips.ctypes.data % 64 == 0


def test_a_load_takes_no_memory_for_large_arrays(tmp_path):
    """A file of 80 MB, of which a load without verification needs the scores of 5,000 points."""
    rng = np.random.default_rng(0)
    space = rng.normal(size=(5000, 1600))
    rc = nc.LocalRecalibrator(k=10).fit(nc.Normal(space[:, 0], 1.0), space[:, 1], space)
    nc.save(rc, tmp_path / "it")
    assert (tmp_path / "it").stat().st_size > 80e6
    kept = {}
    for verify in (False, True):
        before = anonymous_memory()
        kept[verify] = nc.load(tmp_path / "it", verify=verify)
        assert anonymous_memory() - before < 8e6


def anonymous_memory():
    """Bytes of memory that belong to this process alone: mapped files do not count."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("needs Linux's /proc")
    (line,) = [line for line in status.read_text().splitlines() if line.startswith("RssAnon")]
    return 1024 * int(line.split()[1])


def test_a_copy_in_memory_outlives_the_file(tmp_path):
    """A mapped file that is cut where it is kills whoever uses it; one that was read does not need it any more."""
    path = tmp_path / "it"
    rc = CASES["brute"]()
    nc.save(rc, path)
    loaded = nc.load(path, mmap=False)
    blocks = loaded.index_.blocks
    assert not any(isinstance(owner(array), mmap.mmap) or array.flags.writeable for array in blocks[:-1])
    assert blocks.strips.ctypes.data % 64 == 0
    path.write_bytes(b"")
    assert answers(loaded) == answers(rc)


@pytest.mark.parametrize(
    "array",
    [
        np.array(3.5),
        np.empty((0, 4), np.float32),
        np.arange(24.0).reshape(2, 3, 4)[:, ::2, 1:],
        np.arange(5, dtype=">i4"),
        np.array([True, False]),
        np.arange(3, dtype=np.uint8),
        np.array([np.nan, -0.0, np.inf], np.float16),
    ],
    ids=lambda array: f"{array.dtype.str} {array.shape}",
)
def test_any_array_of_numbers_comes_back(array, tmp_path):
    arrays = {"odd": np.arange(3, dtype=np.int8), "it": array, "lines": np.arange(16.0)}
    with (tmp_path / "it").open("wb") as file:
        write_file(file, {}, arrays)
    for name, found in read_file(tmp_path / "it", verify=True)[1].items():
        assert found.shape == arrays[name].shape
        assert found.dtype == arrays[name].dtype.newbyteorder("<")
        np.testing.assert_array_equal(found, arrays[name])
        assert found.flags.aligned
