"""Choose the backend of Keras, add the options of the fuzzers, and keep compiled kernels apart by their sources.

Numba compiles a kernel again when its own file changes, but not when a function it calls in another file does: after an
edit, tests would go on running the old code.
"""

import gc
import hashlib
import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent

os.environ.setdefault("KERAS_BACKEND", "torch")  # Keras reads it when it is imported
# OpenMP's threads wait for one another actively: two test workers on two processors would slow down tenfold. NumPy's
# BLAS reads it as well, and may be imported as soon as other conftest.py are
os.environ.setdefault("OMP_NUM_THREADS", "1")


def _keep_kernels_apart():
    """Point numba to a cache named after the kernels' sources, and drop those of earlier states."""
    sources = sorted((ROOT / "src/nearcal/kernels").glob("*.py"))
    sources.append(ROOT / "src/nearcal/_normal_scores.py")  # whose constants are compiled in
    state = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    caches = ROOT / ".pytest_cache" / "numba"
    for old in caches.glob("*"):
        if old.name != state:
            shutil.rmtree(old, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = str(caches / state)


_keep_kernels_apart()  # before anything is imported: numba reads it then, and other conftest.py import it


def pytest_addoption(parser):
    """Say how hard tests/fuzz tries, and where it starts."""
    group = parser.getgroup("fuzz", "random attacks of tests/fuzz")
    group.addoption("--fuzz", type=int, default=1, metavar="N", help="N times as many cases (default 1)")
    group.addoption("--fuzz-seed", type=int, default=0, metavar="SEED", help="other cases (default 0)")
    group.addoption("--fuzz-case", type=int, metavar="NUMBER", help="this case alone")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no rubbish among what tests import, a million objects that stay: neither while it comes nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Forget the classes that examples make savable: tests that run after them count all there are."""
    if not isinstance(item, pytest.DoctestItem):
        return (yield)
    from nearcal import _saved

    try:
        return (yield)
    finally:
        for name, cls in _saved.savable_classes().items():
            if getattr(sys.modules[cls.__module__], cls.__name__, None) is not cls:  # not one of a module's own
                del _saved._CLASSES[name]


def pytest_terminal_summary(terminalreporter, config):
    """Print cases and defects by subject where many were asked for."""
    if config.getoption("--fuzz") == 1:
        return
    rows = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == "fuzz"
    ]
    terminalreporter.section(f"fuzz, seed {config.getoption('--fuzz-seed')}")
    for subject, cases, defects in sorted(rows):
        terminalreporter.line(f"{subject:60} {cases:8} cases {defects:5} defects")
    total = f"{len(rows)} subjects"
    terminalreporter.line(f"{total:60} {sum(row[1] for row in rows):8} cases {sum(row[2] for row in rows):5} defects")
