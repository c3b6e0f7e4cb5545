"""How kernels are compiled."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numba as nb

from nearcal import _normal_scores
from nearcal.kernels import compile as compiling


def test_kernels_work_where_nothing_can_be_written():
    """A read-only installation and no home: numba then refuses to cache and raises, when the kernel is decorated."""
    code = """
import numpy as np
from numba.core.caching import CacheImpl
CacheImpl._locator_classes = []
from nearcal.kernels.weights import UNIFORM, weigh
print(weigh(np.array([0, 2]), np.array([1.0, 2.0]), np.array([2.0]), UNIFORM)[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[0.5 0.5]", done.stderr


def test_kernels_are_compiled_for_the_present_sources():
    """Numba does not see edits of a function in another file: ``conftest.py`` keeps a cache for each state."""
    sources = sorted(Path(compiling.__file__).parent.glob("*.py"))
    sources.append(Path(_normal_scores.__file__))
    state = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    assert Path(os.environ["NUMBA_CACHE_DIR"]).name == state


def test_kernels_give_the_same_bits_compiled_and_loaded(tmp_path):
    """Sums in vector lanes had two copies, with different lanes."""
    code = """
import numpy as np
from nearcal.kernels.summary import weighted_moments
from nearcal.kernels.weights import EPANECHNIKOV, weigh
rng = np.random.default_rng(0)
lengths = np.arange(300)
indptr = np.concatenate([[0], np.cumsum(lengths)])
indices, distances = rng.integers(0, 700, indptr[-1]).astype(np.int32), rng.random(indptr[-1])
moments = weighted_moments(indptr, indices, distances, rng.normal(size=700))
for part in weigh(indptr, distances, np.ones(300), EPANECHNIKOV) + moments:
    print(part.tobytes().hex())
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    compiled, loaded = (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True, timeout=120, env=environment
        ).stdout
        for _ in range(2)
    )
    assert compiled == loaded


def test_functions_without_a_module_compile_beside_kernels():
    """The listener that spares garbage collection sees the compilation of everybody's functions."""
    made = {}
    exec("def double(x): return 2 * x", {"__name__": None}, made)
    assert made["double"].__module__ is None
    assert nb.njit(made["double"])(21) == 42
