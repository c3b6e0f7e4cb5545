"""Choose the backend of Keras, and keep compiled kernels apart for each state of their sources.

Numba compiles a kernel again when its own file changes, but not when a function it calls in another file does: after an
edit, tests would go on running the old code.
"""

import hashlib
import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parent

os.environ.setdefault("KERAS_BACKEND", "torch")  # Keras reads it when it is imported


def pytest_configure(config):
    """Point numba to a cache named after the kernels' sources, and drop those of earlier states."""
    sources = sorted((ROOT / "src/nearcal/kernels").glob("*.py"))
    sources.append(ROOT / "src/nearcal/_normal_scores.py")  # whose constants are compiled in
    state = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    caches = ROOT / ".pytest_cache" / "numba"
    for old in caches.glob("*"):
        if old.name != state:
            shutil.rmtree(old, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = str(caches / state)
    # OpenMP's threads wait for one another actively: two test workers on two processors would slow down tenfold
    os.environ.setdefault("OMP_NUM_THREADS", "1")
